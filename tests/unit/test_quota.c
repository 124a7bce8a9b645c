/* Jobs that fill the intake, with captures and without, and that load programs without end. */
#include "daemon/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/jobs_internal.h"
#include "daemon/purge.h"
#include "tests/unit/daemon_world.h"

#define MIB (1 << 20)

static char ids[CAPTURES_IDS_MAX][KYMO_HOOK_ID_MAX];

static int ask(struct world *w, struct kymo_err *err)
{
    const struct captures_wish wish = {.trigger = "on-demand"};
    size_t n = 0;
    struct captures_ask *a;
    *err = (struct kymo_err){0};
    int r = captures_ask(w->captures, &wish, world_watch, w, ids, &n, &a, err);
    return r < 0 ? r : (int)n;
}

static bool is_over(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return w->ntold > 0 && w->told[w->ntold - 1].last;
}

static bool is_off(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return (c->policy.flags & KYMO_HOOK_POLICY_OFF) != 0;
}

static bool is_on(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return (c->policy.flags & KYMO_HOOK_POLICY_OFF) == 0;
}

/* <name>/<file> in the intake, with so many bytes on disk, or only a hole of that size. */
static void fill(const struct hook_client *c, const char *name, const char *file, size_t bytes, bool hole)
{
    static char block[MIB];
    char path[160];
    (void)mkdirat(c->intake, name, 0777);
    (void)snprintf(path, sizeof path, "%s/%s", name, file);
    int fd = openat(c->intake, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    memset(block, 'x', sizeof block);
    if (hole)
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    for (size_t i = 0; i < bytes && !hole; i += sizeof block)
        assert_int_equal(write(fd, block, sizeof block), (ssize_t)sizeof block);
    assert_int_equal(close(fd), 0);
}

static void fill_with_files(const struct hook_client *c, const char *name)
{
    char file[32];
    (void)mkdirat(c->intake, name, 0777);
    int at = openat(c->intake, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i <= INTAKE_ENTRIES_MAX; i++) {
        (void)snprintf(file, sizeof file, "%u", i);
        int fd = openat(at, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(fd >= 0 && close(fd) == 0);
    }
    assert_int_equal(close(at), 0);
}

static uint64_t lost_too_large(const struct world *w)
{
    struct spool_status s = world_spool(w);
    return s.lost_since_open[SPOOL_TOO_LARGE].captures;
}

/* By bytes, by a hole, by files: each has its loss row, nothing is read, and nothing stays. */
static void test_large_captures(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nspool-capture-bytes = 1M\n");
    struct hook_client c;
    struct kymo_err err;
    world_join(w, &c);
    for (unsigned kind = 0; kind < 3; kind++) {
        w->ntold = 0;
        assert_int_equal(ask(w, &err), 1);
        world_turn(w, &c, 20);
        if (kind < 2) {
            fill(&c, ids[0], "a.ntff", MIB / 2, kind == 1);
            fill(&c, ids[0], "b.neff", 2 * MIB, kind == 1);
        }
        if (kind == 2)
            fill_with_files(&c, ids[0]);
        hook_client_captured(&c, ids[0], KYMO_HOOK_MODE_MODEL, 1);
        assert_true(world_until(w, &c, is_over, 5000));
        const char *text = world_text(w, CAPTURES_FAILED);
        assert_non_null(text);
        assert_non_null(strstr(text, "too-large"));
        assert_int_equal(lost_too_large(w), kind + 1);
        assert_int_equal(faccessat(c.intake, ids[0], F_OK, 0), -1);
    }
    hook_client_close(&c);
    (void)world_free(w);
}

static const char *reason;
static char text[256];

static int see(void *ctx, const struct jobs_rank *r)
{
    (void)ctx;
    (void)snprintf(text, sizeof text, "%s: %s", r->state, r->reason);
    reason = text;
    return 0;
}

/* It is switched off with a reason, what it wrote goes, and it comes back when the operator says so. */
static void test_intake_bytes(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nintake-bytes = 1M\n");
    struct hook_client c;
    struct kymo_err err;
    world_join(w, &c);
    fill(&c, "not-a-capture", "junk", 2 * MIB, false);
    (void)mkdirat(c.intake, "a", 0777);
    fill(&c, "a/deeper", "x", 2 * MIB, false);
    int loose = openat(c.intake, "loose", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(loose >= 0);
    assert_int_equal(close(loose), 0);
    assert_true(world_until(w, &c, is_off, 6000));
    world_turn(w, &c, 50);
    assert_int_equal(jobs_each(w->jobs, see, NULL), 0);
    assert_non_null(strstr(reason, "off: user"));
    assert_non_null(strstr(reason, "intake-bytes"));
    assert_int_equal(faccessat(c.intake, "not-a-capture", F_OK, 0), -1);
    assert_int_equal(faccessat(c.intake, "a", F_OK, 0), -1);
    assert_int_equal(faccessat(c.intake, "loose", F_OK, 0), -1);
    assert_int_equal(ask(w, &err), -EBUSY);
    assert_non_null(strstr(err.text, "intake-bytes"));
    world_reload(w, "period = 0\nintake-bytes = 1M\n");
    assert_true(world_until(w, &c, is_on, 3000));
    assert_int_equal(ask(w, &err), 1);
    world_turn(w, &c, 20);
    hook_client_write(&c, ids[0], "model_1_exec_7.ntff", "ntff");
    hook_client_captured(&c, ids[0], KYMO_HOOK_MODE_MODEL, 1);
    assert_true(world_until(w, &c, is_over, 3000));
    assert_int_equal(w->told[w->ntold - 1].state, CAPTURES_SPOOLED);
    hook_client_close(&c);
    (void)world_free(w);
}

static bool has_last_gone(const struct world *w, const struct hook_client *c)
{
    char path[160];
    (void)c;
    (void)snprintf(path, sizeof path, "%s/%s.d", w->intake, jobs_first(w->jobs)->key);
    return rmdir(path) == 0; /* which it is as soon as it is empty */
}

static void test_many_files(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nintake-bytes = 0\n");
    struct hook_client c;
    world_join(w, &c);
    fill_with_files(&c, ".");
    assert_true(world_until(w, &c, is_off, 8000));
    assert_int_equal(jobs_each(w->jobs, see, NULL), 0);
    assert_non_null(strstr(reason, "more than 2048 files"));
    assert_true(world_until(w, &c, has_last_gone, 10000));
    hook_client_close(&c);
    (void)world_free(w);
}

static const struct rank_model *model(const struct world *w, size_t i)
{
    return &jobs_first(w->jobs)->models[i];
}

static bool are_hashed(const struct world *w, const struct hook_client *c)
{
    (void)c;
    const struct rank *r = jobs_first(w->jobs);
    return r->nmodels == 4 && !r->models[0].ticket && !r->models[1].ticket && !r->models[2].ticket &&
           !r->models[3].ticket;
}

/* The same program counts once; one too many is not kept, and makes room for none. */
static void test_programs(void **state)
{
    (void)state;
    static char bytes[3][3000];
    struct world *w = world_new("period = 0\nneff-user-bytes = 4000\n");
    struct hook_client c;
    world_join(w, &c);
    for (size_t i = 0; i < 3; i++)
        memset(bytes[i], (int)i, sizeof bytes[i]);
    hook_client_loaded(&c, 1, 0, bytes[0], 3000);
    hook_client_loaded(&c, 2, 0, bytes[0], 3000);
    hook_client_loaded(&c, 3, 0, bytes[1], 3000);
    hook_client_loaded(&c, 4, 0, bytes[2], 900);
    assert_true(world_until(w, &c, are_hashed, 3000));
    assert_true(model(w, 0)->has_neff && model(w, 1)->has_neff && !model(w, 2)->has_neff && model(w, 3)->has_neff);
    /* Another size under a number that it had: what was kept for it is not kept any more. */
    hook_client_loaded(&c, 4, 0, bytes[2], 800);
    hook_client_loaded(&c, 1, 0, bytes[2], 100);
    world_turn(w, &c, 50);
    assert_true(world_until(w, &c, are_hashed, 3000));
    assert_int_equal(pins_bytes(&jobs_first(w->jobs)->jobs->pins, getuid()), 3000 + 800 + 100);
    hook_client_close(&c);
    (void)world_free(w);
}

static int deepen(int at)
{
    if (mkdirat(at, "d", 0777) < 0)
        return -1;
    int below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)close(at);
    return below;
}

/* Folders in folders without end, links that lead elsewhere, a folder that forbids itself: all goes, nothing else. */
static void test_purge(void **state)
{
    (void)state;
    char dir[] = "/tmp/kymo-test-purge.XXXXXX", path[64], kept[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/tree", dir);
    (void)snprintf(kept, sizeof kept, "%s/kept", dir);
    assert_int_equal(mkdir(path, 0777) | mkdir(kept, 0700), 0);
    int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char inside[80];
    (void)snprintf(inside, sizeof inside, "%s/file", kept);
    int file = open(inside, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(file >= 0 && close(file) == 0);
    for (int i = 0; i < 300 && at >= 0; i++) {
        assert_int_equal(symlinkat(kept, at, "link"), 0);
        at = deepen(at);
    }
    assert_true(at >= 0);
    assert_int_equal(mkdirat(top, "shut", 0) | mkfifoat(top, "fifo", 0600), 0);
    purge_entry(AT_FDCWD, path);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(close(top) | close(at), 0);
    assert_int_equal(access(inside, F_OK), 0);
    purge_entry(AT_FDCWD, inside);
    purge_entry(AT_FDCWD, inside);
    purge_entry(AT_FDCWD, dir);
    assert_int_equal(access(dir, F_OK), -1);
}

static void test_pins(void **state)
{
    (void)state;
    const uint8_t a[KYMO_SHA256_SIZE] = {1}, b[KYMO_SHA256_SIZE] = {2};
    struct pins p = {0};
    struct kymo_err err = {0};
    assert_int_equal(pins_hold(&p, 1, a, 10, 15, &err), 0);
    assert_int_equal(pins_hold(&p, 1, a, 10, 15, &err), 0);
    assert_int_equal(pins_hold(&p, 1, b, 6, 15, &err), -EDQUOT);
    assert_int_equal(pins_hold(&p, 2, b, 6, 15, &err), 0);
    assert_int_equal(pins_hold(&p, 1, b, UINT64_MAX, 15, &err), -EDQUOT);
    pins_release(&p, 1, b);
    pins_release(&p, 1, a);
    assert_int_equal(pins_bytes(&p, 1), 10);
    pins_release(&p, 1, a);
    assert_int_equal(pins_bytes(&p, 1), 0);
    assert_int_equal(pins_hold(&p, 1, b, 99, 0, &err), 0);
    pins_clear(&p);
    assert_int_equal(pins_bytes(&p, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_captures), cmocka_unit_test(test_intake_bytes), cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_purge),          cmocka_unit_test(test_programs),     cmocka_unit_test(test_pins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
