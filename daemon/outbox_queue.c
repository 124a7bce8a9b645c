#include "daemon/outbox_queue.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

static int copy_text(char **to, const char *from)
{
    *to = from ? kymo_strdup(from) : NULL;
    return from && !*to ? -ENOMEM : 0;
}

int outbox_routes_new(const struct outbox_config *config, struct outbox_routes **ret, struct kymo_err *err)
{
    struct outbox_routes *r = KYMO_NEW(struct outbox_routes);
    if (!r)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    r->plain_anywhere = config->plain_anywhere;
    r->zstd_level = config->zstd_level;
    r->rate_bytes_s = config->rate_bytes_s;
    int e = 0;
    for (size_t i = 0; e == 0 && i < OUTBOX_COLLECTORS_MAX; i++) {
        struct net_address address;
        e = copy_text(&r->collectors[i], config->collectors[i]);
        if (e < 0)
            e = kymo_err_set(err, e, "outbox: out of memory");
        else if (r->collectors[i])
            e = net_address_parse(r->collectors[i], &address, err);
    }
    if (e == 0 && (config->tls.cert || config->tls.key || config->tls.ca))
        e = tls_context_new(TLS_CLIENT, &config->tls, &r->tls, err);
    if (e < 0) {
        outbox_routes_free(r);
        return e;
    }
    *ret = r;
    return 0;
}

void outbox_routes_free(struct outbox_routes *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        kymo_free(r->collectors[i]);
    tls_context_free(r->tls);
    kymo_free(r);
}

struct outbox_order *outbox_order_new(enum outbox_order_type type)
{
    struct outbox_order *o = KYMO_NEW(struct outbox_order);
    if (o) {
        o->type = type;
        o->fd = -1;
    }
    return o;
}

void outbox_order_free(struct outbox_order *o)
{
    if (!o)
        return;
    outbox_event_free(o->answer);
    outbox_take_free(o->take);
    (void)kymo_file_close(o->fd);
    kymo_free(o->name);
    for (size_t i = 0; i < o->n_ids; i++)
        kymo_free(o->ids[i]);
    kymo_free(o->ids);
    kymo_free(o->text);
    outbox_routes_free(o->routes);
    kymo_free(o);
}

struct outbox_event *outbox_event_new(enum outbox_event_type type)
{
    struct outbox_event *e = KYMO_NEW(struct outbox_event);
    if (e)
        e->type = type;
    return e;
}

void outbox_event_free(struct outbox_event *e)
{
    if (e)
        kymo_free(e->packed);
    kymo_free(e);
}

int outbox_queue_init(struct outbox_queue *q, struct kymo_err *err)
{
    *q = (struct outbox_queue){.n_orders = 0};
    q->orders_end = &q->orders;
    q->events_end = &q->events;
    int r = uv_mutex_init(&q->lock);
    return r < 0 ? kymo_err_set(err, r, "outbox: no lock: %s", uv_strerror(r)) : 0;
}

void outbox_queue_done(struct outbox_queue *q)
{
    struct outbox_order *o;
    struct outbox_event *e;
    while ((o = outbox_queue_next_order(q)))
        outbox_order_free(o);
    while ((e = outbox_queue_next_event(q)))
        outbox_event_free(e);
    uv_mutex_destroy(&q->lock);
}

int outbox_queue_order(struct outbox_queue *q, struct outbox_order *o, size_t max, struct kymo_err *err)
{
    uv_mutex_lock(&q->lock);
    size_t n = q->n_orders + q->n_held;
    if (n < max) {
        o->next = NULL;
        *q->orders_end = o;
        q->orders_end = &o->next;
        q->n_orders++;
    }
    uv_mutex_unlock(&q->lock);
    return n < max ? 0 : kymo_err_set(err, -EAGAIN, "outbox: %zu orders wait already", n);
}

struct outbox_order *outbox_queue_next_order(struct outbox_queue *q)
{
    uv_mutex_lock(&q->lock);
    struct outbox_order *o = q->orders;
    if (o) {
        q->orders = o->next;
        if (!q->orders)
            q->orders_end = &q->orders;
        q->n_orders--;
    }
    uv_mutex_unlock(&q->lock);
    return o;
}

void outbox_queue_hold(struct outbox_queue *q, bool one_more)
{
    uv_mutex_lock(&q->lock);
    q->n_held += one_more ? 1 : -(size_t)1;
    uv_mutex_unlock(&q->lock);
}

void outbox_queue_event(struct outbox_queue *q, struct outbox_event *e)
{
    bool change = e->type == OUTBOX_EVENT_CHANGED;
    uv_mutex_lock(&q->lock);
    bool known = change && q->change_waits;
    if (!known) {
        e->next = NULL;
        *q->events_end = e;
        q->events_end = &e->next;
        q->n_events++;
        q->change_waits |= change;
    }
    uv_mutex_unlock(&q->lock);
    if (known)
        outbox_event_free(e);
}

struct outbox_event *outbox_queue_next_event(struct outbox_queue *q)
{
    uv_mutex_lock(&q->lock);
    struct outbox_event *e = q->events;
    if (e) {
        q->events = e->next;
        if (!q->events)
            q->events_end = &q->events;
        q->n_events--;
        q->change_waits &= e->type != OUTBOX_EVENT_CHANGED;
    }
    uv_mutex_unlock(&q->lock);
    return e;
}

size_t outbox_queue_events(struct outbox_queue *q)
{
    uv_mutex_lock(&q->lock);
    size_t n = q->n_events;
    uv_mutex_unlock(&q->lock);
    return n;
}

void outbox_queue_stop(struct outbox_queue *q)
{
    uv_mutex_lock(&q->lock);
    q->stopping = true;
    uv_mutex_unlock(&q->lock);
}

bool outbox_queue_is_stopping(struct outbox_queue *q)
{
    uv_mutex_lock(&q->lock);
    bool stopping = q->stopping;
    uv_mutex_unlock(&q->lock);
    return stopping;
}
