/* Peers that are no daemons: what they say, or do not say, costs their own connection; a daemon beside them goes on. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/le.h"
#include "proto/frame.h"
#include "tests/unit/collector_world.h"
#include "tests/unit/tls_sample.h"

#define BIG (2u << 20)
#define CROWD 300
#define TURNS_MAX 30000 /* of the loop, until what must come about has */

static struct collector_world w;
static char certificates[] = "/tmp/kymo-test-receiver-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    collector_world_prepare(&w);
    w.config.hello_ms = 500;
    w.config.ping_ms = 200;
    w.config.dead_ms = 1000;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    collector_world_done(&w);
    return 0;
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)receiver_port(w.receiver)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0 && connect(fd, (const struct sockaddr *)&in, sizeof in) == 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static size_t frame(uint8_t *out, uint16_t type, const void *message, uint32_t n, uint32_t length)
{
    kymo_put_le32(out, length);
    kymo_put_le32(out + 4, n);
    kymo_put_le32(out + 8, length - n);
    kymo_put_le16(out + 12, type);
    out[14] = 0;
    out[15] = 1;
    kymo_put_le32(out + 16, kymo_crc32c(0, out, 16));
    memcpy(out + FRAME_HEADER_SIZE, message, n);
    return FRAME_HEADER_SIZE + n;
}

#define HELLO "\x08\x01\x10\x01"

static void say(int fd, const void *data, size_t n)
{
    assert_int_equal(send(fd, data, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void say_hello(int fd)
{
    uint8_t out[64] = {0};
    say(fd, out, frame(out, WIRE_HELLO, HELLO, 4, 4));
}

/* Whether the collector has ended the connection; what it said before is in text. */
static bool is_closed(int fd, char *text, size_t max)
{
    char buf[512];
    ssize_t n;
    size_t at = strlen(text);
    while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
        for (ssize_t i = 0; i < n && at + 1 < max; i++)
            text[at++] = buf[i] >= 0x20 && buf[i] < 0x7f ? buf[i] : '.';
    text[at] = '\0';
    return n == 0 || errno == ECONNRESET;
}

static void wait_closed(int fd, const char *told)
{
    char text[1024] = "";
    bool closed = false;
    for (unsigned t = 0; t < WORLD_WAIT_MS && !(closed = is_closed(fd, text, sizeof text)); t += 10)
        collector_world_turn(&w, 10);
    assert_true(closed);
    if (told && !strstr(text, told))
        fail_msg("\"%s\" does not say \"%s\"", text, told);
    assert_int_equal(close(fd), 0);
}

/* A daemon whose work goes on whatever the others do. */
static struct uplink_peer *daemon_beside(void)
{
    struct uplink_peer *p = collector_world_peer(&w, "good", w.config.tls ? w.peers[0].tls : NULL);
    collector_world_add(p, "good", 1, BIG, NULL, 0);
    uplink_peer_connect(p, receiver_port(w.receiver));
    return p;
}

static void assert_undisturbed(struct uplink_peer *p)
{
    assert_true(collector_world_run(&w, &p->stored, 1, WORLD_WAIT_MS));
    assert_int_equal(p->breaks, 0);
    collector_world_check(&w, "good", 1, BIG);
}

static void garbage(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = daemon_beside();
    uint8_t noise[4096];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rand();
    int fd = dial(), http = dial(), early = dial(), unknown = dial();
    uint8_t out[64] = {0};
    say(fd, noise, sizeof noise);
    say(http, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    say(early, out, frame(out, UPLINK_DONE, "\x08\x01", 2, 2));
    say_hello(unknown);
    say(unknown, out, frame(out, 999, "", 0, 0));
    wait_closed(fd, "checksum");
    wait_closed(http, "checksum");
    wait_closed(early, "before hello");
    wait_closed(unknown, NULL);
    assert_undisturbed(p);
    struct receiver_figures f;
    receiver_figures(w.receiver, &f);
    assert_int_equal(f.refused[RECEIVER_CAUSE_PROTOCOL], 4);
}

static void oversized(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = daemon_beside();
    uint8_t out[64] = {0};
    int before = dial(), after = dial();
    say(before, out, frame(out, WIRE_HELLO, "", 0, 100000));
    say_hello(after);
    say(after, out, frame(out, UPLINK_DATA, "", 0, 0x7fffffff));
    wait_closed(before, "more than");
    wait_closed(after, "more than");
    assert_undisturbed(p);
}

/* Nothing at all, half a hello, half a frame behind a good hello. */
static void silence(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = daemon_beside();
    uint8_t out[64] = {0};
    int mute = dial(), half = dial(), later = dial();
    say(half, out, frame(out, WIRE_HELLO, HELLO, 4, 4) - 2);
    say_hello(later);
    say(later, out, frame(out, UPLINK_OFFER, "", 0, 5000));
    wait_closed(mute, NULL);
    wait_closed(half, NULL);
    wait_closed(later, NULL);
    assert_undisturbed(p);
    /* A daemon that has nothing to say answers pings and stays. */
    collector_world_turn(&w, 1500);
    assert_int_equal(p->breaks, 0);
}

/* A byte now and then inside a large frame: never silent, never done. */
static void slowly(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = daemon_beside();
    uint8_t out[64] = {0};
    char text[1024] = "";
    int fd = dial(), turns = 0;
    say_hello(fd);
    say(fd, out, frame(out, UPLINK_OFFER, "", 0, 500000));
    while (turns++ < TURNS_MAX && !is_closed(fd, text, sizeof text)) {
        (void)!send(fd, "x", 1, MSG_NOSIGNAL);
        collector_world_turn(&w, 10);
    }
    assert_true(turns < TURNS_MAX);
    (void)close(fd);
    assert_undisturbed(p);
}

/* Reads nothing of what it asks for. */
static void deaf(void **state)
{
    (void)state;
    collector_world_open(&w);
    struct uplink_peer *p = daemon_beside();
    uint8_t out[64] = {0};
    int fd = dial(), small = 1024;
    bool came = false;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    say_hello(fd);
    size_t n = frame(out, WIRE_PING, "\x08\x07", 2, 2);
    struct receiver_figures f = {0};
    for (int turns = 0; turns < TURNS_MAX && !(came && f.hosts < 2); turns++) {
        for (int i = 0; i < 500; i++)
            (void)!send(fd, out, n, MSG_NOSIGNAL);
        collector_world_turn(&w, 1);
        receiver_figures(w.receiver, &f);
        came = came || f.hosts == 2;
    }
    assert_int_equal(f.hosts, 1);
    (void)close(fd);
    assert_undisturbed(p);
}

static void a_crowd(void **state)
{
    (void)state;
    w.config.max_connections = CROWD / 2;
    /* None goes before all are here. */
    w.config.hello_ms = w.config.dead_ms = 2000;
    collector_world_open(&w);
    int fds[CROWD];
    struct uplink_peer *p = daemon_beside();
    assert_true(collector_world_run(&w, &p->hellos, 1, WORLD_WAIT_MS));
    for (int i = 0; i < CROWD; i++) {
        fds[i] = dial();
        if (i % 3 == 0)
            say_hello(fds[i]);
        if (i % 50 == 0)
            collector_world_turn(&w, 5);
    }
    struct receiver_figures f = {0};
    for (int turns = 0; turns < TURNS_MAX && f.refused[RECEIVER_CAUSE_CONNECTION] < CROWD / 2; turns++) {
        collector_world_turn(&w, 1);
        receiver_figures(w.receiver, &f);
    }
    assert_true(f.refused[RECEIVER_CAUSE_CONNECTION] >= CROWD / 2);
    assert_undisturbed(p);
    /* They go by themselves: the hellos are not followed by pongs, the others not by a hello. */
    for (int i = 0; i < CROWD; i++)
        wait_closed(fds[i], NULL);
    receiver_figures(w.receiver, &f);
    assert_int_equal(f.hosts, 1);
}

static struct uplink_peer *tls_peer(const char *name, const char *ca)
{
    struct tls_context *tls = name ? tls_sample_context(certificates, TLS_CLIENT, name, ca) : NULL;
    struct uplink_peer *p = collector_world_peer(&w, "calls-itself", tls);
    uplink_peer_connect(p, receiver_port(w.receiver));
    return p;
}

static void see_host(void *ctx, const struct receiver_host *h)
{
    (void)snprintf(ctx, 64, "%.60s", h->identity);
}

static void certificates_decide(void **state)
{
    (void)state;
    struct tls_context *server = tls_sample_context(certificates, TLS_SERVER, TLS_SAMPLE_SERVER, "ca");
    char identity[64] = "";
    w.config.tls = server;
    w.config.max_per_host = 2;
    w.config.address = "127.0.0.1:0";
    collector_world_open(&w);
    struct uplink_peer *good = tls_peer(TLS_SAMPLE_CLIENT, "ca");
    struct uplink_peer *stranger = tls_peer(TLS_SAMPLE_STRANGER, "ca"), *expired = tls_peer(TLS_SAMPLE_EXPIRED, "ca");
    struct uplink_peer *plain = tls_peer(NULL, NULL);
    assert_true(collector_world_run(&w, &good->hellos, 1, WORLD_WAIT_MS));
    collector_world_turn(&w, 300);
    assert_int_equal(stranger->hellos + expired->hellos + plain->hellos, 0);
    uplink_peer_disconnect(stranger);
    uplink_peer_disconnect(expired);
    uplink_peer_disconnect(plain);
    /* Its certificate says who it is, whatever it says itself. */
    receiver_hosts(w.receiver, see_host, identity);
    assert_string_equal(identity, "host7.test");
    /* One certificate takes so many connections and no more; new certificates hold from the next on. */
    struct uplink_peer *second = tls_peer(TLS_SAMPLE_CLIENT, "ca");
    assert_true(collector_world_run(&w, &second->hellos, 1, WORLD_WAIT_MS));
    struct uplink_peer *third = tls_peer(TLS_SAMPLE_CLIENT, "ca");
    collector_world_turn(&w, 300);
    assert_int_equal(third->hellos, 0);
    struct tls_context *fresh = tls_sample_context(certificates, TLS_SERVER, TLS_SAMPLE_SERVER, "ca");
    receiver_set_tls(w.receiver, fresh);
    tls_context_free(server);
    uplink_peer_disconnect(second);
    assert_true(collector_world_run(&w, &third->hellos, 1, WORLD_WAIT_MS));
    collector_world_add(good, "good", 1, BIG, NULL, 0);
    assert_undisturbed(good);
    for (size_t i = 0; i < w.n_peers; i++)
        uplink_peer_disconnect(&w.peers[i]);
    collector_world_turn(&w, 50);
    for (size_t i = 0; i < w.n_peers; i++)
        tls_context_free(w.peers[i].tls);
    collector_world_stop(&w);
    tls_context_free(fresh);
}

static int make_certificates(void **state)
{
    (void)state;
    if (!mkdtemp(certificates))
        return -1;
    tls_sample_make(certificates);
    return 0;
}

static int remove_certificates(void **state)
{
    (void)state;
    return kymo_file_remove_tree(certificates, NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(garbage), T(oversized), T(silence), T(slowly), T(deaf), T(a_crowd), T(certificates_decide),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
