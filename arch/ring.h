/*
 * Notification rings and profile buffers: which rings exist for a logical core, their sizes, and what an environment
 * asks for (facts: driver.md 2, ntff.md 3.5 and 6.1, the seed page on host-device DMA; design, Decided: Open layouts).
 */
#ifndef KYMO_ARCH_RING_H
#define KYMO_ARCH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"

#define KYMO_RECORD_SIZE 16

/* X(id, NEURON_RT_PROFILE_BUF_<suffix>_MB, default MB, NTFF trace_type, NTFF block_type) */
#define KYMO_RING_MAP(X)                                                                                               \
    X(INSTRUCTION, "INSTRUCTION", 128, 0, 0)                                                                           \
    X(EVENT, "EVENT", 64, 1, 0)                                                                                        \
    X(ERROR, "ERROR", 64, 2, 0)                                                                                        \
    X(INFER_STATUS, "INFER_STATUS", 64, 0, 0)                                                                          \
    X(DMA, "DMA", 64, 4, 1)                                                                                            \
    X(THROTTLE, "THROTTLE", 64, 5, 0)                                                                                  \
    X(CC_CORE_INSTRUCTION, "CC_CORE_INSTRUCTION", 64, 0, 2)                                                            \
    X(CC_CORE_EVENT, "CC_CORE_EVENT", 64, 1, 2)                                                                        \
    X(CC_CORE_ERROR, "CC_CORE_ERROR", 64, 2, 2)                                                                        \
    X(H2D_DMA, "H2D_DMA", 64, 4, 1)

/* Same numbers as ring_kind in proto/ntff.proto. */
enum kymo_ring {
#define X(id, suffix, mb, tt, bt) KYMO_RING_##id,
    KYMO_RING_MAP(X)
#undef X
        KYMO_RING_MAX,
};

const char *kymo_ring_name(enum kymo_ring r); /* INSTRUCTION, ... */

/* Ring text used in LossLedger and messages: INSTRUCTION(nc0), DMA-E3(nc1), H2D_DMA-E128, CC_CORE_EVENT-2. n >= 64. */
void kymo_ring_label(enum kymo_ring r, unsigned pcore_idx, unsigned engine_index, char *out, size_t n);

/* MB per ring, after the environment; sizes in bytes rounded up to a power of two. */
struct kymo_ring_sizes {
    uint64_t bytes[KYMO_RING_MAX]; /* 0: off (only H2D_DMA may be off) */
    bool rounded[KYMO_RING_MAX];   /* the asked size was no power of two */
    bool set[KYMO_RING_MAX];       /* the environment named it */
};
/* getenv-like source so that tests need no environment. A value that is no whole number of MB is -EINVAL with its name.
 */
int kymo_ring_sizes_from_env(const char *(*get)(void *ctx, const char *name), void *ctx, struct kymo_ring_sizes *ret,
                             struct kymo_err *err) KYMO_MUST_CHECK;

enum kymo_h2d_state { KYMO_H2D_TRACED = 0, KYMO_H2D_OFF, KYMO_H2D_OLD_DRIVER, KYMO_H2D_ODD_CORE };

/*
 * Is host-device DMA traced for a logical core made of physical cores first..first + lnc - 1 (device-local)? All
 * reasons that hold when not: bit enum value. *ret_engine: device-wide DMA engine id.
 */
unsigned kymo_h2d_reasons(const struct kymo_arch *arch, unsigned first_pcore, unsigned lnc, const char *driver_version,
                          const struct kymo_ring_sizes *sizes, unsigned *ret_engine);
const char *kymo_h2d_reason_text(enum kymo_h2d_state s);

/* One ring of a logical core's profile. */
struct kymo_ring_plan {
    enum kymo_ring ring;
    unsigned pcore_idx;    /* 0 or 1 inside the logical core; 0 for CC-core rings */
    unsigned nc_idx;       /* physical core on the device */
    unsigned engine_index; /* DMA engine 0..15, CC-core, host-device engine id; 0 else */
    uint64_t bytes;
};
#define KYMO_RING_PLAN_MAX 160
/* Fills up to KYMO_RING_PLAN_MAX rows for the logical core; returns their number. CC-core rings are shared out evenly
 * among the device's physical cores. */
size_t kymo_ring_plan(const struct kymo_arch *arch, unsigned first_pcore, unsigned lnc, const char *driver_version,
                      const struct kymo_ring_sizes *sizes, struct kymo_ring_plan out[KYMO_RING_PLAN_MAX]);

/* Compares dotted versions number by number ("2.9" < "2.31.1"): <0, 0, >0. */
int kymo_version_compare(const char *a, const char *b);
bool kymo_version_valid(const char *version); /* numbers with points between them */

#endif
