/* What the columns of a writer share: memory, and zstd. Declared in parquet_chunk.h. */
#include <errno.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/le.h"
#include "formats/parquet/parquet_chunk.h"

/* A page that shrinks by less than 1/16 is stored, and so are the next pages of its column, but for one in so many. */
#define RAW_PAGES 16
/* Bodies too short to shrink. */
#define RAW_BELOW 48
#define ZSTD_BLOCK_RAW_MAX ((size_t)128 << 10)

int parquet_work_init(struct parquet_work *w, int zstd_level)
{
    *w = (struct parquet_work){0};
    kymo_buf_init(&w->body, PARQUET_PAGE_BYTES_MAX);
    kymo_buf_init(&w->packed, PARQUET_PAGE_BYTES_MAX);
    for (size_t i = 0; i < PARQUET_WORK_INDEXES; i++)
        parquet_index_init(&w->index[i]);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    if (!z)
        return -ENOMEM;
    w->zstd = z;
    return ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, zstd_level)) ? -EINVAL : 0;
}

void parquet_work_done(struct parquet_work *w)
{
    ZSTD_freeCCtx(w->zstd);
    kymo_buf_done(&w->body);
    kymo_buf_done(&w->packed);
    kymo_free(w->split);
    kymo_free(w->ids);
    kymo_free(w->defs);
    kymo_free(w->reps);
    kymo_free(w->values);
    for (size_t i = 0; i < PARQUET_WORK_INDEXES; i++)
        parquet_index_done(&w->index[i]);
    *w = (struct parquet_work){0};
}

void parquet_work_page(struct parquet_work *w)
{
    w->index_count = w->index_next = w->made_count = 0;
}

/* A zstd frame of raw blocks: valid for every reader, at the cost of a copy. */
static int append_raw(struct kymo_buf *out, const uint8_t *data, size_t n)
{
    int rc = kymo_buf_reserve(out, n + 9 + 3 * (n / ZSTD_BLOCK_RAW_MAX + 1));
    if (rc < 0)
        return rc;
    uint8_t *p = out->data + out->len;
    kymo_put_le32(p, ZSTD_MAGICNUMBER);
    p[4] = 2u << 6 | 1u << 5; /* content size in four bytes, a single segment */
    kymo_put_le32(p + 5, (uint32_t)n);
    p += 9;
    do {
        size_t k = n < ZSTD_BLOCK_RAW_MAX ? n : ZSTD_BLOCK_RAW_MAX;
        uint32_t head = (uint32_t)k << 3 | (k == n); /* block type 0, last flag */
        memcpy(p, &head, 3);
        if (k > 0)
            memcpy(p + 3, data, k);
        p += 3 + k;
        data += k;
        n -= k;
    } while (n > 0);
    out->len = (size_t)(p - out->data);
    return 0;
}

int parquet_work_compress(struct parquet_work *w, struct kymo_buf *out, unsigned *raw_run)
{
    size_t n = w->body.len, start = out->len;

    if (n < RAW_BELOW || (raw_run && *raw_run > 0 && --*raw_run > 0))
        return append_raw(out, w->body.data, n);
    int rc = kymo_buf_reserve(out, ZSTD_compressBound(n));
    if (rc < 0)
        return rc;
    size_t got = ZSTD_compress2(w->zstd, out->data + out->len, out->cap - out->len, w->body.data, n);
    if (ZSTD_isError(got))
        return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? -ENOMEM : -EINVAL;
    out->len += got;
    if (!raw_run || got < n - n / 16)
        return 0;
    *raw_run = RAW_PAGES;
    out->len = start;
    return append_raw(out, w->body.data, n);
}
