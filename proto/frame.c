#include "proto/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <zstd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/le.h"

#define CRC_AT 16

_Static_assert(FRAME_HEADER_SIZE == CRC_AT + 4, "the checksum ends the header");

struct frame_parser {
    struct frame_limits limits;
    struct kymo_buf buf;     /* a frame that did not come in one piece, from its header on */
    size_t need;             /* bytes that buf must hold: the header, then the whole frame */
    uint64_t at;             /* offset in the stream of the frame that comes */
    bool stream, is_through; /* is_through: the buffered frame was given out */
    uint32_t raw_at;         /* while streaming: raw bytes of this frame that were given out */
    struct kymo_err failed;  /* set once refused */
};

static int check_lengths(const struct frame *f, const struct frame_limits *limits, struct kymo_err *err)
{
    if (f->message_len > limits->message)
        return kymo_err_set(err, -EMSGSIZE, "frame: a message of %u bytes, more than %u", f->message_len,
                            limits->message);
    if (f->raw_len > limits->raw || f->plain_len > limits->raw)
        return kymo_err_set(err, -EMSGSIZE, "frame: raw bytes of %u (%u uncompressed), more than %u", f->raw_len,
                            f->plain_len, limits->raw);
    if (f->flags & ~FRAME_ZSTD)
        return kymo_err_set(err, -EINVAL, "frame: unknown flags 0x%02x", f->flags);
    if (!(f->flags & FRAME_ZSTD) && f->plain_len != f->raw_len)
        return kymo_err_set(err, -EINVAL, "frame: %u raw bytes, %u uncompressed, but not compressed", f->raw_len,
                            f->plain_len);
    if ((f->flags & FRAME_ZSTD) && (f->raw_len == 0 || f->plain_len == 0))
        return kymo_err_set(err, -EINVAL, "frame: compressed, but without raw bytes");
    return 0;
}

int frame_header(const struct frame *f, uint8_t ret[static FRAME_HEADER_SIZE], struct kymo_err *err)
{
    const struct frame_limits hard = {FRAME_MESSAGE_MAX, FRAME_RAW_MAX};
    int r = check_lengths(f, &hard, err);
    if (r < 0)
        return r;
    kymo_put_le32(ret, f->message_len + f->raw_len);
    kymo_put_le32(ret + 4, f->message_len);
    kymo_put_le32(ret + 8, f->plain_len);
    kymo_put_le16(ret + 12, f->type);
    ret[14] = f->flags;
    ret[15] = FRAME_VERSION;
    kymo_put_le32(ret + CRC_AT, kymo_crc32c(0, ret, CRC_AT));
    return 0;
}

int frame_append(struct kymo_buf *out, const struct frame *f, struct kymo_err *err)
{
    uint8_t header[FRAME_HEADER_SIZE];
    int r = frame_header(f, header, err);
    if (r < 0)
        return r;
    /* Room for all of it first: half a frame must never stay behind. */
    r = kymo_buf_reserve(out, sizeof header + (size_t)f->message_len + f->raw_len);
    if (r < 0)
        return kymo_err_set(err, r, "frame: no room for %u + %u bytes behind %zu", f->message_len, f->raw_len,
                            out->len);
    if (kymo_buf_append(out, header, sizeof header) < 0 || kymo_buf_append(out, f->message, f->message_len) < 0 ||
        kymo_buf_append(out, f->raw, f->raw_len) < 0)
        return kymo_err_set(err, -EIO, "frame: reserved room is gone");
    return 0;
}

int frame_inflate(const struct frame *f, struct kymo_buf *out, struct kymo_err *err)
{
    if (!(f->flags & FRAME_ZSTD) || f->plain_len > FRAME_RAW_MAX)
        return kymo_err_set(err, -EINVAL, "frame: not compressed, or %u bytes uncompressed", f->plain_len);
    /* ZSTD_decompress takes any number of frames one behind the other; here it is exactly one. */
    size_t one = ZSTD_findFrameCompressedSize(f->raw, f->raw_len);
    if (ZSTD_isError(one) || one != f->raw_len)
        return kymo_err_set(err, -EBADMSG, "frame: raw bytes are not exactly one zstd frame%s%s",
                            ZSTD_isError(one) ? ": " : "", ZSTD_isError(one) ? ZSTD_getErrorName(one) : "");
    int r = kymo_buf_reserve(out, f->plain_len);
    if (r < 0)
        return kymo_err_set(err, r, "frame: no room for %u uncompressed bytes", f->plain_len);
    size_t got = ZSTD_decompress(out->data + out->len, f->plain_len, f->raw, f->raw_len);
    if (ZSTD_isError(got))
        return kymo_err_set(err, -EBADMSG, "frame: zstd: %s", ZSTD_getErrorName(got));
    if (got != f->plain_len)
        return kymo_err_set(err, -EBADMSG, "frame: %zu uncompressed bytes, the header says %u", got, f->plain_len);
    out->len += got;
    return 0;
}

int frame_parser_new(const struct frame_limits *limits, struct frame_parser **ret, struct kymo_err *err)
{
    struct frame_parser *p = KYMO_NEW(struct frame_parser);
    if (!p)
        return kymo_err_set(err, -ENOMEM, "frame: out of memory");
    kymo_buf_init(&p->buf, FRAME_HEADER_SIZE + (size_t)FRAME_MESSAGE_MAX + FRAME_RAW_MAX);
    p->need = FRAME_HEADER_SIZE;
    frame_parser_set_limits(p, limits);
    *ret = p;
    return 0;
}

struct frame_parser *frame_parser_free(struct frame_parser *p)
{
    if (p)
        kymo_buf_done(&p->buf);
    kymo_free(p);
    return NULL;
}

void frame_parser_set_limits(struct frame_parser *p, const struct frame_limits *limits)
{
    p->limits.message = limits->message < FRAME_MESSAGE_MAX ? limits->message : FRAME_MESSAGE_MAX;
    p->limits.raw = limits->raw < FRAME_RAW_MAX ? limits->raw : FRAME_RAW_MAX;
}

void frame_parser_stream(struct frame_parser *p)
{
    p->stream = true;
}

static bool is_streamed(const struct frame_parser *p, const struct frame *f)
{
    return p->stream && f->raw_len > 0 && !(f->flags & FRAME_ZSTD);
}

static int read_header(const struct frame_parser *p, const uint8_t *h, struct frame *ret, struct kymo_err *err)
{
    if (kymo_le32(h + CRC_AT) != kymo_crc32c(0, h, CRC_AT))
        return kymo_err_set(err, -EBADMSG, "frame: wrong checksum of the header");
    if (h[15] != FRAME_VERSION)
        return kymo_err_set(err, -EPROTONOSUPPORT, "frame: layout %u, known is %d", h[15], FRAME_VERSION);
    uint32_t length = kymo_le32(h), message_len = kymo_le32(h + 4);
    if (message_len > length)
        return kymo_err_set(err, -EBADMSG, "frame: a message of %u bytes in a frame of %u", message_len, length);
    *ret = (struct frame){
        .type = kymo_le16(h + 12),
        .flags = h[14],
        .message_len = message_len,
        .raw_len = length - message_len,
        .plain_len = kymo_le32(h + 8),
    };
    return check_lengths(ret, &p->limits, err);
}

static void point_into(struct frame *f, const uint8_t *start)
{
    f->message = start + FRAME_HEADER_SIZE;
    f->raw = f->message + f->message_len;
}

static size_t frame_size(const struct frame *f)
{
    return FRAME_HEADER_SIZE + (size_t)f->message_len + f->raw_len;
}

/* Moves bytes into the buffer until it holds p->need. 1: it does. */
static int fill(struct frame_parser *p, const uint8_t **data, size_t *n, struct kymo_err *err)
{
    size_t want = p->need - p->buf.len;
    size_t take = want < *n ? want : *n;
    int r = kymo_buf_append(&p->buf, *data, take);
    if (r < 0)
        return kymo_err_set(err, r, "frame: no memory for %zu bytes", p->buf.len + take);
    *data += take;
    *n -= take;
    return take == want;
}

/* The next piece of the raw bytes of f, whose header and message are in the buffer. */
static int next_piece(struct frame_parser *p, const uint8_t **data, size_t *n, struct frame *f, struct frame *ret)
{
    uint32_t left = f->raw_len - p->raw_at;
    uint32_t take = left < *n ? left : (uint32_t)*n;
    if (take == 0)
        return 0;
    point_into(f, p->buf.data);
    f->raw = *data;
    f->raw_at = p->raw_at;
    f->raw_len = f->plain_len = take;
    *data += take;
    *n -= take;
    p->raw_at = take == left ? 0 : p->raw_at + take;
    p->is_through = take == left;
    *ret = *f;
    return 1;
}

static int next_buffered(struct frame_parser *p, const uint8_t **data, size_t *n, struct frame *ret,
                         struct kymo_err *err)
{
    int r = fill(p, data, n, err);
    if (r <= 0)
        return r;
    struct frame f;
    r = read_header(p, p->buf.data, &f, err);
    if (r < 0)
        return r;
    p->need = frame_size(&f) - (is_streamed(p, &f) ? f.raw_len : 0);
    r = p->buf.len == p->need ? 1 : fill(p, data, n, err);
    if (r <= 0)
        return r;
    if (is_streamed(p, &f))
        return next_piece(p, data, n, &f, ret);
    point_into(&f, p->buf.data);
    p->is_through = true;
    *ret = f;
    return 1;
}

/* A frame that lies whole in the given bytes is not copied. */
static int next_in_place(struct frame_parser *p, const uint8_t **data, size_t *n, struct frame *ret,
                         struct kymo_err *err)
{
    if (*n < FRAME_HEADER_SIZE)
        return 0;
    struct frame f;
    int r = read_header(p, *data, &f, err);
    if (r < 0)
        return r;
    size_t size = frame_size(&f);
    if (*n < size)
        return 0;
    point_into(&f, *data);
    *data += size;
    *n -= size;
    *ret = f;
    return 1;
}

int frame_parser_next(struct frame_parser *p, const uint8_t **data, size_t *n, struct frame *ret, struct kymo_err *err)
{
    if (p->failed.code)
        return kymo_err_set(err, p->failed.code, "%s", p->failed.text);
    if (p->is_through) {
        /* The frame of the last call has been looked at by now. */
        kymo_buf_reset(&p->buf);
        p->need = FRAME_HEADER_SIZE;
        p->is_through = false;
    }
    int r = p->buf.len > 0 ? 0 : next_in_place(p, data, n, ret, &p->failed);
    if (r == 0 && *n > 0)
        r = next_buffered(p, data, n, ret, &p->failed);
    if (r > 0)
        p->at += ret->raw_at > 0 ? ret->raw_len : frame_size(ret);
    if (r >= 0)
        return r;
    kymo_err_prefix(&p->failed, "byte %llu of the stream", (unsigned long long)p->at);
    return kymo_err_set(err, p->failed.code, "%s", p->failed.text);
}
