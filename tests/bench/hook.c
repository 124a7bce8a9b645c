/* What the hook costs a job: added to one nrt_execute in each state that the hook can be in, and the stall of a
 * capture; with a runtime that does nothing, so that the hook's part alone is seen. usage: bench_hook CALLS, of one
 * round */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/hook_peer.h"
#include "tests/unit/hook_run.h"

#define CAPTURES 40u
#define MIDDLE 20u
#define WAIT_MS 5000

static const struct state {
    const char *name;
    bool peer;
    enum kymo_hook_mode armed;
    enum kymo_hook_mode trigger; /* of an execution that never comes */
} states[] = {
    {.name = "without a daemon"},
    {.name = "idle", .peer = true},
    {.name = "armed (continuous)", .peer = true, .armed = KYMO_HOOK_MODE_CONTINUOUS},
    {.name = "waiting for an execution", .peer = true, .trigger = KYMO_HOOK_MODE_MODEL},
};

static const char *const env[] = {"KYMO_LIBNRT=" KYMO_TEST_STUB, NULL};

static void give_up(const char *what, const struct hook_run *job)
{
    (void)fprintf(stderr, "bench_hook: %s: exit code %d: %s\n", what, job->code, job->text);
    exit(1);
}

static void bench(const struct state *s, const char *calls)
{
    const char *const argv[] = {KYMO_TEST_PROBE, "bench", calls, NULL};
    static struct hook_run job;
    struct hook_peer_config config = {.policy = hook_peer_policy()};
    struct hook_peer *peer = NULL;
    double bare = 0, added = 0, clocks = 0;

    hook_run_init(&job);
    config.dir = job.dir;
    config.intake = job.intake;
    config.policy.mode = (uint16_t)s->armed;
    if (s->trigger)
        config.trigger = (struct kymo_hook_trigger){
            .seq = 1, .mode = s->trigger, .execution = UINT64_MAX, .count = 1, .id = "never"};
    if (s->peer)
        peer = hook_peer_start(&config);
    hook_run_start(&job, true, argv, env);
    hook_run_wait(&job);
    if (job.code != 0 || sscanf(job.text, "%lf %lf %lf", &bare, &added, &clocks) != 3)
        give_up(s->name, &job);
    (void)printf("hook on nrt_execute, %s: %.1f ns\n", s->name, added);
    (void)printf("two clock reads in the same rounds, %s: %.1f ns\n", s->name, clocks);
    (void)printf("bare nrt_execute in the same rounds, %s: %.1f ns\n", s->name, bare);
    hook_peer_stop(peer);
    hook_run_done(&job);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Begin and end of a model's capture of one execution, whose file has four bytes: what the hook itself takes. */
static void bench_stall(void)
{
    const char *const argv[] = {KYMO_TEST_PROBE, "pause", "100000", NULL};
    static struct hook_run job;
    struct hook_peer_config config = {.policy = hook_peer_policy()};
    struct kymo_hook_trigger t = {.mode = KYMO_HOOK_MODE_MODEL, .count = 1};
    uint64_t stalls[CAPTURES];
    struct hook_peer *peer;

    hook_run_init(&job);
    config.dir = job.dir;
    config.intake = job.intake;
    peer = hook_peer_start(&config);
    hook_run_start(&job, true, argv, env);
    for (size_t i = 0; i < CAPTURES; i++) {
        struct hook_peer_event e;

        (void)hook_peer_wait(peer, KYMO_HOOK_LOADED, 0, WAIT_MS, &e);
        t.seq = (uint32_t)i + 1;
        (void)snprintf(t.id, sizeof t.id, "cap-%zu", i);
        hook_peer_trigger(peer, &t);
        if (!hook_peer_wait(peer, KYMO_HOOK_CAPTURED, i, WAIT_MS, &e))
            give_up("no capture", &job);
        stalls[i] = e.u.captured.stall_ns;
    }
    qsort(stalls, CAPTURES, sizeof *stalls, by_value);
    (void)printf("stall per capture, the hook's part: %.1f us\n", (double)stalls[MIDDLE] / 1e3);
    (void)printf("stall per capture, the hook's part, longest of %u: %.1f us\n", CAPTURES,
                 (double)stalls[CAPTURES - 1] / 1e3);
    (void)kill(job.pid, SIGKILL);
    hook_run_wait(&job);
    hook_peer_stop(peer);
    hook_run_done(&job);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        bench(&states[i], argc > 1 ? argv[1] : "300");
    bench_stall();
    return 0;
}
