#include "pipeline/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "formats/parquet/parquet_writer.h"

static int finish(struct parquet_row *row, int r, struct kymo_err *err)
{
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

/* Wall-clock time by the pair of readings that is nearest; the device's own clock where the file has none. */
static uint64_t wall_ns(const Ntff__NtffInfo *info, uint64_t ps)
{
    const Ntff__ClockSync *best = NULL;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < info->n_clock_syncs; i++) {
        const Ntff__ClockSync *s = info->clock_syncs[i];
        uint64_t away = s->nc_timestamp_ps > ps ? s->nc_timestamp_ps - ps : ps - s->nc_timestamp_ps;
        if (best && away >= least)
            continue;
        best = s;
        least = away;
    }
    if (!best)
        return ps / 1000;
    return ps >= best->nc_timestamp_ps ? best->cpu_timestamp_ns + least / 1000 : best->cpu_timestamp_ns - least / 1000;
}

static void put_time_text(struct parquet_row *row, unsigned column, const Ntff__NtffInfo *info, uint64_t ps)
{
    char text[64];
    uint64_t ns = wall_ns(info, ps);
    time_t s = (time_t)(ns / 1000000000ull);
    struct tm tm;
    size_t n = gmtime_r(&s, &tm) ? strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm) : 0;
    unsigned us = (unsigned)(ns / 1000 % 1000000);
    (void)snprintf(text + n, sizeof text - n, us ? ".%06u+00:00" : "+00:00", us);
    parquet_row_string(row, column, text);
}

static void put_version(struct parquet_row *row, unsigned column, const Ntff__VersionInfo *v)
{
    char text[64];
    if (!v)
        return;
    (void)snprintf(text, sizeof text, "%u.%u.%u", v->major, v->minor, v->patch);
    parquet_row_string(row, column, v->text && *v->text ? v->text : text);
}

static void put_arch(struct parquet_row *row, const struct kymo_arch *a)
{
    parquet_row_real(row, KYMO_METADATA_DMA_DDR_BANDWIDTH, a->dma_bandwidth);
    parquet_row_int(row, KYMO_METADATA_NUM_DMA_ENGINES_PER_NEURONCORE, a->dma_engines);
    parquet_row_real(row, KYMO_METADATA_HBM_DDR_BANDWIDTH, a->hbm_stack_bandwidth);
    parquet_row_int(row, KYMO_METADATA_TENSOR_ENGINE_NUM_ROWS, a->pe_rows);
    parquet_row_int(row, KYMO_METADATA_TENSOR_ENGINE_NUM_COLS, a->pe_cols);
    parquet_row_real(row, KYMO_METADATA_TENSOR_ENGINE_CLOCK_FREQ, a->clock_ghz[KYMO_ENGINE_TENSOR]);
    parquet_row_real(row, KYMO_METADATA_VECTOR_ENGINE_CLOCK_FREQ, a->clock_ghz[KYMO_ENGINE_VECTOR]);
    parquet_row_int(row, KYMO_METADATA_VECTOR_ENGINE_NUM_CHANNELS, a->vector_channels);
    parquet_row_real(row, KYMO_METADATA_SCALAR_ENGINE_CLOCK_FREQ, a->clock_ghz[KYMO_ENGINE_SCALAR]);
    parquet_row_int(row, KYMO_METADATA_SCALAR_ENGINE_NUM_CHANNELS, a->scalar_channels);
    parquet_row_real(row, KYMO_METADATA_GPSIMD_ENGINE_CLOCK_FREQ, a->clock_ghz[KYMO_ENGINE_GPSIMD]);
    parquet_row_int(row, KYMO_METADATA_GPSIMD_ENGINE_NUM_CHANNELS, a->gpsimd_channels);
    parquet_row_real(row, KYMO_METADATA_NEURONCORE_CLOCK_FREQ, a->core_clock_ghz);
    parquet_row_int(row, KYMO_METADATA_TICKS_PER_NANOSEC, a->ticks_per_ns);
}

static const char *compiler_version(const struct input *in)
{
    for (size_t i = 0; i < in->node_count; i++)
        if (in->nodes[i].neff && neff_compiler_version(in->nodes[i].neff))
            return neff_compiler_version(in->nodes[i].neff);
    return NULL;
}

static void put_host_dma(struct parquet_row *row, const Ntff__NtffInfo *info, struct warnings *w)
{
    if (info->host_dma == NTFF__HOST_DMA_STATE__HOST_DMA_TRACED)
        return;
    const char *why = kymo_h2d_reason_text((enum kymo_h2d_state)info->host_dma);
    parquet_row_string(row, KYMO_METADATA_HOST_DMA_REASON, why);
    warnings_add(w, "Host-device DMA", "there is no host-device DMA trace: %s",
                 why ? why : "the file gives an unknown reason");
}

static const char *label(const Kymo__Manifest__Capture *m, const char *key)
{
    for (size_t i = 0; i < m->n_labels; i++)
        if (m->labels[i]->key && !strcmp(m->labels[i]->key, key))
            return m->labels[i]->value;
    return NULL;
}

/* As good as the worst of its readings; one that is not synchronised may be anywhere. */
static void put_host_clock(struct parquet_row *row, const Kymo__Manifest__Capture *m)
{
    uint64_t worst = 0;
    bool known = m->n_host_clocks > 0, synchronised = true;
    for (size_t i = 0; i < m->n_host_clocks; i++) {
        const Kymo__Manifest__HostClock *c = m->host_clocks[i];
        known = known && c->has_max_error_ns && c->has_synchronised && c->max_error_ns < INT64_MAX;
        synchronised = synchronised && c->synchronised;
        worst = c->max_error_ns > worst ? c->max_error_ns : worst;
    }
    if (!known)
        return;
    parquet_row_int(row, KYMO_METADATA_HOST_CLOCK_SYNCHRONISED, synchronised);
    if (synchronised)
        parquet_row_int(row, KYMO_METADATA_HOST_CLOCK_ERROR_NS, (int64_t)worst);
}

static void put_text(struct parquet_row *row, unsigned column, const char *text)
{
    parquet_row_string(row, column, text && *text ? text : NULL);
}

/* Whose profile it is, as the manifest tells: what many profiles are put together by. */
static void put_capture(struct parquet_row *row, const Kymo__Manifest__Capture *m)
{
    const char *world = label(m, "world_size");
    put_text(row, KYMO_METADATA_CAPTURE_ID, m->capture_id);
    put_text(row, KYMO_METADATA_REQUEST, m->request);
    put_text(row, KYMO_METADATA_JOB, m->job);
    put_text(row, KYMO_METADATA_HOST, m->host);
    put_text(row, KYMO_METADATA_BOOT_ID, m->boot_id);
    if (m->has_rank)
        parquet_row_int(row, KYMO_METADATA_RANK, m->rank);
    if (world && *world && strspn(world, "0123456789") == strlen(world) && strlen(world) < 10)
        parquet_row_int(row, KYMO_METADATA_WORLD_SIZE, strtol(world, NULL, 10));
    if (m->execution_count)
        parquet_row_int(row, KYMO_METADATA_FIRST_EXECUTION, (int64_t)m->first_execution);
    put_host_clock(row, m);
}

static int write_metadata(const struct reference *ref, const char *dir, struct warnings *w, struct kymo_err *err)
{
    const Ntff__NtffInfo *info = ref->in->info;
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_METADATA), NULL, &row, err);
    if (r < 0)
        return r;
    parquet_row_string(row, KYMO_METADATA_PROFILE_SCHEMA_VERSION, KYMO_SCHEMA_VERSION);
    parquet_row_string(row, KYMO_METADATA_KYMO_SCHEMA_VERSION, KYMO_SCHEMA_OWN_VERSION);
    parquet_row_int(row, KYMO_METADATA_NTFF_VERSION, info->ntff_version);
    parquet_row_int(row, KYMO_METADATA_NUM_PHYSICAL_CORES, ref->in->cores);
    parquet_row_int(row, KYMO_METADATA_VNC_ENABLED, ref->in->cores > 1);
    parquet_row_int(row, KYMO_METADATA_FIRST_HW_TIMESTAMP, (int64_t)(ref->scan->first_ps / 1000));
    parquet_row_int(row, KYMO_METADATA_LAST_HW_TIMESTAMP, (int64_t)(ref->scan->last_ps / 1000));
    put_time_text(row, KYMO_METADATA_FIRST_TS, info, ref->scan->first_ps);
    put_time_text(row, KYMO_METADATA_LAST_TS, info, ref->scan->last_ps);
    put_arch(row, ref->in->arch);
    if (info->instance_type && *info->instance_type)
        parquet_row_string(row, KYMO_METADATA_INSTANCE_TYPE, info->instance_type);
    put_version(row, KYMO_METADATA_RUNTIME_VERSION, info->neuron_runtime_version);
    put_version(row, KYMO_METADATA_COLLECTIVES_VERSION, info->neuron_collectives_version);
    put_version(row, KYMO_METADATA_DRIVER_VERSION, info->neuron_driver_version);
    parquet_row_string(row, KYMO_METADATA_EXPLORER_VERSION, "kymo " KYMO_VERSION);
    parquet_row_string(row, KYMO_METADATA_COMPILER_VERSION, compiler_version(ref->in));
    parquet_row_int(row, KYMO_METADATA_NEURONCORE_IDX, info->start_nc);
    parquet_row_int(row, KYMO_METADATA_NEURON_DEVICE_IDX, info->nd_idx);
    parquet_row_string(row, KYMO_METADATA_PROFILE_NAME, ref->name);
    parquet_row_int(row, KYMO_METADATA_IS_SIMULATION, 0);
    parquet_row_string(row, KYMO_METADATA_PROFILE_KIND, "device");
    parquet_row_int(row, KYMO_METADATA_VNC, info->vnc);
    if (ref->in->manifest)
        put_capture(row, ref->in->manifest);
    else
        put_text(row, KYMO_METADATA_HOST, info->hostname);
    put_host_dma(row, info, w);
    return finish(row, parquet_row_end(row, err), err);
}

static void put_features(struct parquet_row *row, uint64_t bits)
{
    char text[4096] = "";
    size_t n = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        if (!(bits >> bit & 1))
            continue;
        const char *name = neff_feature_explorer_name(1ull << bit);
        if (!name)
            name = neff_feature_name(1ull << bit);
        int k = name ? snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", name)
                     : snprintf(text + n, sizeof text - n, "%sbit-%u", n ? ", " : "", bit);
        n += k > 0 && (size_t)k < sizeof text - n ? (size_t)k : 0;
    }
    parquet_row_string(row, KYMO_NEFF_HEADER_ENABLED_FEATURES, text);
}

static int write_header(struct parquet_row *row, const struct neff *neff, struct kymo_err *err)
{
    const struct neff_header *h = neff_get_header(neff);
    char hex[65], package[24];
    unsigned lnc = h->lnc_size ? h->lnc_size : 1;
    (void)snprintf(package, sizeof package, "%llu", (unsigned long long)h->pkg_version);
    parquet_row_string(row, KYMO_NEFF_HEADER_NETWORK_NAME, h->name);
    kymo_hash_hex(h->uuid, sizeof h->uuid, hex);
    parquet_row_string(row, KYMO_NEFF_HEADER_UUID, hex);
    kymo_hash_hex(h->hash, neff_hash_kind(neff) == NEFF_HASH_MD5 ? KYMO_MD5_SIZE : KYMO_SHA256_SIZE, hex);
    parquet_row_string(row, KYMO_NEFF_HEADER_HASH, hex);
    put_features(row, h->feature_bits);
    parquet_row_int(row, KYMO_NEFF_HEADER_HEADER_SIZE, (int64_t)h->header_size);
    parquet_row_int(row, KYMO_NEFF_HEADER_DATA_SIZE, (int64_t)h->data_size);
    parquet_row_int(row, KYMO_NEFF_HEADER_MAJOR_VERSION, (int64_t)h->version_major);
    parquet_row_int(row, KYMO_NEFF_HEADER_MINOR_VERSION, (int64_t)h->version_minor);
    parquet_row_string(row, KYMO_NEFF_HEADER_PACKAGE_VERSION, package);
    parquet_row_string(row, KYMO_NEFF_HEADER_BUILD_VERSION, h->build_version);
    parquet_row_int(row, KYMO_NEFF_HEADER_NEURONCORE_COUNT, h->num_tpb);
    parquet_row_int(row, KYMO_NEFF_HEADER_LOGICAL_NEURONCORE_COUNT, h->num_tpb / lnc ? h->num_tpb / lnc : 1);
    parquet_row_int(row, KYMO_NEFF_HEADER_PCORE_COUNT_PER_LNC, lnc);
    return parquet_row_end(row, err);
}

static bool first_use(const struct input *in, size_t node)
{
    for (size_t i = 0; i < node; i++)
        if (in->nodes[i].neff == in->nodes[node].neff)
            return false;
    return in->nodes[node].neff != NULL;
}

/* Without the NEFF, the trace still knows its name and uuid. */
static int write_missing_header(struct parquet_row *row, const struct input_node *node, struct kymo_err *err)
{
    char uuid[33];
    const char *name = node->info->neff_name;
    bool known = node->info->neff_uuid.len == 16;
    if (!known && (!name || !*name))
        return 0;
    input_node_uuid(node, uuid);
    parquet_row_string(row, KYMO_NEFF_HEADER_NETWORK_NAME, name && *name ? name : NULL);
    parquet_row_string(row, KYMO_NEFF_HEADER_UUID, known ? uuid : NULL);
    return parquet_row_end(row, err);
}

static int write_headers(const struct reference *ref, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_NEFF_HEADER), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ref->in->node_count && r == 0; i++)
        if (!ref->in->nodes[i].neff)
            r = write_missing_header(row, &ref->in->nodes[i], err);
        else if (first_use(ref->in, i))
            r = write_header(row, ref->in->nodes[i].neff, err);
    return finish(row, r, err);
}

static int write_executions(const struct reference *ref, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_EXECUTION_INFO), NULL, &row, err);
    if (r < 0)
        return r;
    const struct timeline *t = ref->timeline;
    for (size_t i = 0; i < t->count && r == 0; i++) {
        const struct timeline_exec *e = &t->execs[i];
        const struct input_node *node = e->node < ref->in->node_count ? &ref->in->nodes[e->node] : NULL;
        parquet_row_int(row, KYMO_EXECUTION_INFO_EXECUTION_INDEX, e->index);
        if (node) {
            parquet_row_string(row, KYMO_EXECUTION_INFO_NEFF_NAME, node->info->neff_name);
            parquet_row_int(row, KYMO_EXECUTION_INFO_NUM_SUBGRAPHS, (int64_t)node->info->nd_node->n_graphs);
        }
        if (ref->in->info->ntff_version >= 6) {
            parquet_row_int(row, KYMO_EXECUTION_INFO_EXECUTION_START_TS, timebase_ns(ref->timebase, e->start_ps));
            /* An end before the start is none; doubts.c says so. */
            if (e->start_ps <= e->end_ps)
                parquet_row_int(row, KYMO_EXECUTION_INFO_EXECUTION_END_TS, timebase_ns(ref->timebase, e->end_ps));
        }
        parquet_row_int(row, KYMO_EXECUTION_INFO_ROW_COUNT, (int64_t)e->rows);
        r = parquet_row_end(row, err);
    }
    return finish(row, r, err);
}

/* Loads of a tensor into SBUF: transfers of blocks and dynamic copies that read it and write SBUF. */
static struct summary_load loads_of(const struct reference *ref, const struct neff_var *var, size_t node,
                                    unsigned pcore)
{
    const struct dma_set *sets = ref->queues->sets;
    struct summary_load sum = {0};
    for (size_t b = 0; b < ref->queues->block_count; b++) {
        const struct dma_block *block = &ref->queues->blocks[b];
        if (block->from_var != var || block->to != DMA_MEMORY_SBUF || sets[block->set].node != node ||
            sets[block->set].pcore != pcore)
            continue;
        sum.transfers += ref->loads[b].transfers;
        sum.bytes += ref->loads[b].bytes;
    }
    for (size_t c = 0; c < ref->queues->copies.count; c++) {
        const struct dma_copy *copy = &ref->queues->copies.list[c];
        if (copy->from_var != var || copy->to != DMA_MEMORY_SBUF || sets[copy->set].node != node ||
            sets[copy->set].pcore != pcore)
            continue;
        sum.transfers += ref->loads[ref->queues->block_count + c].transfers;
        sum.bytes += ref->loads[ref->queues->block_count + c].bytes;
    }
    return sum;
}

static int write_tensor(const struct reference *ref, struct parquet_row *row, const struct neff_var *var,
                        const char *type, size_t node, unsigned pcore, size_t runs, struct kymo_err *err)
{
    struct summary_load loads = loads_of(ref, var, node, pcore);
    parquet_row_string(row, KYMO_TENSOR_INFO_VARIABLE_NAME, var->name);
    parquet_row_string(row, KYMO_TENSOR_INFO_TYPE, type);
    parquet_row_string(row, KYMO_TENSOR_INFO_FORMAT, var->format);
    parquet_row_string(row, KYMO_TENSOR_INFO_SHAPE, var->shape);
    parquet_row_int(row, KYMO_TENSOR_INFO_SIZE, (int64_t)var->size);
    parquet_row_int(row, KYMO_TENSOR_INFO_NODE, (int64_t)node);
    parquet_row_int(row, KYMO_TENSOR_INFO_PCORE_IDX, pcore);
    parquet_row_int(row, KYMO_TENSOR_INFO_LOAD_TO_SBUF_DMA_COUNT, (int64_t)loads.transfers);
    parquet_row_int(row, KYMO_TENSOR_INFO_LOAD_TO_SBUF_TOTAL_SIZE_BYTES, (int64_t)loads.bytes);
    if (loads.transfers)
        parquet_row_int(row, KYMO_TENSOR_INFO_LOAD_TO_SBUF_AVG_SIZE_BYTES, (int64_t)(loads.bytes / loads.transfers));
    if (var->size)
        parquet_row_real(row, KYMO_TENSOR_INFO_LOAD_TO_SBUF_REPEAT_FACTOR,
                         (double)loads.bytes / (double)var->size / (double)runs);
    return parquet_row_end(row, err);
}

static const char *tensor_type(const struct neff_var *var)
{
    const char *word = dma_memory_word(var);
    if (!strcmp(word, "INPUT"))
        return "IN";
    if (!strcmp(word, "OUTPUT"))
        return "OUT";
    return strcmp(word, "WEIGHT") ? NULL : "WEIGHT";
}

static int write_tensors(const struct reference *ref, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_TENSOR_INFO), NULL, &row, err);
    if (r < 0)
        return r;
    for (uint32_t n = 0; n < ref->in->node_count && r == 0; n++) {
        size_t runs = timeline_runs(ref->timeline, n);
        for (unsigned pcore = 0; pcore < ref->in->cores && r == 0; pcore++) {
            const struct neff_subgraph *sg = input_subgraph(ref->in, n, pcore);
            for (size_t v = 0; sg && v < sg->var_count && r == 0; v++) {
                const char *type = tensor_type(&sg->vars[v]);
                if (type)
                    r = write_tensor(ref, row, &sg->vars[v], type, n, pcore, runs, err);
            }
        }
    }
    return finish(row, r, err);
}

/* A training step's weights are inputs to the NEFF; others stand in its files. */
static bool holds_weights(const struct neff_var *var)
{
    const char *word = dma_memory_word(var);
    return !strcmp(word, "WEIGHT") || !strcmp(word, "INPUT");
}

/* The words are those of DmaPacket.queue_type, and "weights" for a data queue that loads some. */
static const char *queue_type(const struct dma_queues *q, uint32_t set)
{
    for (size_t b = 0; b < q->block_count && !strcmp(q->sets[set].type, "data"); b++)
        if (q->blocks[b].set == set && holds_weights(q->blocks[b].from_var))
            return "weights";
    return q->sets[set].type;
}

static int write_queues(const struct reference *ref, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_DMA_QUEUES_INFO), NULL, &row, err);
    if (r < 0)
        return r;
    const struct dma_queues *q = ref->queues;
    for (size_t i = 0; i < q->hwq_count && r == 0; i++) {
        const struct dma_hwq *h = &q->hwqs[i];
        const struct dma_set *set = &q->sets[h->set];
        parquet_row_string(row, KYMO_DMA_QUEUES_INFO_NAME, set->name);
        parquet_row_string(row, KYMO_DMA_QUEUES_INFO_TYPE, queue_type(q, h->set));
        parquet_row_int(row, KYMO_DMA_QUEUES_INFO_PCORE_IDX, set->pcore);
        parquet_row_int(row, KYMO_DMA_QUEUES_INFO_IDX, h->usage->queue_index);
        parquet_row_int(row, KYMO_DMA_QUEUES_INFO_ENGINE_IDX, h->usage->engine_index);
        parquet_row_int(row, KYMO_DMA_QUEUES_INFO_AXI_PORT, (int64_t)h->usage->axi_port);
        r = parquet_row_end(row, err);
    }
    return finish(row, r, err);
}

static int write_field(struct parquet_row *row, const struct kymo_table *t, const struct kymo_column *c,
                       struct kymo_err *err)
{
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_TABLE_NAME, t->name);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_TABLE_DESCRIPTION, t->description);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_NAME, c->name);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_DESCRIPTION, c->description);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_EXAMPLE, *c->example ? c->example : NULL);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_TYPE, c->openapi_type);
    parquet_row_int(row, KYMO_SCHEMA_FIELDS_FIELD_REQUIRED, c->required);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_FORMAT,
                       c->openapi_format && *c->openapi_format ? c->openapi_format : NULL);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_UNIT, *c->unit ? c->unit : NULL);
    parquet_row_string(row, KYMO_SCHEMA_FIELDS_FIELD_ENUM_VALUES, *c->enum_values ? c->enum_values : NULL);
    return parquet_row_end(row, err);
}

int reference_write_schema(const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_SCHEMA_FIELDS), NULL, &row, err);
    if (r < 0)
        return r;
    for (int t = 0; t < KYMO_T_MAX && r == 0; t++) {
        const struct kymo_table *table = kymo_schema_table((enum kymo_table_id)t);
        for (size_t c = 0; c < table->column_count && r == 0; c++)
            r = write_field(row, table, &table->columns[c], err);
    }
    return finish(row, r, err);
}

int reference_write(const struct reference *ref, const char *dir, struct warnings *w, struct kymo_err *err)
{
    int r = write_metadata(ref, dir, w, err);
    if (r == 0)
        r = write_headers(ref, dir, err);
    if (r == 0)
        r = write_executions(ref, dir, err);
    if (r == 0)
        r = write_tensors(ref, dir, err);
    if (r == 0)
        r = write_queues(ref, dir, err);
    if (r == 0 && ref->queues->hwq_count)
        warnings_add(w, "Missing Data", "DmaQueuesInfo.dram_channel is -1: no input names the DRAM channel of a queue");
    return r < 0 ? r : reference_write_schema(dir, err);
}
