/*
 * Walks a file that is one protobuf message, field by field, holding one field in memory. Not thread-safe.
 */
#ifndef KYMO_FORMATS_SYSTRACE_PB_STREAM_H
#define KYMO_FORMATS_SYSTRACE_PB_STREAM_H

#include "base/err.h"
#include "formats/ntff/pb_wire.h"

#define PB_STREAM_FIELD_MAX (1u << 20) /* bytes of one field with its tag */

struct pb_stream;

int pb_stream_open(const char *path, struct pb_stream **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct pb_stream *pb_stream_free(struct pb_stream *s);
void pb_stream_freep(struct pb_stream **s);
void pb_stream_rewind(struct pb_stream *s);
uint64_t pb_stream_size(const struct pb_stream *s);

struct pb_stream_field {
    struct pb_field field;
    const uint8_t *bytes; /* with its tag */
    size_t len;
    uint64_t offset; /* of the tag, in the file */
};

/* 1: *ret is the next field, whose bytes live until the next call. 0: the end. -EPROTO names file, offset and cause;
 * the place stays. */
int pb_stream_next(struct pb_stream *s, struct pb_stream_field *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
