/*
 * The values that one column has seen: each gets a number, from 0 on, that it keeps. Scalars are 64 bits (an int64, or
 * the bits of a double), byte strings are copied. Values can be compared by number; numbers below a watermark compare
 * by a stored rank. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_DICT_H
#define KYMO_FORMATS_PARQUET_PARQUET_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/err.h"

/* kymo_grow on a typed pointer. */
#define PARQUET_GROW(ptr, cap, need, max)                                                                              \
    __extension__({                                                                                                    \
        void *grow_p_ = (ptr);                                                                                         \
        int grow_rc_ = kymo_grow(&grow_p_, &(cap), (need), (max), sizeof *(ptr));                                      \
        (ptr) = grow_p_;                                                                                               \
        grow_rc_;                                                                                                      \
    })

#define PARQUET_DICT_MAX (1u << 28)              /* values */
#define PARQUET_DICT_BYTES_MAX ((size_t)1 << 32) /* of strings */
#define PARQUET_DICT_NO_RANK UINT32_MAX          /* NaN */

enum parquet_order { PARQUET_ORDER_INT, PARQUET_ORDER_REAL, PARQUET_ORDER_BYTES };

struct parquet_dict {
    enum parquet_order order;
    size_t count, cap, len_cap, hash_cap;
    uint64_t *values; /* scalar, or offset in bytes */
    uint32_t *lens;   /* byte strings only */
    uint32_t *hashes;
    uint8_t *bytes;
    size_t bytes_len, bytes_cap;
    uint32_t *slots; /* number + 1, or 0 */
    size_t slot_count;
    size_t ranked;     /* numbers below it have a rank */
    size_t seen;       /* values when ranks were last asked for */
    uint32_t *rank;    /* by number */
    uint32_t *by_rank; /* number of the value of that rank */
};

void parquet_dict_init(struct parquet_dict *d, enum parquet_order order);
void parquet_dict_done(struct parquet_dict *d);

/* The value's number through *ret; -ENOBUFS beyond the limits, -ENOMEM. */
int parquet_dict_scalar(struct parquet_dict *d, uint64_t bits, uint32_t *ret) KYMO_MUST_CHECK;
int parquet_dict_bytes(struct parquet_dict *d, const void *data, size_t len, uint32_t *ret) KYMO_MUST_CHECK;

static inline const uint8_t *parquet_dict_data(const struct parquet_dict *d, uint32_t id)
{
    return d->bytes + d->values[id];
}

/* Below 0, 0, above 0. Neither may be NaN. */
int parquet_dict_compare(const struct parquet_dict *d, uint32_t a, uint32_t b);
int parquet_order_compare(enum parquet_order order, uint64_t a, uint64_t b); /* scalars */
bool parquet_order_is_nan(enum parquet_order order, uint64_t v);
/* Ranks all values when it pays: many have come since the last time, or none since the last call. */
int parquet_dict_rank(struct parquet_dict *d) KYMO_MUST_CHECK;

#endif
