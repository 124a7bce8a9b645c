#include "tests/unit/uplink_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/hash.h"

unsigned world_random(struct world *w, unsigned below)
{
    return (unsigned)rand_r(&w->rnd) % below;
}

static void make_item(struct world *w, struct world_item *item, unsigned number, bool neff)
{
    item->neff = neff;
    /* Empty files are as good as any. NEFFs come from a small set, so that captures share them. */
    unsigned kind = neff ? number % 3 : number;
    (void)snprintf(item->name, sizeof item->name, "f/%u", number);
    item->size = neff ? 5000 + kind * 7000 : world_random(w, 5) ? world_random(w, WORLD_SIZE_MAX) : 0;
    item->bytes = kymo_malloc(item->size);
    assert_non_null(item->bytes);
    for (uint64_t i = 0; i < item->size; i++)
        item->bytes[i] = (uint8_t)(neff ? i * (kind + 3) : i / 9 * (number + 1));
    assert_int_equal(kymo_hash_sha256(item->bytes, item->size, item->sha256), 0);
}

void world_init(struct world *w, unsigned seed, size_t n_captures)
{
    *w = (struct world){.rnd = seed, .n = n_captures};
    kymo_buf_init(&w->up, 64u << 20);
    kymo_buf_init(&w->down, 64u << 20);
    for (size_t i = 0; i < w->n; i++) {
        struct world_capture *c = &w->captures[i];
        c->world = w;
        (void)snprintf(c->id, sizeof c->id, "c%zu", i);
        c->n_items = world_random(w, WORLD_ITEMS + 1);
        for (uint32_t k = 0; k < c->n_items; k++) {
            make_item(w, &c->items[k], (unsigned)i * WORLD_ITEMS + k, k % 3 == 1);
            c->stored[k] = kymo_calloc(1, c->items[k].size);
            assert_non_null(c->stored[k]);
        }
    }
}

void world_done(struct world *w)
{
    world_disconnect(w);
    for (size_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; k < w->captures[i].n_items; k++) {
            kymo_free(w->captures[i].items[k].bytes);
            kymo_free(w->captures[i].stored[k]);
        }
    kymo_buf_done(&w->up);
    kymo_buf_done(&w->down);
}

static int spool_read(void *ctx, void *handle, uint32_t item, uint64_t offset, void *buf, size_t n,
                      struct kymo_err *err)
{
    (void)ctx;
    const struct world_capture *c = handle;
    assert_true(item < c->n_items && offset + n <= c->items[item].size);
    if (c->world->faults && world_random(c->world, 400) == 0)
        return kymo_err_set(err, -EIO, "%s: the disk says no", c->id);
    memcpy(buf, c->items[item].bytes + offset, n);
    return 0;
}

static void spool_ack(void *ctx, void *handle, uint32_t item, uint64_t offset)
{
    (void)ctx;
    struct world_capture *c = handle;
    assert_true(offset > c->acked[item]);
    /* After a refusal for a wrong hash nothing is durable, while acknowledgements may be under way. */
    assert_true(c->world->faults || offset <= c->durable[item]);
    c->acked[item] = offset;
}

static void spool_stored(void *ctx, void *handle)
{
    (void)ctx;
    struct world_capture *c = handle;
    assert_int_equal(c->published, 1);
    c->told++;
}

static void spool_refused(void *ctx, void *handle, int why, const char *text)
{
    struct world *w = ctx;
    struct world_capture *c = handle;
    assert_true(why > 0 && text[0] != '\0');
    c->offered = false;
    w->refusals++;
}

static int spool_request(void *ctx, const Kymo__Uplink__CaptureRequest *request, struct kymo_err *err)
{
    struct world *w = ctx;
    w->requests++;
    if (request->step == 13)
        return kymo_err_set(err, -ENOENT, "there is no such step");
    const char *ids[] = {"c0", "c1"};
    return uplink_send_reply(w->send, request->request_id, ids, 2, err);
}

static void spool_losses(void *ctx, const Kymo__Uplink__RingLosses *losses)
{
    struct world *w = ctx;
    w->losses += (unsigned)losses->n_losses;
}

static void spool_losses_kept(void *ctx, uint64_t batch)
{
    struct world *w = ctx;
    assert_true(batch == w->batch && w->kept >= w->told + w->batch_rows);
    w->told += w->batch_rows;
    w->batch = 0;
}

const struct uplink_send_ops world_spool_ops = {
    .read = spool_read,
    .on_ack = spool_ack,
    .on_stored = spool_stored,
    .on_refused = spool_refused,
    .on_request = spool_request,
    .on_losses = spool_losses,
    .on_losses_kept = spool_losses_kept,
};

static bool has_neff(const struct world *w, const uint8_t *sha256)
{
    for (size_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; w->captures[i].published && k < w->captures[i].n_items; k++)
            if (w->captures[i].items[k].neff && memcmp(w->captures[i].items[k].sha256, sha256, 32) == 0)
                return true;
    return false;
}

static void find_offsets(const struct world *w, struct world_capture *c, uint64_t *offsets)
{
    for (uint32_t k = 0; k < c->n_items; k++) {
        offsets[k] = c->items[k].neff && has_neff(w, c->items[k].sha256) ? c->items[k].size : c->durable[k];
        if (offsets[k] == c->items[k].size && c->len[k] < c->items[k].size) {
            /* Taken from the shared place. */
            memcpy(c->stored[k], c->items[k].bytes, c->items[k].size);
            c->len[k] = c->durable[k] = c->items[k].size;
        }
    }
}

static int store_offer(void *ctx, const Kymo__Uplink__Offer *offer, uint64_t *offsets, void **ret_handle,
                       struct kymo_err *err)
{
    struct world *w = ctx;
    size_t i = offer->capture_id[0] == 'c' ? strtoul(offer->capture_id + 1, NULL, 10) : w->n;
    if (i >= w->n)
        return kymo_err_set(err, -EINVAL, "no such capture");
    struct world_capture *c = &w->captures[i];
    c->asked = world_random(w, 2);
    if (c->published && !c->asked)
        return UPLINK_RECV_HAVE;
    if (offer->n_items != c->n_items)
        return kymo_err_set(err, -EINVAL, "%zu items", offer->n_items);
    if (w->faults && world_random(w, 20) == 0)
        return kymo_err_set(err, -EBUSY, "not now");
    for (uint32_t k = 0; k < c->n_items; k++)
        if (offer->items[k]->size != c->items[k].size)
            return kymo_err_set(err, -EINVAL, "item %u of another size", k);
    assert_false(c->open);
    c->open = true;
    c->done = false;
    *ret_handle = c;
    if (c->asked)
        return UPLINK_RECV_LATER;
    find_offsets(w, c, offsets);
    return UPLINK_RECV_NOW;
}

static int store_write(void *ctx, void *handle, uint32_t item, uint64_t offset, const void *data, size_t n,
                       struct kymo_err *err)
{
    struct world *w = ctx;
    struct world_capture *c = handle;
    assert_true(c->open && n > 0);
    assert_true(item < c->n_items && offset == c->len[item] && offset + n <= c->items[item].size);
    if (w->faults && world_random(w, 200) == 0)
        return kymo_err_set(err, -ENOSPC, "%s: no room", c->id);
    memcpy(c->stored[item] + offset, data, n);
    c->len[item] += n;
    w->sent_bytes += n;
    if (world_random(w, 2))
        return UPLINK_RECV_NOW;
    w->pending += n;
    w->pending_max = w->pending > w->pending_max ? w->pending : w->pending_max;
    return UPLINK_RECV_LATER;
}

static void publish(struct world_capture *c)
{
    for (uint32_t k = 0; k < c->n_items; k++)
        assert_int_equal(c->len[k], c->items[k].size);
    c->published++;
    c->open = false;
}

static int store_done(void *ctx, void *handle, struct kymo_err *err)
{
    struct world *w = ctx;
    struct world_capture *c = handle;
    if (w->faults && world_random(w, 20) == 0) {
        memset(c->durable, 0, sizeof c->durable);
        return kymo_err_set(err, -EBADMSG, "%s: wrong hash", c->id);
    }
    if (world_random(w, 2)) {
        c->done = true;
        return UPLINK_RECV_LATER;
    }
    publish(c);
    return UPLINK_RECV_NOW;
}

static void store_drop(void *ctx, void *handle)
{
    (void)ctx;
    struct world_capture *c = handle;
    assert_true(c->open);
    c->open = false;
    memcpy(c->len, c->durable, sizeof c->len);
}

static void store_reply(void *ctx, const Kymo__Uplink__CaptureReply *reply)
{
    struct world *w = ctx;
    w->replies += (unsigned)reply->n_capture_ids;
}

static void store_refused(void *ctx, uint64_t request_id, int why, const char *text)
{
    struct world *w = ctx;
    assert_true(request_id == 13 && why == KYMO__WIRE__REFUSAL__REASON__NOT_FOUND);
    assert_string_equal(text, "there is no such step");
    w->replies += 100;
}

static int store_host_losses(void *ctx, const Kymo__Uplink__HostLosses *losses, struct kymo_err *err)
{
    struct world *w = ctx;
    if (world_random(w, 3) == 0)
        return kymo_err_set(err, -EIO, "not now");
    for (size_t i = 0; i < losses->n_rows; i++) {
        assert_true(losses->rows[i]->row <= w->kept + 1);
        w->kept = losses->rows[i]->row > w->kept ? losses->rows[i]->row : w->kept;
    }
    if (world_random(w, 2))
        return UPLINK_RECV_NOW;
    w->keeps = losses->batch;
    return UPLINK_RECV_LATER;
}

const struct uplink_recv_ops world_store_ops = {
    .offer = store_offer,
    .write = store_write,
    .done = store_done,
    .drop = store_drop,
    .host_losses = store_host_losses,
    .reply = store_reply,
    .refused = store_refused,
};

void world_connect(struct world *w, uint32_t chunk, uint32_t window, int zstd_level)
{
    const struct uplink_send_config sc = {.versions = {1, 1 + world_random(w, 2)},
                                          .writer = "test",
                                          .chunk = chunk,
                                          .zstd_level = zstd_level,
                                          .ops = &world_spool_ops,
                                          .ctx = w};
    const struct uplink_recv_config rc = {
        .writer = "test", .zstd = true, .window = window, .ops = &world_store_ops, .ctx = w};
    assert_int_equal(uplink_send_new(&sc, &w->send, NULL), 0);
    assert_int_equal(uplink_recv_new(&rc, &w->recv, NULL), 0);
    for (size_t i = 0; i < w->n; i++)
        w->captures[i].offered = false;
    w->pending = w->batch = w->keeps = 0;
}

void world_disconnect(struct world *w)
{
    w->send = uplink_send_free(w->send);
    w->recv = uplink_recv_free(w->recv);
    kymo_buf_reset(&w->up);
    kymo_buf_reset(&w->down);
}

static void offer_some(struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct world_capture *c = &w->captures[i];
        if (c->told || c->offered || world_random(w, 4))
            continue;
        memset(c->acked, 0, sizeof c->acked);
        struct uplink_send_item items[WORLD_ITEMS] = {0};
        for (uint32_t k = 0; k < c->n_items; k++) {
            items[k].name = c->items[k].name;
            items[k].size = c->items[k].size;
            items[k].neff = c->items[k].neff;
            memcpy(items[k].sha256, c->items[k].sha256, 32);
        }
        int r = uplink_send_offer(w->send, c->id, "manifest", 8, items, c->n_items, c, NULL);
        c->offered = r == 0;
        assert_true(r == 0 || r == -EAGAIN || r == -ENOBUFS);
    }
}

static void take_front(struct kymo_buf *b, size_t n)
{
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

static void move_bytes(struct world *w)
{
    struct kymo_err err = {0};
    const uint8_t *data;
    size_t n;
    if (uplink_send_out(w->send, &data, &n, &err) < 0)
        fail_msg("%s", err.text);
    n = n ? world_random(w, (unsigned)n) + 1 : 0;
    assert_int_equal(kymo_buf_append(&w->up, data, n), 0);
    uplink_send_consume(w->send, n);
    uplink_recv_out(w->recv, &data, &n);
    assert_int_equal(kymo_buf_append(&w->down, data, n), 0);
    uplink_recv_consume(w->recv, n);

    n = w->up.len ? world_random(w, (unsigned)w->up.len) + 1 : 0;
    if (uplink_recv_feed(w->recv, w->up.data, n, &err) < 0)
        fail_msg("%s", err.text);
    take_front(&w->up, n);
    n = w->down.len ? world_random(w, (unsigned)w->down.len) + 1 : 0;
    if (uplink_send_feed(w->send, w->down.data, n, &err) < 0)
        fail_msg("%s", err.text);
    take_front(&w->down, n);
}

static void answer(struct world *w, struct world_capture *c)
{
    uint64_t offsets[WORLD_ITEMS];
    c->asked = false;
    if (c->published) {
        c->open = false;
        assert_int_equal(uplink_recv_have(w->recv, c, NULL), 0);
    } else if (w->faults && world_random(w, 20) == 0) {
        assert_int_equal(uplink_recv_refuse(w->recv, c, -EBUSY, "not now either", NULL), 0);
    } else {
        find_offsets(w, c, offsets);
        assert_int_equal(uplink_recv_accept(w->recv, c, offsets, NULL), 0);
        assert_int_equal(uplink_recv_accept(w->recv, c, offsets, NULL), -EINVAL);
    }
}

static void let_store_work(struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct world_capture *c = &w->captures[i];
        if (c->open && c->asked) {
            if (world_random(w, 3) == 0)
                answer(w, c);
            continue;
        }
        for (uint32_t k = 0; c->open && k < c->n_items; k++) {
            if (c->durable[k] == c->len[k] || world_random(w, 3))
                continue;
            c->durable[k] += world_random(w, (unsigned)(c->len[k] - c->durable[k])) + 1;
            assert_int_equal(uplink_recv_durable(w->recv, c, k, c->durable[k], NULL), 0);
        }
        if (c->open && c->done && world_random(w, 3) == 0) {
            publish(c);
            assert_int_equal(uplink_recv_stored(w->recv, c, NULL), 0);
        }
    }
    if (w->pending && world_random(w, 2)) {
        uint64_t taken = world_random(w, (unsigned)w->pending) + 1;
        w->pending -= taken;
        assert_int_equal(uplink_recv_taken(w->recv, taken, NULL), 0);
    }
}

/* Rows are sent once they are there, and again on another connection. */
static void tell_losses(struct world *w)
{
    char cause[] = "evicted";
    Kymo__Uplink__HostLoss rows[4];
    w->lost += world_random(w, 50) == 0;
    uint64_t n = w->lost - w->told;
    n = n < 4 ? n : 4;
    if (n == 0 || w->batch || !session_is_ready(uplink_send_session(w->send)))
        return;
    for (uint64_t i = 0; i < n; i++) {
        kymo__uplink__host_loss__init(&rows[i]);
        rows[i].has_row = rows[i].has_first_seq = rows[i].has_last_seq = rows[i].has_captures = 1;
        rows[i].has_bytes = rows[i].has_first_unix_ns = rows[i].has_last_unix_ns = 1;
        rows[i].row = w->told + i + 1;
        rows[i].captures = 1;
        rows[i].cause = cause;
    }
    int r = uplink_send_losses(w->send, rows, n, &w->batch, NULL);
    assert_int_equal(r, session_version(uplink_send_session(w->send)) == 1 ? -EOPNOTSUPP : 0);
    w->batch_rows = n;
}

static void keep_losses(struct world *w)
{
    if (!w->keeps || world_random(w, 3))
        return;
    assert_int_equal(uplink_recv_losses_kept(w->recv, w->keeps + 1, NULL), -EINVAL);
    assert_int_equal(uplink_recv_losses_kept(w->recv, w->keeps, NULL), 0);
    assert_int_equal(uplink_recv_losses_kept(w->recv, w->keeps, NULL), -EINVAL);
    w->keeps = 0;
}

void world_step(struct world *w)
{
    tell_losses(w);
    keep_losses(w);
    offer_some(w);
    move_bytes(w);
    let_store_work(w);
}

bool world_is_finished(const struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (!w->captures[i].told)
            return false;
    return true;
}

void world_verify(const struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct world_capture *c = &w->captures[i];
        assert_int_equal(c->published, 1);
        assert_int_equal(c->told, 1);
        for (uint32_t k = 0; k < c->n_items; k++)
            assert_memory_equal(c->stored[k], c->items[k].bytes, c->items[k].size);
    }
}
