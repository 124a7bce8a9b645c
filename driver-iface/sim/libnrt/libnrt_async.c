/* Asynchronous execution: the device queues, this side remembers who asked. */
#include <errno.h>

#include "base/alloc.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"

#define TRACKER_MAGIC 0x6b796d6f65727273ull
#define TRACKER_MAX 1024u /* errors kept; later ones are dropped, the first ones tell most */
#define HOST_SCHEDULE_PS 3000000ull

struct nrta_error_tracker {
    uint64_t magic;
    size_t n;
    nrta_error_t errors[TRACKER_MAX];
};

static struct {
    uint64_t submitted, collected;
    nrta_error_tracker_t *trackers[SIM_WIRE_RESULTS_MAX];
    NRT_STATUS failed; /* of an execution that nobody tracks: told by the next call */
} state;

void libnrt_async_reset(void)
{
    state.submitted = state.collected = 0;
    state.failed = NRT_SUCCESS;
    for (size_t i = 0; i < SIM_WIRE_RESULTS_MAX; i++)
        state.trackers[i] = NULL;
    rt.async_used = false;
}

bool libnrt_is_async(void)
{
    return rt.env.async_inflight > 0 || rt.async_used;
}

static void note_failure(uint64_t sequence, NRT_STATUS status)
{
    nrta_error_tracker_t *t = state.trackers[sequence % SIM_WIRE_RESULTS_MAX];

    if (status == NRT_SUCCESS)
        return;
    if (!t)
        state.failed = status;
    else if (t->n < TRACKER_MAX)
        t->errors[t->n++] =
            (nrta_error_t){.seq_id = (uint64_t)NRTA_XU_COMPUTE << 48 | sequence, .error_code = (uint64_t)status};
}

static int collect_one(uint64_t sequence)
{
    struct sim_request q;
    struct sim_answer a;
    struct nrt_model *m;
    int r;

    libnrt_request(&q, SIM_OP_RESULT, 0);
    q.sequence = sequence;
    r = libnrt_call(&q, -1, &a, NULL, NULL);
    if (r < 0)
        return r;
    m = libnrt_model_by_id(a.result.model_id);
    if (m) {
        m->executions++;
        libnrt_note_execution(&rt.cores[m->core], &a.result);
        libnrt_trace_collected(&rt.cores[m->core], &a.result, sequence);
    }
    note_failure(sequence, (NRT_STATUS)a.result.status);
    state.trackers[sequence % SIM_WIRE_RESULTS_MAX] = NULL;
    return 0;
}

static void collect_until(uint64_t completed)
{
    while (state.collected < completed && state.collected < state.submitted && collect_one(state.collected + 1) == 0)
        state.collected++;
}

static void collect_with(enum sim_op_code op)
{
    struct sim_request q;
    struct sim_answer a;

    if (state.collected == state.submitted)
        return;
    libnrt_request(&q, op, 0);
    if (libnrt_call(&q, -1, &a, NULL, NULL) == 0)
        collect_until(a.sequence);
}

void libnrt_async_collect(void)
{
    collect_with(SIM_OP_POLL);
}

void libnrt_async_wait(void)
{
    collect_with(SIM_OP_WAIT);
}

NRT_STATUS libnrt_async_submit(struct nrt_model *m, nrta_error_tracker_t *errors, uint64_t *ret_sequence)
{
    struct kymo_err err = {0};
    struct sim_request q;
    struct sim_answer a;
    NRT_STATUS failed = state.failed;
    int r;

    if (state.submitted - state.collected >= SIM_WIRE_ASYNC_MAX / 2)
        libnrt_async_wait();
    if (failed != NRT_SUCCESS) {
        state.failed = NRT_SUCCESS;
        return failed;
    }
    libnrt_request(&q, SIM_OP_SUBMIT, rt.cores[m->core].vnc);
    q.model_id = m->id;
    q.idle_ps = HOST_SCHEDULE_PS;
    q.flags = ++rt.executions == rt.env.fail_execution ? SIM_FLAG_FAIL : 0;
    r = libnrt_call(&q, -1, &a, NULL, &err);
    if (r < 0) {
        libnrt_say("scheduling on core %u: %s", rt.cores[m->core].vnc, err.text);
        return libnrt_status_of(r);
    }
    state.submitted = a.sequence;
    libnrt_trace_submit(&rt.cores[m->core], m, &a);
    state.trackers[a.sequence % SIM_WIRE_RESULTS_MAX] = errors;
    *ret_sequence = a.sequence;
    return NRT_SUCCESS;
}

uint64_t libnrt_async_in_flight(void)
{
    return state.submitted - state.collected;
}

NRT_STATUS nrta_execute_schedule(nrt_model_t *model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out, int queue,
                                 nrta_error_tracker_t *errors, nrta_seq_t *seq)
{
    struct nrt_model *m;
    uint64_t sequence = 0;
    NRT_STATUS status = libnrt_enter();

    (void)in;
    (void)out;
    if (status != NRT_SUCCESS)
        return status;
    m = libnrt_model_of(model);
    if (!m || !seq || queue != 0 || (errors && errors->magic != TRACKER_MAGIC))
        return libnrt_leave(m ? NRT_INVALID : NRT_INVALID_HANDLE);
    libnrt_profile_async();
    rt.async_used = true;
    status = libnrt_async_submit(m, errors, &sequence);
    if (status == NRT_SUCCESS)
        *seq = (uint64_t)NRTA_XU_COMPUTE << 48 | sequence;
    return libnrt_leave(status);
}

NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool *is_completed)
{
    NRT_STATUS status = libnrt_enter();
    uint64_t number = seq & NRTA_SEQ_NUM_MASK;

    if (status != NRT_SUCCESS)
        return status;
    if (!is_completed || number == 0 || seq >> 48 >= NRTA_XU_TYPE_NUM)
        return libnrt_leave(NRT_INVALID);
    if (seq >> 48 != NRTA_XU_COMPUTE) {
        *is_completed = true; /* host copies are done when they are scheduled */
        return libnrt_leave(NRT_SUCCESS);
    }
    if (number > state.submitted)
        return libnrt_leave(NRT_INVALID);
    libnrt_async_collect();
    *is_completed = number <= state.collected;
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t *seq)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!seq || queue != 0 || xu != NRTA_XU_COMPUTE || lnc >= rt.n_cores)
        return libnrt_leave(NRT_INVALID);
    libnrt_async_collect();
    *seq = (uint64_t)NRTA_XU_COMPUTE << 48 | state.collected;
    return libnrt_leave(NRT_SUCCESS);
}

NRT_STATUS nrta_error_tracker_create(uint32_t lnc_idx, nrta_error_tracker_t **tracker)
{
    nrta_error_tracker_t *t;
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!tracker || lnc_idx >= rt.n_cores)
        return libnrt_leave(NRT_INVALID);
    t = KYMO_NEW(nrta_error_tracker_t);
    if (!t)
        return libnrt_leave(NRT_FAIL_HOST_MEM_ALLOC);
    t->magic = TRACKER_MAGIC;
    *tracker = t;
    return libnrt_leave(NRT_SUCCESS);
}

void nrta_error_tracker_destroy(nrta_error_tracker_t *tracker)
{
    if (!tracker || tracker->magic != TRACKER_MAGIC)
        return;
    (void)pthread_mutex_lock(&rt.lock);
    for (size_t i = 0; i < SIM_WIRE_RESULTS_MAX; i++)
        if (state.trackers[i] == tracker)
            state.trackers[i] = NULL;
    (void)pthread_mutex_unlock(&rt.lock);
    tracker->magic = 0;
    kymo_free(tracker);
}

NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t *tracker, const nrta_error_t **list, size_t *count)
{
    NRT_STATUS status = libnrt_enter();

    if (status != NRT_SUCCESS)
        return status;
    if (!tracker || tracker->magic != TRACKER_MAGIC || !list || !count)
        return libnrt_leave(NRT_INVALID);
    libnrt_async_collect();
    *list = tracker->errors;
    *count = tracker->n;
    return libnrt_leave(NRT_SUCCESS);
}
