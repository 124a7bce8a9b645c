/* libkymo-hook.so in the simulated job: the question, the modes, refusals, bad daemons. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/unit/hook_peer.h"
#include "tests/unit/hook_run.h"
#include "tests/unit/sim_fixture.h"

#define WAIT_MS 10000

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

/* The simulated job, over dlopen or linked, with more arguments at the end. */
static void start_job(bool hooked, bool linked, const char *steps, const char *const *more, const char *const *env)
{
    const char *argv[HOOK_RUN_ARGS_MAX] = {linked ? KYMO_TEST_SIM_JOB : KYMO_TEST_SIM, NULL};
    const char *all_env[16] = {"KYMO_LIBNRT=" KYMO_TEST_LIBNRT};
    size_t n = 1, k = 1;

    if (!linked)
        argv[n++] = "job";
    argv[n++] = "--neff";
    argv[n++] = sim_fixture.neff;
    argv[n++] = "--steps";
    argv[n++] = steps;
    argv[n++] = "--output";
    argv[n++] = job.dir;
    for (size_t i = 0; more && more[i]; i++)
        argv[n++] = more[i];
    argv[n] = NULL;
    for (size_t i = 0; env && env[i]; i++)
        all_env[k++] = env[i];
    all_env[k] = NULL;
    hook_run_start(&job, hooked, argv, all_env);
}

static void start_peer(enum hook_peer_answer answer)
{
    config.answer = answer;
    peer = hook_peer_start(&config);
    assert_non_null(peer);
}

static void trigger(enum kymo_hook_mode mode, uint64_t execution, uint32_t count)
{
    config.trigger = (struct kymo_hook_trigger){.seq = 1, .mode = mode, .execution = execution, .count = count};
    (void)snprintf(config.trigger.id, sizeof config.trigger.id, "cap-1");
}

static struct hook_peer_event wait_for(uint16_t type)
{
    struct hook_peer_event e = {0};

    if (!hook_peer_wait(peer, type, 0, WAIT_MS, &e))
        fail_msg("no packet %u came; the job said: %.2000s", type, job.text);
    return e;
}

static size_t captured_files(const char *id, const char *end)
{
    char path[160];

    (void)snprintf(path, sizeof path, "%s/%s", job.intake, id);
    return hook_run_files(path, end);
}

/* without a daemon, and with every kind of bad one */

static void run_both(bool linked, const char *steps, const char *const *more, const char *const *env)
{
    static char plain[HOOK_RUN_OUTPUT_MAX];
    int code;

    start_job(false, linked, steps, more, env);
    hook_run_wait(&job);
    code = job.code;
    memcpy(plain, job.text, sizeof plain);
    start_job(true, linked, steps, more, env);
    hook_run_wait(&job);
    assert_string_equal(job.text, plain);
    assert_int_equal(job.code, code);
}

static void test_absent(void **state)
{
    static const char *const fails[] = {"KYMO_SIM_FAIL_EXECUTION=3", NULL};
    static const char *const async[] = {"--async", NULL};

    (void)state;
    for (int linked = 0; linked < 2; linked++) {
        run_both(linked, "5", NULL, NULL);
        assert_int_equal(job.code, 0);
        run_both(linked, "5", NULL, fails);
        assert_int_equal(job.code, 3);
        run_both(linked, "5", async, NULL);
        assert_int_equal(job.code, 0);
    }
}

static void test_bad_peers(void **state)
{
    static const enum hook_peer_answer answers[] = {HOOK_PEER_NEVER, HOOK_PEER_CLOSE, HOOK_PEER_GARBAGE,
                                                    HOOK_PEER_FLOOD, HOOK_PEER_STRANGER};

    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        start_peer(answers[i]);
        run_both(i % 2, "500", NULL, NULL);
        assert_int_equal(job.code, 0);
        assert_true(hook_peer_count(peer, KYMO_HOOK_HELLO) > 0);
        hook_peer_stop(peer);
        peer = NULL;
    }
}

static void test_killed_by_environment(void **state)
{
    static const char *const env[] = {"KYMO_HOOK_DISABLE=1", NULL};

    (void)state;
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    start_peer(HOOK_PEER_POLICY);
    run_both(false, "20", NULL, env);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_HELLO), 0);
}

/* the question */

static void test_answered(void **state)
{
    struct hook_peer_event e;

    (void)state;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, true, "20", NULL, NULL);
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
    e = wait_for(KYMO_HOOK_HELLO);
    assert_int_equal(e.u.hello.version_max, KYMO_HOOK_VERSION_MAX);
    assert_int_equal(e.u.hello.page_size, sizeof(struct kymo_hook_page));
    assert_string_equal(e.u.hello.program, "kymo-sim-job");
    e = wait_for(KYMO_HOOK_STATE);
    assert_int_equal(e.u.state.answered, 1);
    assert_true(e.u.state.question_us < KYMO_HOOK_QUESTION_MS * 1000);
    e = wait_for(KYMO_HOOK_LOADED);
    assert_true(e.has_fd);
    assert_int_equal(e.u.loaded.neff_bytes, sim_fixture.size);
    e = wait_for(KYMO_HOOK_UNLOADED);
    assert_int_equal(e.u.unloaded.executions, 20);
    assert_int_equal(hook_peer_page(peer)->slots[0].executions, 20);
    assert_int_equal(hook_peer_page(peer)->run_state, KYMO_HOOK_RUN_CLOSED);
}

static void test_counters(void **state)
{
    const struct kymo_hook_model_slot *s;
    uint64_t sum = 0;

    (void)state;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, false, "50", NULL, (const char *const[]){"KYMO_SIM_FAIL_EXECUTION=40", NULL});
    hook_run_wait(&job);
    assert_int_equal(job.code, 3);
    s = &hook_peer_page(peer)->slots[0];
    for (size_t i = 0; i < KYMO_HOOK_BUCKETS; i++)
        sum += s->buckets[i];
    assert_int_equal(sum, 40);
    assert_int_equal(s->executions, 40);
    assert_int_equal(s->failures, 1);
    assert_int_equal(s->last_status, 1004);
    assert_true(s->max_ns > 0 && s->total_ns >= s->max_ns);
}

static void test_never_is_bounded(void **state)
{
    struct hook_peer_event e;

    (void)state;
    start_peer(HOOK_PEER_NEVER);
    start_job(true, true, "20", NULL, NULL);
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
    e = wait_for(KYMO_HOOK_STATE);
    assert_int_equal(e.u.state.answered, 0);
    assert_in_range(e.u.state.question_us, KYMO_HOOK_QUESTION_MS * 1000, KYMO_HOOK_QUESTION_MS * 1000 + 100000);
}

static void test_late(void **state)
{
    struct hook_peer_event e;

    (void)state;
    trigger(KYMO_HOOK_MODE_SESSION, 0, 2);
    start_peer(HOOK_PEER_LATE);
    start_job(true, true, "1000000", NULL, NULL);
    /* The trigger may be met before the policy: then it is refused, and asked for again. */
    if (!hook_peer_wait(peer, KYMO_HOOK_CAPTURED, 0, 1000, &e)) {
        e = wait_for(KYMO_HOOK_REFUSED);
        assert_true(e.u.refused.reason == KYMO_HOOK_REASON_INTAKE || e.u.refused.reason == KYMO_HOOK_REASON_STALL);
        config.trigger.seq = 2;
        hook_peer_trigger(peer, &config.trigger);
    }
    e = wait_for(KYMO_HOOK_CAPTURED);
    assert_string_equal(e.u.captured.id, "cap-1");
    assert_int_equal(kill(job.pid, SIGTERM), 0);
    hook_run_wait(&job);
    assert_int_equal(job.code, 128 + SIGTERM);
}

/* modes */

static struct hook_peer_event capture(bool linked, const char *steps, const char *const *more, size_t ntffs)
{
    struct hook_peer_event e;

    start_peer(HOOK_PEER_POLICY);
    start_job(true, linked, steps, more, NULL);
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
    e = wait_for(KYMO_HOOK_CAPTURED);
    assert_string_equal(e.u.captured.id, "cap-1");
    assert_int_equal(captured_files("cap-1", ".ntff"), ntffs);
    assert_int_equal(hook_run_files(job.intake, ".ntff"), ntffs);
    assert_true(e.u.captured.stall_ns >= e.u.captured.stall_max_ns && e.u.captured.stall_max_ns > 0);
    assert_true(e.u.captured.end_unix_ns > e.u.captured.start_unix_ns);
    assert_int_equal(hook_peer_page(peer)->captures, 1);
    assert_int_equal(hook_peer_page(peer)->capturing, KYMO_HOOK_MODE_NONE);
    return e;
}

/* The NEFF came as a memfd; it is the one loaded. */
static void check_neff(void)
{
    char path[128];
    uint8_t *bytes KYMO_FREE = NULL;
    size_t n = 0;

    (void)snprintf(path, sizeof path, "%s/neff_1.neff", job.intake);
    assert_int_equal(kymo_file_read_all(path, 1u << 30, &bytes, &n, NULL), 0);
    assert_int_equal(n, sim_fixture.size);
    assert_memory_equal(bytes, sim_fixture.bytes, n);
}

static void test_mode_model(void **state)
{
    struct hook_peer_event e;

    (void)state;
    trigger(KYMO_HOOK_MODE_MODEL, 4, 1);
    e = capture(false, "6", NULL, 1);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_MODEL);
    assert_int_equal(e.u.captured.first_execution, 4);
    assert_int_equal(e.u.captured.executions, 1);
    check_neff();
}

static void test_mode_session(void **state)
{
    struct hook_peer_event e;

    (void)state;
    trigger(KYMO_HOOK_MODE_SESSION, 2, 3);
    e = capture(true, "9", NULL, 1);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_SESSION);
    assert_int_equal(e.u.captured.first_execution, 2);
    assert_int_equal(e.u.captured.executions, 3);
    assert_int_equal(e.u.captured.flags, 0);
    check_neff();
}

static void test_mode_continuous(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_CONTINUOUS;
    trigger(KYMO_HOOK_MODE_CONTINUOUS, 5, 1);
    e = capture(false, "9", NULL, 1);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_CONTINUOUS);
    assert_int_equal(e.u.captured.first_execution, 5);
    assert_int_equal(captured_files("cap-1", ".neff"), 1);
    e = wait_for(KYMO_HOOK_STATE);
    assert_int_equal(e.u.state.armed, KYMO_HOOK_MODE_CONTINUOUS);
    check_neff();
}

/* The armed mode makes room for another one and comes back. */
static void test_model_while_continuous(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_CONTINUOUS;
    trigger(KYMO_HOOK_MODE_MODEL, 3, 1);
    e = capture(true, "9", NULL, 1);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_MODEL);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_REFUSED), 0);
}

static void test_mode_on_failure(void **state)
{
    static const char *const env[] = {"KYMO_SIM_FAIL_EXECUTION=3", NULL};
    struct hook_peer_event e;

    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_ON_FAILURE;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, true, "9", NULL, env);
    hook_run_wait(&job);
    assert_int_equal(job.code, 3);
    e = wait_for(KYMO_HOOK_CAPTURED);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_ON_FAILURE);
    assert_int_equal(e.u.captured.status, 1004);
    assert_int_equal(e.u.captured.first_execution, 3);
    assert_int_equal(captured_files(e.u.captured.id, ".ntff"), 1);
    check_neff();
}

static void test_on_failure_without_one(void **state)
{
    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_ON_FAILURE;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, false, "5", NULL, NULL);
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_CAPTURED), 0);
    assert_int_equal(hook_run_files(job.intake, ".ntff"), 0);
    assert_int_equal(rmdir(job.intake), -1); /* the NEFF alone */
    assert_int_equal(hook_run_files(job.intake, ""), 1);
}

static void test_async_falls_to_session(void **state)
{
    static const char *const more[] = {"--async", NULL};
    struct hook_peer_event e;

    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_CONTINUOUS; /* ends without a word when the job schedules */
    trigger(KYMO_HOOK_MODE_MODEL, 3, 2);
    e = capture(false, "9", more, 1);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_SESSION);
    assert_int_equal(e.u.captured.asked, KYMO_HOOK_MODE_MODEL);
    assert_true(e.u.captured.flags & KYMO_HOOK_CAPTURE_FALLBACK);
    assert_null(strstr(job.text, "asynchronous"));
}

static void test_several_fall_to_session(void **state)
{
    const char *const more[] = {"--neff", sim_fixture.neff, NULL};
    struct hook_peer_event e;

    (void)state;
    trigger(KYMO_HOOK_MODE_MODEL, 2, 1);
    e = capture(false, "5", more, 1);
    assert_int_equal(e.u.captured.mode, KYMO_HOOK_MODE_SESSION);
    assert_true(e.u.captured.flags & KYMO_HOOK_CAPTURE_FALLBACK);
    assert_int_equal(e.u.captured.executions, 1);
}

/* Of two that are executed alike the policy names the second; the hook says so, and what runtime it found. */
static void test_step_model_is_named(void **state)
{
    const char *const more[] = {"--neff", sim_fixture.neff, NULL};
    struct hook_peer_event e;

    (void)state;
    config.policy.step_model = 2;
    trigger(KYMO_HOOK_MODE_SESSION, 2, 2);
    e = capture(false, "5", more, 1);
    assert_int_equal(e.u.captured.model, 2);
    assert_int_equal(e.u.captured.first_execution, 2);
    assert_int_equal(e.u.captured.executions, 2);
    e = wait_for(KYMO_HOOK_STATE);
    assert_int_equal(e.u.state.step_model, 2);
    assert_int_equal(e.u.state.runtime_version[0], 2);
    assert_int_equal(e.u.state.runtime_version[1], 33);
}

/* A number that names nothing that is loaded is none. */
static void test_step_model_is_not_there(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.policy.step_model = 77;
    trigger(KYMO_HOOK_MODE_MODEL, 2, 1);
    e = capture(false, "4", NULL, 1);
    assert_int_equal(e.u.captured.model, 1);
}

/* A session that nrt_close ends is whole, and says that it is shorter. */
static void test_session_cut(void **state)
{
    struct hook_peer_event e;

    (void)state;
    trigger(KYMO_HOOK_MODE_SESSION, 3, 1000);
    e = capture(false, "5", NULL, 1);
    assert_int_equal(e.u.captured.executions, 3);
    assert_true(e.u.captured.flags & KYMO_HOOK_CAPTURE_CUT);
}

static void test_future_version(void **state)
{
    (void)state;
    trigger(KYMO_HOOK_MODE_SESSION, 2, 1);
    start_peer(HOOK_PEER_FUTURE);
    start_job(true, false, "5", NULL, NULL);
    hook_run_wait(&job);
    (void)wait_for(KYMO_HOOK_CAPTURED);
}

/* refusals */

static void refused(enum kymo_hook_reason reason, const char *text, const char *const *more, const char *const *env)
{
    struct hook_peer_event e;

    start_peer(HOOK_PEER_POLICY);
    start_job(true, false, "5", more, env);
    hook_run_wait(&job);
    assert_int_equal(job.code, 0);
    e = wait_for(KYMO_HOOK_REFUSED);
    assert_int_equal(e.u.refused.reason, reason);
    if (text && !strstr(e.u.refused.text, text))
        fail_msg("\"%s\" does not speak of %s", e.u.refused.text, text);
    assert_int_equal(hook_peer_count(peer, KYMO_HOOK_CAPTURED), 0);
}

static void test_refuses_inspect(void **state)
{
    static const char *const env[] = {"NEURON_RT_INSPECT_ENABLE=1", "NEURON_RT_INSPECT_DEVICE_PROFILE=0", NULL};

    (void)state;
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    refused(KYMO_HOOK_REASON_INSPECT, "NEURON_RT_INSPECT_ENABLE", NULL, env);
}

static void test_refuses_foreign(void **state)
{
    static const char *const more[] = {"--capture", "continuous", "--capture-steps", "4", NULL};

    (void)state;
    config.policy.mode = KYMO_HOOK_MODE_CONTINUOUS;
    trigger(KYMO_HOOK_MODE_SESSION, 2, 1);
    refused(KYMO_HOOK_REASON_FOREIGN, "nrt_profile_continuous_start", more, NULL);
    assert_int_equal(hook_run_files(job.dir, ".ntff"), 1); /* the job's own */
    assert_int_equal(hook_run_files(job.intake, ".ntff"), 0);
}

static void write_present(const char *bytes)
{
    char dir[200], path[256];

    (void)snprintf(dir, sizeof dir, "%s/neuron0/neuron_core1/stats/memory_usage/device_mem", job.sysfs);
    (void)snprintf(path, sizeof path, "%s/present", dir);
    assert_int_equal(kymo_file_mkdirs(dir, NULL), 0);
    assert_int_equal(kymo_file_write_atomic(path, bytes, strlen(bytes), NULL), 0);
}

static void want_memory(void)
{
    config.policy.hbm_need_bytes = 2000;
    config.policy.hbm_capacity_bytes = 10000;
    config.policy.hbm_core_first = 1;
    config.policy.hbm_core_count = 1;
}

static void test_refuses_memory(void **state)
{
    char root[128];
    const char *const env[] = {root, NULL};

    (void)state;
    (void)snprintf(root, sizeof root, "KYMO_SYSFS=%s", job.sysfs);
    want_memory();
    write_present("8001\n");
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    refused(KYMO_HOOK_REASON_MEMORY, "8001 of 10000", NULL, env);
}

static void test_memory_suffices(void **state)
{
    char root[128];
    const char *const env[] = {root, NULL};

    (void)state;
    (void)snprintf(root, sizeof root, "KYMO_SYSFS=%s", job.sysfs);
    want_memory();
    write_present("8000\n");
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    start_peer(HOOK_PEER_POLICY);
    start_job(true, false, "5", NULL, env);
    hook_run_wait(&job);
    (void)wait_for(KYMO_HOOK_CAPTURED);
}

static void test_refuses_stall(void **state)
{
    (void)state;
    config.policy.stall_limit_ns = 0;
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    refused(KYMO_HOOK_REASON_STALL, NULL, NULL, NULL);
}

static void test_stall_is_held(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.policy.stall_limit_ns = 1; /* nothing is that fast: the first one is made, and measured */
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    start_peer(HOOK_PEER_POLICY);
    start_job(true, true, "1000000", NULL, NULL);
    e = wait_for(KYMO_HOOK_CAPTURED);
    assert_true(e.u.captured.flags & KYMO_HOOK_CAPTURE_LONG);
    config.trigger.seq = 2;
    (void)snprintf(config.trigger.id, sizeof config.trigger.id, "cap-2");
    hook_peer_trigger(peer, &config.trigger);
    e = wait_for(KYMO_HOOK_REFUSED);
    assert_int_equal(e.u.refused.reason, KYMO_HOOK_REASON_STALL);
    assert_string_equal(e.u.refused.id, "cap-2");
    assert_int_equal(hook_run_files(job.intake, ".ntff"), 1);
}

static void test_refuses_intake(void **state)
{
    (void)state;
    config.intake = NULL;
    trigger(KYMO_HOOK_MODE_MODEL, 0, 1);
    refused(KYMO_HOOK_REASON_INTAKE, NULL, NULL, NULL);
}

/* The same id twice: what is there stays as it is. */
static void test_refuses_existing(void **state)
{
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/cap-1", job.intake);
    assert_int_equal(mkdir(path, 0700), 0);
    trigger(KYMO_HOOK_MODE_MODEL, 0, 1);
    refused(KYMO_HOOK_REASON_INTAKE, NULL, NULL, NULL);
}

static void test_refuses_past(void **state)
{
    struct hook_peer_event e;

    (void)state;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, true, "1000000", NULL, NULL);
    assert_true(hook_run_wait_text(&job, "step 10:"));
    trigger(KYMO_HOOK_MODE_MODEL, 2, 1);
    hook_peer_trigger(peer, &config.trigger);
    e = wait_for(KYMO_HOOK_REFUSED);
    assert_int_equal(e.u.refused.reason, KYMO_HOOK_REASON_PAST);
}

static void test_refuses_trigger(void **state)
{
    (void)state;
    trigger(KYMO_HOOK_MODE_MODEL, 0, 1);
    (void)snprintf(config.trigger.id, sizeof config.trigger.id, "../../etc");
    refused(KYMO_HOOK_REASON_TRIGGER, NULL, NULL, NULL);
}

static void test_refuses_closed(void **state)
{
    (void)state;
    trigger(KYMO_HOOK_MODE_MODEL, 100, 1);
    refused(KYMO_HOOK_REASON_CLOSED, NULL, NULL, NULL);
}

/* The policy's kill switch stops what is armed, and lets go when it is taken back. */
static void test_switched_off(void **state)
{
    struct hook_peer_event e;
    struct kymo_hook_policy on = config.policy;
    uint64_t seen;

    (void)state;
    config.policy.flags = KYMO_HOOK_POLICY_OFF;
    config.policy.mode = KYMO_HOOK_MODE_CONTINUOUS;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, false, "1000000", NULL, NULL);
    e = wait_for(KYMO_HOOK_STATE);
    assert_int_equal(e.u.state.armed, KYMO_HOOK_MODE_NONE);
    assert_true(hook_run_wait_text(&job, "step 50:"));
    seen = hook_peer_page(peer)->slots[0].executions;
    assert_int_equal(seen, 0);
    trigger(KYMO_HOOK_MODE_SESSION, 0, 1);
    hook_peer_trigger(peer, &config.trigger);
    hook_peer_send_policy(peer, &on);
    e = wait_for(KYMO_HOOK_CAPTURED);
    assert_string_equal(e.u.captured.id, "cap-1");
}

/* A daemon that comes again hears everything anew and can go on. */
static void test_restarted(void **state)
{
    struct hook_peer_event e;

    (void)state;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, true, "1000000", NULL, NULL);
    (void)wait_for(KYMO_HOOK_LOADED);
    hook_peer_stop(peer);
    trigger(KYMO_HOOK_MODE_SESSION, 0, 2);
    config.trigger.seq = 7;
    start_peer(HOOK_PEER_POLICY);
    e = wait_for(KYMO_HOOK_HELLO);
    assert_true(e.u.hello.flags & KYMO_HOOK_HELLO_AGAIN);
    e = wait_for(KYMO_HOOK_LOADED);
    assert_false(e.has_fd);
    assert_true(e.u.loaded.flags & KYMO_HOOK_NEFF_SENT);
    (void)wait_for(KYMO_HOOK_STATE);
    (void)wait_for(KYMO_HOOK_CAPTURED);
}

/* Copies of NEFFs that the job holds. */
static size_t copies(void)
{
    char path[64], target[256];
    size_t n = 0;

    for (int fd = 0; fd < 2048; fd++) {
        ssize_t len;

        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)job.pid, fd);
        len = readlink(path, target, sizeof target - 1);
        target[len > 0 ? len : 0] = 0;
        n += strstr(target, "memfd:kymo-neff") != NULL;
    }
    return n;
}

/* A daemon that is killed before it has a NEFF on disk gets it again, until one says that it is done with it. */
static void test_neff_again(void **state)
{
    struct hook_peer_event e;

    (void)state;
    config.policy.flags = KYMO_HOOK_POLICY_NEFF_DONE;
    start_peer(HOOK_PEER_POLICY);
    start_job(true, true, "1000000", NULL, NULL);
    for (int i = 0; i < 2; i++) {
        e = wait_for(KYMO_HOOK_LOADED);
        assert_true(e.has_fd);
        assert_int_equal(e.u.loaded.flags, KYMO_HOOK_NEFF_ATTACHED);
        assert_int_equal(copies(), 1);
        if (i == 1)
            break;
        hook_peer_stop(peer);
        start_peer(HOOK_PEER_POLICY);
    }
    hook_peer_send_neff_done(peer, 0);                      /* names no model */
    hook_peer_send_neff_done(peer, e.u.loaded.model + 100); /* one that there is not */
    hook_peer_send_neff_done(peer, e.u.loaded.model);
    for (int i = 0; i < 500 && copies() > 0; i++)
        (void)usleep(10000);
    assert_int_equal(copies(), 0);
    hook_peer_stop(peer);
    start_peer(HOOK_PEER_POLICY);
    e = wait_for(KYMO_HOOK_LOADED);
    assert_false(e.has_fd);
    assert_int_equal(e.u.loaded.flags, KYMO_HOOK_NEFF_SENT);
}

/* The runtime takes SIGINT and SIGTERM while it inspects; the job must die of them as it would. */
static void test_signals(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hook_peer_event e;

        trigger(KYMO_HOOK_MODE_SESSION, 0, 1000000);
        start_peer(HOOK_PEER_POLICY);
        start_job(true, i == 0, "1000000", NULL, NULL);
        (void)wait_for(KYMO_HOOK_STATE);
        assert_true(hook_run_wait_text(&job, "step 20:"));
        assert_int_equal(hook_peer_page(peer)->capturing, KYMO_HOOK_MODE_SESSION);
        assert_int_equal(kill(job.pid, signals[i]), 0);
        hook_run_wait(&job);
        assert_int_equal(job.code, 128 + signals[i]);
        assert_false(hook_peer_wait(peer, KYMO_HOOK_CAPTURED, 0, 0, &e));
        hook_peer_stop(peer);
        peer = NULL;
        assert_int_equal(kymo_file_remove_tree(job.intake, NULL), 0);
        assert_int_equal(mkdir(job.intake, 0777), 0);
    }
}

/* A job that handles these signals itself goes on handling them, and closes in order: the session is whole. */
static void test_handled_signals(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};
    static const char *const more[] = {"--handle-signals", NULL}, *const says[] = {"rank 0: ends on SIGINT\n",
                                                                                   "rank 0: ends on SIGTERM\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hook_peer_event e;

        trigger(KYMO_HOOK_MODE_SESSION, 0, 1000000);
        start_peer(HOOK_PEER_POLICY);
        start_job(true, i == 0, "1000000", more, NULL);
        (void)wait_for(KYMO_HOOK_STATE);
        assert_true(hook_run_wait_text(&job, "step 20:"));
        assert_int_equal(hook_peer_page(peer)->capturing, KYMO_HOOK_MODE_SESSION);
        assert_int_equal(kill(job.pid, signals[i]), 0);
        hook_run_wait(&job);
        assert_int_equal(job.code, 4);
        assert_non_null(strstr(job.text, says[i]));
        e = wait_for(KYMO_HOOK_CAPTURED);
        assert_true(e.u.captured.flags & KYMO_HOOK_CAPTURE_CUT);
        assert_int_equal(captured_files("cap-1", ".ntff"), 1);
        hook_peer_stop(peer);
        peer = NULL;
        assert_int_equal(kymo_file_remove_tree(job.intake, NULL), 0);
        assert_int_equal(mkdir(job.intake, 0777), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_absent),
        TEST(test_bad_peers),
        TEST(test_killed_by_environment),
        TEST(test_answered),
        TEST(test_counters),
        TEST(test_never_is_bounded),
        TEST(test_late),
        TEST(test_mode_model),
        TEST(test_mode_session),
        TEST(test_mode_continuous),
        TEST(test_model_while_continuous),
        TEST(test_mode_on_failure),
        TEST(test_on_failure_without_one),
        TEST(test_async_falls_to_session),
        TEST(test_several_fall_to_session),
        TEST(test_step_model_is_named),
        TEST(test_step_model_is_not_there),
        TEST(test_session_cut),
        TEST(test_future_version),
        TEST(test_refuses_inspect),
        TEST(test_refuses_foreign),
        TEST(test_refuses_memory),
        TEST(test_memory_suffices),
        TEST(test_refuses_stall),
        TEST(test_stall_is_held),
        TEST(test_refuses_intake),
        TEST(test_refuses_existing),
        TEST(test_refuses_past),
        TEST(test_refuses_trigger),
        TEST(test_refuses_closed),
        TEST(test_switched_off),
        TEST(test_restarted),
        TEST(test_neff_again),
        TEST(test_signals),
        TEST(test_handled_signals),
    };

    return cmocka_run_group_tests(tests, sim_fixture_setup, sim_fixture_teardown);
}
