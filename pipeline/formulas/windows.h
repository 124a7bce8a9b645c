/*
 * Amounts of work spread over spans of time, summed over windows of one width from the profile's zero on. A span's work
 * is done evenly; sums are whole numbers, exact once a span has ended. Spans may begin a little out of order: nothing
 * is settled before `windows_settle` says that nothing earlier follows. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_FORMULAS_WINDOWS_H
#define KYMO_PIPELINE_FORMULAS_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/spill/time_queue.h"

#define WINDOWS_LANES 2
#define WINDOWS_PARTS 32 /* fraction bits of work */

typedef unsigned __int128 windows_work; /* times 2^WINDOWS_PARTS */

struct windows_flow {
    windows_work done, rate; /* per ns, of what is under way */
    windows_work before;     /* done at the end of the last window */
};

struct windows_lane {
    struct windows_flow all, marked; /* marked: the part of the work that was given as such */
};

/* The window from since to at has ended; done and before are those of each lane at its end. In order of at. */
typedef int (*windows_sink)(void *ctx, int64_t since, int64_t at, const struct windows_lane *lanes,
                            struct kymo_err *err);

struct windows {
    struct time_queue *changes;
    windows_sink sink;
    void *ctx;
    struct windows_lane lanes[WINDOWS_LANES];
    int64_t now, width, next, span; /* next: end of the current window */
};

/* The last window ends at span. */
int windows_init(struct windows *w, const char *dir, int64_t width, int64_t span, windows_sink sink, void *ctx,
                 struct kymo_err *err) KYMO_MUST_CHECK;
void windows_done(struct windows *w);
int windows_add(struct windows *w, unsigned lane, bool marked, int64_t begin, int64_t end, uint64_t work,
                struct kymo_err *err) KYMO_MUST_CHECK;
/* No span that is still to come begins before `until`. */
int windows_settle(struct windows *w, int64_t until, struct kymo_err *err) KYMO_MUST_CHECK;
int windows_finish(struct windows *w, struct kymo_err *err) KYMO_MUST_CHECK;
static inline double windows_real(windows_work work)
{
    return (double)work / (double)((windows_work)1 << WINDOWS_PARTS);
}

#endif
