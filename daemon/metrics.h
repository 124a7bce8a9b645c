/*
 * What the daemon counts, as Prometheus reads it. Pure but for what it remembers of jobs: latencies of a job only grow
 * though its ranks come and go. Belongs to the loop's thread.
 *
 * Cardinality is bounded: METRICS_JOBS_MAX jobs have series of their own, METRICS_BUCKETS buckets each; further ones
 * are summed up under "other" (and a job of that name with them).
 */
#ifndef KYMO_DAEMON_METRICS_H
#define KYMO_DAEMON_METRICS_H

#include "base/buf.h"
#include "daemon/control.h"
#include "daemon/hook_server.h"
#include "daemon/status.h"

#define METRICS_JOBS_MAX 32
#define METRICS_BUCKETS 24 /* an octave each, from 2^14 ns on: 16 us to 137 s */
#define METRICS_TEXT_MAX (1u << 20)

struct metrics;

struct metrics_sources {
    struct status_sources status;
    const struct hook_server *hooks;
    const struct control *control;
};

int metrics_new(const struct metrics_sources *sources, struct metrics **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct metrics *metrics_free(struct metrics *m); /* NULL is fine; returns NULL */
/* Appends all of it to text, whose maximum should be METRICS_TEXT_MAX. */
int metrics_write(struct metrics *m, struct kymo_buf *text, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
