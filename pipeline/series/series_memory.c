/*
 * HbmUsageSummaryByType: the snapshot of device memory that the runtime stores with the profile, by core and class,
 * over all programs. It has no time: how the use goes on is in the system trace alone (SystemProfileHbmUsage).
 */
#include <stdio.h>

#include "pipeline/job.h"
#include "pipeline/series/series.h"

#define CLASSES_MAX 64 /* that are told apart on one core */

struct use {
    uint32_t number;
    uint64_t bytes;
};

struct core_use {
    struct use classes[CLASSES_MAX];
    size_t count;
    bool more;
};

static void add(struct core_use *c, const Ntff__NcMemoryUsage *m)
{
    size_t i = 0;
    while (i < c->count && c->classes[i].number != m->usage_type)
        i++;
    c->more |= i == CLASSES_MAX;
    if (i == CLASSES_MAX)
        return;
    if (i == c->count)
        c->classes[c->count++] = (struct use){.number = m->usage_type};
    uint64_t sum = c->classes[i].bytes + m->bytes;
    c->classes[i].bytes = sum < m->bytes || sum > INT64_MAX ? INT64_MAX : sum;
}

static int write_core(const struct job *j, struct parquet_row *row, unsigned pcore, struct warnings *w,
                      struct kymo_err *err)
{
    struct core_use c = {0};
    int r = 0;
    for (size_t n = 0; n < j->in->node_count; n++) {
        const Ntff__SubgraphInfo *g = j->in->nodes[n].graph[pcore];
        for (size_t i = 0; g && i < g->n_memory_usage_breakdown; i++)
            add(&c, g->memory_usage_breakdown[i]);
    }
    for (size_t i = 0; i < c.count && r == 0; i++) {
        char unknown[32];
        const char *name = kymo_memory_class_name(c.classes[i].number);
        (void)snprintf(unknown, sizeof unknown, "Unknown(%u)", c.classes[i].number);
        parquet_row_int(row, KYMO_HBM_USAGE_SUMMARY_BY_TYPE_NEURON_DEVICE_IDX, j->in->info->nd_idx);
        parquet_row_int(row, KYMO_HBM_USAGE_SUMMARY_BY_TYPE_NEURONCORE_IDX, j->in->info->start_nc + pcore);
        parquet_row_string(row, KYMO_HBM_USAGE_SUMMARY_BY_TYPE_USAGE_TYPE, name ? name : unknown);
        parquet_row_int(row, KYMO_HBM_USAGE_SUMMARY_BY_TYPE_USAGE_BYTES, (int64_t)c.classes[i].bytes);
        r = parquet_row_end(row, err);
    }
    if (c.more)
        warnings_add(w, "Device memory",
                     "the profile has more than %d classes of device memory: the others are left out", CLASSES_MAX);
    return r;
}

static int open_memory(const struct job *j, void **ret, struct kymo_err *err)
{
    (void)err;
    *ret = (void *)(size_t)j; /* never written through */
    return 0;
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    const struct job *j = c;
    struct parquet_row *row;
    int r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_HBM_USAGE_SUMMARY_BY_TYPE), NULL, &row, err);
    if (r < 0)
        return r;
    for (unsigned pcore = 0; pcore < j->in->cores && r == 0; pcore++)
        r = write_core(j, row, pcore, w, err);
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

static void release(void *c)
{
    (void)c;
}

const struct consumer series_memory = {
    .name = "device memory",
    .open = open_memory,
    .finish = finish,
    .free = release,
};
