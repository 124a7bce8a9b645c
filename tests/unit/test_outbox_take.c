/* A take-over that is killed at every file operation, as kill -9 does, and begun again by the next process. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/outbox_take.h"
#include "proto/manifest_check.h"

#define KILLED 99
#define FILES 3
#define RUNS_MAX 2000

static char root[64];
static long operations, kill_at; /* in the child */

static void count(void)
{
    if (++operations == kill_at)
        _exit(KILLED);
}

static int op_open(const char *path, int flags, mode_t mode)
{
    count();
    return kymo_file_ops_system.open(path, flags, mode);
}

/* Half of what was meant gets there. */
static ssize_t op_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (operations + 1 == kill_at)
        (void)!kymo_file_ops_system.pwrite(fd, buf, n / 2, off);
    count();
    return kymo_file_ops_system.pwrite(fd, buf, n, off);
}

static int op_fsync(int fd)
{
    count();
    return kymo_file_ops_system.fsync(fd);
}

static int op_rename(const char *from, const char *to)
{
    count();
    return kymo_file_ops_system.rename(from, to);
}

static int op_link(const char *from, const char *to)
{
    count();
    return kymo_file_ops_system.link(from, to);
}

static int op_unlink(const char *path)
{
    count();
    return kymo_file_ops_system.unlink(path);
}

static int op_mkdir(const char *path, mode_t mode)
{
    count();
    return kymo_file_ops_system.mkdir(path, mode);
}

static int op_rmdir(const char *path)
{
    count();
    return kymo_file_ops_system.rmdir(path);
}

static char *path_of(const char *name, char out[static 160])
{
    (void)snprintf(out, 160, "%s/%s", root, name);
    return out;
}

static void make_intake(void)
{
    char path[160], name[32];
    assert_int_equal(kymo_file_mkdirs(path_of("intake", path), NULL), 0);
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof name, "intake/f%d", i);
        assert_int_equal(kymo_file_write_atomic(path_of(name, path), "some bytes of a capture", 5 + (size_t)i, NULL),
                         0);
    }
}

static struct spool *open_spool(void)
{
    struct spool_limits limits = spool_limits_default;
    struct kymo_err err = {0};
    struct spool *s;
    char path[160];
    limits.floor_bytes = 0;
    limits.reserve_bytes = 4096;
    limits.originals_stay = true;
    if (spool_open(path_of("spool", path), &limits, &s, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return s;
}

static int take(struct spool *s, enum spool_how how, uint32_t lost, struct outbox_take_end *end)
{
    char paths[FILES][160], names[FILES][8], directory[160], id[] = "c1", job[] = "train";
    struct outbox_file files[FILES] = {0};
    Kymo__Manifest__Capture meta = KYMO__MANIFEST__CAPTURE__INIT;
    struct outbox_take *t;
    struct kymo_err err = {0};
    meta.capture_id = id;
    meta.job = job;
    for (int i = 0; i < FILES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "intake/f%d", i);
        (void)snprintf(names[i], sizeof names[i], "f%d", i);
        files[i] = (struct outbox_file){
            .path = path_of(name, paths[i]), .name = names[i], .type = KYMO__MANIFEST__FILE__KIND__NTFF};
    }
    path_of("intake", directory);
    int r = lost ? outbox_take_new_lost(id, lost, directory, &t, &err)
                 : outbox_take_new(&meta, files, FILES, how, directory, &t, &err);
    if (r < 0)
        return r;
    do
        r = outbox_take_step(t, s, "kymod test", end, &err);
    while (r == OUTBOX_TAKE_MORE);
    outbox_take_free(t);
    return r;
}

/* What the next kymod does: takes again what is still in the intake. */
static void run(enum spool_how how, uint32_t lost)
{
    struct outbox_take_end end = {0};
    char path[160];
    struct spool *s = open_spool();
    if (access(path_of("intake", path), F_OK) == 0 && take(s, how, lost, &end) < 0)
        abort();
    spool_close(s);
}

/* The child's exit status. */
static int run_and_kill(enum spool_how how, uint32_t lost, long at)
{
    pid_t pid = fork();
    if (pid == 0) {
        static struct kymo_file_ops ops;
        ops = kymo_file_ops_system;
        ops.open = op_open;
        ops.pwrite = op_pwrite;
        ops.fsync = op_fsync;
        ops.rename = op_rename;
        ops.link = op_link;
        ops.unlink = op_unlink;
        ops.mkdir = op_mkdir;
        ops.rmdir = op_rmdir;
        kill_at = at;
        kymo_file_set_ops(&ops);
        run(how, lost);
        _exit(0);
    }
    int status = -1;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void verify_published(long killed_at)
{
    struct spool_status status;
    char path[160];
    struct spool *s = open_spool();
    spool_get_status(s, &status);
    if (status.pending.captures != 1 || status.issued.captures != 1 || status.lost.captures != 0)
        fail_msg("killed at %ld: %llu pending, %llu issued, %llu lost", killed_at,
                 (unsigned long long)status.pending.captures, (unsigned long long)status.issued.captures,
                 (unsigned long long)status.lost.captures);
    const struct spool_entry *e = spool_next(s, 0);
    assert_int_equal(e->nfiles, FILES + 1);
    uint8_t manifest[4096], data[64];
    size_t n;
    assert_int_equal(spool_read(s, e->seq, FILES, 0, manifest, sizeof manifest, &n, NULL), 0);
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    assert_int_equal(manifest_parse(manifest, n, &m, NULL), 0);
    for (size_t i = 0; i < FILES; i++) {
        /* What start-up took in has its files in any order. */
        size_t at = 0;
        while (at < FILES && strcmp(e->files[at].name, m->files[i]->name) != 0)
            at++;
        assert_int_equal(m->files[i]->size, 5 + i);
        assert_int_equal(spool_read(s, e->seq, at, 0, data, sizeof data, &n, NULL), 0);
        assert_int_equal(n, 5 + i);
        assert_memory_equal(data, "some bytes of a capture", n);
    }
    spool_close(s);
    assert_int_equal(access(path_of("intake", path), F_OK), -1);
}

static void clean(void)
{
    char path[160];
    assert_int_equal(kymo_file_remove_tree(path_of("spool", path), NULL), 0);
    assert_int_equal(kymo_file_remove_tree(path_of("intake", path), NULL), 0);
}

static void killed_everywhere(enum spool_how how)
{
    int status = KILLED;
    for (long at = 1; status == KILLED; at++) {
        assert_true(at < RUNS_MAX);
        make_intake();
        status = run_and_kill(how, 0, at);
        /* The one that goes on is killed as well, now and then. */
        if (at % 4 == 1)
            (void)run_and_kill(how, 0, 1 + at * 7 % 60);
        run(how, 0);
        verify_published(at);
        clean();
    }
    assert_int_equal(status, 0);
}

static void test_by_link(void **state)
{
    (void)state;
    killed_everywhere(SPOOL_RENAME);
}

static void test_by_copy(void **state)
{
    (void)state;
    killed_everywhere(SPOOL_COPY);
}

/* A loss row comes first, then the intake directory goes; never the other way round. */
static void test_lost(void **state)
{
    (void)state;
    int status = KILLED;
    for (long at = 1; status == KILLED; at++) {
        struct spool_status st;
        char path[160];
        assert_true(at < RUNS_MAX);
        make_intake();
        status = run_and_kill(SPOOL_RENAME, SPOOL_MISSING, at);
        bool there = access(path_of("intake", path), F_OK) == 0;
        struct spool *s = open_spool();
        spool_get_status(s, &st);
        assert_true(there || st.lost.captures == 1);
        assert_int_equal(st.pending.captures, 0);
        spool_close(s);
        clean();
    }
    assert_int_equal(status, 0);
}

static int no_link(const char *from, const char *to)
{
    (void)from;
    (void)to;
    errno = EPERM;
    return -1;
}

/* Where somebody else's file may not be linked it is copied, and the original stays until the end as well. */
static void test_where_links_are_forbidden(void **state)
{
    (void)state;
    struct kymo_file_ops ops = kymo_file_ops_system;
    ops.link = no_link;
    kymo_file_set_ops(&ops);
    make_intake();
    run(SPOOL_RENAME, 0);
    kymo_file_set_ops(NULL);
    verify_published(0);
    clean();
}

static int setup(void **state)
{
    (void)state;
    /* A kill loses nothing that a process has written, so syncs need not cost anything. */
    (void)snprintf(root, sizeof root, "%s/kymo-take-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return kymo_file_remove_tree(root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_by_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_where_links_are_forbidden, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
