#include "collector/gather/clock_map.h"

#include <math.h>

#define LIMIT 4.0e18 /* times beyond it are nobody's, and would not fit an int64 once added up */

static bool is_sane(const struct clock_map_sync *s)
{
    return fabs((double)s->ts) < LIMIT / 4 && fabs((double)s->host_ns) < LIMIT / 2 && (double)s->error_ns < LIMIT / 4;
}

static bool is_bounded(const struct clock_map_sync *s)
{
    return is_sane(s) && s->error_ns >= 0;
}

static int64_t up(double ns)
{
    return ns < LIMIT ? (int64_t)ceil(ns) : -1;
}

/* How far a moment is from the ends of the profile, at most. */
static double reach(const struct clock_map_sync *s, int64_t span_ns)
{
    return fmax(fabs((double)s->ts), fabs((double)span_ns - (double)s->ts));
}

static bool fit_line(const struct clock_map_sync *syncs, size_t first, size_t last, size_t n, int64_t span_ns,
                     double drift_max, struct clock_map *ret)
{
    const struct clock_map_sync *a = &syncs[first], *b = &syncs[last];
    double apart = (double)(b->ts - a->ts), errors = (double)a->error_ns + (double)b->error_ns;
    if (apart <= 0 || errors / apart >= drift_max)
        return false;
    double drift = (double)((b->host_ns - a->host_ns) - (b->ts - a->ts)) / apart, worst = 0;
    /* The line through a and b, at 0. */
    int64_t offset = a->host_ns - a->ts - (int64_t)llround(drift * (double)a->ts);
    *ret = (struct clock_map){.method = CLOCK_MAP_LINE, .offset_ns = offset, .drift = drift};
    for (size_t i = 0; i < n; i++) {
        if (!is_bounded(&syncs[i]))
            continue;
        double off = (double)(syncs[i].host_ns - syncs[i].ts - offset) - drift * (double)syncs[i].ts;
        worst = fmax(worst, fabs(off) + (double)syncs[i].error_ns);
        ret->used++;
    }
    double outside = fmax(fmax((double)a->ts, (double)span_ns - (double)b->ts), 0);
    ret->error_ns = up(worst + outside * errors / apart + 1);
    ret->contradict = fabs(drift) - errors / apart > drift_max;
    if (ret->contradict)
        ret->error_ns = -1;
    return true;
}

/* What all moments allow the offset to be; relative to that of the first, so that doubles are exact enough. */
static void fit_offset(const struct clock_map_sync *syncs, size_t first, size_t n, int64_t span_ns, double drift_max,
                       struct clock_map *ret)
{
    int64_t base = syncs[first].host_ns - syncs[first].ts, best = base;
    double low = -LIMIT, high = LIMIT, least = LIMIT;
    *ret = (struct clock_map){.method = CLOCK_MAP_OFFSET, .error_ns = -1};
    for (size_t i = first; i < n; i++) {
        if (!is_bounded(&syncs[i]))
            continue;
        double at = (double)(syncs[i].host_ns - syncs[i].ts - base);
        double error = (double)syncs[i].error_ns + drift_max * reach(&syncs[i], span_ns);
        low = fmax(low, at - error);
        high = fmin(high, at + error);
        if (error < least)
            best = base + (int64_t)at;
        least = fmin(least, error);
        ret->used++;
    }
    ret->contradict = low > high;
    ret->offset_ns = ret->contradict ? best : base + (int64_t)llround((low + high) / 2);
    if (!ret->contradict)
        ret->error_ns = up((high - low) / 2 + 1);
}

void clock_map_fit(const struct clock_map_sync *syncs, size_t n, int64_t span_ns, double drift_max,
                   struct clock_map *ret)
{
    size_t first = n, last = n, any = n;
    *ret = (struct clock_map){.error_ns = -1};
    for (size_t i = 0; i < n; i++) {
        if (any == n && is_sane(&syncs[i]))
            any = i;
        if (!is_bounded(&syncs[i]))
            continue;
        first = first == n ? i : first;
        last = i;
    }
    if (first < n && fit_line(syncs, first, last, n, span_ns, drift_max, ret))
        return;
    if (first < n)
        fit_offset(syncs, first, n, span_ns, drift_max, ret);
    else if (any < n)
        *ret = (struct clock_map){
            .method = CLOCK_MAP_OFFSET, .offset_ns = syncs[any].host_ns - syncs[any].ts, .error_ns = -1, .used = 1};
}

const char *clock_map_method_name(enum clock_map_method m)
{
    static const char *const names[] = {"none", "offset", "line"};
    return names[m];
}
