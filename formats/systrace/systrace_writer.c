#include "formats/systrace/systrace_writer.h"

#include <errno.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "formats/systrace/pb_stream.h"

#define BUFFER_BYTES (2u * PB_STREAM_FIELD_MAX)
#define FLUSH_BYTES (256u << 10)
#define TAG_BYTES_MAX 10 /* tag and length */
#define EVENTS 1000u
#define CPU 1000u
#define MEMORY 1001u

struct systrace_writer {
    char *path, *temporary;
    int fd;
    uint64_t written;
    struct kymo_buf buf;
};

struct systrace_writer *systrace_writer_discard(struct systrace_writer *w)
{
    if (!w)
        return NULL;
    if (w->fd >= 0)
        (void)kymo_file_ops()->unlink(w->temporary);
    w->fd = kymo_file_close(w->fd);
    kymo_buf_done(&w->buf);
    kymo_free(w->temporary);
    kymo_free(w->path);
    kymo_free(w);
    return NULL;
}

int systrace_writer_open(const char *path, struct systrace_writer **ret, struct kymo_err *err)
{
    struct systrace_writer *w = KYMO_NEW(struct systrace_writer);
    if (!w)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to write it", path);
    w->fd = -1;
    kymo_buf_init(&w->buf, BUFFER_BYTES);
    w->path = kymo_strdup(path);
    w->temporary = kymo_asprintf("%s.tmp", path);
    int r = 0;
    if (!w->path || !w->temporary)
        r = kymo_err_set(err, -ENOMEM, "%s: no memory to write it", path);
    if (r == 0)
        r = kymo_file_check_target(path, NULL, 0, err);
    if (r == 0)
        w->fd = r = kymo_file_open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    if (r < 0) {
        (void)systrace_writer_discard(w);
        return r;
    }
    *ret = w;
    return 0;
}

static int flush(struct systrace_writer *w, struct kymo_err *err)
{
    int r = kymo_file_pwrite_all(w->fd, w->buf.data, w->buf.len, w->written, w->temporary, err);
    if (r < 0)
        return r;
    w->written += w->buf.len;
    kymo_buf_reset(&w->buf);
    return 0;
}

static size_t put_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v > 0x7f; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

/* number 0: the message's fields are the root's. */
static int put(struct systrace_writer *w, uint32_t number, const ProtobufCMessage *m, struct kymo_err *err)
{
    size_t n = protobuf_c_message_get_packed_size(m), head = 0;
    if (n > PB_STREAM_FIELD_MAX - TAG_BYTES_MAX)
        return kymo_err_set(err, -EFBIG, "%s: a message of %zu bytes, more than %u", w->path, n, PB_STREAM_FIELD_MAX);
    int r = w->buf.len > FLUSH_BYTES ? flush(w, err) : 0;
    if (r < 0)
        return r;
    if (kymo_buf_reserve(&w->buf, n + TAG_BYTES_MAX) < 0)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a message of %zu bytes", w->path, n);
    uint8_t *at = w->buf.data + w->buf.len;
    if (number) {
        head = put_varint(at, (uint64_t)number << 3 | PB_LEN);
        head += put_varint(at + head, n);
    }
    (void)protobuf_c_message_pack(m, at + head);
    w->buf.len += head + n;
    return 0;
}

int systrace_writer_info(struct systrace_writer *w, const Ntff__NtraceInfo *info, struct kymo_err *err)
{
    return put(w, 0, &info->base, err);
}

int systrace_writer_stats(struct systrace_writer *w, const Ntff__HostStats *stats, struct kymo_err *err)
{
    return put(w, 0, &stats->base, err);
}

int systrace_writer_event(struct systrace_writer *w, const Ntff__NtraceEvent *event, struct kymo_err *err)
{
    return put(w, EVENTS, &event->base, err);
}

int systrace_writer_cpu(struct systrace_writer *w, const Ntff__CpuUtil *cpu, struct kymo_err *err)
{
    return put(w, CPU, &cpu->base, err);
}

int systrace_writer_memory(struct systrace_writer *w, const Ntff__HostMemUsage *memory, struct kymo_err *err)
{
    return put(w, MEMORY, &memory->base, err);
}

uint64_t systrace_writer_bytes(const struct systrace_writer *w)
{
    return w->written + w->buf.len;
}

int systrace_writer_finish(struct systrace_writer *w, struct kymo_err *err)
{
    int r = flush(w, err);
    if (r == 0)
        r = kymo_file_sync(w->fd, w->temporary, err);
    if (r == 0)
        r = kymo_file_rename(w->temporary, w->path, err);
    if (r == 0)
        w->fd = kymo_file_close(w->fd); /* nothing to be removed */
    if (r == 0)
        r = kymo_file_sync_parent(w->path, err);
    (void)systrace_writer_discard(w);
    return r;
}
