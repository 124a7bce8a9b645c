/* Members of one subgraph: def.json, the engines' JSON and code, constants (facts: neff.md 1.4, 1.6, 1.7). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "driver-iface/sim/sim_program_internal.h"
#include "formats/neff/neff_writer.h"

#define NAME_MAX_BYTES 160
#define STATE_BUFFER "state_buffer_0"

static const char *const stems[KYMO_ENGINE_MAX] = {
    [KYMO_ENGINE_TENSOR] = "PE",  [KYMO_ENGINE_SCALAR] = "Activation", [KYMO_ENGINE_GPSIMD] = "Pool",
    [KYMO_ENGINE_VECTOR] = "DVE", [KYMO_ENGINE_SYNC] = "SP",
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "out of memory");
}

static json_t *make_queues(const struct sim_program *p, bool *failed)
{
    json_t *queues = json_object();
    for (unsigned i = 0; i < p->queue_count; i++) {
        const struct queue *q = &p->queues[i];
        json_t *v = json_pack("{s:s,s:s,s:i}", "type", q->type, "owner", kymo_engine_neff(q->owner), "num_queues",
                              (int)q->num_queues);
        sim_json_put(failed, queues, q->name, v);
    }
    return queues;
}

static json_t *make_vars(const struct sim_program *p, bool *failed)
{
    json_t *vars = json_object();
    json_int_t state = (json_int_t)p->arch->sbuf_partitions * p->arch->sbuf_partition_bytes;
    sim_json_put(
        failed, vars, STATE_BUFFER,
        json_pack("{s:s,s:i,s:I}", "type", "state-buffer", "var_id", (int)SIM_STATE_BUFFER_VAR, "size", state));
    for (size_t i = 0; i < p->var_count; i++) {
        const struct var *v = &p->vars[i];
        json_t *o = json_pack("{s:s,s:I,s:I,s:i,s:s}", "type", v->type, "var_id", (json_int_t)i + SIM_FIRST_VAR, "size",
                              (json_int_t)v->bytes, "alignment", 64, "dtype", v->dtype);
        sim_json_put(failed, o, "shape", json_loads(v->shape, 0, NULL));
        if (!strcmp(v->type, "file")) {
            char file[NAME_MAX_BYTES];
            (void)snprintf(file, sizeof file, "%s.bin", v->name);
            sim_json_put(failed, o, "file_name", json_string(file));
        }
        sim_json_put(failed, vars, v->name, o);
    }
    return vars;
}

static int add_definition(const struct sim_program *p, struct neff_writer *w, const char *dir, struct kymo_err *err)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "%s/def.json", dir);
    json_t *def = json_pack("{s:f}", "version", 0.6);
    bool failed = false;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        char file[NAME_MAX_BYTES];
        (void)snprintf(file, sizeof file, "%s.bin", stems[e]);
        sim_json_put(&failed, def, kymo_engine_neff((enum kymo_engine)e), json_string(file));
    }
    sim_json_put(&failed, def, "dma_queue", make_queues(p, &failed));
    sim_json_put(&failed, def, "var", make_vars(p, &failed));
    sim_program_put_collectives(p, def, &failed);
    sim_json_put(&failed, def, "neff_features", json_array());
    return sim_program_add_json(w, name, def, failed, err);
}

/* HBM rows lie one behind the other, rows of the state buffer one partition apart. */
static json_t *make_side(const struct sim_program *p, const struct block *b, bool chip)
{
    json_int_t step = chip ? (json_int_t)p->arch->sbuf_partition_bytes : (json_int_t)b->row_bytes;
    return json_pack("{s:s,s:I,s:[I,I],s:[I,I]}", "name", chip ? STATE_BUFFER : p->vars[b->var].name, "off",
                     (json_int_t)(chip ? b->chip_offset : b->var_offset), "sizes", (json_int_t)b->row_bytes,
                     (json_int_t)b->rows, "steps", (json_int_t)1, step);
}

static json_t *make_block(const struct sim_program *p, const struct block *b)
{
    json_t *from = make_side(p, b, b->store), *to = make_side(p, b, !b->store);
    json_t *v = json_pack("{s:I,s:s,s:i,s:{s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O}}", "id", (json_int_t)b->id, "queue",
                          p->queues[b->queue].name, "semaphore", (int)b->semaphore, "desc", "from",
                          json_object_get(from, "name"), "from_off", json_object_get(from, "off"), "from_sizes",
                          json_object_get(from, "sizes"), "from_steps", json_object_get(from, "steps"), "to",
                          json_object_get(to, "name"), "to_off", json_object_get(to, "off"), "to_sizes",
                          json_object_get(to, "sizes"), "to_steps", json_object_get(to, "steps"));
    json_decref(from);
    json_decref(to);
    return v;
}

static int add_engine(const struct sim_program *p, struct neff_writer *w, const char *dir, enum kymo_engine e,
                      struct kymo_err *err)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "%s/%s.bin", dir, stems[e]);
    static const uint8_t empty;
    const uint8_t *code = p->streams[e].code;
    int r = neff_writer_add(w, name, code ? code : &empty, p->streams[e].count * KYMO_INSTR_SIZE, err);
    if (r < 0)
        return r;
    json_t *blocks = json_array();
    bool failed = false;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->queues[p->blocks[i].queue].owner == e)
            sim_json_push(&failed, blocks, make_block(p, &p->blocks[i]));
    (void)snprintf(name, sizeof name, "%s/%s.json", dir, stems[e]);
    return sim_program_add_json(w, name, json_pack("{s:o}", "dma", blocks), failed, err);
}

/* Constants are identity matrices of bf16, as far as they go. */
static int add_constant(const struct var *v, struct neff_writer *w, const char *dir, struct kymo_err *err)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "%s/%s.bin", dir, v->name);
    uint8_t *data KYMO_FREE = KYMO_NEW_ARRAY(uint8_t, v->bytes);
    if (!data)
        return no_memory(err);
    for (size_t i = 0; i < 128 && (i * 129 + 1) * 2 <= v->bytes; i++) {
        data[i * 129 * 2] = 0x80;
        data[i * 129 * 2 + 1] = 0x3F;
    }
    return neff_writer_add(w, name, data, v->bytes, err);
}

int sim_program_add_subgraph(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err)
{
    char dir[16];
    (void)snprintf(dir, sizeof dir, "sg%02u", p->sg);
    int r = add_definition(p, w, dir, err);
    for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
        r = add_engine(p, w, dir, (enum kymo_engine)e, err);
    for (size_t i = 0; i < p->var_count && r == 0; i++)
        if (!strcmp(p->vars[i].type, "file"))
            r = add_constant(&p->vars[i], w, dir, err);
    if (r == 0)
        r = sim_program_add_kernels(p, w, err);
    return r == 0 ? sim_program_add_debug(p, w, err) : r;
}
