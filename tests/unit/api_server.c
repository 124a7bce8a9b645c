/*
 * The collector's HTTP API over a store that this program fills with captures of its own making, for tests that speak
 * HTTP to it (tests/tools/test_api.py). Prints "port N" when it listens and ends when its standard input does.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/alloc.h"
#include "base/options.h"
#include "collector/api.h"
#include "collector/api_store.h"
#include "collector/catalog.h"
#include "tests/unit/api_sample.h"

struct args {
    const char *data_path, *address, *token, *cert, *key;
    uint64_t captures, connections, request_ms, answer_ms, send_ms;
    bool routes, plain;
    struct kymo_option_list names;
};

#define TEXT(field, option, what)                                                                                      \
    {                                                                                                                  \
        .name = option, .type = KYMO_OPTION_TEXT, .offset = offsetof(struct args, field), .help = what                 \
    }

#define NUMBER(field, option, what)                                                                                    \
    {                                                                                                                  \
        .name = option, .type = KYMO_OPTION_U64, .def = "0", .offset = offsetof(struct args, field), .help = what      \
    }

static const struct kymo_option rows[] = {
    TEXT(data_path, "data-path", "the store"),
    {.name = "address",
     .type = KYMO_OPTION_TEXT,
     .def = "127.0.0.1:0",
     .offset = offsetof(struct args, address),
     .help = "where to listen"},
    TEXT(token, "token", "the bearer token"),
    TEXT(cert, "cert", "certificate, for TLS"),
    TEXT(key, "key", "its key"),
    NUMBER(captures, "captures", "captures to put into the catalogue"),
    NUMBER(connections, "connections", "connections at most"),
    NUMBER(request_ms, "request-ms", "limits, see http.h"),
    NUMBER(answer_ms, "answer-ms", "limits, see http.h"),
    NUMBER(send_ms, "send-ms", "limits, see http.h"),
    {.name = "name",
     .type = KYMO_OPTION_LIST,
     .offset = offsetof(struct args, names),
     .help = "names for Host headers"},
    {.name = "plain", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, plain), .help = "plain on any address"},
    {.name = "routes", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, routes), .help = "only print them"},
    {0},
};

static const struct kymo_options spec = {.program = "api-server", .about = "A server for tests.", .rows = rows};

static int print_routes(void)
{
    size_t n;
    const struct http_route *routes = api_routes(&n);
    for (size_t i = 0; i < n; i++)
        printf("%s %s\n", routes[i].method, routes[i].pattern);
    routes = api_body_routes(&n);
    for (size_t i = 0; i < n; i++)
        printf("%s %s\n", routes[i].method, routes[i].pattern);
    return 0;
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_stop(poll->loop);
}

/* Whatever is still open when its owner has let go of it is a leak. */
static void end_loop(uv_loop_t *loop)
{
    while (uv_run(loop, UV_RUN_DEFAULT))
        continue;
    if (uv_loop_close(loop) < 0)
        abort();
}

static int serve(uv_loop_t *loop, const struct http_config *config, struct api *api, struct kymo_err *err)
{
    struct net *net = NULL;
    struct http *http = NULL;
    uv_poll_t input;
    int r = net_new(loop, &net, err);
    if (r == 0)
        r = http_new(loop, net, config, &http, err);
    if (r == 0) {
        api_set_http(api, http);
        (void)uv_poll_init(loop, &input, 0);
        (void)uv_poll_start(&input, UV_READABLE, on_input);
        printf("port %d\n", http_port(http));
        (void)fflush(stdout);
        (void)uv_run(loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&input, NULL);
    }
    http_close(http);
    net_free(net);
    return r;
}

static int run(const struct args *a, struct kymo_err *err)
{
    struct api *api = NULL;
    struct api_sample *sample = NULL;
    struct viewer_store *kept = NULL;
    struct tls_context *tls = NULL;
    uv_loop_t loop;
    (void)uv_loop_init(&loop);
    const struct tls_files files = {.cert = a->cert, .key = a->key, .any_client = true};
    struct http_config config = {
        .address = a->address,
        .plain_anywhere = a->plain,
        .token = a->token,
        .names = a->names.items,
        .n_names = a->names.n,
        .max_connections = (unsigned)a->connections,
        .request_ms = a->request_ms,
        .answer_ms = a->answer_ms,
        .send_ms = a->send_ms,
    };
    int r = api_sample_new(&loop, a->data_path, (unsigned)a->captures, &sample, err);
    if (r == 0)
        r = api_new(a->data_path, api_sample_source(sample), &api, err);
    char *path KYMO_FREE = kymo_asprintf("%s/viewer.db", a->data_path);
    if (r == 0)
        r = viewer_store_new(&loop, path, &kept, err);
    if (r == 0)
        api_set_store(api, kept);
    if (r == 0 && a->cert)
        r = tls_context_new(TLS_SERVER, &files, &tls, err);
    if (r == 0) {
        config.routes = api_routes(&config.n_routes);
        config.body_routes = api_body_routes(&config.n_body_routes);
        config.ctx = api;
        config.tls = tls;
        r = serve(&loop, &config, api, err);
    }
    api_sample_stop(sample);
    end_loop(&loop);
    viewer_store_free(kept);
    api_sample_free(sample);
    api_free(api);
    tls_context_free(tls);
    return r;
}

int main(int argc, char **argv)
{
    struct args args;
    struct kymo_err err = {0};
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (args.routes)
        return print_routes();
    if (run(&args, &err) == 0)
        return 0;
    (void)fprintf(stderr, "api-server: %s\n", err.text);
    return 1;
}
