/*
 * Loopback throughput of the uplink, plain and with TLS, each against the least that could be done: a socket copied
 * with send and recv, and OpenSSL copied as its s_client and s_server do. Sender and receiver are two processes. The
 * uplink reads from memory and its store counts; neither touches a disk.
 *
 * usage: bench_uplink MIB ROUNDS
 * Prints "name: value unit" lines. On a machine that does other things rates change from second to second: in every
 * round each way runs directly after the one that it is compared with, or before it in every other round, and the
 * median of the rounds' ratios counts, printed with its quartiles. Ratios of processor time hardly depend on the load.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/net_dialer.h"
#include "base/net_listener.h"
#include "proto/uplink_recv.h"
#include "proto/uplink_send.h"
#include "tests/unit/tls_sample.h"

#define SOCKET_BUFFER (256u << 10)
#define OPENSSL_BUFFER (16u << 10) /* of s_client and s_server */

static char dir[] = "/tmp/kymo-bench-XXXXXX";
static uint64_t total;
static uint8_t buffer[SOCKET_BUFFER];

static void must(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

static int listen_on(int *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof in;
    must(fd >= 0 && bind(fd, (const struct sockaddr *)&in, n) == 0 && listen(fd, 1) == 0, "listen");
    must(getsockname(fd, (struct sockaddr *)&in, &n) == 0, "getsockname");
    *ret_port = ntohs(in.sin_port);
    return fd;
}

static int connect_to(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(fd >= 0 && connect(fd, (const struct sockaddr *)&in, sizeof in) == 0, "connect");
    return fd;
}

static void socket_sender(int port)
{
    int fd = connect_to(port);
    for (uint64_t left = total; left > 0;) {
        ssize_t n = send(fd, buffer, left < sizeof buffer ? left : sizeof buffer, 0);
        must(n > 0, "send");
        left -= (uint64_t)n;
    }
    (void)close(fd);
}

static void socket_receiver(int listener)
{
    int fd = accept(listener, NULL, NULL);
    must(fd >= 0, "accept");
    uint64_t got = 0;
    for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        got += (uint64_t)n;
    must(got == total, "socket: bytes are missing");
    (void)close(fd);
}

static SSL *foreign(int fd, const char *name, bool client)
{
    char path[128];
    SSL_CTX *ctx = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
    (void)snprintf(path, sizeof path, "%s/%s.pem", dir, name);
    must(SSL_CTX_use_certificate_chain_file(ctx, path) == 1, path);
    (void)snprintf(path, sizeof path, "%s/%s.key", dir, name);
    must(SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM) == 1, path);
    /* Tickets that nobody reads would reset the connection at its end. */
    must(SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1, "TLS 1.3");
    SSL *ssl = SSL_new(ctx);
    must(SSL_set_fd(ssl, fd) == 1, "SSL_set_fd");
    must((client ? SSL_connect(ssl) : SSL_accept(ssl)) == 1, "handshake");
    return ssl;
}

static void openssl_sender(int port)
{
    SSL *ssl = foreign(connect_to(port), TLS_SAMPLE_CLIENT, true);
    for (uint64_t left = total; left > 0;) {
        int n = SSL_write(ssl, buffer, (int)(left < OPENSSL_BUFFER ? left : OPENSSL_BUFFER));
        must(n > 0, "SSL_write");
        left -= (uint64_t)n;
    }
    (void)SSL_shutdown(ssl);
}

static void openssl_receiver(int listener)
{
    SSL *ssl = foreign(accept(listener, NULL, NULL), TLS_SAMPLE_SERVER, false);
    uint64_t got = 0;
    for (int n; (n = SSL_read(ssl, buffer, OPENSSL_BUFFER)) > 0;)
        got += (uint64_t)n;
    must(got == total, "openssl: bytes are missing");
}

/* The uplink: one loop and one connection in each process. */
struct peer {
    uv_loop_t loop;
    struct net *net;
    struct net_conn *conn;
    struct net_dialer *dialer;
    struct uplink_send *send;
    struct uplink_recv *recv;
    uint64_t got;
};

static void pump(struct peer *p)
{
    for (;;) {
        const uint8_t *data;
        size_t n, taken;
        if (p->send)
            must(uplink_send_out(p->send, &data, &n, NULL) == 0, "uplink_send_out");
        else
            uplink_recv_out(p->recv, &data, &n);
        if (n == 0)
            return;
        must(net_conn_send(p->conn, data, n, &taken, NULL) == 0, "net_conn_send");
        if (p->send)
            uplink_send_consume(p->send, taken);
        else
            uplink_recv_consume(p->recv, taken);
        if (taken < n)
            return;
    }
}

static int on_data(struct net_conn *c, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct peer *p = ctx;
    (void)c;
    int r = p->send ? uplink_send_feed(p->send, data, n, err) : uplink_recv_feed(p->recv, data, n, err);
    if (r == 0)
        pump(p);
    return r;
}

static void on_writable(struct net_conn *c, void *ctx)
{
    (void)c;
    pump(ctx);
}

static void on_closed(struct net_conn *c, void *ctx, const struct kymo_err *why)
{
    struct peer *p = ctx;
    (void)c;
    (void)why;
    uv_stop(&p->loop);
}

static const struct net_conn_ops ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static int spool_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n,
                      struct kymo_err *err)
{
    (void)ctx;
    (void)handle;
    (void)item;
    (void)offset;
    (void)err;
    memcpy(buf, buffer, n);
    return 0;
}

static void spool_ready(void *ctx, const Kymo__Wire__Hello *hello)
{
    struct peer *p = ctx;
    (void)hello;
    const struct uplink_send_item item = {.name = "a", .size = total};
    must(uplink_send_offer(p->send, "c", "m", 1, &item, 1, p, NULL) == 0, "offer");
}

static void spool_stored(void *ctx, void *handle)
{
    struct peer *p = ctx;
    (void)handle;
    uv_stop(&p->loop);
}

static const struct uplink_send_ops spool = {.read = spool_read, .on_ready = spool_ready, .on_stored = spool_stored};

static void on_opened(void *ctx, struct net_conn *c)
{
    struct peer *p = ctx;
    p->conn = c;
    pump(p);
}

static void uplink_sender(int port, bool tls)
{
    static struct peer p;
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    must(uv_loop_init(&p.loop) == 0 && net_new(&p.loop, &p.net, NULL) == 0, "loop");
    const struct uplink_send_config sc = {.ops = &spool, .ctx = &p};
    must(uplink_send_new(&sc, &p.send, NULL) == 0, "uplink_send_new");
    const struct net_dialer_config dc = {.address = address,
                                         .tls =
                                             tls ? tls_sample_context(dir, TLS_CLIENT, TLS_SAMPLE_CLIENT, "ca") : NULL,
                                         .opened = on_opened,
                                         .ops = &ops,
                                         .ctx = &p};
    must(net_dialer_new(p.net, &dc, &p.dialer, NULL) == 0, "dial");
    (void)uv_run(&p.loop, UV_RUN_DEFAULT);
    must(uplink_send_captures(p.send) == 0, "the capture is not stored");
}

static int store_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                       struct kymo_err *err)
{
    (void)offer;
    (void)offsets;
    (void)err;
    *ret_handle = ctx;
    return UPLINK_RECV_NOW;
}

static int store_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                       struct kymo_err *err)
{
    struct peer *p = ctx;
    (void)handle;
    (void)item;
    (void)offset;
    (void)data;
    (void)err;
    p->got += n;
    return UPLINK_RECV_NOW;
}

static int store_done(void *ctx, void *handle, struct kymo_err *err)
{
    (void)ctx;
    (void)handle;
    (void)err;
    return UPLINK_RECV_NOW;
}

static void store_drop(void *ctx, void *handle)
{
    (void)ctx;
    (void)handle;
}

static const struct uplink_recv_ops store = {
    .offer = store_offer, .write = store_write, .done = store_done, .drop = store_drop};

static void *on_accepted(void *ctx, struct net_conn *c)
{
    struct peer *p = ctx;
    p->conn = c;
    return p;
}

/* Tells its port through a pipe, since the listener makes its own socket. */
static void uplink_receiver(int tell, bool tls)
{
    static struct peer p;
    must(uv_loop_init(&p.loop) == 0 && net_new(&p.loop, &p.net, NULL) == 0, "loop");
    const struct uplink_recv_config rc = {.ops = &store, .ctx = &p};
    must(uplink_recv_new(&rc, &p.recv, NULL) == 0, "uplink_recv_new");
    const struct net_listener_config lc = {.address = "127.0.0.1:0",
                                           .tls = tls ? tls_sample_context(dir, TLS_SERVER, TLS_SAMPLE_SERVER, "ca")
                                                      : NULL,
                                           .accepted = on_accepted,
                                           .ops = &ops,
                                           .ctx = &p};
    struct net_listener *l;
    must(net_listener_new(p.net, &lc, &l, NULL) == 0, "listen");
    int port = net_listener_port(l);
    must(write(tell, &port, sizeof port) == sizeof port, "pipe");
    (void)uv_run(&p.loop, UV_RUN_DEFAULT);
    must(p.got == total, "uplink: bytes are missing");
}

enum way { SOCKET, UPLINK, OPENSSL, UPLINK_TLS, WAYS };

/* Processor seconds of all processes that were waited for. */
static double children_cpu(void)
{
    struct rusage u;
    must(getrusage(RUSAGE_CHILDREN, &u) == 0, "getrusage");
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Seconds for one run: the receiver in a child, the sender in another, until both are through. */
static double run(enum way way)
{
    int tell[2], port = 0, listener = -1;
    must(pipe(tell) == 0, "pipe");
    if (way == SOCKET || way == OPENSSL)
        listener = listen_on(&port);
    pid_t pids[2];
    pids[0] = fork();
    if (pids[0] == 0) {
        if (way == SOCKET)
            socket_receiver(listener);
        else if (way == OPENSSL)
            openssl_receiver(listener);
        else
            uplink_receiver(tell[1], way == UPLINK_TLS);
        _exit(0);
    }
    if (listener < 0)
        must(read(tell[0], &port, sizeof port) == sizeof port, "pipe");
    uint64_t start = kymo_clock_mono_ns();
    pids[1] = fork();
    if (pids[1] == 0) {
        if (way == SOCKET)
            socket_sender(port);
        else if (way == OPENSSL)
            openssl_sender(port);
        else
            uplink_sender(port, way == UPLINK_TLS);
        _exit(0);
    }
    for (int i = 1; i >= 0; i--) {
        int status = 1;
        must(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "a process failed");
    }
    double seconds = (double)(kymo_clock_mono_ns() - start) / 1e9;
    (void)close(tell[0]);
    (void)close(tell[1]);
    if (listener >= 0)
        (void)close(listener);
    return seconds;
}

#define ROUNDS_MAX 100

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. part: of four. */
static double quartile(double *v, size_t n, size_t part)
{
    qsort(v, n, sizeof *v, compare);
    return v[(part * n + 1) / 4 < n ? (part * n + 1) / 4 : n - 1];
}

static void print_ratio(const char *name, const double *of, const double *to, size_t n)
{
    double ratio[ROUNDS_MAX] = {0};
    for (size_t i = 0; i < n; i++)
        ratio[i] = of[i] / to[i];
    double low = quartile(ratio, n, 1), high = quartile(ratio, n, 3);
    printf("%s: %.2f x (quartiles %.2f to %.2f, %zu rounds)\n", name, quartile(ratio, n, 2), low, high, n);
}

static double rates[WAYS][ROUNDS_MAX], cpu[WAYS][ROUNDS_MAX]; /* MB/s; processor seconds per GB, both sides */

static void measure(enum way way, size_t round)
{
    double before = children_cpu();
    rates[way][round] = (double)total / 1e6 / run(way);
    cpu[way][round] = (children_cpu() - before) / ((double)total / 1e9);
}

static void print_all(size_t rounds)
{
    static const char *const names[WAYS] = {"bare socket", "uplink, plain", "openssl as s_client", "uplink, TLS 1.3"};
    print_ratio("uplink, plain, of a bare socket", rates[UPLINK], rates[SOCKET], rounds);
    print_ratio("uplink, TLS 1.3, of openssl", rates[UPLINK_TLS], rates[OPENSSL], rounds);
    print_ratio("bare socket, of the uplink's processor time", cpu[SOCKET], cpu[UPLINK], rounds);
    print_ratio("openssl, of the uplink's processor time with TLS", cpu[OPENSSL], cpu[UPLINK_TLS], rounds);
    for (int way = 0; way < WAYS; way++) {
        printf("%s: %.0f MB/s\n", names[way], quartile(rates[way], rounds, 2));
        printf("%s, both sides' processors: %.2f s/GB\n", names[way], quartile(cpu[way], rounds, 2));
    }
}

int main(int argc, char **argv)
{
    unsigned long mib = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, rounds = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (mib == 0 || mib > 1u << 20 || rounds == 0 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: bench_uplink MIB ROUNDS (at most %d)\n", ROUNDS_MAX);
        return 2;
    }
    total = (uint64_t)mib << 20;
    must(mkdtemp(dir) != NULL, dir);
    tls_sample_make(dir);
    for (size_t i = 0; i < rounds; i++)
        for (int pair = 0; pair < WAYS; pair += 2) {
            measure((enum way)(pair + (int)(i % 2)), i);
            measure((enum way)(pair + 1 - (int)(i % 2)), i);
        }
    print_all(rounds);
    return kymo_file_remove_tree(dir, NULL) < 0;
}
