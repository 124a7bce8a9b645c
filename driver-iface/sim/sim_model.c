#include "driver-iface/sim/sim_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LAYERS_MAX 64
#define HIDDEN_MAX 2048
#define BATCH_MAX 512
#define TILE 128
#define TRIPS_BASE_MAX 4096 /* trips of any model's loop at repeat 1 */

static const struct sim_model *const models[] = {&sim_model_mlp, &sim_model_attention, &sim_model_allreduce};

const struct sim_model *sim_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (!strcmp(name, models[i]->name))
            return models[i];
    return NULL;
}

int sim_model_check(const struct sim_model_options *o, struct kymo_err *err)
{
    if (o->layers < 1 || o->layers > LAYERS_MAX)
        return kymo_err_set(err, -EINVAL, "layers must be 1 to %d, not %u", LAYERS_MAX, o->layers);
    if (o->hidden < TILE || o->hidden > HIDDEN_MAX || o->hidden % TILE)
        return kymo_err_set(err, -EINVAL, "hidden must be a multiple of %d up to %d, not %u", TILE, HIDDEN_MAX,
                            o->hidden);
    if (o->batch < TILE || o->batch > BATCH_MAX || o->batch % TILE)
        return kymo_err_set(err, -EINVAL, "batch must be a multiple of %d up to %d, not %u", TILE, BATCH_MAX, o->batch);
    if (o->repeat < 1 || o->repeat > INT32_MAX / TRIPS_BASE_MAX)
        return kymo_err_set(err, -EINVAL, "repeat must be 1 to %d, not %u", INT32_MAX / TRIPS_BASE_MAX, o->repeat);
    return 0;
}

/* Names follow facts neff.md 2.7; how many rings each set has is G. */
struct sim_model_queues sim_model_add_queues(struct sim_program *p)
{
    struct sim_model_queues q = {
        .in = sim_program_queue(p, "qSyncIO0", "in", KYMO_ENGINE_SYNC, 4),
        .out = sim_program_queue(p, "qSyncIO1", "out", KYMO_ENGINE_SYNC, 4),
        .weights = sim_program_queue(p, "qScalarWeights0", "data", KYMO_ENGINE_SCALAR, 8),
        .spill = sim_program_queue(p, "qVectorSpillReload0", "data", KYMO_ENGINE_VECTOR, 4),
        .vector_out = sim_program_queue(p, "qVectorIO0", "out", KYMO_ENGINE_VECTOR, 2),
        .software_dge = sim_program_queue(p, "qGpSimdDynamicSW", "dynamic", KYMO_ENGINE_GPSIMD, 16),
    };
    q.sync_dge = q.in;
    q.scalar_dge = q.weights;
    if (sim_program_arch(p)->hardware_dge) {
        q.sync_dge = sim_program_queue(p, "qSyncDynamicHW", "dynamic", KYMO_ENGINE_SYNC, 16);
        q.scalar_dge = sim_program_queue(p, "qScalarDynamicHW", "dynamic", KYMO_ENGINE_SCALAR, 16);
    }
    return q;
}

struct sim_operand sim_model_at(struct sim_buf b, uint32_t first, uint16_t count, uint8_t dtype)
{
    return (struct sim_operand){.buf = b, .offset = first * kymo_dtype_bits(dtype) / 8, .dtype = dtype, .count = count};
}

struct sim_operand sim_model_bank(struct sim_program *p, unsigned *turn, uint16_t count)
{
    return sim_model_at(sim_program_psum(p, (*turn)++), 0, count, KYMO_DT_FP32);
}

void sim_model_move(struct sim_program *p, unsigned queue, bool store, struct sim_buf var, uint32_t var_offset,
                    struct sim_operand chip)
{
    struct sim_transfer_spec t = {
        .queue = queue, .store = store, .var = var, .var_offset = var_offset, .chip = chip, .partitions = TILE};
    sim_emit_transfer(p, &t);
}

/* What a compiler writes beside the HLO instructions of these kinds. */
static const struct {
    const char *op, *key, *value;
} hlo_attrs[] = {
    {"dot", "lhs_contracting_dims", "{1}"},
    {"transpose", "dimensions", "{1,0}"},
    {"iota", "iota_dimension", "0"},
};

void sim_model_scope(struct sim_program *p, const char *model, unsigned layer, const char *step, const char *op,
                     int line)
{
    char framework[SIM_NAME_MAX], hlo[SIM_NAME_MAX], penguin[SIM_NAME_MAX];
    (void)snprintf(framework, sizeof framework, "%s/Layer[%u]/%s/%s", model, layer, step, op);
    (void)snprintf(hlo, sizeof hlo, "%s.%u", op, layer * 32 + (unsigned)line);
    (void)snprintf(penguin, sizeof penguin, "%s_%s_%u", step, op, layer);
    char file[SIM_NAME_MAX];
    (void)snprintf(file, sizeof file, "/opt/model/%s.py", model);
    struct sim_scope scope = {.framework = framework, .hlo = hlo, .penguin = penguin, .file = file, .line = line};
    for (size_t i = 0; i < sizeof hlo_attrs / sizeof *hlo_attrs; i++)
        if (!strcmp(op, hlo_attrs[i].op)) {
            scope.hlo_attr_key = hlo_attrs[i].key;
            scope.hlo_attr_value = hlo_attrs[i].value;
        }
    sim_program_scope(p, &scope);
}
