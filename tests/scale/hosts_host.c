/* One host of the crowd: its connection and its captures. */
#include "tests/scale/hosts_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "proto/manifest.pb-c.h"

#define NTFF_NAME "profile_nc_0.ntff"
#define BREAKS 3
#define CHUNK_OF_BREAKING 4096u
#define NOISE_BYTES 4096u
#define WAIT_MIN_MS 250
#define WAIT_MAX_MS 4000

void hosts_must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "scale_hosts: %s\n", what);
    abort();
}

static bool is_hostile(const struct hosts_host *h)
{
    return h->kind >= HOSTS_HOSTILE;
}

static void pump(struct hosts_host *h)
{
    struct kymo_err err = {0};
    while (h->conn && h->send && !h->want_break) {
        const uint8_t *data;
        size_t n, taken;
        if (uplink_send_out(h->send, &data, &n, &err) < 0)
            return;
        if (h->kind == HOSTS_SLOW && n > h->budget)
            n = (size_t)h->budget;
        if (n == 0 || net_conn_send(h->conn, data, n, &taken, &err) < 0)
            break;
        uplink_send_consume(h->send, taken);
        h->budget -= h->kind == HOSTS_SLOW ? taken : 0;
        if (taken < n)
            break;
    }
    if (h->want_break && h->conn) {
        h->want_break = false;
        h->breaks_left--;
        h->all->counts.breaks++;
        net_conn_close(h->conn);
    }
}

/* A thief waits for its victim: who comes first has the name, and plain hosts are who they say. */
static bool is_victim_stored(const struct hosts *all)
{
    for (size_t i = 0; i < all->hosts[0].n; i++)
        if (!all->hosts[0].captures[i].stored)
            return false;
    return true;
}

/* One at a time, as the next comes from a job only now and then. */
static void offer_next(struct hosts_host *h)
{
    const struct hosts_config *k = &h->all->config;
    struct uplink_send_item items[] = {{.name = NTFF_NAME, .size = k->ntff.n}, {.size = k->neff.n, .neff = true}};
    memcpy(items[0].sha256, k->ntff.sha256, sizeof items[0].sha256);
    memcpy(items[1].sha256, k->neff.sha256, sizeof items[1].sha256);
    if (h->refused || (h->kind == HOSTS_THIEF && !is_victim_stored(h->all)))
        return;
    for (size_t i = 0; h->ready && h->all->sending && i < h->n; i++) {
        struct hosts_capture *c = &h->captures[i];
        if (c->offered)
            return;
        if (c->stored)
            continue;
        c->begun = false;
        c->offered = uplink_send_offer(h->send, c->id, c->manifest, c->manifest_n, items, 2, c, NULL) == 0;
        return;
    }
}

static int on_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n, struct kymo_err *err)
{
    struct hosts_host *h = ctx;
    struct hosts_capture *c = handle;
    const struct hosts_file *f = item == 0 ? &h->all->config.ntff : &h->all->config.neff;
    (void)err;
    memcpy(buf, f->data + offset, n);
    if (h->kind == HOSTS_LIAR)
        memset(buf, 0x5a, n);
    if (item == 0 && !c->begun) {
        c->begun = true;
        h->all->counts.resumed += offset > 0;
    }
    h->read += n;
    if (h->breaks_left > 0 && h->read >= h->break_at) {
        h->break_at += 1 + (uint64_t)rand() % (2 * h->all->config.ntff.n);
        h->want_break = true;
    }
    return 0;
}

static void on_ready(void *ctx, const Kymo__Wire__Hello *peer)
{
    struct hosts_host *h = ctx;
    (void)peer;
    net_dialer_good(h->dialer);
    h->all->counts.connected += !h->was_ready && !is_hostile(h);
    h->ready = h->was_ready = true;
}

static void on_stored(void *ctx, void *handle)
{
    struct hosts_host *h = ctx;
    struct hosts_capture *c = handle;
    struct hosts_counts *n = &h->all->counts;
    c->offered = false;
    n->doubled += c->stored;
    c->stored = true;
    if (is_hostile(h)) {
        n->hostile_stored++;
    } else {
        n->stored++;
        n->bytes += h->all->config.ntff.n;
    }
    offer_next(h);
}

/* The next tick offers it again. */
static void on_refused(void *ctx, void *handle, int why, const char *text)
{
    struct hosts_host *h = ctx;
    struct hosts_capture *c = handle;
    (void)why;
    (void)text;
    c->offered = false;
    h->refused = true;
    if (is_hostile(h))
        h->all->counts.turned_away++;
    else
        h->all->counts.again++;
}

static const struct uplink_send_ops send_ops = {
    .read = on_read, .on_ready = on_ready, .on_stored = on_stored, .on_refused = on_refused};

static int on_data(struct net_conn *conn, void *ctx, const uint8_t *data, size_t n, struct kymo_err *err)
{
    struct hosts_host *h = ctx;
    (void)conn;
    if (!h->send)
        return 0;
    int r = uplink_send_feed(h->send, data, n, err);
    if (r == 0) {
        offer_next(h);
        pump(h);
    }
    return r;
}

static void on_writable(struct net_conn *conn, void *ctx)
{
    (void)conn;
    pump(ctx);
}

static void on_closed(struct net_conn *conn, void *ctx, const struct kymo_err *why)
{
    struct hosts_host *h = ctx;
    (void)conn;
    (void)why;
    h->conn = NULL;
    h->ready = h->want_break = false;
    h->send = uplink_send_free(h->send);
    h->all->counts.turned_away += is_hostile(h);
    for (size_t i = 0; i < h->n; i++)
        h->captures[i].offered = false;
}

static const struct net_conn_ops conn_ops = {.data = on_data, .writable = on_writable, .closed = on_closed};

static void make_noise(struct hosts_host *h)
{
    uint8_t noise[NOISE_BYTES];
    struct kymo_err err = {0};
    size_t taken;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = h->kind == HOSTS_HUGE ? 0xff : (uint8_t)rand();
    if (net_conn_send(h->conn, noise, sizeof noise, &taken, &err) < 0)
        h->all->counts.turned_away++;
}

static void on_opened(void *ctx, struct net_conn *conn)
{
    struct hosts_host *h = ctx;
    const struct uplink_send_config config = {.writer = "scale_hosts",
                                              .host = h->name,
                                              .boot_id = "boot",
                                              .chunk = h->kind == HOSTS_BREAKING ? CHUNK_OF_BREAKING : 0,
                                              .ops = &send_ops,
                                              .ctx = h};
    h->conn = conn;
    if (h->kind == HOSTS_GARBAGE || h->kind == HOSTS_HUGE) {
        make_noise(h);
        return;
    }
    if (h->kind == HOSTS_MUTE)
        return;
    hosts_must(uplink_send_new(&config, &h->send, NULL) == 0, "no memory");
    pump(h);
}

void hosts_host_tick(struct hosts_host *h)
{
    h->budget = HOSTS_SLOW_BYTES;
    h->refused = false;
    offer_next(h);
    pump(h);
}

static void make_manifest(struct hosts_host *h, struct hosts_capture *c, size_t rank)
{
    const struct hosts_config *k = &h->all->config;
    char neff_name[2 * KYMO_SHA256_SIZE + 6], ntff_name[] = NTFF_NAME, job[] = "scale", mode[] = "model";
    for (size_t i = 0; i < KYMO_SHA256_SIZE; i++)
        (void)snprintf(neff_name + 2 * i, sizeof neff_name - 2 * i, "%02x.neff", k->neff.sha256[i]);
    ProtobufCBinaryData neff = {.len = KYMO_SHA256_SIZE, .data = h->all->config.neff.sha256};
    ProtobufCBinaryData ntff = {.len = KYMO_SHA256_SIZE, .data = h->all->config.ntff.sha256};
    Kymo__Manifest__File files[] = {KYMO__MANIFEST__FILE__INIT, KYMO__MANIFEST__FILE__INIT},
                         *list[] = {files, files + 1};
    for (size_t i = 0; i < 2; i++) {
        files[i].name = i ? neff_name : ntff_name;
        files[i].has_type = files[i].has_size = files[i].has_sha256 = 1;
        files[i].type = i ? KYMO__MANIFEST__FILE__KIND__NEFF : KYMO__MANIFEST__FILE__KIND__NTFF;
        files[i].size = i ? k->neff.n : k->ntff.n;
        files[i].sha256 = i ? neff : ntff;
    }
    files[0].has_vnc = 1;
    files[0].n_neff_sha256 = 1;
    files[0].neff_sha256 = &neff;
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    m.has_version = m.has_rank = 1;
    m.version = 1;
    m.rank = (uint32_t)rank;
    m.capture_id = c->id;
    m.job = job;
    m.mode = mode;
    m.host = h->name;
    m.n_files = 2;
    m.files = list;
    c->manifest = kymo_malloc(kymo__manifest__capture__get_packed_size(&m));
    hosts_must(c->manifest != NULL, "no memory");
    c->manifest_n = kymo__manifest__capture__pack(&m, c->manifest);
}

void hosts_host_open(struct hosts_host *h, struct hosts *all, size_t number, enum hosts_kind kind)
{
    const struct hosts_config *k = &all->config;
    h->all = all;
    h->kind = kind;
    h->n = k->captures;
    h->breaks_left = kind == HOSTS_BREAKING ? BREAKS : 0;
    h->break_at = 1 + (uint64_t)rand() % k->ntff.n;
    (void)snprintf(h->name, sizeof h->name, "host-%05zu", number);
    h->captures = KYMO_NEW_ARRAY(struct hosts_capture, h->n + 1);
    hosts_must(h->captures != NULL, "no memory");
    for (size_t i = 0; i < h->n; i++) {
        struct hosts_capture *c = &h->captures[i];
        /* A thief's are those of the first host, which is honest; its manifest names another rank. */
        (void)snprintf(c->id, sizeof c->id, "%.32s-%05zu-%zu", k->prefix, kind == HOSTS_THIEF ? 0 : number, i);
        make_manifest(h, c, number);
    }
    const struct net_dialer_config config = {.address = k->address,
                                             .tls = k->tls,
                                             .wait_min_ms = WAIT_MIN_MS,
                                             .wait_max_ms = WAIT_MAX_MS,
                                             .opened = on_opened,
                                             .ops = &conn_ops,
                                             .ctx = h};
    hosts_must(net_dialer_new(all->net, &config, &h->dialer, NULL) == 0, "no dialer");
}

void hosts_host_close(struct hosts_host *h)
{
    h->dialer = net_dialer_close(h->dialer);
}

void hosts_host_free(struct hosts_host *h)
{
    for (size_t i = 0; i < h->n; i++)
        kymo_free(h->captures[i].manifest);
    kymo_free(h->captures);
}
