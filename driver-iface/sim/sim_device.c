#include "driver-iface/sim/sim_device.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sim/sim_gather.h"
#include "driver-iface/sim/sim_ring.h"
#include "driver-iface/sim/sim_truth.h"

#define PS_PER_NS 1000u
#define PS_PER_US 1000000u
#define BOOT_PS (60ull * 1000000000000ull) /* device clocks have run for a minute when the simulation begins (G) */
#define SKEW_PS (1000000000ull)            /* and differ by up to a millisecond between devices (G) */

/* What the runtime and the driver hold on each physical core while it is attached (G). */

#define TRUTHS_MAX 100000u /* of one name */

#define SLOW_MIN 0.01
#define SLOW_MAX 100.0

/* Rings of one logical core while it is traced. */
struct trace {
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t n_plan;
    struct sim_ring rings[KYMO_RING_PLAN_MAX];
    int fd;
    uint8_t *area;
    uint64_t bytes, h2d_bytes;
    unsigned mode;
    struct sim_truth *truth;
};

/* Physical cores that share a host-device DMA engine share a model and its lock. */
struct group {
    pthread_mutex_t lock;  /* recursive: a rank that froze its core goes on working with it */
    struct sim_core *core; /* made when the first rank attaches */
    bool dge_notifications;
};

struct logical_core {
    const void *owner;
    unsigned nd_idx, first_pcore;
    struct group *group;
    uint64_t models;               /* loaded so far */
    struct sim_memory_deeds deeds; /* of the owner */
    double slow_factor;
    bool frozen; /* the owner's thread holds the group's lock */
    struct trace *trace;
};

struct sim_device {
    struct sim_device_config config;
    pthread_mutex_t owners; /* guards owner of all cores; never held together with a group's lock */
    struct logical_core *cores;
    size_t n_cores;
    struct group *groups;
    size_t n_groups;
    struct sim_memory *memory;
    struct sim_gather *gather;
};

static unsigned pcores_per_group(const struct sim_device_config *c)
{
    unsigned shared = c->arch->h2d_pcores_per_engine;

    return shared > c->lnc ? shared : c->lnc;
}

static int fill(struct sim_device *d, struct kymo_err *err)
{
    const struct sim_device_config *c = &d->config;
    unsigned pcores = c->instance->devices * c->arch->pcores_per_device;
    pthread_mutexattr_t attributes;

    d->n_cores = pcores / c->lnc;
    d->n_groups = pcores / pcores_per_group(c);
    d->cores = KYMO_NEW_ARRAY(struct logical_core, d->n_cores);
    d->groups = KYMO_NEW_ARRAY(struct group, d->n_groups);
    if (!d->cores || !d->groups)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu logical cores", d->n_cores);
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    for (size_t i = 0; i < d->n_groups; i++)
        (void)pthread_mutex_init(&d->groups[i].lock, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    for (size_t i = 0; i < d->n_cores; i++) {
        unsigned pcore = (unsigned)i * c->lnc;

        d->cores[i].nd_idx = pcore / c->arch->pcores_per_device;
        d->cores[i].first_pcore = pcore % c->arch->pcores_per_device;
        d->cores[i].group = &d->groups[pcore / pcores_per_group(c)];
    }
    return 0;
}

int sim_device_new(const struct sim_device_config *config, struct sim_device **ret, struct kymo_err *err)
{
    struct sim_device *d KYMO_CLEANUP(sim_device_freep) = NULL;
    int r = kymo_arch_check_lnc(config->arch, config->lnc, err);

    if (r < 0)
        return r;
    d = KYMO_NEW(struct sim_device);
    if (!d)
        return kymo_err_set(err, -ENOMEM, "no memory for the device");
    d->config = *config;
    (void)pthread_mutex_init(&d->owners, NULL);
    d->gather = sim_gather_new();
    if (!d->gather)
        return kymo_err_set(err, -ENOMEM, "no memory for the device");
    r = sim_memory_new(&(struct sim_memory_config){.instance = config->instance,
                                                   .arch = config->arch,
                                                   .driver_version = config->driver_version,
                                                   .sysfs = config->sysfs_dir},
                       &d->memory, err);
    if (r == 0)
        r = fill(d, err);
    if (r < 0)
        return r;
    *ret = KYMO_TAKE(d);
    return 0;
}

struct sim_device *sim_device_free(struct sim_device *d)
{
    if (!d)
        return NULL;
    for (size_t i = 0; d->cores && i < d->n_cores; i++)
        sim_device_disarm(d, (unsigned)i);
    for (size_t i = 0; d->groups && i < d->n_groups; i++) {
        d->groups[i].core = sim_core_free(d->groups[i].core);
        (void)pthread_mutex_destroy(&d->groups[i].lock);
    }
    kymo_free(d->cores);
    kymo_free(d->groups);
    d->memory = sim_memory_free(d->memory);
    d->gather = sim_gather_free(d->gather);
    (void)pthread_mutex_destroy(&d->owners);
    kymo_free(d);
    return NULL;
}

void sim_device_freep(struct sim_device **d)
{
    *d = sim_device_free(*d);
}

const struct kymo_arch *sim_device_arch(const struct sim_device *d)
{
    return d->config.arch;
}

unsigned sim_device_lnc(const struct sim_device *d)
{
    return d->config.lnc;
}

unsigned sim_device_vnc_count(const struct sim_device *d)
{
    return (unsigned)d->n_cores;
}

void sim_device_hello(const struct sim_device *d, struct sim_wire_hello *ret)
{
    *ret = (struct sim_wire_hello){.lnc = d->config.lnc, .vnc_count = (uint32_t)d->n_cores};
    (void)snprintf(ret->instance, sizeof ret->instance, "%s", d->config.instance->type);
    (void)snprintf(ret->driver_version, sizeof ret->driver_version, "%s", d->config.driver_version);
}

/* A fixed mixing of seed and device, so that clocks differ between devices but not between runs. */
static uint64_t start_of(const struct sim_device *d, unsigned nd_idx)
{
    uint64_t x = d->config.seed * 0x9e3779b97f4a7c15ull + nd_idx + 1;

    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
    return BOOT_PS + (x ^ (x >> 27)) % SKEW_PS;
}

static int make_core(struct sim_device *d, struct logical_core *l, const struct sim_wire_attach *how,
                     struct kymo_err *err)
{
    struct group *g = l->group;
    struct sim_config config = {
        .arch = d->config.arch,
        .lnc = d->config.lnc,
        .seed = d->config.seed,
        .dge_notifications = how->dge_notifications != 0,
        .drift = d->config.drift,
        .start_ps = start_of(d, l->nd_idx),
        .slow_factor = 1.0,
        .notices = d->config.notices,
    };
    int r = 0;

    if (!g->core) {
        r = sim_core_new(&config, &g->core, err);
        g->dge_notifications = config.dge_notifications;
    } else if (g->dge_notifications != config.dge_notifications) {
        r = kymo_err_set(err, -EINVAL,
                         "ranks whose cores share a DMA engine differ in "
                         "NEURON_RT_ENABLE_DGE_NOTIFICATIONS");
    }
    l->slow_factor = how->slow_factor;
    return r;
}

static int take_core(struct sim_device *d, struct logical_core *l, const void *owner)
{
    int r = 0;

    (void)pthread_mutex_lock(&d->owners);
    if (l->owner)
        r = -EBUSY;
    else
        l->owner = owner;
    (void)pthread_mutex_unlock(&d->owners);
    return r;
}

/* Number of the instance's first physical core that belongs to vnc. */
static unsigned first_of(const struct sim_device *d, unsigned vnc)
{
    return vnc * d->config.lnc;
}

static uint64_t share_of(const struct sim_device *d, uint64_t bytes)
{
    return bytes / d->config.lnc + (bytes % d->config.lnc != 0);
}

int sim_device_take(struct sim_device *d, unsigned vnc, enum sysfs_kind kind, uint64_t bytes, struct kymo_err *err)
{
    return sim_memory_take(d->memory, first_of(d, vnc), d->config.lnc, kind, share_of(d, bytes), err);
}

void sim_device_give(struct sim_device *d, unsigned vnc, enum sysfs_kind kind, uint64_t bytes)
{
    sim_memory_give(d->memory, first_of(d, vnc), d->config.lnc, kind, share_of(d, bytes));
}

void sim_device_memory(struct sim_device *d, unsigned vnc, uint64_t present[SYSFS_KIND_MAX])
{
    sim_memory_present(d->memory, first_of(d, vnc), d->config.lnc, present);
}

void sim_device_loaded(struct sim_device *d, unsigned vnc)
{
    d->cores[vnc].deeds.loads++;
}

static void give_core(struct sim_device *d, struct logical_core *l)
{
    (void)pthread_mutex_lock(&d->owners);
    l->owner = NULL;
    (void)pthread_mutex_unlock(&d->owners);
}

int sim_device_attach(struct sim_device *d, unsigned vnc, const void *owner, const struct sim_wire_attach *how,
                      struct kymo_err *err)
{
    struct logical_core *l;
    int r;

    if (vnc >= d->n_cores)
        return kymo_err_set(err, -EINVAL, "logical core %u: the instance has %zu", vnc, d->n_cores);
    if (!isfinite(how->slow_factor) || how->slow_factor < SLOW_MIN || how->slow_factor > SLOW_MAX)
        return kymo_err_set(err, -EINVAL, "slow factor is not between %g and %g", SLOW_MIN, SLOW_MAX);
    l = &d->cores[vnc];
    if (take_core(d, l, owner) < 0)
        return kymo_err_set(err, -EBUSY, "logical core %u belongs to another rank", vnc);
    (void)pthread_mutex_lock(&l->group->lock);
    r = make_core(d, l, how, err);
    if (r == 0)
        sim_core_reset_collectives(l->group->core, l->first_pcore);
    (void)pthread_mutex_unlock(&l->group->lock);
    if (r == 0)
        r = sim_device_take(d, vnc, SYSFS_KIND_RUNTIME_MEMORY, SIM_WIRE_RUNTIME_BYTES * d->config.lnc, err);
    if (r == 0)
        r = sim_device_take(d, vnc, SYSFS_KIND_DMA_RINGS, SIM_WIRE_DMA_RING_BYTES * d->config.lnc, err);
    if (r < 0)
        give_core(d, l);
    return r;
}

int sim_device_check_owner(struct sim_device *d, unsigned vnc, const void *owner, struct kymo_err *err)
{
    bool own = false;

    if (vnc < d->n_cores) {
        (void)pthread_mutex_lock(&d->owners);
        own = d->cores[vnc].owner == owner;
        (void)pthread_mutex_unlock(&d->owners);
    }
    return own ? 0 : kymo_err_set(err, -EPERM, "logical core %u is not attached by this rank", vnc);
}

void sim_device_detach(struct sim_device *d, unsigned vnc, const void *owner)
{
    if (sim_device_check_owner(d, vnc, owner, NULL) < 0)
        return;
    sim_device_disarm(d, vnc);
    sim_memory_detach(d->memory, first_of(d, vnc), d->config.lnc, &d->cores[vnc].deeds);
    d->cores[vnc].deeds = (struct sim_memory_deeds){0};
    give_core(d, &d->cores[vnc]);
}

void sim_device_detach_all(struct sim_device *d, const void *owner)
{
    for (size_t i = 0; i < d->n_cores; i++)
        sim_device_detach(d, (unsigned)i, owner);
}

uint64_t sim_device_next_model_id(struct sim_device *d, unsigned vnc)
{
    return (vnc + 1) * 100000ull + ++d->cores[vnc].models;
}

static int check_sizes(const uint64_t sizes[KYMO_RING_MAX], struct kymo_ring_sizes *ret, struct kymo_err *err)
{
    *ret = (struct kymo_ring_sizes){0};
    for (int i = 0; i < KYMO_RING_MAX; i++) {
        uint64_t n = sizes[i];
        bool off = n == 0 && i == KYMO_RING_H2D_DMA;

        if (!off && (n < NQ_RING_MIN || n > NQ_RING_MAX || (n & (n - 1)) != 0))
            return kymo_err_set(err, -EINVAL, "%s: a ring of %llu bytes: not a power of two from %llu to %llu",
                                kymo_ring_name((enum kymo_ring)i), (unsigned long long)n, NQ_RING_MIN, NQ_RING_MAX);
        ret->bytes[i] = n;
    }
    return 0;
}

static struct trace *trace_free(struct trace *t)
{
    if (!t)
        return NULL;
    t->truth = sim_truth_free(t->truth);
    if (t->area)
        (void)munmap(t->area, t->bytes);
    t->fd = kymo_file_close(t->fd);
    kymo_free(t);
    return NULL;
}

static void trace_freep(struct trace **t)
{
    *t = trace_free(*t);
}

/* Memory is taken when records are written, not before: most rings stay nearly empty. */
static int make_area(struct trace *t, struct kymo_err *err)
{
    uint64_t offsets[KYMO_RING_PLAN_MAX];
    void *area;

    t->bytes = sim_ring_layout(t->plan, t->n_plan, offsets);
    t->fd = memfd_create("kymo-sim-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (t->bytes == 0 || t->fd < 0 || ftruncate(t->fd, (off_t)t->bytes) < 0 ||
        fcntl(t->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return kymo_err_set(err, -ENOMEM, "rings of %llu bytes: cannot make them: %s", (unsigned long long)t->bytes,
                            strerror(errno));
    area = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->fd, 0);
    if (area == MAP_FAILED)
        return kymo_err_set(err, -ENOMEM, "rings of %llu bytes: cannot map them: %s", (unsigned long long)t->bytes,
                            strerror(errno));
    t->area = area;
    for (size_t i = 0; i < t->n_plan; i++)
        sim_ring_init(&t->rings[i], (struct nq_control *)(void *)t->area + i, t->area + offsets[i], t->plan[i].bytes);
    return 0;
}

static bool put_record(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE])
{
    struct trace *t = ctx;

    return ring < t->n_plan && sim_ring_put(&t->rings[ring], record);
}

static bool mark_last(void *ctx, size_t ring)
{
    struct trace *t = ctx;

    return ring < t->n_plan && sim_ring_mark_last(&t->rings[ring]);
}

/* The truth outlives the arming it belongs to, hence the order. */
static int arm_core(struct sim_device *d, struct logical_core *l, struct trace *t, struct kymo_err *err)
{
    struct sim_ring_sink sink = {.put = put_record, .mark_last = mark_last, .ctx = t};
    struct sim_truth *fresh KYMO_CLEANUP(sim_truth_freep) = NULL;
    int r;

    if (d->config.truth_dir) {
        fresh = sim_truth_new(true);
        if (!fresh)
            return kymo_err_set(err, -ENOMEM, "no memory for the truth");
    }
    r = sim_core_arm(l->group->core, l->first_pcore, t->plan, t->n_plan, sink, fresh, err);
    if (r < 0)
        return r;
    sim_truth_freep(&t->truth);
    t->truth = KYMO_TAKE(fresh);
    return 0;
}

int sim_device_arm(struct sim_device *d, unsigned vnc, const uint64_t sizes[KYMO_RING_MAX], unsigned mode, int *ret_fd,
                   uint64_t *ret_bytes, struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];
    struct trace *t KYMO_CLEANUP(trace_freep) = NULL;
    struct kymo_ring_sizes checked;
    int r = check_sizes(sizes, &checked, err);

    if (r < 0)
        return r;
    if (l->trace)
        return kymo_err_set(err, -EALREADY, "logical core %u is traced already", vnc);
    t = KYMO_NEW(struct trace);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory to trace logical core %u", vnc);
    t->fd = -1;
    t->mode = mode;
    t->h2d_bytes = sizes[KYMO_RING_H2D_DMA];
    t->n_plan =
        kymo_ring_plan(d->config.arch, l->first_pcore, d->config.lnc, d->config.driver_version, &checked, t->plan);
    r = make_area(t, err);
    if (r == 0)
        r = sim_device_take(d, vnc, SYSFS_KIND_NOTIFICATIONS, t->bytes, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&l->group->lock);
    r = arm_core(d, l, t, err);
    (void)pthread_mutex_unlock(&l->group->lock);
    if (r < 0) {
        sim_device_give(d, vnc, SYSFS_KIND_NOTIFICATIONS, t->bytes);
        return r;
    }
    *ret_fd = t->fd;
    *ret_bytes = t->bytes;
    l->trace = KYMO_TAKE(t);
    return 0;
}

int sim_device_restart(struct sim_device *d, unsigned vnc, struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];
    int r;

    if (!l->trace)
        return kymo_err_set(err, -EINVAL, "logical core %u is not traced", vnc);
    (void)pthread_mutex_lock(&l->group->lock);
    for (size_t i = 0; i < l->trace->n_plan; i++)
        sim_ring_restart(&l->trace->rings[i]);
    r = arm_core(d, l, l->trace, err);
    (void)pthread_mutex_unlock(&l->group->lock);
    sim_device_thaw(d, vnc);
    return r;
}

/* A neighbour that shares the DMA engine would go on writing into this core's ring of it. */
int sim_device_freeze(struct sim_device *d, unsigned vnc, struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];

    if (!l->trace || l->frozen)
        return kymo_err_set(err, -EINVAL, "logical core %u is %s", vnc, l->frozen ? "frozen already" : "not traced");
    (void)pthread_mutex_lock(&l->group->lock);
    l->frozen = true;
    return 0;
}

void sim_device_thaw(struct sim_device *d, unsigned vnc)
{
    struct logical_core *l = &d->cores[vnc];

    if (!l->frozen)
        return;
    l->frozen = false;
    (void)pthread_mutex_unlock(&l->group->lock);
}

void sim_device_disarm(struct sim_device *d, unsigned vnc)
{
    struct logical_core *l = &d->cores[vnc];

    if (!l->trace)
        return;
    (void)pthread_mutex_lock(&l->group->lock);
    sim_core_disarm(l->group->core, l->first_pcore);
    (void)pthread_mutex_unlock(&l->group->lock);
    sim_device_give(d, vnc, SYSFS_KIND_NOTIFICATIONS, l->trace->bytes);
    l->trace = trace_free(l->trace);
    sim_device_thaw(d, vnc);
}

static void idle(struct logical_core *l, uint64_t ps)
{
    struct sim_core *c = l->group->core;

    sim_core_advance(c, l->first_pcore, sim_core_now(c, l->first_pcore) + ps);
}

static uint64_t raw_ps(const struct logical_core *l, uint64_t ps)
{
    return sim_core_raw(l->group->core, l->first_pcore, ps);
}

static uint64_t host_ns(const struct sim_device *d, const struct logical_core *l, uint64_t ps)
{
    return d->config.boot_unix_ns + (ps - start_of(d, l->nd_idx)) / PS_PER_NS;
}

/* An execution came to its end; what the host hears of its times is by the core's own clock. */
static void account(const struct sim_device *d, struct logical_core *l, struct sim_exec_result *ret)
{
    l->deeds.executions++;
    l->deeds.failures += ret->status != 0;
    l->deeds.busy_us += (ret->end_ps - ret->start_ps) / PS_PER_US;
    ret->host_start_ns = host_ns(d, l, ret->start_ps);
    ret->host_end_ns = host_ns(d, l, ret->end_ps);
    ret->start_ps = raw_ps(l, ret->start_ps);
    ret->end_ps = raw_ps(l, ret->end_ps);
}

int sim_device_execute(struct sim_device *d, unsigned vnc, struct sim_image *image, bool fail, uint64_t idle_ps,
                       struct sim_exec_result *ret, struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];
    int r;

    (void)pthread_mutex_lock(&l->group->lock);
    idle(l, idle_ps);
    sim_core_set_slow(l->group->core, l->slow_factor);
    r = sim_core_execute(l->group->core, l->first_pcore, image, fail, ret, err);
    if (r == 0)
        account(d, l, ret);
    (void)pthread_mutex_unlock(&l->group->lock);
    return r;
}

/* One rank's part of a joint execution, on its own thread's stack. */
struct part {
    struct logical_core *core;
    struct sim_image *image;
    uint64_t idle_ps;
    bool fail;
    struct sim_exec_result *result;
    struct kymo_err *err;
    int error;
};

/* Locks of all members' groups, or none of them held. Always in the order of the groups, so that teams cannot block
 * each other; a group with several members is locked once for each. */
static void lock_groups(struct sim_device *d, void *const *all, unsigned n, bool take)
{
    for (size_t g = 0; g < d->n_groups; g++)
        for (unsigned i = 0; i < n; i++) {
            const struct part *p = all[i];

            if (p->core->group != &d->groups[g])
                continue;
            (void)(take ? pthread_mutex_lock(&d->groups[g].lock) : pthread_mutex_unlock(&d->groups[g].lock));
        }
}

/* On the thread of the last rank to come, for all. */
static int run_joint(void *ctx, void *const *all, unsigned n)
{
    struct sim_device *d = ctx;
    struct sim_joint_rank *ranks = KYMO_NEW_ARRAY(struct sim_joint_rank, n);
    struct kymo_err err = {0};
    int r = ranks ? 0 : -ENOMEM;

    lock_groups(d, all, n, true);
    for (unsigned i = 0; r == 0 && i < n; i++) {
        const struct part *p = all[i];

        idle(p->core, p->idle_ps);
        ranks[i] = (struct sim_joint_rank){
            .core = p->core->group->core,
            .first_pcore = p->core->first_pcore,
            .image = p->image,
            .fail = p->fail,
            .slow_factor = p->core->slow_factor,
            .skew_ps = start_of(d, p->core->nd_idx) - BOOT_PS,
            .result = p->result,
            .err = p->err,
        };
    }
    if (r == 0)
        r = sim_core_execute_joint(ranks, n, &err);
    for (unsigned i = 0; i < n; i++) {
        struct part *p = all[i];

        p->error = r < 0 || !ranks ? r : ranks[i].error;
        if (r < 0 || !ranks)
            (void)kymo_err_set(p->err, r, "%s", ranks ? err.text : "no memory for a joint execution");
        else if (p->error == 0)
            account(d, p->core, p->result);
    }
    lock_groups(d, all, n, false);
    kymo_free(ranks);
    return 0;
}

int sim_device_execute_joint(struct sim_device *d, unsigned vnc, const struct sim_wire_comm *comm,
                             struct sim_image *image, bool fail, uint64_t idle_ps, struct sim_exec_result *ret,
                             struct kymo_err *err)
{
    struct kymo_err own = {0};
    struct part p = {.core = &d->cores[vnc],
                     .image = image,
                     .idle_ps = idle_ps,
                     .fail = fail,
                     .result = ret,
                     .err = err ? err : &own};
    const struct sim_gather_place at = {
        .job = comm->job, .rank = comm->rank, .world = comm->world, .timeout_ms = comm->timeout_ms};
    int r = sim_gather_meet(d->gather, &at, &p, run_joint, d, err);

    return r < 0 ? r : p.error;
}

int sim_device_host_copy(struct sim_device *d, unsigned vnc, bool to_device, uint64_t bytes, uint64_t idle_ps,
                         struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];
    int r;

    (void)pthread_mutex_lock(&l->group->lock);
    idle(l, idle_ps);
    r = sim_core_host_copy(l->group->core, l->first_pcore, to_device, bytes, err);
    (void)pthread_mutex_unlock(&l->group->lock);
    return r;
}

void sim_device_advance(struct sim_device *d, unsigned vnc, uint64_t idle_ps)
{
    struct logical_core *l = &d->cores[vnc];

    (void)pthread_mutex_lock(&l->group->lock);
    idle(l, idle_ps);
    (void)pthread_mutex_unlock(&l->group->lock);
}

void sim_device_now(struct sim_device *d, unsigned vnc, uint64_t *ret_ps, uint64_t *ret_host_ns)
{
    struct logical_core *l = &d->cores[vnc];

    uint64_t now = start_of(d, l->nd_idx); /* of a core that nobody has used */

    (void)pthread_mutex_lock(&l->group->lock);
    *ret_ps = now;
    if (l->group->core) {
        now = sim_core_now(l->group->core, l->first_pcore);
        *ret_ps = raw_ps(l, now);
    }
    (void)pthread_mutex_unlock(&l->group->lock);
    *ret_host_ns = host_ns(d, l, now);
}

int sim_device_clock(struct sim_device *d, unsigned vnc, unsigned ring, unsigned nc_idx, unsigned engine,
                     struct sim_wire_clock *ret, struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];
    struct sim_clock clock;
    bool found;

    if (ring >= KYMO_RING_MAX || nc_idx < l->first_pcore || nc_idx >= l->first_pcore + d->config.lnc)
        return kymo_err_set(err, -EINVAL, "no clock of ring %u on core %u", ring, nc_idx);
    (void)pthread_mutex_lock(&l->group->lock);
    found = sim_core_clock(l->group->core, (enum kymo_ring)ring, nc_idx, engine, &clock);
    (void)pthread_mutex_unlock(&l->group->lock);
    if (!found)
        return kymo_err_set(err, -ENODATA, "%s has no clock to correct there", d->config.arch->name);
    *ret =
        (struct sim_wire_clock){.init = clock.init, .actual_inc = clock.actual_inc, .expected_inc = clock.expected_inc};
    return 0;
}

static bool is_plain_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    return name[0] && name[0] != '.' && name[strspn(name, allowed)] == 0;
}

static const char *mode_name(unsigned mode)
{
    static const char *const names[] = {"model", "continuous", "session", "on-failure"};

    return mode < sizeof names / sizeof *names ? names[mode] : "unknown";
}

/* A directory of its own for each profile: the names of two processes' profiles may be the same. */
static int make_truth_dir(const struct sim_device *d, const char *name, char **ret, struct kymo_err *err)
{
    int r = kymo_file_mkdirs(d->config.truth_dir, err);

    if (r < 0)
        return r;
    for (unsigned n = 1; n <= TRUTHS_MAX; n++) {
        char *dir KYMO_FREE = n == 1 ? kymo_asprintf("%s/%s", d->config.truth_dir, name)
                                     : kymo_asprintf("%s/%s.%u", d->config.truth_dir, name, n);

        if (!dir)
            return kymo_err_set(err, -ENOMEM, "no memory for the truth");
        if (kymo_file_ops()->mkdir(dir, 0777) == 0) {
            *ret = KYMO_TAKE(dir);
            return 0;
        }
        if (errno != EEXIST)
            return kymo_err_set(err, -errno, "%s: %s", dir, strerror(errno));
    }
    return kymo_err_set(err, -EEXIST, "%s/%s: %u of that name are there", d->config.truth_dir, name, TRUTHS_MAX);
}

/* The file's name without .ntff; NULL: it is none for a directory. */
static const char *truth_name(const char *path, char name[SIM_WIRE_NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    size_t n;

    (void)snprintf(name, SIM_WIRE_NAME_MAX + 1, "%s", slash ? slash + 1 : path);
    n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".ntff") == 0)
        name[n - 5] = 0;
    return is_plain_name(name) ? name : NULL;
}

int sim_device_truth_dir(const struct sim_device *d, const char *path, char **ret, struct kymo_err *err)
{
    char text[SIM_WIRE_NAME_MAX + 1];
    const char *name = truth_name(path, text);

    if (!d->config.truth_dir)
        return kymo_err_set(err, -ENOTSUP, "the device process keeps no truth (--truth)");
    if (!name)
        return kymo_err_set(err, -EINVAL, "\"%.64s\" is no name for a truth directory", path);
    return make_truth_dir(d, name, ret, err);
}

int sim_device_truth(struct sim_device *d, unsigned vnc, const char *path, struct kymo_err *err)
{
    struct logical_core *l = &d->cores[vnc];
    char text[SIM_WIRE_NAME_MAX + 1], *dir KYMO_FREE = NULL;
    const char *name = truth_name(path, text);
    struct kymo_ring_sizes sizes = {0};
    unsigned engine;
    int r;

    if (!d->config.truth_dir)
        return kymo_err_set(err, -ENOTSUP, "the device process keeps no truth (--truth)");
    if (!l->trace)
        return kymo_err_set(err, -EINVAL, "logical core %u is not traced", vnc);
    if (!name)
        return kymo_err_set(err, -EINVAL, "\"%.64s\" is no name for a truth directory", path);
    sizes.bytes[KYMO_RING_H2D_DMA] = l->trace->h2d_bytes;
    struct sim_truth_meta meta = {
        .ntff = name,
        .path = path,
        .instance = d->config.instance->type,
        .mode = mode_name(l->trace->mode),
        .driver = d->config.driver_version,
        .nd_idx = l->nd_idx,
        .vnc = vnc,
        .h2d_reasons =
            kymo_h2d_reasons(d->config.arch, l->first_pcore, d->config.lnc, d->config.driver_version, &sizes, &engine),
    };
    r = make_truth_dir(d, name, &dir, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&l->group->lock);
    r = sim_core_write_truth(l->group->core, l->first_pcore, &meta, dir, err);
    (void)pthread_mutex_unlock(&l->group->lock);
    return r;
}
