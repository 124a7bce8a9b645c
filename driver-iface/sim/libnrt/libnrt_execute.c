/* Execution, and host copies for tensors. */
#include "base/alloc.h"
#include "driver-iface/sim/libnrt/libnrt.h"
#include "driver-iface/sim/libnrt/libnrt_systrace.h"

/* What the host spends before the device is told to begin (G). */
#define HOST_EXECUTE_PS 20000000ull
#define HOST_COPY_PS 2000000ull

void libnrt_note_execution(struct libnrt_core *core, const struct sim_wire_result *result)
{
    struct libnrt_capture *c = core->capture;
    const struct nrt_model *m = libnrt_model_by_id(result->model_id);
    size_t i = 0;

    if (!c || !m || result->end_ps == 0)
        return;
    while (i < c->n_images && c->images[i]->model_id != result->model_id)
        i++;
    if (i == c->n_images && i < LIBNRT_MODELS_MAX) {
        c->images[i] = sim_image_ref(m->image);
        c->models[i] = m;
        c->n_images++;
    }
    if (kymo_grow((void **)&c->executions, &c->executions_cap, c->n_executions + 1, LIBNRT_EXECUTIONS_MAX,
                  sizeof *c->executions) < 0)
        return;
    c->executions[c->n_executions++] = (struct libnrt_execution){
        .start_ps = result->start_ps, .end_ps = result->end_ps, .model_id = result->model_id, .status = result->status};
    libnrt_capture_sync(core);
}

static NRT_STATUS execute_once(struct nrt_model *m)
{
    struct libnrt_core *core = &rt.cores[m->core];
    struct kymo_err err = {0};
    struct sim_request q;
    struct sim_answer a;
    NRT_STATUS status;
    int r;

    libnrt_profile_before(m);
    libnrt_request(&q, SIM_OP_EXECUTE, core->vnc);
    q.model_id = m->id;
    q.idle_ps = HOST_EXECUTE_PS;
    q.flags = ++rt.executions == rt.env.fail_execution ? SIM_FLAG_FAIL : 0;
    r = libnrt_call(&q, -1, &a, NULL, &err);
    if (r < 0) {
        libnrt_say("execution on core %u: %s", core->vnc, err.text);
        return libnrt_status_of(r);
    }
    m->executions++;
    status = (NRT_STATUS)a.result.status;
    libnrt_trace_execution(core, m, &a, rt.executions);
    libnrt_note_execution(core, &a.result);
    libnrt_profile_after(m, status);
    return status;
}

/* Implicit asynchronous mode: the call returns as soon as there is room for the request. */
static NRT_STATUS submit_once(struct nrt_model *m)
{
    uint64_t sequence;

    if (libnrt_async_in_flight() >= rt.env.async_inflight)
        libnrt_async_wait();
    return libnrt_async_submit(m, NULL, &sequence);
}

NRT_STATUS nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out, int repeat_count)
{
    struct nrt_model *m;
    NRT_STATUS status = libnrt_enter();

    (void)in;
    (void)out;
    if (status != NRT_SUCCESS)
        return status;
    m = libnrt_model_of(model);
    if (!m || repeat_count < 1)
        return libnrt_leave(m ? NRT_INVALID : NRT_INVALID_HANDLE);
    for (int i = 0; i < repeat_count && status == NRT_SUCCESS; i++)
        status = rt.env.async_inflight ? submit_once(m) : execute_once(m);
    return libnrt_leave(status);
}

NRT_STATUS nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *in, nrt_tensor_set_t *out)
{
    return nrt_execute_repeat(model, in, out, 1);
}

NRT_STATUS libnrt_host_copy(unsigned core, bool to_device, uint64_t bytes, uint64_t tensor, uint64_t offset)
{
    struct kymo_err err = {0};
    struct sim_request q;
    struct sim_answer a;
    NRT_STATUS status = libnrt_attach(&rt.cores[core]);
    int r;

    if (status != NRT_SUCCESS || bytes == 0)
        return status;
    if (!to_device && rt.env.async_inflight)
        libnrt_async_wait(); /* a reader wants what the executions before it wrote */
    libnrt_request(&q, SIM_OP_HOST_COPY, rt.cores[core].vnc);
    q.bytes = bytes;
    q.flags = to_device ? SIM_FLAG_TO_DEVICE : 0;
    q.idle_ps = HOST_COPY_PS;
    r = libnrt_call(&q, -1, &a, NULL, &err);
    if (r < 0)
        libnrt_say("host copy on core %u: %s", rt.cores[core].vnc, err.text);
    else
        libnrt_trace_copy(&rt.cores[core], to_device, tensor, offset, bytes, &a);
    return libnrt_status_of(r);
}
