/* Waits beyond their counter: which rows of WaitCause tell of them, what is answered, and what statements become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "collector/query/serve_waits.h"

#define NOTHING INT64_MIN

static duckdb_database database;
static duckdb_connection connection;

static struct sql statements(void)
{
    return (struct sql){.connection = connection};
}

static void run(const char *text)
{
    const struct sql s = statements();
    struct kymo_err err = {0};
    if (sql_run(&s, text, NULL, 0, NULL, NULL, &err) < 0)
        fail_msg("%s: %s", text, err.text);
}

static int open_database(void **state)
{
    (void)state;
    if (duckdb_open(NULL, &database) == DuckDBError || duckdb_connect(database, &connection) == DuckDBError)
        return -1;
    run("CREATE SCHEMA k");
    return 0;
}

static int close_database(void **state)
{
    (void)state;
    duckdb_disconnect(&connection);
    duckdb_close(&database);
    return 0;
}

/* WaitCause with these rows, as far as it is read here; what is made of it, with its macro. */
static struct serve_waits *made(const char *rows)
{
    const struct sql s = statements();
    struct serve_waits *w;
    char text[512];
    run("DROP MACRO IF EXISTS k.waited");
    (void)snprintf(text, sizeof text,
                   "CREATE OR REPLACE VIEW k.\"WaitCause\" AS SELECT * FROM (%s) AS"
                   " w(instruction_id, wait_ns, saturated, lower_bound)",
                   rows);
    run(text);
    assert_int_equal(serve_waits_read(&s, &w, NULL), 0);
    assert_int_equal(serve_waits_register(w, &s, NULL), 0);
    return w;
}

static int64_t number(const char *text)
{
    const struct sql s = statements();
    int64_t v;
    assert_int_equal(sql_numbers(&s, text, NULL, 0, &v, 1, NULL), 0);
    return v;
}

static int find_call(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    bool *found = ctx;
    (void)err;
    *found |= memmem(c[1].text, c[1].len, "kymo_waited", 11) != NULL;
    return 0;
}

static bool plan_calls(void)
{
    const struct sql s = statements();
    bool found = false;
    assert_int_equal(sql_run(&s,
                             "EXPLAIN SELECT " SERVE_WAITED " FROM (SELECT x AS id, x AS evt_wait_time_ns FROM"
                             " range(9) t(x))",
                             NULL, 0, find_call, &found, NULL),
                     0);
    return found;
}

/* Without such waits a statement has what was counted, and nothing is called. */
static void test_none(void **state)
{
    (void)state;
    struct serve_waits *w =
        made("VALUES (1::BIGINT, 70::BIGINT, false, false), (2, 80, true, true), (3, 90, NULL, NULL)");
    assert_null(w);
    assert_int_equal(serve_waits_of(w, 1, 12), 12);
    assert_int_equal(serve_waits_of(w, 1, NOTHING), NOTHING);
    assert_int_equal(number("SELECT k.waited(1, 12::BIGINT)"), 12);
    assert_int_equal(number("SELECT k.waited(1, NULL::BIGINT)"), 0);
    assert_false(plan_calls());
    assert_null(made("SELECT NULL::BIGINT, NULL::BIGINT, NULL::BOOLEAN, NULL::BOOLEAN WHERE false"));
}

/* The table's file is damaged, which is for the caller to tell. */
static void test_unreadable(void **state)
{
    (void)state;
    const struct sql s = statements();
    struct serve_waits *w;
    struct kymo_err err = {0};
    run("CREATE OR REPLACE VIEW k.\"WaitCause\" AS SELECT x AS instruction_id, error('broken')::BIGINT AS wait_ns, "
        "true AS"
        " saturated, false AS lower_bound FROM range(2) t(x)");
    assert_int_equal(serve_waits_read(&s, &w, &err), -EIO);
    assert_non_null(strstr(err.text, "broken"));
    assert_null(w);
}

static void test_some(void **state)
{
    (void)state;
    struct serve_waits *w = made("VALUES (9::BIGINT, 900::BIGINT, true, false), (-4, 400, true, NULL), (7, 700, true,"
                                 " true), (5, 500, false, false), (NULL, 1, true, false), (6, NULL, true, false),"
                                 " (8, 800, true, false)");
    assert_non_null(w);
    const int64_t want[][2] = {{-5, 12}, {-4, 400}, {5, 12}, {6, 12}, {7, 12}, {8, 800}, {9, 900}, {10, 12}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "SELECT k.waited(%d, 12)", (int)want[i][0]);
        assert_int_equal(serve_waits_of(w, want[i][0], 12), want[i][1]);
        assert_int_equal(number(text), want[i][1]);
    }
    assert_int_equal(number("SELECT k.waited(8, NULL)"), 800);
    assert_int_equal(number("SELECT k.waited(NULL, 12)"), 12);
    assert_int_equal(number("SELECT k.waited(NULL, NULL)"), 0);
    assert_true(plan_calls());
    /* Beyond a vector's length, in the order of the rows, nulls among them. */
    assert_int_equal(number("SELECT sum(k.waited(x, CASE WHEN x % 2 = 0 THEN 1 END))::BIGINT FROM range(10000) t(x)"),
                     5000 - 1 + 800 + 900);
    assert_int_equal(
        number("SELECT bool_and(w = y)::BIGINT FROM (SELECT k.waited(x, x) AS w, x + CASE x WHEN 8 THEN 792"
               " WHEN 9 THEN 891 ELSE 0 END AS y FROM range(10000) t(x))"),
        1);
    run("DROP MACRO k.waited");
    serve_waits_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none), cmocka_unit_test(test_unreadable),
                                       cmocka_unit_test(test_some)};
    return cmocka_run_group_tests(tests, open_database, close_database);
}
