/* The simulated host as the command line describes it: option rows and checks that kymo-sim device and kymo-sim run
 * share. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_HOST_H
#define KYMO_DRIVER_IFACE_SIM_SIM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "base/options.h"
#include "driver-iface/sim/sim_notices.h"

#define SIM_HOST_DRIVER "2.31.0" /* unless KYMO_SIM_DRIVER_VERSION or --driver names another */

struct sim_host {
    const char *type, *driver, *truth, *sysfs;
    uint64_t lnc_asked, seed;
    bool drift;
    struct kymo_option_list throttle_texts, notice_texts;
    /* filled by sim_host_check */
    const struct kymo_instance *instance;
    const struct kymo_arch *arch;
    unsigned lnc;
    struct sim_notices notices;
};

/* Rows for a structure T that holds a struct sim_host by the name of member. */
#define SIM_HOST_ROWS(T, member)                                                                                       \
    {.name = "instance",                                                                                               \
     .type = KYMO_OPTION_TEXT,                                                                                         \
     .arg = "TYPE",                                                                                                    \
     .def = "trn2.48xlarge",                                                                                           \
     .offset = offsetof(T, member.type),                                                                               \
     .help = "instance type to simulate"},                                                                             \
        {.name = "lnc",                                                                                                \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "N",                                                                                                   \
         .max = 2,                                                                                                     \
         .offset = offsetof(T, member.lnc_asked),                                                                      \
         .help = "physical cores per logical core: 1, or 2 on Trn2 and Trn3 (default: the instance's)"},               \
        {.name = "driver",                                                                                             \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "VERSION",                                                                                             \
         .offset = offsetof(T, member.driver),                                                                         \
         .help = "driver version (default: KYMO_SIM_DRIVER_VERSION, else " SIM_HOST_DRIVER                             \
                 "); below 2.31 there is no host-device DMA trace"},                                                   \
        {.name = "truth",                                                                                              \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "DIR",                                                                                                 \
         .offset = offsetof(T, member.truth),                                                                          \
         .help = "write what truly happened in each profile below DIR"},                                               \
        {.name = "sysfs",                                                                                              \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "DIR",                                                                                                 \
         .offset = offsetof(T, member.sysfs),                                                                          \
         .help = "keep a tree as the driver's in sysfs below DIR, for KYMO_SYSFS"},                                    \
        {.name = "seed",                                                                                               \
         .type = KYMO_OPTION_U64,                                                                                      \
         .arg = "N",                                                                                                   \
         .def = "1",                                                                                                   \
         .offset = offsetof(T, member.seed),                                                                           \
         .help = "seed of the models"},                                                                                \
        {.name = "drift",                                                                                              \
         .type = KYMO_OPTION_FLAG,                                                                                     \
         .offset = offsetof(T, member.drift),                                                                          \
         .help = "let the clocks of Trn1 and Inf2 run off"},                                                           \
        SIM_NOTICES_ROWS(T, member.throttle_texts, member.notice_texts)

/* Fills instance, arch, lnc and notices. -EINVAL with the option and the reason. */
int sim_host_check(struct sim_host *host, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
