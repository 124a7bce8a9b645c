/* How Parquet packs whole numbers, the reading side. Sources end with TABLE_UNPACK_SLACK bytes that may be read. Pure.
 */
#ifndef KYMO_FORMATS_PARQUET_READ_TABLE_UNPACK_H
#define KYMO_FORMATS_PARQUET_READ_TABLE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_UNPACK_SLACK 16

/* Runs and bit-packed groups of a width of at most 32: n numbers. -EBADMSG: they are not there. */
int table_unpack_hybrid(const uint8_t *at, const uint8_t *end, unsigned width, uint32_t *ret, size_t n);
/* DELTA_BINARY_PACKED: n numbers, as many as it says. narrow: of 32 bits, in which differences wrap. */
int table_unpack_delta(const uint8_t *at, const uint8_t *end, int narrow, int64_t *ret, size_t n);

#endif
