/* One simulated device: creation, arming, executions. */
#include "driver-iface/sim/sim_core.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_internal.h"

#define HOST_COPY_MAX (1ull << 36)
#define SWITCH_BYTES 65536 /* beyond the image itself, when another model was there (G) */
#define CLOCK_INC 0x400000u
#define CORE_SKEW_PS 37000u

static void init_clock(struct sim_core *c, struct sim_clock *k)
{
    bool drift = c->config.drift && c->arch->rescale;
    uint64_t off = drift ? sim_random(c) % 4001 : 2000; /* up to about 480 ppm either way */
    k->init = c->config.start_ps;
    k->expected_inc = CLOCK_INC;
    k->actual_inc = CLOCK_INC - 2000 + off;
}

static void init_pcore(struct sim_core *c, unsigned nc)
{
    struct sim_pcore *p = &c->pcores[nc];
    p->nc = nc;
    p->pcore_idx = nc % c->config.lnc;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
        init_clock(c, &p->engines[e].clock);
        p->engines[e].cycles_per_ps = c->arch->clock_ghz[e] / 1000;
    }
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++)
        init_clock(c, &p->dma[e].clock);
    c->now[nc] = c->config.start_ps;
    c->last_model[nc] = UINT64_MAX;
    p->exec = &c->execs[nc - p->pcore_idx];
}

/* CC-cores run off by a fixed pattern: drawing here would change what engines and DMA engines draw. */
static void init_cc_clock(struct sim_core *c, unsigned k)
{
    struct sim_clock *clock = &c->cc_clocks[k];
    bool drift = c->config.drift && c->arch->rescale;
    clock->init = c->config.start_ps;
    clock->expected_inc = CLOCK_INC;
    clock->actual_inc = CLOCK_INC + (drift ? (k * 977u + 311u) % 2001u - 1000u : 0u);
}

int sim_core_new(const struct sim_config *config, struct sim_core **ret, struct kymo_err *err)
{
    const struct kymo_arch *arch = config->arch;
    double slow = config->slow_factor != 0 ? config->slow_factor : 1;
    int r = kymo_arch_check_lnc(arch, config->lnc, err);
    if (r < 0)
        return r;
    if (!(slow >= 0.01 && slow <= 100))
        return kymo_err_set(err, -EINVAL, "slow factor %g is not from 0.01 to 100", slow);
    if (arch->pcores_per_device > SIM_PCORES_MAX || arch->dma_engines != SIM_DMA_ENGINES ||
        arch->dma_queues > SIM_DMA_QUEUES || arch->cc_cores > SIM_CC_CORES_MAX)
        return kymo_err_set(err, -ENOTSUP, "%s has more cores, DMA engines or queues than the simulator knows",
                            arch->name);
    struct sim_core *c = KYMO_NEW(struct sim_core);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for a simulated device");
    c->config = *config;
    c->arch = arch;
    c->slow_16 = (uint32_t)(slow * 65536);
    c->rng = config->seed * 0x9E3779B97F4A7C15ull ^ 0xD1B54A32D192ED03ull;
    if (!c->rng)
        c->rng = 1;
    for (unsigned nc = 0; nc < arch->pcores_per_device; nc++)
        init_pcore(c, nc);
    for (unsigned i = 0; i < KYMO_H2D_ENGINES_MAX; i++)
        init_clock(c, &c->h2d[i].clock);
    for (unsigned i = 0; i < SIM_CC_CORES_MAX; i++)
        init_cc_clock(c, i);
    *ret = c;
    return 0;
}

void sim_core_set_slow(struct sim_core *c, double factor)
{
    c->slow_16 = (uint32_t)(factor * 65536);
}

struct sim_core *sim_core_free(struct sim_core *c)
{
    if (!c)
        return NULL;
    for (unsigned i = 0; i < SIM_PCORES_MAX; i++) {
        kymo_free(c->captures[i]);
        kymo_free(c->pcores[i].block_runs);
        kymo_free(c->pcores[i].history);
    }
    for (size_t i = 0; i < c->transfer_count; i++)
        kymo_free(c->transfers[i]);
    kymo_free(c->transfers);
    kymo_free(c);
    return NULL;
}

void sim_core_freep(struct sim_core **c)
{
    *c = sim_core_free(*c);
}

static int check_first(const struct sim_core *c, unsigned first, struct kymo_err *err)
{
    if (first % c->config.lnc || first + c->config.lnc > c->arch->pcores_per_device)
        return kymo_err_set(err, -EINVAL, "physical core %u begins no logical core of %s with LNC=%u", first,
                            c->arch->name, c->config.lnc);
    return 0;
}

static void index_ring(struct sim_capture *cap, size_t i)
{
    const struct kymo_ring_plan *plan = &cap->rings[i].plan;
    unsigned p = plan->pcore_idx & 1;
    int16_t at = (int16_t)i;
    switch (plan->ring) {
    case KYMO_RING_INSTRUCTION:
        cap->by_use.instruction[p] = at;
        break;
    case KYMO_RING_EVENT:
        cap->by_use.event[p] = at;
        break;
    case KYMO_RING_ERROR:
        cap->by_use.error[p] = at;
        break;
    case KYMO_RING_INFER_STATUS:
        cap->by_use.status[p] = at;
        break;
    case KYMO_RING_DMA:
        cap->by_use.dma[p][plan->engine_index % SIM_DMA_ENGINES] = at;
        break;
    case KYMO_RING_THROTTLE:
        cap->by_use.throttle[p] = at;
        break;
    case KYMO_RING_H2D_DMA:
        cap->by_use.h2d = at;
        break;
    case KYMO_RING_CC_CORE_INSTRUCTION:
        cap->by_use.cc_instruction[plan->engine_index % SIM_CC_CORES_MAX] = at;
        break;
    case KYMO_RING_CC_CORE_EVENT:
        cap->by_use.cc_event[plan->engine_index % SIM_CC_CORES_MAX] = at;
        break;
    default: /* the others get no records here */
        break;
    }
}

static int make_history(struct sim_pcore *p, struct kymo_err *err)
{
    if (p->history)
        return 0;
    p->history = kymo_calloc(SIM_SYNC_TARGETS, sizeof *p->history);
    return p->history ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the semaphores' history");
}

int sim_core_arm(struct sim_core *c, unsigned first_pcore, const struct kymo_ring_plan *plan, size_t n_plan,
                 struct sim_ring_sink sink, struct sim_truth *truth, struct kymo_err *err)
{
    int r = check_first(c, first_pcore, err);
    if (r < 0)
        return r;
    if (n_plan > KYMO_RING_PLAN_MAX)
        return kymo_err_set(err, -EINVAL, "%zu rings, at most %d", n_plan, KYMO_RING_PLAN_MAX);
    for (size_t i = 0; i < n_plan; i++)
        if (plan[i].bytes < KYMO_RECORD_SIZE || (plan[i].bytes & (plan[i].bytes - 1)))
            return kymo_err_set(err, -EINVAL, "%s ring of %llu bytes: not a power of two", kymo_ring_name(plan[i].ring),
                                (unsigned long long)plan[i].bytes);
    for (unsigned p = 0; r >= 0 && sim_truth_detail(truth) && p < c->config.lnc; p++)
        r = make_history(&c->pcores[first_pcore + p], err);
    struct sim_capture *cap = r < 0 ? NULL : KYMO_NEW(struct sim_capture);
    if (!cap)
        return r < 0 ? r : kymo_err_set(err, -ENOMEM, "no memory for a capture");
    memset(&cap->by_use, 0xFF, sizeof cap->by_use); /* -1: no ring */
    cap->armed = true;
    cap->sink = sink;
    cap->truth = truth;
    cap->ring_count = n_plan;
    for (size_t i = 0; i < n_plan; i++) {
        cap->rings[i].plan = plan[i];
        cap->rings[i].wrap_shift = (uint8_t)(__builtin_ctzll(plan[i].bytes) - 4);
        index_ring(cap, i);
    }
    sim_core_disarm(c, first_pcore);
    c->captures[first_pcore] = cap;
    return 0;
}

void sim_core_disarm(struct sim_core *c, unsigned first_pcore)
{
    if (first_pcore >= SIM_PCORES_MAX)
        return;
    kymo_free(c->captures[first_pcore]);
    c->captures[first_pcore] = NULL;
}

void sim_core_counters(const struct sim_core *c, unsigned first_pcore, size_t ring, uint64_t *ret_emitted,
                       uint64_t *ret_dropped)
{
    const struct sim_capture *cap = first_pcore < SIM_PCORES_MAX ? c->captures[first_pcore] : NULL;
    bool there = cap && ring < cap->ring_count;
    *ret_emitted = there ? cap->rings[ring].emitted : 0;
    *ret_dropped = there ? cap->rings[ring].dropped : 0;
}

uint64_t sim_core_emitted(const struct sim_core *c, unsigned first_pcore)
{
    return first_pcore < SIM_PCORES_MAX && c->captures[first_pcore] ? c->captures[first_pcore]->emitted : 0;
}

int sim_core_write_truth(const struct sim_core *c, unsigned first_pcore, const struct sim_truth_meta *meta,
                         const char *dir, struct kymo_err *err)
{
    const struct sim_capture *cap = first_pcore < SIM_PCORES_MAX ? c->captures[first_pcore] : NULL;
    if (!cap || !cap->truth)
        return kymo_err_set(err, -EINVAL, "physical core %u is not armed with a truth", first_pcore);
    struct sim_truth_ids ids = {.arch = c->arch->name,
                                .lnc = c->config.lnc,
                                .first_nc = first_pcore,
                                .dge_notifications = c->config.dge_notifications,
                                .counts = cap->counts};
    return sim_truth_write(cap->truth, &ids, cap->rings, cap->ring_count, meta, dir, err);
}

static int reset_block_runs(struct sim_pcore *p, struct kymo_err *err)
{
    size_t need = 0;
    for (size_t q = 0; q < p->image->queue_count; q++)
        need += p->image->queues[q].block_count + 1;
    int r = kymo_grow((void **)&p->block_runs, &p->block_runs_cap, need, SIZE_MAX / sizeof *p->block_runs,
                      sizeof *p->block_runs);
    if (r < 0)
        return kymo_err_set(err, r, "no memory for %zu DMA blocks", need);
    if (need)
        memset(p->block_runs, 0, need * sizeof *p->block_runs);
    return 0;
}

static uint64_t static_slots(const struct sim_core_image *ci)
{
    uint64_t n = 0;
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        n += ci->engines[e].count;
    return n;
}

static int prepare_core(struct sim_core *c, struct sim_pcore *p, const struct sim_core_image *ci,
                        struct sim_capture *cap, uint64_t ps, struct kymo_err *err)
{
    p->image = ci;
    p->capture = cap;
    p->instructions = 0;
    p->fail_at = 0;
    memset(p->sync, 0, sizeof p->sync);
    memset(p->waiters, 0, sizeof p->waiters);
    memset(p->history_count, 0, sizeof p->history_count);
    memset(p->psum, 0, sizeof p->psum);
    for (unsigned b = 0; b < SIM_PSUM_BANKS; b++)
        p->psum[b].row = SIM_TRUTH_NONE;
    for (unsigned n = 0; n < KYMO_ENGINE_MAX; n++) {
        struct sim_engine *e = &p->engines[n];
        e->image = &ci->engines[n];
        e->ops = e->image->ops;
        e->pc = 0;
        e->run = 0;
        e->pc_base = c->arch->pc_is_absolute ? (uint32_t)(e->image->start_address / KYMO_INSTR_SIZE) : 0;
        memset(e->reg, 0, sizeof e->reg);
        e->state = e->image->count ? SIM_ENGINE_ISSUE : SIM_ENGINE_OFF;
        if (e->image->count)
            sim_agenda_set(&p->exec->agenda, sim_leaf_engine(p, n), ps + p->pcore_idx * CORE_SKEW_PS + n * 1000u);
    }
    sim_notices_begin(c, p, ps);
    return reset_block_runs(p, err);
}

static int describe_wait(const struct sim_pcore *p, const struct sim_engine *e, struct kymo_err *err)
{
    const struct sim_op *op = &e->ops[e->pc];
    const struct kymo_sync *s = e->wait_set ? &op->sync2 : &op->sync;
    unsigned target = sim_sync_wait_target(s);
    return kymo_err_set(
        err, -EDEADLK,
        "%s(nc%u), image pc %u (compiler pc %d), waits for ever: %s %u has value %u, wait mode 0x%02x, operand %u",
        kymo_engine_name(e->image->engine), p->nc, e->pc, e->image->compiler_pc[e->pc],
        target < 256 ? "semaphore" : "event", target & 255, p->sync[target], s->wait_mode, s->wait_value);
}

/* Nothing more will happen: every engine must have halted. Sync, which waits for the others, is named last. */
int sim_exec_check_halted(const struct sim_core *c, unsigned first, struct kymo_err *err)
{
    for (unsigned n = 0; n < c->config.lnc * KYMO_ENGINE_MAX; n++) {
        const struct sim_pcore *p = &c->pcores[first + n / KYMO_ENGINE_MAX];
        const struct sim_engine *e = &p->engines[n % KYMO_ENGINE_MAX];
        if (e->state == SIM_ENGINE_WAIT)
            return describe_wait(p, e, err);
    }
    return 0;
}

void sim_exec_step(struct sim_core *c, struct sim_execution *x, unsigned leaf, uint64_t ps)
{
    struct sim_pcore *p = &c->pcores[x->first + leaf / SIM_LEAF_CORE];
    unsigned actor = leaf % SIM_LEAF_CORE;
    if (actor < SIM_LEAF_CC)
        sim_engine_step(c, p, actor, ps);
    else if (actor == SIM_LEAF_CC)
        sim_cc_step(c, x, ps);
    else if (actor == SIM_LEAF_NOTICE)
        sim_notices_step(c, p, ps);
    else
        sim_dma_step(c, p, actor - SIM_LEAF_DMA, ps);
}

static int run(struct sim_core *c, struct sim_execution *x, uint64_t *now, struct kymo_err *err)
{
    uint64_t limit = *now + SIM_RUN_PS_MAX;
    struct sim_agenda *a = &x->agenda;
    while (!x->failed && !x->error) {
        unsigned leaf = sim_agenda_first(a);
        uint64_t ps = a->key[leaf];
        if (ps == SIM_NEVER || sim_notices_only(a))
            return sim_exec_check_halted(c, x->first, err);
        if (ps > limit)
            return kymo_err_set(err, -ETIMEDOUT, "the execution takes more than an hour of device time");
        *now = ps;
        sim_exec_step(c, x, leaf, ps);
    }
    return x->error;
}

static uint64_t fetch(struct sim_core *c, unsigned first, const struct sim_image *image)
{
    uint64_t ps = c->now[first];
    if (c->last_model[first] != image->model_id)
        ps = sim_h2d_move(c, first, "model_switch", "host_to_device", image->image_bytes + SWITCH_BYTES, ps);
    c->last_model[first] = image->model_id;
    return sim_h2d_move(c, first, "instruction_fetch", "host_to_device", image->image_bytes, ps);
}

int sim_exec_begin(struct sim_core *c, unsigned first, struct sim_image *image, bool fail, struct kymo_err *err)
{
    int r = check_first(c, first, err);
    if (r < 0)
        return r;
    if (image->lnc != c->config.lnc || image->arch != c->arch)
        return kymo_err_set(err, -EINVAL, "the image is for %s with LNC=%u", image->arch->name, image->lnc);
    struct sim_capture *cap = c->captures[first];
    struct sim_execution *x = &c->execs[first];
    uint64_t start = c->now[first] = fetch(c, first, image);
    sim_agenda_clear(&x->agenda);
    x->image = image;
    x->first = first;
    x->slow_16 = c->slow_16;
    x->failed = false;
    x->error = 0;
    x->err = err;
    if (cap) {
        cap->counts.executions++;
        sim_truth_execution(cap->truth, image);
    }
    for (unsigned p = 0; r >= 0 && p < c->config.lnc; p++) {
        sim_dma_reset(c, &c->pcores[first + p]);
        r = prepare_core(c, &c->pcores[first + p], &image->cores[p], cap, start, err);
    }
    if (r >= 0 && fail)
        c->pcores[first].fail_at = 1 + sim_random(c) % static_slots(&image->cores[0]);
    sim_cc_prepare(c, x);
    return r;
}

int sim_core_execute(struct sim_core *c, unsigned first_pcore, struct sim_image *image, bool fail,
                     struct sim_exec_result *ret, struct kymo_err *err)
{
    if (sim_image_world(image) > 1)
        return kymo_err_set(err, -EINVAL, "the program has collectives over %u ranks", sim_image_world(image));
    int r = sim_exec_begin(c, first_pcore, image, fail, err);
    if (r < 0)
        return r;
    struct sim_execution *x = &c->execs[first_pcore];
    uint64_t start = c->now[first_pcore], now = start;
    r = run(c, x, &now, err);
    for (unsigned p = 0; r >= 0 && !x->failed && p < c->config.lnc; p++)
        sim_notices_end(c, &c->pcores[first_pcore + p], now);
    c->now[first_pcore] = now;
    x->err = NULL;
    if (r < 0)
        return r;
    *ret = (struct sim_exec_result){.start_ps = start, .end_ps = now, .status = x->failed ? SIM_STATUS_WITH_ERROR : 0};
    return 0;
}

int sim_core_host_copy(struct sim_core *c, unsigned first_pcore, bool to_device, uint64_t n, struct kymo_err *err)
{
    int r = check_first(c, first_pcore, err);
    if (r < 0)
        return r;
    if (n > HOST_COPY_MAX)
        return kymo_err_set(err, -EFBIG, "a host copy of %llu bytes", (unsigned long long)n);
    c->now[first_pcore] =
        sim_h2d_move(c, first_pcore, "copy", to_device ? "host_to_device" : "device_to_host", n, c->now[first_pcore]);
    return 0;
}

void sim_core_advance(struct sim_core *c, unsigned first_pcore, uint64_t ps)
{
    if (first_pcore < SIM_PCORES_MAX && c->now[first_pcore] < ps)
        c->now[first_pcore] = ps;
}

uint64_t sim_core_now(const struct sim_core *c, unsigned first_pcore)
{
    return first_pcore < SIM_PCORES_MAX ? c->now[first_pcore] : 0;
}

uint64_t sim_core_raw(const struct sim_core *c, unsigned first_pcore, uint64_t ps)
{
    struct sim_clock clock;
    bool own = sim_core_clock(c, KYMO_RING_INSTRUCTION, first_pcore, KYMO_ENGINE_SYNC, &clock);
    return own ? sim_clock_raw(&clock, ps) : ps;
}

bool sim_core_clock(const struct sim_core *c, enum kymo_ring ring, unsigned nc_idx, unsigned engine,
                    struct sim_clock *ret)
{
    if (!c->arch->rescale || nc_idx >= c->arch->pcores_per_device)
        return false;
    if (ring == KYMO_RING_INSTRUCTION && engine < KYMO_ENGINE_MAX)
        *ret = c->pcores[nc_idx].engines[engine].clock;
    else if (ring == KYMO_RING_DMA && engine < SIM_DMA_ENGINES)
        *ret = c->pcores[nc_idx].dma[engine].clock;
    else if (ring == KYMO_RING_H2D_DMA && engine >= c->arch->h2d_first &&
             engine < c->arch->h2d_first + c->arch->h2d_engines)
        *ret = c->h2d[engine - c->arch->h2d_first].clock;
    else if (ring == KYMO_RING_CC_CORE_INSTRUCTION && engine < c->arch->cc_cores)
        *ret = c->cc_clocks[engine];
    else
        return false;
    return true;
}
