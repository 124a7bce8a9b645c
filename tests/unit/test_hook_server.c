/* Hooks as they should be and as they should not: what is answered when, who is sent away, and that others do not
 * notice. */
#include "daemon/hook_server.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "daemon/rank.h"
#include "tests/unit/daemon_world.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static bool has_policy(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->policies > 0;
}

static bool has_intake(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->intake >= 0;
}

static bool is_closed(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->closed;
}

static void test_answer(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nstall-limit = 9\nneff-bytes = 5M\narmed = continuous\n"
                                "buffer-dma-mb = 32\nh2d-dma-off = true\n[job nobody]\nstall-limit = 1\n");
    struct hook_client c;
    struct stat st;
    assert_true(hook_client_open(&c, w->socket));
    uint64_t start = kymo_clock_mono_ns();
    hook_client_hello(&c, 0);
    assert_true(world_until(w, &c, has_policy, 1000));
    assert_true(kymo_clock_mono_ns() - start < KYMO_HOOK_QUESTION_MS * 1000000ull);
    /* On a busy machine the first answer may have been the general one. */
    assert_true(world_until(w, &c, has_intake, 2000));
    assert_int_equal(c.policy.version, 1);
    assert_int_equal(c.policy.stall_limit_ns, 9000000);
    assert_int_equal(c.policy.neff_max_bytes, 5 << 20);
    assert_int_equal(c.policy.buffer_mb[2], 32);
    assert_int_equal(c.policy.buffer_mb[6], 0);
    assert_int_equal(c.policy.buffer_mb[0], KYMO_HOOK_BUFFER_LEAVE);
    assert_int_equal(c.policy.mode, KYMO_HOOK_MODE_CONTINUOUS);
    assert_int_equal(fstat(c.intake, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_uid, getuid());
    hook_client_close(&c);
    (void)world_free(w);
}

/* Each is closed, and one that behaves is still served afterwards. */
static void expect_closed(struct world *w, struct hook_client *c, const char *what)
{
    if (!world_until(w, c, is_closed, 3000))
        fail_msg("%s: was not closed", what);
    hook_client_close(c);
}

static void test_bad_hello(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct hook_client good, c;
    world_join(w, &good);
    struct kymo_hook_hello h = {.version_min = 1, .version_max = 1};
    const size_t size = sizeof(struct kymo_hook_page);
    const struct {
        const char *what;
        int fd;
    } pages[] = {
        {"no page", -1},
        {"an unsealed page", hook_client_memfd(NULL, size, 0)},
        {"a page that can shrink", hook_client_memfd(NULL, size, F_SEAL_GROW)},
        {"a short page", hook_client_memfd(NULL, size - 1, SEALS)},
        {"a long page", hook_client_memfd(NULL, size + 4096, SEALS)},
        {"a page of zeros", hook_client_memfd(NULL, size, SEALS)},
        {"a directory", open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC)},
        {"a device", open("/dev/zero", O_RDWR | O_CLOEXEC)},
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        assert_true(hook_client_open(&c, w->socket));
        assert_true(hook_client_say(&c, KYMO_HOOK_HELLO, &h, sizeof h, pages[i].fd));
        expect_closed(w, &c, pages[i].what);
        (void)close(pages[i].fd);
    }
    assert_true(hook_client_open(&c, w->socket));
    h.version_min = h.version_max = 9;
    assert_true(hook_client_say(&c, KYMO_HOOK_HELLO, &h, sizeof h, c.page_fd));
    assert_true(world_until(w, &c, is_closed, 1000));
    assert_int_equal(c.policies, 1);
    assert_int_equal(c.policy.version, 0);
    assert_int_equal(c.policy.version_max, KYMO_HOOK_VERSION_MAX);
    hook_client_close(&c);
    world_turn(w, &good, 20);
    assert_false(good.closed);
    assert_int_equal(jobs_rank_count(w->jobs), 1);
    hook_client_close(&good);
    (void)world_free(w);
}

static void test_bad_packets(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    static const uint8_t zeros[8192];
    struct hook_client c;
    struct kymo_hook_loaded loaded = {.model = 1, .neff_bytes = 5};
    struct kymo_hook_captured captured = {.id = "../../etc"};

    assert_true(hook_client_open(&c, w->socket));
    hook_client_state(&c, KYMO_HOOK_RUN_READY);
    expect_closed(w, &c, "STATE before HELLO");

    world_join(w, &c);
    hook_client_hello(&c, 0);
    expect_closed(w, &c, "HELLO twice");

    world_join(w, &c);
    assert_true(hook_client_send(&c, zeros, 1, -1));
    expect_closed(w, &c, "one byte");

    world_join(w, &c);
    assert_true(hook_client_send(&c, zeros, sizeof zeros, -1));
    expect_closed(w, &c, "a long packet");

    world_join(w, &c);
    assert_true(hook_client_say(&c, KYMO_HOOK_CAPTURED, &captured, sizeof captured, -1));
    expect_closed(w, &c, "a path as id");

    world_join(w, &c);
    int fd = hook_client_memfd("12345", 5, 0);
    assert_true(hook_client_say(&c, KYMO_HOOK_LOADED, &loaded, sizeof loaded, fd));
    expect_closed(w, &c, "an unsealed NEFF");
    (void)close(fd);

    world_join(w, &c);
    fd = hook_client_memfd("1234", 4, F_SEAL_WRITE | SEALS);
    assert_true(hook_client_say(&c, KYMO_HOOK_LOADED, &loaded, sizeof loaded, fd));
    expect_closed(w, &c, "a NEFF of another size");
    (void)close(fd);
    (void)world_free(w);
}

static void test_flood(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct hook_client good, bad;
    struct kymo_hook_header unknown = {.size = sizeof unknown, .type = 300};
    world_join(w, &good);
    assert_true(hook_client_open(&bad, w->socket));
    for (int i = 0; i < 100000 && !bad.closed; i++)
        if (!hook_client_send(&bad, &unknown, sizeof unknown, bad.page_fd))
            world_turn(w, &bad, 1);
    assert_true(bad.closed);
    hook_client_state(&good, KYMO_HOOK_RUN_READY);
    world_turn(w, &good, 20);
    assert_false(good.closed);
    assert_int_equal(hook_server_get_counts(w->hooks).hostile, 1);
    hook_client_close(&good);
    hook_client_close(&bad);
    (void)world_free(w);
}

static void test_limits(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nsessions-per-uid = 3\nsessions-max = 4\n");
    struct hook_client c[5];
    for (int i = 0; i < 5; i++) {
        assert_true(hook_client_open(&c[i], w->socket));
        world_turn(w, &c[i], 10);
        assert_int_equal(c[i].closed, i >= 3);
    }
    hook_client_close(&c[0]);
    world_turn(w, NULL, 10);
    hook_client_close(&c[4]);
    assert_true(hook_client_open(&c[4], w->socket));
    world_turn(w, &c[4], 10);
    assert_false(c[4].closed);
    /* Who says nothing does not keep the place for ever. */
    uint64_t start = kymo_clock_mono_ns();
    assert_true(world_until(w, &c[4], is_closed, HOOK_SESSION_HELLO_MS + 2500));
    assert_true(kymo_clock_mono_ns() - start > (HOOK_SESSION_HELLO_MS - 1000) * 1000000ull);
    for (int i = 1; i < 5; i++)
        hook_client_close(&c[i]);
    (void)world_free(w);
}

/* A page full of nonsense: numbers are wrong, and nothing else. */
static int count_rank(void *ctx, const struct jobs_rank *r)
{
    (void)r;
    ++*(int *)ctx;
    return 0;
}

static void test_page_of_nonsense(void **state)
{
    (void)state;
    struct world *w = world_new("period = 1\njitter = 0\n");
    struct hook_client c;
    int n = 0;
    world_join(w, &c);
    for (uint32_t model = 1; model <= 3; model++)
        hook_client_loaded(&c, model, (int32_t)model, NULL, 1);
    hook_client_loaded(&c, KYMO_HOOK_MODELS, -5, NULL, UINT32_MAX);
    world_turn(w, &c, 10);
    memset(&c.page->trigger_seen, 0xff, sizeof *c.page - offsetof(struct kymo_hook_page, trigger_seen));
    for (uint32_t model = 1; model <= 3; model++)
        c.page->slots[model - 1].model = model;
    world_turn(w, &c, 1300);
    assert_int_equal(jobs_each(w->jobs, count_rank, &n), 0);
    assert_int_equal(n, 1);
    hook_client_close(&c);
    (void)world_free(w);
}

static void test_hello_again_and_again(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct hook_client c;
    unsigned served = 0;
    for (int i = 0; i < 40; i++) {
        assert_true(hook_client_open(&c, w->socket));
        hook_client_hello(&c, 0);
        world_turn(w, &c, 10);
        served += !c.closed;
        hook_client_close(&c);
    }
    assert_in_range(served, 16, 20);
    world_turn(w, NULL, 1200);
    world_join(w, &c);
    assert_false(c.closed);
    hook_client_close(&c);
    (void)world_free(w);
}

#define SLOW_UID 54321
#define SLOW_JOBS 3

static int slow_pids[SLOW_JOBS]; /* atomic */
static int let_go;               /* atomic */
static int slow_reads;

/* Their environment cannot be read until somebody lets go, as with memory that a file system of their own backs. */
static int slow_open(const char *path, int flags, mode_t mode)
{
    char slow[64];
    for (size_t i = 0; i < SLOW_JOBS; i++) {
        (void)snprintf(slow, sizeof slow, "/proc/%d/environ", __atomic_load_n(&slow_pids[i], __ATOMIC_RELAXED));
        if (strcmp(path, slow) != 0)
            continue;
        (void)__atomic_fetch_add(&slow_reads, 1, __ATOMIC_RELAXED);
        for (int k = 0; k < 5000 && !__atomic_load_n(&let_go, __ATOMIC_ACQUIRE); k++)
            (void)usleep(1000);
    }
    return kymo_file_ops_system.open(path, flags, mode);
}

static int start_slow(const struct world *w)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct hook_client c;
    if (setuid(SLOW_UID) == 0 && hook_client_open(&c, w->socket)) {
        hook_client_hello(&c, 0);
        (void)sleep(30);
    }
    _exit(0);
}

static size_t count_ranks(const struct world *w, uid_t uid, bool welcome)
{
    size_t n = 0;
    for (const struct rank *r = jobs_first(w->jobs); r; r = r->next)
        n += r->uid == uid && (!welcome || r->welcome == RANK_WELCOMED);
    return n;
}

static bool have_come(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return count_ranks(w, SLOW_UID, false) == SLOW_JOBS && __atomic_load_n(&slow_reads, __ATOMIC_RELAXED) > 0;
}

static bool are_welcome(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return count_ranks(w, SLOW_UID, true) == SLOW_JOBS;
}

/* A user whose processes cannot be read keeps one worker, and nobody but himself waiting. */
static void test_slow_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct kymo_file_ops ops = kymo_file_ops_system;
    struct hook_client c;
    ops.open = slow_open;
    kymo_file_set_ops(&ops);
    struct world *w = world_new("period = 0\n");
    assert_int_equal(chmod(w->dir, 0711), 0);
    for (size_t i = 0; i < SLOW_JOBS; i++)
        __atomic_store_n(&slow_pids[i], start_slow(w), __ATOMIC_RELAXED);
    assert_true(world_until(w, NULL, have_come, 3000));
    world_join(w, &c);
    world_turn(w, &c, 100);
    assert_int_equal(count_ranks(w, 0, true), 1);
    assert_int_equal(count_ranks(w, SLOW_UID, true), 0);
    assert_int_equal(__atomic_load_n(&slow_reads, __ATOMIC_RELAXED), 1);
    __atomic_store_n(&let_go, 1, __ATOMIC_RELEASE);
    assert_true(world_until(w, &c, are_welcome, 3000));
    for (size_t i = 0; i < SLOW_JOBS; i++) {
        assert_int_equal(kill(slow_pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(slow_pids[i], NULL, 0), slow_pids[i]);
    }
    hook_client_close(&c);
    (void)world_free(w);
    kymo_file_set_ops(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_bad_hello),
        cmocka_unit_test(test_bad_packets),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_page_of_nonsense),
        cmocka_unit_test(test_hello_again_and_again),
        cmocka_unit_test(test_slow_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
