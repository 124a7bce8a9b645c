/* Connections under a loop, on loopback: both sides in one process. */
#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/net_dialer.h"
#include "base/net_listener.h"
#include "tests/unit/tls_sample.h"

#define BULK (20u << 20)

static char dir[] = "/tmp/kymo-test-net-XXXXXX";

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

/* One side of a test. */
struct side {
    struct world *world;
    struct net_conn *conn;
    uint64_t sent, to_send, received;
    uint64_t sum;      /* of the received bytes, with their places */
    size_t stop_after; /* refuse once so many bytes have come */
    unsigned opened, closed, waits, refused;
    uint64_t last_wait;
    struct kymo_err why, wait_why;
};

struct world {
    uv_loop_t loop;
    struct net *net;
    struct net_listener *listener;
    struct net_dialer *dialer;
    struct side server, client;
    bool stop_at_close;
    uv_timer_t timer;
    char address[64];
    struct tls_context *contexts[2];
};

static uint8_t byte_at(uint64_t at)
{
    return (uint8_t)(at * 31 >> 5);
}

static void pump(struct side *s)
{
    static uint8_t chunk[300000];
    while (s->sent < s->to_send) {
        size_t n = s->to_send - s->sent < sizeof chunk ? (size_t)(s->to_send - s->sent) : sizeof chunk;
        for (size_t i = 0; i < n; i++)
            chunk[i] = byte_at(s->sent + i);
        size_t taken;
        if (net_conn_send(s->conn, chunk, n, &taken, NULL) < 0)
            return;
        s->sent += taken;
        if (taken < n)
            return;
    }
}

static int on_data(struct net_conn *c, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct side *s = ctx;
    assert_ptr_equal(c, s->conn);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(data[i], byte_at(s->received + i));
    s->received += n;
    if (s->stop_after && s->received >= s->stop_after)
        return kymo_err_set(err, -EPROTO, "that is enough");
    return 0;
}

static void on_writable(struct net_conn *c, void *ctx)
{
    struct side *s = ctx;
    assert_ptr_equal(c, s->conn);
    pump(s);
}

static void on_closed(struct net_conn *c, void *ctx, const struct kymo_err *why)
{
    struct side *s = ctx;
    assert_ptr_equal(c, s->conn);
    s->conn = NULL;
    s->closed++;
    s->why = *why;
    if (s->world->stop_at_close && s->world->server.closed && s->world->client.closed)
        uv_stop(&s->world->loop);
}

static const struct net_conn_ops ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static void *on_accepted(void *ctx, struct net_conn *c)
{
    struct world *w = ctx;
    w->server.conn = c;
    w->server.opened++;
    pump(&w->server);
    return &w->server;
}

static void on_refused(void *ctx, const char *peer, const struct kymo_err *why)
{
    struct world *w = ctx;
    assert_non_null(peer);
    w->server.refused++;
    w->server.why = *why;
}

static void on_opened(void *ctx, struct net_conn *c)
{
    struct side *s = ctx;
    s->conn = c;
    s->opened++;
    pump(s);
}

static void on_waiting(void *ctx, const struct kymo_err *why, uint64_t ms)
{
    struct side *s = ctx;
    s->waits++;
    s->last_wait = ms;
    s->wait_why = *why;
}

static void make_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(net_new(&w->loop, &w->net, NULL), 0);
    w->server.world = w->client.world = w;
    w->stop_at_close = true;
    (void)uv_timer_init(&w->loop, &w->timer);
}

static void listen_on(struct world *w, bool tls, unsigned max)
{
    if (tls)
        w->contexts[0] = tls_sample_context(dir, TLS_SERVER, TLS_SAMPLE_SERVER, "ca");
    const struct net_listener_config config = {.address = "127.0.0.1:0",
                                               .tls = w->contexts[0],
                                               .max_connections = max,
                                               .accepted = on_accepted,
                                               .refused = on_refused,
                                               .ops = &ops,
                                               .ctx = w};
    assert_int_equal(net_listener_new(w->net, &config, &w->listener, NULL), 0);
    (void)snprintf(w->address, sizeof w->address, "127.0.0.1:%d", net_listener_port(w->listener));
}

/* As listen_on, with a socket that somebody else made, or -1. */
static int adopt(struct world *w, int fd, struct kymo_err *err)
{
    const struct net_listener_config config = {.address = "uplink",
                                               .adopt = true,
                                               .socket = fd,
                                               .accepted = on_accepted,
                                               .refused = on_refused,
                                               .ops = &ops,
                                               .ctx = w};
    int r = net_listener_new(w->net, &config, &w->listener, err);
    if (r == 0)
        (void)snprintf(w->address, sizeof w->address, "127.0.0.1:%d", net_listener_port(w->listener));
    return r;
}

static void dial(struct world *w, const char *client_cert)
{
    if (client_cert)
        w->contexts[1] = tls_sample_context(dir, TLS_CLIENT, client_cert, "ca");
    const struct net_dialer_config config = {.address = w->address,
                                             .tls = w->contexts[1],
                                             .wait_min_ms = 10,
                                             .wait_max_ms = 40,
                                             .timeout_ms = 2000,
                                             .seed = 7,
                                             .opened = on_opened,
                                             .waiting = on_waiting,
                                             .ops = &ops,
                                             .ctx = &w->client};
    assert_int_equal(net_dialer_new(w->net, &config, &w->dialer, NULL), 0);
}

static void stop_loop(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs until somebody stops the loop, ms at most. */
static void run(struct world *w, uint64_t ms)
{
    (void)uv_timer_start(&w->timer, stop_loop, ms, 0);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
}

/* Everything lets go of the loop; leaks and late calls show here. */
static void end_world(struct world *w)
{
    w->stop_at_close = false;
    net_dialer_close(w->dialer);
    net_listener_close(w->listener);
    if (w->server.conn)
        net_conn_close(w->server.conn);
    uv_close((uv_handle_t *)&w->timer, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    net_free(w->net);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    tls_context_free(w->contexts[0]);
    tls_context_free(w->contexts[1]);
    assert_int_equal(w->client.opened, w->client.closed);
    assert_int_equal(w->server.opened, w->server.closed);
}

static void watch_bulk(uv_timer_t *timer)
{
    struct world *w = timer->data;
    if (w->server.received == w->client.to_send && w->client.received == w->server.to_send)
        uv_stop(timer->loop);
}

static void bulk(bool tls)
{
    struct world w;
    make_world(&w);
    listen_on(&w, tls, 0);
    w.client.to_send = BULK;
    w.server.to_send = BULK / 3;
    dial(&w, tls ? TLS_SAMPLE_CLIENT : NULL);
    w.timer.data = &w;
    (void)uv_timer_start(&w.timer, watch_bulk, 5, 5);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.server.received, BULK);
    assert_int_equal(w.client.received, BULK / 3);
    assert_int_equal(w.client.waits, 0);
    char name[TLS_NAME_MAX + 1];
    net_conn_peer_name(w.server.conn, name);
    assert_string_equal(name, tls ? "host7.test" : "");
    assert_non_null(strstr(net_conn_peer(w.server.conn), "127.0.0.1:"));
    (void)uv_timer_stop(&w.timer);
    end_world(&w);
}

static void test_bulk_plain(void **state)
{
    (void)state;
    bulk(false);
}

static void test_bulk_tls(void **state)
{
    (void)state;
    bulk(true);
}

/* What was taken before a close arrives, also when the other side still sends. */
static void test_close_delivers_what_was_taken(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct world w;
        make_world(&w);
        listen_on(&w, tls, 0);
        w.client.to_send = 100u << 20;
        w.server.to_send = 200000;
        w.server.stop_after = 1;
        dial(&w, tls ? TLS_SAMPLE_CLIENT : NULL);
        run(&w, 3000);
        assert_int_equal(w.server.closed, 1);
        assert_int_equal(w.server.why.code, -EPROTO);
        assert_non_null(strstr(w.server.why.text, "that is enough"));
        assert_int_equal(w.client.received, w.server.sent);
        assert_int_equal(w.client.why.code, -EPIPE);
        end_world(&w);
    }
}

static void test_refused_certificates(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    listen_on(&w, true, 0);
    dial(&w, TLS_SAMPLE_STRANGER);
    run(&w, 300);
    assert_int_equal(w.server.opened, 0);
    assert_true(w.server.refused >= 1);
    assert_int_equal(w.server.why.code, -EACCES);
    assert_true(w.client.waits >= 1);
    assert_int_equal(w.client.wait_why.code, -EACCES);
    assert_non_null(strstr(w.client.wait_why.text, "unknown ca"));
    end_world(&w);
}

static void test_waits_grow_and_shrink(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    /* A port where nobody listens: one that was free a moment ago. */
    listen_on(&w, false, 0);
    w.listener = net_listener_close(w.listener);
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    dial(&w, NULL);
    run(&w, 250);
    assert_true(w.client.waits >= 4);
    assert_true(w.client.last_wait >= 20 && w.client.last_wait <= 40);
    assert_int_equal(w.client.wait_why.code, -ECONNREFUSED);
    net_dialer_good(w.dialer);
    unsigned before = w.client.waits;
    for (int i = 0; i < 100 && w.client.waits == before; i++)
        run(&w, 5);
    assert_true(w.client.last_wait <= 10);
    end_world(&w);
}

static void test_comes_back_after_a_break(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    w.stop_at_close = false;
    listen_on(&w, false, 0);
    dial(&w, NULL);
    for (int i = 0; i < 200 && w.client.opened < 3; i++) {
        run(&w, 10);
        if (w.server.conn)
            net_conn_close(w.server.conn);
    }
    assert_true(w.client.opened >= 3);
    assert_int_equal(w.client.wait_why.code, -EPIPE);
    end_world(&w);
}

static void test_one_connection_too_many(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    w.stop_at_close = false;
    listen_on(&w, false, 1);
    dial(&w, NULL);
    run(&w, 50);
    assert_int_equal(net_listener_connections(w.listener), 1);
    int fd KYMO_CLOSE = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in in;
    assert_int_equal(uv_ip4_addr("127.0.0.1", net_listener_port(w.listener), &in), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&in, sizeof in), 0);
    run(&w, 50);
    char c;
    assert_true(read(fd, &c, 1) <= 0);
    assert_int_equal(w.server.refused, 1);
    assert_non_null(strstr(w.server.why.text, "too many"));
    assert_int_equal(net_listener_connections(w.listener), 1);
    assert_int_equal(w.client.closed, 0);
    end_world(&w);
}

static void test_pause(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    listen_on(&w, false, 0);
    dial(&w, NULL);
    run(&w, 50);
    net_conn_pause(w.server.conn, true);
    w.client.to_send = 64u << 20;
    pump(&w.client);
    run(&w, 100);
    assert_int_equal(w.server.received, 0);
    /* The sender is held up by the kernel's buffers and ours, which are bounded. */
    assert_true(w.client.sent < 40u << 20);
    net_conn_pause(w.server.conn, false);
    for (int i = 0; i < 200 && w.server.received < w.client.to_send; i++)
        run(&w, 20);
    assert_int_equal(w.server.received, w.client.to_send);
    end_world(&w);
}

static void test_plain_stays_on_loopback(void **state)
{
    (void)state;
    struct world w;
    make_world(&w);
    struct net_listener_config config = {.address = "0.0.0.0:0", .accepted = on_accepted, .ops = &ops, .ctx = &w};
    struct kymo_err err = {0};
    assert_int_equal(net_listener_new(w.net, &config, &w.listener, &err), -EPERM);
    assert_non_null(strstr(err.text, "loopback"));
    config.plain_anywhere = true;
    assert_int_equal(net_listener_new(w.net, &config, &w.listener, &err), 0);
    config.address = "localhost:0";
    struct net_listener *none;
    assert_int_equal(net_listener_new(w.net, &config, &none, &err), -EINVAL);
    memcpy(w.address, "192.0.2.1:9", 12);
    dial(&w, NULL);
    run(&w, 60);
    assert_int_equal(w.client.wait_why.code, -EPERM);
    end_world(&w);
}

static void test_addresses(void **state)
{
    (void)state;
    struct net_address a;
    assert_int_equal(net_address_parse("collector.test:3001", &a, NULL), 0);
    assert_string_equal(a.host, "collector.test");
    assert_string_equal(a.port, "3001");
    assert_int_equal(net_address_parse("[::1]:0", &a, NULL), 0);
    assert_string_equal(a.host, "::1");
    static const char *bad[] = {"", "host", ":1", "host:", "host:65536", "host:1x", "::1:5", "[::1]", "[::1]5", "[]:5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(net_address_parse(bad[i], &a, NULL), -EINVAL);
    static const struct {
        const char *text;
        bool loopback;
    } rows[] = {{"127.0.0.1", true}, {"127.9.9.9", true},        {"128.0.0.1", false},      {"::1", true},
                {"::2", false},      {"::ffff:127.0.0.1", true}, {"::ffff:10.0.0.1", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        bool v4 = uv_ip4_addr(rows[i].text, 1, &in) == 0;
        assert_true(v4 || uv_ip6_addr(rows[i].text, 1, &in6) == 0);
        assert_int_equal(net_is_loopback(v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6), rows[i].loopback);
    }
}

static int tcp_socket(in_addr_t where)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(where)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&in, sizeof in), 0);
    return fd;
}

static void test_adopts(void **state)
{
    (void)state;
    struct world w;
    struct kymo_err err = {0};
    make_world(&w);
    int fd = tcp_socket(INADDR_LOOPBACK), local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int outside = tcp_socket(INADDR_ANY);
    assert_int_equal(adopt(&w, fd, &err), -EINVAL); /* does not listen */
    assert_non_null(strstr(err.text, "uplink: descriptor"));
    assert_int_equal(adopt(&w, local, &err), -EINVAL);
    assert_int_equal(adopt(&w, -1, &err), -EINVAL);
    assert_int_equal(listen(outside, 1), 0);
    assert_int_equal(adopt(&w, outside, &err), -EPERM);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(kymo_file_ops()->close(local) | kymo_file_ops()->close(outside), 0);

    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(adopt(&w, fd, &err), 0);
    w.client.to_send = 1000;
    dial(&w, NULL);
    for (int i = 0; i < 200 && w.server.received < 1000; i++)
        run(&w, 5);
    assert_int_equal(w.server.received, 1000);
    end_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk_plain),
        cmocka_unit_test(test_bulk_tls),
        cmocka_unit_test(test_close_delivers_what_was_taken),
        cmocka_unit_test(test_refused_certificates),
        cmocka_unit_test(test_waits_grow_and_shrink),
        cmocka_unit_test(test_comes_back_after_a_break),
        cmocka_unit_test(test_one_connection_too_many),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_plain_stays_on_loopback),
        cmocka_unit_test(test_adopts),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
