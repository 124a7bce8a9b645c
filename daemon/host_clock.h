/*
 * The host's clocks read together, with the kernel's bound on the error of its wall-clock time: what profiles of
 * different hosts are laid on one axis by.
 */
#ifndef KYMO_DAEMON_HOST_CLOCK_H
#define KYMO_DAEMON_HOST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct host_clock {
    uint64_t real_ns, mono_ns; /* real_ns 0: never read */
    uint64_t read_error_ns;    /* the two are of the same moment, give or take this */
    bool has_kernel;           /* the kernel told the rest */
    uint64_t max_error_ns;
    bool synchronised;
};

/* Any thread. Without the right to ask the kernel (clock_adjtime, which a sandbox may forbid) has_kernel stays false.
 */
void host_clock_read(struct host_clock *ret);

#endif
