/*
 * Packed answers (KYB1, SERVE.md): tracks of columns with one dictionary of texts, held in memory until written. Errors
 * stick: calls after the first failure do nothing, and packed_write gives it. Not thread-safe.
 */
#ifndef KYMO_COLLECTOR_QUERY_PACKED_H
#define KYMO_COLLECTOR_QUERY_PACKED_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PACKED_TYPE "application/vnd.kymo.packed"
#define PACKED_TRACKS_MAX 65536
#define PACKED_COLUMNS_MAX 64
#define PACKED_BYTES_MAX (256u << 20) /* of all columns and texts */

enum packed_type { PACKED_I64, PACKED_F64, PACKED_U32, PACKED_U8 };

struct packed_column {
    const char *name;
    enum packed_type type;
};

struct packed;

/* NULL without memory. */
struct packed *packed_new(int64_t from, int64_t to, int64_t width);
struct packed *packed_free(struct packed *p); /* NULL is fine; returns NULL */
void packed_freep(struct packed **p);

/* A track without rows; texts are copied. Its number, which is that of the track among all. */
size_t packed_track(struct packed *p, const char *id, const char *mode, int64_t bucket_ns,
                    const struct packed_column *columns, size_t n);
/* The place of a text in the dictionary. */
uint32_t packed_text(struct packed *p, const char *text, size_t n);
/* One value more in a column. A whole number that the type cannot hold becomes its greatest. */
void packed_int(struct packed *p, size_t track, size_t column, int64_t v);
void packed_real(struct packed *p, size_t track, size_t column, double v);

/* -ENOBUFS: beyond PACKED_BYTES_MAX. Columns of a track must be equally long (-EINVAL). */
int packed_write(struct packed *p, int (*write)(void *ctx, const void *data, size_t n, struct kymo_err *err), void *ctx,
                 struct kymo_err *err) KYMO_MUST_CHECK;

#endif
