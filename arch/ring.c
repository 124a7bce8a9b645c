#include "arch/ring.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_NUMBERS_MAX 6
#define MIB (1ull << 20)
#define RING_MB_MAX 65536 /* more than any device memory could spare for one ring */

static const struct {
    const char *name;
    uint64_t default_mb;
} rings[KYMO_RING_MAX] = {
#define X(id, suffix, mb, tt, bt) [KYMO_RING_##id] = {suffix, mb},
    KYMO_RING_MAP(X)
#undef X
};

const char *kymo_ring_name(enum kymo_ring r)
{
    return (unsigned)r < KYMO_RING_MAX ? rings[r].name : "unknown";
}

void kymo_ring_label(enum kymo_ring r, unsigned pcore_idx, unsigned engine_index, char *out, size_t n)
{
    switch (r) {
    case KYMO_RING_DMA:
        (void)snprintf(out, n, "DMA-E%u(nc%u)", engine_index, pcore_idx);
        break;
    case KYMO_RING_H2D_DMA:
        (void)snprintf(out, n, "H2D_DMA-E%u", engine_index);
        break;
    case KYMO_RING_CC_CORE_INSTRUCTION:
    case KYMO_RING_CC_CORE_EVENT:
    case KYMO_RING_CC_CORE_ERROR:
        (void)snprintf(out, n, "%s-%u", rings[r].name, engine_index);
        break;
    default:
        (void)snprintf(out, n, "%s(nc%u)", kymo_ring_name(r), pcore_idx);
        break;
    }
}

/* Digits alone: a sign, a fraction or a unit is refused rather than guessed at. */
static int parse_mb(const char *name, const char *text, uint64_t *ret_mb, struct kymo_err *err)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits])
        return kymo_err_set(err, -EINVAL, "%s=\"%.64s\" is not a whole number of MB", name, text);
    uint64_t mb = strtoull(text, NULL, 10);
    if (mb > RING_MB_MAX)
        return kymo_err_set(err, -EINVAL, "%s=%.64s is more than %d MB", name, text, RING_MB_MAX);
    *ret_mb = mb;
    return 0;
}

static uint64_t round_up_pow2(uint64_t v)
{
    uint64_t p = 1;
    while (p < v)
        p <<= 1;
    return p;
}

int kymo_ring_sizes_from_env(const char *(*get)(void *ctx, const char *name), void *ctx, struct kymo_ring_sizes *ret,
                             struct kymo_err *err)
{
    struct kymo_ring_sizes sizes = {0};
    for (size_t r = 0; r < KYMO_RING_MAX; r++) {
        char name[64];
        (void)snprintf(name, sizeof name, "NEURON_RT_PROFILE_BUF_%s_MB", rings[r].name);
        const char *text = get(ctx, name);
        uint64_t mb = rings[r].default_mb;
        if (text) {
            int e = parse_mb(name, text, &mb, err);
            if (e < 0)
                return e;
            if (mb == 0 && r != KYMO_RING_H2D_DMA)
                return kymo_err_set(err, -EINVAL, "%s=0: only host-device DMA capture can be switched off", name);
        }
        sizes.set[r] = text != NULL;
        sizes.bytes[r] = mb ? round_up_pow2(mb * MIB) : 0;
        sizes.rounded[r] = sizes.bytes[r] != mb * MIB;
    }
    *ret = sizes;
    return 0;
}

bool kymo_version_valid(const char *version)
{
    size_t numbers = 0;
    for (const char *p = version; numbers < VERSION_NUMBERS_MAX; p++) {
        size_t digits = strspn(p, "0123456789");
        if (!digits || digits > 9)
            return false;
        numbers++;
        p += digits;
        if (*p != '.')
            return *p == '\0';
    }
    return false;
}

int kymo_version_compare(const char *a, const char *b)
{
    while (isdigit((unsigned char)*a) || isdigit((unsigned char)*b)) {
        char *end_a = (char *)a, *end_b = (char *)b;
        unsigned long long va = isdigit((unsigned char)*a) ? strtoull(a, &end_a, 10) : 0;
        unsigned long long vb = isdigit((unsigned char)*b) ? strtoull(b, &end_b, 10) : 0;
        if (va != vb)
            return va < vb ? -1 : 1;
        a = *end_a == '.' ? end_a + 1 : end_a;
        b = *end_b == '.' ? end_b + 1 : end_b;
    }
    return 0;
}

unsigned kymo_h2d_reasons(const struct kymo_arch *arch, unsigned first_pcore, unsigned lnc, const char *driver_version,
                          const struct kymo_ring_sizes *sizes, unsigned *ret_engine)
{
    unsigned reasons = 0;
    if (!driver_version || kymo_version_compare(driver_version, "2.31") < 0)
        reasons |= 1u << KYMO_H2D_OLD_DRIVER;
    if (!sizes->bytes[KYMO_RING_H2D_DMA])
        reasons |= 1u << KYMO_H2D_OFF;
    if (lnc == 1 && first_pcore % arch->h2d_pcores_per_engine != 0)
        reasons |= 1u << KYMO_H2D_ODD_CORE;
    *ret_engine = arch->h2d_first + first_pcore / arch->h2d_pcores_per_engine;
    return reasons;
}

const char *kymo_h2d_reason_text(enum kymo_h2d_state s)
{
    switch (s) {
    case KYMO_H2D_TRACED:
        return "traced";
    case KYMO_H2D_OFF:
        return "switched off";
    case KYMO_H2D_OLD_DRIVER:
        return "driver older than 2.31";
    case KYMO_H2D_ODD_CORE:
        return "odd core of a pair, LNC=1";
    }
    return "unknown";
}

struct planner {
    const struct kymo_ring_sizes *sizes;
    struct kymo_ring_plan *out;
    size_t n;
};

static void plan_add(struct planner *p, enum kymo_ring ring, unsigned pcore_idx, unsigned nc_idx, unsigned engine)
{
    if (p->n >= KYMO_RING_PLAN_MAX)
        return;
    p->out[p->n++] = (struct kymo_ring_plan){
        .ring = ring, .pcore_idx = pcore_idx, .nc_idx = nc_idx, .engine_index = engine, .bytes = p->sizes->bytes[ring]};
}

/* In the runtime's order of draining (ntff.md 3.5): per core trace, status, event, error, DMA, throttle; then CC-cores.
 */
size_t kymo_ring_plan(const struct kymo_arch *arch, unsigned first_pcore, unsigned lnc, const char *driver_version,
                      const struct kymo_ring_sizes *sizes, struct kymo_ring_plan out[KYMO_RING_PLAN_MAX])
{
    static const enum kymo_ring per_core[] = {KYMO_RING_INSTRUCTION, KYMO_RING_INFER_STATUS, KYMO_RING_EVENT,
                                              KYMO_RING_ERROR};
    static const enum kymo_ring per_cc[] = {KYMO_RING_CC_CORE_INSTRUCTION, KYMO_RING_CC_CORE_ERROR,
                                            KYMO_RING_CC_CORE_EVENT};
    struct planner p = {.sizes = sizes, .out = out};
    for (unsigned c = 0; c < lnc; c++) {
        for (size_t i = 0; i < sizeof per_core / sizeof per_core[0]; i++)
            plan_add(&p, per_core[i], c, first_pcore + c, 0);
        for (unsigned e = 0; e < arch->dma_engines; e++)
            plan_add(&p, KYMO_RING_DMA, c, first_pcore + c, e);
        plan_add(&p, KYMO_RING_THROTTLE, c, first_pcore + c, 0);
    }
    unsigned share = arch->cc_cores / arch->pcores_per_device;
    for (unsigned c = 0; c < share * lnc; c++)
        for (size_t i = 0; i < sizeof per_cc / sizeof per_cc[0]; i++)
            plan_add(&p, per_cc[i], 0, first_pcore, first_pcore * share + c);
    unsigned engine;
    if (!kymo_h2d_reasons(arch, first_pcore, lnc, driver_version, sizes, &engine))
        plan_add(&p, KYMO_RING_H2D_DMA, 0, first_pcore, engine);
    return p.n;
}
