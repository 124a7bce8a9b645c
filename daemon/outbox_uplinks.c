#include "daemon/outbox_uplinks.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "daemon/outbox_cargo.h"
#include "daemon/outbox_link.h"
#include "daemon/outbox_losses.h"

#define REQUESTS_MAX 64
#define DAMAGED_MAX 3 /* refusals for a wrong hash, then the capture is not what was published */
#define THROTTLE_MS 50
#define CHUNK_MIN 4096u
#define KNOWN_MAX 64 /* NEFFs that the collector is known to have */

struct request {
    uint64_t number; /* as the events and replies have it */
    struct outbox_link_peer *link;
    uint64_t id; /* as the collector has it */
};

struct route {
    struct outbox_link_peer *link; /* NULL: not called */
    uint64_t usable_ms, broken_ms; /* since when it is the one or the other; 0: it is not */
    uint64_t held_until_ms;        /* it has refused all for now */
    unsigned holds;
    struct kymo_err held_why;
};

struct outbox_uplinks {
    struct outbox_uplinks_config config;
    struct outbox_routes *routes;
    struct route route[OUTBOX_COLLECTORS_MAX];
    bool going, closing, paused;
    struct outbox_cargo **cargo; /* by rising sequence */
    size_t n_cargo, cargo_cap;
    struct outbox_cargo_reader reader;
    uv_timer_t throttle;
    uint64_t tokens, filled_ms; /* bytes that may go now */
    struct request requests[REQUESTS_MAX];
    size_t n_requests;
    uint64_t last_request, random;
    /* NEFFs that the collector that is used now has got from here; the oldest is forgotten first. */
    uint8_t known[KNOWN_MAX][KYMO_SHA256_SIZE];
    size_t n_known;
    const struct outbox_link_peer *known_to;
    uint64_t ends; /* captures that are not under way any more, and one */
    struct outbox_losses losses;
    const struct outbox_link_peer *losses_to; /* that link has the batch under way; NULL: none */
};

static uint64_t now_ms(const struct outbox_uplinks *u)
{
    return uv_now(u->config.loop);
}

/* ---- the captures ---- */

static size_t cargo_index(const struct outbox_uplinks *u, uint64_t seq)
{
    size_t low = 0, high = u->n_cargo;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (u->cargo[middle]->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* It has left the spool; why: not because a collector has it. */
static void end_cargo(struct outbox_uplinks *u, struct outbox_cargo *c, int code, const char *why)
{
    size_t i = cargo_index(u, c->seq);
    u->n_cargo--;
    memmove(u->cargo + i, u->cargo + i + 1, (u->n_cargo - i) * sizeof *u->cargo);
    struct outbox_event *e = KYMO_TAKE(c->end);
    e->code = code;
    if (code)
        (void)kymo_err_set(&e->err, code, "capture %s: %s", c->id, why);
    u->config.emit(u->config.ctx, e);
    outbox_cargo_free(c, u->config.spool);
}

static uint64_t back_off(struct outbox_uplinks *u, unsigned tries)
{
    const struct outbox_times *t = &u->config.times;
    uint64_t wait = t->wait_min;
    for (unsigned i = 1; i < tries && wait < t->wait_max; i++)
        wait *= 2;
    wait = wait < t->wait_max ? wait : t->wait_max;
    /* Many hosts that were refused together do not come back together. */
    u->random = u->random * 6364136223846793005u + 1442695040888963407u;
    return wait / 2 + (u->random >> 33) % (wait / 2 + 1);
}

static void offer_later(struct outbox_uplinks *u, struct outbox_cargo *c)
{
    c->tries++;
    c->not_before_ms = now_ms(u) + back_off(u, c->tries);
}

static void lose(struct outbox_uplinks *u, struct outbox_cargo *c, uint32_t cause, const char *why)
{
    struct kymo_err err = {0};
    int r = spool_lose(u->config.spool, c->seq, cause, &err);
    if (r < 0 && r != -ENOENT)
        offer_later(u, c); /* the journal cannot be written now: it is offered again, and refused again */
    else
        end_cargo(u, c, r < 0 ? -ENODATA : -EREMOTEIO, r < 0 ? "evicted from the spool" : why);
}

/* It is not under way any more. */
static void come_back(struct outbox_uplinks *u, struct outbox_cargo *c)
{
    c->link = NULL;
    u->ends++;
    if (c->gone)
        end_cargo(u, c, -ENODATA, "evicted from the spool");
}

/* ---- the collectors ---- */

static size_t route_of(const struct outbox_uplinks *u, const struct outbox_link_peer *l)
{
    size_t i = 0;
    while (i < OUTBOX_COLLECTORS_MAX && u->route[i].link != l)
        i++;
    return i;
}

static void hold(struct outbox_uplinks *u, const struct outbox_link_peer *l, unsigned tries, const char *text)
{
    size_t i = route_of(u, l);
    if (i == OUTBOX_COLLECTORS_MAX)
        return;
    struct route *r = &u->route[i];
    if (r->held_until_ms > now_ms(u))
        return;
    r->holds += tries;
    r->held_until_ms = now_ms(u) + back_off(u, r->holds);
    (void)kymo_err_set(&r->held_why, -EBUSY, "%s", text);
}

/* The collector that gets what is offered now, or NULL. */
static struct outbox_link_peer *active(const struct outbox_uplinks *u)
{
    const struct route *first = &u->route[0], *second = &u->route[1];
    bool back = first->usable_ms && now_ms(u) - first->usable_ms >= u->config.times.back;
    if (first->usable_ms && (back || !second->usable_ms))
        return first->link;
    return second->usable_ms ? second->link : NULL;
}

static bool is_known(const struct outbox_uplinks *u, const uint8_t *sha256)
{
    for (size_t i = 0; i < KNOWN_MAX && i < u->n_known; i++)
        if (memcmp(u->known[i], sha256, KYMO_SHA256_SIZE) == 0)
            return true;
    return false;
}

static void note_known(struct outbox_uplinks *u, const struct outbox_link_peer *l, const struct outbox_cargo *c)
{
    if (u->known_to != l)
        u->n_known = 0;
    u->known_to = l;
    for (size_t i = 0; i < c->n_items; i++)
        if (c->items[i].neff && !is_known(u, c->items[i].sha256))
            memcpy(u->known[u->n_known++ % KNOWN_MAX], c->items[i].sha256, KYMO_SHA256_SIZE);
}

/* A NEFF that is on its way with one capture would be wanted a second time for the next. */
static bool may_send(void *ctx, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    const struct outbox_uplinks *u = ctx;
    const struct outbox_link_peer *l = active(u);
    if (u->known_to == l && is_known(u, sha256))
        return true;
    size_t left = uplink_send_captures(outbox_link_send(l));
    for (size_t i = 0; i < u->n_cargo && left > 0; i++) {
        const struct outbox_cargo *c = u->cargo[i];
        left -= c->link == l;
        for (size_t k = 0; c->link == l && k < c->n_items; k++)
            if (c->items[k].neff && memcmp(c->items[k].sha256, sha256, KYMO_SHA256_SIZE) == 0)
                return false;
    }
    return true;
}

static int offer(struct outbox_uplinks *u, struct outbox_link_peer *l, struct outbox_cargo *c)
{
    struct kymo_err err = {0};
    const struct outbox_cargo_ask ask = {may_send, u};
    if (c->blocked_at == u->ends)
        return -EINPROGRESS;
    int r = outbox_cargo_offer(c, u->config.spool, outbox_link_send(l), &ask, &err);
    switch (r) {
    case 0:
        c->link = l;
        break;
    case -EINPROGRESS:
        c->blocked_at = u->ends;
        return r;
    case -ENOENT:
        end_cargo(u, c, -ENODATA, "evicted from the spool");
        break;
    case -EBADMSG:
    case -EIO:
        lose(u, c, SPOOL_UNREADABLE, err.text);
        break;
    case -EINVAL:
        lose(u, c, SPOOL_REFUSED, err.text);
        break;
    case -EAGAIN:
    case -ENOBUFS:
        return r;
    default:
        offer_later(u, c);
    }
    return 0;
}

/* In order, as many as may be under way. */
static void offer_some(struct outbox_uplinks *u)
{
    struct outbox_link_peer *l = u->closing ? NULL : active(u);
    if (!l)
        return;
    uint64_t now = now_ms(u);
    for (size_t i = 0; i < u->n_cargo;) {
        struct outbox_cargo *c = u->cargo[i];
        size_t before = u->n_cargo;
        if (!outbox_link_send(l) || uplink_send_captures(outbox_link_send(l)) == UPLINK_CAPTURES_MAX)
            break;
        if (!c->link && c->not_before_ms <= now && offer(u, l, c) < 0)
            break;
        i += u->n_cargo == before;
    }
    outbox_link_pump(l);
}

static void tell_losses(struct outbox_uplinks *u)
{
    struct outbox_link_peer *l = u->closing ? NULL : active(u);
    if (!l)
        return;
    if (u->losses_to != l)
        outbox_losses_reset(&u->losses);
    u->losses_to = l;
    if (outbox_losses_tell(&u->losses, u->config.spool, outbox_link_send(l), now_ms(u), u->config.times.wait_max))
        outbox_link_pump(l);
}

static void note_usable(struct outbox_uplinks *u)
{
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++) {
        struct route *r = &u->route[i];
        bool usable = r->link && outbox_link_send(r->link) && r->held_until_ms <= now_ms(u);
        if (usable)
            r->broken_ms = 0;
        else if (!r->broken_ms)
            r->broken_ms = now_ms(u);
        if (!usable)
            r->usable_ms = 0;
        else if (!r->usable_ms)
            r->usable_ms = now_ms(u);
    }
}

/* ---- what uplink_send calls ---- */

static struct outbox_uplinks *owner(void *ctx)
{
    return outbox_link_owner(ctx);
}

static int on_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n, struct kymo_err *err)
{
    struct outbox_uplinks *u = owner(ctx);
    struct outbox_cargo *c = handle;
    int r = c->gone ? kymo_err_set(err, -ENOENT, "capture %s: evicted", c->id)
                    : outbox_cargo_read(&u->reader, u->config.spool, c, item, offset, buf, n, err);
    c->read_code = r;
    return r;
}

static void on_ready(void *ctx, const Kymo__Wire__Hello *peer)
{
    (void)peer;
    outbox_link_ready(ctx);
}

static void on_ack(void *ctx, void *handle, uint32_t item, uint64_t offset)
{
    struct outbox_uplinks *u = owner(ctx);
    struct outbox_cargo *c = handle;
    outbox_link_good(ctx);
    c->tries = 0;
    if (!c->gone)
        outbox_cargo_ack(c, u->config.spool, item, offset);
}

static void on_stored(void *ctx, void *handle)
{
    struct outbox_uplinks *u = owner(ctx);
    struct outbox_cargo *c = handle;
    size_t i = route_of(u, ctx);
    outbox_link_good(ctx);
    if (i < OUTBOX_COLLECTORS_MAX)
        u->route[i].holds = 0;
    c->link = NULL;
    u->ends++;
    note_known(u, ctx, c);
    int r = c->gone ? 0 : spool_stored(u->config.spool, c->seq, NULL);
    /* When that cannot be written down it is offered again, and the collector says that it has it. */
    if (r < 0 && r != -ENOENT)
        offer_later(u, c);
    else
        end_cargo(u, c, 0, NULL);
}

static void on_read_failed(struct outbox_uplinks *u, struct outbox_cargo *c, const char *text)
{
    if (c->read_code == -EBADMSG || c->read_code == -EIO)
        lose(u, c, SPOOL_UNREADABLE, text);
    else
        offer_later(u, c);
}

static void on_refused(void *ctx, void *handle, int why, const char *text)
{
    struct outbox_uplinks *u = owner(ctx);
    struct outbox_cargo *c = handle;
    c->link = NULL;
    u->ends++;
    if (c->gone || c->read_code < 0) {
        if (c->gone)
            come_back(u, c);
        else
            on_read_failed(u, c, text);
        return;
    }
    switch (why) {
    case KYMO__WIRE__REFUSAL__REASON__INVALID:
    case KYMO__WIRE__REFUSAL__REASON__UNSUPPORTED:
        lose(u, c, SPOOL_REFUSED, text);
        return;
    case KYMO__WIRE__REFUSAL__REASON__DAMAGED:
        if (++c->damaged == DAMAGED_MAX) {
            lose(u, c, SPOOL_UNREADABLE, text);
            return;
        }
        break;
    case KYMO__WIRE__REFUSAL__REASON__FULL:
    case KYMO__WIRE__REFUSAL__REASON__IO:
        hold(u, ctx, 1, text);
        break;
    case KYMO__WIRE__REFUSAL__REASON__FORBIDDEN:
        hold(u, ctx, 32, text);
        break;
    default:
        break;
    }
    offer_later(u, c);
}

static int pack(const ProtobufCMessage *m, struct outbox_event *e)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    e->packed = kymo_malloc(n + 1);
    if (!e->packed)
        return -ENOMEM;
    e->packed_len = protobuf_c_message_pack(m, e->packed);
    return 0;
}

static int on_request(void *ctx, const Kymo__Uplink__CaptureRequest *wanted, struct kymo_err *err)
{
    struct outbox_uplinks *u = owner(ctx);
    if (u->n_requests == REQUESTS_MAX)
        return kymo_err_set(err, -EBUSY, "%d requests wait for their answers", REQUESTS_MAX);
    struct outbox_event *e = outbox_event_new(OUTBOX_EVENT_REQUEST);
    if (!e || pack(&wanted->base, e) < 0) {
        outbox_event_free(e);
        return kymo_err_set(err, -EBUSY, "out of memory");
    }
    e->ticket = ++u->last_request;
    u->requests[u->n_requests++] = (struct request){u->last_request, ctx, wanted->request_id};
    u->config.emit(u->config.ctx, e);
    return 0;
}

static void on_ring_losses(void *ctx, const Kymo__Uplink__RingLosses *losses)
{
    struct outbox_uplinks *u = owner(ctx);
    struct outbox_event *e = outbox_event_new(OUTBOX_EVENT_RING_LOSSES);
    /* Without memory these counts are not told: they are in the profile in any case. */
    if (e && pack(&losses->base, e) == 0)
        u->config.emit(u->config.ctx, KYMO_TAKE(e));
    outbox_event_free(e);
}

static void on_losses_kept(void *ctx, uint64_t batch)
{
    struct outbox_uplinks *u = owner(ctx);
    if (u->losses_to == ctx)
        outbox_losses_kept(&u->losses, u->config.spool, batch);
}

static const struct uplink_send_ops send_ops = {.read = on_read,
                                                .on_ready = on_ready,
                                                .on_ack = on_ack,
                                                .on_stored = on_stored,
                                                .on_refused = on_refused,
                                                .on_request = on_request,
                                                .on_losses = on_ring_losses,
                                                .on_losses_kept = on_losses_kept};

/* ---- what a link calls ---- */

static void on_up(void *ctx, struct outbox_link_peer *l)
{
    (void)l;
    note_usable(ctx);
}

static void forget_requests(struct outbox_uplinks *u, const struct outbox_link_peer *l)
{
    size_t n = 0;
    for (size_t i = 0; i < u->n_requests; i++)
        if (u->requests[i].link != l)
            u->requests[n++] = u->requests[i];
    u->n_requests = n;
}

static void on_down(void *ctx, struct outbox_link_peer *l, const struct kymo_err *why)
{
    struct outbox_uplinks *u = ctx;
    bool first = true;
    forget_requests(u, l);
    if (u->losses_to == l)
        u->losses_to = NULL;
    if (u->known_to == l)
        u->known_to = NULL;
    for (size_t i = 0; i < u->n_cargo;) {
        struct outbox_cargo *c = u->cargo[i];
        size_t before = u->n_cargo;
        if (c->link == l) {
            /* It may be this one that the peer cannot bear: others go first next time. */
            if (first && (why->code == -ECONNREFUSED || why->code == -EPROTO))
                offer_later(u, c);
            first = false;
            come_back(u, c);
        }
        i += u->n_cargo == before;
    }
    note_usable(u);
}

static void on_heard(void *ctx, struct outbox_link_peer *l)
{
    (void)l;
    offer_some(ctx);
}

static void pump_all(struct outbox_uplinks *u)
{
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        if (u->route[i].link)
            outbox_link_pump(u->route[i].link);
}

static void on_throttle(uv_timer_t *timer)
{
    pump_all(timer->data);
}

static void refill(struct outbox_uplinks *u)
{
    uint64_t rate = u->routes->rate_bytes_s, passed = now_ms(u) - u->filled_ms;
    passed = passed < 1000 ? passed : 1000;
    uint64_t more = rate / 1000 * passed + rate % 1000 * passed / 1000;
    if (more == 0)
        return;
    u->filled_ms = now_ms(u);
    uint64_t depth = rate / 4 > CHUNK_MIN ? rate / 4 : CHUNK_MIN;
    u->tokens = u->tokens + more < depth ? u->tokens + more : depth;
}

static size_t allow(void *ctx, size_t n)
{
    struct outbox_uplinks *u = ctx;
    if (u->closing || u->routes->rate_bytes_s == 0)
        return n;
    refill(u);
    if (u->tokens == 0 && !uv_is_active((uv_handle_t *)&u->throttle))
        (void)uv_timer_start(&u->throttle, on_throttle, THROTTLE_MS, 0);
    return n < u->tokens ? n : (size_t)u->tokens;
}

static void spent(void *ctx, size_t n)
{
    struct outbox_uplinks *u = ctx;
    u->tokens -= n < u->tokens ? n : u->tokens;
}

static const struct outbox_link_ops link_ops = {
    .send = &send_ops, .up = on_up, .down = on_down, .heard = on_heard, .allow = allow, .spent = spent};

/* ---- calling and letting go ---- */

/* Frames that take seconds at the rate would keep pings waiting behind them. */
static uint32_t chunk_for(uint64_t rate)
{
    if (rate == 0 || rate / 8 >= UPLINK_SEND_CHUNK)
        return UPLINK_SEND_CHUNK;
    return rate / 8 > CHUNK_MIN ? (uint32_t)(rate / 8) : CHUNK_MIN;
}

static void call(struct outbox_uplinks *u, size_t i)
{
    struct route *r = &u->route[i];
    if (r->link || !u->routes->collectors[i])
        return;
    const struct outbox_uplinks_config *c = &u->config;
    const struct outbox_link_config lc = {.loop = c->loop,
                                          .net = c->net,
                                          .address = u->routes->collectors[i],
                                          .tls = u->routes->tls,
                                          .plain_anywhere = u->routes->plain_anywhere,
                                          .zstd_level = u->routes->zstd_level,
                                          .chunk = chunk_for(u->routes->rate_bytes_s),
                                          .host = c->host,
                                          .boot_id = c->boot_id,
                                          .writer = c->writer,
                                          .versions = c->versions,
                                          .times = c->times,
                                          .ops = &link_ops,
                                          .owner = u};
    /* No memory: again at the next tick. */
    if (outbox_link_new(&lc, &r->link, NULL) < 0)
        r->link = NULL;
}

static void let_go(struct outbox_uplinks *u, size_t i)
{
    struct outbox_link_peer *l = u->route[i].link;
    if (!l)
        return;
    /* Its end still tells by this link what comes back. */
    outbox_link_close(l);
    u->route[i] = (struct route){.link = NULL};
}

static bool is_under_way(const struct outbox_uplinks *u, const struct outbox_link_peer *l)
{
    for (size_t i = 0; i < u->n_cargo; i++)
        if (u->cargo[i]->link == l)
            return true;
    return false;
}

static void choose(struct outbox_uplinks *u)
{
    if (!u->going || u->closing || !u->routes)
        return;
    const struct route *first = &u->route[0], *second = &u->route[1];
    const struct outbox_times *t = &u->config.times;
    call(u, 0);
    note_usable(u);
    bool first_is_back = first->usable_ms && now_ms(u) - first->usable_ms >= t->back;
    bool first_is_down = !first->link || (first->broken_ms && now_ms(u) - first->broken_ms >= t->standby);
    if (second->link && first_is_back && !is_under_way(u, second->link))
        let_go(u, 1);
    else if (!second->link && first_is_down)
        call(u, 1);
}

/* ---- the outside ---- */

int outbox_uplinks_new(const struct outbox_uplinks_config *config, struct outbox_uplinks **ret, struct kymo_err *err)
{
    struct outbox_uplinks *u = KYMO_NEW(struct outbox_uplinks);
    if (!u)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    u->config = *config;
    u->ends = 1;
    u->reader.fd = -1;
    u->random = kymo_clock_real_ns();
    (void)uv_timer_init(config->loop, &u->throttle);
    u->throttle.data = u;
    *ret = u;
    return 0;
}

void outbox_uplinks_close(struct outbox_uplinks *u)
{
    u->closing = true;
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        let_go(u, i);
    uv_close((uv_handle_t *)&u->throttle, NULL);
}

void outbox_uplinks_free(struct outbox_uplinks *u)
{
    if (!u)
        return;
    for (size_t i = 0; i < u->n_cargo; i++)
        outbox_cargo_free(u->cargo[i], u->config.spool);
    kymo_free(u->cargo);
    outbox_routes_free(u->routes);
    (void)kymo_file_close(u->reader.fd);
    kymo_free(u);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

void outbox_uplinks_route(struct outbox_uplinks *u, struct outbox_routes *r)
{
    struct outbox_routes *old = u->routes;
    bool same = old && !old->tls && !r->tls && old->plain_anywhere == r->plain_anywhere &&
                old->zstd_level == r->zstd_level && chunk_for(old->rate_bytes_s) == chunk_for(r->rate_bytes_s);
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        same = same && same_text(old->collectors[i], r->collectors[i]);
    if (same) {
        old->rate_bytes_s = r->rate_bytes_s;
        outbox_routes_free(r);
        return;
    }
    /* What was under way goes on where the collector has it. */
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        let_go(u, i);
    u->routes = r;
    outbox_routes_free(old);
    choose(u);
}

void outbox_uplinks_go(struct outbox_uplinks *u)
{
    u->going = true;
    choose(u);
}

static void add_new(struct outbox_uplinks *u)
{
    uint64_t last = u->n_cargo > 0 ? u->cargo[u->n_cargo - 1]->seq : 0;
    const struct spool_entry *e;
    while ((e = spool_next(u->config.spool, last))) {
        /* Without memory: at the next tick. */
        if (kymo_grow((void **)&u->cargo, &u->cargo_cap, u->n_cargo + 1, SIZE_MAX / sizeof *u->cargo,
                      sizeof *u->cargo) < 0)
            return;
        struct outbox_cargo *c = outbox_cargo_new(u->config.spool, e);
        if (!c)
            return;
        last = c->seq;
        u->cargo[u->n_cargo++] = c;
    }
}

void outbox_uplinks_sync(struct outbox_uplinks *u)
{
    for (size_t i = 0; i < u->n_cargo;) {
        struct outbox_cargo *c = u->cargo[i];
        size_t before = u->n_cargo;
        c->gone |= !spool_find(u->config.spool, c->seq);
        if (c->gone && !c->link)
            come_back(u, c);
        i += u->n_cargo == before;
    }
    add_new(u);
    offer_some(u);
    tell_losses(u);
}

void outbox_uplinks_tick(struct outbox_uplinks *u)
{
    if (u->closing)
        return;
    add_new(u);
    choose(u);
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        if (u->route[i].link)
            outbox_link_tick(u->route[i].link);
    offer_some(u);
    tell_losses(u);
}

void outbox_uplinks_listen(struct outbox_uplinks *u, bool listen)
{
    for (size_t i = 0; i < OUTBOX_COLLECTORS_MAX; i++)
        if (u->route[i].link)
            outbox_link_pause(u->route[i].link, !listen);
}

/* Takes it off the list; false: nobody waits for it any more. */
static bool take_request(struct outbox_uplinks *u, uint64_t number, struct request *ret)
{
    for (size_t i = 0; i < u->n_requests; i++) {
        if (u->requests[i].number != number)
            continue;
        *ret = u->requests[i];
        u->requests[i] = u->requests[--u->n_requests];
        return outbox_link_send(ret->link) != NULL;
    }
    return false;
}

static void refuse(const struct request *r, int code, const char *text)
{
    /* What does not fit any more has no reader: the collector gives up by itself. */
    if (uplink_send_refuse(outbox_link_send(r->link), r->id, code, text, NULL) == 0)
        outbox_link_pump(r->link);
}

void outbox_uplinks_reply(struct outbox_uplinks *u, uint64_t request, const char *const *ids, size_t n)
{
    struct request r;
    struct kymo_err err = {0};
    if (!take_request(u, request, &r))
        return;
    int e = uplink_send_reply(outbox_link_send(r.link), r.id, ids, n, &err);
    if (e < 0)
        refuse(&r, e, err.text);
    else
        outbox_link_pump(r.link);
}

void outbox_uplinks_refuse(struct outbox_uplinks *u, uint64_t request, int code, const char *text)
{
    struct request r;
    if (take_request(u, request, &r))
        refuse(&r, code, text);
}

void outbox_uplinks_get_status(const struct outbox_uplinks *u, struct outbox_status *ret)
{
    ret->lag_bytes = 0;
    ret->nlinks = 0;
    for (size_t i = 0; i < u->n_cargo; i++)
        ret->lag_bytes += u->cargo[i]->bytes;
    for (size_t i = 0; u->routes && i < OUTBOX_COLLECTORS_MAX; i++) {
        const struct route *r = &u->route[i];
        struct outbox_link_status *s = &ret->links[ret->nlinks];
        if (!u->routes->collectors[i])
            continue;
        ret->nlinks++;
        *s = (struct outbox_link_status){.state = OUTBOX_LINK_OFF};
        memcpy(s->address, u->routes->collectors[i], strlen(u->routes->collectors[i]) + 1);
        if (r->link)
            outbox_link_get_status(r->link, s);
        if (s->state == OUTBOX_LINK_UP && r->held_until_ms > now_ms(u)) {
            s->state = OUTBOX_LINK_WAITING;
            s->retry_at_ms = r->held_until_ms;
            memcpy(s->reason, r->held_why.text, sizeof s->reason);
        }
    }
}
