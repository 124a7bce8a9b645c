#include "daemon/spool/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/le.h"

#define SEGMENT_MAGIC "KYMOSPOL"
#define SEGMENT_VERSION 1
#define RECORD_MAGIC 0x314a534bu /* "KSJ1" */
#define CRC_AT 28
#define WINDOW (64u << 10)
#define RESYNC_MAX (1u << 20)

uint64_t journal_segment_number(const char *name)
{
    char *end;
    if (strlen(name) != 20 || strspn(name, "0123456789abcdef") != 16)
        return 0;
    uint64_t number = strtoull(name, &end, 16);
    return strcmp(end, ".seg") == 0 ? number : 0;
}

void journal_segment_name(uint64_t segment, const char *suffix, char ret[JOURNAL_NAME_SIZE])
{
    (void)snprintf(ret, JOURNAL_NAME_SIZE, "%016llx%.7s", (unsigned long long)segment, suffix);
}

static size_t padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

static size_t encode(uint8_t *out, uint64_t id, uint16_t type, const uint8_t *payload, size_t len, uint64_t time_ns)
{
    size_t total = JOURNAL_RECORD_HEADER_SIZE + padded(len);
    memset(out, 0, JOURNAL_RECORD_HEADER_SIZE);
    kymo_put_le32(out, RECORD_MAGIC);
    kymo_put_le32(out + 4, (uint32_t)len);
    kymo_put_le64(out + 8, id);
    kymo_put_le64(out + 16, time_ns);
    kymo_put_le16(out + 24, type);
    memcpy(out + JOURNAL_RECORD_HEADER_SIZE, payload, len);
    memset(out + JOURNAL_RECORD_HEADER_SIZE + len, 0, total - JOURNAL_RECORD_HEADER_SIZE - len);
    uint32_t crc = kymo_crc32c(kymo_crc32c(0, out, CRC_AT), payload, len);
    kymo_put_le32(out + CRC_AT, crc);
    return total;
}

/* Makes n bytes at off readable; *ret_have is less at the end of the file. */
static const uint8_t *look(struct journal_cursor *c, uint64_t off, size_t n, size_t *ret_have, struct kymo_err *err)
{
    if (off < c->window_at || off + n > c->window_at + c->window_len) {
        uint64_t left = c->size - off;
        size_t want = left < WINDOW ? (size_t)left : WINDOW;
        c->window_len = 0;
        if (kymo_file_pread_all(c->fd, c->window, want, off, c->path, err) < 0)
            return NULL;
        c->window_at = off;
        c->window_len = want;
    }
    size_t have = c->window_len - (size_t)(off - c->window_at);
    *ret_have = have < n ? have : n;
    return c->window + (off - c->window_at);
}

/* 1: a record is at off. 0: none, *cause says why. */
static int parse_at(struct journal_cursor *c, uint64_t off, struct journal_record *rec, const char **cause,
                    struct kymo_err *err)
{
    size_t have;
    const uint8_t *p = look(c, off, JOURNAL_RECORD_HEADER_SIZE, &have, err);
    if (!p)
        return err && err->code ? err->code : -EIO;
    *cause = "a record header is cut off";
    if (have < JOURNAL_RECORD_HEADER_SIZE)
        return 0;
    *cause = "no record begins here";
    uint32_t len = kymo_le32(p + 4);
    if (kymo_le32(p) != RECORD_MAGIC || kymo_le16(p + 26) != 0)
        return 0;
    *cause = "a record's length is beyond the maximum";
    if (len > JOURNAL_PAYLOAD_MAX)
        return 0;
    *cause = "a record is cut off";
    size_t total = JOURNAL_RECORD_HEADER_SIZE + padded(len);
    if (total > c->size - off)
        return 0;
    p = look(c, off, total, &have, err);
    if (!p)
        return err && err->code ? err->code : -EIO;
    *cause = "a record's checksum does not match";
    uint32_t crc = kymo_crc32c(kymo_crc32c(0, p, CRC_AT), p + JOURNAL_RECORD_HEADER_SIZE, len);
    if (crc != kymo_le32(p + CRC_AT))
        return 0;
    *rec = (struct journal_record){.id = kymo_le64(p + 8),
                                   .time_ns = kymo_le64(p + 16),
                                   .type = kymo_le16(p + 24),
                                   .len = len,
                                   .payload = p + JOURNAL_RECORD_HEADER_SIZE};
    *cause = "a record's id is out of order";
    return rec->id > c->last_id;
}

static int resync(struct journal_cursor *c, const char *cause, struct journal_damage *damage, struct kymo_err *err)
{
    struct journal_record rec = {0};
    const char *ignored;
    uint64_t from = c->at;
    uint64_t stop = c->size - from < RESYNC_MAX ? c->size : from + RESYNC_MAX;
    *damage = (struct journal_damage){.offset = from, .bytes = c->size - from, .cause = cause, .tail = true};
    c->at = c->size;
    for (uint64_t off = from + 8; off < stop; off += 8) {
        int r = parse_at(c, off, &rec, &ignored, err);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        damage->bytes = off - from;
        damage->tail = false;
        c->at = off;
        c->last_id = rec.id - 1;
        break;
    }
    return JOURNAL_DAMAGE;
}

int journal_cursor_next(struct journal_cursor *c, struct journal_record *rec, struct journal_damage *damage,
                        struct kymo_err *err)
{
    struct kymo_err own = {0};
    const char *cause;
    if (c->at >= c->size)
        return JOURNAL_END;
    int r = parse_at(c, c->at, rec, &cause, &own);
    if (r == 1 && rec->id != c->last_id + 1) {
        cause = "a record's id is out of order";
        r = 0;
    }
    if (r == 0)
        r = resync(c, cause, damage, &own);
    else if (r == 1) {
        c->at += JOURNAL_RECORD_HEADER_SIZE + padded(rec->len);
        c->last_id = rec->id;
    }
    if (r < 0)
        return kymo_err_set(err, r, "%s", own.text);
    return r;
}

static int read_header(struct journal_cursor *c, struct kymo_err *err)
{
    uint8_t h[JOURNAL_HEADER_SIZE];
    if (c->size < sizeof h || c->size > JOURNAL_SEGMENT_MAX)
        return kymo_err_set(err, -EBADMSG, "%s: %llu bytes cannot be a journal segment", c->path,
                            (unsigned long long)c->size);
    int r = kymo_file_pread_all(c->fd, h, sizeof h, 0, c->path, err);
    if (r < 0)
        return r;
    if (memcmp(h, SEGMENT_MAGIC, 8) != 0 || kymo_crc32c(0, h, 36) != kymo_le32(h + 36))
        return kymo_err_set(err, -EBADMSG, "%s: offset 0: the segment's header is damaged", c->path);
    if (kymo_le32(h + 8) != SEGMENT_VERSION)
        return kymo_err_set(err, -EPROTO, "%s: offset 8: version %u, this program knows %d", c->path, kymo_le32(h + 8),
                            SEGMENT_VERSION);
    c->segment = kymo_le64(h + 16);
    c->first_id = kymo_le64(h + 24);
    if (kymo_le32(h + 12) != JOURNAL_HEADER_SIZE || c->first_id == 0 || c->segment == 0)
        return kymo_err_set(err, -EBADMSG, "%s: offset 12: the segment's header makes no sense", c->path);
    c->last_id = c->first_id - 1;
    c->at = JOURNAL_HEADER_SIZE;
    return 0;
}

int journal_cursor_open(struct journal_cursor *c, const char *path, struct kymo_err *err)
{
    *c = (struct journal_cursor){.fd = -1};
    c->path = kymo_strdup(path);
    c->window = kymo_malloc(WINDOW);
    int r = c->path && c->window ? 0 : kymo_err_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = c->fd = kymo_file_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
    if (r >= 0)
        r = kymo_file_size(c->fd, &c->size, path, err);
    if (r >= 0)
        r = read_header(c, err);
    if (r < 0)
        journal_cursor_done(c);
    return r;
}

void journal_cursor_done(struct journal_cursor *c)
{
    c->fd = kymo_file_close(c->fd);
    kymo_free(c->path);
    kymo_free(c->window);
    c->path = NULL;
    c->window = NULL;
}

int journal_init(struct journal *j, const char *dir, struct kymo_err *err)
{
    *j = (struct journal){.fd = -1, .next_id = 1};
    j->dir = kymo_strdup(dir);
    j->buf = kymo_malloc(WINDOW);
    if (j->dir && j->buf)
        return 0;
    journal_done(j);
    return kymo_err_set(err, -ENOMEM, "out of memory");
}

void journal_done(struct journal *j)
{
    j->fd = kymo_file_close(j->fd);
    kymo_free(j->dir);
    kymo_free(j->path);
    kymo_free(j->buf);
    *j = (struct journal){.fd = -1};
}

int journal_append(struct journal *j, uint16_t type, const uint8_t *payload, size_t len, uint64_t time_ns,
                   struct kymo_err *err)
{
    if (j->fd < 0 || j->suspect)
        return kymo_err_set(err, -EIO, "%s: no segment to append to", j->dir);
    if (len > JOURNAL_PAYLOAD_MAX)
        return kymo_err_set(err, -EMSGSIZE, "%s: a record of %zu bytes", j->dir, len);
    size_t n = encode(j->buf, j->next_id, type, payload, len, time_ns);
    int r = kymo_file_pwrite_all(j->fd, j->buf, n, j->at, j->path, err);
    if (r < 0) {
        /* What a torn write left must not be taken for records behind a shorter one that goes here next. */
        if (kymo_file_ops()->ftruncate(j->fd, (off_t)j->at) < 0) {
            j->suspect = true;
            j->next_id++;
        }
        return r;
    }
    r = kymo_file_sync(j->fd, j->path, err);
    j->next_id++;
    if (r < 0) {
        j->failed_syncs++;
        j->suspect = true;
        return r;
    }
    j->at += n;
    return 0;
}

int journal_begin(struct journal *j, uint64_t segment, struct journal_segment *n, struct kymo_err *err)
{
    char name[JOURNAL_NAME_SIZE];
    uint8_t h[JOURNAL_HEADER_SIZE] = SEGMENT_MAGIC;
    *n = (struct journal_segment){.fd = -1, .segment = segment, .next_id = j->next_id};
    journal_segment_name(segment, ".seg", name);
    n->path = kymo_asprintf("%s/%s", j->dir, name);
    n->tmp = n->path ? kymo_asprintf("%s.tmp", n->path) : NULL;
    if (!n->tmp) {
        journal_abort(j, n);
        return kymo_err_set(err, -ENOMEM, "out of memory");
    }
    n->fd = kymo_file_open(n->tmp, O_RDWR | O_CREAT | O_TRUNC, 0600, err);
    if (n->fd < 0) {
        int r = n->fd;
        journal_abort(j, n);
        return r;
    }
    kymo_put_le32(h + 8, SEGMENT_VERSION);
    kymo_put_le32(h + 12, JOURNAL_HEADER_SIZE);
    kymo_put_le64(h + 16, segment);
    kymo_put_le64(h + 24, n->next_id);
    kymo_put_le32(h + 36, kymo_crc32c(0, h, 36));
    memcpy(j->buf, h, sizeof h);
    j->buf_len = sizeof h;
    return 0;
}

static int flush(struct journal *j, struct journal_segment *n, struct kymo_err *err)
{
    int r = kymo_file_pwrite_all(n->fd, j->buf, j->buf_len, n->at, n->tmp, err);
    n->at += j->buf_len;
    j->buf_len = 0;
    return r;
}

int journal_put(struct journal *j, struct journal_segment *n, uint16_t type, const uint8_t *payload, size_t len,
                uint64_t time_ns, struct kymo_err *err)
{
    if (len > JOURNAL_PAYLOAD_MAX)
        return kymo_err_set(err, -EMSGSIZE, "%s: a record of %zu bytes", j->dir, len);
    if (j->buf_len + JOURNAL_RECORD_MAX > WINDOW) {
        int r = flush(j, n, err);
        if (r < 0)
            return r;
    }
    j->buf_len += encode(j->buf + j->buf_len, n->next_id++, type, payload, len, time_ns);
    return 0;
}

int journal_commit(struct journal *j, struct journal_segment *n, struct kymo_err *err)
{
    int r = flush(j, n, err);
    if (r == 0) {
        r = kymo_file_sync(n->fd, n->tmp, err);
        j->failed_syncs += r < 0;
    }
    if (r < 0)
        return r;
    /*
     * From here on the new name may survive a crash even when a step fails: then its state would be taken for the
     * newest. So nothing more goes to the old segment, and what comes next has a higher number.
     */
    j->next_id = n->next_id;
    j->segment = n->segment;
    j->suspect = true;
    r = kymo_file_rename(n->tmp, n->path, err);
    if (r < 0)
        return r;
    r = kymo_file_sync_dir(j->dir, err);
    if (r < 0) {
        j->failed_syncs++;
        return r;
    }
    (void)kymo_file_close(j->fd);
    kymo_free(j->path);
    j->fd = n->fd;
    j->path = KYMO_TAKE(n->path);
    j->at = n->at;
    j->suspect = false;
    n->fd = -1;
    kymo_free(KYMO_TAKE(n->tmp));
    return 0;
}

void journal_abort(struct journal *j, struct journal_segment *n)
{
    j->buf_len = 0;
    if (n->fd >= 0)
        (void)kymo_file_ops()->unlink(n->tmp);
    n->fd = kymo_file_close(n->fd);
    kymo_free(n->tmp);
    kymo_free(n->path);
    *n = (struct journal_segment){.fd = -1};
}
