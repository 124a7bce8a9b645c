#include "proto/uplink_recv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct item {
    uint64_t size, received, durable;
};

struct capture {
    uint32_t ticket;
    bool asked; /* the store has not answered the offer yet */
    bool done;  /* the daemon has sent all */
    void *handle;
    char id[WIRE_ID_MAX + 1];
    uint32_t n_items;
    struct item items[];
};

struct uplink_recv {
    struct uplink_recv_config config;
    struct session *session;
    struct capture *captures[UPLINK_CAPTURES_MAX];
    size_t n_captures;
    uint32_t last_ticket;
    uint64_t last_batch, kept_batch;   /* of host losses */
    uint64_t granted, received, taken; /* totals of uncompressed bytes on this connection */
    struct kymo_buf plain;
};

static void remove_capture(struct uplink_recv *r, size_t i)
{
    kymo_free(r->captures[i]);
    r->n_captures--;
    memmove(&r->captures[i], &r->captures[i + 1], (r->n_captures - i) * sizeof r->captures[0]);
}

static void drop_capture(struct uplink_recv *r, size_t i)
{
    void *handle = r->captures[i]->handle;
    remove_capture(r, i);
    r->config.ops->drop(r->config.ctx, handle);
}

static void drop_all(struct uplink_recv *r)
{
    while (r->n_captures > 0)
        drop_capture(r, r->n_captures - 1);
}

static int grant(struct uplink_recv *r, struct kymo_err *err)
{
    uint64_t total = r->taken + r->config.window;
    /* Small steps would cost a frame each. */
    if (total - r->granted < (r->config.window + 3) / 4)
        return 0;
    Kymo__Uplink__Credit credit = KYMO__UPLINK__CREDIT__INIT;
    credit.has_total = 1;
    credit.total = total;
    int e = session_send(r->session, UPLINK_CREDIT, &credit.base, err);
    if (e == 0)
        r->granted = total;
    return e;
}

static int refuse_ticket(struct uplink_recv *r, uint32_t ticket, int code, const char *text, struct kymo_err *err)
{
    return session_refuse(r->session, (int)uplink_reason(code), text, ticket, 0, err);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const Kymo__Uplink__Offer *offer, struct kymo_err *err)
{
    const char **names KYMO_FREE = KYMO_NEW_ARRAY(const char *, offer->n_items);
    if (!names)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    size_t n = 0;
    for (size_t i = 0; i < offer->n_items; i++) {
        const Kymo__Uplink__Item *item = offer->items[i];
        if (item->name && !uplink_is_name(item->name))
            return kymo_err_set(err, -EINVAL, "%s: the name of item %zu is no relative path", offer->capture_id, i);
        if (!item->name && !item->neff)
            return kymo_err_set(err, -EINVAL, "%s: item %zu has no name", offer->capture_id, i);
        if (!item->neff)
            names[n++] = item->name;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return kymo_err_set(err, -EINVAL, "%s: two items are named %.200s", offer->capture_id, names[i]);
    return 0;
}

static int check_offer(const struct uplink_recv *r, const Kymo__Uplink__Offer *offer, struct kymo_err *err)
{
    if (!wire_is_id(offer->capture_id))
        return kymo_err_set(err, -EINVAL, "not a capture id");
    for (size_t i = 0; i < r->n_captures; i++)
        if (strcmp(r->captures[i]->id, offer->capture_id) == 0)
            return kymo_err_set(err, -EBUSY, "%s: is under way on this connection", offer->capture_id);
    if (r->n_captures == UPLINK_CAPTURES_MAX)
        return kymo_err_set(err, -EBUSY, "%s: %d captures are under way", offer->capture_id, UPLINK_CAPTURES_MAX);
    return check_names(offer, err);
}

/* c NULL: the capture is stored already. */
static int send_need(struct uplink_recv *r, uint32_t ticket, const struct capture *c, struct kymo_err *err)
{
    uint32_t n = c ? c->n_items : 0;
    Kymo__Uplink__Want *wants KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__Want, n);
    Kymo__Uplink__Want **list KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__Want *, n);
    if (!wants || !list)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    Kymo__Uplink__Need need = KYMO__UPLINK__NEED__INIT;
    need.has_ticket = 1;
    need.ticket = ticket;
    need.has_have = need.have = !c;
    need.wants = list;
    for (uint32_t i = 0; c && i < n; i++) {
        if (c->items[i].received == c->items[i].size)
            continue;
        Kymo__Uplink__Want *want = &wants[need.n_wants];
        kymo__uplink__want__init(want);
        want->has_item = want->has_offset = 1;
        want->item = i;
        want->offset = c->items[i].received;
        list[need.n_wants++] = want;
    }
    return session_send(r->session, UPLINK_NEED, &need.base, err);
}

static void set_offsets(struct capture *c, const uint64_t *offsets)
{
    for (uint32_t i = 0; i < c->n_items; i++) {
        struct item *item = &c->items[i];
        item->received = item->durable = offsets[i] < item->size ? offsets[i] : item->size;
    }
}

/* Asks the store. The answer as ops->offer gives it; negative: refused. */
static int ask_store(struct uplink_recv *r, const Kymo__Uplink__Offer *offer, struct capture *c, struct kymo_err *err)
{
    uint64_t *offsets KYMO_FREE = KYMO_NEW_ARRAY(uint64_t, offer->n_items);
    if (!offsets)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int e = r->config.ops->offer(r->config.ctx, offer, offsets, &c->handle, err);
    if (e < 0 || e == UPLINK_RECV_HAVE)
        return e;
    for (uint32_t i = 0; i < c->n_items; i++)
        c->items[i].size = offer->items[i]->size;
    c->asked = e == UPLINK_RECV_LATER;
    if (!c->asked)
        set_offsets(c, offsets);
    return e;
}

static int on_offer(struct uplink_recv *r, const Kymo__Uplink__Offer *offer, struct kymo_err *err)
{
    if (offer->ticket <= r->last_ticket)
        return kymo_err_set(err, -EPROTO, "ticket %u behind %u", offer->ticket, r->last_ticket);
    r->last_ticket = offer->ticket;
    struct kymo_err cause = {0};
    int e = check_offer(r, offer, &cause);
    if (e < 0)
        return refuse_ticket(r, offer->ticket, e, cause.text, err);
    struct capture *c KYMO_FREE = kymo_calloc(1, sizeof *c + offer->n_items * sizeof c->items[0]);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    c->ticket = offer->ticket;
    c->n_items = (uint32_t)offer->n_items;
    memcpy(c->id, offer->capture_id, strlen(offer->capture_id) + 1);
    e = ask_store(r, offer, c, &cause);
    if (e < 0)
        return refuse_ticket(r, offer->ticket, e, cause.text, err);
    if (e == UPLINK_RECV_HAVE)
        return send_need(r, offer->ticket, NULL, err);
    struct capture *added = r->captures[r->n_captures++] = KYMO_TAKE(c);
    return added->asked ? 0 : send_need(r, added->ticket, added, err);
}

/* As on the other side: n_captures: the ticket is over already. */
static int find_ticket(const struct uplink_recv *r, uint32_t ticket, size_t *ret, struct kymo_err *err)
{
    if (ticket > r->last_ticket)
        return kymo_err_set(err, -EPROTO, "ticket %u was never offered", ticket);
    for (*ret = 0; *ret < r->n_captures; ++*ret)
        if (r->captures[*ret]->ticket == ticket)
            break;
    return 0;
}

/* Takes n bytes off the credit. */
static int charge(struct uplink_recv *r, uint32_t n, struct kymo_err *err)
{
    if (n > r->granted - r->received)
        return kymo_err_set(err, -EPROTO, "%u bytes of data with credit for %" PRIu64, n, r->granted - r->received);
    r->received += n;
    return 0;
}

static int check_data(const struct capture *c, const Kymo__Uplink__Data *data, uint64_t offset, uint32_t n,
                      struct kymo_err *err)
{
    if (data->item >= c->n_items || c->done || c->asked)
        return kymo_err_set(err, -EPROTO, "ticket %u: data of item %u of %u%s", c->ticket, data->item, c->n_items,
                            c->done    ? ", after done"
                            : c->asked ? ", before need"
                                       : "");
    const struct item *item = &c->items[data->item];
    if (offset != item->received || n > item->size - item->received)
        return kymo_err_set(err, -EPROTO,
                            "ticket %u: item %u: %u bytes at %" PRIu64 ", expected at %" PRIu64 " of %" PRIu64,
                            c->ticket, data->item, n, offset, item->received, item->size);
    return 0;
}

static int end_refused(struct uplink_recv *r, size_t i, int code, const char *text, struct kymo_err *err)
{
    uint32_t ticket = r->captures[i]->ticket;
    drop_capture(r, i);
    return refuse_ticket(r, ticket, code, text, err);
}

static int find_handle(const struct uplink_recv *r, const void *handle, size_t *ret, struct kymo_err *err)
{
    for (*ret = 0; *ret < r->n_captures; ++*ret)
        if (r->captures[*ret]->handle == handle)
            return 0;
    return kymo_err_set(err, -ENOENT, "uplink: the capture is not under way here");
}

/* Hands the bytes to the store, which may end this capture, or others, before it returns. */
static int store_bytes(struct uplink_recv *r, struct capture *c, uint32_t index, const void *bytes, uint32_t n,
                       struct kymo_err *err)
{
    struct item *item = &c->items[index];
    void *handle = c->handle;
    uint64_t offset = item->received;
    item->received += n;
    struct kymo_err cause = {0};
    int e = r->config.ops->write(r->config.ctx, handle, index, offset, bytes, n, &cause);
    size_t i;
    if (e < 0 && find_handle(r, handle, &i, NULL) == 0) {
        int sent = end_refused(r, i, e, cause.text, err);
        if (sent < 0)
            return sent;
    }
    return e == UPLINK_RECV_LATER ? 0 : uplink_recv_taken(r, n, err);
}

static int on_data(struct uplink_recv *r, const Kymo__Uplink__Data *data, const struct frame *f, struct kymo_err *err)
{
    size_t i;
    int e = find_ticket(r, data->ticket, &i, err);
    if (e == 0)
        e = charge(r, f->plain_len, err);
    if (e < 0)
        return e;
    if (i == r->n_captures) /* under way when the capture was refused */
        return uplink_recv_taken(r, f->plain_len, err);
    struct capture *c = r->captures[i];
    e = check_data(c, data, data->offset + f->raw_at, f->plain_len, err);
    if (e < 0)
        return e;
    const uint8_t *bytes = f->raw;
    if (f->flags & FRAME_ZSTD) {
        if (!(session_features(r->session) & UPLINK_FEATURE_ZSTD))
            return kymo_err_set(err, -EPROTO, "compressed data, which was not agreed");
        kymo_buf_reset(&r->plain);
        e = frame_inflate(f, &r->plain, err);
        if (e < 0)
            return e;
        bytes = r->plain.data;
    }
    return store_bytes(r, c, data->item, bytes, f->plain_len, err);
}

static int on_done(struct uplink_recv *r, const Kymo__Uplink__Done *done, struct kymo_err *err)
{
    size_t i;
    int e = find_ticket(r, done->ticket, &i, err);
    if (e < 0)
        return e;
    if (i == r->n_captures)
        return 0;
    struct capture *c = r->captures[i];
    if (c->asked)
        return kymo_err_set(err, -EPROTO, "ticket %u: done, before need", c->ticket);
    for (uint32_t k = 0; k < c->n_items; k++)
        if (c->items[k].received < c->items[k].size)
            return kymo_err_set(err, -EPROTO, "ticket %u: done, but item %u has %" PRIu64 " of %" PRIu64 " bytes",
                                c->ticket, k, c->items[k].received, c->items[k].size);
    if (c->done)
        return kymo_err_set(err, -EPROTO, "ticket %u: done twice", c->ticket);
    c->done = true;
    void *handle = c->handle;
    struct kymo_err cause = {0};
    e = r->config.ops->done(r->config.ctx, handle, &cause);
    if (e == UPLINK_RECV_LATER || find_handle(r, handle, &i, NULL) < 0)
        return 0;
    return e < 0 ? end_refused(r, i, e, cause.text, err) : uplink_recv_stored(r, handle, err);
}

static int on_refusal(struct uplink_recv *r, const Kymo__Wire__Refusal *refusal, struct kymo_err *err)
{
    if (!refusal->has_ticket) {
        if (r->config.ops->refused)
            r->config.ops->refused(r->config.ctx, refusal->request_id, (int)refusal->why,
                                   refusal->text ? refusal->text : "");
        return 0;
    }
    size_t i;
    int e = find_ticket(r, refusal->ticket, &i, err);
    if (e == 0 && i < r->n_captures)
        drop_capture(r, i);
    return e;
}

static int on_host_losses(struct uplink_recv *r, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err)
{
    if (losses->batch <= r->last_batch)
        return kymo_err_set(err, -EPROTO, "losses %" PRIu64 " behind %" PRIu64, losses->batch, r->last_batch);
    for (size_t i = 0; i < losses->n_rows; i++) {
        const Kymo__Uplink__HostLoss *row = losses->rows[i];
        if (row->last_seq < row->first_seq || row->last_unix_ns < row->first_unix_ns || !wire_is_id(row->cause))
            return kymo_err_set(err, -EPROTO, "losses %" PRIu64 ": row %" PRIu64 " contradicts itself", losses->batch,
                                row->row);
    }
    r->last_batch = losses->batch;
    struct kymo_err cause = {0};
    int e = r->config.ops->host_losses ? r->config.ops->host_losses(r->config.ctx, losses, &cause) : -EOPNOTSUPP;
    return e == UPLINK_RECV_NOW ? uplink_recv_losses_kept(r, losses->batch, err) : 0;
}

static int on_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    struct uplink_recv *r = ctx;
    switch (m->type) {
    case WIRE_REFUSAL:
        return on_refusal(r, (const Kymo__Wire__Refusal *)m->pb, err);
    case UPLINK_OFFER:
        return on_offer(r, (const Kymo__Uplink__Offer *)m->pb, err);
    case UPLINK_DATA:
        return on_data(r, (const Kymo__Uplink__Data *)m->pb, f, err);
    case UPLINK_DONE:
        return on_done(r, (const Kymo__Uplink__Done *)m->pb, err);
    case UPLINK_CAPTURE_REPLY:
        if (r->config.ops->reply)
            r->config.ops->reply(r->config.ctx, (const Kymo__Uplink__CaptureReply *)m->pb);
        return 0;
    case UPLINK_HOST_LOSSES:
        return on_host_losses(r, (const Kymo__Uplink__HostLosses *)m->pb, err);
    default:
        return kymo_err_set(err, -EPROTO, "type %u came unexpectedly", m->type);
    }
}

static int on_ready(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    struct uplink_recv *r = ctx;
    int e = r->config.ops->hello ? r->config.ops->hello(r->config.ctx, peer, err) : 0;
    return e < 0 ? e : grant(r, err);
}

int uplink_recv_new(const struct uplink_recv_config *config, struct uplink_recv **ret, struct kymo_err *err)
{
    struct uplink_recv *r = KYMO_NEW(struct uplink_recv);
    if (!r)
        return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    r->config = *config;
    if (r->config.window == 0)
        r->config.window = UPLINK_RECV_WINDOW;
    if (r->config.window > UPLINK_CREDIT_AHEAD_MAX)
        r->config.window = UPLINK_CREDIT_AHEAD_MAX;
    kymo_buf_init(&r->plain, FRAME_RAW_MAX);
    const struct wire_range ours = {UPLINK_VERSION_MIN,
                                    config->ops->host_losses ? UPLINK_VERSION_MAX : UPLINK_VERSION_HOST_LOSSES - 1};
    const struct session_config sc = {
        .protocol = &uplink_protocol,
        .side = WIRE_SERVER,
        .versions = config->versions.max ? config->versions : ours,
        .features = config->zstd ? UPLINK_FEATURE_ZSTD : 0,
        .writer = config->writer,
        .host = config->host,
        .on_ready = on_ready,
        .on_message = on_message,
        .ctx = r,
    };
    int e = session_new(&sc, &r->session, err);
    if (e < 0) {
        uplink_recv_free(r);
        return e;
    }
    *ret = r;
    return 0;
}

struct uplink_recv *uplink_recv_free(struct uplink_recv *r)
{
    if (!r)
        return NULL;
    drop_all(r);
    session_free(r->session);
    kymo_buf_done(&r->plain);
    kymo_free(r);
    return NULL;
}

int uplink_recv_feed(struct uplink_recv *r, const void *data, size_t n, struct kymo_err *err)
{
    int e = session_feed(r->session, data, n, err);
    if (e < 0)
        drop_all(r);
    return e;
}

void uplink_recv_out(const struct uplink_recv *r, const uint8_t **ret_data, size_t *ret_n)
{
    session_out(r->session, ret_data, ret_n);
}

void uplink_recv_consume(struct uplink_recv *r, size_t n)
{
    session_consume(r->session, n);
}

/* The capture of an offer that waits for its answer. */
static int find_asked(const struct uplink_recv *r, const void *handle, size_t *ret, struct kymo_err *err)
{
    int e = find_handle(r, handle, ret, err);
    if (e == 0 && !r->captures[*ret]->asked)
        return kymo_err_set(err, -EINVAL, "uplink: %s: the offer is answered", r->captures[*ret]->id);
    return e;
}

int uplink_recv_accept(struct uplink_recv *r, const void *handle, const uint64_t *offsets, struct kymo_err *err)
{
    size_t i;
    int e = find_asked(r, handle, &i, err);
    if (e < 0)
        return e;
    struct capture *c = r->captures[i];
    c->asked = false;
    set_offsets(c, offsets);
    return send_need(r, c->ticket, c, err);
}

int uplink_recv_have(struct uplink_recv *r, const void *handle, struct kymo_err *err)
{
    size_t i;
    int e = find_asked(r, handle, &i, err);
    if (e < 0)
        return e;
    uint32_t ticket = r->captures[i]->ticket;
    remove_capture(r, i);
    return send_need(r, ticket, NULL, err);
}

int uplink_recv_durable(struct uplink_recv *r, const void *handle, uint32_t item, uint64_t offset, struct kymo_err *err)
{
    size_t i;
    int e = find_handle(r, handle, &i, err);
    if (e < 0)
        return e;
    struct capture *c = r->captures[i];
    if (item >= c->n_items || offset > c->items[item].received || offset < c->items[item].durable)
        return kymo_err_set(err, -EINVAL, "uplink: %s: item %u cannot be durable to %" PRIu64, c->id, item, offset);
    if (offset == c->items[item].durable)
        return 0;
    Kymo__Uplink__Ack ack = KYMO__UPLINK__ACK__INIT;
    ack.has_ticket = ack.has_item = ack.has_offset = 1;
    ack.ticket = c->ticket;
    ack.item = item;
    ack.offset = offset;
    e = session_send(r->session, UPLINK_ACK, &ack.base, err);
    if (e == 0)
        c->items[item].durable = offset;
    return e;
}

int uplink_recv_taken(struct uplink_recv *r, uint64_t bytes, struct kymo_err *err)
{
    if (bytes > r->received - r->taken)
        return kymo_err_set(err, -EINVAL, "uplink: %" PRIu64 " bytes taken of %" PRIu64, bytes, r->received - r->taken);
    r->taken += bytes;
    return grant(r, err);
}

int uplink_recv_stored(struct uplink_recv *r, const void *handle, struct kymo_err *err)
{
    size_t i;
    int e = find_handle(r, handle, &i, err);
    if (e < 0)
        return e;
    if (!r->captures[i]->done)
        return kymo_err_set(err, -EINVAL, "uplink: %s: stored before all has come", r->captures[i]->id);
    Kymo__Uplink__Stored stored = KYMO__UPLINK__STORED__INIT;
    stored.has_ticket = 1;
    stored.ticket = r->captures[i]->ticket;
    remove_capture(r, i);
    return session_send(r->session, UPLINK_STORED, &stored.base, err);
}

int uplink_recv_refuse(struct uplink_recv *r, const void *handle, int code, const char *text, struct kymo_err *err)
{
    size_t i;
    int e = find_handle(r, handle, &i, err);
    return e < 0 ? e : end_refused(r, i, code, text, err);
}

int uplink_recv_request(struct uplink_recv *r, const Kymo__Uplink__CaptureRequest *request, struct kymo_err *err)
{
    return session_send(r->session, UPLINK_CAPTURE_REQUEST, &request->base, err);
}

int uplink_recv_losses(struct uplink_recv *r, const Kymo__Uplink__RingLosses *losses, struct kymo_err *err)
{
    return session_send(r->session, UPLINK_RING_LOSSES, &losses->base, err);
}

int uplink_recv_losses_kept(struct uplink_recv *r, uint64_t batch, struct kymo_err *err)
{
    if (batch <= r->kept_batch || batch > r->last_batch)
        return kymo_err_set(err, -EINVAL, "uplink: losses %" PRIu64 " cannot be kept, came are %" PRIu64, batch,
                            r->last_batch);
    Kymo__Uplink__LossesKept kept = KYMO__UPLINK__LOSSES_KEPT__INIT;
    kept.has_batch = 1;
    kept.batch = batch;
    int e = session_send(r->session, UPLINK_LOSSES_KEPT, &kept.base, err);
    if (e == 0)
        r->kept_batch = batch;
    return e;
}

int uplink_recv_ping(struct uplink_recv *r, uint64_t nonce, struct kymo_err *err)
{
    return session_ping(r->session, nonce, err);
}

const struct session *uplink_recv_session(const struct uplink_recv *r)
{
    return r->session;
}

size_t uplink_recv_captures(const struct uplink_recv *r)
{
    return r->n_captures;
}
