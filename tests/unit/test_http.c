/* The HTTP server and handlers that answer later: in time, too late, when the client or the server has gone. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "collector/http.h"

#define ROUNDS 30000 /* of the loop, a millisecond each, until something is missing */

struct world {
    uv_loop_t loop;
    struct net *net;
    struct http *http;
    struct http_request *kept;
    int client;
};

static void keep(void *ctx, struct http_request *q)
{
    struct world *w = ctx;
    assert_null(w->kept);
    w->kept = q;
}

static void now(void *ctx, struct http_request *q)
{
    (void)ctx;
    http_answer_json(q, 200, json_pack("{s:s}", "x", http_param(q, "x")));
}

static const struct http_route routes[] = {{"GET", "/now", now}, {"GET", "/later", keep}};

static void open_world(struct world *w, uint64_t answer_ms)
{
    *w = (struct world){.client = -1};
    const struct http_config config = {
        .address = "127.0.0.1:0", .answer_ms = answer_ms, .routes = routes, .n_routes = 2, .ctx = w};
    struct kymo_err err = {0};
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(net_new(&w->loop, &w->net, &err), 0);
    assert_int_equal(http_new(&w->loop, w->net, &config, &w->http, &err), 0);
}

static void end_loop(struct world *w)
{
    net_free(w->net);
    while (uv_run(&w->loop, UV_RUN_DEFAULT))
        continue;
    assert_int_equal(uv_loop_close(&w->loop), 0);
    w->client = kymo_file_close(w->client);
}

static void turn(struct world *w)
{
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    (void)usleep(1000);
}

static void ask_text(struct world *w, const char *text)
{
    const struct sockaddr_in in = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)http_port(w->http)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    w->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(w->client, (const struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(send(w->client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void ask(struct world *w, const char *path)
{
    char text[256];
    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    ask_text(w, text);
}

static void ask_later(struct world *w)
{
    ask(w, "/later");
    for (int i = 0; i < ROUNDS && !w->kept; i++)
        turn(w);
    assert_non_null(w->kept);
}

/* What the client gets begins with this. */
static void receives(struct world *w, const char *begin)
{
    char text[1024] = "";
    ssize_t n = -1;
    for (int i = 0; i < ROUNDS && n < 0; i++) {
        if (w->http)
            turn(w);
        n = recv(w->client, text, sizeof text - 1, MSG_DONTWAIT);
    }
    assert_true(n > 0);
    assert_memory_equal(text, begin, strlen(begin));
}

static void test_now(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 0);
    ask(&w, "/now?x=%20a");
    receives(&w, "HTTP/1.1 200 ");
    w.http = http_close(w.http);
    end_loop(&w);
}

static void test_later(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 0);
    ask_later(&w);
    http_answer_error(w.kept, 409, "conflict", "no");
    receives(&w, "HTTP/1.1 409 ");
    w.http = http_close(w.http);
    end_loop(&w);
}

static void test_too_late(void **state)
{
    struct world w;
    struct http_figures f;
    (void)state;
    open_world(&w, 20);
    ask_later(&w);
    receives(&w, "HTTP/1.1 504 ");
    http_answer_json(w.kept, 200, json_object());
    http_figures(w.http, &f);
    assert_int_equal(f.answers[5], 1);
    assert_int_equal(f.answers[2], 0);
    w.http = http_close(w.http);
    end_loop(&w);
}

static void test_client_has_gone(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 0);
    ask_later(&w);
    w.client = kymo_file_close(w.client);
    for (int i = 0; i < 20; i++)
        turn(&w);
    http_answer_json(w.kept, 200, json_object());
    for (int i = 0; i < 20; i++)
        turn(&w);
    w.http = http_close(w.http);
    end_loop(&w);
}

/* As after a disk that took its time: nothing of the server is left when the answer comes. */
static void test_server_has_gone(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 0);
    ask_later(&w);
    w.http = http_close(w.http);
    receives(&w, "HTTP/1.1 503 ");
    end_loop(&w);
    http_answer_json(w.kept, 200, json_object());
}

/* A request whose last bytes come while the server is being closed: no handler keeps it, since nobody could wake it. */
static void test_request_at_the_end(void **state)
{
    struct world w;
    struct http_figures f = {0};
    const char *const texts[] = {"GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n", "Content-Length: 0\r\n\r\n"};
    (void)state;
    for (int half = 0; half < 2; half++) {
        open_world(&w, 0);
        if (half)
            ask_text(&w, "GET /later HTTP/1.1\r\nHost: localhost\r\n");
        else
            ask_text(&w, "");
        for (int i = 0; i < ROUNDS && f.connections == 0; i++) {
            turn(&w);
            http_figures(w.http, &f);
        }
        for (int i = 0; i < 20; i++)
            turn(&w);
        assert_int_equal(send(w.client, texts[half], strlen(texts[half]), MSG_NOSIGNAL), strlen(texts[half]));
        w.http = http_close(w.http);
        assert_null(w.kept);
        receives(&w, "HTTP/1.1 503 ");
        end_loop(&w);
    }
}

static void test_adopted_socket(void **state)
{
    struct world w = {.client = -1};
    struct kymo_err err = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct http_config config = {
        .address = "systemd", .adopt = true, .socket = fd, .routes = routes, .n_routes = 2, .ctx = &w};
    (void)state;
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(net_new(&w.loop, &w.net, &err), 0);
    assert_int_equal(http_new(&w.loop, w.net, &config, &w.http, &err), -EINVAL);
    assert_int_equal(bind(fd, (const struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(http_new(&w.loop, w.net, &config, &w.http, &err), 0);
    ask(&w, "/now?x=1");
    receives(&w, "HTTP/1.1 200 ");
    w.http = http_close(w.http);
    end_loop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_now),
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_too_late),
        cmocka_unit_test(test_client_has_gone),
        cmocka_unit_test(test_server_has_gone),
        cmocka_unit_test(test_request_at_the_end),
        cmocka_unit_test(test_adopted_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
