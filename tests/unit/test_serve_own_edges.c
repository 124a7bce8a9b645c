/* Edges of a row from a Flow of the writer's, against all rows looked at one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "collector/query/serve_own_edges.h"
#include "formats/parquet/parquet_writer.h"

#define ROWS 20000
#define FAR ((int64_t)1 << 40)

static char dir[] = "/tmp/kymo-test-XXXXXX";
static struct serve_own own;
static struct serve_dir profile = {.own_levels = true, .own = &own};
static const char *const tables[] = {"instruction", "dma_block", "it's another"};

struct edge {
    int64_t in, out, gap;
    const char *in_table, *out_table, *kind;
};

/* Keys of neighbouring rows are near each other, but for a few; each fifth row has no kind and no gap. */
static struct edge edge_at(int64_t row)
{
    int64_t far = row % 4999 == 0 ? FAR + row : row % 997 == 0 ? -5 : row / 3;
    return (struct edge){.in = far,
                         .out = row / 2 + row * 7919 % 40,
                         .gap = row % 5 ? row * 31 % 1000 - 500 : TABLE_NULL,
                         .in_table = tables[row % 2],
                         .out_table = tables[row % 3],
                         .kind = row % 5 ? "SEMAPHORE" : NULL};
}

static int make_table(void **state)
{
    (void)state;
    const struct kymo_table *t = kymo_schema_find("Flow");
    const struct parquet_options options = {.rows_per_group = 700};
    struct parquet_row *w = NULL;
    if (!mkdtemp(dir) || parquet_row_open(dir, t, &options, &w, NULL) < 0)
        return -1;
    for (int64_t row = 0; row < ROWS; row++) {
        struct edge e = edge_at(row);
        parquet_row_int(w, (unsigned)kymo_schema_column(t, "in_id"), e.in);
        parquet_row_int(w, (unsigned)kymo_schema_column(t, "out_id"), e.out);
        parquet_row_string(w, (unsigned)kymo_schema_column(t, "in_table"), e.in_table);
        parquet_row_string(w, (unsigned)kymo_schema_column(t, "out_table"), e.out_table);
        if (e.kind)
            parquet_row_string(w, (unsigned)kymo_schema_column(t, "dependency_type"), e.kind);
        if (e.gap != TABLE_NULL)
            parquet_row_int(w, (unsigned)kymo_schema_column(t, "gap_time"), e.gap);
        if (parquet_row_end(w, NULL) < 0)
            return -1;
    }
    return parquet_row_finish(w, NULL) < 0 ? -1 : serve_own_open(&own, dir, NULL, NULL);
}

static int remove_table(void **state)
{
    (void)state;
    serve_own_done(&own);
    return kymo_file_remove_tree(dir, NULL);
}

/* What came is taken off what is there. */
struct expected {
    const char *table;
    int64_t id, next[2]; /* row that comes next, of both sides */
};

static bool is_text(const struct table_text *t, const char *text)
{
    return text ? t->at && t->n == strlen(text) && !memcmp(t->at, text, t->n) : !t->at;
}

static bool is_wanted(const struct expected *x, int64_t row, bool out)
{
    struct edge e = edge_at(row);
    return out ? e.in == x->id && !strcmp(e.in_table, x->table) : e.out == x->id && !strcmp(e.out_table, x->table);
}

static int64_t next_row(const struct expected *x, int64_t row, bool out)
{
    while (row < ROWS && !is_wanted(x, row, out))
        row++;
    return row;
}

static int take(void *ctx, const struct serve_own_edge *e, struct kymo_err *err)
{
    struct expected *x = ctx;
    (void)err;
    int64_t row = next_row(x, x->next[e->out], e->out);
    assert_true(row < ROWS);
    struct edge want = edge_at(row);
    assert_int_equal(e->id, e->out ? want.out : want.in);
    assert_true(is_text(&e->table, e->out ? want.out_table : want.in_table));
    assert_true(is_text(&e->kind, want.kind));
    assert_true(e->gap == want.gap);
    x->next[e->out] = row + 1;
    return 0;
}

static void check(const char *table, int64_t id)
{
    struct expected x = {.table = table, .id = id};
    assert_int_equal(serve_own_edges(&profile, table, id, NULL, take, &x, NULL), 0);
    assert_int_equal(next_row(&x, x.next[0], false), ROWS);
    assert_int_equal(next_row(&x, x.next[1], true), ROWS);
}

static void edges(void **state)
{
    (void)state;
    assert_true(serve_own_has_edges(&profile));
    for (size_t t = 0; t < 3; t++) {
        for (int64_t id = 0; id < ROWS / 2 + 50; id += 37)
            check(tables[t], id);
        check(tables[t], -5);
        check(tables[t], -6);
        check(tables[t], FAR);
        check(tables[t], FAR + 4999);
        check(tables[t], FAR * 2);
        check(tables[t], INT64_MAX);
    }
    check("none", 5);
}

static int refuse(void *ctx, const struct serve_own_edge *e, struct kymo_err *err)
{
    (void)e;
    ++*(int *)ctx;
    return kymo_err_set(err, -E2BIG, "enough");
}

static void ends(void **state)
{
    (void)state;
    int n = 0;
    bool stop = true;
    struct kymo_err err = {0};
    assert_int_equal(serve_own_edges(&profile, "instruction", 100, NULL, refuse, &n, &err), -E2BIG);
    assert_int_equal(n, 1);
    assert_int_equal(serve_own_edges(&profile, "instruction", 100, &stop, refuse, &n, &err), -ECANCELED);
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(edges), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, make_table, remove_table);
}
