/* Tables of the writer read back without DuckDB: all values, some rows, nulls, bounds; and files that are not whole. */
#include <errno.h>
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
#include "formats/parquet/parquet_writer.h"
#include "formats/parquet_read/table_reader.h"
#include "formats/parquet_read/table_unpack.h"

#define ROWS 70000
#define GROUP 32768

enum { KIND, LEVEL, START, BYTES, LABEL, OPERATOR, NOTHING, N };
static const char *const columns[N] = {"kind", "level", "start_ts", "transfer_bytes", "label", "operator", "nothing"};
static const char *const kinds[] = {"dma_engine", "host_dma", "instruction"};

static char dir[] = "/tmp/kymo-test-XXXXXX", path[64], reals[64];

static int64_t start_of(size_t row)
{
    return (int64_t)row * 17 + (int64_t)(row * row % 13) - 40;
}

static int64_t bytes_of(size_t row)
{
    return row % 7 == 3 ? TABLE_NULL : (int64_t)(row * 2654435761u) - (1 << 30);
}

static void label_of(size_t row, char text[static 32])
{
    (void)snprintf(text, 32, "label %zu", row < GROUP ? row % 100 : row);
}

static int make_tables(void **state)
{
    (void)state;
    const struct kymo_table *t = kymo_schema_find("LevelOfDetail"), *flops = kymo_schema_find("FlopsUsage");
    const struct parquet_options options = {.rows_per_group = GROUP};
    struct parquet_row *w = NULL;
    unsigned at[N];
    if (!mkdtemp(dir) || parquet_row_open(dir, t, &options, &w, NULL) < 0)
        return -1;
    for (size_t i = 0; i < NOTHING; i++)
        at[i] = (unsigned)kymo_schema_column(t, columns[i]);
    for (size_t row = 0; row < ROWS; row++) {
        char text[32];
        label_of(row, text);
        parquet_row_string(w, at[KIND], kinds[row * 3 / ROWS]);
        parquet_row_int(w, at[LEVEL], (int)(row % 5) - 2);
        parquet_row_int(w, at[START], start_of(row));
        if (bytes_of(row) != TABLE_NULL)
            parquet_row_int(w, at[BYTES], bytes_of(row));
        parquet_row_string(w, at[LABEL], text);
        if (row >= GROUP && row % 3)
            parquet_row_string(w, at[OPERATOR], row % 2 ? "odd" : "");
        if (parquet_row_end(w, NULL) < 0)
            return -1;
    }
    (void)snprintf(path, sizeof path, "%s/LevelOfDetail.parquet", dir);
    (void)snprintf(reals, sizeof reals, "%s/FlopsUsage.parquet", dir);
    if (parquet_row_finish(w, NULL) < 0 || parquet_row_open(dir, flops, NULL, &w, NULL) < 0)
        return -1;
    for (int64_t row = 0; row < 3000; row++) {
        parquet_row_int(w, (unsigned)kymo_schema_column(flops, "timestamp"), row);
        parquet_row_real(w, (unsigned)kymo_schema_column(flops, "mfu_instant_percent"), (double)row / 3);
        parquet_row_real(w, (unsigned)kymo_schema_column(flops, "hfu_instant_percent"), (double)(row % 4));
        if (parquet_row_end(w, NULL) < 0)
            return -1;
    }
    return parquet_row_finish(w, NULL);
}

static int remove_tables(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static struct table_file *opened(const char *name)
{
    struct table_file *f = NULL;
    struct kymo_err err = {0};
    if (table_file_open(name, columns, N, &f, &err) < 0)
        fail_msg("%s", err.text);
    return f;
}

static void check_text(const struct table_text *t, const char *want)
{
    assert_true(!t->at == !want);
    if (want) {
        assert_int_equal(t->n, strlen(want));
        assert_memory_equal(t->at, want, t->n);
    }
}

static void check_rows(struct table_reader *r, size_t group, size_t first, const uint32_t *rows, size_t n)
{
    static int64_t numbers[3][GROUP];
    static struct table_text texts[3][GROUP];
    static const size_t number_columns[] = {LEVEL, START, BYTES}, text_columns[] = {KIND, LABEL, OPERATOR};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(table_reader_ints(r, group, number_columns[i], rows, n, numbers[i], NULL), 0);
        assert_int_equal(table_reader_texts(r, group, text_columns[i], rows, n, texts[i], NULL), 0);
    }
    for (size_t i = 0; i < n; i++) {
        size_t row = first + (rows ? rows[i] : i);
        char label[32];
        label_of(row, label);
        assert_true(numbers[0][i] == (int64_t)(row % 5) - 2);
        assert_true(numbers[1][i] == start_of(row));
        assert_true(numbers[2][i] == bytes_of(row));
        check_text(&texts[0][i], kinds[row * 3 / ROWS]);
        check_text(&texts[1][i], label);
        check_text(&texts[2][i], row < GROUP || row % 3 == 0 ? NULL : row % 2 ? "odd" : "");
    }
    table_reader_forget(r);
}

static void all_values(void **state)
{
    (void)state;
    struct table_file *f = opened(path);
    struct table_reader *r = table_reader_new(f);
    size_t first = 0;
    assert_int_equal(f->n_groups, 3);
    for (size_t g = 0; g < f->n_groups; g++) {
        uint32_t some[] = {0, 1, 3, 10, 999, 1000, f->rows[g] / 2, f->rows[g] - 1};
        check_rows(r, g, first, NULL, f->rows[g]);
        check_rows(r, g, first, some, sizeof some / sizeof *some);
        check_rows(r, g, first, some + 7, 1);
        check_rows(r, g, first, some, 0);
        first += f->rows[g];
    }
    assert_int_equal(first, ROWS);
    table_reader_free(r);
    table_file_free(f);
}

static void what_is_not_there_is_null(void **state)
{
    (void)state;
    struct table_file *f = opened(path);
    struct table_reader *r = table_reader_new(f);
    static int64_t numbers[GROUP];
    struct table_text text;
    static const uint32_t row[] = {5};
    assert_int_equal(f->types[NOTHING], TABLE_ABSENT);
    assert_int_equal(table_reader_ints(r, 0, NOTHING, NULL, GROUP, numbers, NULL), 0);
    assert_true(numbers[0] == TABLE_NULL && numbers[GROUP - 1] == TABLE_NULL);
    assert_int_equal(table_reader_texts(r, 0, NOTHING, row, 1, &text, NULL), 0);
    assert_null(text.at);
    /* Nor is a number a text. */
    assert_int_equal(table_reader_texts(r, 0, START, row, 1, &text, NULL), -ENOTSUP);
    table_reader_free(r);
    table_file_free(f);
}

static void bounds(void **state)
{
    (void)state;
    struct table_file *f = opened(path);
    assert_true(table_file_min(f, 1, START, 0) == start_of(GROUP));
    assert_true(table_file_may_have(f, 0, START, -1000, -40));
    assert_false(table_file_may_have(f, 0, START, -1000, -41));
    assert_false(table_file_may_have(f, 2, START, 0, start_of(GROUP)));
    assert_true(table_file_may_have_text(f, 0, KIND, "dma_engine"));
    assert_true(table_file_may_have_text(f, 0, KIND, "host_dma"));
    assert_false(table_file_may_have_text(f, 0, KIND, "instruction"));
    assert_false(table_file_may_have_text(f, 2, KIND, "dma"));
    assert_true(table_file_may_have(f, 0, NOTHING, 1, 2)); /* not known */
    table_file_free(f);
}

static void real_values(void **state)
{
    (void)state;
    static const char *const names[] = {"mfu_instant_percent", "hfu_instant_percent", "mfu_cumulative_percent"};
    static double v[3000];
    struct table_file *f = NULL;
    assert_int_equal(table_file_open(reals, names, 3, &f, NULL), 0);
    struct table_reader *r = table_reader_new(f);
    for (size_t c = 0; c < 2; c++) {
        assert_int_equal(table_reader_reals(r, 0, c, NULL, 3000, v, NULL), 0);
        for (int i = 0; i < 3000; i++)
            assert_true(v[i] == (double)(float)(c ? i % 4 : (double)i / 3)); /* NOLINT: the same bits */
    }
    table_reader_free(r);
    table_file_free(f);
}

/* A file with a byte changed, or cut: opened or not, it is read to the end without harm. */
static int try_file(const uint8_t *data, size_t n)
{
    static int64_t numbers[GROUP];
    static struct table_text texts[GROUP];
    char name[80];
    struct table_file *f = NULL;
    (void)snprintf(name, sizeof name, "%s/broken", dir);
    assert_int_equal(kymo_file_write_atomic(name, data, n, NULL), 0);
    int rc = table_file_open(name, columns, N, &f, NULL);
    if (rc < 0)
        return rc;
    struct table_reader *r = table_reader_new(f);
    for (size_t g = 0; g < f->n_groups; g++)
        for (size_t c = 0; c < N && f->rows[g] <= GROUP; c++) {
            int a = table_reader_ints(r, g, c, NULL, f->rows[g], numbers, NULL);
            int b = table_reader_texts(r, g, c, NULL, f->rows[g], texts, NULL);
            rc = a == -EBADMSG || b == -EBADMSG ? -EBADMSG : rc;
        }
    table_reader_free(r);
    table_file_free(f);
    return rc;
}

static void broken_files(void **state)
{
    (void)state;
    uint8_t *data KYMO_FREE = NULL;
    size_t n, refused = 0;
    assert_int_equal(kymo_file_read_all(path, 1u << 30, &data, &n, NULL), 0);
    assert_int_equal(try_file(data, n), 0);
    for (size_t i = 0; i < 60; i++) {
        size_t at = i < 30 ? n - 8 - i * 29 : n / 30 * (i - 30);
        data[at] ^= 0x55;
        refused += try_file(data, n) < 0;
        data[at] ^= 0x55;
    }
    assert_in_range(refused, 10, 60); /* the rest are values, or in columns that nobody reads */
    assert_int_equal(try_file(data, n - 1), -EBADMSG);
    assert_int_equal(try_file(data, 11), -EBADMSG);
    assert_int_equal(try_file(data, 0), -EBADMSG);
}

static void files_of_others(void **state)
{
    (void)state;
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    assert_int_equal(kymo_file_read_all(path, 1u << 30, &data, &n, NULL), 0);
    uint8_t *by = memmem(data, n, "kymo version ", 13);
    assert_non_null(by);
    by[0] = 'K';
    assert_int_equal(try_file(data, n), -ENOTSUP);
}

static void unpacks_by_hand(void **state)
{
    (void)state;
    /* Specification: 0 to 7 in three bits are 88 c6 fa; before it a run of four 5s. */
    static const uint8_t hybrid[3 + 3 + TABLE_UNPACK_SLACK] = {8, 5, 3, 0x88, 0xc6, 0xfa};
    /* 7, 5, 3, 1, 2, 3, 4, 5: differences -2 -2 -2 1 1 1 1, of which -2 is the least: 0 0 0 3 3 3 3 in two bits. */
    static const uint8_t delta[] = {0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0,
                                    0,    0, 0, 0, 0,  0, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0};
    static const int64_t want[] = {7, 5, 3, 1, 2, 3, 4, 5};
    uint32_t small[12];
    int64_t v[8];
    assert_int_equal(table_unpack_hybrid(hybrid, hybrid + 6, 3, small, 12), 0);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(small[i], i < 4 ? 5 : i - 4);
    assert_int_equal(table_unpack_hybrid(hybrid, hybrid + 5, 3, small, 12), -EBADMSG);
    assert_int_equal(table_unpack_hybrid(hybrid, hybrid + 6, 33, small, 12), -EBADMSG);
    assert_int_equal(table_unpack_delta(delta, delta + 17, 0, v, 8), 0);
    assert_memory_equal(v, want, sizeof want);
    assert_int_equal(table_unpack_delta(delta, delta + 17, 0, v, 7), -EBADMSG);
    assert_int_equal(table_unpack_delta(delta, delta + 10, 0, v, 8), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values),      cmocka_unit_test(what_is_not_there_is_null),
        cmocka_unit_test(bounds),          cmocka_unit_test(real_values),
        cmocka_unit_test(broken_files),    cmocka_unit_test(files_of_others),
        cmocka_unit_test(unpacks_by_hand),
    };
    return cmocka_run_group_tests(tests, make_tables, remove_tables);
}
