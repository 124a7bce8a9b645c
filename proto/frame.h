/*
 * Frames (FRAME.md): header, one protobuf message, raw bytes. Pure functions over bytes and one incremental parser; no
 * I/O. Not thread-safe; one parser per connection.
 */
#ifndef KYMO_PROTO_FRAME_H
#define KYMO_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define FRAME_HEADER_SIZE 20
#define FRAME_VERSION 1
#define FRAME_MESSAGE_MAX (1u << 20)
#define FRAME_RAW_MAX (1u << 20)
#define FRAME_ZSTD 1u         /* flag: raw is one zstd frame */
#define FRAME_MAY_SKIP 0x8000 /* bit of the type */

struct frame {
    uint16_t type;
    uint8_t flags;
    const uint8_t *message;
    uint32_t message_len;
    const uint8_t *raw;
    uint32_t raw_len;   /* as sent */
    uint32_t plain_len; /* uncompressed */
    uint32_t raw_at;    /* of a parser that streams: where this piece of the raw bytes begins; else 0 */
};

/*
 * Writes the header of f, whose lengths are set; its pointers are not looked at, so that callers may fill message and
 * raw in behind. -EMSGSIZE beyond the maxima, -EINVAL for lengths or flags that contradict each other.
 */
int frame_header(const struct frame *f, uint8_t ret[static FRAME_HEADER_SIZE], struct kymo_err *err) KYMO_MUST_CHECK;
/* Appends the whole frame to out. */
int frame_append(struct kymo_buf *out, const struct frame *f, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * The raw bytes uncompressed, appended to out. -EBADMSG when they are not exactly one zstd frame of plain_len bytes.
 * No more memory than plain_len and zstd's own fixed context is taken, whatever the bytes say.
 */
int frame_inflate(const struct frame *f, struct kymo_buf *out, struct kymo_err *err) KYMO_MUST_CHECK;

struct frame_parser;

struct frame_limits {
    uint32_t message; /* at most FRAME_MESSAGE_MAX */
    uint32_t raw;     /* at most FRAME_RAW_MAX */
};

int frame_parser_new(const struct frame_limits *limits, struct frame_parser **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
struct frame_parser *frame_parser_free(struct frame_parser *p); /* NULL is fine; returns NULL */
/* Holds from the next frame on. */
void frame_parser_set_limits(struct frame_parser *p, const struct frame_limits *limits);

/*
 * Uncompressed raw bytes are given out as they come: one frame becomes several, each with the same message, a piece of
 * raw (raw_len, plain_len and raw_at are the piece's) and at least one byte of it. Nothing of them is copied or kept.
 * Before the first frame.
 */
void frame_parser_stream(struct frame_parser *p);

/*
 * Takes bytes from *data (moves it on, lowers *n) until one frame is whole. 1: *ret is a frame, whose pointers hold
 * until the next call and no longer than the bytes that were given; there may be more in *data. 0: all bytes are taken,
 * more are needed. Negative: refused
 * (-EBADMSG broken header, -EMSGSIZE beyond the limits, -EPROTONOSUPPORT another layout, -ENOMEM); the text names the
 * offset in the stream, and every further call refuses likewise.
 */
int frame_parser_next(struct frame_parser *p, const uint8_t **data, size_t *n, struct frame *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
