/* Reasons not to capture. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver-iface/hook/hook_capture.h"
#include "driver-iface/hook/hook_profile.h"

/* Whatever a daemon asks for, captures may take a tenth of the job's time, and this much at its start. */
#define BUDGET_START_NS 2000000000ull
#define BUDGET_SHARE 10u
#define SYSFS_ROOT "/sys/devices/virtual/neuron_device"

void hook_capture_read_environment(void)
{
    const char *root = getenv("KYMO_SYSFS");
    int n;

    hook_capture.inspecting = hook_env_inspecting();
    n = snprintf(hook_capture.sysfs, sizeof hook_capture.sysfs, "%s", root && *root ? root : SYSFS_ROOT);
    if (n < 0 || (size_t)n >= sizeof hook_capture.sysfs)
        hook_capture.sysfs[0] = 0;
}

static bool say_no(struct hook_no *no, enum kymo_hook_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool say_no(struct hook_no *no, enum kymo_hook_reason reason, const char *format, ...)
{
    va_list args;

    no->reason = reason;
    va_start(args, format);
    (void)vsnprintf(no->text, sizeof no->text, format, args);
    va_end(args);
    return false;
}

/* Bytes in use on one physical core; false: sysfs does not tell. */
static bool read_present(uint32_t core, uint64_t *ret)
{
    char path[640], text[32];
    int fd, n;
    ssize_t got;
    char *end;

    n = snprintf(path, sizeof path, "%s/neuron%u/neuron_core%u/stats/memory_usage/device_mem/present",
                 hook_capture.sysfs, hook_capture.policy.hbm_device, core);
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = 0;
    *ret = strtoull(text, &end, 10);
    return end != text;
}

static bool memory_suffices(struct hook_no *no)
{
    const struct kymo_hook_policy *p = &hook_capture.policy;
    uint64_t used = 0;

    if (p->hbm_need_bytes == 0)
        return true;
    for (uint32_t i = 0; i < p->hbm_core_count; i++) {
        uint64_t present;

        if (!read_present(p->hbm_core_first + i, &present))
            return true;
        if (__builtin_add_overflow(used, present, &used))
            return true;
    }
    if (used <= p->hbm_capacity_bytes && p->hbm_capacity_bytes - used >= p->hbm_need_bytes)
        return true;
    return say_no(no, KYMO_HOOK_REASON_MEMORY, "%llu bytes needed, %llu of %llu in use",
                  (unsigned long long)p->hbm_need_bytes, (unsigned long long)used,
                  (unsigned long long)p->hbm_capacity_bytes);
}

static bool time_suffices(enum kymo_hook_mode mode, struct hook_no *no)
{
    uint64_t limit = hook_capture.policy.stall_limit_ns, last = hook_capture.last_stall_ns[mode];
    uint64_t spent = __atomic_load_n(&hook_page->stall_ns, __ATOMIC_RELAXED);

    if (limit == 0 || last > limit)
        return say_no(no, KYMO_HOOK_REASON_STALL, "the last one took %llu ns, the limit is %llu",
                      (unsigned long long)last, (unsigned long long)limit);
    if (spent > BUDGET_START_NS + (hook_now() - hook_capture.started_ns) / BUDGET_SHARE)
        return say_no(no, KYMO_HOOK_REASON_BUDGET, "%llu ns so far", (unsigned long long)spent);
    return true;
}

bool hook_capture_allowed(enum kymo_hook_mode mode, struct hook_no *no)
{
    const char *foreign = __atomic_load_n(&hook_capture.foreign, __ATOMIC_ACQUIRE), *missing;

    if (hook_capture.inspecting)
        return say_no(no, KYMO_HOOK_REASON_INSPECT, "%s", hook_capture.inspecting);
    if (foreign)
        return say_no(no, KYMO_HOOK_REASON_FOREIGN, "%s", foreign);
    if (hook_capture.policy.flags & KYMO_HOOK_POLICY_OFF)
        return say_no(no, KYMO_HOOK_REASON_OFF, "the policy switches the hook off");
    missing = hook_profile_missing(mode);
    if (missing)
        return say_no(no, KYMO_HOOK_REASON_MISSING, "%s", missing);
    if (!hook_intake_usable())
        return say_no(no, KYMO_HOOK_REASON_INTAKE, "no intake directory came with the policy");
    return time_suffices(mode, no) && memory_suffices(no);
}
