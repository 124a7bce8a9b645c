/* The catalogue: only the transitions of its header, and the same outcome wherever a writer ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "collector/catalog.h"
#include "tests/unit/capture_sample.h"
#include "tests/unit/killing_vfs.h"

#define NTFF KYMO__MANIFEST__FILE__KIND__NTFF
#define NEFF KYMO__MANIFEST__FILE__KIND__NEFF
#define P0 "train-host-1-r3-c1-nc0"
#define P1 "train-host-1-r3-c1-nc1"

static char root[64], path[128];
static uint64_t now = 1000;

static uint64_t fake_now(void)
{
    return now++;
}

static const struct sample_file sample[] = {
    {"a.ntff", NTFF, "xx", 2, 0},
    {"b.ntff", NTFF, "yyy", 3, 1},
    {"none.ntff", NTFF, "", 0, 2},
    {"p.neff", NEFF, "z", 1, 0},
};

static Kymo__Manifest__Capture *manifest(const char *id)
{
    Kymo__Manifest__Capture *m;
    size_t n;
    uint8_t *data KYMO_FREE = capture_sample_manifest(id, sample, 4, &n);
    assert_int_equal(manifest_parse(data, n, &m, NULL), 0);
    return m;
}

static int set_up(void **state)
{
    static const struct kymo_clock_ops clock = {.mono_ns = fake_now, .real_ns = fake_now};
    (void)state;
    kymo_clock_set_ops(&clock);
    killing_vfs_arm(-1, false);
    (void)snprintf(root, sizeof root, "/tmp/kymo-catalog.XXXXXX");
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(path, sizeof path, "%s/catalog.db", root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(root, NULL);
}

static struct catalog *open_it(void)
{
    struct catalog *c;
    struct kymo_err err = {0};
    if (catalog_open(path, false, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static enum catalog_state state_of(struct catalog *c, const char *name)
{
    struct catalog_profile p;
    assert_int_equal(catalog_find(c, name, &p, NULL), 0);
    return p.state;
}

static const struct catalog_result made = {.schema_version = "7.4.0", .records = 10, .tables = 3, .bytes = 999};

static int queue(struct catalog *c, struct kymo_err *err)
{
    return catalog_queue(c, P0, err);
}

static int start(struct catalog *c, struct kymo_err *err)
{
    return catalog_start(c, P0, "kymo 1", err);
}

static int hand_over(struct catalog *c, struct kymo_err *err)
{
    return catalog_hand_over(c, P0, "other", err);
}

static int progress(struct catalog *c, struct kymo_err *err)
{
    return catalog_progress(c, P0, "dma", 5, 10, err);
}

static int ready(struct catalog *c, struct kymo_err *err)
{
    return catalog_ready(c, P0, &made, err);
}

static int failed(struct catalog *c, struct kymo_err *err)
{
    return catalog_fail(c, P0, "it is broken", 77, err);
}

static int put_back(struct catalog *c, struct kymo_err *err)
{
    return catalog_put_back(c, P0, "no room", 5000, err);
}

static const struct {
    int (*run)(struct catalog *c, struct kymo_err *err);
    unsigned from; /* bits of states */
    enum catalog_state to;
} transitions[] = {
    {queue, 1u << CATALOG_RECEIVED | 1u << CATALOG_READY | 1u << CATALOG_FAILED, CATALOG_QUEUED},
    {start, 1u << CATALOG_QUEUED, CATALOG_PROCESSING},
    {hand_over, 1u << CATALOG_PROCESSING, CATALOG_PROCESSING},
    {progress, 1u << CATALOG_PROCESSING, CATALOG_PROCESSING},
    {ready, 1u << CATALOG_PROCESSING, CATALOG_READY},
    {failed, 1u << CATALOG_PROCESSING, CATALOG_FAILED},
    {put_back, 1u << CATALOG_PROCESSING, CATALOG_QUEUED},
};

static void bring_to(struct catalog *c, enum catalog_state s)
{
    assert_int_equal(s == CATALOG_RECEIVED ? 0 : queue(c, NULL), 0);
    if (s >= CATALOG_PROCESSING)
        assert_int_equal(start(c, NULL), 0);
    if (s > CATALOG_PROCESSING)
        assert_int_equal(s == CATALOG_READY ? ready(c, NULL) : failed(c, NULL), 0);
    assert_int_equal(state_of(c, P0), s);
}

static void checks_every_transition(void **state)
{
    (void)state;
    for (unsigned from = 0; from < CATALOG_STATE_MAX; from++)
        for (size_t t = 0; t < sizeof transitions / sizeof *transitions; t++) {
            struct catalog *c = open_it();
            Kymo__Manifest__Capture *m = manifest("c1");
            struct kymo_err err = {0};
            assert_int_equal(catalog_received(c, m, NULL), 0);
            bring_to(c, (enum catalog_state)from);
            int r = transitions[t].run(c, &err);
            if (transitions[t].from & 1u << from) {
                assert_int_equal(r, 0);
                assert_int_equal(state_of(c, P0), transitions[t].to);
            } else {
                assert_int_equal(r, -EINVAL);
                assert_non_null(strstr(err.text, catalog_state_name((enum catalog_state)from)));
                assert_int_equal(state_of(c, P0), from);
            }
            assert_int_equal(state_of(c, P1), CATALOG_RECEIVED);
            manifest_freep(&m);
            catalog_free(c);
            (void)unlink(path);
        }
}

static void keeps_what_it_is_told(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    Kymo__Manifest__Capture *m = manifest("c1");
    struct catalog_profile p;
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(queue(c, NULL), 0);
    assert_int_equal(start(c, NULL), 0);
    assert_int_equal(progress(c, NULL), 0);
    assert_int_equal(catalog_find(c, P0, &p, NULL), 0);
    assert_string_equal(p.capture, "c1");
    assert_string_equal(p.file, "a.ntff");
    assert_string_equal(p.job, "train");
    assert_string_equal(p.stage, "dma");
    assert_string_equal(p.processor, "kymo 1");
    assert_true(p.done == 5 && p.total == 10 && p.rank == 3 && p.vnc == 0 && p.file_size == 2 && p.attempts == 1);
    assert_true(p.received_ns && p.queued_ns > p.received_ns && p.started_ns > p.queued_ns && !p.finished_ns);
    assert_int_equal(failed(c, NULL), 0);
    assert_int_equal(catalog_find(c, P0, &p, NULL), 0);
    assert_string_equal(p.reason, "it is broken");
    assert_true(p.file_offset == 77 && p.finished_ns > p.started_ns);
    assert_int_equal(queue(c, NULL), 0);
    assert_int_equal(start(c, NULL), 0);
    assert_int_equal(ready(c, NULL), 0);
    assert_int_equal(catalog_find(c, P0, &p, NULL), 0);
    assert_true(!*p.reason && p.file_offset == -1 && p.records == 10 && p.tables == 3 && p.bytes == 999);
    assert_string_equal(p.schema_version, "7.4.0");
    assert_int_equal(catalog_find(c, "other", &p, NULL), -ENOENT);
    assert_int_equal(catalog_queue(c, "other", NULL), -ENOENT);
    manifest_freep(&m);
    catalog_free(c);
}

static int count(void *ctx, const struct catalog_profile *p)
{
    (void)p;
    ++*(int *)ctx;
    return 0;
}

static int take_capture(void *ctx, const struct catalog_capture *capture)
{
    *(struct catalog_capture *)ctx = *capture;
    return 0;
}

static void assert_capture(struct catalog *c, const char *state, const char *reason)
{
    struct catalog_capture capture = {0};
    assert_int_equal(catalog_list_captures(c, take_capture, &capture, NULL), 0);
    assert_string_equal(capture.state, state);
    assert_string_equal(capture.reason, reason);
}

static void states_of_captures(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    Kymo__Manifest__Capture *m = manifest("c1");
    int n = 0;
    assert_int_equal(catalog_receiving(c, m, NULL, NULL, NULL), 0);
    assert_capture(c, "receiving", "");
    assert_int_equal(catalog_receiving(c, m, NULL, "no room", NULL), 0);
    assert_capture(c, "receiving", "no room");
    assert_int_equal(catalog_has_capture(c, "c1", NULL), 0);
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(catalog_receiving(c, m, NULL, "late", NULL), 0);
    assert_int_equal(catalog_forget(c, "c1", NULL), 0);
    assert_capture(c, "received", "");
    assert_int_equal(catalog_has_capture(c, "c1", NULL), 1);
    assert_int_equal(catalog_list(c, NULL, count, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(catalog_list(c, "c2", count, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(catalog_recover(c, NULL), 0);
    assert_capture(c, "queued", "");
    assert_int_equal(catalog_start(c, P1, "kymo", NULL), 0);
    assert_capture(c, "queued", "");
    assert_int_equal(catalog_ready(c, P1, &made, NULL), 0);
    assert_int_equal(start(c, NULL), 0);
    assert_capture(c, "processing", "");
    assert_int_equal(failed(c, NULL), 0);
    assert_capture(c, "failed", "");
    assert_int_equal(queue(c, NULL), 0);
    assert_int_equal(start(c, NULL), 0);
    assert_int_equal(ready(c, NULL), 0);
    assert_capture(c, "ready", "");
    manifest_freep(&m);
    catalog_free(c);
}

static void takes_turns(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    Kymo__Manifest__Capture *m = manifest("c1");
    struct catalog_profile p;
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(catalog_next(c, INT64_MAX, &p, NULL), 0);
    assert_int_equal(catalog_queue(c, P1, NULL), 0);
    assert_int_equal(catalog_queue(c, P0, NULL), 0);
    assert_int_equal(catalog_next(c, INT64_MAX, &p, NULL), 1);
    assert_string_equal(p.name, P1);
    assert_int_equal(catalog_next(c, p.queued_ns, &p, NULL), 0);
    assert_int_equal(catalog_start(c, P1, "kymo", NULL), 0);
    assert_int_equal(catalog_put_back(c, P1, "no room", (int64_t)now + 1000, NULL), 0);
    assert_int_equal(catalog_next(c, INT64_MAX, &p, NULL), 1);
    assert_string_equal(p.name, P0);
    manifest_freep(&m);
    catalog_free(c);
}

/* Hosts are free text: "h" with id "x-r3-c1" and host "h-r3-x" with id "c1" make one name. */
static void tells_equal_names_apart(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    struct catalog_profile p;
    char host[] = "h", other[] = "h-r3-x";
    Kymo__Manifest__Capture *m = manifest("x-r3-c1"), *n = manifest("c1");
    char *kept[2] = {m->host, n->host};
    m->host = host;
    n->host = other;
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(catalog_received(c, n, NULL), 0);
    assert_int_equal(catalog_find(c, "train-h-r3-x-r3-c1-nc0", &p, NULL), 0);
    assert_string_equal(p.capture, "x-r3-c1");
    assert_int_equal(catalog_find(c, "c1-f0", &p, NULL), 0);
    assert_string_equal(p.capture, "c1");
    m->host = kept[0];
    n->host = kept[1];
    manifest_freep(&m);
    manifest_freep(&n);
    catalog_free(c);
}

static void reads_beside_a_writer(void **state)
{
    (void)state;
    struct catalog *reader, *c;
    struct kymo_err err = {0};
    assert_int_equal(catalog_open(path, true, &reader, &err), -ENOENT);
    c = open_it();
    Kymo__Manifest__Capture *m = manifest("c1");
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(catalog_open(path, true, &reader, &err), 0);
    assert_int_equal(state_of(reader, P0), CATALOG_RECEIVED);
    assert_int_equal(queue(c, NULL), 0);
    assert_int_equal(state_of(reader, P0), CATALOG_QUEUED);
    assert_true(start(reader, &err) < 0);
    manifest_freep(&m);
    catalog_free(reader);
    catalog_free(c);
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct catalog *c = open_it();
    catalog_free(c);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    assert_int_equal(catalog_open(path, false, &c, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "version 99"));
    (void)unlink(path);
    assert_int_equal(kymo_file_write_atomic(path, "this is no database at all, but long enough to be one", 53, NULL),
                     0);
    assert_int_equal(catalog_open(path, false, &c, &err), -EBADMSG);
}

/* Every later program opens what an earlier one left. */
static void bring_up_to_date(const char *golden)
{
    uint8_t *sql KYMO_FREE = NULL;
    size_t n;
    sqlite3 *db;
    struct kymo_err err = {0};
    struct catalog *c;
    struct catalog_profile p;
    (void)unlink(path);
    assert_int_equal(kymo_file_read_all(golden, 1u << 20, &sql, &n, NULL), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, (const char *)sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    assert_int_equal(catalog_open(path, true, &c, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "older"));
    c = open_it();
    assert_int_equal(catalog_find(c, "train-host1-r3-c1-nc0", &p, NULL), 0);
    assert_int_equal(p.state, CATALOG_READY);
    assert_int_equal(p.records, 10);
    assert_string_equal(p.job, "train");
    /* What is ready has rows for the fleet to make. */
    assert_string_equal(p.fleet, "waiting");
    assert_false(p.is_parent);
    assert_int_equal(p.captured_ns, 1700000000000000000);
    const struct catalog_host_loss row = {.row = 1, .captures = 1, .cause = "full"};
    assert_int_equal(catalog_add_host_losses(c, "host1", &row, 1, NULL), 0);
    catalog_free(c);
    assert_int_equal(catalog_open(path, true, &c, &err), 0);
    catalog_free(c);
}

static void brings_an_old_one_up_to_date(void **state)
{
    (void)state;
    bring_up_to_date("tests/golden/catalog/v1.sql");
    bring_up_to_date("tests/golden/catalog/v5.sql");
}

struct host_rows {
    size_t n;
    struct catalog_host_loss at[8];
    char source[8][16];
};

static int add_host_row(void *ctx, const char *source, const struct catalog_host_loss *row)
{
    struct host_rows *rows = ctx;
    assert_true(rows->n < 8);
    (void)snprintf(rows->source[rows->n], sizeof rows->source[0], "%s", source);
    rows->at[rows->n++] = *row;
    return 0;
}

static void keeps_what_hosts_lost(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    struct host_rows rows = {0};
    struct catalog_host_loss told[2] = {
        {.row = 1, .first_seq = 4, .last_seq = 6, .captures = 3, .bytes = 300, .first_unix_ns = 10, .last_unix_ns = 12},
        {.row = 2, .first_seq = 7, .last_seq = 7, .captures = 1, .bytes = 50, .first_unix_ns = 11, .last_unix_ns = 11}};
    memcpy(told[0].cause, "evicted", 8);
    memcpy(told[1].cause, "full", 5);
    assert_int_equal(catalog_add_host_losses(c, "host1", told, 2, NULL), 0);
    assert_int_equal(catalog_add_host_losses(c, "host2", told, 1, NULL), 0);
    /* Told again, since the answer was lost, and meanwhile grown. */
    told[0].last_seq = 8;
    told[0].captures = 5;
    told[0].bytes = 500;
    told[0].last_unix_ns = 20;
    assert_int_equal(catalog_add_host_losses(c, "host1", told, 2, NULL), 0);
    /* What the row gets after that is a row of its own. */
    told[0].first_seq = 9;
    told[0].last_seq = 9;
    told[0].captures = 1;
    assert_int_equal(catalog_add_host_losses(c, "host1", told, 1, NULL), 0);
    assert_int_equal(catalog_list_host_losses(c, "host1", add_host_row, &rows, NULL), 0);
    assert_int_equal(rows.n, 3);
    assert_int_equal(rows.at[0].captures, 5);
    assert_int_equal(rows.at[0].last_seq, 8);
    assert_int_equal(rows.at[0].bytes, 500);
    assert_string_equal(rows.at[0].cause, "evicted");
    assert_int_equal(rows.at[1].first_seq, 9);
    assert_string_equal(rows.at[2].cause, "full");
    assert_true(rows.at[2].received_ns > 0);
    rows.n = 0;
    assert_int_equal(catalog_list_host_losses(c, NULL, add_host_row, &rows, NULL), 0);
    assert_int_equal(rows.n, 4);
    assert_string_equal(rows.source[3], "host2");
    assert_int_equal(rows.at[3].captures, 3);
    catalog_free(c);
}

/* The way of one capture; ends early when a call fails. */
static int whole_way(struct kymo_err *err)
{
    struct catalog *c = NULL;
    Kymo__Manifest__Capture *m = manifest("c1");
    int r = catalog_open(path, false, &c, err);
    if (r == 0)
        r = catalog_recover(c, err);
    if (r == 0)
        r = catalog_receiving(c, m, NULL, NULL, err);
    if (r == 0)
        r = catalog_received(c, m, err);
    struct catalog_profile p;
    if (r == 0)
        r = catalog_find(c, P0, &p, err);
    if (r == 0 && p.state == CATALOG_RECEIVED)
        r = queue(c, err);
    for (; r == 0 && (r = catalog_find(c, P0, &p, err)) == 0 && p.state != CATALOG_READY;) {
        r = p.state == CATALOG_QUEUED ? start(c, err) : 0;
        if (r == 0)
            r = progress(c, err);
        if (r == 0)
            r = ready(c, err);
    }
    catalog_free(c);
    manifest_freep(&m);
    return r;
}

static void assert_done(void)
{
    struct kymo_err err = {0};
    struct catalog_profile p;
    int n = 0;
    if (whole_way(&err) < 0)
        fail_msg("%s", err.text);
    struct catalog *c = open_it();
    assert_int_equal(catalog_list(c, NULL, count, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(catalog_find(c, P0, &p, NULL), 0);
    assert_int_equal(p.state, CATALOG_READY);
    assert_int_equal(p.records, 10);
    assert_string_equal(p.reason, "");
    catalog_free(c);
}

static void start_anew(void)
{
    char name[160];
    (void)unlink(path);
    (void)snprintf(name, sizeof name, "%s-wal", path);
    (void)unlink(name);
    (void)snprintf(name, sizeof name, "%s-shm", path);
    (void)unlink(name);
}

static void survives_being_killed_at_every_write(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        start_anew();
        pid_t pid = fork();
        if (pid == 0) {
            killing_vfs_arm(nth, false);
            _exit(whole_way(NULL) == 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_done();
        if (WEXITSTATUS(status) == 0)
            break;
        assert_int_equal(WEXITSTATUS(status), KILLING_VFS_CODE);
    }
}

static void says_when_the_disk_is_full(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        struct kymo_err err = {0};
        start_anew();
        killing_vfs_arm(nth, true);
        int r = whole_way(&err);
        long calls = killing_vfs_calls();
        killing_vfs_arm(-1, false);
        if (r < 0)
            assert_true(r == -ENOSPC || r == -EIO);
        assert_done();
        if (calls <= nth)
            break;
    }
}

int main(void)
{
    killing_vfs_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(checks_every_transition, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_what_it_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(states_of_captures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(takes_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tells_equal_names_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_beside_a_writer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_it_does_not_know, set_up, tear_down),
        cmocka_unit_test_setup_teardown(brings_an_old_one_up_to_date, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_what_hosts_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_being_killed_at_every_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_when_the_disk_is_full, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
