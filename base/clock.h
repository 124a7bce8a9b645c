/* Clocks: one seam. Nanoseconds. Tests set their own source; process-wide. */
#ifndef KYMO_BASE_CLOCK_H
#define KYMO_BASE_CLOCK_H

#include <stdint.h>

struct kymo_clock_ops {
    uint64_t (*mono_ns)(void); /* since boot, never goes back */
    uint64_t (*real_ns)(void); /* since the Unix epoch */
};

void kymo_clock_set_ops(const struct kymo_clock_ops *ops); /* NULL: back to the system's */
uint64_t kymo_clock_mono_ns(void);
uint64_t kymo_clock_real_ns(void);

#endif
