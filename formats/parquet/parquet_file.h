/*
 * One Parquet file being written: row groups go out as they are complete, page index and footer at the end. Internal to
 * the writer. The file has its temporary name all the time; renaming is the writer's. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_FILE_H
#define KYMO_FORMATS_PARQUET_PARQUET_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/parquet/parquet_chunk.h"
#include "formats/parquet/parquet_meta.h"

#define PARQUET_GROUPS_MAX 65536

struct parquet_file {
    const struct kymo_table *table;
    char *path;
    int fd; /* -1: closed */
    uint64_t offset;
    struct kymo_buf out;                    /* not written yet */
    struct kymo_buf meta, columns, offsets; /* of all chunks: ColumnMetaData, ColumnIndex, OffsetIndex */
    struct parquet_group_meta *groups;
    struct parquet_chunk_meta *chunks;
    size_t group_count, group_cap, chunk_count, chunk_cap;
    struct parquet_place *places;
    size_t place_cap;
};

void parquet_file_init(struct parquet_file *f, const struct kymo_table *table);
/* path is copied. */
int parquet_file_open(struct parquet_file *f, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* All chunks of a row group, one per column, each with the same rows. sorted_by: the column the rows ascend by, or -1.
 */
int parquet_file_group(struct parquet_file *f, struct parquet_chunk *chunks, uint64_t rows, int sorted_by,
                       struct parquet_work *w, struct kymo_err *err) KYMO_MUST_CHECK;
/* Page index, footer, sync, close. */
int parquet_file_finish(struct parquet_file *f, char *const *kv, struct kymo_err *err) KYMO_MUST_CHECK;
/* Closes; the file stays. Frees what f holds. */
void parquet_file_done(struct parquet_file *f);

#endif
