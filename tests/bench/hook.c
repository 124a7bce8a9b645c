/* What the hook adds to one nrt_execute: the same function of a runtime that does nothing, called bare and hooked in
 * one process, in each state that the hook can be in. usage: bench_hook CALLS */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/hook_peer.h"
#include "tests/unit/hook_run.h"

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

static void bench(const struct state *s, const char *calls)
{
    const char *const argv[] = {KYMO_TEST_PROBE, "bench", calls, NULL};
    const char *const env[] = {"KYMO_LIBNRT=" KYMO_TEST_STUB, NULL};
    static struct hook_run job;
    struct hook_peer_config config = {.policy = hook_peer_policy()};
    struct hook_peer *peer = NULL;
    double bare = 0, hooked = 0, added = 0;

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
    if (job.code != 0 || sscanf(job.text, "%lf %lf %lf", &bare, &hooked, &added) != 3) {
        (void)fprintf(stderr, "bench_hook: %s: exit code %d: %s\n", s->name, job.code, job.text);
        exit(1);
    }
    (void)printf("hook on nrt_execute, %s: %.1f ns\n", s->name, added);
    (void)printf("bare nrt_execute in the same run, %s: %.1f ns\n", s->name, bare);
    hook_peer_stop(peer);
    hook_run_done(&job);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        bench(&states[i], argc > 1 ? argv[1] : "200000");
    return 0;
}
