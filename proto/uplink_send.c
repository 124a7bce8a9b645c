#include "proto/uplink_send.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <zstd.h>

#include "base/alloc.h"

struct item {
    uint64_t size, sent, acked;
    bool wanted;
};

enum state { OFFERED, SENDING, DONE };

struct capture {
    uint32_t ticket;
    enum state state;
    void *handle;
    uint32_t n_items, at; /* at: the first item that is not wholly sent */
    struct item items[];
};

struct uplink_send {
    struct uplink_send_config config;
    struct session *session;
    struct capture *captures[UPLINK_CAPTURES_MAX]; /* in the order of their tickets */
    size_t n_captures;
    uint32_t last_ticket;
    uint64_t last_batch, kept_batch; /* of host losses */
    uint64_t credit, used;           /* totals of uncompressed bytes on this connection */
    ZSTD_CCtx *zstd;
    uint8_t *plain, *packed; /* a chunk each, made when first needed */
};

static void remove_capture(struct uplink_send *s, size_t i)
{
    kymo_free(s->captures[i]);
    s->n_captures--;
    memmove(&s->captures[i], &s->captures[i + 1], (s->n_captures - i) * sizeof s->captures[0]);
}

/* The index of a ticket; n_captures: it is over already; -EPROTO: it never was. */
static int find_capture(const struct uplink_send *s, uint32_t ticket, size_t *ret, struct kymo_err *err)
{
    if (ticket > s->last_ticket)
        return kymo_err_set(err, -EPROTO, "ticket %u was never offered", ticket);
    for (*ret = 0; *ret < s->n_captures; ++*ret)
        if (s->captures[*ret]->ticket == ticket)
            break;
    return 0;
}

static int apply_wants(struct capture *c, const Kymo__Uplink__Need *need, struct kymo_err *err)
{
    uint32_t next = 0;
    for (size_t i = 0; i < need->n_wants; i++) {
        const Kymo__Uplink__Want *want = need->wants[i];
        if (want->item < next || want->item >= c->n_items)
            return kymo_err_set(err, -EPROTO, "ticket %u: item %u is wanted, of %u, behind %u", c->ticket, want->item,
                                c->n_items, next);
        struct item *item = &c->items[want->item];
        if (want->offset >= item->size)
            return kymo_err_set(err, -EPROTO, "ticket %u: item %u is wanted from %" PRIu64 " of %" PRIu64 " bytes",
                                c->ticket, want->item, want->offset, item->size);
        item->wanted = true;
        item->sent = item->acked = want->offset;
        next = want->item + 1;
    }
    return 0;
}

static int on_need(struct uplink_send *s, const Kymo__Uplink__Need *need, struct kymo_err *err)
{
    size_t i;
    int r = find_capture(s, need->ticket, &i, err);
    if (r < 0)
        return r;
    if (i == s->n_captures)
        return 0;
    struct capture *c = s->captures[i];
    if (c->state != OFFERED || (need->have && need->n_wants > 0))
        return kymo_err_set(err, -EPROTO, "ticket %u: a second or contradicting answer", c->ticket);
    if (need->have) {
        void *handle = c->handle;
        remove_capture(s, i);
        if (s->config.ops->on_stored)
            s->config.ops->on_stored(s->config.ctx, handle);
        return 0;
    }
    c->state = SENDING;
    return apply_wants(c, need, err);
}

static int on_ack(struct uplink_send *s, const Kymo__Uplink__Ack *ack, struct kymo_err *err)
{
    size_t i;
    int r = find_capture(s, ack->ticket, &i, err);
    if (r < 0)
        return r;
    if (i == s->n_captures)
        return 0;
    struct capture *c = s->captures[i];
    if (c->state == OFFERED || ack->item >= c->n_items || !c->items[ack->item].wanted)
        return kymo_err_set(err, -EPROTO, "ticket %u: item %u is acknowledged but was not sent", c->ticket, ack->item);
    struct item *item = &c->items[ack->item];
    if (ack->offset <= item->acked || ack->offset > item->sent)
        return kymo_err_set(err, -EPROTO,
                            "ticket %u: item %u is acknowledged to %" PRIu64 ", was to %" PRIu64 ", sent are %" PRIu64,
                            c->ticket, ack->item, ack->offset, item->acked, item->sent);
    item->acked = ack->offset;
    if (s->config.ops->on_ack)
        s->config.ops->on_ack(s->config.ctx, c->handle, ack->item, ack->offset);
    return 0;
}

static int on_stored(struct uplink_send *s, const Kymo__Uplink__Stored *stored, struct kymo_err *err)
{
    size_t i;
    int r = find_capture(s, stored->ticket, &i, err);
    if (r < 0)
        return r;
    if (i == s->n_captures)
        return 0;
    if (s->captures[i]->state != DONE)
        return kymo_err_set(err, -EPROTO, "ticket %u: stored before all was sent", stored->ticket);
    void *handle = s->captures[i]->handle;
    remove_capture(s, i);
    if (s->config.ops->on_stored)
        s->config.ops->on_stored(s->config.ctx, handle);
    return 0;
}

static int on_credit(struct uplink_send *s, const Kymo__Uplink__Credit *credit, struct kymo_err *err)
{
    if (credit->total < s->credit || credit->total - s->used > UPLINK_CREDIT_AHEAD_MAX)
        return kymo_err_set(err, -EPROTO, "credit of %" PRIu64 ", was %" PRIu64 ", used are %" PRIu64, credit->total,
                            s->credit, s->used);
    s->credit = credit->total;
    return 0;
}

static void end_capture(struct uplink_send *s, size_t i, int why, const char *text)
{
    void *handle = s->captures[i]->handle;
    remove_capture(s, i);
    if (s->config.ops->on_refused)
        s->config.ops->on_refused(s->config.ctx, handle, why, text);
}

static int on_refusal(struct uplink_send *s, const Kymo__Wire__Refusal *refusal, struct kymo_err *err)
{
    if (!refusal->has_ticket)
        return kymo_err_set(err, -EPROTO, "a refusal of request %" PRIu64 ", which was never made",
                            refusal->request_id);
    size_t i;
    int r = find_capture(s, refusal->ticket, &i, err);
    if (r < 0)
        return r;
    if (i < s->n_captures)
        end_capture(s, i, (int)refusal->why, refusal->text ? refusal->text : "");
    return 0;
}

static int on_request(struct uplink_send *s, const Kymo__Uplink__CaptureRequest *request, struct kymo_err *err)
{
    struct kymo_err cause = {0};
    int r = s->config.ops->on_request ? s->config.ops->on_request(s->config.ctx, request, &cause)
                                      : kymo_err_set(&cause, -EOPNOTSUPP, "captures on request are not possible here");
    return r < 0 ? uplink_send_refuse(s, request->request_id, r, cause.text, err) : 0;
}

static int on_losses_kept(struct uplink_send *s, uint64_t batch, struct kymo_err *err)
{
    if (batch <= s->kept_batch || batch > s->last_batch)
        return kymo_err_set(err, -EPROTO, "losses %" PRIu64 " are kept, sent were %" PRIu64 " to %" PRIu64, batch,
                            s->kept_batch + 1, s->last_batch);
    s->kept_batch = batch;
    if (s->config.ops->on_losses_kept)
        s->config.ops->on_losses_kept(s->config.ctx, batch);
    return 0;
}

static int on_message(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    struct uplink_send *s = ctx;
    (void)f;
    switch (m->type) {
    case WIRE_REFUSAL:
        return on_refusal(s, (const Kymo__Wire__Refusal *)m->pb, err);
    case UPLINK_NEED:
        return on_need(s, (const Kymo__Uplink__Need *)m->pb, err);
    case UPLINK_CREDIT:
        return on_credit(s, (const Kymo__Uplink__Credit *)m->pb, err);
    case UPLINK_ACK:
        return on_ack(s, (const Kymo__Uplink__Ack *)m->pb, err);
    case UPLINK_STORED:
        return on_stored(s, (const Kymo__Uplink__Stored *)m->pb, err);
    case UPLINK_CAPTURE_REQUEST:
        return on_request(s, (const Kymo__Uplink__CaptureRequest *)m->pb, err);
    case UPLINK_RING_LOSSES:
        if (s->config.ops->on_losses)
            s->config.ops->on_losses(s->config.ctx, (const Kymo__Uplink__RingLosses *)m->pb);
        return 0;
    case UPLINK_LOSSES_KEPT:
        return on_losses_kept(s, ((const Kymo__Uplink__LossesKept *)m->pb)->batch, err);
    default:
        return kymo_err_set(err, -EPROTO, "type %u came unexpectedly", m->type);
    }
}

static int on_ready(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    struct uplink_send *s = ctx;
    (void)err;
    if (s->config.ops->on_ready)
        s->config.ops->on_ready(s->config.ctx, peer);
    return 0;
}

int uplink_send_new(const struct uplink_send_config *config, struct uplink_send **ret, struct kymo_err *err)
{
    struct uplink_send *s = KYMO_NEW(struct uplink_send);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    s->config = *config;
    if (s->config.chunk == 0)
        s->config.chunk = UPLINK_SEND_CHUNK;
    if (s->config.chunk > FRAME_RAW_MAX)
        s->config.chunk = FRAME_RAW_MAX;
    const struct wire_range ours = {UPLINK_VERSION_MIN, UPLINK_VERSION_MAX};
    const struct session_config sc = {
        .protocol = &uplink_protocol,
        .side = WIRE_CLIENT,
        .versions = config->versions.max ? config->versions : ours,
        .features = config->zstd_level ? UPLINK_FEATURE_ZSTD : 0,
        .writer = config->writer,
        .host = config->host,
        .boot_id = config->boot_id,
        .on_ready = on_ready,
        .on_message = on_message,
        .ctx = s,
    };
    int r = session_new(&sc, &s->session, err);
    if (r < 0) {
        uplink_send_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct uplink_send *uplink_send_free(struct uplink_send *s)
{
    if (!s)
        return NULL;
    while (s->n_captures > 0)
        remove_capture(s, s->n_captures - 1);
    session_free(s->session);
    (void)ZSTD_freeCCtx(s->zstd);
    kymo_free(s->plain);
    kymo_free(s->packed);
    kymo_free(s);
    return NULL;
}

int uplink_send_feed(struct uplink_send *s, const void *data, size_t n, struct kymo_err *err)
{
    return session_feed(s->session, data, n, err);
}

/* The sender's form checks, so that a broken capture costs its own offer and not the connection. */
static int check_offer(const char *capture_id, const struct uplink_send_item *items, size_t n, struct kymo_err *err)
{
    if (!wire_is_id(capture_id))
        return kymo_err_set(err, -EINVAL, "uplink: \"%.80s\" is no capture id", capture_id);
    if (n > UPLINK_ITEMS_MAX)
        return kymo_err_set(err, -EINVAL, "uplink: %s: %zu items, at most %d", capture_id, n, UPLINK_ITEMS_MAX);
    for (size_t i = 0; i < n; i++)
        if ((!items[i].neff && !items[i].name) || (items[i].name && !uplink_is_name(items[i].name)))
            return kymo_err_set(err, -EINVAL, "uplink: %s: item %zu has no name that is a relative path", capture_id,
                                i);
    return 0;
}

static int send_offer(struct uplink_send *s, Kymo__Uplink__Offer *offer, const struct uplink_send_item *items,
                      struct kymo_err *err)
{
    Kymo__Uplink__Item *messages KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__Item, offer->n_items);
    Kymo__Uplink__Item **list KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__Item *, offer->n_items);
    if (!messages || !list)
        return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    for (size_t i = 0; i < offer->n_items; i++) {
        union {
            const void *in;
            char *name;
            uint8_t *bytes;
        } name = {items[i].name}, sha256 = {items[i].sha256};
        list[i] = &messages[i];
        kymo__uplink__item__init(list[i]);
        list[i]->name = name.name;
        list[i]->has_size = list[i]->has_sha256 = 1;
        list[i]->size = items[i].size;
        list[i]->sha256 = (ProtobufCBinaryData){UPLINK_SHA256_SIZE, sha256.bytes};
        list[i]->has_neff = list[i]->neff = items[i].neff;
    }
    offer->items = list;
    return session_send(s->session, UPLINK_OFFER, &offer->base, err);
}

int uplink_send_offer(struct uplink_send *s, const char *capture_id, const void *manifest, size_t manifest_len,
                      const struct uplink_send_item *items, size_t n_items, void *handle, struct kymo_err *err)
{
    int r = check_offer(capture_id, items, n_items, err);
    if (r < 0)
        return r;
    if (s->n_captures == UPLINK_CAPTURES_MAX || s->last_ticket == UINT32_MAX)
        return kymo_err_set(err, -ENOBUFS, "uplink: %zu captures are under way", s->n_captures);
    struct capture *c KYMO_FREE = kymo_calloc(1, sizeof *c + n_items * sizeof c->items[0]);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    c->handle = handle;
    c->n_items = (uint32_t)n_items;
    c->ticket = s->last_ticket + 1;
    for (size_t i = 0; i < n_items; i++)
        c->items[i].size = items[i].size;
    union {
        const void *in;
        char *id;
        uint8_t *bytes;
    } id = {capture_id}, bytes = {manifest};
    Kymo__Uplink__Offer offer = KYMO__UPLINK__OFFER__INIT;
    offer.has_ticket = offer.has_manifest = 1;
    offer.ticket = c->ticket;
    offer.capture_id = id.id;
    offer.manifest = (ProtobufCBinaryData){manifest_len, bytes.bytes};
    offer.n_items = n_items;
    r = send_offer(s, &offer, items, err);
    if (r < 0)
        return r == -ERANGE || r == -EMSGSIZE ? -EINVAL : r;
    s->last_ticket = c->ticket;
    s->captures[s->n_captures++] = KYMO_TAKE(c);
    return 0;
}

/* Reads and compresses a chunk into s->packed. The packed size, 0 when compressing does not pay, or negative. */
static int pack_chunk(struct uplink_send *s, const struct capture *c, uint64_t offset, uint32_t n, struct kymo_err *err)
{
    if (!s->zstd) {
        s->plain = s->plain ? s->plain : kymo_malloc(s->config.chunk);
        s->packed = s->packed ? s->packed : kymo_malloc(s->config.chunk);
        s->zstd = s->plain && s->packed ? ZSTD_createCCtx() : NULL;
        if (!s->zstd)
            return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    }
    int r = s->config.ops->read(s->config.ctx, c->handle, c->at, offset, s->plain, n, err);
    if (r < 0)
        return r;
    /* A result of nearly the same size is not worth the receiver's work: too little room makes zstd give up. */
    size_t packed = ZSTD_compressCCtx(s->zstd, s->packed, n - n / 16, s->plain, n, s->config.zstd_level);
    return ZSTD_isError(packed) ? 0 : (int)packed;
}

/* One data frame of n bytes of the capture's item at c->at. */
static int send_chunk(struct uplink_send *s, struct capture *c, uint32_t n, struct kymo_err *err)
{
    struct item *item = &c->items[c->at];
    bool pack = s->config.zstd_level && (session_features(s->session) & UPLINK_FEATURE_ZSTD);
    int packed = pack ? pack_chunk(s, c, item->sent, n, err) : 0;
    if (packed < 0)
        return packed;
    Kymo__Uplink__Data data = KYMO__UPLINK__DATA__INIT;
    data.has_ticket = data.has_item = data.has_offset = 1;
    data.ticket = c->ticket;
    data.item = c->at;
    data.offset = item->sent;
    const struct frame f = {.flags = packed ? FRAME_ZSTD : 0, .raw_len = packed ? (uint32_t)packed : n, .plain_len = n};
    uint8_t *raw;
    size_t before = session_waiting(s->session);
    int r = session_send_raw(s->session, UPLINK_DATA, &data.base, &f, &raw, err);
    if (r < 0)
        return r;
    if (pack)
        memcpy(raw, packed ? s->packed : s->plain, f.raw_len);
    else
        r = s->config.ops->read(s->config.ctx, c->handle, c->at, item->sent, raw, n, err);
    if (r < 0) {
        session_take_back(s->session, session_waiting(s->session) - before);
        return r;
    }
    item->sent += n;
    s->used += n;
    return 0;
}

static void skip_sent_items(struct capture *c)
{
    while (c->at < c->n_items && (!c->items[c->at].wanted || c->items[c->at].sent == c->items[c->at].size))
        c->at++;
}

static int send_done(struct uplink_send *s, struct capture *c, struct kymo_err *err)
{
    Kymo__Uplink__Done done = KYMO__UPLINK__DONE__INIT;
    done.has_ticket = 1;
    done.ticket = c->ticket;
    int r = session_send(s->session, UPLINK_DONE, &done.base, err);
    if (r == 0)
        c->state = DONE;
    return r;
}

/* One frame of the first capture that has something to send. 1: sent, 0: nothing can be sent now. */
static int send_next(struct uplink_send *s, size_t *ret_i, struct kymo_err *err)
{
    size_t i = 0;
    while (i < s->n_captures && s->captures[i]->state != SENDING)
        i++;
    if (i == s->n_captures)
        return 0;
    *ret_i = i;
    struct capture *c = s->captures[i];
    skip_sent_items(c);
    int r;
    if (c->at == c->n_items) {
        r = send_done(s, c, err);
    } else {
        uint64_t n = c->items[c->at].size - c->items[c->at].sent;
        n = n < s->config.chunk ? n : s->config.chunk;
        n = n < s->credit - s->used ? n : s->credit - s->used;
        if (n == 0)
            return 0;
        r = send_chunk(s, c, (uint32_t)n, err);
    }
    return r < 0 ? r : 1;
}

/* A capture whose bytes cannot be read is withdrawn; others go on. */
static int withdraw(struct uplink_send *s, size_t i, const struct kymo_err *cause, struct kymo_err *err)
{
    int r = session_refuse(s->session, KYMO__WIRE__REFUSAL__REASON__IO, cause->text, s->captures[i]->ticket, 0, err);
    if (r == 0)
        end_capture(s, i, KYMO__WIRE__REFUSAL__REASON__IO, cause->text);
    return r;
}

int uplink_send_out(struct uplink_send *s, const uint8_t **ret_data, size_t *ret_n, struct kymo_err *err)
{
    while (session_is_ready(s->session) && session_waiting(s->session) < s->config.chunk) {
        struct kymo_err cause = {0};
        size_t i;
        int r = send_next(s, &i, &cause);
        if (r == 0)
            break;
        if (r < 0)
            r = withdraw(s, i, &cause, err);
        if (r < 0)
            return r;
    }
    session_out(s->session, ret_data, ret_n);
    return 0;
}

void uplink_send_consume(struct uplink_send *s, size_t n)
{
    session_consume(s->session, n);
}

int uplink_send_reply(struct uplink_send *s, uint64_t request_id, const char *const *capture_ids, size_t n,
                      struct kymo_err *err)
{
    char **ids KYMO_FREE = KYMO_NEW_ARRAY(char *, n);
    if (!ids)
        return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    if (n > 0)
        memcpy(ids, capture_ids, n * sizeof *ids);
    Kymo__Uplink__CaptureReply reply = KYMO__UPLINK__CAPTURE_REPLY__INIT;
    reply.has_request_id = 1;
    reply.request_id = request_id;
    reply.n_capture_ids = n;
    reply.capture_ids = ids;
    return session_send(s->session, UPLINK_CAPTURE_REPLY, &reply.base, err);
}

int uplink_send_refuse(struct uplink_send *s, uint64_t request_id, int code, const char *text, struct kymo_err *err)
{
    return session_refuse(s->session, (int)uplink_reason(code), text, 0, request_id, err);
}

int uplink_send_losses(struct uplink_send *s, const Kymo__Uplink__HostLoss *rows, size_t n, uint64_t *ret_batch,
                       struct kymo_err *err)
{
    Kymo__Uplink__HostLoss **list KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__HostLoss *, n + 1);
    Kymo__Uplink__HostLoss *copy KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__HostLoss, n + 1);
    if (!list || !copy)
        return kymo_err_set(err, -ENOMEM, "uplink: out of memory");
    for (size_t i = 0; i < n; i++) {
        copy[i] = rows[i];
        list[i] = &copy[i];
    }
    Kymo__Uplink__HostLosses m = KYMO__UPLINK__HOST_LOSSES__INIT;
    m.has_batch = 1;
    m.batch = s->last_batch + 1;
    m.n_rows = n;
    m.rows = list;
    int r = session_send(s->session, UPLINK_HOST_LOSSES, &m.base, err);
    if (r == 0)
        *ret_batch = ++s->last_batch;
    return r;
}

int uplink_send_ping(struct uplink_send *s, uint64_t nonce, struct kymo_err *err)
{
    return session_ping(s->session, nonce, err);
}

const struct session *uplink_send_session(const struct uplink_send *s)
{
    return s->session;
}

size_t uplink_send_captures(const struct uplink_send *s)
{
    return s->n_captures;
}
