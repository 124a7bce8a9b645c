#include "tests/unit/collector_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/unit/capture_sample.h"

atomic_int world_write_error, world_sync_error, world_sync_ms;

static ssize_t faulty_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    int error = atomic_load(&world_write_error);
    if (!error)
        return kymo_file_ops_system.pwrite(fd, buf, n, off);
    errno = error;
    return -1;
}

static int faulty_fsync(int fd)
{
    const struct timespec t = {0, 1000000};
    (void)fd;
    for (int ms = 0; ms < atomic_load(&world_sync_ms); ms++)
        (void)nanosleep(&t, NULL);
    int error = atomic_load(&world_sync_error);
    errno = error;
    return error ? -1 : 0;
}

static void make_faults(void)
{
    static struct kymo_file_ops ops;
    ops = kymo_file_ops_system;
    ops.pwrite = faulty_pwrite;
    ops.fsync = faulty_fsync;
    kymo_file_set_ops(&ops);
    atomic_store(&world_write_error, 0);
    atomic_store(&world_sync_error, 0);
    atomic_store(&world_sync_ms, 0);
}

void collector_world_prepare(struct collector_world *w)
{
    memset(w, 0, sizeof *w);
    (void)snprintf(w->root, sizeof w->root, "/tmp/kymo-collector.XXXXXX");
    assert_non_null(mkdtemp(w->root));
    make_faults();
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(uv_timer_init(&w->loop, &w->timer), 0);
    assert_int_equal(net_new(&w->loop, &w->net, NULL), 0);
    w->config = (struct receiver_config){.net = w->net, .loop = &w->loop, .address = "127.0.0.1:0", .host = "here"};
    w->intakes_config = (struct intakes_config){.ops = &receiver_intake_ops};
}

static void on_tick(void *ctx, struct store_thread *t)
{
    struct collector_world *w = ctx;
    intakes_tick(w->intakes, t);
}

static void on_ended(void *ctx)
{
    struct collector_world *w = ctx;
    w->ended = true;
}

static void on_idle(void *ctx)
{
    struct collector_world *w = ctx;
    store_thread_stop(w->store);
}

void collector_world_open(struct collector_world *w)
{
    struct kymo_err err = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/store", w->root);
    assert_int_equal(intakes_new(&w->intakes_config, &w->intakes, &err), 0);
    const struct store_thread_config sc = {
        .loop = &w->loop, .data_path = path, .no_work = true, .tick = on_tick, .ended = on_ended, .ctx = w};
    if (store_thread_new(&sc, &w->store, &err) < 0)
        fail_msg("%s", err.text);
    intakes_set_thread(w->intakes, w->store);
    w->config.store = w->store;
    w->config.intakes = w->intakes;
    w->config.idle = on_idle;
    w->config.ctx = w;
    if (receiver_new(&w->config, &w->receiver, &err) < 0)
        fail_msg("%s", err.text);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

bool collector_world_run(struct collector_world *w, const size_t *flag, size_t n, unsigned ms)
{
    uint64_t end = uv_hrtime() + (uint64_t)ms * 1000000;
    assert_int_equal(uv_timer_start(&w->timer, on_timer, 5, 5), 0);
    while ((!flag || *flag < n) && uv_hrtime() < end)
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&w->timer);
    return flag && *flag >= n;
}

void collector_world_turn(struct collector_world *w, unsigned ms)
{
    (void)collector_world_run(w, NULL, 0, ms);
}

void collector_world_wait_bytes(struct collector_world *w, uint64_t n)
{
    struct receiver_figures f = {0};
    /* Those that wait for the store's thread would be dropped when it stops. */
    for (unsigned ms = 0; ms < WORLD_WAIT_MS && (f.bytes < n || intakes_bytes(w->intakes) > 0); ms++) {
        collector_world_turn(w, 1);
        receiver_figures(w->receiver, &f);
    }
    assert_true(f.bytes >= n);
}

void collector_world_stop(struct collector_world *w)
{
    uint64_t end = uv_hrtime() + (uint64_t)WORLD_WAIT_MS * 1000000;
    if (!w->receiver)
        return;
    w->ended = false;
    receiver_stop(w->receiver);
    assert_int_equal(uv_timer_start(&w->timer, on_timer, 5, 5), 0);
    while (!w->ended && uv_hrtime() < end)
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    (void)uv_timer_stop(&w->timer);
    assert_true(w->ended);
    w->store = store_thread_free(w->store);
    w->receiver = receiver_free(w->receiver);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(intakes_open(w->intakes), 0);
    assert_int_equal(intakes_bytes(w->intakes), 0);
    w->intakes = intakes_free(w->intakes);
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

void collector_world_done(struct collector_world *w)
{
    for (size_t i = 0; i < w->n_peers; i++)
        uplink_peer_done(&w->peers[i]);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    collector_world_stop(w);
    net_free(w->net);
    (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    uv_walk(&w->loop, close_handle, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    kymo_file_set_ops(NULL);
    assert_int_equal(kymo_file_remove_tree(w->root, NULL), 0);
}

struct uplink_peer *collector_world_peer(struct collector_world *w, const char *host, struct tls_context *tls)
{
    assert_true(w->n_peers < WORLD_PEERS);
    struct uplink_peer *p = &w->peers[w->n_peers++];
    uplink_peer_init(p, &w->loop, w->net, host, tls);
    return p;
}

static uint8_t *make_bytes(unsigned seed, size_t n)
{
    uint8_t *bytes = kymo_malloc(n + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
    return bytes;
}

void collector_world_add(struct uplink_peer *p, const char *id, unsigned seed, size_t n, const void *neff,
                         size_t neff_n)
{
    uint8_t *bytes KYMO_FREE = make_bytes(seed, n);
    size_t size;
    const struct sample_file files[] = {{"p.ntff", KYMO__MANIFEST__FILE__KIND__NTFF, bytes, n, 0},
                                        {"m.neff", KYMO__MANIFEST__FILE__KIND__NEFF, neff, neff_n, 0}};
    const void *data[] = {bytes, neff};
    uint8_t *manifest KYMO_FREE = capture_sample_manifest(id, files, neff ? 2 : 1, &size);
    uplink_peer_add(p, manifest, size, data);
}

struct looked_for {
    const char *id;
    char *reason;
    char state[16];
};

static int look(void *ctx, const struct catalog_capture *c)
{
    struct looked_for *l = ctx;
    if (strcmp(c->id, l->id) != 0)
        return 0;
    memcpy(l->state, c->state, sizeof l->state);
    memcpy(l->reason, c->reason, KYMO_ERR_TEXT_MAX);
    return 1;
}

const char *collector_world_state(struct collector_world *w, const char *id, char reason[static KYMO_ERR_TEXT_MAX])
{
    static struct looked_for l;
    struct catalog *c;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/store/catalog.db", w->root);
    l = (struct looked_for){.id = id, .reason = reason};
    *reason = '\0';
    assert_int_equal(catalog_open(path, true, &c, NULL), 0);
    assert_true(catalog_list_captures(c, look, &l, NULL) >= 0);
    catalog_free(c);
    return l.state;
}

void collector_world_check(struct collector_world *w, const char *id, unsigned seed, size_t n)
{
    uint8_t *bytes KYMO_FREE = make_bytes(seed, n), *found KYMO_FREE = NULL;
    char path[192];
    size_t found_n;
    struct kymo_err err = {0};
    (void)snprintf(path, sizeof path, "%s/store/raw/captures/%s/p.ntff", w->root, id);
    if (kymo_file_read_all(path, n + 1, &found, &found_n, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(found_n, n);
    assert_memory_equal(found, bytes, n);
}
