/*
 * What spans that carry an amount give together: at each instant at which one begins or ends, the sum of the rates of
 * those under way and the amount of those that have ended. A span's rate is its amount by its duration; one without
 * duration has no rate and adds its amount at once. Several lanes (cores) share one order of time. Rates are summed as
 * whole numbers of 2^-16 per second, so that they do not drift however long the profile. Each lane has a second sum
 * beside it, in which a span counts a few times or not at all. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_FORMULAS_RATES_H
#define KYMO_PIPELINE_FORMULAS_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/spill/time_queue.h"

#define RATES_LANES 2
#define RATES_TIMES_MAX 255

struct rates_point {
    int64_t at;
    unsigned lane;
    double rate; /* per second */
    uint64_t total;
    bool has_second; /* the second sum changed too */
    double second_rate;
    uint64_t second_total;
};
/* One instant of one lane; calls are in order of at, at most one per instant and lane. */
typedef int (*rates_sink)(void *ctx, const struct rates_point *p, struct kymo_err *err);

struct rates_sum {
    bool touched;
    unsigned __int128 rate;
    uint64_t total;
};

struct rates {
    struct time_queue *ends;
    rates_sink sink;
    void *ctx;
    int64_t now;
    struct rates_sum first[RATES_LANES], second[RATES_LANES];
    uint64_t late; /* spans that began before the instant reached: they begin there */
};

int rates_init(struct rates *r, const char *dir, rates_sink sink, void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;
void rates_done(struct rates *r);
/* In order of start; end is not before it. times: how often the span counts in the second sum. */
int rates_add(struct rates *r, unsigned lane, int64_t start, int64_t end, uint64_t amount, unsigned times,
              struct kymo_err *err) KYMO_MUST_CHECK;
int rates_finish(struct rates *r, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
