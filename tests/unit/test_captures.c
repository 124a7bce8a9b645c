/* Captures from the wish to the spool, with hooks that do and that do not what they are told. */
#include "daemon/captures.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "daemon/captures_internal.h"
#include "tests/unit/daemon_world.h"

static char ids[CAPTURES_IDS_MAX][KYMO_HOOK_ID_MAX];

static int ask(struct world *w, const struct captures_wish *wish, struct kymo_err *err)
{
    size_t n = 0;
    struct captures_ask *a;
    *err = (struct kymo_err){0};
    int r = captures_ask(w->captures, wish, world_watch, w, ids, &n, &a, err);
    return r < 0 ? r : (int)n;
}

static bool is_triggered(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->page->trigger.seq != 0;
}

static bool is_over(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return w->ntold > 0 && w->told[w->ntold - 1].last;
}

static bool is_spooled(const struct world *w, const struct hook_client *c)
{
    struct captures_counts n;
    (void)c;
    captures_get_counts(w->captures, &n);
    return n.spooled > 0;
}

/* What the hook does with a trigger. */
static void obey(struct world *w, struct hook_client *c, const char *id)
{
    __atomic_store_n(&c->page->trigger_seen, c->page->trigger.seq, __ATOMIC_RELAXED);
    hook_client_write(c, id, "model_1_exec_7.ntff", "ntff");
    hook_client_captured(c, id, KYMO_HOOK_MODE_MODEL, 1);
    (void)w;
}

static void test_on_demand(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nhost = testhost\n[job *]\ncount = 3\n");
    struct hook_client c;
    struct kymo_err err;
    uint8_t sha256[KYMO_SHA256_SIZE];
    world_join(w, &c);
    hook_client_loaded(&c, 1, 4, "neff bytes", 10);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .step = 7}, &err), 1);
    assert_int_equal(w->ntold, 0);
    assert_true(world_until(w, &c, is_triggered, 1000));
    assert_string_equal(c.page->trigger.id, ids[0]);
    assert_int_equal(c.page->trigger.mode, KYMO_HOOK_MODE_MODEL);
    assert_int_equal(c.page->trigger.execution, 7);
    assert_int_equal(c.page->trigger.count, 3);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), -EBUSY);
    assert_non_null(strstr(err.text, ids[0]));
    assert_non_null(strstr(err.text, ", armed for step 7, given up in "));
    obey(w, &c, ids[0]);
    assert_true(world_until(w, &c, is_over, 3000));
    assert_int_equal(w->told[w->ntold - 1].state, CAPTURES_SPOOLED);
    Kymo__Manifest__Capture *m = world_manifest(w, ids[0]);
    assert_non_null(m);
    assert_string_equal(m->host, "testhost");
    assert_string_equal(m->mode, "model");
    assert_string_equal(m->trigger, "on-demand");
    assert_int_equal(m->first_execution, 7);
    assert_int_equal(m->n_files, 2);
    assert_string_equal(m->files[0]->name, "model_1_exec_7.ntff");
    assert_int_equal(m->files[0]->vnc, 4);
    assert_int_equal(m->files[0]->n_neff_sha256, 1);
    assert_int_equal(kymo_hash_sha256("neff bytes", 10, sha256), 0);
    assert_memory_equal(m->files[0]->neff_sha256[0].data, sha256, sizeof sha256);
    assert_int_equal(m->files[1]->type, KYMO__MANIFEST__FILE__KIND__NEFF);
    /* Alone in its wish, so the wish has its name. */
    assert_string_equal(m->request, ids[0]);
    assert_int_equal(m->n_host_clocks, 2);
    const Kymo__Manifest__HostClock *begin = m->host_clocks[0], *end = m->host_clocks[1];
    assert_int_equal(begin->at, KYMO__MANIFEST__HOST_CLOCK__MOMENT__BEGIN);
    assert_int_equal(end->at, KYMO__MANIFEST__HOST_CLOCK__MOMENT__END);
    assert_true(begin->realtime_ns && begin->monotonic_ns && end->monotonic_ns > begin->monotonic_ns);
    assert_int_equal(begin->has_max_error_ns, begin->has_synchronised);
    kymo__manifest__capture__free_unpacked(m, NULL);
    hook_client_close(&c);
    (void)world_free(w);
}

/* Copies that the runtime left are used where the hook had none to pass on. */
static void test_session_with_copies(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nmode = session\n");
    struct hook_client c;
    struct kymo_err err;
    uint8_t sha256[KYMO_SHA256_SIZE];
    world_join(w, &c);
    hook_client_loaded(&c, 1, 0, NULL, 99);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .duration_ms = 5}, &err), 1);
    assert_true(world_until(w, &c, is_triggered, 1000));
    assert_int_equal(c.page->trigger.mode, KYMO_HOOK_MODE_SESSION);
    assert_int_equal(c.page->trigger.duration_ns, 5000000);
    hook_client_write(&c, ids[0], "i_pid_1/profile_nc_2_session_1.ntff", "profile");
    hook_client_write(&c, ids[0], "i_pid_1/profile_nc_3_session_1.ntff", "");
    hook_client_write(&c, ids[0], "i_pid_1/neff_77_vnc_2.neff", "two");
    hook_client_write(&c, ids[0], "i_pid_1/neff_78_vnc_3.neff", "three");
    hook_client_write(&c, ids[0], "ntrace.pb", "n");
    assert_int_equal(symlinkat("/etc/passwd", c.intake, "link"), 0);
    hook_client_captured(&c, ids[0], KYMO_HOOK_MODE_SESSION, 1);
    assert_true(world_until(w, &c, is_over, 3000));
    Kymo__Manifest__Capture *m = world_manifest(w, ids[0]);
    assert_non_null(m);
    assert_int_equal(m->n_files, 5);
    assert_string_equal(m->files[0]->name, "i_pid_1-profile_nc_2_session_1.ntff");
    assert_int_equal(m->files[0]->vnc, 2);
    assert_int_equal(kymo_hash_sha256("two", 3, sha256), 0);
    assert_int_equal(m->files[0]->n_neff_sha256, 1);
    assert_memory_equal(m->files[0]->neff_sha256[0].data, sha256, sizeof sha256);
    assert_int_equal(m->files[1]->size, 0);
    assert_int_equal(m->files[2]->type, KYMO__MANIFEST__FILE__KIND__NTRACE);
    assert_int_equal(m->n_vncs, 2);
    kymo__manifest__capture__free_unpacked(m, NULL);
    hook_client_close(&c);
    (void)world_free(w);
}

static void test_refused_and_unknown(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct hook_client c;
    struct kymo_err err;
    struct captures_counts n;
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), -ENOENT);
    world_join(w, &c);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .mode = "x"}, &err), -EINVAL);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .mode = "on-failure"}, &err), -EINVAL);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .job = "other"}, &err), -ENOENT);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .pid = 1}, &err), -ENOENT);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .step = 1}, &err), 1);
    assert_true(world_until(w, &c, is_triggered, 1000));
    hook_client_refused(&c, ids[0], KYMO_HOOK_REASON_PAST, "execution 1; the next is 5");
    assert_true(world_until(w, &c, is_over, 1000));
    assert_string_equal(world_text(w, CAPTURES_FAILED), "refused: that execution is over: execution 1; the next is 5");
    captures_get_counts(w->captures, &n);
    assert_int_equal(n.refused[KYMO_HOOK_REASON_PAST], 1);
    assert_int_equal(n.under_way, 0);
    hook_client_close(&c);
    (void)world_free(w);
}

/* The spool's thread writes a loss down, so it may be told of before it is counted. */
static bool has_lost_one(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return world_spool(w).lost.captures == 1;
}

/* A full disk under a job: a loss with its cause, nothing is left of it, and the next capture may come. */
static void test_no_room_to_write(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nspool-floor = 0\n");
    struct hook_client c;
    struct kymo_err err;
    struct captures_counts n;
    char part[KYMO_HOOK_ID_MAX + 8];
    world_join(w, &c);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), 1);
    assert_true(world_until(w, &c, is_triggered, 1000));
    (void)snprintf(part, sizeof part, "%s.part", ids[0]);
    hook_client_write(&c, part, "model_1_exec_1.ntff", "half");
    hook_client_refused(&c, ids[0], KYMO_HOOK_REASON_ROOM, "status 4, 0 bytes free");
    assert_true(world_until(w, &c, is_over, 3000));
    assert_string_equal(world_text(w, CAPTURES_FAILED), "lost (full): no room on the file system of the intake "
                                                        "directory: status 4, 0 bytes free");
    assert_true(world_until(w, &c, has_lost_one, 3000));
    assert_int_equal(world_spool(w).lost_since_open[SPOOL_FULL].captures, 1);
    captures_get_counts(w->captures, &n);
    assert_int_equal(n.failed_by[CAPTURES_LOST], 1);
    assert_int_equal(n.failed, 1);
    world_turn(w, &c, 200);
    assert_int_equal(faccessat(c.intake, part, F_OK, 0), -1);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), 1);
    hook_client_close(&c);
    (void)world_free(w);
}

static void test_step_never_comes(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\ncapture-timeout = 1\n");
    struct hook_client c;
    struct kymo_err err;
    world_join(w, &c);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .step = 9}, &err), 1);
    assert_true(world_until(w, &c, is_over, 4000));
    assert_string_equal(world_text(w, CAPTURES_FAILED), "timed out while armed");
    assert_int_equal(c.page->trigger.mode, KYMO_HOOK_MODE_NONE);
    /* It comes nevertheless, too late for who waited: kept all the same. */
    obey(w, &c, ids[0]);
    assert_true(world_until(w, &c, is_spooled, 3000));
    hook_client_close(&c);
    (void)world_free(w);
}

/* A job's hook has not seen it: somebody's wish goes before the period's, which is counted as replaced. */
static void test_wish_before_period(void **state)
{
    (void)state;
    struct world *w = world_new("period = 1\njitter = 0\ncapture-begin-timeout = 2\n");
    struct hook_client c;
    struct kymo_err err;
    struct captures_counts n;
    world_join(w, &c);
    assert_true(world_until(w, &c, is_triggered, 3000));
    assert_int_equal(c.page->trigger.id[0], 'p');
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .step = 99}, &err), 1);
    world_turn(w, &c, 50);
    assert_string_equal(c.page->trigger.id, ids[0]);
    captures_get_counts(w->captures, &n);
    assert_int_equal(n.failed_by[CAPTURES_REPLACED], 1);
    /* Another wish waits for its turn, and a step that does not come has an end before the capture's own. */
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), -EBUSY);
    assert_true(world_until(w, &c, is_over, 5000));
    assert_string_equal(world_text(w, CAPTURES_FAILED), "timed out while armed");
    captures_get_counts(w->captures, &n);
    assert_int_equal(n.failed_by[CAPTURES_TIMED_OUT], 1);
    assert_int_equal(n.failed, 2);
    assert_true(n.skipped > 0);
    hook_client_close(&c);
    (void)world_free(w);
}

static void test_period(void **state)
{
    (void)state;
    struct world *w = world_new("period = 1\njitter = 0\n");
    struct hook_client c;
    world_join(w, &c);
    assert_true(world_until(w, &c, is_triggered, 3000));
    assert_int_equal(c.page->trigger.id[0], 'p');
    obey(w, &c, c.page->trigger.id);
    assert_true(world_until(w, &c, is_spooled, 3000));
    hook_client_close(&c);
    (void)world_free(w);
}

static bool is_shed(const struct world *w, const struct hook_client *c)
{
    struct outbox_status s;
    (void)c;
    outbox_get_status(w->outbox, &s);
    return s.spool.lost_since_open[SPOOL_SHED].captures >= 2;
}

/* What kymod's limits forbid is not begun, and has one loss row as long as nothing comes between. */
static void test_shed(void **state)
{
    static const struct own_cost_ops none = {NULL, NULL};
    const struct own_cost_limits limits = {.disk_bytes_s = 1};
    (void)state;
    struct world *w = world_new("period = 1\njitter = 0\n");
    struct hook_client c;
    struct own_cost_figures f;
    struct outbox_status s;
    assert_int_equal(own_cost_new(&w->loop, &limits, &none, NULL, &w->captures->cost, NULL), 0);
    own_cost_get(w->captures->cost, &f);
    struct own_cost_sample sample = f.last;
    for (int i = 0; i < 30; i++) {
        sample.mono_ns += OWN_COST_EVERY_MS * 1000000ull;
        sample.taken_bytes += 1u << 20;
        own_cost_add(w->captures->cost, &sample);
    }
    assert_int_equal(own_cost_rung(w->captures->cost), OWN_COST_ON_DEMAND_ONLY);
    world_join(w, &c);
    assert_true(world_until(w, &c, is_shed, 5000));
    assert_int_equal(c.page->trigger.seq, 0);
    Kymo__Uplink__CaptureRequest wanted = KYMO__UPLINK__CAPTURE_REQUEST__INIT;
    own_cost_get(w->captures->cost, &f);
    uint64_t before = f.skipped[OWN_COST_ON_DEMAND_ONLY];
    assert_in_range(before, 2, 9);
    captures_on_request(w->captures, 1, &wanted);
    own_cost_get(w->captures->cost, &f);
    assert_int_equal(f.skipped[OWN_COST_ON_DEMAND_ONLY], before + 1);
    char job[] = "nobody";
    wanted.job = job;
    captures_on_request(w->captures, 2, &wanted);
    own_cost_get(w->captures->cost, &f);
    assert_int_equal(f.skipped[OWN_COST_ON_DEMAND_ONLY], before + 1);
    outbox_get_status(w->outbox, &s);
    assert_int_equal(s.spool.loss_rows, 1);
    assert_int_equal(s.spool.lost.bytes, 0);
    w->captures->cost = own_cost_free(w->captures->cost);
    hook_client_close(&c);
    (void)world_free(w);
}

static bool is_off(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->policy.flags & KYMO_HOOK_POLICY_OFF;
}

static bool is_armed(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->policy.mode == KYMO_HOOK_MODE_ON_FAILURE && c->policy.stall_limit_ns == 7000000;
}

static void test_reload(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct hook_client c;
    struct kymo_err err;
    world_join(w, &c);
    unsigned before = c.policies;
    world_reload(w, "period = 0\ncount = 4\n");
    world_turn(w, &c, 20);
    assert_int_equal(c.policies, before);
    world_reload(w, "period = 0\narmed = on-failure\nstall-limit = 7\n");
    assert_true(world_until(w, &c, is_armed, 1000));
    world_reload(w, "off = true\n");
    assert_true(world_until(w, &c, is_off, 1000));
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), -EPERM);
    hook_client_close(&c);
    (void)world_free(w);
}

/* A process of its own, which ends as it is told. */
static pid_t start_job(struct world *w, void (*play)(struct hook_client *c))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct hook_client c;
    if (hook_client_open(&c, w->socket)) {
        hook_client_hello(&c, 0);
        for (int i = 0; i < 2000 && c.intake < 0; i++) {
            hook_client_poll(&c);
            (void)usleep(1000);
        }
        play(&c);
    }
    _exit(0);
}

static void leave_captures(struct hook_client *c)
{
    hook_client_loaded(c, 1, 0, "program", 7);
    hook_client_write(c, "onfail-1-2-3", "7_instid_0_vnc_0.ntff", "whole");
    hook_client_write(c, "onfail-1-2-4.part", "x.ntff", "half");
    hook_client_write(c, "not an id", "x.ntff", "nothing");
    (void)mkdirat(c->intake, "onfail-1-2-5.part", 0777); /* armed, and nothing failed */
}

static bool is_empty(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return jobs_rank_count(w->jobs) == 0 && world_intake_is_empty(w);
}

static bool has_rank(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return jobs_rank_count(w->jobs) == 1;
}

static void test_process_ends(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    char id[64];
    pid_t pid = start_job(w, leave_captures);
    assert_true(pid > 0);
    assert_true(world_until(w, NULL, has_rank, 3000));
    assert_true(world_until(w, NULL, is_empty, 5000));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)snprintf(id, sizeof id, "onfail-1-2-3-%s", w->host.mark);
    Kymo__Manifest__Capture *m = world_manifest(w, id);
    assert_non_null(m);
    assert_string_equal(m->trigger, "failure");
    assert_int_equal(m->files[0]->n_neff_sha256, 1);
    kymo__manifest__capture__free_unpacked(m, NULL);
    assert_true(world_until(w, NULL, has_lost_one, 3000));
    struct spool_status s = world_spool(w);
    assert_int_equal(s.pending.captures, 1);
    assert_int_equal(s.lost_by_cause[SPOOL_INTERRUPTED].captures, 1);
    (void)world_free(w);
}

static void wait_for_ever(struct hook_client *c)
{
    (void)c;
    (void)pause();
}

static void test_process_ends_under_capture(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct kymo_err err;
    pid_t pid = start_job(w, wait_for_ever);
    assert_true(pid > 0);
    assert_true(world_until(w, NULL, has_rank, 3000));
    world_turn(w, NULL, 50);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand", .wait = true}, &err), 1);
    world_turn(w, NULL, 20);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(world_until(w, NULL, is_over, 3000));
    assert_string_equal(world_text(w, CAPTURES_FAILED), "the process has ended");
    assert_true(world_until(w, NULL, is_empty, 3000));
    (void)world_free(w);
}

static bool is_neff_done(const struct world *w, const struct hook_client *c)
{
    (void)w;
    return c->neffs_done > 0;
}

/* A copy that comes again is answered as the first one was; so is one that will not be kept. */
static void test_neff_done(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\nneff-bytes = 1M\nneff-total-bytes = 1M\nspool-neff-bytes = 16K\n");
    struct hook_client c;
    static const char large[20000];
    world_join(w, &c);
    assert_int_equal(c.policy.flags, KYMO_HOOK_POLICY_NEFF_DONE);
    for (int i = 0; i < 2; i++) {
        c.neffs_done = 0;
        hook_client_loaded(&c, 1, 0, "program", 7);
        assert_true(world_until(w, &c, is_neff_done, 3000));
    }
    c.neffs_done = 0;
    hook_client_loaded(&c, 2, 0, large, sizeof large);
    assert_true(world_until(w, &c, is_neff_done, 3000));
    assert_int_equal(world_spool(w).neffs, 1);
    c.neffs_done = 0;
    hook_client_loaded(&c, 1, 0, NULL, 7);
    world_turn(w, &c, 100);
    assert_int_equal(c.neffs_done, 0);
    hook_client_close(&c);
    (void)world_free(w);
}

/* kymod ends between the job's word and the spool: the next one knows what was said, and takes each once. */
static void test_restart(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    struct hook_client c;
    struct kymo_err err;
    char id[KYMO_HOOK_ID_MAX];
    world_join(w, &c);
    hook_client_loaded(&c, 1, 0, "program", 7);
    assert_int_equal(ask(w, &(struct captures_wish){.trigger = "on-demand"}, &err), 1);
    assert_true(world_until(w, &c, is_triggered, 1000));
    assert_true(world_until(w, &c, is_neff_done, 3000)); /* so the program and its hash are on disk */
    memcpy(id, ids[0], sizeof id);
    hook_client_write(&c, id, "model_1_exec_7.ntff", "ntff");
    world_down(w);
    world_up(w);
    int intake = c.intake;
    c.intake = -1;
    hook_client_close(&c);
    /* The hook comes back; its words got lost with the connection. */
    assert_true(hook_client_open(&c, w->socket));
    (void)close(intake);
    hook_client_hello(&c, KYMO_HOOK_HELLO_AGAIN);
    hook_client_loaded(&c, 1, 0, NULL, 7);
    hook_client_state(&c, KYMO_HOOK_RUN_READY);
    assert_true(world_until(w, &c, is_spooled, 6000));
    Kymo__Manifest__Capture *m = world_manifest(w, id);
    assert_non_null(m);
    assert_string_equal(m->trigger, "on-demand");
    assert_int_equal(m->files[0]->n_neff_sha256, 1);
    kymo__manifest__capture__free_unpacked(m, NULL);
    /* A late word changes nothing. */
    hook_client_captured(&c, id, KYMO_HOOK_MODE_MODEL, 1);
    world_turn(w, &c, 200);
    struct spool_status s = world_spool(w);
    assert_int_equal(s.issued.captures, 1);
    assert_int_equal(s.lost.captures, 0);
    hook_client_close(&c);
    (void)world_free(w);
}

static void leave_captures_and_wait(struct hook_client *c)
{
    leave_captures(c);
    (void)pause();
}

static bool has_neff(const struct world *w, const struct hook_client *c)
{
    (void)c;
    return jobs_rank_count(w->jobs) == 1 && world_spool(w).neffs == 1;
}

/* The job ends while there is no kymod. */
static void test_process_ends_without_kymod(void **state)
{
    (void)state;
    struct world *w = world_new("period = 0\n");
    char id[64];
    pid_t pid = start_job(w, leave_captures_and_wait);
    assert_true(pid > 0);
    assert_true(world_until(w, NULL, has_neff, 3000));
    world_turn(w, NULL, 100);
    world_down(w);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    world_up(w);
    assert_true(world_until(w, NULL, is_empty, 5000));
    (void)snprintf(id, sizeof id, "onfail-1-2-3-%s", w->host.mark);
    Kymo__Manifest__Capture *m = world_manifest(w, id);
    assert_non_null(m);
    assert_int_equal(m->files[0]->n_neff_sha256, 1);
    assert_true(m->n_labels > 3);
    kymo__manifest__capture__free_unpacked(m, NULL);
    assert_true(world_until(w, NULL, has_lost_one, 3000));
    struct spool_status s = world_spool(w);
    assert_int_equal(s.issued.captures, 2);
    assert_int_equal(s.lost_by_cause[SPOOL_INTERRUPTED].captures, 1);
    (void)world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_demand),
        cmocka_unit_test(test_session_with_copies),
        cmocka_unit_test(test_refused_and_unknown),
        cmocka_unit_test(test_no_room_to_write),
        cmocka_unit_test(test_step_never_comes),
        cmocka_unit_test(test_period),
        cmocka_unit_test(test_wish_before_period),
        cmocka_unit_test(test_shed),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_process_ends),
        cmocka_unit_test(test_process_ends_under_capture),
        cmocka_unit_test(test_process_ends_without_kymod),
        cmocka_unit_test(test_neff_done),
        cmocka_unit_test(test_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
