#include "pipeline/rings/clock_rows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"

#define UNIX_NS_MAX ((uint64_t)INT64_MAX)

static int by_ts(const void *a, const void *b)
{
    const struct clock_row *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return (x->host_unix_ns > y->host_unix_ns) - (x->host_unix_ns < y->host_unix_ns);
}

static void add(struct clock_row *rows, size_t *n, size_t total, size_t k, const struct clock_row *row)
{
    /* Of too many those at the ends stay: the first half, and the last. */
    if (total > CLOCK_ROWS_MAX && k >= CLOCK_ROWS_MAX / 2 && total - k > CLOCK_ROWS_MAX / 2)
        return;
    rows[(*n)++] = *row;
}

static bool make_row(const struct input *in, const struct timebase *tb, uint32_t nc_idx, uint64_t ps, uint64_t host_ns,
                     uint64_t error_ns, struct clock_row *ret)
{
    unsigned pcore = nc_idx - in->info->start_nc;
    if (pcore >= in->cores || !host_ns || host_ns > UNIX_NS_MAX)
        return false;
    const struct timebase_clock *clock = timebase_sync(tb, pcore);
    *ret = (struct clock_row){.ts = timebase_ns(tb, timebase_correct(clock, ps)),
                              .host_unix_ns = (int64_t)host_ns,
                              .error_ns =
                                  error_ns && error_ns < UNIX_NS_MAX / 2 ? (int64_t)error_ns + 1 + (clock != NULL) : -1,
                              .pcore = (int)pcore};
    return true;
}

static size_t count(const struct input *in)
{
    return in->info->n_clock_syncs + (in->manifest ? in->manifest->n_clocks : 0);
}

size_t clock_rows_collect(const struct input *in, const struct timebase *tb, struct clock_row *ret)
{
    size_t n = 0, total = count(in), syncs = in->info->n_clock_syncs;
    struct clock_row row;
    for (size_t i = 0; i < syncs; i++) {
        const Ntff__ClockSync *s = in->info->clock_syncs[i];
        if (make_row(in, tb, s->nc_idx, s->nc_timestamp_ps, s->cpu_timestamp_ns, s->error_ns, &row))
            add(ret, &n, total, i, &row);
    }
    for (size_t i = 0; in->manifest && i < in->manifest->n_clocks; i++) {
        const Kymo__Manifest__ClockSample *s = in->manifest->clocks[i];
        if (!s->has_device_ps || !s->has_host_unix_ns || !s->has_nc_idx || s->nd_idx != in->info->nd_idx ||
            !make_row(in, tb, s->nc_idx, s->device_ps, s->host_unix_ns, s->has_error_ns ? s->error_ns : 0, &row))
            continue;
        row.from_manifest = true;
        add(ret, &n, total, syncs + i, &row);
    }
    qsort(ret, n, sizeof *ret, by_ts);
    return n;
}

static int write_rows(const struct clock_row *rows, size_t n, const char *dir, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_CLOCK_SYNC), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && r == 0; i++) {
        parquet_row_int(row, KYMO_CLOCK_SYNC_TS, rows[i].ts);
        parquet_row_int(row, KYMO_CLOCK_SYNC_HOST_UNIX_NS, rows[i].host_unix_ns);
        if (rows[i].error_ns >= 0)
            parquet_row_int(row, KYMO_CLOCK_SYNC_ERROR_BOUND_NS, rows[i].error_ns);
        parquet_row_string(row, KYMO_CLOCK_SYNC_SOURCE, rows[i].from_manifest ? "manifest" : "sync_point");
        parquet_row_int(row, KYMO_CLOCK_SYNC_PCORE_IDX, rows[i].pcore);
        r = parquet_row_end(row, err);
    }
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}

int clock_rows_write(const struct input *in, const struct timebase *tb, const char *dir, struct warnings *w,
                     struct kymo_err *err)
{
    size_t total = count(in), room = total < CLOCK_ROWS_MAX ? total : CLOCK_ROWS_MAX;
    if (!total)
        return 0;
    struct clock_row *rows KYMO_FREE = KYMO_NEW_ARRAY(struct clock_row, room);
    if (!rows)
        return kymo_err_set(err, -ENOMEM, "no memory for the pairs of device and host time");
    size_t n = clock_rows_collect(in, tb, rows);
    if (total > CLOCK_ROWS_MAX)
        warnings_add(w, "Clock", "of %zu pairs of device and host time ClockSync has the first and last %d", total,
                     CLOCK_ROWS_MAX / 2);
    return n ? write_rows(rows, n, dir, err) : 0;
}
