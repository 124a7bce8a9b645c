/*
 * Throttling, hardware errors and custom notifications that every execution meets, at times counted from its start.
 * Asked for by the options --throttle and --notice of kymo-sim; none by default.
 *
 *   --throttle CLASS:K/N@START+LENGTH[~PERIOD][#CORE]    activity_0:6/8@20+30~100
 *   --notice KIND@START[~PERIOD][#CORE]                  nan@12.5  custom-3@40#1
 *
 * Times are microseconds with up to six decimals. CORE is 0 or 1 inside the logical core; without it all are meant.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_NOTICES_H
#define KYMO_DRIVER_IFACE_SIM_SIM_NOTICES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"

#define SIM_NOTICES_MAX 64
#define SIM_NOTICE_ALL_CORES (-1)

enum sim_notice_kind {
    SIM_NOTICE_THROTTLE,
    SIM_NOTICE_TPB_ERROR, /* id: the error's */
    SIM_NOTICE_INTERRUPT,
    SIM_NOTICE_WARNING,
    SIM_NOTICE_CUSTOM, /* id: sub-id */
};

struct sim_notice {
    uint8_t kind;
    uint8_t id;   /* of a throttle: its class */
    uint8_t k, n; /* THROTTLE: of n cycles k are allowed, 1 <= k <= n */
    int8_t core;
    uint64_t at_ps, length_ps, period_ps; /* period 0: once */
};

struct sim_notices {
    struct sim_notice rows[SIM_NOTICES_MAX];
    size_t count;
};

/* -EINVAL names the option and what is wrong with it. */
int sim_notices_parse(const struct kymo_option_list *throttles, const struct kymo_option_list *notices,
                      struct sim_notices *ret, struct kymo_err *err) KYMO_MUST_CHECK;

/* Words of the truth files. */
const char *sim_notice_kind_name(enum sim_notice_kind kind);
const char *sim_throttle_class_name(uint8_t id); /* activity_0, activity_1, unknown */

/* The two option rows, for a structure T with lists of these members. */
#define SIM_NOTICES_ROWS(T, throttles, notices)                                                                        \
    {.name = "throttle",                                                                                               \
     .type = KYMO_OPTION_LIST,                                                                                         \
     .arg = "CLASS:K/N@US+US",                                                                                         \
     .offset = offsetof(T, throttles),                                                                                 \
     .help = "throttle the core to K/N for a time from a time after each execution's start, in microseconds, as "      \
             "activity_0:6/8@20+30; ~US repeats it, #0 or #1 names a physical core"},                                  \
    {                                                                                                                  \
        .name = "notice", .type = KYMO_OPTION_LIST, .arg = "KIND@US", .offset = offsetof(T, notices),                  \
        .help = "raise a hardware notice: nan, inf, fp_overflow, psum_collision, ..., interrupt, warning, or "         \
                "custom-N; ~US and #CORE as with --throttle"                                                           \
    }

#endif
