/* Series from a table of the writer's: the values before a window, its columns, and the same from coarse copies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/query/serve_own_series.h"
#include "formats/parquet/parquet_writer.h"

#define ROWS 20000
#define CORES 2
#define COLUMNS 100

static char dir[] = "/tmp/kymo-test-XXXXXX";
static struct serve_own own;
static struct serve_series items[CORES];
static struct serve_series_list list = {.items = items, .n = CORES};
static struct serve_dir profile = {.own_levels = true, .own = &own, .series = &list};

static int64_t time_of(int64_t row)
{
    return row * 10 + row % 7;
}

static double value_of(int64_t row)
{
    return (double)(row * 7919 % 1000) + (double)row / ROWS;
}

static int make_table(void **state)
{
    (void)state;
    const struct kymo_table *t = kymo_schema_find("PendingDma");
    const struct parquet_options options = {.rows_per_group = 1000}; /* enough of them for two threads */
    struct parquet_row *w = NULL;
    if (!mkdtemp(dir) || parquet_row_open(dir, t, &options, &w, NULL) < 0)
        return -1;
    for (int64_t row = 0; row < ROWS; row++) {
        parquet_row_int(w, (unsigned)kymo_schema_column(t, "timestamp"), time_of(row));
        parquet_row_int(w, (unsigned)kymo_schema_column(t, "value"), (int64_t)value_of(row));
        parquet_row_int(w, (unsigned)kymo_schema_column(t, "pcore_idx"), row % CORES);
        if (parquet_row_end(w, NULL) < 0)
            return -1;
    }
    const struct serve_series_row *row;
    for (size_t i = 0; (row = serve_series_at(i)); i++)
        for (int64_t core = 0; core < CORES && row->number == KYMO_T_PENDING_DMA; core++)
            items[core] = (struct serve_series){.row = row, .pcore = core};
    return parquet_row_finish(w, NULL) < 0 ? -1 : serve_own_open(&own, dir, NULL, NULL);
}

static int remove_table(void **state)
{
    (void)state;
    serve_own_done(&own);
    return kymo_file_remove_tree(dir, NULL);
}

/* What came, by core and column; what should have come, of all rows. */
struct columns {
    struct serve_own_wanted *wanted;
    double least[CORES][COLUMNS], greatest[CORES][COLUMNS], last[CORES][COLUMNS];
    int64_t newest[CORES];
};

static void clear(struct columns *c)
{
    for (size_t i = 0; i < CORES; i++) {
        c->newest[i] = -1;
        for (size_t k = 0; k < COLUMNS; k++)
            c->least[i][k] = c->greatest[i][k] = c->last[i][k] = NAN;
    }
}

static void keep(void *ctx, size_t i)
{
    struct columns *c = ctx;
    const struct serve_own_wanted *w = &c->wanted[i];
    assert_in_range(w->column, 0, COLUMNS - 1);
    assert_true(w->column > c->newest[i]);
    c->newest[i] = w->column;
    c->least[i][w->column] = w->least[0];
    c->greatest[i][w->column] = w->greatest[0];
    c->last[i][w->column] = w->last[0];
}

static void expect(const struct columns *got, const struct serve_own_samples *s)
{
    struct columns want;
    double before[CORES] = {NAN, NAN};
    clear(&want);
    for (int64_t row = 0; row < ROWS && time_of(row) <= s->to; row++) {
        size_t core = (size_t)(row % CORES);
        double v = floor(value_of(row));
        int64_t at = (time_of(row) - s->from) * s->width / (s->to - s->from);
        size_t k = (size_t)(at < s->width ? at : s->width - 1);
        if (time_of(row) < s->from) {
            before[core] = v;
            continue;
        }
        want.least[core][k] = fmin(want.least[core][k], v);
        want.greatest[core][k] = fmax(want.greatest[core][k], v);
        want.last[core][k] = v;
    }
    assert_memory_equal(got->least, want.least, sizeof want.least);
    assert_memory_equal(got->greatest, want.greatest, sizeof want.greatest);
    assert_memory_equal(got->last, want.last, sizeof want.last);
    for (size_t i = 0; i < CORES; i++) {
        assert_true(got->wanted[i].has_before == !isnan(before[i]));
        assert_true(isnan(before[i]) || got->wanted[i].before[0] == before[i]); /* NOLINT: the same bits */
    }
}

static void ask(int64_t from, int64_t to, bool coarse)
{
    struct serve_own_wanted wanted[CORES] = {{.series = &items[0]}, {.series = &items[1]}};
    struct columns c = {.wanted = wanted};
    struct serve_own_samples s = {.dir = &profile,
                                  .table = KYMO_T_PENDING_DMA,
                                  .wanted = wanted,
                                  .n = CORES,
                                  .from = from,
                                  .to = to,
                                  .width = COLUMNS,
                                  .look_back = 1000000,
                                  .column = keep,
                                  .ctx = &c};
    clear(&c);
    if (coarse)
        serve_own_coarse_samples(&s);
    else
        assert_int_equal(serve_own_samples(&s, NULL), 0);
    expect(&c, &s);
}

static void windows(void **state)
{
    (void)state;
    assert_true(serve_own_has_samples(&profile, KYMO_T_PENDING_DMA));
    assert_false(serve_own_has_samples(&profile, KYMO_T_FLOPS_USAGE));
    assert_int_equal(serve_own_count_samples(&profile, KYMO_T_PENDING_DMA), ROWS);
    ask(0, time_of(ROWS - 1) + 1, false);
    ask(30000, 60000, false); /* a row group begins with it */
    ask(50003, 50203, false);
    ask(123456, 123556, false); /* few columns have a sample */
    ask(199000, 900000, false);
    ask(900000, 900100, false); /* behind all */
}

/* Buckets of 100 ns: a window that they divide, without a sample at its very end, is the same from them. */
static void coarse_copies(void **state)
{
    (void)state;
    assert_int_equal(serve_own_make_coarse(&profile, KYMO_T_PENDING_DMA, 100, NULL, NULL), 0);
    assert_true(own.coarse[0].n > 1000 && own.coarse[0].n <= 2001);
    ask(0, 200000, true);
    ask(100000, 110000, true);
    ask(130000, 150000, true);
    assert_int_equal(serve_own_make_coarse(&profile, KYMO_T_PENDING_DMA, 50, NULL, NULL), 0);
    ask(130000, 150000, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(coarse_copies)};
    return cmocka_run_group_tests(tests, make_table, remove_table);
}
