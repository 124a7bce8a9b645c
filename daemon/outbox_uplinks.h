/*
 * The captures of the spool on their way to a collector: which of the two is used, what is offered when, what becomes
 * of what is refused, the rate, the collectors' requests, the host's losses. All on the outbox's loop.
 */
#ifndef KYMO_DAEMON_OUTBOX_UPLINKS_H
#define KYMO_DAEMON_OUTBOX_UPLINKS_H

#include "daemon/outbox_queue.h"

struct outbox_uplinks;

struct outbox_uplinks_config {
    uv_loop_t *loop;
    struct net *net;
    struct spool *spool;
    const char *host, *boot_id, *writer; /* must outlive it */
    struct wire_range versions;
    struct outbox_times times;
    /* Takes the event over. */
    void (*emit)(void *ctx, struct outbox_event *e);
    void *ctx;
};

int outbox_uplinks_new(const struct outbox_uplinks_config *config, struct outbox_uplinks **ret,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends all connections; the loop lets go of them. */
void outbox_uplinks_close(struct outbox_uplinks *u);
/* After that, when the loop has ended. NULL is fine. */
void outbox_uplinks_free(struct outbox_uplinks *u);

/* Takes the routes over. */
void outbox_uplinks_route(struct outbox_uplinks *u, struct outbox_routes *r);
void outbox_uplinks_go(struct outbox_uplinks *u);
/* The spool has got captures, or has evicted some. */
void outbox_uplinks_sync(struct outbox_uplinks *u);
/* To be called every times.tick. */
void outbox_uplinks_tick(struct outbox_uplinks *u);
/* Whether the collectors' messages may come in: the reader of events is not far behind. */
void outbox_uplinks_listen(struct outbox_uplinks *u, bool listen);

void outbox_uplinks_reply(struct outbox_uplinks *u, uint64_t request, const char *const *ids, size_t n);
void outbox_uplinks_refuse(struct outbox_uplinks *u, uint64_t request, int code, const char *text);

/* The links and the lag. */
void outbox_uplinks_get_status(const struct outbox_uplinks *u, struct outbox_status *ret);

#endif
