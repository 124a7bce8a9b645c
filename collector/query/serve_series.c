#include "collector/query/serve_series.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define ONE(value)                                                                                                     \
    1,                                                                                                                 \
    {                                                                                                                  \
        {                                                                                                              \
            "value", value                                                                                             \
        }                                                                                                              \
    }
/* Tables of others have the total alone. */
#define CUMULATIVE "coalesce(cumulative_throughput, total_transfer_bytes * 1e9 / nullif(timestamp, 0))"

static const struct serve_series_row rows[] = {
    {"Estimated Instant MFU", "flops", "FlopsUsage", "percent", KYMO_T_FLOPS_USAGE, true, false,
     ONE("mfu_instant_percent")},
    {"Estimated Cumulative MFU", "flops", "FlopsUsage", "percent", KYMO_T_FLOPS_USAGE, true, false,
     ONE("mfu_cumulative_percent")},
    {"Estimated Instant HFU", "flops", "FlopsUsage", "percent", KYMO_T_FLOPS_USAGE, true, false,
     ONE("hfu_instant_percent")},
    {"Estimated Cumulative HFU", "flops", "FlopsUsage", "percent", KYMO_T_FLOPS_USAGE, true, false,
     ONE("hfu_cumulative_percent")},
    {"DMA Throughput", "throughput", "DmaUsage", "bytes_per_second", KYMO_T_DMA_USAGE, true, false,
     ONE("current_throughput")},
    {"Cumulative DMA Throughput", "throughput", "DmaUsage", "bytes_per_second", KYMO_T_DMA_USAGE, true, false,
     ONE(CUMULATIVE)},
    {"HBM Throughput", "throughput", "HbmUsage", "bytes_per_second", KYMO_T_HBM_USAGE, true, false,
     ONE("current_throughput")},
    {"Cumulative HBM Throughput", "throughput", "HbmUsage", "bytes_per_second", KYMO_T_HBM_USAGE, true, false,
     ONE(CUMULATIVE)},
    {"Host-Device DMA Throughput", "host_dma", "HostDmaUsage", "bytes_per_second", KYMO_T_HOST_DMA_USAGE, false, false,
     ONE("current_throughput")},
    {"Cumulative Host-Device DMA Throughput", "host_dma", "HostDmaUsage", "bytes_per_second", KYMO_T_HOST_DMA_USAGE,
     false, false, ONE(CUMULATIVE)},
    {"SBUF in use",
     "memory",
     "SbufUsage",
     "percent",
     KYMO_T_SBUF_USAGE,
     true,
     false,
     5,
     {{"avg", "avg_util_percent"},
      {"0", "partition_0_util_percent"},
      {"32", "partition_32_util_percent"},
      {"64", "partition_64_util_percent"},
      {"96", "partition_96_util_percent"}}},
    {"PSUM in use",
     "memory",
     "PsumUsage",
     "percent",
     KYMO_T_PSUM_USAGE,
     true,
     false,
     9,
     {{"avg", "avg_util_percent"},
      {"0", "bank_0_util_percent"},
      {"1", "bank_1_util_percent"},
      {"2", "bank_2_util_percent"},
      {"3", "bank_3_util_percent"},
      {"4", "bank_4_util_percent"},
      {"5", "bank_5_util_percent"},
      {"6", "bank_6_util_percent"},
      {"7", "bank_7_util_percent"}}},
    {"Pending DMA", "pending", "PendingDma", "count", KYMO_T_PENDING_DMA, true, false, ONE("value")},
    {"Semaphore", "semaphore", "SemaphoreUpdate", "count", KYMO_T_SEMAPHORE_UPDATE, true, true, ONE("value")},
};

const struct serve_series_row *serve_series_at(size_t i)
{
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

static int add(struct serve_series_list *l, const struct serve_series_row *row, const char *semaphore, int64_t pcore,
               int cores, bool there, struct kymo_err *err)
{
    void *items = l->items;
    char core[16] = "";
    int r = kymo_grow(&items, &l->cap, l->n + 1, SERVE_SERIES_MAX, sizeof *l->items);
    if (r == -ENOBUFS)
        return 0; /* a list that long is of no use to anybody */
    if (r < 0)
        return kymo_err_set(err, r, "no memory for series");
    l->items = items;
    struct serve_series *s = &l->items[l->n++];
    *s = (struct serve_series){.row = row, .pcore = pcore};
    if (cores > 1 && pcore >= 0)
        (void)snprintf(core, sizeof core, "(nc%d)", (int)pcore);
    s->label = kymo_asprintf("%s%s%s%s", row->label, semaphore ? " " : "", semaphore ? semaphore : "", core);
    s->id = s->label ? kymo_asprintf("series:%s", s->label) : NULL;
    s->semaphore = semaphore ? kymo_strdup(semaphore) : NULL;
    s->absent = there ? NULL : kymo_asprintf("There is no table %s in this directory.", row->table);
    bool whole = s->id && (s->absent || there) && (s->semaphore || !semaphore);
    return whole ? 0 : kymo_err_set(err, -ENOMEM, "no memory for series");
}

struct finder {
    struct serve_series_list *list;
    const struct serve_series_row *row;
    int cores;
};

static int keep_semaphore(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    const struct finder *f = ctx;
    char *name KYMO_FREE = kymo_strndup(c[0].text, c[0].len);
    return name ? add(f->list, f->row, name, c[1].null ? -1 : c[1].i, f->cores, true, err)
                : kymo_err_set(err, -ENOMEM, "no memory for series");
}

static int find_one(const struct serve_dir *d, const struct sql *s, const struct serve_series_row *row,
                    struct serve_series_list *list, struct kymo_err *err)
{
    bool there = d->has_table[row->number];
    if (row->by_semaphore && there) {
        struct finder f = {list, row, d->cores};
        return sql_run(
            s,
            "SELECT id, pcore_idx FROM (SELECT DISTINCT id, pcore_idx FROM k.\"SemaphoreUpdate\" WHERE id IS NOT NULL)"
            " ORDER BY pcore_idx, TRY_CAST(id AS BIGINT), id",
            NULL, 0, keep_semaphore, &f, err);
    }
    int r = 0;
    for (int core = 0; core < (row->by_core ? d->cores : 1) && r == 0; core++)
        r = add(list, row, NULL, row->by_core ? core : -1, d->cores, there, err);
    return r;
}

int serve_series_find(const struct serve_dir *d, const struct sql *s, struct serve_series_list *ret,
                      struct kymo_err *err)
{
    struct serve_series_list list = {0};
    int r = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && r == 0; i++)
        r = find_one(d, s, &rows[i], &list, err);
    if (r < 0)
        serve_series_done(&list);
    else
        *ret = list;
    return r;
}

void serve_series_done(struct serve_series_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        kymo_free(list->items[i].id);
        kymo_free(list->items[i].label);
        kymo_free(list->items[i].semaphore);
        kymo_free(list->items[i].absent);
    }
    kymo_free(list->items);
    *list = (struct serve_series_list){0};
}
