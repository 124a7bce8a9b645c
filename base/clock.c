#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    if (clock_gettime(id, &ts) < 0)
        return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t system_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static uint64_t system_real_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

static const struct kymo_clock_ops system_ops = {.mono_ns = system_mono_ns, .real_ns = system_real_ns};
static const struct kymo_clock_ops *ops = &system_ops;

void kymo_clock_set_ops(const struct kymo_clock_ops *table)
{
    ops = table ? table : &system_ops;
}

uint64_t kymo_clock_mono_ns(void)
{
    return ops->mono_ns();
}

uint64_t kymo_clock_real_ns(void)
{
    return ops->real_ns();
}
