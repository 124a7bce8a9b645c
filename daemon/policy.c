#include "daemon/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/alloc.h"

#define NS_PER_MS 1000000ull
#define MB (1ull << 20)
#define CORES_MAX 128

/* The physical cores of a rank. */
struct place {
    const struct kymo_arch *arch; /* NULL: not known */
    unsigned lnc;
    size_t n; /* logical cores */
    uint32_t cores[CORES_MAX];
};

static void find_place(const struct policy_inputs *in, struct place *ret)
{
    const struct host *h = in->host;
    const struct kymo_instance *instance = kymo_instance_find(h->instance);
    *ret = (struct place){.arch = kymo_arch_find(h->instance), .lnc = instance ? instance->default_lnc : 1};
    if (!ret->arch && h->devices.n_devices > 0)
        ret->arch = h->devices.devices[0].arch;
    if (!in->who)
        return;
    const char *lnc = process_label(in->who, "lnc");
    if (!strcmp(lnc, "1") || !strcmp(lnc, "2"))
        ret->lnc = (unsigned)(lnc[0] - '0');
    ret->n = process_parse_cores(process_label(in->who, "visible_cores"), ret->cores, CORES_MAX);
}

/* What the planner asks for as an environment. */
struct wanted {
    const uint64_t *mb;
    char text[24];
};

static const char *get(void *ctx, const char *name)
{
    static const char prefix[] = "NEURON_RT_PROFILE_BUF_";
    struct wanted *w = ctx;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    for (unsigned i = 0; i < CONFIG_BUFFERS; i++) {
        size_t n = strlen(learned_buffer_name(i));
        if (strncmp(name + sizeof prefix - 1, learned_buffer_name(i), n) == 0 &&
            strcmp(name + sizeof prefix - 1 + n, "_MB") == 0) {
            (void)snprintf(w->text, sizeof w->text, "%llu", (unsigned long long)w->mb[i]);
            return w->text;
        }
    }
    return NULL;
}

/* Bytes of device memory for the buffers of logical cores first..n - 1. */
static uint64_t need(const struct place *at, const struct host *h, const uint64_t mb[CONFIG_BUFFERS], size_t n)
{
    struct kymo_ring_plan *plan KYMO_FREE = KYMO_NEW_ARRAY(struct kymo_ring_plan, KYMO_RING_PLAN_MAX);
    struct wanted w = {.mb = mb};
    struct kymo_ring_sizes sizes;
    uint64_t sum = 0;
    if (!plan || !at->arch || kymo_ring_sizes_from_env(get, &w, &sizes, NULL) < 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        unsigned pcore = at->cores[i] * at->lnc % at->arch->pcores_per_device;
        size_t rows = kymo_ring_plan(at->arch, pcore, at->lnc, *h->driver ? h->driver : "0", &sizes, plan);
        for (size_t k = 0; k < rows; k++)
            sum += plan[k].bytes;
    }
    return sum;
}

/* Halves the largest buffers until those of one logical core fit: the first of the rank, or of the host. */
static void fit(const struct place *at, const struct host *h, uint64_t mb[CONFIG_BUFFERS], uint64_t budget)
{
    while (budget > 0 && need(at, h, mb, 1) > budget) {
        unsigned largest = 0;
        for (unsigned i = 1; i < CONFIG_BUFFERS; i++)
            largest = mb[i] > mb[largest] ? i : largest;
        if (mb[largest] <= 1)
            break;
        mb[largest] /= 2;
    }
}

/* The hook compares one device alone: the first one's cores. */
static void tell_memory(const struct place *at, const struct host *h, const uint64_t mb[CONFIG_BUFFERS],
                        struct kymo_hook_policy *p)
{
    if (!at->arch || at->n == 0 || !h->has_driver)
        return;
    unsigned per_device = at->arch->pcores_per_device, first = at->cores[0] * at->lnc;
    size_t n = 1;
    while (n < at->n && at->cores[n] == at->cores[n - 1] + 1 &&
           at->cores[n] * at->lnc / per_device == first / per_device)
        n++;
    p->hbm_device = first / per_device;
    p->hbm_core_first = first % per_device;
    p->hbm_core_count = (uint32_t)n * at->lnc;
    p->hbm_need_bytes = need(at, h, mb, n);
    p->hbm_capacity_bytes = at->arch->hbm_bytes / per_device * p->hbm_core_count;
}

static void note_change(char note[static POLICY_NOTE_MAX], unsigned buffer, uint64_t was, uint64_t is, const char *why)
{
    size_t used = strlen(note);
    if (was != is && used < POLICY_NOTE_MAX)
        (void)snprintf(note + used, POLICY_NOTE_MAX - used, "%s%s %llu -> %llu MB (%s)", used ? ", " : "",
                       learned_buffer_name(buffer), (unsigned long long)was, (unsigned long long)is, why);
}

static void choose_buffers(const struct policy_inputs *in, const struct config_policy *c, struct kymo_hook_policy *p,
                           char note[static POLICY_NOTE_MAX])
{
    uint64_t wanted[CONFIG_BUFFERS], mb[CONFIG_BUFFERS];
    struct place at;
    find_place(in, &at);
    for (unsigned i = 0; i < CONFIG_BUFFERS; i++) {
        uint64_t learned = c->learn && in->who ? learned_mb(in->learned, in->who->job, i) : 0;
        uint64_t base = c->buffer_mb[i] ? c->buffer_mb[i] : learned_default_mb(i);
        wanted[i] = learned > base ? learned : base;
        note_change(note, i, base, wanted[i], "records were lost");
    }
    if (c->h2d_dma_off)
        wanted[CONFIG_BUFFERS - 1] = 0;
    memcpy(mb, wanted, sizeof mb);
    fit(&at, in->host, mb, c->hbm_budget);
    for (unsigned i = 0; i < CONFIG_BUFFERS; i++) {
        note_change(note, i, wanted[i], mb[i], "hbm-budget");
        bool ours = c->buffer_mb[i] || mb[i] != learned_default_mb(i);
        p->buffer_mb[i] = ours ? (uint32_t)mb[i] : KYMO_HOOK_BUFFER_LEAVE;
    }
    tell_memory(&at, in->host, mb, p);
}

void policy_make(const struct policy_inputs *in, struct kymo_hook_policy *ret, char note[static POLICY_NOTE_MAX])
{
    const struct config_policy *c =
        in->who ? config_policy_of(in->config, in->who->job, process_label(in->who, "unit")) : &in->config->policy;
    struct kymo_hook_policy p = {.mode = (uint16_t)(in->who ? config_armed(c) : KYMO_HOOK_MODE_NONE),
                                 .flags = KYMO_HOOK_POLICY_NEFF_DONE |
                                          (in->config->off || c->off ? KYMO_HOOK_POLICY_OFF : 0) |
                                          (c->system_trace ? KYMO_HOOK_POLICY_SYSTEM : 0),
                                 .stall_limit_ns = c->stall_ms * NS_PER_MS,
                                 .neff_max_bytes = c->neff_bytes,
                                 .neff_total_bytes = c->neff_total_bytes};
    note[0] = '\0';
    for (unsigned i = 0; i < KYMO_HOOK_BUFFERS; i++)
        p.buffer_mb[i] = KYMO_HOOK_BUFFER_LEAVE;
    choose_buffers(in, c, &p, note);
    *ret = p;
}

void policy_buffers(const struct kymo_hook_policy *p, uint64_t ret_mb[CONFIG_BUFFERS])
{
    for (unsigned i = 0; i < CONFIG_BUFFERS; i++)
        ret_mb[i] = p->buffer_mb[i] == KYMO_HOOK_BUFFER_LEAVE ? 0 : p->buffer_mb[i];
}
