/* The interposed functions. What the application sees is the runtime's answer and the runtime's errno. */
#include <errno.h>
#include <string.h>

#include "driver-iface/hook/hook_internal.h"

#define EXPORTED __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

typedef int init_fn(int framework, const char *fw_version, const char *fal_version);
typedef void close_fn(void);
typedef int load_fn(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, void **model);
typedef int load_collectives_fn(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, uint32_t ctx_device,
                                uint32_t ctx_devices, void **model);
typedef int unload_fn(void *model);
typedef int execute_fn(void *model, const void *in, void *out);
typedef int execute_repeat_fn(void *model, const void *in, void *out, int repeat_count);
typedef int schedule_fn(void *model, const void *in, void *out, int queue, void *errors, uint64_t *seq);

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that their representations agree. */
#define REAL(type, name)                                                                                               \
    type *real;                                                                                                        \
    void *address = hook_real(HOOK_REAL_##name);                                                                       \
    memcpy(&real, &address, sizeof real)

EXPORTED init_fn nrt_init;
EXPORTED close_fn nrt_close;
EXPORTED load_fn nrt_load;
EXPORTED load_collectives_fn nrt_load_collectives;
EXPORTED unload_fn nrt_unload;
EXPORTED execute_fn nrt_execute;
EXPORTED execute_repeat_fn nrt_execute_repeat;
EXPORTED schedule_fn nrta_execute_schedule;

struct init {
    bool answered, usable;
    uint32_t question_us;
    struct hook_buffers buffers;
};

static void before_init(struct init *x)
{
    struct kymo_hook_policy p;

    x->usable = hook_state_begin();
    if (!x->usable)
        return;
    if (hook_env_is_on("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS")) {
        hook_state_set(&hook_is_async, 1);
        hook_state_set(&hook_page->is_async, 1);
    }
    if (hook_env_inspecting())
        hook_state_set(&hook_page->reason, KYMO_HOOK_REASON_INSPECT);
    x->answered = hook_talk_ask(&x->question_us);
    if (hook_talk_look_at_policy(&p) && !(p.flags & KYMO_HOOK_POLICY_OFF))
        x->buffers = hook_env_set_buffers(&p);
}

EXPORTED int nrt_init(int framework, const char *fw_version, const char *fal_version)
{
    struct init x = {0};
    int status, saved = errno;
    REAL(init_fn, nrt_init);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth || hook_is_disabled() || hook_is_live())
        return real(framework, fw_version, fal_version);
    hook_depth++;
    before_init(&x);
    errno = saved;
    status = real(framework, fw_version, fal_version);
    saved = errno;
    if (x.usable && status == HOOK_NRT_SUCCESS) {
        hook_talk_start();
        hook_state_live(true);
        hook_capture_begin(x.answered, x.question_us, x.buffers);
    }
    hook_depth--;
    errno = saved;
    return status;
}

EXPORTED void nrt_close(void)
{
    REAL(close_fn, nrt_close);

    if (!real)
        return;
    if (hook_depth || !hook_is_live()) {
        real();
        return;
    }
    hook_capture_end();
    hook_state_live(false);
    hook_model_unload_all();
    hook_depth++;
    real();
    hook_depth--;
}

static void loaded(int status, void *const *model, const void *neff, size_t size, int32_t vnc, int32_t vnc_count,
                   const uint32_t ctx[2])
{
    int saved = errno;

    if (status == HOOK_NRT_SUCCESS && model && *model && hook_is_live())
        hook_model_loaded(*model, neff, size, vnc, vnc_count, ctx);
    errno = saved;
}

EXPORTED int nrt_load(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, void **model)
{
    int status;
    REAL(load_fn, nrt_load);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth)
        return real(neff, size, vnc, vnc_count, model);
    hook_depth++;
    status = real(neff, size, vnc, vnc_count, model);
    loaded(status, model, neff, size, vnc, vnc_count, (const uint32_t[2]){0, 0});
    hook_depth--;
    return status;
}

EXPORTED int nrt_load_collectives(const void *neff, size_t size, int32_t vnc, int32_t vnc_count, uint32_t ctx_device,
                                  uint32_t ctx_devices, void **model)
{
    int status;
    REAL(load_collectives_fn, nrt_load_collectives);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth)
        return real(neff, size, vnc, vnc_count, ctx_device, ctx_devices, model);
    hook_depth++;
    status = real(neff, size, vnc, vnc_count, ctx_device, ctx_devices, model);
    loaded(status, model, neff, size, vnc, vnc_count, (const uint32_t[2]){ctx_device, ctx_devices});
    hook_depth--;
    return status;
}

EXPORTED int nrt_unload(void *model)
{
    int status, saved = errno;
    REAL(unload_fn, nrt_unload);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth || !hook_is_live())
        return real(model);
    hook_model_unloading(model);
    errno = saved;
    hook_depth++;
    status = real(model);
    hook_depth--;
    return status;
}

/* A trigger that waits for a later execution of this model costs nothing before. */
static bool wants_attention(const struct hook_model *m)
{
    uint32_t a = __atomic_load_n(&hook_attention, __ATOMIC_RELAXED);

    if (a & HOOK_ATTEND_WAIT && m &&
        hook_model_executions(m) + 1 >= __atomic_load_n(&hook_wait_execution, __ATOMIC_RELAXED))
        return true;
    return (a & (HOOK_ATTEND_POLICY | HOOK_ATTEND_CAPTURE)) != 0 ||
           __atomic_load_n(&hook_page->trigger.seq, __ATOMIC_RELAXED) !=
               __atomic_load_n(&hook_trigger_seen, __ATOMIC_RELAXED);
}

/* Switched off by the policy, and no newer one has come. */
static bool is_off(void)
{
    return (__atomic_load_n(&hook_attention, __ATOMIC_RELAXED) & (HOOK_ATTEND_OFF | HOOK_ATTEND_POLICY)) ==
           HOOK_ATTEND_OFF;
}

static void count(struct hook_model *m, int status, uint64_t start, uint64_t end, uint64_t times)
{
    struct kymo_hook_model_slot *s;
    uint64_t ns = end - start;

    if (!m) {
        (void)__atomic_fetch_add(&hook_page->uncounted, times, __ATOMIC_RELAXED);
        return;
    }
    s = m->slot;
    (void)__atomic_fetch_add(&s->executions, times, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&s->total_ns, ns, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&s->buckets[kymo_hook_bucket(ns / times)], times, __ATOMIC_RELAXED);
    __atomic_store_n(&s->last_end_mono_ns, end, __ATOMIC_RELAXED);
    if (ns / times > __atomic_load_n(&s->max_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&s->max_ns, ns / times, __ATOMIC_RELAXED);
    if (status != HOOK_NRT_SUCCESS)
        (void)__atomic_fetch_add(&s->failures, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&s->last_status, __ATOMIC_RELAXED) != (uint32_t)status)
        hook_state_set(&s->last_status, (uint32_t)status);
}

static bool is_of_interest(int status)
{
    uint32_t a = __atomic_load_n(&hook_attention, __ATOMIC_RELAXED);

    return a & HOOK_ATTEND_CAPTURE || (a & HOOK_ATTEND_FAILURE && status != HOOK_NRT_SUCCESS);
}

static inline void after(struct hook_model *m, int status, uint64_t start, uint64_t times)
{
    count(m, status, start, hook_now(), times);
    if (!LIKELY(!is_of_interest(status)))
        hook_capture_after(m, status, false);
}

EXPORTED int nrt_execute(void *model, const void *in, void *out)
{
    struct hook_model *m;
    uint64_t start;
    int status;
    REAL(execute_fn, nrt_execute);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth || !hook_is_live() || is_off())
        return real(model, in, out);
    m = hook_model_find(model);
    if (!LIKELY(!wants_attention(m)))
        hook_capture_before(m);
    hook_depth++;
    start = hook_now();
    status = real(model, in, out);
    after(m, status, start, 1);
    hook_depth--;
    return status;
}

EXPORTED int nrt_execute_repeat(void *model, const void *in, void *out, int repeat_count)
{
    struct hook_model *m;
    uint64_t start;
    int status;
    REAL(execute_repeat_fn, nrt_execute_repeat);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth || !hook_is_live() || is_off() || repeat_count < 1)
        return real(model, in, out, repeat_count);
    m = hook_model_find(model);
    if (!LIKELY(!wants_attention(m)))
        hook_capture_before(m);
    hook_depth++;
    start = hook_now();
    status = real(model, in, out, repeat_count);
    after(m, status, start, (uint64_t)repeat_count);
    hook_depth--;
    return status;
}

/* How long the device takes is not seen here: schedules are counted, not timed. */
EXPORTED int nrta_execute_schedule(void *model, const void *in, void *out, int queue, void *errors, uint64_t *seq)
{
    struct hook_model *m;
    int status;
    REAL(schedule_fn, nrta_execute_schedule);

    if (!real)
        return HOOK_NRT_UNINITIALIZED;
    if (hook_depth || !hook_is_live() || is_off())
        return real(model, in, out, queue, errors, seq);
    if (!LIKELY(__atomic_load_n(&hook_is_async, __ATOMIC_RELAXED)))
        hook_capture_async();
    m = hook_model_find(model);
    if (!LIKELY(!wants_attention(m)))
        hook_capture_before(m);
    hook_depth++;
    status = real(model, in, out, queue, errors, seq);
    if (m && status == HOOK_NRT_SUCCESS)
        (void)__atomic_fetch_add(&m->slot->schedules, 1, __ATOMIC_RELAXED);
    if (!LIKELY(!is_of_interest(status)))
        hook_capture_after(m, status, true);
    hook_depth--;
    return status;
}
