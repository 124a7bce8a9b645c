/* Captures that nobody goes on with: forgotten by age and for room, in order, whole or not at all for others. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "collector/store.h"
#include "tests/unit/capture_sample.h"

#define FILE_BYTES 100000u
#define TAKES (FILE_BYTES + INCOMING_CAPTURE_BYTES)
#define HOUR_S 3600

static char root[64];
static struct store *s;
static char forgotten[256]; /* "id:cause " of each */
static uint8_t bytes[FILE_BYTES];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/kymo-incoming.XXXXXX");
    assert_non_null(mkdtemp(root));
    capture_sample_fail(-1, 0, 0);
    assert_int_equal(store_open(root, 0, &s, NULL), 0);
    *forgotten = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    s = store_free(s);
    kymo_file_set_ops(NULL);
    return kymo_file_remove_tree(root, NULL);
}

static void on_forgot(void *ctx, const struct incoming_forgotten *f)
{
    size_t n = strlen(forgotten);
    (void)ctx;
    (void)snprintf(forgotten + n, sizeof forgotten - n, "%s:%s ", f->id, f->cause == INCOMING_AGE ? "age" : "room");
}

static void limit(uint64_t age_ms, uint64_t max, uint64_t host_max)
{
    const struct incoming_config config = {
        .limits = {.max_age_ms = age_ms, .max_bytes = max, .max_host_bytes = host_max, .still_ms = 60000},
        .forgot = on_forgot};
    incoming_configure(s->incoming, &config);
}

/* Takes up a capture as the intake does; n bytes of its file come. */
static int begin(const char *id, const char *source, size_t n, struct raw_capture **ret, struct kymo_err *err)
{
    const struct sample_file file = {"p.ntff", KYMO__MANIFEST__FILE__KIND__NTFF, bytes, FILE_BYTES, 0};
    size_t size;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest(id, &file, 1, &size);
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    assert_int_equal(manifest_parse(manifest, size, &m, NULL), 0);
    int r = incoming_hold(s->incoming, id, source, err);
    if (r == 0)
        r = incoming_admit(s->incoming, id, raw_store_need(s->raw, m), err);
    if (r < 0) {
        incoming_release(s->incoming, id);
        return r;
    }
    assert_int_equal(raw_store_begin(s->raw, manifest, size, ret, NULL), RAW_RECEIVE);
    assert_int_equal(catalog_receiving(s->catalog, m, source, NULL, NULL), 0);
    assert_int_equal(raw_capture_write(*ret, 0, 0, bytes, n, NULL), 0);
    return 0;
}

static void set_times(const char *path, int64_t at_s)
{
    const struct timespec t[2] = {{.tv_sec = at_s}, {.tv_sec = at_s}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* Nobody has gone on with it for so long; seen so after the store is opened again. */
static void make_old(const char *id, int64_t age_s)
{
    char path[256], sql[256];
    int64_t at = (int64_t)(kymo_clock_real_ns() / 1000000000) - age_s;
    (void)snprintf(path, sizeof path, "%s/raw/incoming/%s/part-0", root, id);
    set_times(path, at);
    (void)snprintf(path, sizeof path, "%s/raw/incoming/%s/tree/manifest.pb", root, id);
    set_times(path, at);
    (void)snprintf(path, sizeof path, "%s/catalog.db", root);
    (void)snprintf(sql, sizeof sql, "UPDATE captures SET received_ns=%lld WHERE id='%s'", (long long)at * 1000000000,
                   id);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
}

static void wait_for(const char *id, const char *source, size_t n)
{
    struct raw_capture *c = NULL;
    assert_int_equal(begin(id, source, n, &c, NULL), 0);
    raw_capture_free(c);
    incoming_release(s->incoming, id);
}

static void open_again(void)
{
    struct kymo_err err = {0};
    s = store_free(s);
    if (store_open(root, 0, &s, &err) < 0)
        fail_msg("%s", err.text);
}

static bool is_there(const char *id)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/raw/incoming/%s", root, id);
    return access(path, F_OK) == 0;
}

static bool is_known(const char *id)
{
    struct catalog_capture c;
    return catalog_find_capture(s->catalog, id, &c, NULL) == 0;
}

static void age_forgets_in_order(void **state)
{
    (void)state;
    wait_for("b-old", "h1", 1000);
    wait_for("a-older", "h2", 1000);
    wait_for("new", "h1", 1000);
    make_old("b-old", 2 * HOUR_S);
    make_old("a-older", 3 * HOUR_S);
    make_old("new", 60);
    open_again();
    limit(0, 0, 0);
    assert_int_equal(incoming_turn(s->incoming, NULL), 0);
    assert_string_equal(forgotten, "");
    limit(HOUR_S * 1000, 0, 0);
    assert_int_equal(incoming_turn(s->incoming, NULL), 0);
    assert_string_equal(forgotten, "a-older:age b-old:age ");
    assert_false(is_there("a-older") || is_there("b-old") || is_known("a-older") || is_known("b-old"));
    assert_true(is_there("new") && is_known("new"));
    struct incoming_figures f;
    incoming_figures(s->incoming, &f);
    assert_int_equal(f.captures, 1);
    assert_true(f.bytes > INCOMING_CAPTURE_BYTES + 1000 && f.bytes < INCOMING_CAPTURE_BYTES + 3000);
}

static void what_is_under_way_stays(void **state)
{
    (void)state;
    struct raw_capture *c = NULL;
    wait_for("a", "h1", 1000);
    make_old("a", 10 * HOUR_S);
    open_again();
    limit(HOUR_S * 1000, TAKES, TAKES);
    assert_int_equal(begin("a", "h1", 1000, &c, NULL), 0);
    assert_int_equal(incoming_turn(s->incoming, NULL), 0);
    struct kymo_err err = {0};
    struct raw_capture *other = NULL;
    assert_int_equal(begin("b", "h1", 0, &other, &err), -EBUSY);
    assert_non_null(strstr(err.text, "incoming-max-per-host"));
    assert_int_equal(begin("b", "h2", 0, &other, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "must come later"));
    assert_string_equal(forgotten, "");
    assert_false(is_there("b"));
    assert_true(raw_capture_offset(c, 0) == 1000);
    /* It has come: its room is free. */
    assert_int_equal(raw_capture_write(c, 0, 0, bytes, sizeof bytes, NULL), 0);
    assert_int_equal(raw_capture_finish_file(c, 0, NULL), 0);
    assert_int_equal(store_commit(s, c, NULL), 0);
    raw_capture_free(c);
    incoming_release(s->incoming, "a");
    assert_int_equal(begin("b", "h1", 0, &other, &err), 0);
    raw_capture_free(other);
}

static void room_is_made_of_the_oldest(void **state)
{
    (void)state;
    struct raw_capture *c = NULL;
    struct kymo_err err = {0};
    wait_for("x1", "h1", 90000);
    wait_for("x2", "h1", 90000);
    wait_for("y", "h2", 90000);
    make_old("x1", HOUR_S);
    make_old("x2", 2 * HOUR_S);
    make_old("y", 3 * HOUR_S);
    open_again();
    /* A host's own limit takes nothing of others. */
    limit(0, 0, 2 * TAKES + 20000);
    assert_int_equal(begin("z", "h1", 1000, &c, &err), 0);
    assert_string_equal(forgotten, "x2:room ");
    raw_capture_free(c);
    incoming_release(s->incoming, "z");
    /* z has only just been let alone: it is expected back. */
    *forgotten = '\0';
    limit(0, TAKES + 2 * INCOMING_CAPTURE_BYTES, 0);
    assert_int_equal(begin("v", "h3", 0, &c, &err), 0);
    assert_string_equal(forgotten, "y:room x1:room ");
    assert_true(is_there("z"));
    raw_capture_free(c);
    incoming_release(s->incoming, "v");
    /* Nothing is given up where it would not be enough, nor for one that never fits. */
    *forgotten = '\0';
    make_old("z", HOUR_S);
    open_again();
    limit(0, FILE_BYTES, 0);
    assert_int_equal(begin("u", "h1", 0, &c, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "are more than incoming-max"));
    assert_string_equal(forgotten, "");
}

static void a_clock_that_is_wrong(void **state)
{
    (void)state;
    wait_for("future", "h1", 1000);
    make_old("future", -100 * HOUR_S);
    open_again();
    limit(HOUR_S * 1000, 0, 0);
    assert_int_equal(incoming_turn(s->incoming, NULL), 0);
    assert_true(is_there("future"));
}

/* Killed at each step of forgetting, or unable to go on: the capture can be gone on with, or is gone. */
static void forgetting_survives(bool kill, long nth)
{
    struct raw_capture *c = NULL;
    wait_for("a", "h1", 1000);
    make_old("a", HOUR_S);
    open_again();
    s = store_free(s);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct kymo_err err = {0};
        if (store_open(root, 0, &s, &err) < 0)
            _exit(3);
        limit(1000, 0, 0);
        capture_sample_fail(nth, kill ? 0 : EIO, 1);
        int r = incoming_turn(s->incoming, &err);
        /* What failed is tried again. */
        if (r < 0) {
            limit(1, 0, 0);
            (void)usleep(2000);
            r = incoming_turn(s->incoming, &err);
        }
        _exit(r == 0 && !is_there("a") && !is_known("a") ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (!kill)
        assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(store_open(root, 0, &s, NULL), 0);
    assert_true(is_there("a") == is_known("a"));
    assert_int_equal(begin("a", "h1", 0, &c, NULL), 0);
    assert_int_equal(raw_capture_write(c, 0, 0, bytes, sizeof bytes, NULL), 0);
    assert_int_equal(raw_capture_finish_file(c, 0, NULL), 0);
    assert_int_equal(store_commit(s, c, NULL), 0);
    raw_capture_free(c);
    incoming_release(s->incoming, "a");
}

static void forgetting_survives_anything(void **state)
{
    for (int kill = 0; kill < 2; kill++) {
        for (long nth = 0; nth < 6; nth++) {
            forgetting_survives(kill, nth);
            assert_int_equal(tear_down(state), 0);
            assert_int_equal(set_up(state), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(age_forgets_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_under_way_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(room_is_made_of_the_oldest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clock_that_is_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forgetting_survives_anything, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
