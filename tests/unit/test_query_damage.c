/* Files whose inside is damaged, among files that are whole. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <duckdb.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/query/query_damage.h"

static char dir[64];
static const struct query_limits limits = {0};

static void write_table(duckdb_connection connection, const char *name)
{
    duckdb_result result;
    char *sql KYMO_FREE =
        kymo_asprintf("COPY (SELECT range AS id, [range, 1] AS l, 'text ' || range AS \"a \"\" b\" FROM"
                      " range(5000)) TO '%s/%s.parquet' (FORMAT parquet, COMPRESSION zstd)",
                      dir, name);
    assert_non_null(sql);
    if (duckdb_query(connection, sql, &result) == DuckDBError)
        fail_msg("%s", duckdb_result_error(&result));
    duckdb_destroy_result(&result);
}

static int set_up(void **state)
{
    (void)state;
    static const char *const names[] = {"CcOp", "Flow_0", "Flow_1", "Own", "Summary"};
    duckdb_database database;
    duckdb_connection connection;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-query-damage-XXXXXX");
    if (!mkdtemp(dir) || duckdb_open(NULL, &database) == DuckDBError ||
        duckdb_connect(database, &connection) == DuckDBError)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_table(connection, names[i]);
    duckdb_disconnect(&connection);
    duckdb_close(&database);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

/* From a share of the file, in percent, 200 bytes are overwritten. */
static void damage(const char *name, unsigned percent)
{
    uint8_t nonsense[200];
    uint64_t size;
    char *path KYMO_FREE = kymo_asprintf("%s/%s.parquet", dir, name);
    assert_non_null(path);
    memset(nonsense, 0xff, sizeof nonsense);
    int fd = kymo_file_open_regular(path, &size, NULL);
    assert_true(fd >= 0);
    (void)kymo_file_close(fd);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, nonsense, sizeof nonsense, (off_t)(4 + size * percent / 100)), sizeof nonsense);
    (void)close(fd);
}

static void find(const char *named, const struct query_bad *known, struct query_bad *ret)
{
    struct kymo_err err = {0};
    *ret = (struct query_bad){0};
    if (query_damage_find(dir, named, known, &limits, NULL, NULL, ret, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_whole(void **state)
{
    (void)state;
    struct query_bad found;
    find(NULL, NULL, &found);
    assert_int_equal(found.n, 0);
}

static void test_damaged(void **state)
{
    (void)state;
    struct query_bad found, known = {0};
    damage("Flow_1", 0);
    damage("Own", 95);
    find(NULL, NULL, &found);
    assert_int_equal(found.n, 2);
    assert_string_equal(found.items[0].table, "Flow");
    assert_non_null(strstr(found.items[0].why, "Flow_1.parquet: cannot be read: column id: "));
    assert_string_equal(found.items[1].table, "Own");
    assert_non_null(strstr(found.items[1].why, "Own.parquet: cannot be read: column a \" b: "));
    assert_null(strstr(found.items[1].why, "/proc"));
    query_bad_done(&found);
    find("SELECT * FROM own", NULL, &found);
    assert_int_equal(found.n, 1);
    assert_int_equal(query_bad_add(&known, "Own", 3, "known", NULL), 0);
    query_bad_done(&found);
    find(NULL, &known, &found);
    assert_int_equal(found.n, 1);
    assert_string_equal(found.items[0].table, "Flow");
    query_bad_done(&found);
    query_bad_done(&known);
}

struct watcher {
    unsigned begun, ended, refuse_at;
};

static int begin(void *ctx, struct query_db *db, struct kymo_err *err)
{
    struct watcher *w = ctx;
    assert_non_null(db);
    return ++w->begun == w->refuse_at ? kymo_err_set(err, -ECANCELED, "enough") : 0;
}

static void end(void *ctx)
{
    struct watcher *w = ctx;
    w->ended++;
}

/* Who watches knows of each database, and can end the search. */
static void test_watched(void **state)
{
    (void)state;
    struct query_bad found = {0};
    struct kymo_err err = {0};
    struct watcher w = {0};
    size_t at = 0;
    const struct query_damage_watch watch = {begin, end, &w};
    damage("CcOp", 0);
    assert_int_equal(query_damage_find(dir, NULL, NULL, &limits, &watch, NULL, &found, NULL), 0);
    assert_int_equal(found.n, 1);
    query_bad_done(&found);
    assert_int_equal(w.begun, w.ended);
    assert_true(w.begun > 1);
    w = (struct watcher){.refuse_at = w.begun};
    assert_int_equal(query_damage_find(dir, NULL, NULL, &limits, &watch, &at, &found, &err), -ECANCELED);
    assert_string_equal(err.text, "enough");
    assert_int_equal(w.begun, w.ended);
    assert_true(at < 5);
    /* What was found stays, and the search goes on where it ended. */
    w = (struct watcher){0};
    assert_int_equal(query_damage_find(dir, NULL, NULL, &limits, &watch, &at, &found, &err), 0);
    assert_int_equal(found.n, 1);
    assert_int_equal(at, 5);
    query_bad_done(&found);
}

static void test_no_directory(void **state)
{
    (void)state;
    struct query_bad found = {0};
    assert_int_equal(query_damage_find("/nonexistent/kymo", NULL, NULL, &limits, NULL, NULL, &found, NULL), -ENOENT);
}

static void test_kinds_of_errors(void **state)
{
    (void)state;
    const struct kymo_err files = {.text = "Invalid Error: don't know what type"}, none = {.text = ""},
                          statement = {.text = "Binder Error: IO Error"};
    assert_true(query_damage_may_be(&files));
    assert_false(query_damage_may_be(&statement));
    assert_false(query_damage_may_be(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_watched, set_up, tear_down),
        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_kinds_of_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
