/* The outbox on a disk that is full, fails, or gives less than was asked for. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/unit/outbox_world.h"

static struct world w;

/* Read by the outbox's thread. */
static atomic_bool full, short_reads;
static atomic_long sync_fails_in, read_fails_in; /* 1: the next; 0 and below: none */

static ssize_t op_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (!full)
        return kymo_file_ops_system.pwrite(fd, buf, n, off);
    errno = ENOSPC;
    return -1;
}

static int op_mkdir(const char *path, mode_t mode)
{
    if (!full)
        return kymo_file_ops_system.mkdir(path, mode);
    errno = ENOSPC;
    return -1;
}

static bool due(atomic_long *countdown)
{
    return atomic_load(countdown) > 0 && atomic_fetch_sub(countdown, 1) == 1;
}

static int op_fsync(int fd)
{
    if (!due(&sync_fails_in))
        return kymo_file_ops_system.fsync(fd);
    errno = EIO;
    return -1;
}

static ssize_t op_pread(int fd, void *buf, size_t n, off_t off)
{
    if (due(&read_fails_in)) {
        errno = EIO;
        return -1;
    }
    return kymo_file_ops_system.pread(fd, buf, short_reads && n > 100 ? 100 : n, off);
}

static int setup(void **state)
{
    static struct kymo_file_ops ops;
    (void)state;
    full = short_reads = false;
    sync_fails_in = read_fails_in = 0;
    ops = kymo_file_ops_system;
    ops.pwrite = op_pwrite;
    ops.mkdir = op_mkdir;
    ops.fsync = op_fsync;
    ops.pread = op_pread;
    kymo_file_set_ops(&ops);
    world_init(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_done(&w);
    kymo_file_set_ops(NULL);
    return 0;
}

static struct outbox_status status(void)
{
    struct outbox_status s;
    outbox_get_status(w.outbox, &s);
    return s;
}

/* A state with a reason: what is there is still sent, what comes waits, and goes on by itself. */
static void test_full_disk(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    world_make(&w, "before", 3000);
    assert_int_equal(world_take(&w, "before", SPOOL_RENAME, NULL, NULL), 0);
    world_until(&w, w.sent == 1);
    world_make(&w, "a", 3000);
    world_make(&w, "b", 3000);
    full = true;
    assert_int_equal(world_take(&w, "a", SPOOL_RENAME, NULL, NULL), 0);
    assert_int_equal(world_take(&w, "b", SPOOL_COPY, NULL, NULL), 0);
    world_until(&w, status().trouble[0] && status().orders_waiting == 2);
    world_until(&w, strstr(status().trouble, "No space left") != NULL);
    world_request(c, 7, "train");
    world_until(&w, c->replies == 1);
    world_run_ms(&w, 100);
    assert_int_equal(w.taken + w.failed, 1);
    assert_true(world_intake_exists(&w, "a"));
    full = false;
    world_until(&w, w.sent == 3);
    world_verify(&w, c, "a", 3000);
    world_verify(&w, c, "b", 3000);
    world_until(&w, status().trouble[0] == 0 && status().orders_waiting == 0);
    assert_false(world_intake_exists(&w, "a"));
}

/* Stopped meanwhile: told, and the originals are there. */
static void test_stopped_while_full(void **state)
{
    (void)state;
    world_listen(&w, 0);
    world_start(&w);
    world_until(&w, status().links[0].state == OUTBOX_LINK_UP);
    world_make(&w, "a", 3000);
    full = true;
    assert_int_equal(world_take(&w, "a", SPOOL_RENAME, NULL, NULL), 0);
    world_until(&w, status().orders_waiting == 1 && status().trouble[0]);
    w.outbox = outbox_stop(w.outbox);
    assert_int_equal(w.canceled, 1);
    assert_true(world_intake_exists(&w, "a"));
    full = false;
    world_start(&w);
    assert_int_equal(world_take(&w, "a", SPOOL_RENAME, NULL, NULL), 0);
    world_until(&w, w.sent == 1);
    world_verify(&w, &w.collectors[0], "a", 3000);
}

/* Whichever sync fails: it arrives, or it has its loss row. */
static void test_failing_syncs(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    for (unsigned n = 1; n <= 24; n++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%u", n);
        world_make(&w, id, 3000);
        sync_fails_in = n;
        assert_int_equal(world_take(&w, id, n % 2 ? SPOOL_RENAME : SPOOL_COPY, NULL, NULL), 0);
        world_until(&w, w.sent + w.failed == n);
        assert_int_equal(w.given_up, 0);
    }
    sync_fails_in = 0;
    world_until(&w, world_lost(c, "failed") == w.failed);
    assert_true(w.sent >= 12);
    for (unsigned i = 0; i < w.sent; i++)
        world_verify(&w, c, w.sent_ids[i], 3000);
}

static void test_short_reads(void **state)
{
    (void)state;
    short_reads = true;
    world_listen(&w, 0);
    world_start(&w);
    world_make(&w, "a", 30000);
    assert_int_equal(world_take(&w, "a", SPOOL_COPY, NULL, NULL), 0);
    world_until(&w, w.sent == 1);
    world_verify(&w, &w.collectors[0], "a", 30000);
}

/* A capture that cannot be read is lost with its row, or was not taken; the others go on. */
static void test_failing_reads(void **state)
{
    (void)state;
    struct world_collector *c = &w.collectors[0];
    world_listen(&w, 0);
    world_start(&w);
    for (unsigned n = 1; n <= 20; n++) {
        char id[16];
        (void)snprintf(id, sizeof id, "r%u", n);
        world_make(&w, id, 3000);
        read_fails_in = n;
        assert_int_equal(world_take(&w, id, SPOOL_COPY, NULL, NULL), 0);
        world_until(&w, w.sent + w.failed + w.given_up == n);
    }
    read_fails_in = 0;
    assert_true(w.given_up > 0 && w.failed > 0 && w.sent > 0);
    world_until(&w, world_lost(c, "unreadable") == w.given_up && world_lost(c, "failed") == w.failed);
    for (unsigned i = 0; i < w.sent; i++)
        world_verify(&w, c, w.sent_ids[i], 3000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_full_disk),   TEST(test_stopped_while_full), TEST(test_failing_syncs),
        TEST(test_short_reads), TEST(test_failing_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
