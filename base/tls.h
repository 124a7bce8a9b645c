/*
 * TLS 1.3 without I/O, over OpenSSL: bytes of the network go in and out by calls, so that any event loop can drive it.
 * Both sides show certificates, but for a server that takes any client; nothing older than TLS 1.3, no resumption, no
 * early data. A context may be shared by threads, a stream not.
 */
#ifndef KYMO_BASE_TLS_H
#define KYMO_BASE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TLS_OUT_MAX (4u << 20) /* encrypted bytes that may wait to be sent */
#define TLS_NAME_MAX 255

enum tls_side { TLS_CLIENT, TLS_SERVER };

/*
 * PEM files: what we show, its key, and who may sign what the peer shows. All three are needed; but a server may say
 * any_client, and asks its clients for no certificate: they have to prove otherwise who they are. ca must be NULL then.
 */
struct tls_files {
    const char *cert, *key, *ca;
    bool any_client;
};

struct tls_context;

/* The files are read here, once; to change certificates make another context. Errors name the file. */
int tls_context_new(enum tls_side side, const struct tls_files *files, struct tls_context **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* NULL is fine; returns NULL. Streams of it live on. */
struct tls_context *tls_context_free(struct tls_context *c);

struct tls_stream;

/*
 * peer_name, of a client: the host name or IP address that the server's certificate must be for. A server passes NULL;
 * any certificate that the CA signed will do, and tls_stream_peer_name tells whose it is.
 */
int tls_stream_new(struct tls_context *c, const char *peer_name, struct tls_stream **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
struct tls_stream *tls_stream_free(struct tls_stream *t); /* NULL is fine; returns NULL */

/* Plain bytes that have come; a negative result ends the stream with that code. */
typedef int tls_sink(void *ctx, const uint8_t *data, size_t n, struct kymo_err *err);

/*
 * Takes all n bytes of the network and hands on what they hold. A server's stream starts so; a client's with n = 0.
 * -EACCES: a certificate is not accepted, ours or the peer's (the text has the reason); -EPROTO: broken TLS, or another
 * version; -EPIPE: the peer has ended the stream in order. Later calls repeat it. What waits is still to be sent then:
 * the peer learns why.
 */
int tls_stream_feed(struct tls_stream *t, const void *data, size_t n, tls_sink *sink, void *ctx,
                    struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Encrypts all n bytes or none. -EAGAIN: the handshake is not over; -ENOBUFS: TLS_OUT_MAX would be passed.
 * A client may be ready before the server has looked at its certificate; the refusal then comes by tls_stream_feed.
 */
int tls_stream_write(struct tls_stream *t, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;
/* Says that nothing more will be written. */
void tls_stream_close(struct tls_stream *t);

/* Encrypted bytes to send; they stay where they are until the next call of feed, write, close or consume. */
void tls_stream_out(const struct tls_stream *t, const uint8_t **ret_data, size_t *ret_n);
void tls_stream_consume(struct tls_stream *t, size_t n);

bool tls_stream_is_ready(const struct tls_stream *t); /* the handshake is over */
/* The peer's first DNS name, else its common name; "" before ready or without either. */
void tls_stream_peer_name(const struct tls_stream *t, char ret[static TLS_NAME_MAX + 1]);

#endif
