#include "daemon/outbox_cargo.h"

#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "proto/manifest_check.h"

#define ACK_EVERY (64u << 20)

static int read_manifest(struct spool *s, const struct spool_entry *e, uint8_t **ret, size_t *ret_n,
                         struct kymo_err *err)
{
    size_t n = e->files[e->nfiles - 1].size;
    if (n > UPLINK_MANIFEST_MAX)
        return kymo_err_set(err, -EBADMSG, "capture %s: a manifest of %zu bytes", e->id, n);
    uint8_t *data KYMO_FREE = kymo_malloc(n + 1);
    if (!data)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    int r = spool_read(s, e->seq, e->nfiles - 1, 0, data, n, ret_n, err);
    if (r == 0)
        *ret = KYMO_TAKE(data);
    return r;
}

/* A capture that start-up took in names its NEFFs in the manifest alone. */
static void pin_neffs(struct outbox_cargo *c, struct spool *s, const struct spool_entry *e)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    if (e->nneffs > 0 || e->nfiles == 0 || read_manifest(s, e, &data, &n, NULL) < 0 ||
        manifest_parse(data, n, &m, NULL) < 0)
        return;
    c->pins = kymo_calloc(m->n_files + 1, sizeof *c->pins);
    for (size_t i = 0; c->pins && i < m->n_files; i++)
        if (m->files[i]->type == KYMO__MANIFEST__FILE__KIND__NEFF &&
            spool_pin_neff(s, m->files[i]->sha256.data, true, NULL) == 0)
            memcpy(c->pins[c->n_pins++], m->files[i]->sha256.data, KYMO_SHA256_SIZE);
}

struct outbox_cargo *outbox_cargo_new(struct spool *s, const struct spool_entry *e)
{
    struct outbox_cargo *c = KYMO_NEW(struct outbox_cargo);
    struct outbox_event *end = outbox_event_new(OUTBOX_EVENT_SENT);
    if (!c || !end) {
        outbox_event_free(end);
        kymo_free(c);
        return NULL;
    }
    c->seq = e->seq;
    c->end = end;
    memcpy(c->id, e->id, sizeof c->id);
    memcpy(end->id, e->id, sizeof end->id);
    for (size_t i = 0; i < e->nfiles; i++)
        c->bytes += e->files[i].size - e->files[i].acked;
    pin_neffs(c, s, e);
    return c;
}

struct outbox_cargo *outbox_cargo_free(struct outbox_cargo *c, struct spool *s)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->n_pins; i++)
        spool_unpin_neff(s, c->pins[i]);
    kymo_free(c->pins);
    kymo_free(c->items);
    outbox_event_free(c->end);
    kymo_free(c);
    return NULL;
}

static int find_file(const struct spool_entry *e, const Kymo__Manifest__File *f, size_t *ret, struct kymo_err *err)
{
    for (size_t i = 0; i + 1 < e->nfiles; i++) {
        if (strcmp(e->files[i].name, f->name) != 0)
            continue;
        *ret = i;
        if (e->files[i].size != f->size)
            break;
        return 0;
    }
    return kymo_err_set(err, -EBADMSG, "capture %s: %s is not as the manifest says", e->id, f->name);
}

static int make_item(struct outbox_cargo *c, const struct spool_entry *e, const Kymo__Manifest__File *f,
                     struct uplink_send_item *out, struct kymo_err *err)
{
    struct outbox_cargo_item *item = &c->items[c->n_items];
    *item =
        (struct outbox_cargo_item){.neff = f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NEFF, .size = f->size};
    *out = (struct uplink_send_item){.name = f->name, .size = f->size, .neff = item->neff};
    memcpy(item->sha256, f->sha256.data, sizeof item->sha256);
    memcpy(out->sha256, f->sha256.data, sizeof out->sha256);
    int r = item->neff ? 0 : find_file(e, f, &item->file, err);
    if (r < 0)
        return r;
    item->noted = item->neff ? 0 : e->files[item->file].acked;
    c->n_items++;
    return 0;
}

int outbox_cargo_offer(struct outbox_cargo *c, struct spool *s, struct uplink_send *send,
                       const struct outbox_cargo_ask *ask, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    const struct spool_entry *e = spool_find(s, c->seq);
    if (!e)
        return kymo_err_set(err, -ENOENT, "capture %s: is not pending", c->id);
    int r = read_manifest(s, e, &data, &n, err);
    if (r < 0)
        return r;
    if (manifest_parse(data, n, &m, err) < 0)
        return -EBADMSG;
    kymo_free(KYMO_TAKE(c->items));
    c->items = KYMO_NEW_ARRAY(struct outbox_cargo_item, m->n_files + 1);
    struct uplink_send_item *items KYMO_FREE = KYMO_NEW_ARRAY(struct uplink_send_item, m->n_files + 1);
    if (!c->items || !items)
        return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
    c->n_items = 0;
    c->read_code = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        r = make_item(c, e, m->files[i], &items[i], err);
        if (r < 0)
            return r;
        if (items[i].neff && !ask->may_send(ask->ctx, items[i].sha256))
            return -EINPROGRESS;
    }
    return uplink_send_offer(send, c->id, data, n, items, m->n_files, c, err);
}

static int read_neff(struct outbox_cargo_reader *r, struct spool *s, const struct outbox_cargo_item *item,
                     uint64_t offset, void *buf, size_t n, struct kymo_err *err)
{
    uint64_t size;
    if (r->fd < 0 || memcmp(r->sha256, item->sha256, sizeof r->sha256) != 0) {
        int fd = spool_open_neff(s, item->sha256, &size, err);
        if (fd < 0)
            return fd == -ENOENT ? -EBADMSG : fd;
        (void)kymo_file_close(r->fd);
        r->fd = fd;
        memcpy(r->sha256, item->sha256, sizeof r->sha256);
    }
    int e = kymo_file_pread_all(r->fd, buf, n, offset, "NEFF", err);
    return e == -ENODATA ? -EBADMSG : e;
}

int outbox_cargo_read(struct outbox_cargo_reader *r, struct spool *s, const struct outbox_cargo *c, uint32_t item,
                      uint64_t offset, void *buf, size_t n, struct kymo_err *err)
{
    if (c->items[item].neff)
        return read_neff(r, s, &c->items[item], offset, buf, n, err);
    size_t got;
    int e = spool_read(s, c->seq, c->items[item].file, offset, buf, n, &got, err);
    if (e == 0 && got < n)
        e = kymo_err_set(err, -EBADMSG, "capture %s: file %zu ends early", c->id, c->items[item].file);
    return e;
}

void outbox_cargo_ack(struct outbox_cargo *c, struct spool *s, uint32_t item, uint64_t offset)
{
    struct outbox_cargo_item *i = &c->items[item];
    /* At another collector it may begin from the front again. */
    if (i->neff || offset < i->noted || offset - i->noted < ACK_EVERY)
        return;
    if (spool_ack(s, c->seq, i->file, offset, NULL) == 0) {
        c->bytes -= offset - i->noted < c->bytes ? offset - i->noted : c->bytes;
        i->noted = offset;
    }
}
