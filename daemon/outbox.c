#include "daemon/outbox.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/outbox_queue.h"
#include "daemon/outbox_take.h"
#include "daemon/outbox_uplinks.h"

#define EVENTS_MAX 1024                         /* that wait; then the collectors have to */
#define VOID_ORDERS_MAX (4 * OUTBOX_ORDERS_MAX) /* those that cannot be refused are dropped beyond this */
#define THREAD_STACK (1u << 20)

struct outbox {
    /* The owner's side. */
    uv_async_t events;
    const struct outbox_ops *ops;
    void *ctx;
    uint64_t last_ticket;
    uv_thread_t thread;
    bool stopped; /* the thread is gone: what is ordered now goes nowhere */
    /* Both sides'. */
    struct outbox_queue queue;
    uv_async_t wake;
    _Atomic uint64_t beats;
    char *host, *boot_id, *writer;
    struct outbox_times times;
    uint64_t bytes_max;
    /* The thread's side. */
    uv_loop_t loop;
    uv_idle_t work; /* runs while there are orders */
    uv_timer_t tick;
    struct net *net;
    struct spool *spool;
    struct outbox_uplinks *uplinks;
    struct outbox_order *order; /* being carried out */
    struct outbox_order *held;  /* take-overs that the spool cannot carry out now, the oldest first */
    uint64_t retry_at_ms;       /* of those */
    struct kymo_err trouble;
    bool again; /* order was held before */
    bool ending;
};

/* ---- the thread ---- */

static void emit(void *ctx, struct outbox_event *e)
{
    struct outbox *o = ctx;
    outbox_queue_event(&o->queue, e);
    (void)uv_async_send(&o->events);
}

static void answer(struct outbox *o, struct outbox_order *order, int code, const struct kymo_err *why)
{
    struct outbox_event *e = KYMO_TAKE(order->answer);
    if (!e)
        return;
    e->ticket = order->ticket;
    e->code = code;
    if (why)
        e->err = *why;
    emit(o, e);
}

static bool is_change(const struct outbox_status *a, const struct outbox_status *b)
{
    bool same = a->nlinks == b->nlinks && a->spool.full == b->spool.full && a->spool.stopped == b->spool.stopped &&
                a->spool.below_floor == b->spool.below_floor && strcmp(a->trouble, b->trouble) == 0;
    for (size_t i = 0; same && i < a->nlinks; i++)
        same = a->links[i].state == b->links[i].state && strcmp(a->links[i].reason, b->links[i].reason) == 0 &&
               strcmp(a->links[i].address, b->links[i].address) == 0;
    return !same;
}

static void note_status(struct outbox *o)
{
    struct outbox_status now = {.spool_bytes_max = o->bytes_max}, before;
    spool_get_status(o->spool, &now.spool);
    outbox_uplinks_get_status(o->uplinks, &now);
    memcpy(now.trouble, o->trouble.text, sizeof now.trouble);
    uv_mutex_lock(&o->queue.lock);
    before = o->queue.status;
    o->queue.status = now;
    uv_mutex_unlock(&o->queue.lock);
    struct outbox_event *e = is_change(&before, &now) ? outbox_event_new(OUTBOX_EVENT_CHANGED) : NULL;
    if (e)
        emit(o, e);
}

static void hold(struct outbox *o, struct outbox_order *order, bool again)
{
    struct outbox_order **end = &o->held;
    while (!again && *end)
        end = &(*end)->next;
    order->next = *end;
    *end = order;
    outbox_queue_hold(&o->queue, true);
}

/* True: the order is done with, or held. */
static bool step_take(struct outbox *o)
{
    struct outbox_take_end end;
    struct kymo_err err = {0};
    int r = outbox_take_step(o->order->take, o->spool, o->writer, &end, &err);
    if (r == OUTBOX_TAKE_MORE)
        return false;
    if (r < 0) {
        /* Others go on: what they send may make the room that this one lacks. */
        o->trouble = err;
        o->retry_at_ms = uv_now(&o->loop) + o->times.wait_min;
        hold(o, KYMO_TAKE(o->order), o->again);
        return true;
    }
    o->trouble = (struct kymo_err){0};
    o->order->answer->cause = end.cause;
    answer(o, o->order, end.code, &end.err);
    outbox_uplinks_sync(o->uplinks);
    return true;
}

static void add_neff(struct outbox *o)
{
    struct outbox_order *order = o->order;
    struct outbox_event *e = order->answer;
    struct kymo_err err = {0};
    int r = spool_add_neff(o->spool, order->fd, order->name, e->sha256, &err);
    if (r == 0)
        r = spool_pin_neff(o->spool, e->sha256, true, &err);
    int fd = r == 0 ? spool_open_neff(o->spool, e->sha256, &e->size, &err) : r;
    (void)kymo_file_close(fd);
    answer(o, order, fd < 0 ? fd : 0, &err);
    /* Room may have been made by giving up captures. */
    outbox_uplinks_sync(o->uplinks);
}

/* True: done with. */
static bool step(struct outbox *o)
{
    struct outbox_order *order = o->order;
    switch (order->type) {
    case OUTBOX_ORDER_TAKE:
        return step_take(o);
    case OUTBOX_ORDER_NEFF:
        add_neff(o);
        break;
    case OUTBOX_ORDER_DROP_NEFF:
        spool_unpin_neff(o->spool, order->sha256);
        break;
    case OUTBOX_ORDER_GO:
        outbox_uplinks_go(o->uplinks);
        break;
    case OUTBOX_ORDER_REPLY:
        outbox_uplinks_reply(o->uplinks, order->request, (const char *const *)order->ids, order->n_ids);
        break;
    case OUTBOX_ORDER_REFUSE:
        outbox_uplinks_refuse(o->uplinks, order->request, order->code, order->text);
        break;
    case OUTBOX_ORDER_CONFIGURE:
        outbox_uplinks_route(o->uplinks, KYMO_TAKE(order->routes));
        break;
    }
    return true;
}

static void end_thread(struct outbox *o)
{
    if (o->ending)
        return;
    o->ending = true;
    outbox_uplinks_close(o->uplinks);
    uv_close((uv_handle_t *)&o->work, NULL);
    uv_close((uv_handle_t *)&o->tick, NULL);
    uv_close((uv_handle_t *)&o->wake, NULL);
}

static void next_order(struct outbox *o)
{
    o->again = o->held && o->retry_at_ms <= uv_now(&o->loop);
    if (!o->again) {
        o->order = outbox_queue_next_order(&o->queue);
        return;
    }
    o->order = o->held;
    o->held = o->order->next;
    outbox_queue_hold(&o->queue, false);
}

/* One step per turn of the loop, so that a long take-over leaves the network its turns. */
static void on_work(uv_idle_t *work)
{
    struct outbox *o = work->data;
    if (outbox_queue_is_stopping(&o->queue)) {
        end_thread(o);
        return;
    }
    if (!o->order)
        next_order(o);
    if (!o->order) {
        (void)uv_idle_stop(work);
        return;
    }
    if (!step(o))
        return;
    outbox_order_free(o->order);
    o->order = NULL;
    note_status(o);
}

static void on_wake(uv_async_t *wake)
{
    struct outbox *o = wake->data;
    atomic_fetch_add(&o->beats, 1);
    (void)uv_idle_start(&o->work, on_work);
    outbox_uplinks_listen(o->uplinks, outbox_queue_events(&o->queue) < EVENTS_MAX);
}

static void on_tick(uv_timer_t *tick)
{
    struct outbox *o = tick->data;
    outbox_uplinks_listen(o->uplinks, outbox_queue_events(&o->queue) < EVENTS_MAX);
    outbox_uplinks_tick(o->uplinks);
    spool_recheck(o->spool);
    note_status(o);
    if (o->order || o->held)
        (void)uv_idle_start(&o->work, on_work);
}

static void run_thread(void *arg)
{
    struct outbox *o = arg;
    outbox_uplinks_sync(o->uplinks);
    note_status(o);
    (void)uv_run(&o->loop, UV_RUN_DEFAULT);
}

/* After end_thread: until the last connection is gone, then what they shared. */
static void run_to_end(struct outbox *o)
{
    (void)uv_run(&o->loop, UV_RUN_DEFAULT);
    outbox_uplinks_free(o->uplinks);
    net_free(o->net);
    (void)uv_run(&o->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&o->loop);
}

/* ---- the owner ---- */

static void tell(struct outbox *o, const struct outbox_event *e)
{
    const struct outbox_ops *ops = o->ops;
    const struct kymo_err *why = e->err.text[0] ? &e->err : NULL;
    Kymo__Uplink__CaptureRequest *request;
    Kymo__Uplink__RingLosses *losses;
    switch (e->type) {
    case OUTBOX_EVENT_TAKEN:
        ops->taken(o->ctx, e->ticket, e->code, e->cause, &e->err);
        break;
    case OUTBOX_EVENT_NEFF:
        if (ops->neff)
            ops->neff(o->ctx, e->ticket, e->code, e->sha256, e->size, &e->err);
        break;
    case OUTBOX_EVENT_SENT:
        if (ops->sent)
            ops->sent(o->ctx, e->id, why);
        break;
    case OUTBOX_EVENT_REQUEST:
        request = kymo__uplink__capture_request__unpack(NULL, e->packed_len, e->packed);
        if (request && ops->request)
            ops->request(o->ctx, e->ticket, request);
        else
            outbox_refuse(o, e->ticket, -EOPNOTSUPP, "captures on request are not possible here");
        if (request)
            kymo__uplink__capture_request__free_unpacked(request, NULL);
        break;
    case OUTBOX_EVENT_RING_LOSSES:
        losses = kymo__uplink__ring_losses__unpack(NULL, e->packed_len, e->packed);
        if (losses && ops->ring_losses)
            ops->ring_losses(o->ctx, losses);
        if (losses)
            kymo__uplink__ring_losses__free_unpacked(losses, NULL);
        break;
    case OUTBOX_EVENT_CHANGED:
        if (ops->changed)
            ops->changed(o->ctx);
        break;
    }
}

static void tell_all(struct outbox *o)
{
    /* What comes meanwhile has its own wake-up. */
    size_t n = outbox_queue_events(&o->queue);
    struct outbox_event *e;
    for (size_t i = 0; i < n && (e = outbox_queue_next_event(&o->queue)); i++) {
        tell(o, e);
        outbox_event_free(e);
    }
    if (n >= EVENTS_MAX && !o->stopped)
        (void)uv_async_send(&o->wake);
}

static void on_events(uv_async_t *async)
{
    tell_all(async->data);
}

static int copy_text(char **to, const char *from)
{
    *to = kymo_strdup(from ? from : "");
    return *to ? 0 : -ENOMEM;
}

static void set_default(uint64_t *value, uint64_t def)
{
    *value = *value ? *value : def;
}

static void set_times(struct outbox_times *t)
{
    set_default(&t->tick, 500);
    set_default(&t->ping, 15000);
    set_default(&t->idle, 60000);
    set_default(&t->standby, 2000);
    set_default(&t->back, 10000);
    set_default(&t->dial_min, 250);
    set_default(&t->dial_max, 60000);
    set_default(&t->wait_min, 1000);
    set_default(&t->wait_max, 60000);
}

static void free_outbox(struct outbox *o)
{
    kymo_free(o->host);
    kymo_free(o->boot_id);
    kymo_free(o->writer);
    kymo_free(o);
}

static void on_events_closed(uv_handle_t *handle)
{
    free_outbox(handle->data);
}

/* The thread's loop with all that is on it; what was made is undone on failure. */
static int make_loop(struct outbox *o, struct outbox_routes *routes, struct kymo_err *err)
{
    int r = uv_loop_init(&o->loop);
    if (r < 0)
        return kymo_err_set(err, r, "outbox: no loop: %s", uv_strerror(r));
    (void)uv_idle_init(&o->loop, &o->work);
    (void)uv_timer_init(&o->loop, &o->tick);
    r = uv_async_init(&o->loop, &o->wake, on_wake);
    if (r < 0) {
        uv_close((uv_handle_t *)&o->work, NULL);
        uv_close((uv_handle_t *)&o->tick, NULL);
        r = kymo_err_set(err, r, "outbox: no event: %s", uv_strerror(r));
        goto end_loop;
    }
    o->work.data = o->tick.data = o->wake.data = o;
    (void)uv_timer_start(&o->tick, on_tick, o->times.tick, o->times.tick);
    r = net_new(&o->loop, &o->net, err);
    if (r < 0)
        goto end_handles;
    const struct outbox_uplinks_config uc = {.loop = &o->loop,
                                             .net = o->net,
                                             .spool = o->spool,
                                             .host = o->host,
                                             .boot_id = o->boot_id,
                                             .writer = o->writer,
                                             .times = o->times,
                                             .emit = emit,
                                             .ctx = o};
    r = outbox_uplinks_new(&uc, &o->uplinks, err);
    if (r == 0) {
        outbox_uplinks_route(o->uplinks, routes);
        return 0;
    }
    net_free(o->net);
end_handles:
    uv_close((uv_handle_t *)&o->work, NULL);
    uv_close((uv_handle_t *)&o->tick, NULL);
    uv_close((uv_handle_t *)&o->wake, NULL);
end_loop:
    (void)uv_run(&o->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&o->loop);
    return r;
}

/* Signals are the owner's. */
static int start_thread(struct outbox *o, struct kymo_err *err)
{
    const uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = THREAD_STACK};
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = uv_thread_create_ex(&o->thread, &options, run_thread, o);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r < 0 ? kymo_err_set(err, r, "outbox: no thread: %s", uv_strerror(r)) : 0;
}

static int prepare(struct outbox *o, const struct outbox_config *config, struct kymo_err *err)
{
    struct spool_limits limits = config->limits;
    limits.originals_stay = true;
    o->ops = config->ops;
    o->ctx = config->ctx;
    o->times = config->times;
    o->bytes_max = limits.bytes_max;
    set_times(&o->times);
    if (copy_text(&o->host, config->host) < 0 || copy_text(&o->boot_id, config->boot_id) < 0 ||
        copy_text(&o->writer, config->writer) < 0)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    return spool_open(config->spool_dir, &limits, &o->spool, err);
}

int outbox_start(uv_loop_t *loop, const struct outbox_config *config, struct outbox **ret, struct kymo_err *err)
{
    struct outbox_routes *routes;
    int r = outbox_routes_new(config, &routes, err);
    if (r < 0)
        return r;
    struct outbox *o = KYMO_NEW(struct outbox);
    r = o ? outbox_queue_init(&o->queue, err) : kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    if (r < 0) {
        outbox_routes_free(routes);
        kymo_free(o);
        return r;
    }
    r = prepare(o, config, err);
    if (r == 0)
        r = make_loop(o, routes, err);
    if (r < 0) {
        outbox_routes_free(routes);
        goto fail;
    }
    o->events.data = o;
    r = uv_async_init(loop, &o->events, on_events);
    if (r < 0) {
        r = kymo_err_set(err, r, "outbox: no event: %s", uv_strerror(r));
        end_thread(o);
        run_to_end(o);
        goto fail;
    }
    r = start_thread(o, err);
    if (r == 0) {
        *ret = o;
        return 0;
    }
    end_thread(o);
    run_to_end(o);
    o->spool = spool_close(o->spool);
    outbox_queue_done(&o->queue);
    uv_close((uv_handle_t *)&o->events, on_events_closed);
    return r;
fail:
    o->spool = spool_close(o->spool);
    outbox_queue_done(&o->queue);
    free_outbox(o);
    return r;
}

/* Orders that were not carried out. */
static void cancel(struct outbox *o, struct outbox_order *order)
{
    struct kymo_err why = {0};
    (void)kymo_err_set(&why, -ECANCELED, "the outbox was stopped");
    answer(o, order, -ECANCELED, &why);
    outbox_order_free(order);
}

struct outbox *outbox_stop(struct outbox *o)
{
    if (!o)
        return NULL;
    outbox_queue_stop(&o->queue);
    (void)uv_async_send(&o->wake);
    (void)uv_thread_join(&o->thread);
    o->stopped = true;
    run_to_end(o);
    struct outbox_order *order = KYMO_TAKE(o->order);
    while (order || (order = o->held) || (order = outbox_queue_next_order(&o->queue))) {
        if (order == o->held)
            o->held = order->next;
        cancel(o, order);
        order = NULL;
    }
    o->spool = spool_close(o->spool);
    tell_all(o);
    outbox_queue_done(&o->queue);
    uv_close((uv_handle_t *)&o->events, on_events_closed);
    return NULL;
}

static int give(struct outbox *o, struct outbox_order *order, size_t max, struct kymo_err *err)
{
    int r = o->stopped ? kymo_err_set(err, -ECANCELED, "the outbox was stopped")
                       : outbox_queue_order(&o->queue, order, max, err);
    if (r < 0)
        outbox_order_free(order);
    else
        (void)uv_async_send(&o->wake);
    return r;
}

/* An order that is answered by an event. */
static int new_order(struct outbox *o, enum outbox_order_type type, enum outbox_event_type answered,
                     struct outbox_order **ret, struct kymo_err *err)
{
    struct outbox_order *order = outbox_order_new(type);
    if (order)
        order->answer = outbox_event_new(answered);
    if (!order || !order->answer) {
        outbox_order_free(order);
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    }
    order->ticket = ++o->last_ticket;
    *ret = order;
    return 0;
}

int outbox_go(struct outbox *o, struct kymo_err *err)
{
    struct outbox_order *order = outbox_order_new(OUTBOX_ORDER_GO);
    return order ? give(o, order, VOID_ORDERS_MAX, err) : kymo_err_set(err, -ENOMEM, "outbox: out of memory");
}

uint64_t outbox_beats(struct outbox *o)
{
    (void)uv_async_send(&o->wake);
    return atomic_load(&o->beats);
}

int outbox_reconfigure(struct outbox *o, const struct outbox_config *config, struct kymo_err *err)
{
    struct outbox_order *order = outbox_order_new(OUTBOX_ORDER_CONFIGURE);
    if (!order)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    int r = outbox_routes_new(config, &order->routes, err);
    if (r == 0)
        return give(o, order, VOID_ORDERS_MAX, err);
    outbox_order_free(order);
    return r;
}

static int give_take(struct outbox *o, struct outbox_take *take, uint64_t *ret_ticket, struct kymo_err *err)
{
    struct outbox_order *order;
    int r = new_order(o, OUTBOX_ORDER_TAKE, OUTBOX_EVENT_TAKEN, &order, err);
    if (r < 0) {
        outbox_take_free(take);
        return r;
    }
    order->take = take;
    uint64_t ticket = order->ticket;
    r = give(o, order, OUTBOX_ORDERS_MAX, err);
    if (r == 0 && ret_ticket)
        *ret_ticket = ticket;
    return r;
}

int outbox_take(struct outbox *o, const Kymo__Manifest__Capture *meta, const struct outbox_file *files, size_t n,
                enum spool_how how, const char *directory, uint64_t *ret_ticket, struct kymo_err *err)
{
    struct outbox_take *take;
    int r = outbox_take_new(meta, files, n, how, directory, &take, err);
    return r < 0 ? r : give_take(o, take, ret_ticket, err);
}

int outbox_lost(struct outbox *o, const char *capture_id, uint32_t cause, const char *directory, uint64_t *ret_ticket,
                struct kymo_err *err)
{
    struct outbox_take *take;
    int r = outbox_take_new_lost(capture_id, cause, directory, &take, err);
    return r < 0 ? r : give_take(o, take, ret_ticket, err);
}

int outbox_add_neff(struct outbox *o, int fd, const char *name, uint64_t *ret_ticket, struct kymo_err *err)
{
    struct outbox_order *order;
    int r = new_order(o, OUTBOX_ORDER_NEFF, OUTBOX_EVENT_NEFF, &order, err);
    if (r < 0) {
        (void)kymo_file_close(fd);
        return r;
    }
    order->fd = fd;
    order->name = kymo_strdup(name);
    if (!order->name) {
        outbox_order_free(order);
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    }
    uint64_t ticket = order->ticket;
    r = give(o, order, OUTBOX_ORDERS_MAX, err);
    if (r == 0 && ret_ticket)
        *ret_ticket = ticket;
    return r;
}

void outbox_drop_neff(struct outbox *o, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    struct outbox_order *order = outbox_order_new(OUTBOX_ORDER_DROP_NEFF);
    if (!order)
        return;
    memcpy(order->sha256, sha256, sizeof order->sha256);
    (void)give(o, order, VOID_ORDERS_MAX, NULL);
}

void outbox_reply(struct outbox *o, uint64_t request, const char *const *capture_ids, size_t n)
{
    struct outbox_order *order = outbox_order_new(OUTBOX_ORDER_REPLY);
    if (!order)
        return;
    n = n < OUTBOX_REQUEST_IDS_MAX ? n : OUTBOX_REQUEST_IDS_MAX;
    order->request = request;
    order->ids = KYMO_NEW_ARRAY(char *, n + 1);
    for (size_t i = 0; order->ids && i < n; i++) {
        order->ids[order->n_ids] = kymo_strdup(capture_ids[i]);
        order->n_ids += order->ids[order->n_ids] != NULL;
    }
    (void)give(o, order, VOID_ORDERS_MAX, NULL);
}

void outbox_refuse(struct outbox *o, uint64_t request, int code, const char *text)
{
    struct outbox_order *order = outbox_order_new(OUTBOX_ORDER_REFUSE);
    if (!order)
        return;
    order->request = request;
    order->code = code;
    if (copy_text(&order->text, text) < 0)
        outbox_order_free(order);
    else
        (void)give(o, order, VOID_ORDERS_MAX, NULL);
}

void outbox_get_status(struct outbox *o, struct outbox_status *ret)
{
    uv_mutex_lock(&o->queue.lock);
    *ret = o->queue.status;
    ret->orders_waiting = o->queue.n_orders + o->queue.n_held;
    uv_mutex_unlock(&o->queue.lock);
}
