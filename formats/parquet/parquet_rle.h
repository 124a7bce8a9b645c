/*
 * Parquet's two integer packings: the hybrid of runs and bit-packed groups (levels, dictionary indices) and
 * DELTA_BINARY_PACKED. Bytes are appended to a buffer, which must hold them or grow. Pure functions otherwise.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_RLE_H
#define KYMO_FORMATS_PARQUET_PARQUET_RLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Values are read up to the next multiple of this many: arrays given must have that room (the content does not matter).
 */
#define PARQUET_RLE_PAD 8

unsigned parquet_rle_width(uint32_t max); /* bits that hold 0..max */

/* v[0..n) of width bits each (1 to 32). v is readable, and writable, up to the next multiple of PARQUET_RLE_PAD. */
int parquet_rle_append(struct kymo_buf *b, uint32_t *v, size_t n, unsigned width) KYMO_MUST_CHECK;
/* As parquet_rle_append, without looking for runs. */
int parquet_rle_append_packed(struct kymo_buf *b, uint32_t *v, size_t n, unsigned width) KYMO_MUST_CHECK;
/* n times the same value. */
int parquet_rle_append_run(struct kymo_buf *b, uint32_t v, size_t n, unsigned width) KYMO_MUST_CHECK;

/* One bit per byte of v that is not zero, least significant first, into (n + 7) / 8 bytes. */
void parquet_pack_bools(const uint8_t *v, size_t n, uint8_t *out);

/* DELTA_BINARY_PACKED with blocks of 128 in miniblocks of 32. n may be 0. */
int parquet_delta_append64(struct kymo_buf *b, const int64_t *v, size_t n) KYMO_MUST_CHECK;
int parquet_delta_append32(struct kymo_buf *b, const int32_t *v, size_t n) KYMO_MUST_CHECK;

#endif
