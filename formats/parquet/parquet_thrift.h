/*
 * Thrift compact protocol, the writing side: what Parquet's headers and footer need. Errors stick in rc, so that a
 * structure is written without checks and rc is looked at once. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_THRIFT_H
#define KYMO_FORMATS_PARQUET_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PARQUET_THRIFT_DEPTH_MAX 8
#define PARQUET_VARINT_MAX 10 /* bytes */

enum parquet_thrift_type {
    PARQUET_THRIFT_TRUE = 1,
    PARQUET_THRIFT_FALSE = 2,
    PARQUET_THRIFT_I32 = 5,
    PARQUET_THRIFT_I64 = 6,
    PARQUET_THRIFT_BINARY = 8,
    PARQUET_THRIFT_LIST = 9,
    PARQUET_THRIFT_STRUCT = 12
};

struct parquet_thrift {
    struct kymo_buf *buf;
    int rc;
    unsigned depth;
    int last[PARQUET_THRIFT_DEPTH_MAX]; /* id of the last field of each open structure */
};

/* Starts an outermost structure at the end of buf, which stays the caller's. */
struct parquet_thrift parquet_thrift_begin(struct kymo_buf *buf);
/* Ends the outermost structure; 0 or the first error (-ENOBUFS, -ENOMEM). */
int parquet_thrift_end(struct parquet_thrift *t) KYMO_MUST_CHECK;

void parquet_thrift_bool(struct parquet_thrift *t, int field, bool v);
void parquet_thrift_i32(struct parquet_thrift *t, int field, int32_t v);
void parquet_thrift_i64(struct parquet_thrift *t, int field, int64_t v);
void parquet_thrift_binary(struct parquet_thrift *t, int field, const void *data, size_t n);
void parquet_thrift_string(struct parquet_thrift *t, int field, const char *s);
void parquet_thrift_struct(struct parquet_thrift *t, int field); /* opened; close it */
void parquet_thrift_close(struct parquet_thrift *t);
/* A finished structure made elsewhere, stop byte included. */
void parquet_thrift_ready(struct parquet_thrift *t, int field, const void *data, size_t n);
/* A list field of n elements; the elements follow with the functions below. */
void parquet_thrift_list(struct parquet_thrift *t, int field, enum parquet_thrift_type type, size_t n);
void parquet_thrift_list_bool(struct parquet_thrift *t, bool v);
void parquet_thrift_list_int(struct parquet_thrift *t, int64_t v);
void parquet_thrift_list_binary(struct parquet_thrift *t, const void *data, size_t n);
void parquet_thrift_list_struct(struct parquet_thrift *t); /* opened; close it */

/* Bytes written to out. */
size_t parquet_varint(uint64_t v, uint8_t out[PARQUET_VARINT_MAX]);
uint64_t parquet_zigzag(int64_t v);

#endif
