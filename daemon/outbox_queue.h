/*
 * Orders to the outbox's thread and events back, each a queue under one lock with a maximum. What waits is woken by its
 * reader's uv_async, which is the caller's.
 */
#ifndef KYMO_DAEMON_OUTBOX_QUEUE_H
#define KYMO_DAEMON_OUTBOX_QUEUE_H

#include "daemon/outbox.h"
#include "daemon/outbox_take.h"

#define OUTBOX_REQUEST_IDS_MAX 1024

struct outbox_event;

enum outbox_order_type {
    OUTBOX_ORDER_TAKE,
    OUTBOX_ORDER_NEFF,
    OUTBOX_ORDER_DROP_NEFF,
    OUTBOX_ORDER_GO,
    OUTBOX_ORDER_REPLY,
    OUTBOX_ORDER_REFUSE,
    OUTBOX_ORDER_CONFIGURE,
};

/* What outbox_reconfigure may change; strings and context are its own. */
struct outbox_routes {
    char *collectors[OUTBOX_COLLECTORS_MAX];
    struct tls_context *tls;
    bool plain_anywhere;
    int zstd_level;
    uint64_t rate_bytes_s;
};

int outbox_routes_new(const struct outbox_config *config, struct outbox_routes **ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;
void outbox_routes_free(struct outbox_routes *r); /* NULL is fine */

struct outbox_order {
    struct outbox_order *next;
    enum outbox_order_type type;
    uint64_t ticket;
    struct outbox_event *answer; /* made beforehand, so that it cannot fail */
    struct outbox_take *take;
    int fd; /* of a NEFF; -1 else */
    char *name;
    uint8_t sha256[KYMO_SHA256_SIZE];
    uint64_t request;
    char **ids;
    size_t n_ids;
    int code;
    char *text;
    struct outbox_routes *routes;
};

struct outbox_order *outbox_order_new(enum outbox_order_type type); /* NULL: no memory */
void outbox_order_free(struct outbox_order *o);                     /* with all that is still in it; NULL is fine */

enum outbox_event_type {
    OUTBOX_EVENT_TAKEN,
    OUTBOX_EVENT_NEFF,
    OUTBOX_EVENT_SENT,
    OUTBOX_EVENT_REQUEST,
    OUTBOX_EVENT_RING_LOSSES,
    OUTBOX_EVENT_CHANGED,
};

struct outbox_event {
    struct outbox_event *next;
    enum outbox_event_type type;
    uint64_t ticket; /* of an order, or the number of a request */
    int code;
    uint32_t cause;
    struct kymo_err err;
    uint8_t sha256[KYMO_SHA256_SIZE];
    uint64_t size;
    char id[SPOOL_ID_MAX + 1];
    uint8_t *packed; /* the collector's message */
    size_t packed_len;
};

struct outbox_event *outbox_event_new(enum outbox_event_type type);
void outbox_event_free(struct outbox_event *e);

struct outbox_queue {
    uv_mutex_t lock;
    struct outbox_order *orders, **orders_end;
    struct outbox_event *events, **events_end;
    size_t n_orders, n_events;
    size_t n_held; /* orders that the thread has taken and put aside: they count as waiting */
    bool stopping, change_waits;
    struct outbox_status status; /* what the thread last saw */
};

int outbox_queue_init(struct outbox_queue *q, struct kymo_err *err) KYMO_MUST_CHECK;
void outbox_queue_done(struct outbox_queue *q);

/* Takes the order over unless max wait already: -EAGAIN, and it stays the caller's. */
int outbox_queue_order(struct outbox_queue *q, struct outbox_order *o, size_t max,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* The oldest, the caller's; NULL: none. */
struct outbox_order *outbox_queue_next_order(struct outbox_queue *q);
void outbox_queue_hold(struct outbox_queue *q, bool one_more);
/* Takes the event over. Of changes only one waits at a time. */
void outbox_queue_event(struct outbox_queue *q, struct outbox_event *e);
struct outbox_event *outbox_queue_next_event(struct outbox_queue *q);
size_t outbox_queue_events(struct outbox_queue *q);
void outbox_queue_stop(struct outbox_queue *q);
bool outbox_queue_is_stopping(struct outbox_queue *q);

#endif
