#include "collector/receiver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "collector/receiver_impl.h"

#define TICK_MS 1000
#define LINES_PER_SECOND 20 /* strangers must not fill the log */

uint64_t receiver_now_ms(const struct receiver *r)
{
    return uv_now(r->config.loop);
}

static void __attribute__((format(printf, 3, 4))) say(struct receiver *r, int level, const char *fmt, ...)
{
    char text[KYMO_ERR_TEXT_MAX + 256];
    uint64_t now = receiver_now_ms(r);
    if (!r->config.say)
        return;
    if (now - r->said_ms >= 1000) {
        if (r->unsaid) {
            (void)snprintf(text, sizeof text, "uplink: %u more lines in that second", r->unsaid);
            r->config.say(r->config.ctx, KYMO_LOG_WARNING, text);
        }
        r->said_ms = now;
        r->said = r->unsaid = 0;
    }
    if (r->said == LINES_PER_SECOND) {
        r->unsaid++;
        return;
    }
    r->said++;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->config.say(r->config.ctx, level, text);
}

const char *receiver_cause_name(enum receiver_cause c)
{
    static const char *const names[] = {
#define X(name, text) text,
        RECEIVER_CAUSES(X)
#undef X
    };
    return names[c];
}

static enum receiver_cause cause_of(int code)
{
    switch (uplink_reason(code)) {
    case KYMO__WIRE__REFUSAL__REASON__BUSY:
        return RECEIVER_CAUSE_BUSY;
    case KYMO__WIRE__REFUSAL__REASON__FULL:
        return RECEIVER_CAUSE_FULL;
    case KYMO__WIRE__REFUSAL__REASON__DAMAGED:
        return RECEIVER_CAUSE_DAMAGED;
    case KYMO__WIRE__REFUSAL__REASON__INVALID:
        return RECEIVER_CAUSE_INVALID;
    default:
        return RECEIVER_CAUSE_IO;
    }
}

void receiver_pump(struct receiver_conn *c)
{
    for (;;) {
        const uint8_t *data;
        size_t n, taken;
        uplink_recv_out(c->recv, &data, &n);
        if (n == 0 || net_conn_send(c->net, data, n, &taken, NULL) < 0)
            return;
        uplink_recv_consume(c->recv, taken);
        if (taken < n)
            return;
    }
}

static void end_conn(struct receiver_conn *c, const char *why)
{
    if (c->ending)
        return;
    c->ending = true;
    say(c->r, KYMO_LOG_WARNING, "%s: %s", *c->identity ? c->identity : net_conn_peer(c->net), why);
    receiver_pump(c);
    net_conn_close(c->net);
}

void receiver_check(struct receiver_conn *c, int r, const struct kymo_err *err)
{
    if (r < 0)
        end_conn(c, err->text);
    else
        receiver_pump(c);
}

static int on_hello(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    struct receiver_conn *c = ctx;
    (void)err;
    (void)snprintf(c->host, sizeof c->host, "%s", peer->host ? peer->host : "");
    (void)snprintf(c->writer, sizeof c->writer, "%s", peer->writer ? peer->writer : "");
    (void)snprintf(c->boot_id, sizeof c->boot_id, "%s", peer->boot_id ? peer->boot_id : "");
    /* A certificate says who it is; without one the peer is believed. */
    if (!*c->identity)
        (void)snprintf(c->identity, sizeof c->identity, "%s", *c->host ? c->host : net_conn_peer(c->net));
    c->greeted = true;
    c->alive_ms = receiver_now_ms(c->r);
    say(c->r, KYMO_LOG_INFO, "%s: connected from %s (%s, host %s)", c->identity, net_conn_peer(c->net),
        *c->writer ? c->writer : "unnamed program", *c->host ? c->host : "unnamed");
    receiver_tell_host(c);
    return 0;
}

/* The same daemon may come again before its former connection is known to be gone. */
static int take_over(struct receiver_conn *c, struct intake *other, struct kymo_err *err)
{
    struct receiver_conn *from = intake_owner(other);
    if (from && (from == c || strcmp(from->identity, c->identity) != 0))
        return kymo_err_set(err, -EBUSY, "capture %s is being received from %s", intake_id(other), from->identity);
    struct kymo_err cause = {0};
    if (from)
        receiver_check(
            from, uplink_recv_refuse(from->recv, other, -EBUSY, "it goes on over another connection", &cause), &cause);
    else
        intake_end(other);
    return 0;
}

static int on_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                    struct kymo_err *err)
{
    struct receiver_conn *c = ctx;
    struct intake *i = NULL, *other = intakes_find(c->r->config.intakes, offer->capture_id);
    (void)offsets;
    int r = other ? take_over(c, other, err) : 0;
    if (r == 0)
        r = intake_offer(c->r->config.intakes, c, c->identity, offer, &i, err);
    if (r < 0) {
        c->r->figures.refused[cause_of(r)]++;
        return r;
    }
    *ret_handle = i;
    return UPLINK_RECV_LATER;
}

static int on_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                    struct kymo_err *err)
{
    struct receiver_conn *c = ctx;
    int r = intake_write(handle, item, offset, data, n, err);
    if (r < 0)
        return r;
    c->received += n;
    c->r->figures.bytes += n;
    return UPLINK_RECV_LATER;
}

static int on_done(void *ctx, void *handle, struct kymo_err *err)
{
    (void)ctx;
    int r = intake_done(handle, err);
    return r < 0 ? r : UPLINK_RECV_LATER;
}

static void on_drop(void *ctx, void *handle)
{
    (void)ctx;
    intake_end(handle);
}

static const struct uplink_recv_ops recv_ops = {
    .hello = on_hello,
    .offer = on_offer,
    .write = on_write,
    .done = on_done,
    .drop = on_drop,
    .host_losses = receiver_on_host_losses,
    .reply = receiver_on_reply,
    .refused = receiver_on_refused,
};

static void intake_began(void *owner, struct intake *i, const uint64_t *offsets)
{
    struct receiver_conn *c = owner;
    struct kymo_err err = {0};
    receiver_check(c, uplink_recv_accept(c->recv, i, offsets, &err), &err);
}

static void intake_have(void *owner, struct intake *i)
{
    struct receiver_conn *c = owner;
    struct kymo_err err = {0};
    int r = uplink_recv_have(c->recv, i, &err);
    c->r->figures.known++;
    intake_end(i);
    receiver_check(c, r, &err);
}

static void resume_all(struct receiver *r)
{
    if (!r->n_paused || intakes_bytes(r->config.intakes) >= r->config.max_bytes / 2)
        return;
    for (struct receiver_conn *c = r->first; c && r->n_paused; c = c->next) {
        if (!c->paused)
            continue;
        c->paused = false;
        r->n_paused--;
        /* It could not answer meanwhile. */
        c->alive_ms = receiver_now_ms(r);
        net_conn_pause(c->net, false);
    }
}

static void intake_taken(void *owner, struct intake *i, size_t n)
{
    struct receiver_conn *c = owner;
    struct kymo_err err = {0};
    (void)i;
    if (!c->ending)
        receiver_check(c, uplink_recv_taken(c->recv, n, &err), &err);
    resume_all(c->r);
}

static void intake_durable(void *owner, struct intake *i, uint32_t item, uint64_t offset)
{
    struct receiver_conn *c = owner;
    struct kymo_err err = {0};
    receiver_check(c, uplink_recv_durable(c->recv, i, item, offset, &err), &err);
}

static void intake_stored(void *owner, struct intake *i)
{
    struct receiver_conn *c = owner;
    struct kymo_err err = {0};
    int r = uplink_recv_stored(c->recv, i, &err);
    c->stored++;
    c->r->figures.stored++;
    c->r->trouble[0] = '\0';
    say(c->r, KYMO_LOG_INFO, "%s: capture %s is stored", c->identity, intake_id(i));
    intake_end(i);
    receiver_check(c, r, &err);
}

static void intake_failed(void *owner, struct intake *i, int code, const char *text)
{
    struct receiver_conn *c = owner;
    struct kymo_err err = {0};
    say(c->r, KYMO_LOG_WARNING, "%s: %s", c->identity, text);
    c->r->figures.refused[cause_of(code)]++;
    if (code == -ENOSPC || code == -EDQUOT)
        (void)snprintf(c->r->trouble, sizeof c->r->trouble, "%s", text);
    /* Its drop ends the intake. */
    receiver_check(c, uplink_recv_refuse(c->recv, i, code, text, &err), &err);
}

const struct intake_ops receiver_intake_ops = {
    .began = intake_began,
    .have = intake_have,
    .taken = intake_taken,
    .durable = intake_durable,
    .stored = intake_stored,
    .failed = intake_failed,
};

static int on_data(struct net_conn *net, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct receiver_conn *c = ctx;
    struct receiver *r = c->r;
    (void)net;
    int code = uplink_recv_feed(c->recv, data, n, err);
    receiver_pump(c);
    if (code < 0) {
        c->ending = true;
        r->figures.refused[RECEIVER_CAUSE_PROTOCOL] += code != -ECONNREFUSED;
        return code;
    }
    receiver_look_at_pong(c);
    if (!c->paused && intakes_bytes(r->config.intakes) > r->config.max_bytes) {
        c->paused = true;
        r->n_paused++;
        net_conn_pause(c->net, true);
    }
    return 0;
}

static void on_writable(struct net_conn *net, void *ctx)
{
    (void)net;
    receiver_pump(ctx);
}

static void tell_idle(struct receiver *r)
{
    if (r->stopped && r->n == 0 && r->config.idle)
        r->config.idle(r->config.ctx);
}

static void conn_free(struct receiver_conn *c)
{
    uplink_recv_free(c->recv);
    intakes_orphan(c->r->config.intakes, c);
    receiver_request_gone(c->r, c);
    if (c->paused)
        c->r->n_paused--;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->r->n--;
    tell_idle(c->r);
    kymo_free(c);
}

/* Errors of a connection begin with its address already. */
static void say_why(struct receiver_conn *c, const struct net_conn *net, const char *text)
{
    const char *peer = net_conn_peer(net);
    if (!*c->identity && strncmp(text, peer, strlen(peer)) == 0)
        say(c->r, KYMO_LOG_WARNING, "%s", text);
    else
        say(c->r, KYMO_LOG_WARNING, "%s: %s", *c->identity ? c->identity : peer, text);
}

static void on_closed(struct net_conn *net, void *ctx, const struct kymo_err *why)
{
    struct receiver_conn *c = ctx;
    if (why->code && why->code != -EPIPE)
        say_why(c, net, why->text);
    else if (c->greeted && !c->r->stopped)
        say(c->r, KYMO_LOG_INFO, "%s: disconnected", c->identity);
    conn_free(c);
}

static const struct net_conn_ops conn_ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static unsigned connections_of(const struct receiver *r, const char *identity)
{
    unsigned n = 0;
    for (const struct receiver_conn *c = r->first; c; c = c->next)
        n += strcmp(c->identity, identity) == 0;
    return n;
}

/* What is wrong with a peer of this name, or NULL. */
static const char *check_identity(const struct receiver *r, const char *identity)
{
    if (!r->config.tls)
        return NULL;
    if (!*identity)
        return "its certificate has no name";
    return connections_of(r, identity) >= r->config.max_per_host ? "too many connections of this host" : NULL;
}

static void *on_accepted(void *ctx, struct net_conn *net)
{
    struct receiver *r = ctx;
    struct kymo_err err = {0};
    struct receiver_conn *c = r->stopped ? NULL : KYMO_NEW(struct receiver_conn);
    if (!c)
        return NULL;
    net_conn_peer_name(net, c->identity);
    const struct uplink_recv_config rc = {.writer = "kymo-collector " KYMO_VERSION,
                                          .host = r->config.host,
                                          .zstd = true,
                                          .window = r->config.window,
                                          .ops = &recv_ops,
                                          .ctx = c};
    const char *why = check_identity(r, c->identity);
    if (!why && uplink_recv_new(&rc, &c->recv, &err) < 0)
        why = err.text;
    if (why) {
        r->figures.refused[RECEIVER_CAUSE_CONNECTION]++;
        say(r, KYMO_LOG_WARNING, "%s: not accepted: %s", net_conn_peer(net), why);
        kymo_free(c);
        return NULL;
    }
    c->r = r;
    c->net = net;
    c->opened_ms = receiver_now_ms(r);
    c->next = r->first;
    c->link = &r->first;
    if (c->next)
        c->next->link = &c->next;
    r->first = c;
    r->n++;
    r->figures.accepted++;
    return c;
}

static void on_refused(void *ctx, const char *peer, const struct kymo_err *why)
{
    struct receiver *r = ctx;
    r->figures.refused[RECEIVER_CAUSE_CONNECTION]++;
    say(ctx, KYMO_LOG_WARNING, "%s: not accepted: %s", peer, why->text);
}

int receiver_ping(struct receiver_conn *c, struct kymo_err *err)
{
    c->pinged_ms = receiver_now_ms(c->r);
    return uplink_recv_ping(c->recv, ++c->nonce, err);
}

static void end_silent(struct receiver_conn *c, const char *why)
{
    c->r->figures.refused[RECEIVER_CAUSE_SILENT]++;
    end_conn(c, why);
}

static void watch_pings(struct receiver_conn *c, uint64_t now)
{
    const struct receiver_config *config = &c->r->config;
    if (c->received - c->received_before >= (uint64_t)RECEIVER_PROGRESS_MIN * TICK_MS / 1000)
        c->alive_ms = now;
    c->received_before = c->received;
    bool answered = session_last_pong(uplink_recv_session(c->recv)) == c->nonce;
    if (answered && c->nonce)
        c->alive_ms = c->alive_ms > c->pinged_ms ? c->alive_ms : c->pinged_ms;
    if (now - c->alive_ms >= config->dead_ms) {
        end_silent(c, "does not answer any more");
    } else if (answered && now - c->pinged_ms >= config->ping_ms) {
        struct kymo_err err = {0};
        receiver_check(c, receiver_ping(c, &err), &err);
    }
}

/* Time in which this program itself stood still, such as a suspended machine, is nobody else's silence: their answers
 * wait in the sockets. */
static void forgive_own_pause(struct receiver *r, uint64_t now)
{
    uint64_t since = now - r->ticked_ms, pause = since > 2 * r->tick_ms ? since - r->tick_ms : 0;
    r->ticked_ms = now;
    for (struct receiver_conn *c = r->first; pause && c; c = c->next) {
        c->alive_ms = c->alive_ms + pause < now ? c->alive_ms + pause : now;
        c->opened_ms = c->opened_ms + pause < now ? c->opened_ms + pause : now;
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct receiver *r = timer->data;
    uint64_t now = receiver_now_ms(r);
    forgive_own_pause(r, now);
    for (struct receiver_conn *c = r->first, *next; c; c = next) {
        next = c->next;
        if (c->ending || c->paused)
            continue;
        if (c->greeted)
            watch_pings(c, now);
        else if (now - c->opened_ms >= r->config.hello_ms)
            end_silent(c, "said no hello in time");
    }
    resume_all(r);
    receiver_request_tick(r);
}

static void set_defaults(struct receiver_config *c)
{
    c->max_connections = c->max_connections ? c->max_connections : RECEIVER_CONNECTIONS;
    c->max_per_host = c->max_per_host ? c->max_per_host : RECEIVER_PER_HOST;
    c->max_bytes = c->max_bytes ? c->max_bytes : RECEIVER_BYTES;
    c->hello_ms = c->hello_ms ? c->hello_ms : RECEIVER_HELLO_MS;
    c->ping_ms = c->ping_ms ? c->ping_ms : RECEIVER_PING_MS;
    c->dead_ms = c->dead_ms ? c->dead_ms : RECEIVER_DEAD_MS;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int receiver_new(const struct receiver_config *config, struct receiver **ret, struct kymo_err *err)
{
    struct receiver *r = KYMO_NEW(struct receiver);
    if (!r)
        return kymo_err_set(err, -ENOMEM, "no memory for the receiver");
    r->config = *config;
    set_defaults(&r->config);
    /* Requests are named in manifests, where those of an earlier start must not be met again. */
    r->last_request = kymo_clock_real_ns() / 1000000;
    const struct net_listener_config lc = {
        .address = config->address,
        .adopt = config->adopt,
        .socket = config->socket,
        .tls = config->tls,
        .plain_anywhere = config->plain_anywhere,
        .max_connections = r->config.max_connections,
        .accepted = on_accepted,
        .refused = on_refused,
        .ops = &conn_ops,
        .ctx = r,
    };
    int code = net_listener_new(config->net, &lc, &r->listener, err);
    if (code < 0) {
        kymo_free(r);
        return code;
    }
    r->tick_ms = least(TICK_MS, least(r->config.hello_ms, least(r->config.ping_ms, r->config.dead_ms)) / 2 + 1);
    r->ticked_ms = receiver_now_ms(r);
    (void)uv_timer_init(config->loop, &r->timer);
    r->timer.data = r;
    (void)uv_timer_start(&r->timer, on_tick, r->tick_ms, r->tick_ms);
    *ret = r;
    return 0;
}

int receiver_port(const struct receiver *r)
{
    return net_listener_port(r->listener);
}

void receiver_set_tls(struct receiver *r, struct tls_context *t)
{
    r->config.tls = t;
    net_listener_set_tls(r->listener, t);
}

void receiver_hosts(const struct receiver *r, void (*each)(void *ctx, const struct receiver_host *h), void *ctx)
{
    for (const struct receiver_conn *c = r->first; c; c = c->next) {
        if (!c->greeted || c->ending)
            continue;
        const struct receiver_host h = {
            .identity = c->identity,
            .host = c->host,
            .address = net_conn_peer(c->net),
            .writer = c->writer,
            .boot_id = c->boot_id,
            .version = session_version(uplink_recv_session(c->recv)),
            .connected_ms = receiver_now_ms(r) - c->opened_ms,
            .captures = uplink_recv_captures(c->recv),
            .stored = c->stored,
            .received = c->received,
        };
        each(ctx, &h);
    }
}

void receiver_figures(const struct receiver *r, struct receiver_figures *ret)
{
    *ret = r->figures;
    ret->open = intakes_open(r->config.intakes);
    ret->waiting = intakes_bytes(r->config.intakes);
    struct intakes_figures f;
    intakes_figures(r->config.intakes, &f);
    ret->incoming = f.captures;
    ret->incoming_bytes = f.bytes;
    memcpy(ret->forgotten, f.forgotten, sizeof ret->forgotten);
    ret->trouble = *r->trouble ? r->trouble : NULL;
    for (const struct receiver_conn *c = r->first; c; c = c->next)
        ret->hosts += c->greeted && !c->ending;
}

void receiver_stop(struct receiver *r)
{
    if (r->stopped)
        return;
    r->stopped = true;
    r->listener = net_listener_close(r->listener);
    (void)uv_timer_stop(&r->timer);
    receiver_request_end(r);
    for (struct receiver_conn *c = r->first; c; c = c->next) {
        c->ending = true;
        net_conn_close(c->net);
    }
    tell_idle(r);
}

static void on_timer_closed(uv_handle_t *handle)
{
    kymo_free(handle->data);
}

struct receiver *receiver_free(struct receiver *r)
{
    if (r)
        uv_close((uv_handle_t *)&r->timer, on_timer_closed);
    return NULL;
}
