/* Parquet's own structures in Thrift: page headers, column metadata, page index, footer. Appended to a buffer. */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_META_H
#define KYMO_FORMATS_PARQUET_PARQUET_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "formats/parquet/parquet_chunk.h"

#define PARQUET_BOUND_MAX 64 /* bytes of a string kept as a bound; longer ones are cut, and the greatest rounded up */

/* Where a page went. */
struct parquet_place {
    uint64_t offset;
    uint32_t len; /* header included */
    uint64_t first_row;
};

struct parquet_chunk_totals {
    uint64_t raw, packed; /* bytes, headers included */
    uint64_t data_offset; /* first data page */
    uint64_t dict_offset; /* 0: no dictionary page */
};

/* A finished chunk as the footer needs it; offsets and lengths in the file's buffers. */
struct parquet_chunk_meta {
    size_t meta, meta_len, columns, columns_len, offsets, offsets_len; /* columns_len 0: no column index */
    uint64_t raw, packed, start;
};

struct parquet_group_meta {
    uint64_t rows;
    int sorted_by; /* column, or -1 */
};

/* What the footer is made of. */
struct parquet_footer {
    const struct kymo_table *table;
    char *const *kv; /* key, value, ..., NULL */
    const struct parquet_group_meta *groups;
    size_t group_count;
    const struct parquet_chunk_meta *chunks; /* column_count per group */
    const uint8_t *meta;                     /* the chunks' ColumnMetaData */
    uint64_t columns_at, offsets_at;         /* where in the file the two parts of the page index begin */
};

int parquet_meta_dict_header(struct kymo_buf *b, size_t raw, size_t packed, size_t values) KYMO_MUST_CHECK;
int parquet_meta_page_header(struct kymo_buf *b, const struct parquet_page *p, enum parquet_encoding encoding,
                             size_t raw, size_t packed) KYMO_MUST_CHECK;
int parquet_meta_chunk(struct kymo_buf *b, const struct parquet_chunk *c, const struct parquet_chunk_totals *t,
                       enum parquet_encoding null_encoding) KYMO_MUST_CHECK;
/* False when some page has values but no bounds: then there is no column index. */
bool parquet_meta_has_column_index(const struct parquet_chunk *c);
int parquet_meta_column_index(struct kymo_buf *b, const struct parquet_chunk *c) KYMO_MUST_CHECK;
int parquet_meta_offset_index(struct kymo_buf *b, const struct parquet_place *places, size_t n) KYMO_MUST_CHECK;
int parquet_meta_footer(struct kymo_buf *b, const struct parquet_footer *f) KYMO_MUST_CHECK;

#endif
