/* kymo_rows in a DuckDB: the rows of a table of the writer's that touch a window, in its order. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "collector/query/serve_own_scan.h"
#include "formats/parquet/parquet_writer.h"

#define ROWS 10000
#define LENGTH 25 /* ns of a wait; one begins each 10 */

static char dir[] = "/tmp/kymo-test-XXXXXX";
static struct serve_own own;
static struct serve_dir profile = {.own_levels = true, .own = &own};
static duckdb_database database;
static duckdb_connection connection;

static int64_t cost_of(int64_t row)
{
    return row * 7919 % 1000;
}

static void put(struct parquet_row *w, const struct kymo_table *t, const char *column, int64_t v)
{
    parquet_row_int(w, (unsigned)kymo_schema_column(t, column), v);
}

static int make_table(void)
{
    const struct kymo_table *t = kymo_schema_find("WaitCause");
    const struct parquet_options options = {.rows_per_group = 3000};
    struct parquet_row *w = NULL;
    if (parquet_row_open(dir, t, &options, &w, NULL) < 0)
        return -1;
    for (int64_t row = 0; row < ROWS; row++) {
        put(w, t, "instruction_id", row);
        put(w, t, "pcore_idx", 0);
        put(w, t, "start_ts", row * 10);
        put(w, t, "end_ts", row * 10 + LENGTH);
        put(w, t, "wait_ns", LENGTH);
        put(w, t, "cost_ns", cost_of(row));
        parquet_row_string(w, (unsigned)kymo_schema_column(t, "engine"), "Vector");
        if (row % 3)
            parquet_row_string(w, (unsigned)kymo_schema_column(t, "dependency_type"),
                               row % 3 == 1 ? "flow" : "a longer name than fits in twelve bytes");
        if (parquet_row_end(w, NULL) < 0)
            return -1;
    }
    return parquet_row_finish(w, NULL);
}

static int open_all(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    if (!mkdtemp(dir) || make_table() < 0 || serve_own_open(&own, dir, NULL, NULL) < 0)
        return -1;
    if (duckdb_open(NULL, &database) == DuckDBError || duckdb_connect(database, &connection) == DuckDBError)
        return -1;
    return serve_own_scan_register(&profile, connection, &err);
}

static int close_all(void **state)
{
    (void)state;
    duckdb_disconnect(&connection);
    duckdb_close(&database);
    serve_own_done(&own);
    return kymo_file_remove_tree(dir, NULL);
}

static void check_number(const char *text, int64_t wanted)
{
    duckdb_result result;
    if (duckdb_query(connection, text, &result) == DuckDBError)
        fail_msg("%s: %s", text, duckdb_result_error(&result));
    duckdb_data_chunk chunk = duckdb_fetch_chunk(result);
    assert_non_null(chunk);
    assert_int_equal(*(int64_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)), wanted);
    duckdb_destroy_data_chunk(&chunk);
    duckdb_destroy_result(&result);
}

static bool touches(int64_t row, int64_t from, int64_t to)
{
    return row * 10 < to && row * 10 + LENGTH >= from;
}

static void test_windows(void **state)
{
    (void)state;
    static const int64_t windows[][2] = {{0, 1},
                                         {-5, 0},
                                         {0, ROWS * 10 + 100},
                                         {29985, 30040},
                                         {30025, 30026},
                                         {12345, 71234},
                                         {ROWS * 10 + 16, INT64_MAX},
                                         {INT64_MIN, INT64_MIN},
                                         {INT64_MIN, INT64_MAX},
                                         {500, 400}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        char text[512];
        int64_t from = windows[i][0], to = windows[i][1], n = 0, cost = 0, named = 0, flow = 0, order = 0;
        for (int64_t row = 0; row < ROWS; row++) {
            if (!touches(row, from, to))
                continue;
            n++;
            cost += cost_of(row);
            named += row % 3 != 0;
            flow += row % 3 == 1;
            order = (order * 31 + row) % 1000003;
        }
        (void)snprintf(text, sizeof text, "kymo_rows('WaitCause', (%" PRId64 ")::BIGINT, (%" PRId64 ")::BIGINT)", from,
                       to);
        char sql[1024];
        (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", text);
        check_number(sql, n);
        (void)snprintf(sql, sizeof sql, "SELECT coalesce(sum(cost_ns), 0)::BIGINT FROM %s", text);
        check_number(sql, cost);
        (void)snprintf(sql, sizeof sql, "SELECT count(dependency_type) FROM %s", text);
        check_number(sql, named);
        (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE dependency_type = 'flow'", text);
        check_number(sql, flow);
        (void)snprintf(
            sql, sizeof sql,
            "SELECT coalesce(list_reduce(list_prepend(0::BIGINT, list(instruction_id)), lambda x, y: (x * 31 + y)"
            " %% 1000003), 0)::BIGINT FROM %s",
            text);
        check_number(sql, n ? order : 0);
    }
}

static void check_refused(const char *text, const char *why)
{
    duckdb_result result;
    assert_int_equal(duckdb_query(connection, text, &result), DuckDBError);
    if (!strstr(duckdb_result_error(&result), why))
        fail_msg("%s: %s", text, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
}

static void test_refuses(void **state)
{
    (void)state;
    check_refused("SELECT * FROM kymo_rows('Instruction', 0, 10)", "does not read this table"); /* no file */
    check_refused("SELECT * FROM kymo_rows('../secret', 0, 10)", "does not read this table");
    check_refused("SELECT * FROM kymo_rows(NULL, 0, 10)", "does not read this table");
    check_refused("SELECT * FROM kymo_rows('WaitCause', NULL, 10)", "does not read this table");
    check_refused("SELECT engine FROM kymo_rows('WaitCause', 0, 10)", "engine"); /* a column that is not read */
    assert_true(serve_own_scan_has(&profile, "WaitCause"));
    assert_false(serve_own_scan_has(&profile, "Instruction"));
    assert_false(serve_own_scan_has(&(struct serve_dir){.own = &own}, "WaitCause")); /* in no known order */
}

/* A file that ends early is an error of the statement. */
static void test_broken(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/WaitCause.parquet", dir);
    assert_int_equal(truncate(path, 100), 0);
    check_refused("SELECT sum(cost_ns) FROM kymo_rows('WaitCause', 50000, 60000)", "WaitCause.parquet");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
