/*
 * The body of a page from a split: by distinct id of a page's index, the number in the row group's dictionary or
 * PARQUET_NULL. One pass over the rows gathers numbers and null bits; both are packed while they are in the first-level
 * cache.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_SPLIT_H
#define KYMO_FORMATS_PARQUET_PARQUET_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "formats/parquet/parquet_index.h"

/* Levels (when the column has them), width, and numbers of x's rows, of which nulls are null, behind what b has. */
int parquet_split_append(struct kymo_buf *b, const struct parquet_index *x, const uint32_t *split, bool levels,
                         size_t nulls) KYMO_MUST_CHECK;

/*
 * The same for lists of at most one element: level is the definition level by distinct id, split the element's number
 * where the list has one.
 */
int parquet_split_append_lists(struct kymo_buf *b, const struct parquet_index *x, const uint32_t *split,
                               const uint8_t *level, size_t elements) KYMO_MUST_CHECK;

#endif
