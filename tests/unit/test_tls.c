#include "base/tls.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "tests/unit/tls_sample.h"

static char dir[] = "/tmp/kymo-test-tls-XXXXXX";

static int setup_group(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return 1;
    tls_sample_make(dir);
    return 0;
}

static int teardown_group(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

struct end {
    struct tls_context *context;
    struct tls_stream *stream;
    struct kymo_buf got;
    struct kymo_err err;
    int r;
};

static int collect(void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct end *e = ctx;
    (void)err;
    return kymo_buf_append(&e->got, data, n);
}

static void make_end(struct end *e, enum tls_side side, const char *cert, const char *ca, const char *name)
{
    memset(e, 0, sizeof *e);
    e->context = tls_sample_context(dir, side, cert, ca);
    kymo_buf_init(&e->got, 64u << 20);
    assert_int_equal(tls_stream_new(e->context, name, &e->stream, NULL), 0);
}

static void end_done(struct end *e)
{
    tls_stream_free(e->stream);
    tls_context_free(e->context);
    kymo_buf_done(&e->got);
}

/* Moves what waits from one to the other, in pieces of a size. */
static bool move(struct end *from, struct end *to, size_t piece)
{
    const uint8_t *data;
    size_t n;
    tls_stream_out(from->stream, &data, &n);
    if (n == 0)
        return false;
    n = n < piece ? n : piece;
    uint8_t *copy KYMO_FREE = kymo_malloc(n);
    memcpy(copy, data, n);
    tls_stream_consume(from->stream, n);
    if (to->r == 0)
        to->r = tls_stream_feed(to->stream, copy, n, collect, to, &to->err);
    return true;
}

static void talk(struct end *client, struct end *server, size_t piece)
{
    if (client->r == 0)
        client->r = tls_stream_feed(client->stream, NULL, 0, collect, client, &client->err);
    for (bool moved = true; moved;) {
        moved = move(client, server, piece);
        moved |= move(server, client, piece);
    }
}

static void test_both_ways(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 7, 1000, 1u << 20};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct end client, server;
        make_end(&client, TLS_CLIENT, TLS_SAMPLE_CLIENT, "ca", i % 2 ? "127.0.0.1" : "collector.test");
        make_end(&server, TLS_SERVER, TLS_SAMPLE_SERVER, "ca", NULL);
        assert_int_equal(tls_stream_write(client.stream, "x", 1, NULL), -EAGAIN);
        talk(&client, &server, pieces[i]);
        assert_true(tls_stream_is_ready(client.stream) && tls_stream_is_ready(server.stream));
        char name[TLS_NAME_MAX + 1];
        tls_stream_peer_name(server.stream, name);
        assert_string_equal(name, "host7.test");
        tls_stream_peer_name(client.stream, name);
        assert_string_equal(name, "collector.test");

        static uint8_t bytes[100000];
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)(k * 31 >> 3);
        assert_int_equal(tls_stream_write(client.stream, bytes, sizeof bytes, NULL), 0);
        assert_int_equal(tls_stream_write(server.stream, "abc", 3, NULL), 0);
        talk(&client, &server, pieces[i]);
        assert_int_equal(server.got.len, sizeof bytes);
        assert_memory_equal(server.got.data, bytes, sizeof bytes);
        assert_int_equal(client.got.len, 3);

        tls_stream_close(client.stream);
        talk(&client, &server, pieces[i]);
        assert_int_equal(server.r, -EPIPE);
        assert_int_equal(tls_stream_write(server.stream, "x", 1, NULL), -EPIPE);
        end_done(&client);
        end_done(&server);
    }
}

/* One side refuses with -EACCES and a reason; the other learns of it. */
static void assert_refused(const char *client_cert, const char *client_ca, const char *server_cert, const char *name,
                           bool by_client, const char *reason)
{
    struct end client, server;
    make_end(&client, TLS_CLIENT, client_cert, client_ca, name);
    make_end(&server, TLS_SERVER, server_cert, "ca", NULL);
    talk(&client, &server, 100000);
    const struct end *refuses = by_client ? &client : &server, *refused = by_client ? &server : &client;
    assert_int_equal(refuses->r, -EACCES);
    if (!strstr(refuses->err.text, reason))
        fail_msg("\"%s\" lacks \"%s\"", refuses->err.text, reason);
    assert_int_equal(refused->r, -EACCES);
    assert_non_null(strstr(refused->err.text, "alert"));
    assert_int_equal(refuses->got.len + refused->got.len, 0);
    end_done(&client);
    end_done(&server);
}

static void test_certificates_are_checked(void **state)
{
    (void)state;
    const char *server = TLS_SAMPLE_SERVER, *client = TLS_SAMPLE_CLIENT;
    assert_refused(client, "ca", TLS_SAMPLE_STRANGER, "collector.test", true, "unable to get local issuer");
    assert_refused(client, "stranger-ca", server, "collector.test", true, "unable to get local issuer");
    assert_refused(client, "ca", TLS_SAMPLE_EXPIRED, "collector.test", true, "expired");
    assert_refused(client, "ca", server, "elsewhere.test", true, "hostname mismatch");
    assert_refused(client, "ca", server, "127.0.0.2", true, "IP address mismatch");
    assert_refused(TLS_SAMPLE_STRANGER, "ca", server, "collector.test", false, "unable to get local issuer");
    assert_refused(TLS_SAMPLE_EXPIRED, "ca", server, "collector.test", false, "expired");
}

/* A peer of OpenSSL alone, as foreign programs are: what one side says is moved through memory BIOs. */
static void talk_to_foreign(struct end *ours, SSL *foreign)
{
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(foreign, in, out);
    ours->r = tls_stream_feed(ours->stream, NULL, 0, collect, ours, &ours->err);
    for (int i = 0; i < 6; i++) {
        (void)SSL_do_handshake(foreign);
        char buf[16384];
        int n;
        while ((n = BIO_read(out, buf, sizeof buf)) > 0 && ours->r == 0)
            ours->r = tls_stream_feed(ours->stream, buf, (size_t)n, collect, ours, &ours->err);
        const uint8_t *data;
        size_t waiting;
        tls_stream_out(ours->stream, &data, &waiting);
        (void)BIO_write(in, data, (int)waiting);
        tls_stream_consume(ours->stream, waiting);
    }
    SSL_free(foreign);
}

static void load(SSL_CTX *ctx, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s.pem", dir, name);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, path), 1);
    (void)snprintf(path, sizeof path, "%s/%s.key", dir, name);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM), 1);
}

static void test_older_versions_are_refused(void **state)
{
    (void)state;
    for (int ours_is_client = 0; ours_is_client < 2; ours_is_client++) {
        SSL_CTX *ctx = SSL_CTX_new(ours_is_client ? TLS_server_method() : TLS_client_method());
        assert_int_equal(SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION), 1);
        load(ctx, ours_is_client ? TLS_SAMPLE_SERVER : TLS_SAMPLE_CLIENT);
        SSL *foreign = SSL_new(ctx);
        if (ours_is_client)
            SSL_set_accept_state(foreign);
        else
            SSL_set_connect_state(foreign);
        struct end ours;
        make_end(&ours, ours_is_client ? TLS_CLIENT : TLS_SERVER,
                 ours_is_client ? TLS_SAMPLE_CLIENT : TLS_SAMPLE_SERVER, "ca",
                 ours_is_client ? "collector.test" : NULL);
        talk_to_foreign(&ours, foreign);
        assert_int_equal(ours.r, -EPROTO);
        if (!strstr(ours.err.text, "protocol"))
            fail_msg("%s", ours.err.text);
        assert_false(tls_stream_is_ready(ours.stream));
        end_done(&ours);
        SSL_CTX_free(ctx);
    }
}

static void test_client_without_certificate(void **state)
{
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *foreign = SSL_new(ctx);
    SSL_set_connect_state(foreign);
    struct end ours;
    make_end(&ours, TLS_SERVER, TLS_SAMPLE_SERVER, "ca", NULL);
    talk_to_foreign(&ours, foreign);
    assert_int_equal(ours.r, -EACCES);
    assert_non_null(strstr(ours.err.text, "did not return a certificate"));
    end_done(&ours);
    SSL_CTX_free(ctx);
}

static void test_broken_bytes(void **state)
{
    (void)state;
    struct end server;
    make_end(&server, TLS_SERVER, TLS_SAMPLE_SERVER, "ca", NULL);
    server.r = tls_stream_feed(server.stream, "GET / HTTP/1.1\r\n\r\n", 18, collect, &server, &server.err);
    assert_int_equal(server.r, -EPROTO);
    assert_int_equal(tls_stream_feed(server.stream, "x", 1, collect, &server, NULL), -EPROTO);
    end_done(&server);

    struct end client;
    make_end(&client, TLS_CLIENT, TLS_SAMPLE_CLIENT, "ca", "collector.test");
    make_end(&server, TLS_SERVER, TLS_SAMPLE_SERVER, "ca", NULL);
    talk(&client, &server, 100000);
    assert_int_equal(tls_stream_write(client.stream, "secret", 6, NULL), 0);
    const uint8_t *data;
    size_t n;
    tls_stream_out(client.stream, &data, &n);
    uint8_t *copy KYMO_FREE = kymo_malloc(n);
    memcpy(copy, data, n);
    copy[n - 1] ^= 1;
    assert_int_equal(tls_stream_feed(server.stream, copy, n, collect, &server, &server.err), -EPROTO);
    assert_int_equal(server.got.len, 0);
    end_done(&client);
    end_done(&server);
}

static void test_output_is_bounded(void **state)
{
    (void)state;
    struct end client, server;
    make_end(&client, TLS_CLIENT, TLS_SAMPLE_CLIENT, "ca", "collector.test");
    make_end(&server, TLS_SERVER, TLS_SAMPLE_SERVER, "ca", NULL);
    talk(&client, &server, 100000);
    static uint8_t bytes[1u << 20];
    int taken = 0, r = 0;
    while (taken < 100 && (r = tls_stream_write(client.stream, bytes, sizeof bytes, NULL)) == 0)
        taken++;
    assert_int_equal(r, -ENOBUFS);
    assert_int_equal(taken, 3);
    talk(&client, &server, 100000);
    assert_int_equal(server.got.len, 3u << 20);
    assert_int_equal(tls_stream_write(client.stream, bytes, sizeof bytes, NULL), 0);
    end_done(&client);
    end_done(&server);
}

static void test_files_are_named(void **state)
{
    (void)state;
    char cert[256], key[256], other[256];
    (void)snprintf(cert, sizeof cert, "%s/server.pem", dir);
    (void)snprintf(key, sizeof key, "%s/server.key", dir);
    (void)snprintf(other, sizeof other, "%s/client.key", dir);
    struct tls_context *c;
    struct kymo_err err = {0};
    struct tls_files files = {.cert = "/nowhere", .key = key, .ca = cert};
    assert_int_equal(tls_context_new(TLS_SERVER, &files, &c, &err), -EINVAL);
    assert_non_null(strstr(err.text, "/nowhere"));
    files = (struct tls_files){.cert = cert, .key = other, .ca = cert};
    assert_int_equal(tls_context_new(TLS_SERVER, &files, &c, &err), -EINVAL);
    assert_non_null(strstr(err.text, "client.key"));
    files = (struct tls_files){.cert = cert, .key = key, .ca = key};
    assert_int_equal(tls_context_new(TLS_SERVER, &files, &c, &err), -EINVAL);
    assert_non_null(strstr(err.text, "server.key"));
    files = (struct tls_files){.cert = cert, .key = key};
    assert_int_equal(tls_context_new(TLS_SERVER, &files, &c, &err), -EINVAL);
    files.any_client = true;
    assert_int_equal(tls_context_new(TLS_CLIENT, &files, &c, &err), -EINVAL);
    files.ca = cert;
    assert_int_equal(tls_context_new(TLS_SERVER, &files, &c, &err), -EINVAL);
    files.ca = NULL;
    assert_int_equal(tls_context_new(TLS_SERVER, &files, &c, &err), 0);
    tls_context_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_certificates_are_checked),
        cmocka_unit_test(test_older_versions_are_refused),
        cmocka_unit_test(test_client_without_certificate),
        cmocka_unit_test(test_broken_bytes),
        cmocka_unit_test(test_output_is_bounded),
        cmocka_unit_test(test_files_are_named),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
