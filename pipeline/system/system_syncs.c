#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "pipeline/system/system_impl.h"

struct system_syncs {
    struct system_sync *by_time, *by_exec; /* of a core, by device time; and by execution */
    size_t n, cap;
    uint64_t seen, stride; /* every stride-th is kept */
};

struct system_syncs *system_syncs_new(void)
{
    struct system_syncs *s = KYMO_NEW(struct system_syncs);
    if (s)
        s->stride = 1;
    return s;
}

struct system_syncs *system_syncs_free(struct system_syncs *s)
{
    if (!s)
        return NULL;
    kymo_free(s->by_time);
    kymo_free(s->by_exec);
    kymo_free(s);
    return NULL;
}

int system_syncs_add(struct system_syncs *s, const struct system_sync *sync, struct kymo_err *err)
{
    if (s->seen++ % s->stride)
        return 0;
    if (s->n == SYSTEM_SYNCS_MAX) {
        for (size_t i = 0; i < s->n / 2; i++)
            s->by_time[i] = s->by_time[2 * i];
        s->n /= 2;
        s->stride *= 2;
    }
    void *p = s->by_time;
    int r = kymo_grow(&p, &s->cap, s->n + 1, SYSTEM_SYNCS_MAX, sizeof *s->by_time);
    s->by_time = p;
    if (r < 0)
        return kymo_err_set(err, r, "no memory for readings of the clocks");
    s->by_time[s->n++] = *sync;
    return 0;
}

bool system_syncs_thinned(const struct system_syncs *s)
{
    return s->stride > 1;
}

static int order(uint32_t a_nc, uint32_t b_nc, uint64_t a, uint64_t b)
{
    if (a_nc != b_nc)
        return a_nc < b_nc ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int compare_time(const void *a, const void *b)
{
    const struct system_sync *x = a, *y = b;
    return order(x->nc, y->nc, (uint64_t)x->device_ns, (uint64_t)y->device_ns);
}

static int compare_exec(const void *a, const void *b)
{
    const struct system_sync *x = a, *y = b;
    return order(x->nc, y->nc, x->exec_id, y->exec_id);
}

void system_syncs_sort(struct system_syncs *s)
{
    s->by_exec = s->n ? KYMO_NEW_ARRAY(struct system_sync, s->n) : NULL;
    for (size_t i = 0; s->by_exec && i < s->n; i++)
        s->by_exec[i] = s->by_time[i];
    if (s->n)
        qsort(s->by_time, s->n, sizeof *s->by_time, compare_time);
    if (s->by_exec)
        qsort(s->by_exec, s->n, sizeof *s->by_exec, compare_exec);
}

static int64_t apply(const struct system_sync *sync, int64_t device_ns)
{
    int64_t delta, sum;
    if (__builtin_sub_overflow(device_ns, sync->device_ns, &delta) || __builtin_add_overflow(sync->cpu_ns, delta, &sum))
        return sync->cpu_ns;
    return sum;
}

/* Of the readings on both sides, the nearer one. */
static const struct system_sync *nearest(const struct system_syncs *s, uint32_t nc, int64_t device_ns)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (order(s->by_time[mid].nc, nc, (uint64_t)s->by_time[mid].device_ns, (uint64_t)device_ns) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    const struct system_sync *after = low < s->n && s->by_time[low].nc == nc ? &s->by_time[low] : NULL;
    const struct system_sync *before = low > 0 && s->by_time[low - 1].nc == nc ? &s->by_time[low - 1] : NULL;
    if (!after || !before)
        return after ? after : before;
    return (uint64_t)after->device_ns - (uint64_t)device_ns < (uint64_t)device_ns - (uint64_t)before->device_ns
               ? after
               : before;
}

bool system_syncs_convert(const struct system_syncs *s, uint32_t nc, const uint64_t *exec_id, int64_t device_ns,
                          int64_t *ret)
{
    const struct system_sync *found = NULL;
    if (exec_id && s->by_exec) {
        const struct system_sync key = {.nc = nc, .exec_id = *exec_id};
        found = bsearch(&key, s->by_exec, s->n, sizeof key, compare_exec);
    }
    if (!found && s->n)
        found = nearest(s, nc, device_ns);
    if (found)
        *ret = apply(found, device_ns);
    return found != NULL;
}
