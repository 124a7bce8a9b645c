/* kymo-query's parts over small tables that DuckDB itself writes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <duckdb.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/query/query_db.h"
#include "collector/query/query_print.h"
#include "collector/query/query_verify.h"

static char dir[64];

static void run_sql(const char *sql)
{
    duckdb_database database;
    duckdb_connection connection;
    duckdb_result result;
    assert_int_equal(duckdb_open(NULL, &database), DuckDBSuccess);
    assert_int_equal(duckdb_connect(database, &connection), DuckDBSuccess);
    if (duckdb_query(connection, sql, &result) == DuckDBError)
        fail_msg("%s", duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    duckdb_disconnect(&connection);
    duckdb_close(&database);
}

static void write_table(const char *name, const char *select)
{
    char *sql KYMO_FREE = kymo_asprintf("COPY (%s) TO '%s/%s.parquet' (FORMAT parquet)", select, dir, name);
    assert_non_null(sql);
    run_sql(sql);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-test-query-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static struct query_db *open_db(unsigned timeout_ms)
{
    struct query_db *db = NULL;
    struct kymo_err err = {0};
    const struct query_limits limits = {.timeout_ms = timeout_ms};
    if (query_db_open(dir, &limits, &db, &err) < 0)
        fail_msg("%s", err.text);
    return db;
}

/* Runs sql and gives the printed text, to be freed by the caller. */
static char *text_of(struct query_db *db, enum query_form form, const char *sql)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    struct query_printer *p = NULL;
    assert_int_equal(query_print_new(form, out, &p), 0);
    const struct query_sink sink = query_print_sink(p);
    struct kymo_err err = {0};
    if (query_db_run(db, sql, &sink, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(query_print_finish(p), 0);
    (void)query_print_free(p);
    (void)fclose(out);
    return text;
}

static void expect_text(struct query_db *db, enum query_form form, const char *sql, const char *want)
{
    char *text KYMO_FREE = text_of(db, form, sql);
    assert_string_equal(text, want);
}

static int refusal(struct query_db *db, const char *sql, struct kymo_err *err)
{
    static const struct query_sink nothing = {.row = NULL};
    return query_db_run(db, sql, &nothing, err);
}

static void test_split_tables_and_neighbours(void **state)
{
    (void)state;
    write_table("DmaPacket_0", "SELECT 1 AS id");
    write_table("DmaPacket_1", "SELECT 2 AS id");
    write_table("DmaPacketAggregated", "SELECT 99 AS id");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(0);
    int64_t v[2];
    assert_int_equal(query_db_integers(db, "SELECT count(*), sum(id) FROM DmaPacket", v, 2, NULL), 0);
    assert_int_equal(v[0], 2);
    assert_int_equal(v[1], 3);
    assert_int_equal(query_db_integers(db, "SELECT id FROM DmaPacketAggregated", v, 1, NULL), 0);
    assert_int_equal(v[0], 99);
    /* A table without a file is empty and has its columns. */
    assert_int_equal(query_db_integers(db, "SELECT count(start_ts) FROM Instruction", v, 1, NULL), 0);
    assert_int_equal(v[0], 0);
}

static void test_forms(void **state)
{
    (void)state;
    write_table("T",
                "SELECT * FROM (VALUES (1, 'a,b', true, [1, NULL]), (NULL, 'say \"x\"', NULL, [])) AS t(n, s, b, l)");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(0);
    const char *sql = "SELECT * FROM T ORDER BY n NULLS LAST";
    expect_text(db, QUERY_FORM_CSV, sql, "n,s,b,l\n1,\"a,b\",true,\"[1, null]\"\n,\"say \"\"x\"\"\",,[]\n");
    expect_text(db, QUERY_FORM_TSV, sql, "n\ts\tb\tl\n1\ta,b\ttrue\t[1, null]\n\tsay \"x\"\t\t[]\n");
    expect_text(db, QUERY_FORM_JSON, sql,
                "{\"n\":1,\"s\":\"a,b\",\"b\":true,\"l\":[1, null]}\n"
                "{\"n\":null,\"s\":\"say \\\"x\\\"\",\"b\":null,\"l\":[]}\n");
    expect_text(
        db, QUERY_FORM_TABLE, sql,
        "n  s        b     l\n-  -------  ----  ---------\n1  a,b      true  [1, null]\n   say \"x\"        []\n");
}

/* A name of a tensor is the compiler's, or whoever's: the table is for eyes, the other forms are exact. */
static void test_control_characters(void **state)
{
    (void)state;
    write_table("T", "SELECT chr(27) || '[31mred' || chr(10) || 'x' AS s, chr(1) || 'y' AS t, 1 AS n");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(0);
    expect_text(db, QUERY_FORM_TABLE, "SELECT * FROM T",
                "s                 t      n\n----------------  -----  -\n\\x1b[31mred\\x0ax  \\x01y  1\n");
    expect_text(db, QUERY_FORM_CSV, "SELECT * FROM T", "s,t,n\n\"\x1b[31mred\nx\",\x01y,1\n");
    expect_text(db, QUERY_FORM_JSON, "SELECT * FROM T",
                "{\"s\":\"\\u001b[31mred\\u000ax\",\"t\":\"\\u0001y\",\"n\":1}\n");
}

static void test_numbers(void **state)
{
    (void)state;
    write_table("T", "SELECT 1 AS one");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(0);
    expect_text(db, QUERY_FORM_CSV,
                "SELECT -170141183460469231731687303715884105727::HUGEINT AS h, 0.1::FLOAT AS f, 1e300::DOUBLE AS d, "
                "1.50::DECIMAL(9,2) AS dec, 'nan'::DOUBLE AS nan",
                "h,f,d,dec,nan\n-170141183460469231731687303715884105727,0.1,1e+300,1.50,nan\n");
}

static void test_refusals(void **state)
{
    (void)state;
    write_table("T", "SELECT 1 AS one");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(0);
    static const char *const refused[] = {
        "DROP VIEW T",
        "CREATE TABLE x AS SELECT 1",
        "COPY (SELECT 1) TO '/tmp/kymo-test-query-escape.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/proc/self/fd/3/../../../etc/passwd')",
        "SELECT * FROM read_csv('/proc/self/fd/4/../../../etc/passwd')",
        "SET enable_external_access = true",
        "ATTACH '/tmp/kymo-test-query-escape.db' AS x",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "",
        "SELECT nonsense FROM T",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct kymo_err err = {0};
        if (refusal(db, refused[i], &err) >= 0)
            fail_msg("not refused: %s", refused[i]);
        assert_true(strlen(err.text) > 0);
        assert_null(strstr(err.text, "(null)"));
    }
    /* The connection still works. */
    int64_t v;
    assert_int_equal(query_db_integers(db, "SELECT one FROM T", &v, 1, NULL), 0);
    assert_int_equal(v, 1);
}

static void test_timeout(void **state)
{
    (void)state;
    write_table("T", "SELECT 1 AS one");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(50);
    struct kymo_err err = {0};
    int64_t v;
    int r =
        query_db_integers(db, "SELECT sum(a.range * b.range % 7) FROM range(3000000) a, range(3000000) b", &v, 1, &err);
    assert_int_equal(r, -ETIMEDOUT);
    assert_non_null(strstr(err.text, "50 ms"));
}

/* DuckDB would take such a name for a pattern and look at the neighbour too. */
static void test_directory_named_like_a_pattern(void **state)
{
    (void)state;
    static const char *const names[] = {"a*b", "axb", "p[12]", "p1", "q?", "it's"};
    char base[sizeof dir];
    memcpy(base, dir, sizeof dir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128], select[64];
        (void)snprintf(path, sizeof path, "%s/%s", base, names[i]);
        assert_int_equal(kymo_file_mkdirs(path, NULL), 0);
        (void)snprintf(select, sizeof select, "SELECT %zu AS one", i);
        (void)snprintf(dir, sizeof dir, "%s", base);
        write_table("T", select);
        char from[160], to[160];
        (void)snprintf(from, sizeof from, "%s/T.parquet", base);
        (void)snprintf(to, sizeof to, "%s/T.parquet", path);
        assert_int_equal(rename(from, to), 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", base, names[i]);
        struct query_db *db KYMO_CLEANUP(query_db_freep) = NULL;
        struct kymo_err err = {0};
        const struct query_limits limits = {0};
        if (query_db_open(path, &limits, &db, &err) < 0)
            fail_msg("%s", err.text);
        int64_t v[2];
        assert_int_equal(query_db_integers(db, "SELECT count(*), max(one) FROM T", v, 2, NULL), 0);
        assert_int_equal(v[0], 1);
        assert_int_equal(v[1], i);
    }
}

static void test_no_tables(void **state)
{
    (void)state;
    struct query_db *db = NULL;
    struct kymo_err err = {0};
    const struct query_limits limits = {0};
    assert_int_equal(query_db_open(dir, &limits, &db, &err), -ENOENT);
    assert_non_null(strstr(err.text, dir));
    assert_int_equal(query_db_open("/nonexistent/kymo", &limits, &db, &err), -ENOENT);
    assert_null(db);
}

#define LEDGER(emitted, rows, partial, other, lost, unknown_lost)                                                      \
    "SELECT 'device_ring' AS stage, 'INSTRUCTION(nc0)' AS ring, NULL::VARCHAR AS record_kind, 'ring_full' AS "         \
    "cause, " #emitted "::BIGINT AS emitted_records, " #rows "::BIGINT AS row_records, " #partial                      \
    "::BIGINT AS partial_records, " #other "::BIGINT AS other_records, 0::BIGINT AS unknown_records, " #lost           \
    "::BIGINT AS lost_records, " #unknown_lost " AS lost_unknown, NULL::BIGINT AS first_ts, NULL::BIGINT AS last_ts"

static enum query_verdict verdict_of(const char *ledger)
{
    write_table("LossLedger", ledger);
    write_table("Instruction", "SELECT 0 AS pcore_idx FROM range(3)");
    write_table("PartialEvent", "SELECT 'INSTRUCTION(nc0)' AS ring");
    struct query_db *db KYMO_CLEANUP(query_db_freep) = open_db(0);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    enum query_verdict verdict;
    struct kymo_err err = {0};
    if (query_verify(db, out, &verdict, &err) < 0)
        fail_msg("%s", err.text);
    (void)fclose(out);
    assert_non_null(strstr(text, query_verdict_name(verdict)));
    kymo_free(text);
    return verdict;
}

static void test_verify(void **state)
{
    (void)state;
    assert_int_equal(verdict_of(LEDGER(12, 6, 1, 2, 3, false)), QUERY_CLOSED);
    assert_int_equal(verdict_of(LEDGER(13, 6, 1, 2, 3, false)), QUERY_VIOLATED);
    assert_int_equal(verdict_of(LEDGER(NULL, 6, 1, 2, 0, false)), QUERY_UNVERIFIABLE);
    assert_int_equal(verdict_of(LEDGER(12, 6, 1, 2, NULL, true)), QUERY_OPEN);
    /* Rows that the ledger does not count, or counts too many of. */
    assert_int_equal(verdict_of(LEDGER(14, 8, 1, 2, 3, false)), QUERY_VIOLATED);
    assert_int_equal(verdict_of(LEDGER(13, 6, 2, 2, 3, false)), QUERY_VIOLATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_split_tables_and_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_control_characters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timeout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directory_named_like_a_pattern, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_verify, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
