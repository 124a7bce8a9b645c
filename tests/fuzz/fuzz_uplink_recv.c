/*
 * Both ends of the uplink against hostile peers. The first byte chooses the end, the size of pieces and whether a hello
 * comes first by itself; the rest is a row of frames (fuzz_session.h). The store checks that what the state machine
 * lets through is in order, without gaps, within credit, and that every handle ends exactly once.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/uplink_recv.h"
#include "proto/uplink_send.h"
#include "tests/fuzz/fuzz_session.h"

#define WINDOW 20000u
#define HANDLES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct handle {
    bool open;
    uint32_t n_items;
    uint64_t at[UPLINK_ITEMS_MAX], size[UPLINK_ITEMS_MAX];
};

static struct {
    struct uplink_recv *recv;
    struct uplink_send *send;
    struct handle handles[HANDLES];
    size_t n, pending;
} x;

static void must(int holds)
{
    if (!holds)
        abort();
}

static int store_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                       struct kymo_err *err)
{
    (void)ctx;
    must(wire_is_id(offer->capture_id));
    if (x.n == HANDLES)
        return kymo_err_set(err, -EBUSY, "enough");
    if (offer->capture_id[0] == 'h')
        return UPLINK_RECV_HAVE;
    struct handle *h = &x.handles[x.n++];
    h->open = true;
    h->n_items = (uint32_t)offer->n_items;
    for (uint32_t i = 0; i < h->n_items; i++) {
        must(offer->items[i]->neff || uplink_is_name(offer->items[i]->name));
        h->size[i] = offer->items[i]->size;
        /* Some are there already, in part or whole. */
        h->at[i] = offsets[i] = i % 3 == 2 ? h->size[i] : i % 3 == 1 ? h->size[i] / 2 : 0;
    }
    *ret_handle = h;
    return UPLINK_RECV_NOW;
}

static int store_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                       struct kymo_err *err)
{
    struct handle *h = handle;
    (void)ctx;
    must(h->open && item < h->n_items && n > 0 && offset == h->at[item] && n <= h->size[item] - offset);
    volatile uint8_t last = ((const uint8_t *)data)[n - 1];
    h->at[item] += n;
    if (last == 0xee)
        return kymo_err_set(err, -ENOSPC, "no room");
    if (last % 2) {
        must(uplink_recv_durable(x.recv, h, item, h->at[item], NULL) == 0);
        return UPLINK_RECV_NOW;
    }
    x.pending += n;
    must(x.pending <= WINDOW);
    return UPLINK_RECV_LATER;
}

static int store_done(void *ctx, void *handle, struct kymo_err *err)
{
    struct handle *h = handle;
    (void)ctx;
    must(h->open);
    for (uint32_t i = 0; i < h->n_items; i++)
        must(h->at[i] == h->size[i]);
    if (h->n_items == 1)
        return kymo_err_set(err, -EBADMSG, "wrong hash");
    if (h->n_items == 2)
        return UPLINK_RECV_LATER;
    h->open = false;
    return UPLINK_RECV_NOW;
}

static void store_drop(void *ctx, void *handle)
{
    struct handle *h = handle;
    (void)ctx;
    must(h->open);
    h->open = false;
}

static int store_host_losses(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err)
{
    (void)ctx;
    must(losses->n_rows <= UPLINK_HOST_LOSSES_MAX);
    for (size_t i = 0; i < losses->n_rows; i++)
        must(losses->rows[i]->last_seq >= losses->rows[i]->first_seq && wire_is_id(losses->rows[i]->cause));
    if (losses->batch % 3 == 1)
        return kymo_err_set(err, -EIO, "not now");
    if (losses->batch % 3 == 2)
        must(uplink_recv_losses_kept(x.recv, losses->batch, NULL) == 0);
    return losses->batch % 3 == 2 ? UPLINK_RECV_LATER : UPLINK_RECV_NOW;
}

static const struct uplink_recv_ops store = {.offer = store_offer,
                                             .write = store_write,
                                             .done = store_done,
                                             .drop = store_drop,
                                             .host_losses = store_host_losses};

static int spool_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n,
                      struct kymo_err *err)
{
    (void)ctx;
    (void)err;
    must(handle == &x.handles[0] && item < 3 && offset + n <= 1000u * (item + 1));
    memset(buf, (int)item, n);
    return 0;
}

static void spool_ready(void *ctx, const Kymo__Wire__Hello *peer)
{
    (void)ctx;
    (void)peer;
    const struct uplink_send_item items[3] = {
        {.name = "a", .size = 1000}, {.name = "b", .size = 2000}, {.size = 3000, .neff = true}};
    for (int i = 0; i < 3; i++)
        must(uplink_send_offer(x.send, "c", "m", 1, items, 3, &x.handles[0], NULL) == 0);
    char cause[] = "full";
    Kymo__Uplink__HostLoss row = KYMO__UPLINK__HOST_LOSS__INIT;
    row.has_row = row.has_first_seq = row.has_last_seq = row.has_captures = row.has_bytes = 1;
    row.has_first_unix_ns = row.has_last_unix_ns = 1;
    row.row = row.captures = 1;
    row.cause = cause;
    uint64_t batch;
    int r = uplink_send_losses(x.send, &row, 1, &batch, NULL);
    must(r == (session_version(uplink_send_session(x.send)) < UPLINK_VERSION_HOST_LOSSES ? -EOPNOTSUPP : 0));
}

static const struct uplink_send_ops spool = {.read = spool_read, .on_ready = spool_ready};

static int step(bool to_recv, const uint8_t *data, size_t n)
{
    const uint8_t *out;
    size_t waiting;
    int r = to_recv ? uplink_recv_feed(x.recv, data, n, NULL) : uplink_send_feed(x.send, data, n, NULL);
    if (to_recv) {
        uplink_recv_out(x.recv, &out, &waiting);
        must(waiting <= SESSION_OUT_MAX);
        if (n % 2)
            uplink_recv_consume(x.recv, waiting);
        if (r == 0 && x.pending > 0) {
            must(uplink_recv_taken(x.recv, x.pending, NULL) == 0);
            x.pending = 0;
        }
    } else {
        must(uplink_send_out(x.send, &out, &waiting, NULL) == 0);
        must(waiting <= SESSION_OUT_MAX);
        uplink_send_consume(x.send, waiting);
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    memset(&x, 0, sizeof x);
    const struct uplink_recv_config rc = {.window = WINDOW, .zstd = true, .ops = &store, .ctx = &x};
    const struct uplink_send_config sc = {.chunk = 700, .ops = &spool, .ctx = &x};
    must(uplink_recv_new(&rc, &x.recv, NULL) == 0 && uplink_send_new(&sc, &x.send, NULL) == 0);
    bool to_recv = data[0] & 1;
    size_t piece = (size_t)(data[0] >> 2) * 40 + 1;
    struct kymo_buf stream;
    kymo_buf_init(&stream, 4u << 20);
    static const uint8_t hello[] = {WIRE_HELLO, 6, 0, 0, 0, 0, 0x08, 1, 0x10, 2, 0x18, 1};
    if (data[0] & 2)
        fuzz_session_frames(hello, sizeof hello, &stream);
    fuzz_session_frames(data + 1, size - 1, &stream);
    for (size_t at = 0, r = 0; at < stream.len && r == 0; at += piece)
        r = step(to_recv, stream.data + at, stream.len - at < piece ? stream.len - at : piece) < 0;
    kymo_buf_done(&stream);
    uplink_recv_free(x.recv);
    uplink_send_free(x.send);
    for (size_t i = 0; to_recv && i < x.n; i++)
        must(!x.handles[i].open);
    return 0;
}
