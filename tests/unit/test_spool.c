#include "daemon/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "daemon/spool/spool_check.h"
#include "daemon/spool/spool_internal.h"

static char top[] = "/tmp/kymo-test-spool-XXXXXX";
static char dir[64], intake[64];
static struct spool_limits limits;

static int setup(void **state)
{
    (void)state;
    limits = (struct spool_limits){.bytes_max = 100000,
                                   .capture_bytes_max = 50000,
                                   .captures_max = 100,
                                   .neff_bytes_max = 50000,
                                   .neffs_max = 3,
                                   .reserve_bytes = 4096,
                                   .segment_bytes = 4096,
                                   .loss_rows_max = 4};
    kymo_file_set_ops(NULL);
    return kymo_file_remove_tree(dir, NULL) | kymo_file_remove_tree(intake, NULL) | mkdir(intake, 0700);
}

static struct spool *must_open(void)
{
    struct spool *s;
    struct kymo_err err = {0};
    if (spool_open(dir, &limits, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static const char *make_file(const char *name, size_t n, int fill)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", intake, name);
    uint8_t *data = kymo_malloc(n + 1);
    memset(data, fill, n);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    (void)close(fd);
    kymo_free(data);
    return path;
}

/* Publishes a capture of one file and a manifest of 10 bytes; 0 or what failed. */
static int add(struct spool *s, const char *id, size_t n, uint64_t *seq)
{
    struct spool_capture *c;
    int r = spool_begin(s, id, &c, NULL);
    if (r < 0)
        return r;
    r = spool_take(c, make_file("x", n, id[0]), "x.ntff", SPOOL_RENAME, NULL, NULL);
    if (r == 0)
        r = spool_publish(c, "0123456789", 10, seq, NULL);
    if (r < 0)
        assert_int_equal(spool_drop(c, 0, NULL), 0);
    return r;
}

static void deliver(struct spool *s, uint64_t seq)
{
    for (size_t f = 0; f < spool_find(s, seq)->nfiles; f++)
        assert_int_equal(spool_ack(s, seq, f, spool_find(s, seq)->files[f].size, NULL), 0);
    assert_int_equal(spool_done(s, seq, NULL), 0);
}

static struct spool_status status_of(const struct spool *s)
{
    struct spool_status st;
    spool_get_status(s, &st);
    assert_int_equal(st.issued.captures, st.pending.captures + st.delivered.captures + st.lost.captures);
    assert_int_equal(st.issued.bytes, st.pending.bytes + st.delivered.bytes + st.lost.bytes);
    return st;
}

static void test_published_captures_are_read_acknowledged_and_leave(void **state)
{
    (void)state;
    uint64_t a, b;
    uint8_t buf[64];
    size_t n;
    struct spool *s = must_open();
    assert_null(spool_next(s, 0));
    assert_int_equal(add(s, "a", 100, &a), 0);
    assert_int_equal(add(s, "b", 0, &b), 0);
    assert_int_equal(spool_next(s, 0)->seq, a);
    assert_int_equal(spool_next(s, a)->seq, b);
    assert_null(spool_next(s, b));
    assert_string_equal(spool_find(s, a)->files[1].name, SPOOL_MANIFEST);
    assert_int_equal(spool_read(s, a, 0, 90, buf, sizeof buf, &n, NULL), 0);
    assert_int_equal(n, 10);
    assert_int_equal(buf[0], 'a');
    assert_int_equal(spool_read(s, a, 1, 0, buf, sizeof buf, &n, NULL), 0);
    assert_memory_equal(buf, "0123456789", 10);
    assert_int_equal(spool_read(s, a, 0, 101, buf, 1, &n, NULL), -EINVAL);
    assert_int_equal(spool_read(s, a, 2, 0, buf, 1, &n, NULL), -EINVAL);
    assert_int_equal(spool_ack(s, a, 0, 40, NULL), 0);
    assert_int_equal(spool_ack(s, a, 0, 39, NULL), -EINVAL);
    assert_int_equal(spool_ack(s, a, 0, 101, NULL), -EINVAL);
    assert_int_equal(spool_done(s, a, NULL), -EINVAL);
    s = spool_close(s);
    s = must_open();
    assert_int_equal(spool_find(s, a)->files[0].acked, 40);
    deliver(s, a);
    assert_null(spool_find(s, a));
    assert_int_equal(spool_read(s, a, 0, 0, buf, 1, &n, NULL), -ENOENT);
    assert_int_equal(spool_ack(s, a, 0, 100, NULL), -ENOENT);
    struct spool_status st = status_of(s);
    assert_int_equal(st.pending.captures, 1);
    assert_int_equal(st.delivered.bytes, 110);
    spool_close(s);
}

static void test_names_and_counts_are_bounded(void **state)
{
    (void)state;
    struct spool *s = must_open();
    struct spool_capture *c, *more[SPOOL_STAGED_MAX];
    char id[80];
    const char *const bad[] = {"", ".", "..", ".a", "a/b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(spool_begin(s, bad[i], &c, NULL), -EINVAL);
    memset(id, 'a', sizeof id);
    id[65] = 0;
    assert_int_equal(spool_begin(s, id, &c, NULL), -EINVAL);
    id[64] = 0;
    assert_int_equal(spool_begin(s, id, &c, NULL), 0);
    assert_int_equal(spool_begin(s, id, &more[0], NULL), -EEXIST);
    const char *path = make_file("x", 10, 1);
    assert_int_equal(spool_take(c, path, "../x", SPOOL_COPY, NULL, NULL), -EINVAL);
    assert_int_equal(spool_take(c, path, "manifest.pb", SPOOL_COPY, NULL, NULL), -EINVAL);
    assert_int_equal(spool_take(c, intake, "d", SPOOL_COPY, NULL, NULL), -EINVAL);
    assert_int_equal(spool_take(c, "/nonexistent", "d", SPOOL_COPY, NULL, NULL), -ENOENT);
    for (int i = 0; i < SPOOL_FILES_MAX - 1; i++) {
        (void)snprintf(id, sizeof id, "f%d", i);
        assert_int_equal(spool_take(c, path, id, SPOOL_COPY, NULL, NULL), 0);
    }
    assert_int_equal(spool_take(c, path, "f0", SPOOL_COPY, NULL, NULL), -ENOBUFS);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(spool_publish(c, "m", 0, NULL, NULL), -EINVAL);
    assert_int_equal(spool_publish(c, "m", 1, NULL, NULL), 0);
    for (size_t i = 0; i < SPOOL_STAGED_MAX; i++) {
        (void)snprintf(id, sizeof id, "s%zu", i);
        assert_int_equal(spool_begin(s, id, &more[i], NULL), 0);
    }
    assert_int_equal(spool_begin(s, "one-more", &c, NULL), -ENOBUFS);
    s = spool_close(s);
    s = must_open();
    /* Those that were begun count as interrupted. */
    struct spool_status st = status_of(s);
    assert_int_equal(st.lost_by_cause[SPOOL_INTERRUPTED].captures, SPOOL_STAGED_MAX);
    assert_int_equal(st.pending.captures, 1);
    spool_close(s);
}

static void test_only_one_opens_a_spool(void **state)
{
    (void)state;
    struct spool *s = must_open(), *other;
    struct kymo_err err = {0};
    char who[40];
    (void)snprintf(who, sizeof who, "in use by process %d", (int)getpid());
    assert_int_equal(spool_open(dir, &limits, &other, &err), -EBUSY);
    assert_non_null(strstr(err.text, who));
    spool_close(s);
    limits.captures_max = 0;
    assert_int_equal(spool_open(dir, &limits, &other, NULL), -EINVAL);
}

static void test_policy_oldest_evicts_and_ranges_merge(void **state)
{
    (void)state;
    uint64_t seq[6];
    struct spool_loss rows[4];
    struct spool *s = must_open();
    limits.policy = SPOOL_DROP_OLDEST;
    for (int i = 0; i < 6; i++) {
        char id[2] = {(char)('a' + i), 0};
        assert_int_equal(add(s, id, 30000, &seq[i]), 0);
    }
    assert_null(spool_find(s, seq[2]));
    assert_non_null(spool_find(s, seq[3]));
    assert_int_equal(spool_losses(s, rows, 4), 1);
    assert_int_equal(rows[0].first_seq, seq[0]);
    assert_int_equal(rows[0].last_seq, seq[2]);
    assert_int_equal(rows[0].captures, 3);
    assert_int_equal(rows[0].bytes, 3 * 30010);
    assert_int_equal(rows[0].cause, SPOOL_EVICTED);
    /* What joins the row after it was handed out stays. */
    assert_int_equal(spool_lose(s, seq[3], SPOOL_EVICTED, NULL), 0);
    assert_int_equal(spool_loss_reported(s, rows, NULL), 0);
    assert_int_equal(spool_losses(s, rows, 4), 1);
    assert_int_equal(rows[0].captures, 1);
    assert_int_equal(rows[0].first_seq, seq[3]);
    assert_int_equal(spool_loss_reported(s, rows, NULL), 0);
    assert_int_equal(spool_loss_reported(s, rows, NULL), -EBADMSG);
    assert_int_equal(status_of(s).lost.captures, 4);
    assert_int_equal(spool_lose(s, seq[4], 99, NULL), -EINVAL);
    spool_close(s);
}

static void test_policy_newest_and_stop_refuse(void **state)
{
    (void)state;
    uint64_t seq[3];
    limits.policy = SPOOL_DROP_NEWEST;
    struct spool *s = must_open();
    for (int i = 0; i < 3; i++) {
        char id[2] = {(char)('a' + i), 0};
        assert_int_equal(add(s, id, 30000, &seq[i]), 0);
    }
    assert_int_equal(add(s, "d", 30000, NULL), -ENOSPC);
    assert_int_equal(add(s, "e", 50001, NULL), -EFBIG);
    assert_int_equal(add(s, "f", 5000, NULL), 0);
    struct spool_status st = status_of(s);
    assert_int_equal(st.lost_by_cause[SPOOL_FULL].captures, 1);
    assert_int_equal(st.lost_by_cause[SPOOL_TOO_LARGE].captures, 1);
    spool_close(s);
    limits.policy = SPOOL_STOP;
    s = must_open();
    assert_int_equal(add(s, "g", 30000, NULL), -ENOSPC);
    assert_true(status_of(s).stopped);
    assert_int_equal(add(s, "h", 10, NULL), -ENOSPC);
    assert_int_equal(status_of(s).lost_by_cause[SPOOL_STOPPED].captures, 1);
    deliver(s, seq[0]);
    assert_false(status_of(s).stopped);
    assert_int_equal(add(s, "i", 10, NULL), 0);
    spool_close(s);
}

static uint64_t told_free;

static int small_statvfs(const char *path, struct statvfs *st)
{
    int r = statvfs(path, st);
    st->f_bavail = told_free / st->f_frsize;
    return r;
}

static void test_the_floor_stays_free(void **state)
{
    (void)state;
    struct kymo_file_ops table = kymo_file_ops_system;
    struct spool_capture *c;
    table.statvfs = small_statvfs;
    limits.floor_bytes = 1u << 20;
    told_free = (1u << 20) + 16384;
    struct spool *s = must_open();
    kymo_file_set_ops(&table);
    assert_int_equal(spool_begin(s, "a", &c, NULL), 0);
    assert_int_equal(spool_take(c, make_file("x", 20000, 1), "x", SPOOL_COPY, NULL, NULL), -ENOSPC);
    assert_int_equal(spool_take(c, make_file("x", 10000, 1), "x", SPOOL_COPY, NULL, NULL), 0);
    /* A rename takes nothing from the disk. */
    assert_int_equal(spool_take(c, make_file("y", 20000, 1), "y", SPOOL_RENAME, NULL, NULL), 0);
    assert_int_equal(spool_publish(c, "m", 1, NULL, NULL), 0);
    kymo_file_set_ops(NULL);
    spool_close(s);
}

/* Who writes beside the spool finds the disk full: the oldest make room, as far as the policy lets them. */
static void test_room_is_given_back(void **state)
{
    (void)state;
    struct kymo_file_ops table = kymo_file_ops_system;
    struct spool_status st;
    table.statvfs = small_statvfs;
    limits.policy = SPOOL_DROP_NEWEST;
    struct spool *s = must_open();
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(s, (const char *const[]){"a", "b", "c"}[i], 1000, NULL), 0);
    spool_close(s);
    for (int round = 0; round < 3; round++) {
        told_free = round == 1 ? 1u << 30 : 0;
        limits.policy = round == 0 ? SPOOL_DROP_NEWEST : SPOOL_DROP_OLDEST;
        s = must_open();
        kymo_file_set_ops(&table);
        spool_relieve(s);
        st = status_of(s);
        kymo_file_set_ops(NULL);
        assert_int_equal(st.below_floor, told_free == 0);
        assert_int_equal(st.pending.captures, round < 2 ? 3 : 0);
        assert_int_equal(st.lost_since_open[SPOOL_EVICTED].captures, round < 2 ? 0 : 3);
        spool_close(s);
    }
}

static long writes_until_full;

static ssize_t full_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (writes_until_full-- > 0)
        return pwrite(fd, buf, n, off);
    struct stat st;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/reserve", dir);
    /* The disk has room again once the reserve is given up. */
    if (stat(path, &st) == 0 && st.st_size == 0)
        return pwrite(fd, buf, n, off);
    errno = ENOSPC;
    return -1;
}

static void test_a_full_disk_costs_the_reserve_not_the_account(void **state)
{
    (void)state;
    uint64_t seq;
    struct kymo_file_ops table = kymo_file_ops_system;
    table.pwrite = full_pwrite;
    struct spool *s = must_open();
    assert_int_equal(add(s, "a", 100, &seq), 0);
    writes_until_full = 0;
    kymo_file_set_ops(&table);
    assert_int_equal(spool_lose(s, seq, SPOOL_FAILED, NULL), 0);
    /* Removing made room, and the reserve was refused by the full disk: the state says so. */
    kymo_file_set_ops(NULL);
    assert_int_equal(status_of(s).lost.captures, 1);
    assert_int_equal(add(s, "b", 100, &seq), 0);
    deliver(s, seq);
    assert_false(status_of(s).full);
    spool_close(s);
}

static int failing_syncs;

static int failing_fsync(int fd)
{
    if (failing_syncs-- > 0) {
        errno = EIO;
        return -1;
    }
    return fsync(fd);
}

static void test_a_failed_sync_replaces_the_segment(void **state)
{
    (void)state;
    uint64_t seq;
    struct kymo_file_ops table = kymo_file_ops_system;
    table.fsync = failing_fsync;
    struct spool *s = must_open();
    assert_int_equal(add(s, "a", 100, &seq), 0);
    uint64_t segment = status_of(s).segment;
    kymo_file_set_ops(&table);
    failing_syncs = 1;
    assert_int_equal(spool_ack(s, seq, 0, 50, NULL), 0);
    struct spool_status st = status_of(s);
    assert_int_equal(st.segment, segment + 1);
    assert_int_equal(st.failed_syncs, 1);
    assert_int_equal(st.replaced_segments, 1);
    failing_syncs = 100;
    assert_int_equal(spool_ack(s, seq, 0, 60, NULL), -EIO);
    failing_syncs = 0;
    assert_int_equal(spool_find(s, seq)->files[0].acked, 50);
    assert_int_equal(spool_ack(s, seq, 0, 70, NULL), 0);
    s = spool_close(s);
    kymo_file_set_ops(NULL);
    s = must_open();
    assert_int_equal(spool_find(s, seq)->files[0].acked, 70);
    spool_close(s);
}

static void test_a_data_file_whose_sync_fails_is_copied_afresh(void **state)
{
    (void)state;
    struct spool_capture *c;
    struct kymo_file_ops table = kymo_file_ops_system;
    table.fsync = failing_fsync;
    struct spool *s = must_open();
    assert_int_equal(spool_begin(s, "a", &c, NULL), 0);
    const char *path = make_file("x", 10000, 7);
    kymo_file_set_ops(&table);
    failing_syncs = 2;
    assert_int_equal(spool_take(c, path, "x", SPOOL_RENAME, NULL, NULL), 0);
    assert_int_equal(access(path, F_OK), -1);
    path = make_file("y", 10000, 7);
    failing_syncs = 3;
    assert_int_equal(spool_take(c, path, "y", SPOOL_RENAME, NULL, NULL), -EIO);
    assert_int_equal(access(path, F_OK), 0);
    failing_syncs = 0;
    kymo_file_set_ops(NULL);
    assert_int_equal(spool_publish(c, "m", 1, NULL, NULL), 0);
    assert_int_equal(spool_next(s, 0)->nfiles, 2);
    spool_close(s);
}

static void test_neffs_are_kept_once_while_needed(void **state)
{
    (void)state;
    uint8_t sha[3][KYMO_SHA256_SIZE], again[KYMO_SHA256_SIZE];
    uint64_t size, seq;
    struct spool_capture *c;
    struct spool *s = must_open();
    for (int i = 0; i < 3; i++) {
        int fd = open(make_file("neff", 1000, i), O_RDONLY | O_CLOEXEC);
        assert_int_equal(spool_add_neff(s, fd, "neff", sha[i], NULL), 0);
        assert_int_equal(spool_add_neff(s, fd, "neff", again, NULL), 0);
        assert_memory_equal(again, sha[i], sizeof again);
        (void)close(fd);
    }
    assert_int_equal(status_of(s).neffs, 3);
    assert_int_equal(spool_begin(s, "a", &c, NULL), 0);
    assert_int_equal(spool_refer_neff(c, sha[0], NULL), 0);
    assert_int_equal(spool_refer_neff(c, sha[0], NULL), 0);
    assert_int_equal(spool_publish(c, "m", 1, &seq, NULL), 0);
    assert_int_equal(spool_next(s, 0)->nneffs, 1);
    assert_int_equal(spool_pin_neff(s, sha[1], true, NULL), 0);
    /* A fourth pushes out the only one that nobody needs. */
    int fd = open(make_file("neff", 1000, 9), O_RDONLY | O_CLOEXEC);
    assert_int_equal(spool_add_neff(s, fd, "neff", again, NULL), 0);
    assert_int_equal(spool_pin_neff(s, sha[2], true, NULL), -ENOENT);
    int got = spool_open_neff(s, sha[0], &size, NULL);
    assert_true(got >= 0);
    assert_int_equal(size, 1000);
    (void)close(got);
    (void)close(fd);
    assert_int_equal(spool_pin_neff(s, sha[1], false, NULL), 0);
    assert_int_equal(spool_pin_neff(s, sha[1], false, NULL), -ERANGE);
    s = spool_close(s);
    s = must_open();
    assert_int_equal(status_of(s).neffs, 3);
    assert_int_equal(spool_next(s, 0)->nneffs, 1);
    spool_close(s);
}

static long preads;

static ssize_t counting_pread(int fd, void *buf, size_t n, off_t off)
{
    preads++;
    return pread(fd, buf, n, off);
}

static void test_starting_reads_the_tail_alone(void **state)
{
    (void)state;
    uint64_t seq;
    struct kymo_file_ops table = kymo_file_ops_system;
    table.pread = counting_pread;
    struct spool *s = must_open();
    for (int i = 0; i < 60; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "c%d", i);
        assert_int_equal(add(s, id, 1000, &seq), 0);
    }
    for (uint64_t k = 0; k < 200; k++)
        assert_int_equal(spool_ack(s, seq, 0, k + 1, NULL), 0);
    s = spool_close(s);
    preads = 0;
    kymo_file_set_ops(&table);
    s = must_open();
    kymo_file_set_ops(NULL);
    /* One segment of some 20 KB through a window; none of the 60 captures. */
    assert_true(preads <= 4);
    assert_int_equal(status_of(s).pending.captures, 60);
    spool_close(s);
}

struct lines {
    size_t n;
    char text[4096];
};

static void keep_line(void *ctx, const char *text)
{
    struct lines *l = ctx;
    size_t at = strlen(l->text);
    l->n++;
    (void)snprintf(l->text + at, sizeof l->text - at, "%s\n", text);
}

static void newest_segment(char *path, size_t n, const struct spool *s)
{
    struct spool_status st;
    spool_get_status(s, &st);
    (void)snprintf(path, n, "%s/journal/%016llx.seg", dir, (unsigned long long)st.segment);
}

static void flip(const char *path, off_t at)
{
    uint8_t b;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &b, 1, at), 1);
    b ^= 0x10;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    (void)close(fd);
}

static void test_damage_is_named_and_repaired(void **state)
{
    (void)state;
    uint64_t seq;
    char path[128];
    struct lines said = {0};
    struct spool_check_result found;
    struct spool *s = must_open();
    assert_int_equal(add(s, "a", 100, NULL), 0);
    assert_int_equal(add(s, "b", 100, &seq), 0);
    assert_int_equal(spool_ack(s, seq, 0, 50, NULL), 0);
    newest_segment(path, sizeof path, s);
    assert_int_equal(spool_repair(dir, keep_line, &said, NULL), -EBUSY);
    spool_close(s);
    assert_int_equal(spool_check(dir, true, keep_line, &said, &found, NULL), 0);
    assert_int_equal(found.problems, 0);
    assert_int_equal(found.captures, 2);
    /* The first record after the snapshot: a's publication. */
    flip(path, 40 + 112 + 40);
    assert_int_equal(spool_check(dir, true, keep_line, &said, &found, NULL), 0);
    assert_int_equal(found.problems, 2);
    assert_non_null(strstr(said.text, "offset 152: a record's checksum does not match"));
    assert_non_null(strstr(said.text, "captures/a: offset 0: the journal does not know it"));
    said = (struct lines){0};
    assert_int_equal(spool_repair(dir, keep_line, &said, NULL), 0);
    assert_non_null(strstr(said.text, "1 taken in again"));
    assert_non_null(strstr(said.text, "/cut/journal-"));
    assert_int_equal(spool_check(dir, true, keep_line, &said, &found, NULL), 0);
    assert_int_equal(found.problems, 0);
    assert_int_equal(found.captures, 2);
    /* A counter may have been lost with the record, so nothing claims that the account closes. */
    assert_true(found.account_open);
    s = must_open();
    assert_int_equal(spool_find(s, seq)->files[0].acked, 50);
    spool_close(s);
}

static void test_changed_data_is_found_and_given_up(void **state)
{
    (void)state;
    uint64_t seq;
    char path[128];
    uint8_t buf[8];
    size_t n;
    struct lines said = {0};
    struct spool_check_result found;
    struct spool *s = must_open();
    assert_int_equal(add(s, "a", 100, &seq), 0);
    (void)snprintf(path, sizeof path, "%s/captures/a/x.ntff", dir);
    assert_int_equal(truncate(path, 50), 0);
    assert_int_equal(spool_read(s, seq, 0, 0, buf, 8, &n, NULL), -EBADMSG);
    assert_int_equal(truncate(path, 100), 0);
    spool_close(s);
    assert_int_equal(spool_check(dir, false, keep_line, &said, &found, NULL), 0);
    assert_int_equal(found.problems, 0);
    assert_int_equal(spool_check(dir, true, keep_line, &said, &found, NULL), 0);
    assert_int_equal(found.problems, 1);
    (void)snprintf(path, sizeof path, "%s/captures/stray", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(spool_repair(dir, keep_line, &said, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/cut/captures-stray", dir);
    assert_int_equal(access(path, F_OK), 0);
    (void)snprintf(path, sizeof path, "%s/cut/captures-a/x.ntff", dir);
    assert_int_equal(access(path, F_OK), 0);
    s = must_open();
    assert_int_equal(status_of(s).lost_by_cause[SPOOL_UNREADABLE].captures, 1);
    assert_null(spool_next(s, 0));
    spool_close(s);
}

static void test_missing_and_unknown_captures_are_accounted_for(void **state)
{
    (void)state;
    char path[128], other[128];
    struct spool *s = must_open();
    assert_int_equal(add(s, "a", 100, NULL), 0);
    assert_int_equal(add(s, "b", 100, NULL), 0);
    spool_close(s);
    (void)snprintf(path, sizeof path, "%s/captures/a", dir);
    (void)snprintf(other, sizeof other, "%s/captures/z", dir);
    assert_int_equal(rename(path, other), 0);
    s = must_open();
    struct spool_status st = status_of(s);
    assert_int_equal(st.lost_by_cause[SPOOL_MISSING].captures, 1);
    assert_int_equal(st.recovered_captures, 1);
    assert_int_equal(st.pending.captures, 2);
    assert_false(st.account_open);
    spool_close(s);
}

static void test_a_later_version_is_left_alone(void **state)
{
    (void)state;
    char path[128];
    struct spool *s = must_open();
    newest_segment(path, sizeof path, s);
    spool_close(s);
    uint8_t h[40];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, h, 40, 0), 40);
    h[8] = 2;
    uint32_t crc = kymo_crc32c(0, h, 36);
    memcpy(h + 36, &crc, 4);
    assert_int_equal(pwrite(fd, h, 40, 0), 40);
    (void)close(fd);
    assert_int_equal(spool_open(dir, &limits, &s, NULL), -EPROTO);
    assert_int_equal(access(path, F_OK), 0);
}

static int lose(struct spool *s, const char *id, uint32_t cause)
{
    struct spool_entry *e KYMO_CLEANUP(spool_entry_freep) = spool_entry_new(id, strlen(id), 0, 0);
    e->seq = s->state.next_seq;
    return spool_append_lost(s, e, 100, cause, false, NULL);
}

/* Causes may be added without another version. */
static void test_causes_of_a_later_kymo_are_kept(void **state)
{
    struct spool_loss rows[4];
    char text[SPOOL_CAUSE_NAME_SIZE];
    (void)state;
    struct spool *s = must_open();
    assert_int_equal(lose(s, "a", SPOOL_CAUSES_N + 1), 0);
    assert_int_equal(lose(s, "b", 200), 0);
    assert_int_equal(lose(s, "c", SPOOL_CAUSE_MAX), 0);
    assert_int_equal(lose(s, "d", SPOOL_CAUSE_MAX + 1), -EBADMSG);
    for (int opened = 0; opened < 3; opened++) {
        struct spool_status st = status_of(s);
        assert_int_equal(st.lost.captures, 3);
        assert_int_equal(st.lost_by_cause[0].bytes, 300);
        assert_int_equal(st.lost_since_open[0].captures, opened ? 0 : 3);
        assert_int_equal(st.damaged_bytes, 0);
        spool_close(s);
        s = must_open();
    }
    assert_int_equal(spool_losses(s, rows, 4), 3);
    assert_int_equal(rows[1].cause, 200);
    assert_string_equal(spool_cause_text(rows[1].cause, text), "cause-200");
    assert_int_equal(spool_loss_reported(s, &rows[1], NULL), 0);
    assert_int_equal(spool_losses(s, rows, 4), 2);
    spool_close(s);
}

static void test_memory_may_run_out_anywhere(void **state)
{
    (void)state;
    int r = -1;
    for (long at = 0; at < 2000 && r < 0; at++) {
        struct spool *s = NULL;
        kymo_alloc_fail_after(at);
        r = spool_open(dir, &limits, &s, NULL);
        struct spool_capture *c;
        if (r == 0)
            r = spool_begin(s, "a", &c, NULL);
        if (r == 0) {
            r = spool_publish(c, "m", 1, NULL, NULL);
            if (r < 0)
                (void)spool_drop(c, 0, NULL);
        }
        kymo_alloc_fail_after(-1);
        if (s)
            (void)status_of(s);
        spool_close(s);
    }
    struct spool *s = must_open();
    assert_non_null(spool_next(s, 0));
    (void)status_of(s);
    spool_close(s);
}

int main(void)
{
    if (!mkdtemp(top))
        return 1;
    (void)snprintf(dir, sizeof dir, "%s/spool", top);
    (void)snprintf(intake, sizeof intake, "%s/intake", top);
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        T(test_published_captures_are_read_acknowledged_and_leave),
        T(test_names_and_counts_are_bounded),
        T(test_only_one_opens_a_spool),
        T(test_policy_oldest_evicts_and_ranges_merge),
        T(test_policy_newest_and_stop_refuse),
        T(test_the_floor_stays_free),
        T(test_room_is_given_back),
        T(test_a_full_disk_costs_the_reserve_not_the_account),
        T(test_a_failed_sync_replaces_the_segment),
        T(test_a_data_file_whose_sync_fails_is_copied_afresh),
        T(test_neffs_are_kept_once_while_needed),
        T(test_starting_reads_the_tail_alone),
        T(test_damage_is_named_and_repaired),
        T(test_changed_data_is_found_and_given_up),
        T(test_missing_and_unknown_captures_are_accounted_for),
        T(test_a_later_version_is_left_alone),
        T(test_causes_of_a_later_kymo_are_kept),
        T(test_memory_may_run_out_anywhere),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    return r | kymo_file_remove_tree(top, NULL);
}
