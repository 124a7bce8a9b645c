#include "base/tls.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/buf.h"

#define RECORD 16384u
/* Header, type and tag of a record. */
#define RECORD_EXTRA 64u
/* Kept free for alerts, the handshake and key updates. */
#define OUT_RESERVE (64u << 10)

struct tls_context {
    SSL_CTX *ssl;
    enum tls_side side;
};

struct tls_stream {
    SSL *ssl;
    struct kymo_buf out;
    size_t out_at;
    const uint8_t *in; /* what feed was given and OpenSSL has not taken yet */
    size_t in_n;
    bool ready;
    struct kymo_err failed;
    uint8_t plain[RECORD];
};

/*
 * OpenSSL's own memory BIO grows without limit and moves its bytes at each write. This one reads straight from the
 * bytes that feed was given and writes to a buffer with a maximum.
 */
static int bio_write(BIO *bio, const char *data, int n)
{
    struct tls_stream *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n <= 0)
        return 0;
    if (t->out.len == t->out_at) {
        kymo_buf_reset(&t->out);
        t->out_at = 0;
    }
    return kymo_buf_append(&t->out, data, (size_t)n) < 0 ? -1 : n;
}

static int bio_read(BIO *bio, char *out, int n)
{
    struct tls_stream *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n <= 0)
        return 0;
    if (t->in_n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t take = (size_t)n < t->in_n ? (size_t)n : t->in_n;
    memcpy(out, t->in, take);
    t->in += take;
    t->in_n -= take;
    return (int)take;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH;
}

static BIO *make_bio(struct tls_stream *t)
{
    /* Made once and kept: OpenSSL's table of BIO types is global. */
    static _Atomic(BIO_METHOD *) method;
    BIO_METHOD *m = method;
    if (!m) {
        m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kymo");
        if (!m || !BIO_meth_set_write(m, bio_write) || !BIO_meth_set_read(m, bio_read) ||
            !BIO_meth_set_ctrl(m, bio_ctrl)) {
            BIO_meth_free(m);
            return NULL;
        }
        BIO_METHOD *none = NULL;
        if (!atomic_compare_exchange_strong(&method, &none, m)) {
            BIO_meth_free(m);
            m = none;
        }
    }
    BIO *bio = BIO_new(m);
    if (bio) {
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* The deepest cause that OpenSSL noted, in words. Empties its queue. */
static const char *ssl_cause(void)
{
    const char *reason = NULL;
    for (unsigned long e; (e = ERR_get_error()) != 0;) {
        const char *text = ERR_reason_error_string(e);
        reason = text && !reason ? text : reason;
    }
    return reason ? reason : "no reason given";
}

static int load_files(SSL_CTX *ssl, const struct tls_files *files, struct kymo_err *err)
{
    const char *const paths[] = {files->cert, files->key, files->ca};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (paths[i] && access(paths[i], R_OK) < 0)
            return kymo_err_set(err, -EINVAL, "%s: cannot be read: %s", paths[i], strerror(errno));
    if (SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1)
        return kymo_err_set(err, -EINVAL, "%s: cannot use this certificate: %s", files->cert, ssl_cause());
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1)
        return kymo_err_set(err, -EINVAL, "%s: cannot use this key: %s", files->key, ssl_cause());
    if (SSL_CTX_check_private_key(ssl) != 1)
        return kymo_err_set(err, -EINVAL, "%s: not the key of %s", files->key, files->cert);
    if (files->ca && SSL_CTX_load_verify_file(ssl, files->ca) != 1)
        return kymo_err_set(err, -EINVAL, "%s: cannot use these authorities: %s", files->ca, ssl_cause());
    return 0;
}

int tls_context_new(enum tls_side side, const struct tls_files *files, struct tls_context **ret, struct kymo_err *err)
{
    if (files->any_client && (side == TLS_CLIENT || files->ca))
        return kymo_err_set(err, -EINVAL, "tls: only a server takes any client, and then knows no authorities");
    if (!files->cert || !files->key || (!files->ca && !files->any_client))
        return kymo_err_set(err, -EINVAL, "tls: a certificate, its key and the authorities are needed");
    struct tls_context *c KYMO_FREE = KYMO_NEW(struct tls_context);
    SSL_CTX *ssl = c ? SSL_CTX_new(side == TLS_CLIENT ? TLS_client_method() : TLS_server_method()) : NULL;
    if (!ssl)
        return kymo_err_set(err, -ENOMEM, "tls: out of memory");
    int r = load_files(ssl, files, err);
    if (r == 0 && (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 || SSL_CTX_set_num_tickets(ssl, 0) != 1))
        r = kymo_err_set(err, -EIO, "tls: cannot set up TLS 1.3: %s", ssl_cause());
    if (r < 0) {
        SSL_CTX_free(ssl);
        return r;
    }
    SSL_CTX_set_verify(ssl, files->any_client ? SSL_VERIFY_NONE : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ssl, 1);
    /* What is shown is the file's chain, not whatever the authorities we trust happen to add to it. */
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    c->ssl = ssl;
    c->side = side;
    *ret = KYMO_TAKE(c);
    return 0;
}

struct tls_context *tls_context_free(struct tls_context *c)
{
    if (c)
        SSL_CTX_free(c->ssl);
    kymo_free(c);
    return NULL;
}

static int expect_name(SSL *ssl, const char *name, struct kymo_err *err)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (strlen(name) == 0 || strlen(name) > TLS_NAME_MAX)
        return kymo_err_set(err, -EINVAL, "tls: a server's name has 1 to %d bytes", TLS_NAME_MAX);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
        return 0;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_host(param, name, 0) != 1 || SSL_set_tlsext_host_name(ssl, name) != 1)
        return kymo_err_set(err, -EINVAL, "tls: %s is no name of a server: %s", name, ssl_cause());
    return 0;
}

int tls_stream_new(struct tls_context *c, const char *peer_name, struct tls_stream **ret, struct kymo_err *err)
{
    if ((c->side == TLS_CLIENT) != (peer_name != NULL))
        return kymo_err_set(err, -EINVAL, "tls: a client, and only a client, names its peer");
    struct tls_stream *t = KYMO_NEW(struct tls_stream);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "tls: out of memory");
    kymo_buf_init(&t->out, TLS_OUT_MAX);
    t->ssl = SSL_new(c->ssl);
    BIO *bio = t->ssl ? make_bio(t) : NULL;
    if (!bio) {
        tls_stream_free(t);
        return kymo_err_set(err, -ENOMEM, "tls: out of memory: %s", ssl_cause());
    }
    SSL_set_bio(t->ssl, bio, bio);
    int r = 0;
    if (c->side == TLS_CLIENT) {
        SSL_set_connect_state(t->ssl);
        r = expect_name(t->ssl, peer_name, err);
    } else {
        SSL_set_accept_state(t->ssl);
    }
    if (r < 0) {
        tls_stream_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

struct tls_stream *tls_stream_free(struct tls_stream *t)
{
    if (!t)
        return NULL;
    SSL_free(t->ssl);
    kymo_buf_done(&t->out);
    kymo_free(t);
    return NULL;
}

/* Alerts by which a peer says that it does not like our certificate. */
static bool is_certificate_alert(int reason)
{
    switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return true;
    default:
        return false;
    }
}

static int fail(struct tls_stream *t, const char *doing)
{
    long verified = SSL_get_verify_result(t->ssl);
    int reason = ERR_GET_REASON(ERR_peek_error());
    const char *cause = ssl_cause();
    if (!t->ready && verified != X509_V_OK && reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return kymo_err_set(&t->failed, -EACCES, "tls: the peer's certificate is refused: %s",
                            X509_verify_cert_error_string(verified));
    if (is_certificate_alert(reason))
        return kymo_err_set(&t->failed, -EACCES, "tls: %s: %s", doing, cause);
    return kymo_err_set(&t->failed, -EPROTO, "tls: %s: %s", doing, cause);
}

static int shake_hands(struct tls_stream *t)
{
    int r = SSL_do_handshake(t->ssl);
    if (r == 1) {
        t->ready = true;
        return 0;
    }
    return SSL_get_error(t->ssl, r) == SSL_ERROR_WANT_READ ? -EAGAIN : fail(t, "handshake");
}

static int read_plain(struct tls_stream *t, tls_sink *sink, void *ctx)
{
    for (;;) {
        size_t n;
        int r = SSL_read_ex(t->ssl, t->plain, sizeof t->plain, &n);
        if (r == 1) {
            struct kymo_err cause = {0};
            int e = sink(ctx, t->plain, n, &cause);
            if (e < 0)
                return kymo_err_set(&t->failed, e, "%s", cause.code ? cause.text : "tls: the receiver gave up");
            continue;
        }
        switch (SSL_get_error(t->ssl, r)) {
        case SSL_ERROR_WANT_READ:
            return 0;
        case SSL_ERROR_ZERO_RETURN:
            return kymo_err_set(&t->failed, -EPIPE, "tls: the peer has ended the stream");
        default:
            return fail(t, "reading");
        }
    }
}

int tls_stream_feed(struct tls_stream *t, const void *data, size_t n, tls_sink *sink, void *ctx, struct kymo_err *err)
{
    if (!t->failed.code) {
        ERR_clear_error();
        t->in = data;
        t->in_n = n;
        int r = t->ready ? 0 : shake_hands(t);
        if (r == 0)
            (void)read_plain(t, sink, ctx);
        t->in = NULL;
        t->in_n = 0;
    }
    return t->failed.code ? kymo_err_set(err, t->failed.code, "%s", t->failed.text) : 0;
}

int tls_stream_write(struct tls_stream *t, const void *data, size_t n, struct kymo_err *err)
{
    if (t->failed.code)
        return kymo_err_set(err, t->failed.code, "%s", t->failed.text);
    if (!t->ready)
        return kymo_err_set(err, -EAGAIN, "tls: the handshake is not over");
    if (n == 0)
        return 0;
    size_t waiting = t->out.len - t->out_at;
    if (n > TLS_OUT_MAX || waiting + n + (n / RECORD + 1) * RECORD_EXTRA > TLS_OUT_MAX - OUT_RESERVE)
        return kymo_err_set(err, -ENOBUFS, "tls: %zu bytes wait, no room for %zu", waiting, n);
    if (t->out_at > 0) {
        memmove(t->out.data, t->out.data + t->out_at, waiting);
        t->out.len = waiting;
        t->out_at = 0;
    }
    ERR_clear_error();
    size_t done;
    if (SSL_write_ex(t->ssl, data, n, &done) != 1 || done != n) {
        (void)fail(t, "writing");
        return kymo_err_set(err, t->failed.code, "%s", t->failed.text);
    }
    return 0;
}

void tls_stream_close(struct tls_stream *t)
{
    ERR_clear_error();
    if (t->ready && (!t->failed.code || t->failed.code == -EPIPE))
        (void)SSL_shutdown(t->ssl);
    ERR_clear_error();
}

void tls_stream_out(const struct tls_stream *t, const uint8_t **ret_data, size_t *ret_n)
{
    *ret_n = t->out.len - t->out_at;
    *ret_data = *ret_n ? t->out.data + t->out_at : NULL;
}

void tls_stream_consume(struct tls_stream *t, size_t n)
{
    size_t waiting = t->out.len - t->out_at;
    t->out_at += n < waiting ? n : waiting;
}

bool tls_stream_is_ready(const struct tls_stream *t)
{
    return t->ready && !t->failed.code;
}

/* The first DNS name in the certificate's list; false: there is none that fits. */
static bool first_dns_name(const X509 *cert, char ret[static TLS_NAME_MAX + 1])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; !found && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS)
            continue;
        int n = ASN1_STRING_length(name->d.dNSName);
        const unsigned char *text = ASN1_STRING_get0_data(name->d.dNSName);
        if (n <= 0 || n > TLS_NAME_MAX || memchr(text, 0, (size_t)n))
            continue;
        memcpy(ret, text, (size_t)n);
        ret[n] = '\0';
        found = true;
    }
    GENERAL_NAMES_free(names);
    return found;
}

void tls_stream_peer_name(const struct tls_stream *t, char ret[static TLS_NAME_MAX + 1])
{
    ret[0] = '\0';
    X509 *cert = tls_stream_is_ready(t) ? SSL_get1_peer_certificate(t->ssl) : NULL;
    if (cert && !first_dns_name(cert, ret) &&
        X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, ret, TLS_NAME_MAX + 1) < 0)
        ret[0] = '\0';
    X509_free(cert);
}
