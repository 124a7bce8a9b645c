/*
 * Policy, triggers and captures. Everything happens on threads of the application, before or after an execution, under
 * one lock that nobody waits for on the way through an execution: who does not get it goes on, and the next boundary
 * looks again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver-iface/hook/hook_capture.h"
#include "driver-iface/hook/hook_intake.h"
#include "driver-iface/hook/hook_msg.h"
#include "driver-iface/hook/hook_profile.h"

uint64_t hook_wait_execution;
uint32_t hook_attention;
uint32_t hook_trigger_seen;
uint32_t hook_is_async;

struct hook_capture hook_capture = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define c hook_capture

static void attend(uint32_t bit, bool on)
{
    if (on)
        (void)__atomic_fetch_or(&hook_attention, bit, __ATOMIC_RELAXED);
    else
        (void)__atomic_fetch_and(&hook_attention, ~bit, __ATOMIC_RELAXED);
}

static void set_phase(enum hook_phase phase)
{
    c.phase = phase;
    attend(HOOK_ATTEND_CAPTURE, phase > HOOK_PHASE_WAITING);
    __atomic_store_n(&hook_wait_execution, c.trigger.execution, __ATOMIC_RELAXED);
    attend(HOOK_ATTEND_WAIT, phase == HOOK_PHASE_WAITING);
    hook_state_set(&hook_page->capturing, phase <= HOOK_PHASE_WAITING ? KYMO_HOOK_MODE_NONE : c.mode);
}

void hook_capture_say_state(uint32_t run_state)
{
    struct kymo_hook_state_msg m = {.state = run_state,
                                    .init_status = HOOK_NRT_SUCCESS,
                                    .armed = c.armed,
                                    .buffers_user = c.buffers.user,
                                    .buffers_ours = c.buffers.ours,
                                    .question_us = c.question_us,
                                    .answered = c.answered,
                                    .step_model = c.policy.step_model};

    memcpy(m.runtime_version, c.runtime_version, sizeof m.runtime_version);
    hook_state_set(&hook_page->run_state, run_state);
    hook_state_set(&hook_page->armed, c.armed);
    (void)hook_talk_send(KYMO_HOOK_STATE, &m, sizeof m, -1);
}

static void refuse(const char *id, enum kymo_hook_mode mode, const struct hook_no *no)
{
    struct kymo_hook_refused m = {.reason = no->reason, .mode = mode};

    (void)snprintf(m.id, sizeof m.id, "%s", id);
    (void)snprintf(m.text, sizeof m.text, "%s", no->text[0] ? no->text : hook_msg_reason(no->reason));
    hook_state_set(&hook_page->reason, no->reason);
    (void)__atomic_fetch_add(&hook_page->refusals, 1, __ATOMIC_RELAXED);
    (void)hook_talk_send(KYMO_HOOK_REFUSED, &m, sizeof m, -1);
}

static void note_stall(uint64_t since)
{
    uint64_t ns = hook_now() - since;

    c.stall_ns += ns;
    if (ns > c.stall_max_ns)
        c.stall_max_ns = ns;
    (void)__atomic_fetch_add(&hook_page->stall_ns, ns, __ATOMIC_RELAXED);
    if (ns > __atomic_load_n(&hook_page->stall_max_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&hook_page->stall_max_ns, ns, __ATOMIC_RELAXED);
}

/* arming */

static void disarm(void)
{
    uint64_t t = hook_now();

    if (c.armed == KYMO_HOOK_MODE_NONE)
        return;
    if (c.armed == KYMO_HOOK_MODE_CONTINUOUS)
        (void)hook_profile_continuous_stop();
    if (c.armed == KYMO_HOOK_MODE_ON_FAILURE) {
        (void)hook_profile_inspect_stop();
        hook_intake_discard(c.fail_id);
    }
    c.armed = KYMO_HOOK_MODE_NONE;
    attend(HOOK_ATTEND_FAILURE, false);
    hook_state_set(&hook_page->armed, c.armed);
    note_stall(t);
}

static int start_on_failure(void)
{
    (void)snprintf(c.fail_id, sizeof c.fail_id, "onfail-%d-%llu-%u", (int)getpid(),
                   (unsigned long long)(c.started_ns / 1000000), ++c.fail_count);
    if (!hook_intake_open(c.fail_id, c.fail_path))
        return -1;
    return hook_profile_inspect_start(KYMO_HOOK_MODE_ON_FAILURE, c.fail_path, false);
}

/* What the policy wants to be on between captures. */
static void arm(void)
{
    enum kymo_hook_mode mode = (enum kymo_hook_mode)c.policy.mode;
    struct hook_no no = {0};
    uint64_t t = hook_now();
    int status = 0;

    if (c.stays_disarmed || mode == c.armed || mode == KYMO_HOOK_MODE_NONE || c.policy.flags & KYMO_HOOK_POLICY_OFF)
        return;
    if (mode == KYMO_HOOK_MODE_ON_FAILURE && c.fail_count == HOOK_FAILURES_MAX)
        return;
    if (hook_is_async) {
        no.reason = KYMO_HOOK_REASON_RUNTIME;
        (void)snprintf(no.text, sizeof no.text, "the job is asynchronous: session captures alone");
    } else if (hook_capture_allowed(mode, &no)) {
        status = mode == KYMO_HOOK_MODE_CONTINUOUS ? hook_profile_continuous_start() : start_on_failure();
        note_stall(t);
        if (status != HOOK_NRT_SUCCESS) {
            no.reason = KYMO_HOOK_REASON_RUNTIME;
            (void)snprintf(no.text, sizeof no.text, "arming: status %d", status);
        }
    }
    if (no.reason) {
        refuse("", mode, &no);
        return;
    }
    c.armed = mode;
    attend(HOOK_ATTEND_FAILURE, mode == KYMO_HOOK_MODE_ON_FAILURE);
    hook_state_set(&hook_page->armed, mode);
}

/* True: there was a new one. */
static bool apply_policy(void)
{
    struct kymo_hook_policy p;
    int intake = -1;

    attend(HOOK_ATTEND_POLICY, false);
    if (!hook_talk_policy(&p, &intake))
        return false;
    if (p.mode != c.armed || p.flags & KYMO_HOOK_POLICY_OFF || intake >= 0)
        disarm();
    if (intake >= 0)
        hook_intake_set(intake);
    if (p.stall_limit_ns != c.policy.stall_limit_ns)
        memset(c.last_stall_ns, 0, sizeof c.last_stall_ns); /* the operator has thought about it */
    c.policy = p;
    __atomic_store_n(&c.neff_max, p.neff_max_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&c.neff_total, p.neff_total_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&c.has_policy, true, __ATOMIC_RELEASE);
    attend(HOOK_ATTEND_OFF, (p.flags & KYMO_HOOK_POLICY_OFF) != 0);
    if (c.phase == HOOK_PHASE_WAITING && p.flags & KYMO_HOOK_POLICY_OFF) {
        refuse(c.trigger.id, c.mode, &(struct hook_no){.reason = KYMO_HOOK_REASON_OFF});
        set_phase(HOOK_PHASE_IDLE);
    }
    arm();
    hook_capture_say_state(KYMO_HOOK_RUN_READY);
    return true;
}

/* one capture */

static void start_over(void)
{
    set_phase(HOOK_PHASE_IDLE);
    if (!(c.policy.flags & KYMO_HOOK_POLICY_OFF))
        arm();
}

static void fail_capture(const struct hook_no *no)
{
    hook_intake_discard(c.trigger.id);
    refuse(c.trigger.id, c.mode, no);
    start_over();
}

static void say_captured(const char *id)
{
    struct kymo_hook_captured m = {.mode = (uint16_t)c.mode,
                                   .asked = (uint16_t)c.asked,
                                   .flags = c.flags,
                                   .model = c.model_id,
                                   .status = (uint32_t)c.status,
                                   .first_execution = c.first,
                                   .executions = c.done,
                                   .start_unix_ns = c.start_unix_ns,
                                   .end_unix_ns = hook_clock_ns(CLOCK_REALTIME),
                                   .stall_ns = c.stall_ns,
                                   .stall_max_ns = c.stall_max_ns};

    (void)snprintf(m.id, sizeof m.id, "%s", id);
    c.last_stall_ns[c.mode] = c.stall_max_ns;
    if (c.stall_max_ns > c.policy.stall_limit_ns)
        m.flags |= KYMO_HOOK_CAPTURE_LONG;
    (void)__atomic_fetch_add(&hook_page->captures, 1, __ATOMIC_RELAXED);
    (void)hook_talk_send(KYMO_HOOK_CAPTURED, &m, sizeof m, -1);
}

static int save_cores(void)
{
    uint32_t cores[KYMO_HOOK_MODELS];
    size_t n = hook_model_cores(cores);
    uint64_t t = hook_now();
    int status = HOOK_NRT_INVALID;

    for (size_t i = 0; i < n; i++) {
        int s = hook_profile_continuous_save(cores[i], c.path);

        if (s == HOOK_NRT_SUCCESS || i == 0)
            status = s;
        /* The cores that are left would stall the job for longer than was allowed. */
        if (i + 1 < n && hook_now() - t + (hook_now() - t) / (i + 1) > c.policy.stall_limit_ns) {
            c.flags |= KYMO_HOOK_CAPTURE_CUT;
            break;
        }
    }
    return status;
}

/* What the runtime's status alone does not tell: that there was no room for what it was to write. */
static void explain(struct hook_no *no, const char *doing, int status)
{
    unsigned long long left = 0;

    if (hook_intake_is_full(&left)) {
        no->reason = KYMO_HOOK_REASON_ROOM;
        (void)snprintf(no->text, sizeof no->text, "%s: status %d, %llu bytes free", doing, status, left);
    } else if (no->reason == KYMO_HOOK_REASON_RUNTIME) {
        (void)snprintf(no->text, sizeof no->text, "%s: status %d", doing, status);
    }
}

/* Writes what is running and publishes it. */
static void finish(void)
{
    uint64_t t = hook_now();
    int status;

    if (c.phase == HOOK_PHASE_MODEL)
        status = hook_profile_model_stop(c.file);
    else if (c.phase == HOOK_PHASE_CONTINUOUS)
        status = save_cores();
    else
        status = hook_profile_inspect_stop();
    note_stall(t);
    if (status == HOOK_NRT_SUCCESS && hook_intake_publish(c.trigger.id)) {
        say_captured(c.trigger.id);
        start_over();
    } else {
        struct hook_no no = {.reason = KYMO_HOOK_REASON_RUNTIME};

        explain(&no, "writing the capture", status);
        fail_capture(&no);
    }
}

static int start_mode(const struct hook_model *m)
{
    if (c.mode != KYMO_HOOK_MODE_CONTINUOUS || c.armed != KYMO_HOOK_MODE_CONTINUOUS)
        disarm(); /* the runtime profiles in one way at a time */
    if (c.mode == KYMO_HOOK_MODE_CONTINUOUS) {
        int status = c.armed == KYMO_HOOK_MODE_CONTINUOUS ? HOOK_NRT_SUCCESS : hook_profile_continuous_start();

        if (status == HOOK_NRT_SUCCESS)
            c.armed = KYMO_HOOK_MODE_CONTINUOUS;
        return status;
    }
    if (c.mode == KYMO_HOOK_MODE_SESSION)
        return hook_profile_inspect_start(KYMO_HOOK_MODE_SESSION, c.path,
                                          (c.policy.flags & KYMO_HOOK_POLICY_SYSTEM) != 0);
    (void)snprintf(c.file, sizeof c.file, "%s/model_%u_exec_%llu.ntff", c.path, m->loaded.model,
                   (unsigned long long)c.first);
    return hook_profile_model_start(m->handle, c.file);
}

static void begin(const struct hook_model *m, uint64_t number)
{
    static const enum hook_phase phases[KYMO_HOOK_MODE_COUNT] = {[KYMO_HOOK_MODE_CONTINUOUS] = HOOK_PHASE_CONTINUOUS,
                                                                 [KYMO_HOOK_MODE_MODEL] = HOOK_PHASE_MODEL,
                                                                 [KYMO_HOOK_MODE_SESSION] = HOOK_PHASE_SESSION};
    struct hook_no no = {.reason = KYMO_HOOK_REASON_INTAKE};
    uint64_t t = hook_now();
    int status;

    c.first = number;
    c.done = 0;
    c.flags = c.mode != c.asked ? KYMO_HOOK_CAPTURE_FALLBACK : 0;
    c.stall_ns = c.stall_max_ns = 0;
    c.model_id = m->loaded.model;
    c.start_unix_ns = hook_clock_ns(CLOCK_REALTIME);
    c.start_ns = t;
    if (!hook_intake_open(c.trigger.id, c.path)) {
        explain(&no, "making its directory", 0);
        fail_capture(&no);
        return;
    }
    status = start_mode(m);
    note_stall(t);
    if (status == HOOK_NRT_SUCCESS) {
        set_phase(phases[c.mode]);
        return;
    }
    no.reason = KYMO_HOOK_REASON_RUNTIME;
    explain(&no, "beginning the capture", status);
    fail_capture(&no);
}

/* A trigger waits for its execution. */
static void look_at_waiting(const struct hook_model *m)
{
    bool several;
    const struct hook_model *step = hook_model_step(c.policy.step_model, &several);
    struct hook_no no = {0};
    uint64_t next;

    if (step != m)
        return;
    next = hook_model_executions(m) + 1;
    if (c.trigger.execution > next)
        return;
    c.mode = c.asked;
    c.several = several || hook_is_async;
    if (c.several)
        c.mode = KYMO_HOOK_MODE_SESSION;
    if (c.trigger.execution && c.trigger.execution < next) {
        no.reason = KYMO_HOOK_REASON_PAST;
        (void)snprintf(no.text, sizeof no.text, "execution %llu; the next is %llu",
                       (unsigned long long)c.trigger.execution, (unsigned long long)next);
    }
    if (no.reason || !hook_capture_allowed(c.mode, &no))
        fail_capture(&no);
    else
        begin(m, next);
}

/* The daemon may be writing: then the next boundary looks again. */
static void look_at_trigger(void)
{
    const struct kymo_hook_trigger *words = &hook_page->trigger;
    uint32_t seq = __atomic_load_n(&words->seq, __ATOMIC_ACQUIRE);
    struct kymo_hook_trigger t;
    bool valid;

    if (seq == hook_trigger_seen)
        return;
    valid = hook_msg_trigger(words, &t);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&words->seq, __ATOMIC_RELAXED) != seq)
        return;
    hook_state_set(&hook_page->trigger_seen, seq);
    hook_state_set(&hook_trigger_seen, seq);
    if (!valid) {
        refuse(t.id, KYMO_HOOK_MODE_NONE, &(struct hook_no){.reason = KYMO_HOOK_REASON_TRIGGER});
    } else if (t.mode == KYMO_HOOK_MODE_NONE) {
        set_phase(HOOK_PHASE_IDLE);
    } else {
        c.trigger = t;
        c.asked = c.mode = (enum kymo_hook_mode)t.mode;
        set_phase(HOOK_PHASE_WAITING);
    }
}

/* A session over whole steps ends before the step that does not belong to it any more. */
static bool session_is_over(void)
{
    return c.done >= c.trigger.count ||
           (c.trigger.duration_ns && c.done > 0 && hook_now() - c.start_ns >= c.trigger.duration_ns);
}

/* Applications may cancel a thread at any system call; not while it holds our lock. */
static bool enter(bool wait, int *cancel)
{
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
    if ((wait ? pthread_mutex_lock(&c.lock) : pthread_mutex_trylock(&c.lock)) == 0) {
        hook_depth++;
        return true;
    }
    (void)pthread_setcancelstate(*cancel, NULL);
    return false;
}

static void leave(int cancel)
{
    hook_depth--;
    (void)pthread_mutex_unlock(&c.lock);
    (void)pthread_setcancelstate(cancel, NULL);
}

void hook_capture_before(struct hook_model *m)
{
    int saved = errno, cancel;

    if (!enter(false, &cancel))
        return;
    if (c.phase == HOOK_PHASE_SESSION && m && m->loaded.model == c.model_id && c.several && session_is_over())
        finish();
    if (c.phase <= HOOK_PHASE_WAITING && hook_attention & HOOK_ATTEND_POLICY)
        (void)apply_policy();
    if (c.phase <= HOOK_PHASE_WAITING)
        look_at_trigger();
    if (c.phase == HOOK_PHASE_WAITING && m)
        look_at_waiting(m);
    leave(cancel);
    errno = saved;
}

/* The runtime has written the execution that failed; now it is published. */
static void finish_failure(const struct hook_model *m, int status)
{
    uint64_t t = hook_now();

    c.mode = c.asked = KYMO_HOOK_MODE_ON_FAILURE;
    c.flags = 0;
    c.model_id = m->loaded.model;
    c.first = hook_model_executions(m);
    c.done = 1;
    c.status = status;
    c.start_unix_ns = hook_clock_ns(CLOCK_REALTIME);
    c.stall_ns = c.stall_max_ns = 0;
    (void)hook_profile_inspect_stop();
    note_stall(t);
    c.armed = KYMO_HOOK_MODE_NONE;
    attend(HOOK_ATTEND_FAILURE, false);
    if (hook_intake_publish(c.fail_id))
        say_captured(c.fail_id);
    arm();
}

void hook_capture_after(struct hook_model *m, int status, bool scheduled)
{
    int saved = errno, cancel;

    if (!m || !enter(false, &cancel))
        return;
    if (c.phase > HOOK_PHASE_WAITING && m->loaded.model == c.model_id) {
        c.done++;
        c.status = status;
        if (status != HOOK_NRT_SUCCESS && c.done < c.trigger.count)
            c.flags |= KYMO_HOOK_CAPTURE_CUT;
        if (c.phase != HOOK_PHASE_SESSION || status != HOOK_NRT_SUCCESS || (!c.several && session_is_over()))
            finish();
    } else if (c.armed == KYMO_HOOK_MODE_ON_FAILURE && status != HOOK_NRT_SUCCESS && !scheduled) {
        finish_failure(m, status);
    }
    leave(cancel);
    errno = saved;
}

/* From without: the beginning, the end, and what somebody else does. */

void hook_capture_begin(bool answered, uint32_t question_us, struct hook_buffers buffers)
{
    int saved = errno, cancel;

    (void)enter(true, &cancel);
    c.answered = answered;
    c.question_us = question_us;
    c.buffers = buffers;
    c.started_ns = hook_now();
    c.stays_disarmed = c.foreign != NULL;
    hook_capture_read_environment();
    hook_profile_runtime_version(c.runtime_version);
    if (!apply_policy()) {
        arm(); /* a policy of before the last nrt_close */
        hook_capture_say_state(KYMO_HOOK_RUN_READY);
    }
    leave(cancel);
    errno = saved;
}

static void end_running(void)
{
    c.stays_disarmed = true;
    if (c.phase > HOOK_PHASE_WAITING) {
        if (c.done < c.trigger.count)
            c.flags |= KYMO_HOOK_CAPTURE_CUT;
        finish();
    }
    disarm();
}

void hook_capture_end(void)
{
    int saved = errno, cancel;

    (void)enter(true, &cancel);
    look_at_trigger();
    if (c.phase == HOOK_PHASE_WAITING) {
        refuse(c.trigger.id, c.mode, &(struct hook_no){.reason = KYMO_HOOK_REASON_CLOSED});
        set_phase(HOOK_PHASE_IDLE);
    }
    end_running();
    hook_capture_say_state(KYMO_HOOK_RUN_CLOSED);
    leave(cancel);
    hook_talk_flush();
    errno = saved;
}

void hook_capture_async(void)
{
    int saved = errno, cancel;

    (void)enter(true, &cancel);
    hook_state_set(&hook_is_async, 1);
    hook_state_set(&hook_page->is_async, 1);
    if (c.armed != KYMO_HOOK_MODE_NONE) {
        disarm();
        hook_capture_say_state(KYMO_HOOK_RUN_READY);
    }
    leave(cancel);
    errno = saved;
}

/* Somebody else profiles: what is ours ends before the call, so that it finds the runtime as it would without us. */
void hook_foreign_call(enum hook_real_index i)
{
    int saved = errno, cancel;

    if (hook_depth || hook_is_disabled() || __atomic_load_n(&c.foreign, __ATOMIC_ACQUIRE))
        return;
    (void)enter(true, &cancel);
    __atomic_store_n(&c.foreign, hook_real_name(i), __ATOMIC_RELEASE);
    if (hook_is_live()) {
        struct hook_no no = {.reason = KYMO_HOOK_REASON_FOREIGN};

        end_running();
        (void)snprintf(no.text, sizeof no.text, "%s", hook_real_name(i));
        refuse("", KYMO_HOOK_MODE_NONE, &no);
    }
    leave(cancel);
    errno = saved;
}

void hook_capture_policy_changed(void)
{
    attend(HOOK_ATTEND_POLICY, true);
}

bool hook_capture_neff_limits(uint64_t *ret_max, uint64_t *ret_total)
{
    if (!__atomic_load_n(&c.has_policy, __ATOMIC_ACQUIRE))
        return false;
    *ret_max = __atomic_load_n(&c.neff_max, __ATOMIC_RELAXED);
    *ret_total = __atomic_load_n(&c.neff_total, __ATOMIC_RELAXED);
    return true;
}

void hook_capture_forked(void)
{
    memset(&c, 0, sizeof c);
    (void)pthread_mutex_init(&c.lock, NULL);
    hook_attention = hook_trigger_seen = hook_is_async = 0;
    hook_depth = 0;
    hook_intake_forked();
}
