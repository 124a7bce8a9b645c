/* The device process's side of one rank: reads requests, checks them, answers. One thread per connection. */
#include "driver-iface/sim/sim_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sock.h"
#include "driver-iface/nrt/nrt_abi.h"
#include "driver-iface/sim/sim_deeds.h"
#include "driver-iface/sim/sim_image.h"
#include "driver-iface/sim/sim_wire.h"

#define IDLE_PS_MAX (3600ull * 1000000000000ull)
#define COPY_BYTES_MAX (1ull << 40)
#define TIMEOUT_MS_MAX (24u * 3600u * 1000u)

struct model {
    struct sim_image *image; /* NULL: free slot */
    unsigned vnc;
    uint64_t neff_bytes; /* stand for its constants (G) */
    struct sim_wire_comm comm;
};

struct pending {
    uint64_t model_id, idle_ps;
    bool fail;
};

struct rank {
    struct sim_device *device;
    int fd;
    struct model models[SIM_WIRE_MODELS_MAX];
    struct pending queue[SIM_WIRE_ASYNC_MAX];
    uint64_t submitted, completed; /* sequence numbers */
    struct sim_wire_result results[SIM_WIRE_RESULTS_MAX];
    struct sim_deeds *deeds; /* NULL: its runtime does not trace the system */
};

struct call {
    const struct sim_request *request;
    struct sim_answer *answer;
    int in_fd;  /* -1: none came along */
    int out_fd; /* -1: none goes back; stays the device's */
    struct kymo_err err;
};

static struct model *find_model(struct rank *k, uint64_t id)
{
    for (size_t i = 0; i < SIM_WIRE_MODELS_MAX; i++)
        if (k->models[i].image && k->models[i].image->model_id == id)
            return &k->models[i];
    return NULL;
}

static void fail_unfinished(struct sim_wire_result *result, const struct model *m)
{
    result->model_id = m ? m->image->model_id : 0;
    result->vnc = m ? m->vnc : 0;
    result->status = m ? NRT_EXEC_HW_ERR_NC_UE : NRT_INVALID_HANDLE;
}

static int execute(struct rank *k, const struct pending *p, struct sim_wire_result *result, struct kymo_err *err)
{
    struct model *m = find_model(k, p->model_id);
    struct sim_exec_result done = {0};
    int r;

    *result = (struct sim_wire_result){0};
    fail_unfinished(result, m);
    if (!m)
        return kymo_err_set(err, -EBADF, "model %llu is not loaded", (unsigned long long)p->model_id);
    if (sim_image_world(m->image) > 1)
        r = sim_device_execute_joint(k->device, m->vnc, &m->comm, m->image, p->fail, p->idle_ps, &done, err);
    else
        r = sim_device_execute(k->device, m->vnc, m->image, p->fail, p->idle_ps, &done, err);
    if (r < 0)
        return r;
    result->start_ps = done.start_ps;
    result->end_ps = done.end_ps;
    result->status = done.status;
    if (k->deeds)
        sim_deeds_add(k->deeds, &(struct sim_deed){.kind = "device_exec",
                                                   .vnc = m->vnc,
                                                   .start_ns = done.host_start_ns,
                                                   .end_ns = done.host_end_ns,
                                                   .model_id = p->model_id,
                                                   .status = done.status});
    return 0;
}

static void run_one_submitted(struct rank *k)
{
    struct pending p = k->queue[k->completed % SIM_WIRE_ASYNC_MAX];
    uint64_t sequence = k->completed + 1;

    /* A failure is told by the result's status: there is no call to answer. */
    (void)execute(k, &p, &k->results[sequence % SIM_WIRE_RESULTS_MAX], NULL);
    k->completed = sequence;
}

static void run_submitted(struct rank *k)
{
    while (k->completed < k->submitted)
        run_one_submitted(k);
}

static int op_hello(struct rank *k, struct call *c)
{
    sim_device_hello(k->device, &c->answer->hello);
    return 0;
}

static int op_attach(struct rank *k, struct call *c)
{
    return sim_device_attach(k->device, c->request->vnc, k, &c->request->attach, &c->err);
}

static void unload_of_core(struct rank *k, unsigned vnc)
{
    for (size_t i = 0; i < SIM_WIRE_MODELS_MAX; i++)
        if (k->models[i].image && k->models[i].vnc == vnc)
            sim_image_freep(&k->models[i].image);
}

static int op_detach(struct rank *k, struct call *c)
{
    run_submitted(k);
    unload_of_core(k, c->request->vnc);
    sim_device_detach(k->device, c->request->vnc, k);
    return 0;
}

/* The bytes must not change or shrink under the reader, hence the seals. */
static int map_neff(struct call *c, void **ret)
{
    uint64_t size = 0;
    int seals = fcntl(c->in_fd, F_GET_SEALS);
    int r;

    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_WRITE)) != (F_SEAL_SHRINK | F_SEAL_WRITE))
        return kymo_err_set(&c->err, -EINVAL, "NEFF descriptor: not a sealed memory file");
    r = kymo_file_size(c->in_fd, &size, "NEFF descriptor", &c->err);
    if (r < 0)
        return r;
    if (size != c->request->bytes || size == 0 || size > NEFF_TOTAL_MAX)
        return kymo_err_set(&c->err, -EFBIG, "NEFF of %llu bytes: said to have %llu, at most %llu are allowed",
                            (unsigned long long)size, (unsigned long long)c->request->bytes,
                            (unsigned long long)NEFF_TOTAL_MAX);
    *ret = mmap(NULL, size, PROT_READ, MAP_PRIVATE, c->in_fd, 0);
    if (*ret == MAP_FAILED)
        return kymo_err_set(&c->err, -errno, "NEFF descriptor: cannot map: %s", strerror(errno));
    return 0;
}

static int build_image(struct rank *k, struct call *c, struct sim_image **ret)
{
    struct neff *neff = NULL;
    void *bytes = NULL;
    char name[32];
    int r = map_neff(c, &bytes);

    if (r < 0)
        return r;
    (void)snprintf(name, sizeof name, "NEFF of core %u", c->request->vnc);
    r = neff_open_memory(bytes, c->request->bytes, name, NEFF_NO_DEBUG, &neff, &c->err);
    (void)munmap(bytes, c->request->bytes);
    if (r < 0)
        return r;
    r = sim_image_build(sim_device_arch(k->device), sim_device_lnc(k->device), neff,
                        sim_device_next_model_id(k->device, c->request->vnc), ret, &c->err);
    if (r < 0)
        neff_freep(&neff);
    return r;
}

static int take_memory(struct rank *k, const struct model *m, struct kymo_err *err)
{
    int r = sim_device_take(k->device, m->vnc, SYSFS_KIND_MODEL_CODE, m->image->image_bytes, err);

    if (r < 0)
        return r;
    r = sim_device_take(k->device, m->vnc, SYSFS_KIND_CONSTANTS, m->neff_bytes, err);
    if (r < 0)
        sim_device_give(k->device, m->vnc, SYSFS_KIND_MODEL_CODE, m->image->image_bytes);
    return r;
}

static int check_comm(const struct sim_image *image, const struct sim_wire_comm *comm, struct kymo_err *err)
{
    unsigned world = sim_image_world(image);

    if (world == 1)
        return 0;
    if (!comm->world)
        return kymo_err_set(err, -EINVAL, "the program has collectives over %u ranks: nrt_load_collectives loads it",
                            world);
    if (comm->world != world || comm->rank >= world || comm->timeout_ms > TIMEOUT_MS_MAX)
        return kymo_err_set(err, -EINVAL, "the program has collectives over %u ranks, the job has %u (this is rank %u)",
                            world, comm->world, comm->rank);
    return 0;
}

static int op_load(struct rank *k, struct call *c)
{
    struct model *slot = NULL;
    int r;

    for (size_t i = 0; i < SIM_WIRE_MODELS_MAX && !slot; i++)
        if (!k->models[i].image)
            slot = &k->models[i];
    if (!slot)
        return kymo_err_set(&c->err, -ENOSPC, "%u models are loaded already", SIM_WIRE_MODELS_MAX);
    if (c->in_fd < 0)
        return kymo_err_set(&c->err, -EINVAL, "load without a descriptor");
    r = build_image(k, c, &slot->image);
    if (r < 0)
        return r;
    slot->vnc = c->request->vnc;
    slot->neff_bytes = c->request->bytes;
    slot->comm = c->request->comm;
    r = check_comm(slot->image, &slot->comm, &c->err);
    if (r == 0)
        r = take_memory(k, slot, &c->err);
    if (r < 0) {
        sim_image_freep(&slot->image);
        return r;
    }
    sim_device_loaded(k->device, slot->vnc);
    c->answer->model_id = slot->image->model_id;
    return 0;
}

static int op_unload(struct rank *k, struct call *c)
{
    struct model *m;

    run_submitted(k);
    m = find_model(k, c->request->model_id);
    if (!m)
        return kymo_err_set(&c->err, -EBADF, "model %llu is not loaded", (unsigned long long)c->request->model_id);
    sim_device_give(k->device, m->vnc, SYSFS_KIND_MODEL_CODE, m->image->image_bytes);
    sim_device_give(k->device, m->vnc, SYSFS_KIND_CONSTANTS, m->neff_bytes);
    sim_image_freep(&m->image);
    return 0;
}

static int op_arm(struct rank *k, struct call *c)
{
    run_submitted(k);
    return sim_device_arm(k->device, c->request->vnc, c->request->sizes, c->request->mode, &c->out_fd,
                          &c->answer->bytes, &c->err);
}

static int op_restart(struct rank *k, struct call *c)
{
    run_submitted(k);
    return sim_device_restart(k->device, c->request->vnc, &c->err);
}

static int op_disarm(struct rank *k, struct call *c)
{
    run_submitted(k);
    sim_device_disarm(k->device, c->request->vnc);
    return 0;
}

static int op_freeze(struct rank *k, struct call *c)
{
    run_submitted(k);
    return sim_device_freeze(k->device, c->request->vnc, &c->err);
}

static int op_thaw(struct rank *k, struct call *c)
{
    sim_device_thaw(k->device, c->request->vnc);
    return 0;
}

static struct pending pending_of(const struct sim_request *q)
{
    return (struct pending){.model_id = q->model_id, .idle_ps = q->idle_ps, .fail = (q->flags & SIM_FLAG_FAIL) != 0};
}

static int op_execute(struct rank *k, struct call *c)
{
    struct pending p = pending_of(c->request);

    run_submitted(k);
    return execute(k, &p, &c->answer->result, &c->err);
}

static int op_submit(struct rank *k, struct call *c)
{
    if (!find_model(k, c->request->model_id))
        return kymo_err_set(&c->err, -EBADF, "model %llu is not loaded", (unsigned long long)c->request->model_id);
    if (k->submitted - k->completed >= SIM_WIRE_ASYNC_MAX)
        return kymo_err_set(&c->err, -EAGAIN, "%u executions wait already", SIM_WIRE_ASYNC_MAX);
    k->queue[k->submitted % SIM_WIRE_ASYNC_MAX] = pending_of(c->request);
    c->answer->sequence = ++k->submitted;
    return 0;
}

static int op_poll(struct rank *k, struct call *c)
{
    c->answer->sequence = k->completed;
    return 0;
}

static int op_wait(struct rank *k, struct call *c)
{
    run_submitted(k);
    return op_poll(k, c);
}

static int op_result(struct rank *k, struct call *c)
{
    uint64_t s = c->request->sequence;

    if (s == 0 || s > k->submitted || s + SIM_WIRE_RESULTS_MAX <= k->submitted)
        return kymo_err_set(&c->err, -ENOENT, "no result is kept for execution %llu", (unsigned long long)s);
    if (s > k->completed)
        return kymo_err_set(&c->err, -EAGAIN, "execution %llu waits", (unsigned long long)s);
    c->answer->result = k->results[s % SIM_WIRE_RESULTS_MAX];
    return 0;
}

static int op_host_copy(struct rank *k, struct call *c)
{
    const struct sim_request *q = c->request;

    if (q->bytes > COPY_BYTES_MAX)
        return kymo_err_set(&c->err, -EFBIG, "host copy of %llu bytes", (unsigned long long)q->bytes);
    return sim_device_host_copy(k->device, q->vnc, (q->flags & SIM_FLAG_TO_DEVICE) != 0, q->bytes, q->idle_ps, &c->err);
}

static int op_advance(struct rank *k, struct call *c)
{
    sim_device_advance(k->device, c->request->vnc, c->request->idle_ps);
    return 0;
}

/* Of any core: a framework looks at the clock too, and owns none. */
static int op_now(struct rank *k, struct call *c)
{
    if (c->request->vnc >= sim_device_vnc_count(k->device))
        return kymo_err_set(&c->err, -EINVAL, "there is no core %u", c->request->vnc);
    sim_device_now(k->device, c->request->vnc, &c->answer->now_ps, &c->answer->host_ns);
    return 0;
}

static int op_clock(struct rank *k, struct call *c)
{
    const struct sim_request *q = c->request;

    return sim_device_clock(k->device, q->vnc, q->ring, q->nc_idx, q->engine, &c->answer->clock, &c->err);
}

static int op_truth(struct rank *k, struct call *c)
{
    run_submitted(k);
    return sim_device_truth(k->device, c->request->vnc, c->request->name, &c->err);
}

static int op_memory(struct rank *k, struct call *c)
{
    const struct sim_request *q = c->request;

    if (q->bytes > COPY_BYTES_MAX)
        return kymo_err_set(&c->err, -ENOMEM, "%llu bytes of device memory", (unsigned long long)q->bytes);
    if (!(q->flags & SIM_FLAG_GIVE))
        return sim_device_take(k->device, q->vnc, SYSFS_KIND_TENSORS, q->bytes, &c->err);
    sim_device_give(k->device, q->vnc, SYSFS_KIND_TENSORS, q->bytes);
    return 0;
}

static int write_deeds(struct rank *k, const char *name, struct kymo_err *err)
{
    char *dir KYMO_FREE = NULL;
    int r = sim_device_truth_dir(k->device, name, &dir, err);

    return r < 0 ? r : sim_deeds_write(k->deeds, dir, err);
}

static int op_system(struct rank *k, struct call *c)
{
    int r = 0;

    run_submitted(k);
    if (k->deeds && c->request->name[0])
        r = write_deeds(k, c->request->name, &c->err);
    if (r == 0)
        k->deeds = sim_deeds_free(k->deeds);
    if (c->request->flags & SIM_FLAG_GIVE)
        return r;
    k->deeds = sim_deeds_new(k->device);
    if (!k->deeds)
        return kymo_err_set(&c->err, -ENOMEM, "no memory for a rank's deeds");
    for (unsigned vnc = 0; vnc < sim_device_vnc_count(k->device); vnc++)
        if (sim_device_check_owner(k->device, vnc, k, NULL) == 0)
            sim_deeds_memory(k->deeds, vnc);
    return r;
}

static int op_host(struct rank *k, struct call *c)
{
    if (!k->deeds)
        return kymo_err_set(&c->err, -EINVAL, "the rank does not trace the system");
    sim_deeds_sample(k->deeds, c->request->sequence, c->answer->host_cpu, &c->answer->bytes);
    return 0;
}

struct operation {
    int (*run)(struct rank *k, struct call *c);
    bool owned; /* vnc must be this rank's */
};

static const struct operation operations[SIM_OP_MAX] = {
    [SIM_OP_HELLO] = {op_hello, false},     [SIM_OP_ATTACH] = {op_attach, false},
    [SIM_OP_DETACH] = {op_detach, true},    [SIM_OP_LOAD] = {op_load, true},
    [SIM_OP_UNLOAD] = {op_unload, false},   [SIM_OP_ARM] = {op_arm, true},
    [SIM_OP_RESTART] = {op_restart, true},  [SIM_OP_DISARM] = {op_disarm, true},
    [SIM_OP_FREEZE] = {op_freeze, true},    [SIM_OP_THAW] = {op_thaw, true},
    [SIM_OP_EXECUTE] = {op_execute, false}, [SIM_OP_SUBMIT] = {op_submit, false},
    [SIM_OP_POLL] = {op_poll, false},       [SIM_OP_WAIT] = {op_wait, false},
    [SIM_OP_RESULT] = {op_result, false},   [SIM_OP_HOST_COPY] = {op_host_copy, true},
    [SIM_OP_ADVANCE] = {op_advance, true},  [SIM_OP_NOW] = {op_now, false},
    [SIM_OP_CLOCK] = {op_clock, true},      [SIM_OP_TRUTH] = {op_truth, true},
    [SIM_OP_MEMORY] = {op_memory, true},    [SIM_OP_SYSTEM] = {op_system, false},
    [SIM_OP_HOST] = {op_host, false},
};

static const char *const operation_names[SIM_OP_MAX] = {
#define X(name) [SIM_OP_##name] = #name,
    SIM_OP_MAP(X)
#undef X
};

const char *sim_op_name(unsigned op)
{
    return op < SIM_OP_MAX ? operation_names[op] : NULL;
}

static int check_request(const struct sim_request *q, size_t n)
{
    if (n != sizeof *q || q->magic != SIM_WIRE_MAGIC || q->version != SIM_WIRE_VERSION)
        return -EPROTO;
    if (!sim_op_name(q->op) || q->idle_ps > IDLE_PS_MAX || memchr(q->name, 0, sizeof q->name) == NULL)
        return -EPROTO;
    return 0;
}

/* What a runtime's caller could see of a request; NULL: nothing. */
static const char *deed_of(const struct sim_request *q)
{
    switch (q->op) {
    case SIM_OP_EXECUTE:
        return "execute";
    case SIM_OP_SUBMIT:
        return "submit";
    case SIM_OP_HOST_COPY:
        return q->flags & SIM_FLAG_TO_DEVICE ? "copyin" : "copyout";
    case SIM_OP_LOAD:
        return "load";
    case SIM_OP_UNLOAD:
        return "unload";
    case SIM_OP_MEMORY:
        return q->flags & SIM_FLAG_GIVE ? "free" : "alloc";
    default:
        return NULL;
    }
}

/* Has a time before and after. Not while rings are frozen: the core's lock is held then. */
static bool is_timed(struct rank *k, const struct sim_request *q)
{
    unsigned vnc = q->vnc;

    if (!deed_of(q) && q->op != SIM_OP_ATTACH && q->op != SIM_OP_ARM && q->op != SIM_OP_DISARM)
        return false;
    return vnc < sim_device_vnc_count(k->device) && sim_device_check_owner(k->device, vnc, k, NULL) == 0;
}

static void note_deed(struct rank *k, const struct call *c, int r)
{
    const struct sim_request *q = c->request;
    const char *kind = deed_of(q);

    if (kind && r == 0)
        sim_deeds_add(k->deeds, &(struct sim_deed){.kind = kind,
                                                   .vnc = q->vnc,
                                                   .start_ns = c->answer->host_begin_ns,
                                                   .end_ns = c->answer->host_ns,
                                                   .bytes = q->op == SIM_OP_LOAD ? 0 : q->bytes,
                                                   .model_id = q->op == SIM_OP_LOAD ? c->answer->model_id : q->model_id,
                                                   .status = c->answer->result.status});
    sim_deeds_memory(k->deeds, q->vnc);
}

static int dispatch(struct rank *k, struct call *c)
{
    const struct operation *o = &operations[c->request->op];
    uint64_t ps;
    int r = 0;

    if (o->owned)
        r = sim_device_check_owner(k->device, c->request->vnc, k, &c->err);
    if (r < 0)
        return r;
    if (is_timed(k, c->request))
        sim_device_now(k->device, c->request->vnc, &ps, &c->answer->host_begin_ns);
    r = o->run(k, c);
    if (is_timed(k, c->request)) {
        sim_device_now(k->device, c->request->vnc, &c->answer->now_ps, &c->answer->host_ns);
        if (k->deeds)
            note_deed(k, c, r);
    }
    return r;
}

static uint32_t nrt_status_of(int error)
{
    switch (-error) {
    case 0:
        return NRT_SUCCESS;
    case EBUSY:
        return NRT_EXEC_NC_BUSY;
    case EBADF:
        return NRT_INVALID_HANDLE;
    case EAGAIN:
        return NRT_QUEUE_FULL;
    case ENOMEM:
    case ENOSPC:
        return NRT_RESOURCE;
    case EDEADLK:
    case ETIMEDOUT:
        return NRT_TIMEOUT;
    case EINVAL:
    case EPROTO:
    case EFBIG:
        return NRT_INVALID;
    default:
        return NRT_FAILURE;
    }
}

/* False: the connection is over. */
static bool answer(struct rank *k, const struct sim_request *q, int in_fd)
{
    struct sim_answer a = {.magic = SIM_WIRE_MAGIC, .version = SIM_WIRE_VERSION, .op = q->op};
    struct call c = {.request = q, .answer = &a, .in_fd = in_fd, .out_fd = -1};
    int r = dispatch(k, &c);

    a.error = r;
    a.nrt_status = nrt_status_of(r);
    if (r < 0)
        (void)snprintf(a.text, sizeof a.text, "%.*s", (int)sizeof a.text - 1, c.err.text);
    return kymo_sock_send(k->fd, &a, sizeof a, &c.out_fd, c.out_fd >= 0 ? 1 : 0, NULL) == 0;
}

/* False: the rank is gone, or sent something that is no request. */
static bool serve_one(struct rank *k)
{
    struct sim_request q = {0};
    size_t n = sizeof q, nfds = 1;
    int in_fd KYMO_CLOSE = -1;
    int timeout = k->completed < k->submitted ? 0 : -1;
    int r = kymo_sock_recv(k->fd, &q, &n, &in_fd, &nfds, timeout, NULL);

    if (r == -ETIMEDOUT) {
        run_one_submitted(k);
        return true;
    }
    if (r < 0 || check_request(&q, n) < 0)
        return false;
    return answer(k, &q, nfds > 0 ? in_fd : -1);
}

void sim_rank_serve(struct sim_device *device, int fd)
{
    struct rank *k = KYMO_NEW(struct rank);

    if (!k)
        return;
    k->device = device;
    k->fd = fd;
    while (serve_one(k))
        ;
    for (size_t i = 0; i < SIM_WIRE_MODELS_MAX; i++)
        sim_image_freep(&k->models[i].image);
    sim_device_detach_all(device, k);
    k->deeds = sim_deeds_free(k->deeds);
    kymo_free(k);
}
