/* The uplink's side: pending captures, their bytes, acknowledgements, losses. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool_internal.h"

const struct spool_entry *spool_next(const struct spool *s, uint64_t after)
{
    size_t low = 0, high = s->state.nentries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->state.entries[middle]->seq > after)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < s->state.nentries; low++)
        if (s->state.entries[low]->state == SPOOL_PENDING)
            return s->state.entries[low];
    return NULL;
}

int spool_find_id(const struct spool *s, const char *id, const struct spool_entry **ret)
{
    const struct spool_entry *e = spool_state_find_id(&s->state, id);
    if (!e)
        return -ENOENT;
    if (e->state != SPOOL_PENDING)
        return -EALREADY;
    *ret = e;
    return 0;
}

const struct spool_entry *spool_find(const struct spool *s, uint64_t seq)
{
    const struct spool_entry *e = spool_state_find(&s->state, seq);
    return e && e->state == SPOOL_PENDING ? e : NULL;
}

static int find_file(const struct spool *s, uint64_t seq, size_t file, const struct spool_entry **ret,
                     struct kymo_err *err)
{
    const struct spool_entry *e = spool_find(s, seq);
    if (!e)
        return kymo_err_set(err, -ENOENT, "%s: capture %llu is not pending", s->dir, (unsigned long long)seq);
    if (file >= e->nfiles)
        return kymo_err_set(err, -EINVAL, "capture %s: has %zu files, not %zu", e->id, e->nfiles, file + 1);
    *ret = e;
    return 0;
}

static int open_for_reading(struct spool *s, const struct spool_entry *e, size_t file, struct kymo_err *err)
{
    uint64_t size;
    if (s->read_fd >= 0 && s->read_seq == e->seq && s->read_file == file)
        return 0;
    char *path KYMO_FREE = kymo_asprintf("%s/%s/%s", s->captures, e->id, e->files[file].name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
    if (fd == -ENOENT)
        return kymo_err_set(err, -EBADMSG, "%s: is gone", path);
    int r = fd < 0 ? fd : kymo_file_size(fd, &size, path, err);
    if (r < 0)
        return r;
    if (size != e->files[file].size)
        return kymo_err_set(err, -EBADMSG, "%s: has %llu bytes, %llu were published", path, (unsigned long long)size,
                            (unsigned long long)e->files[file].size);
    (void)kymo_file_close(s->read_fd);
    s->read_fd = fd;
    fd = -1;
    s->read_seq = e->seq;
    s->read_file = file;
    return 0;
}

int spool_read(struct spool *s, uint64_t seq, size_t file, uint64_t offset, void *buf, size_t n, size_t *ret_n,
               struct kymo_err *err)
{
    const struct spool_entry *e;
    int r = find_file(s, seq, file, &e, err);
    if (r < 0)
        return r;
    const struct spool_file *f = &e->files[file];
    if (offset > f->size)
        return kymo_err_set(err, -EINVAL, "capture %s: %s: offset %llu is beyond its end", e->id, f->name,
                            (unsigned long long)offset);
    r = open_for_reading(s, e, file, err);
    if (r < 0)
        return r;
    n = f->size - offset < n ? (size_t)(f->size - offset) : n;
    r = kymo_file_pread_all(s->read_fd, buf, n, offset, f->name, err);
    if (r == 0)
        *ret_n = n;
    return r == -ENODATA ? -EBADMSG : r;
}

int spool_ack(struct spool *s, uint64_t seq, size_t file, uint64_t offset, struct kymo_err *err)
{
    const struct spool_entry *e;
    int r = find_file(s, seq, file, &e, err);
    if (r < 0)
        return r;
    const struct spool_file *f = &e->files[file];
    if (offset < f->acked || offset > f->size)
        return kymo_err_set(err, -EINVAL, "capture %s: %s: acknowledged to %llu of %llu, not to %llu", e->id, f->name,
                            (unsigned long long)f->acked, (unsigned long long)f->size, (unsigned long long)offset);
    if (offset == f->acked)
        return 0;
    return spool_append(s, SPOOL_ACKED, spool_encode_acked(seq, (uint32_t)file, offset, s->payload), err);
}

int spool_stored(struct spool *s, uint64_t seq, struct kymo_err *err)
{
    const struct spool_entry *e;
    int r = find_file(s, seq, 0, &e, err);
    if (r == 0)
        r = spool_append(s, SPOOL_DELIVERED, spool_encode_delivered(seq, s->payload), err);
    if (r == 0)
        spool_sweep(s);
    return r;
}

int spool_done(struct spool *s, uint64_t seq, struct kymo_err *err)
{
    const struct spool_entry *e;
    int r = find_file(s, seq, 0, &e, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < e->nfiles; i++)
        if (e->files[i].acked != e->files[i].size)
            return kymo_err_set(err, -EINVAL, "capture %s: %s: acknowledged to %llu of %llu only", e->id,
                                e->files[i].name, (unsigned long long)e->files[i].acked,
                                (unsigned long long)e->files[i].size);
    return spool_stored(s, seq, err);
}

int spool_lose(struct spool *s, uint64_t seq, uint32_t cause, struct kymo_err *err)
{
    const struct spool_entry *e;
    int r = find_file(s, seq, 0, &e, err);
    if (r < 0)
        return r;
    if (cause < 1 || cause > SPOOL_CAUSES_N)
        return kymo_err_set(err, -EINVAL, "%u is no cause of a loss", cause);
    r = spool_append_lost(s, e, spool_entry_bytes(e), cause, true, err);
    if (r == 0)
        spool_sweep(s);
    return r;
}

size_t spool_losses(const struct spool *s, struct spool_loss *rows, size_t max)
{
    size_t n = s->state.nrows < max ? s->state.nrows : max;
    if (n > 0)
        memcpy(rows, s->state.rows, n * sizeof *rows);
    return n;
}

int spool_loss_reported(struct spool *s, const struct spool_loss *row, struct kymo_err *err)
{
    return spool_append(s, SPOOL_REPORTED, spool_encode_reported(row, s->payload), err);
}
