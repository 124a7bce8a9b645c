#include "driver-iface/sim/sim_spill.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define BUFFER_BYTES (1u << 20)
#define MARK_BYTE 3
#define MARK_LOST_AFTER 0x40

struct ring {
    struct sim_spill *owner;
    uint8_t *buf; /* allocated with the first record */
    size_t len;
    uint64_t written, records, limit;
    int fd;
};

struct sim_spill {
    char *prefix;
    int error;
    struct kymo_err err;
    size_t count;
    struct ring rings[];
};

int sim_spill_new(const char *prefix, const uint64_t *limits, size_t n, struct sim_spill **ret, struct kymo_err *err)
{
    struct sim_spill *s KYMO_CLEANUP(sim_spill_freep) = NULL;
    if (n <= KYMO_RING_PLAN_MAX)
        s = kymo_calloc(1, sizeof *s + n * sizeof s->rings[0]);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu rings", n);
    for (size_t i = 0; i < n; i++)
        s->rings[i] = (struct ring){.owner = s, .limit = limits[i], .fd = -1};
    s->count = n;
    s->prefix = kymo_strdup(prefix);
    if (!s->prefix)
        return kymo_err_set(err, -ENOMEM, "no memory for a file name");
    *ret = KYMO_TAKE(s);
    return 0;
}

struct sim_spill *sim_spill_free(struct sim_spill *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->count; i++) {
        kymo_file_close(s->rings[i].fd);
        kymo_free(s->rings[i].buf);
    }
    kymo_free(s->prefix);
    kymo_free(s);
    return NULL;
}

void sim_spill_freep(struct sim_spill **s)
{
    *s = sim_spill_free(*s);
}

static int open_file(struct ring *r)
{
    struct sim_spill *s = r->owner;
    char *path KYMO_FREE = kymo_asprintf("%s.ring-%zu.tmp", s->prefix, (size_t)(r - s->rings));
    if (!path)
        return kymo_err_set(&s->err, -ENOMEM, "no memory for a file name");
    r->fd = kymo_file_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600, &s->err);
    if (r->fd < 0)
        return r->fd;
    return kymo_file_ops()->unlink(path) < 0 ? kymo_err_set(&s->err, -errno, "%s: cannot be unlinked", path) : 0;
}

static void flush(struct ring *r)
{
    struct sim_spill *s = r->owner;
    if (!s->error && r->fd < 0)
        s->error = open_file(r);
    if (!s->error)
        s->error = kymo_file_pwrite_all(r->fd, r->buf, r->len, r->written, s->prefix, &s->err);
    r->written += r->len;
    r->len = 0;
}

static bool put(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE])
{
    struct sim_spill *s = ctx;
    struct ring *r = &s->rings[ring];
    if (r->records == r->limit)
        return false;
    if (!r->buf) {
        r->buf = kymo_malloc(BUFFER_BYTES);
        if (!r->buf) {
            s->error = kymo_err_set(&s->err, -ENOMEM, "no memory for a ring's buffer");
            return false;
        }
    }
    memcpy(r->buf + r->len, record, KYMO_RECORD_SIZE);
    r->len += KYMO_RECORD_SIZE;
    r->records++;
    if (r->len == BUFFER_BYTES)
        flush(r);
    return true;
}

static bool mark_last(void *ctx, size_t ring)
{
    struct sim_spill *s = ctx;
    struct ring *r = &s->rings[ring];
    if (r->len) {
        r->buf[r->len - KYMO_RECORD_SIZE + MARK_BYTE] |= MARK_LOST_AFTER;
        return true;
    }
    uint64_t at = r->written - KYMO_RECORD_SIZE + MARK_BYTE;
    uint8_t byte;
    if (!s->error)
        s->error = kymo_file_pread_all(r->fd, &byte, 1, at, s->prefix, &s->err);
    if (s->error)
        return false;
    byte |= MARK_LOST_AFTER;
    s->error = kymo_file_pwrite_all(r->fd, &byte, 1, at, s->prefix, &s->err);
    return !s->error;
}

struct sim_ring_sink sim_spill_sink(struct sim_spill *s)
{
    return (struct sim_ring_sink){.put = put, .mark_last = mark_last, .ctx = s};
}

int sim_spill_check(const struct sim_spill *s, struct kymo_err *err)
{
    return s->error ? kymo_err_set(err, s->error, "%s", s->err.text) : 0;
}

uint64_t sim_spill_size(const struct sim_spill *s, size_t ring)
{
    return s->rings[ring].records * KYMO_RECORD_SIZE;
}

void *sim_spill_ring(struct sim_spill *s, size_t ring)
{
    return &s->rings[ring];
}

int sim_spill_read(void *ring, uint64_t off, void *buf, size_t n)
{
    struct ring *r = ring;
    uint8_t *out = buf;
    uint64_t size = r->written + r->len;
    if (off > size || n > size - off)
        return -ENODATA;
    size_t from_file = off < r->written ? (r->written - off < n ? (size_t)(r->written - off) : n) : 0;
    if (from_file) {
        int rc = kymo_file_pread_all(r->fd, out, from_file, off, r->owner->prefix, NULL);
        if (rc < 0)
            return rc;
    }
    if (n > from_file)
        memcpy(out + from_file, r->buf + (off + from_file - r->written), n - from_file);
    return 0;
}
