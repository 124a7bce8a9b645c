/*
 * One end of a connection over frames, without I/O: bytes go in by session_feed, messages come out through on_message,
 * bytes to send are taken by session_out and session_consume. It does what all protocols share: the hello with the
 * version, the order of things, pings, refusals, bounded memory. Not thread-safe. The state machines of the uplink are
 * built on it; the control socket's ends use it as it is.
 */
#ifndef KYMO_PROTO_SESSION_H
#define KYMO_PROTO_SESSION_H

#include "proto/wire.h"

#define SESSION_OUT_MAX (4u << 20)

struct session_config {
    const struct wire_protocol *protocol;
    enum wire_side side; /* ours */
    struct wire_range versions;
    uint64_t features;
    const char *writer;  /* program and version */
    const char *host;    /* may be NULL, as may boot_id */
    const char *boot_id; /* the strings must live as long as the session */
    /*
     * Both are called inside session_feed and may send, but neither feed nor free. A negative result ends the session;
     * the text goes to the peer in a refusal. Messages and frames hold until the callback returns. Refusals about one
     * capture or request come through on_message; one about the connection ends it. To a server, uncompressed raw bytes
     * come in pieces, each with its message again (frame_parser_stream).
     */
    int (*on_ready)(void *ctx, const Kymo__Wire__Hello *peer, struct kymo_err *err);
    int (*on_message)(void *ctx, const struct wire_message *m, const struct frame *f, struct kymo_err *err);
    void *ctx;
};

struct session;

int session_new(const struct session_config *config, struct session **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct session *session_free(struct session *s); /* NULL is fine; returns NULL */

/*
 * Takes all n bytes. Negative: the connection is to be closed once what session_out gives is sent; -ECONNREFUSED: the
 * peer refused, the text has its reason; every later call refuses likewise.
 */
int session_feed(struct session *s, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;

/* Bytes to send; they stay where they are until something is sent or consumed. */
void session_out(const struct session *s, const uint8_t **ret_data, size_t *ret_n);
void session_consume(struct session *s, size_t n);
size_t session_waiting(const struct session *s); /* bytes to send */

/* Before both have said hello: -EAGAIN. -EOPNOTSUPP: the agreed version does not have the type. -ENOBUFS:
 * SESSION_OUT_MAX bytes wait already. */
int session_send(struct session *s, uint16_t type, const ProtobufCMessage *m, struct kymo_err *err) KYMO_MUST_CHECK;
/* As session_send, with room for raw bytes (raw->raw_len, plain_len, flags), to be filled in before any other call. */
int session_send_raw(struct session *s, uint16_t type, const ProtobufCMessage *m, const struct frame *raw,
                     uint8_t **ret_raw, struct kymo_err *err) KYMO_MUST_CHECK;
/* Takes the last n waiting bytes back, such as a frame whose raw bytes could not be had. */
void session_take_back(struct session *s, size_t n);
/* A refusal of one capture or request: ticket or request_id, the other 0. */
int session_refuse(struct session *s, int why, const char *text, uint32_t ticket, uint64_t request_id,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends the session with a refusal to the peer; returns code. */
int session_fail(struct session *s, int why, int code, const char *text);
int session_ping(struct session *s, uint64_t nonce, struct kymo_err *err) KYMO_MUST_CHECK;

bool session_is_ready(const struct session *s);
bool session_has_failed(const struct session *s);
uint32_t session_version(const struct session *s);  /* 0 before ready */
uint64_t session_features(const struct session *s); /* those of both sides */
uint64_t session_last_pong(const struct session *s);

#endif
