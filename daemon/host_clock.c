#include "daemon/host_clock.h"

#include <sys/timex.h>

#include "base/clock.h"

#define NS_PER_US 1000ull

void host_clock_read(struct host_clock *ret)
{
    struct timex t = {.modes = 0}; /* asks, sets nothing */
    uint64_t before = kymo_clock_mono_ns();
    *ret = (struct host_clock){.real_ns = kymo_clock_real_ns()};
    uint64_t after = kymo_clock_mono_ns();
    ret->read_error_ns = (after - before + 1) / 2;
    ret->mono_ns = before + (after - before) / 2;
    if (ntp_adjtime(&t) < 0)
        return;
    ret->has_kernel = t.maxerror >= 0;
    ret->max_error_ns = ret->has_kernel ? (uint64_t)t.maxerror * NS_PER_US : 0;
    ret->synchronised = !(t.status & STA_UNSYNC);
}
