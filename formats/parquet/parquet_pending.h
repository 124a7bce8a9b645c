/* Rows of one column that wait until they make a page, when batches are small. Internal to the writer. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_PENDING_H
#define KYMO_FORMATS_PARQUET_PARQUET_PENDING_H

#include <stddef.h>
#include <stdint.h>

#include "formats/parquet/parquet_chunk.h"

enum parquet_pending_kind { PARQUET_PENDING_NULLS, PARQUET_PENDING_IDS, PARQUET_PENDING_VALUES };

struct parquet_pending {
    enum parquet_pending_kind kind; /* of all rows so far */
    uint32_t *ids;
    uint8_t *values; /* of the column's C type */
    uint8_t *valid;
    size_t ids_cap, values_cap, valid_cap;
};

void parquet_pending_done(struct parquet_pending *p);
/* Rows [0..n) of in behind the `have` there are. -EINVAL for an id beyond the dictionary or its map. */
int parquet_pending_append(struct parquet_pending *p, const struct parquet_chunk *c, const struct parquet_column *in,
                           size_t n, size_t have) KYMO_MUST_CHECK;
/* What waits, as a batch; valid until the next append. */
struct parquet_column parquet_pending_take(struct parquet_pending *p);
/* Rows from at on of a batch. */
struct parquet_column parquet_column_from(const struct parquet_column *in, const struct kymo_column *column, size_t at);

#endif
