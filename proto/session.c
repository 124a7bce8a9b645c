#include "proto/session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define HELLO_MAX 4096u
/* Kept free for the refusal that ends a session whose peer does not read. */
#define OUT_RESERVE 2048u

struct session {
    struct session_config config;
    struct frame_parser *parser;
    struct kymo_buf out;
    size_t out_at; /* consumed bytes at the front of out */
    bool said_hello;
    uint32_t version; /* 0: the peer's hello has not come */
    uint64_t features;
    uint64_t last_pong;
    struct kymo_err failed;
};

static int append(struct session *s, uint16_t type, const ProtobufCMessage *m, const struct frame *raw,
                  uint8_t **ret_raw, struct kymo_err *err)
{
    /* Moving what waits to the front is worth its cost only when the front is the larger part. */
    if (s->out_at > 0 && s->out_at >= s->out.len - s->out_at) {
        memmove(s->out.data, s->out.data + s->out_at, s->out.len - s->out_at);
        s->out.len -= s->out_at;
        s->out_at = 0;
    }
    return wire_append(s->config.protocol, &s->out, type, m, raw, ret_raw, err);
}

static int say_hello(struct session *s, struct kymo_err *err)
{
    const struct session_config *c = &s->config;
    Kymo__Wire__Hello hello = KYMO__WIRE__HELLO__INIT;
    union {
        const char *in;
        char *out;
    } writer = {c->writer}, host = {c->host}, boot_id = {c->boot_id};
    hello.has_version_min = hello.has_version_max = hello.has_features = 1;
    hello.version_min = c->versions.min;
    hello.version_max = c->versions.max;
    hello.features = c->features;
    hello.writer = writer.out;
    hello.host = host.out;
    hello.boot_id = boot_id.out;
    s->said_hello = true;
    return append(s, WIRE_HELLO, &hello.base, NULL, NULL, err);
}

int session_new(const struct session_config *config, struct session **ret, struct kymo_err *err)
{
    struct session *s = KYMO_NEW(struct session);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", config->protocol->name);
    s->config = *config;
    kymo_buf_init(&s->out, (size_t)SESSION_OUT_MAX * 2);
    const struct frame_limits limits = {HELLO_MAX, 0};
    int r = frame_parser_new(&limits, &s->parser, err);
    if (r == 0 && config->side == WIRE_SERVER)
        frame_parser_stream(s->parser);
    if (r == 0 && config->side == WIRE_CLIENT)
        r = say_hello(s, err);
    if (r < 0) {
        session_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct session *session_free(struct session *s)
{
    if (!s)
        return NULL;
    frame_parser_free(s->parser);
    kymo_buf_done(&s->out);
    kymo_free(s);
    return NULL;
}

/* The longest front of text that a refusal may carry: UTF-8, whole sequences. */
static void cut_text(const char *text, char ret[static WIRE_TEXT_MAX + 1])
{
    size_t n = strlen(text), at = 0;
    while (at < n) {
        size_t step = kymo_utf8_sequence(text + at, n - at);
        if (step == 0 || at + step > WIRE_TEXT_MAX)
            break;
        at += step;
    }
    memcpy(ret, text, at);
    ret[at] = '\0';
}

static int append_refusal(struct session *s, int why, const char *text, uint32_t ticket, uint64_t request_id,
                          struct kymo_err *err)
{
    char cut[WIRE_TEXT_MAX + 1];
    cut_text(text, cut);
    Kymo__Wire__Refusal m = KYMO__WIRE__REFUSAL__INIT;
    m.has_why = 1;
    m.why = (Kymo__Wire__Refusal__Reason)why;
    m.text = cut;
    m.has_ticket = ticket != 0;
    m.ticket = ticket;
    m.has_request_id = request_id != 0;
    m.request_id = request_id;
    return append(s, WIRE_REFUSAL, &m.base, NULL, NULL, err);
}

int session_fail(struct session *s, int why, int code, const char *text)
{
    if (s->failed.code)
        return s->failed.code;
    (void)kymo_err_set(&s->failed, code, "%s", text);
    /* The peer is told when that is possible; the session ends in any case. */
    (void)append_refusal(s, why, text, 0, 0, NULL);
    return s->failed.code;
}

static int on_hello(struct session *s, const Kymo__Wire__Hello *peer, struct kymo_err *err)
{
    const struct session_config *c = &s->config;
    if (s->version)
        return kymo_err_set(err, -EPROTO, "a second hello");
    const struct wire_range theirs = {peer->version_min, peer->version_max};
    uint32_t version;
    int r = wire_negotiate(&c->versions, &theirs, &version, err);
    if (r == 0 && !s->said_hello)
        r = say_hello(s, err);
    if (r < 0)
        return r;
    s->version = version;
    s->features = c->features & peer->features;
    const struct frame_limits limits = {c->protocol->message_max, c->side == WIRE_SERVER ? c->protocol->raw_max : 0};
    frame_parser_set_limits(s->parser, &limits);
    return c->on_ready ? c->on_ready(c->ctx, peer, err) : 0;
}

static int on_refusal(struct session *s, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    const Kymo__Wire__Refusal *refusal = (const Kymo__Wire__Refusal *)m->pb;
    if (s->version && (refusal->has_ticket || refusal->has_request_id))
        return s->config.on_message(s->config.ctx, m, f, err);
    const ProtobufCEnumValue *why =
        protobuf_c_enum_descriptor_get_value(&kymo__wire__refusal__reason__descriptor, (int)refusal->why);
    return kymo_err_set(err, -ECONNREFUSED, "the peer refuses (%s): %s", why ? why->name : "unknown reason",
                        refusal->text ? refusal->text : "");
}

static int on_ping(struct session *s, const Kymo__Wire__Ping *ping, struct kymo_err *err)
{
    Kymo__Wire__Pong pong = KYMO__WIRE__PONG__INIT;
    pong.has_nonce = ping->has_nonce;
    pong.nonce = ping->nonce;
    return session_send(s, WIRE_PONG, &pong.base, err);
}

static int dispatch(struct session *s, const struct wire_message *m, const struct frame *f, struct kymo_err *err)
{
    if (m->type == WIRE_HELLO)
        return on_hello(s, (const Kymo__Wire__Hello *)m->pb, err);
    if (m->type == WIRE_REFUSAL)
        return on_refusal(s, m, f, err);
    if (!s->version)
        return kymo_err_set(err, -EPROTO, "%s before hello", m->pb->descriptor->name);
    if (m->since > s->version)
        return kymo_err_set(err, -EPROTO, "%s is of version %u, agreed was %u", m->pb->descriptor->name, m->since,
                            s->version);
    if (m->type == WIRE_PING)
        return on_ping(s, (const Kymo__Wire__Ping *)m->pb, err);
    if (m->type == WIRE_PONG) {
        s->last_pong = ((const Kymo__Wire__Pong *)m->pb)->nonce;
        return 0;
    }
    return s->config.on_message(s->config.ctx, m, f, err);
}

static int on_frame(struct session *s, const struct frame *f, struct kymo_err *err)
{
    struct wire_message m = {0};
    enum wire_side peer = s->config.side == WIRE_CLIENT ? WIRE_SERVER : WIRE_CLIENT;
    int r = wire_unpack(s->config.protocol, peer, f, &m, err);
    if (r <= 0)
        return r;
    r = dispatch(s, &m, f, err);
    wire_message_done(&m);
    return r;
}

static int end_session(struct session *s, int code, const struct kymo_err *cause)
{
    if (code == -ECONNREFUSED) {
        /* Refusing a refusal would help nobody. */
        s->failed = *cause;
        return code;
    }
    int why = code == -EPROTONOSUPPORT              ? KYMO__WIRE__REFUSAL__REASON__VERSION
              : code == -ENOMEM || code == -ENOBUFS ? KYMO__WIRE__REFUSAL__REASON__BUSY
                                                    : KYMO__WIRE__REFUSAL__REASON__PROTOCOL;
    return session_fail(s, why, code, cause->text);
}

int session_feed(struct session *s, const void *data, size_t n, struct kymo_err *err)
{
    const uint8_t *at = data;
    while (!s->failed.code) {
        struct frame f;
        struct kymo_err cause = {0};
        int r = frame_parser_next(s->parser, &at, &n, &f, &cause);
        if (r == 0)
            return 0;
        if (r > 0)
            r = on_frame(s, &f, &cause);
        if (r < 0)
            (void)end_session(s, r, &cause);
    }
    return kymo_err_set(err, s->failed.code, "%s: %s", s->config.protocol->name, s->failed.text);
}

void session_out(const struct session *s, const uint8_t **ret_data, size_t *ret_n)
{
    *ret_n = s->out.len - s->out_at;
    *ret_data = *ret_n ? s->out.data + s->out_at : NULL;
}

void session_consume(struct session *s, size_t n)
{
    size_t waiting = session_waiting(s);
    s->out_at += n < waiting ? n : waiting;
    if (s->out_at == s->out.len) {
        kymo_buf_reset(&s->out);
        s->out_at = 0;
    }
}

size_t session_waiting(const struct session *s)
{
    return s->out.len - s->out_at;
}

int session_send_raw(struct session *s, uint16_t type, const ProtobufCMessage *m, const struct frame *raw,
                     uint8_t **ret_raw, struct kymo_err *err)
{
    if (s->failed.code)
        return kymo_err_set(err, s->failed.code, "%s", s->failed.text);
    if (!s->version)
        return kymo_err_set(err, -EAGAIN, "%s: %s before hello", s->config.protocol->name, m->descriptor->name);
    if (wire_since(s->config.protocol, type) > s->version)
        return kymo_err_set(err, -EOPNOTSUPP, "%s: %s is not of version %u, which the peer speaks",
                            s->config.protocol->name, m->descriptor->name, s->version);
    size_t size = protobuf_c_message_get_packed_size(m) + (raw ? raw->raw_len : 0) + FRAME_HEADER_SIZE;
    if (session_waiting(s) + size > SESSION_OUT_MAX - OUT_RESERVE)
        return kymo_err_set(err, -ENOBUFS, "%s: %zu bytes wait to be sent", s->config.protocol->name,
                            session_waiting(s));
    return append(s, type, m, raw, ret_raw, err);
}

int session_send(struct session *s, uint16_t type, const ProtobufCMessage *m, struct kymo_err *err)
{
    return session_send_raw(s, type, m, NULL, NULL, err);
}

void session_take_back(struct session *s, size_t n)
{
    size_t waiting = session_waiting(s);
    s->out.len -= n < waiting ? n : waiting;
}

int session_refuse(struct session *s, int why, const char *text, uint32_t ticket, uint64_t request_id,
                   struct kymo_err *err)
{
    if (s->failed.code)
        return kymo_err_set(err, s->failed.code, "%s", s->failed.text);
    if (session_waiting(s) > SESSION_OUT_MAX - OUT_RESERVE)
        return kymo_err_set(err, -ENOBUFS, "%s: %zu bytes wait to be sent", s->config.protocol->name,
                            session_waiting(s));
    return append_refusal(s, why, text, ticket, request_id, err);
}

int session_ping(struct session *s, uint64_t nonce, struct kymo_err *err)
{
    Kymo__Wire__Ping ping = KYMO__WIRE__PING__INIT;
    ping.has_nonce = 1;
    ping.nonce = nonce;
    return session_send(s, WIRE_PING, &ping.base, err);
}

bool session_is_ready(const struct session *s)
{
    return s->version != 0 && !s->failed.code;
}

bool session_has_failed(const struct session *s)
{
    return s->failed.code != 0;
}

uint32_t session_version(const struct session *s)
{
    return s->version;
}

uint64_t session_features(const struct session *s)
{
    return s->features;
}

uint64_t session_last_pong(const struct session *s)
{
    return s->last_pong;
}
