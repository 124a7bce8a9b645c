/* libkymo-hook.so in processes that fork, exec, thread, close what is not theirs, or have no runtime at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver-iface/hook/hook_real.h"
#include "tests/unit/hook_peer.h"
#include "tests/unit/hook_run.h"

#define WAIT_MS 5000

static struct hook_run job;
static struct hook_peer *peer;
static struct hook_peer_config config;

static int setup(void **state)
{
    (void)state;
    hook_run_init(&job);
    config = (struct hook_peer_config){.dir = job.dir, .intake = job.intake, .policy = hook_peer_policy()};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hook_peer_stop(peer);
    peer = NULL;
    hook_run_done(&job);
    return 0;
}

static void probe(bool hooked, const char *what, const char *n, const char *const *env)
{
    const char *const argv[] = {KYMO_TEST_PROBE, what, n, NULL};
    const char *all_env[8] = {"KYMO_LIBNRT=" KYMO_TEST_STUB};
    size_t k = 1;

    for (size_t i = 0; env && env[i]; i++)
        all_env[k++] = env[i];
    hook_run_start(&job, hooked, argv, all_env);
    hook_run_wait(&job);
}

static void succeed(const char *what, const char *n, const char *const *env)
{
    if (!peer) {
        peer = hook_peer_start(&config);
        assert_non_null(peer);
    }
    probe(true, what, n, env);
    if (job.code != 0)
        fail_msg("%s: exit code %d: %s", what, job.code, job.text);
}

static struct hook_peer_event wait_for(uint16_t type, size_t n)
{
    struct hook_peer_event e = {0};

    if (!hook_peer_wait(peer, type, n, WAIT_MS, &e))
        fail_msg("packet %u number %zu did not come; the job said: %.2000s", type, n, job.text);
    return e;
}

static void test_no_syscalls(void **state)
{
    (void)state;
    succeed("syscalls", "100000", NULL);
    probe(true, "syscalls-control", "1", NULL);
    assert_int_equal(job.code, 128 + 31); /* SIGSYS: the filter works */
}

static void test_no_syscalls_without_daemon(void **state)
{
    (void)state;
    probe(true, "syscalls", "100000", NULL);
    assert_int_equal(job.code, 0);
}

static void test_fork(void **state)
{
    struct hook_peer_event e, first;

    (void)state;
    succeed("fork", "100", NULL);
    first = wait_for(KYMO_HOOK_HELLO, 0);
    e = wait_for(KYMO_HOOK_HELLO, 1); /* of the child that began anew */
    assert_int_not_equal(e.u.hello.pid, first.u.hello.pid);
    assert_int_not_equal(e.connection, first.connection);
    assert_false(e.u.hello.flags & KYMO_HOOK_HELLO_AGAIN);
    (void)wait_for(KYMO_HOOK_UNLOADED, 1);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_HELLO), 2);
    for (size_t i = 0; i < 2; i++) {
        e = wait_for(KYMO_HOOK_UNLOADED, i);
        assert_int_equal(e.u.unloaded.executions, e.connection == first.connection ? 10 : 3);
    }
}

/* The executed program has a hook of its own; what the first one put into the environment is not taken for the user's.
 */
static void test_exec(void **state)
{
    static const char *const env[] = {"KYMO_STUB_PRINT=1", "NEURON_RT_PROFILE_BUF_DMA_MB=7", NULL};
    struct hook_peer_event e;

    (void)state;
    config.policy.buffer_mb[0] = 32;
    config.policy.buffer_mb[2] = 16;
    succeed("exec", "6", env);
    assert_string_equal(job.text, "NEURON_RT_PROFILE_BUF_EVENT_MB=32\nNEURON_RT_PROFILE_BUF_DMA_MB=7\n");
    for (size_t i = 0; i < 2; i++) {
        bool mine = false;

        (void)wait_for(KYMO_HOOK_HELLO, i);
        for (size_t k = 0; !mine && k < hook_peer_count(peer, KYMO_HOOK_STATE); k++) {
            e = wait_for(KYMO_HOOK_STATE, k);
            mine = e.u.state.buffers_ours == 1u << 0 && e.u.state.buffers_user == 1u << 2;
        }
        assert_true(mine);
    }
    e = wait_for(KYMO_HOOK_UNLOADED, 0);
    assert_int_equal(e.u.unloaded.executions, 4);
}

/* A changed policy reaches the executed program's buffers. */
static void test_exec_takes_new_buffers(void **state)
{
    static const char *const env[] = {"KYMO_STUB_PRINT=1", "NEURON_RT_PROFILE_BUF_EVENT_MB=32",
                                      "KYMO_HOOK_SET=EVENT=32,", NULL};

    (void)state;
    config.policy.buffer_mb[0] = 128;
    succeed("once", "1", env);
    assert_non_null(strstr(job.text, "NEURON_RT_PROFILE_BUF_EVENT_MB=128\n"));
}

static void test_threads(void **state)
{
    struct hook_peer_event e;

    (void)state;
    succeed("threads", "0", NULL);
    e = wait_for(KYMO_HOOK_UNLOADED, 0);
    assert_int_equal(e.u.unloaded.executions, 160000);
}

/* A capture under eight threads: one is made, nothing is lost or counted twice. */
static void test_threads_captured(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.trigger = (struct kymo_hook_trigger){.seq = 1, .mode = KYMO_HOOK_MODE_MODEL, .id = "t", .execution = 0};
    succeed("threads", "0", NULL);
    e = wait_for(KYMO_HOOK_CAPTURED, 0);
    assert_string_equal(e.u.captured.id, "t");
    e = wait_for(KYMO_HOOK_UNLOADED, 0);
    assert_int_equal(e.u.unloaded.executions, 160000);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_CAPTURED), 1);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_REFUSED), 0);
    assert_int_equal(hook_run_files(job.intake, ".ntff"), 1);
}

/* More models than slots, loaded and unloaded under running ones. */
static void test_churn(void **state)
{
    (void)state;
    succeed("churn", "20000", NULL);
    (void)wait_for(KYMO_HOOK_LOADED, 0);
}

static void test_leave(void **state)
{
    (void)state;
    succeed("leave", "3", NULL);
    hook_peer_stop(peer);
    peer = NULL;
    probe(true, "leave", "3", NULL); /* without a daemon as well */
    assert_int_equal(job.code, 0);
}

static void test_close_all(void **state)
{
    (void)state;
    succeed("close-all", "50", NULL);
}

static void test_errno(void **state)
{
    (void)state;
    config.trigger = (struct kymo_hook_trigger){.seq = 1, .mode = KYMO_HOOK_MODE_MODEL, .id = "e", .execution = 5};
    succeed("errno", "5", NULL);
    (void)wait_for(KYMO_HOOK_CAPTURED, 0); /* the last execution was the captured one */
}

static void test_dlsym(void **state)
{
    (void)state;
    probe(true, "dlsym", "0", NULL);
    assert_string_equal(job.text, "nrt_execute from libkymo-hook.so\n");
    assert_int_equal(job.code, 0);
    probe(true, "dlsym", "0", (const char *const[]){"KYMO_HOOK_DISABLE=1", NULL});
    assert_string_equal(job.text, "nrt_execute from libnrt.so.1\n");
    assert_int_equal(job.code, 0);
}

/* A job whose calls were seen: how many executions. */
static void reach(const char *what, const char *const *env)
{
    struct hook_peer_event e;

    config.trigger = (struct kymo_hook_trigger){.seq = 1, .mode = KYMO_HOOK_MODE_MODEL, .id = "m", .execution = 3};
    succeed(what, "5", env);
    assert_string_equal(job.text, "nrt_execute from libkymo-hook.so\n");
    e = wait_for(KYMO_HOOK_UNLOADED, 0);
    assert_int_equal(e.u.unloaded.executions, 5);
    e = wait_for(KYMO_HOOK_CAPTURED, 0); /* the profile interface was found as well */
    assert_int_equal(e.u.captured.first_execution, 3);
}

static void test_plugin(void **state)
{
    (void)state;
    reach("plugin", (const char *const[]){"KYMO_TEST_PLUGIN=" KYMO_TEST_PLUGIN, NULL});
}

static void test_namespace(void **state)
{
    (void)state;
    reach("dlmopen", NULL);
}

static void test_global(void **state)
{
    (void)state;
    reach("next", NULL);
}

/* The same without the hook: the probe's own expectations hold there too. */
static void test_probe_alone(void **state)
{
    static const char *const all[] = {"plugin", "dlmopen", "next"};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        probe(false, all[i], "5", (const char *const[]){"KYMO_TEST_PLUGIN=" KYMO_TEST_PLUGIN, NULL});
        assert_string_equal(job.text, "nrt_execute from libnrt.so.1\n");
        assert_int_equal(job.code, 0);
    }
}

/* Captures that took two seconds and a tenth of the job's time are enough. */
static void test_budget(void **state)
{
    static const char *const env[] = {"KYMO_STUB_SLOW_MS=2300", NULL};
    struct hook_peer_event e;

    (void)state;
    config.policy.stall_limit_ns = 60000000000ull;
    config.trigger = (struct kymo_hook_trigger){.seq = 1, .mode = KYMO_HOOK_MODE_MODEL, .id = "first", .execution = 0};
    peer = hook_peer_start(&config);
    assert_non_null(peer);
    const char *const argv[] = {KYMO_TEST_PROBE, "pause", "60", NULL};
    const char *const all_env[] = {"KYMO_LIBNRT=" KYMO_TEST_STUB, env[0], NULL};
    hook_run_start(&job, true, argv, all_env);
    e = wait_for(KYMO_HOOK_CAPTURED, 0);
    assert_true(e.u.captured.stall_ns > 2300000000ull);
    config.trigger.seq = 2;
    (void)snprintf(config.trigger.id, sizeof config.trigger.id, "second");
    hook_peer_trigger(peer, &config.trigger);
    e = wait_for(KYMO_HOOK_REFUSED, 0);
    assert_int_equal(e.u.refused.reason, KYMO_HOOK_REASON_BUDGET);
    assert_string_equal(e.u.refused.id, "second");
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
}

static void test_missing(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_CONTINUOUS;
    config.trigger = (struct kymo_hook_trigger){.seq = 1, .mode = KYMO_HOOK_MODE_SESSION, .id = "s", .count = 1};
    succeed("once", "5", NULL);
    e = wait_for(KYMO_HOOK_REFUSED, 0);
    assert_int_equal(e.u.refused.reason, KYMO_HOOK_REASON_MISSING);
    assert_string_equal(e.u.refused.text, "nrt_profile_continuous_options_allocate");
    assert_string_equal(e.u.refused.id, "");
    e = wait_for(KYMO_HOOK_REFUSED, 1);
    assert_string_equal(e.u.refused.text, "nrt_inspect_config_allocate");
    assert_string_equal(e.u.refused.id, "s");
}

/* A program without a runtime is not touched: no descriptor, no thread, no page, no word to the daemon. */
static void test_inert(void **state)
{
    static const char *const programs[][4] = {
        {"/bin/echo", "alone"},
        {"/bin/bash", "-c",
         "(exit 3) || ls /proc/$$/task | wc -l; ls -l /proc/$$/fd | grep -c -e memfd -e socket -e event; "
         "grep -c kymo-hook-page /proc/$$/maps; echo alone"},
        {"/usr/bin/python3", "-c",
         "import os, threading, ctypes\n"
         "text = open('/proc/self/maps').read()\n"
         "paths = ['/proc/self/fd/' + f for f in os.listdir('/proc/self/fd')]\n"
         "links = [os.readlink(p) for p in paths if os.path.lexists(p)]\n"
         "assert 'libkymo-hook' in text and 'kymo-hook-page' not in text\n"
         "assert not any('memfd' in x or 'socket' in x or 'event' in x for x in links), links\n"
         "assert len(os.listdir('/proc/self/task')) == 1\n"
         "try:\n    ctypes.CDLL(None).nrt_execute\n    raise SystemExit('a runtime')\n"
         "except AttributeError:\n    print('alone')\n"},
        {"/usr/bin/git", "--version"},
    };

    (void)state;
    peer = hook_peer_start(&config);
    assert_non_null(peer);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *const argv[] = {programs[i][0], programs[i][1], programs[i][2], NULL};

        hook_run_start(&job, true, argv, NULL);
        hook_run_wait(&job);
        if (job.code != 0 || !(strstr(job.text, i == 1 ? "1\n0\n0\nalone\n" : i == 3 ? "git version" : "alone\n")))
            fail_msg("%s: exit code %d: %s", argv[0], job.code, job.text);
    }
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_HELLO), 0);
}

/* Nothing is visible but what is interposed, and nothing is needed but libc. */
static void test_exports(void **state)
{
    const char *const nm[] = {"/usr/bin/nm", "-D", "--defined-only", "--format=posix", KYMO_TEST_HOOK, NULL};
    const char *const needed[] = {"/usr/bin/readelf", "-d", KYMO_TEST_HOOK, NULL};
    static const char *const meant[] = {"dlsym",
#define X(name) #name,
                                        HOOK_WRAPPED_MAP(X)
#undef X
#define X(name, index) #name,
                                            HOOK_WATCHED_MAP(X)
#undef X
    };
    const char *p;
    size_t n = 0;

    (void)state;
    hook_run_start(&job, false, nm, NULL);
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
    for (p = job.text; *p; p = strchr(p, '\n') + 1, n++) {
        bool known = false;

        for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
            known = known || (strncmp(p, meant[i], strlen(meant[i])) == 0 && p[strlen(meant[i])] == ' ');
        if (!known)
            fail_msg("exports %.40s", p);
    }
    assert_int_equal(n, sizeof meant / sizeof *meant);
    hook_run_start(&job, false, needed, NULL);
    hook_run_wait(&job);
    p = strstr(job.text, "(NEEDED)");
    assert_non_null(p);
    assert_non_null(strstr(p, "libc.so.6"));
    assert_null(strstr(p + 1, "(NEEDED)"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_syscalls),
        TEST(test_no_syscalls_without_daemon),
        TEST(test_fork),
        TEST(test_exec),
        TEST(test_exec_takes_new_buffers),
        TEST(test_threads),
        TEST(test_threads_captured),
        TEST(test_churn),
        TEST(test_leave),
        TEST(test_close_all),
        TEST(test_errno),
        TEST(test_dlsym),
        TEST(test_plugin),
        TEST(test_namespace),
        TEST(test_global),
        TEST(test_probe_alone),
        TEST(test_budget),
        TEST(test_missing),
        TEST(test_inert),
        TEST(test_exports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
