#include "formats/systrace/pb_stream.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define WINDOW_BYTES (256u << 10)

struct pb_stream {
    int fd;
    char *path;
    uint64_t size, base; /* of the file; where the window begins */
    uint8_t *window;
    size_t cap, len, pos;
};

int pb_stream_open(const char *path, struct pb_stream **ret, struct kymo_err *err)
{
    struct pb_stream *s KYMO_CLEANUP(pb_stream_freep) = KYMO_NEW(struct pb_stream);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to read it", path);
    s->fd = kymo_file_open_regular(path, &s->size, err);
    if (s->fd < 0)
        return s->fd;
    s->cap = WINDOW_BYTES;
    s->window = kymo_malloc(s->cap);
    s->path = kymo_strdup(path);
    if (!s->window || !s->path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to read it", path);
    *ret = KYMO_TAKE(s);
    return 0;
}

struct pb_stream *pb_stream_free(struct pb_stream *s)
{
    if (!s)
        return NULL;
    kymo_file_close(s->fd);
    kymo_free(s->window);
    kymo_free(s->path);
    kymo_free(s);
    return NULL;
}

void pb_stream_freep(struct pb_stream **s)
{
    *s = pb_stream_free(*s);
}

void pb_stream_rewind(struct pb_stream *s)
{
    s->base = 0;
    s->len = s->pos = 0;
}

uint64_t pb_stream_size(const struct pb_stream *s)
{
    return s->size;
}

/* Room and bytes behind what is left in the window, as far as the file goes. */
static int fill(struct pb_stream *s, struct kymo_err *err)
{
    if (s->pos) {
        memmove(s->window, s->window + s->pos, s->len - s->pos);
        s->base += s->pos;
        s->len -= s->pos;
        s->pos = 0;
    }
    if (s->len == s->cap) {
        uint8_t *more = kymo_realloc_array(s->window, PB_STREAM_FIELD_MAX, 1);
        if (!more)
            return kymo_err_set(err, -ENOMEM, "%s: no memory for a field of %u bytes", s->path, PB_STREAM_FIELD_MAX);
        s->window = more;
        s->cap = PB_STREAM_FIELD_MAX;
    }
    uint64_t left = s->size - s->base - s->len;
    size_t n = left < s->cap - s->len ? (size_t)left : s->cap - s->len;
    int r = kymo_file_pread_all(s->fd, s->window + s->len, n, s->base + s->len, s->path, err);
    if (r == 0)
        s->len += n;
    return r;
}

static bool is_all(const struct pb_stream *s)
{
    return s->base + s->len == s->size;
}

/* A field that seems broken may only be cut off by the window. */
static int next_field(struct pb_stream *s, struct pb_field *f, size_t *used, const char **cause, struct kymo_err *err)
{
    for (;;) {
        struct pb_cursor c = {.data = s->window + s->pos, .size = s->len - s->pos};
        int r = pb_next(&c, f, cause);
        if (r > 0) {
            *used = c.pos;
            return 1;
        }
        if (is_all(s))
            return r;
        if (s->len - s->pos == PB_STREAM_FIELD_MAX) {
            *cause = "a field is broken, or longer than is allowed";
            return -EPROTO;
        }
        r = fill(s, err);
        if (r < 0) {
            *cause = NULL;
            return r;
        }
    }
}

int pb_stream_next(struct pb_stream *s, struct pb_stream_field *ret, struct kymo_err *err)
{
    const char *cause = NULL;
    struct pb_stream_field f = {0};
    int r = next_field(s, &f.field, &f.len, &cause, err);
    if (r < 0 && cause)
        return kymo_err_set(err, r, "%s: offset %llu: %s", s->path, (unsigned long long)(s->base + s->pos), cause);
    if (r <= 0)
        return r;
    f.bytes = s->window + s->pos;
    f.offset = s->base + s->pos;
    s->pos += f.len;
    *ret = f;
    return 1;
}
