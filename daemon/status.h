/*
 * What the daemon knows of itself and its jobs, as one message for the control socket. Belongs to the loop's thread.
 */
#ifndef KYMO_DAEMON_STATUS_H
#define KYMO_DAEMON_STATUS_H

#include <uv.h>

#include "base/err.h"
#include "daemon/captures.h"
#include "daemon/jobs.h"
#include "daemon/outbox.h"
#include "daemon/outbox_words.h"
#include "daemon/own_cost.h"
#include "proto/control.h"

/* Where it comes from; all are needed and must live as long as whoever holds this. */
struct status_sources {
    uv_loop_t *loop;
    const struct jobs *jobs;
    struct captures *captures;
    struct outbox *outbox;
    struct own_cost *cost;
    uint64_t since_ns; /* when the daemon began, kymo_clock_mono_ns */
};

struct status; /* owns the message and all it points to */

/*
 * job: only this one; NULL: all. Ranks that find no room in CONTROL_MESSAGE_MAX are counted in ranks_left_out; texts
 * are cut and made valid UTF-8, so that the message holds its bounds whatever the sources say.
 */
int status_make(const struct status_sources *sources, const char *job, struct status **ret,
                struct kymo_err *err) KYMO_MUST_CHECK;
struct status *status_free(struct status *s); /* NULL is fine; returns NULL */
Kymo__Control__StatusReply *status_message(struct status *s);

const char *status_link_state(enum outbox_link l);

#endif
