/*
 * Sends capture directories (manifest.pb and files) to a collector as a daemon would, and stays until all are stored or
 * its time is over. Prints a line per event. Exit code 0: all are stored.
 */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/options.h"
#include "proto/manifest_check.h"
#include "tests/unit/uplink_peer.h"

#define FILE_MAX (1ull << 30)

struct args {
    const char *host;
    uint64_t port, seconds, stay_ms;
    bool once;
    struct kymo_option_list captures;
};

static const struct kymo_option rows[] = {
    {.name = "port",
     .type = KYMO_OPTION_U64,
     .max = 65535,
     .offset = offsetof(struct args, port),
     .help = "of the collector"},
    {.name = "host",
     .type = KYMO_OPTION_TEXT,
     .def = "peer",
     .offset = offsetof(struct args, host),
     .help = "our name"},
    {.name = "seconds", .type = KYMO_OPTION_U64, .def = "30", .offset = offsetof(struct args, seconds), .help = "time"},
    {.name = "stay-ms",
     .type = KYMO_OPTION_U64,
     .offset = offsetof(struct args, stay_ms),
     .help = "stay so long after all are stored"},
    {.name = "once", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, once), .help = "refused is refused"},
    {.name = "CAPTURE",
     .type = KYMO_OPTION_POSITIONALS,
     .offset = offsetof(struct args, captures),
     .help = "directories of captures"},
    {0},
};
static const struct kymo_options spec = {
    .program = "uplink-peer", .about = "A daemon's uplink for tests.", .rows = rows};

static int load(struct uplink_peer *p, const char *directory)
{
    struct kymo_err err = {0};
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    char path[PATH_MAX];
    uint8_t *manifest KYMO_FREE = NULL;
    size_t n, got;
    (void)snprintf(path, sizeof path, "%s/" MANIFEST_FILE, directory);
    int r = kymo_file_read_all(path, MANIFEST_BYTES_MAX, &manifest, &n, &err);
    if (r == 0)
        r = manifest_parse(manifest, n, &m, &err);
    uint8_t **data = r < 0 ? NULL : KYMO_NEW_ARRAY(uint8_t *, m->n_files + 1);
    for (size_t i = 0; r == 0 && i < m->n_files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, m->files[i]->name);
        r = kymo_file_read_all(path, FILE_MAX, &data[i], &got, &err);
    }
    if (r == 0)
        uplink_peer_add(p, manifest, n, (const void *const *)data);
    else
        (void)fprintf(stderr, "uplink-peer: %s\n", err.text);
    for (size_t i = 0; data && i < m->n_files; i++)
        kymo_free(data[i]);
    kymo_free(data);
    return r;
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

int main(int argc, char **argv)
{
    static struct args args;
    static struct uplink_peer p;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    uv_loop_t loop;
    struct net *net;
    if (uv_loop_init(&loop) < 0 || net_new(&loop, &net, NULL) < 0)
        return 1;
    uplink_peer_init(&p, &loop, net, args.host, NULL);
    p.give_up = args.once;
    for (size_t i = 0; i < args.captures.n; i++)
        if (load(&p, args.captures.items[i]) < 0)
            return 1;
    uplink_peer_connect(&p, (int)args.port);
    uint64_t end = uv_now(&loop) + args.seconds * 1000, all = 0;
    size_t refusals = 0, losses = 0;
    while (uv_now(&loop) < end && (!all || uv_now(&loop) < all + args.stay_ms)) {
        (void)uv_run(&loop, UV_RUN_ONCE);
        for (size_t i = 0; p.refusals > refusals && i < p.n; i++)
            if (p.captures[i].refused)
                printf("refused %s %d %s\n", p.captures[i].id, p.captures[i].why, p.captures[i].text);
        if (p.refusals > refusals && args.once)
            break;
        refusals = p.refusals;
        if (p.loss_messages > losses)
            printf("losses %s\n", p.last_losses);
        losses = p.loss_messages;
        if (!all && p.stored == p.n)
            all = uv_now(&loop);
        (void)fflush(stdout);
    }
    printf("stored %zu of %zu, connections %zu\n", p.stored, p.n, p.connections);
    bool whole = p.stored == p.n;
    uplink_peer_done(&p);
    net_free(net);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    uv_walk(&loop, close_handle, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return whole ? 0 : 1;
}
