#include "formats/parquet/parquet_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/parquet/parquet_rle.h"

/* What is written whole and aligned costs the kernel half of what else does (pipeline/spill has the same). */
#define PIECE ((size_t)64 << 10)
#define OUT_GOAL ((size_t)256 << 10)
/* Longer pages go to the file from where they are: the copy would cost more than the call. */
#define DIRECT_MIN ((size_t)32 << 10)
#define OUT_MAX ((size_t)3 << 30)
#define META_MAX ((size_t)1 << 30)
#define FOOTER_MAX ((size_t)1 << 31)

static const char magic[4] = {'P', 'A', 'R', '1'};

void parquet_file_init(struct parquet_file *f, const struct kymo_table *table)
{
    *f = (struct parquet_file){.table = table, .fd = -1};
    kymo_buf_init(&f->out, OUT_MAX);
    kymo_buf_init(&f->meta, META_MAX);
    kymo_buf_init(&f->columns, META_MAX);
    kymo_buf_init(&f->offsets, META_MAX);
}

void parquet_file_done(struct parquet_file *f)
{
    f->fd = kymo_file_close(f->fd);
    kymo_free(f->path);
    kymo_free(f->groups);
    kymo_free(f->chunks);
    kymo_free(f->places);
    kymo_buf_done(&f->out);
    kymo_buf_done(&f->meta);
    kymo_buf_done(&f->columns);
    kymo_buf_done(&f->offsets);
    parquet_file_init(f, f->table);
}

/* The first n bytes of what is not written yet. */
static int write_out(struct parquet_file *f, size_t n, struct kymo_err *err)
{
    int rc = kymo_file_pwrite_all(f->fd, f->out.data, n, f->offset, f->path, err);
    if (rc < 0)
        return rc;
    f->offset += n;
    f->out.len -= n;
    memmove(f->out.data, f->out.data + n, f->out.len);
    return 0;
}

/* Leaves what does not fill a piece, so that the next one begins where a piece does. */
static int write_pieces(struct parquet_file *f, struct kymo_err *err)
{
    return f->out.len < OUT_GOAL ? 0 : write_out(f, f->out.len - f->out.len % PIECE, err);
}

static uint64_t position(const struct parquet_file *f)
{
    return f->offset + f->out.len;
}

int parquet_file_open(struct parquet_file *f, const char *path, struct kymo_err *err)
{
    f->path = kymo_strdup(path);
    if (!f->path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory", path);
    int fd = kymo_file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    if (fd < 0)
        return fd;
    f->fd = fd;
    int rc = kymo_buf_append(&f->out, magic, sizeof magic);
    return rc < 0 ? kymo_err_set(err, rc, "%s: no memory", path) : 0;
}

static int plain_dict(const struct parquet_chunk *c, struct kymo_buf *b)
{
    size_t size = parquet_type_size(c->leaf_type);
    int rc = kymo_buf_reserve(b, c->dict_bytes + 1);

    for (size_t i = 0; rc == 0 && i < c->used_count; i++) {
        uint32_t id = c->used[i];
        uint64_t v = c->leaf.values[id];
        if (c->leaf.order == PARQUET_ORDER_BYTES) {
            rc = kymo_buf_append(b, &c->leaf.lens[id], 4);
            if (rc == 0)
                rc = kymo_buf_append(b, parquet_dict_data(&c->leaf, id), c->leaf.lens[id]);
        } else if (c->leaf_type == KYMO_TYPE_FLOAT) {
            double d;
            memcpy(&d, &v, sizeof d);
            float single = (float)d;
            rc = kymo_buf_append(b, &single, sizeof single);
        } else {
            rc = kymo_buf_append(b, &v, size);
        }
    }
    return rc;
}

static int put_dict(struct parquet_file *f, const struct parquet_chunk *c, struct parquet_work *w,
                    struct parquet_chunk_totals *t)
{
    kymo_buf_reset(&w->body);
    kymo_buf_reset(&w->packed);
    int rc = plain_dict(c, &w->body);
    if (rc == 0)
        rc = parquet_work_compress(w, &w->packed, NULL);
    if (rc < 0)
        return rc;
    t->dict_offset = position(f);
    size_t head = f->out.len;
    rc = parquet_meta_dict_header(&f->out, w->body.len, w->packed.len, c->used_count);
    head = f->out.len - head;
    t->raw += head + w->body.len;
    t->packed += head + w->packed.len;
    return rc == 0 ? kymo_buf_append(&f->out, w->packed.data, w->packed.len) : rc;
}

/* The body of a page of nulls, into w->packed. */
static int null_body(const struct parquet_chunk *c, struct parquet_work *w, uint32_t rows,
                     enum parquet_encoding encoding)
{
    struct kymo_buf *b = &w->body;
    int rc = 0;

    kymo_buf_reset(b);
    kymo_buf_reset(&w->packed);
    for (unsigned part = c->max_rep ? 0 : 1; rc == 0 && part < 2; part++) {
        size_t at = b->len;
        rc = kymo_buf_append(b, "\0\0\0\0", 4);
        if (rc == 0)
            rc = parquet_rle_append_run(b, 0, rows, part == 0 ? 1 : parquet_rle_width(c->max_def));
        if (rc == 0)
            kymo_put_le32(b->data + at, (uint32_t)(b->len - at - 4));
    }
    if (rc == 0 && encoding == PARQUET_RLE_DICTIONARY)
        rc = kymo_buf_append(b, "\1", 1);
    else if (rc == 0 && encoding == PARQUET_DELTA_BINARY_PACKED)
        rc = parquet_delta_append64(b, NULL, 0);
    return rc == 0 ? parquet_work_compress(w, &w->packed, NULL) : rc;
}

static int put_body(struct parquet_file *f, const uint8_t *body, size_t len, struct kymo_err *err)
{
    size_t gap = (PIECE - f->out.len % PIECE) % PIECE;
    if (len < DIRECT_MIN || len < gap + PIECE) {
        int rc = kymo_buf_append(&f->out, body, len);
        return rc < 0 ? rc : write_pieces(f, err);
    }
    size_t whole = (len - gap) / PIECE * PIECE, rest = len - gap - whole;
    int rc = kymo_buf_append(&f->out, body, gap);
    if (rc == 0)
        rc = write_out(f, f->out.len, err);
    if (rc == 0)
        rc = kymo_file_pwrite_all(f->fd, body + gap, whole, f->offset, f->path, err);
    if (rc < 0)
        return rc;
    f->offset += whole;
    return kymo_buf_append(&f->out, body + gap + whole, rest);
}

static int put_page(struct parquet_file *f, const struct parquet_chunk *c, const struct parquet_page *p,
                    enum parquet_encoding null_encoding, struct parquet_work *w, struct parquet_chunk_totals *t,
                    struct parquet_place *place, struct kymo_err *err)
{
    const uint8_t *body = c->data.data ? c->data.data + p->off : NULL;
    size_t raw = p->raw_len, len = p->len;
    int rc = 0;

    if (len == 0) {
        rc = null_body(c, w, p->rows, null_encoding);
        body = w->packed.data;
        raw = w->body.len;
        len = w->packed.len;
    }
    place->offset = position(f);
    size_t start = f->out.len;
    if (rc == 0)
        rc = parquet_meta_page_header(&f->out, p, p->len ? p->encoding : null_encoding, raw, len);
    size_t head = f->out.len - start;
    if (rc == 0)
        rc = put_body(f, body, len, err);
    place->len = (uint32_t)(head + len);
    t->raw += head + raw;
    t->packed += head + len;
    return rc;
}

/* Pages of nulls follow their neighbours, so that a chunk has one encoding wherever it can. */
static enum parquet_encoding null_encoding_of(const struct parquet_chunk *c)
{
    for (size_t i = 0; i < c->page_count; i++) {
        if (c->pages[i].len > 0)
            return c->pages[i].encoding;
    }
    return PARQUET_PLAIN;
}

static bool needs_dict(const struct parquet_chunk *c)
{
    for (size_t i = 0; i < c->page_count; i++) {
        if (c->pages[i].len > 0 && c->pages[i].encoding == PARQUET_RLE_DICTIONARY)
            return true;
    }
    return false;
}

static int put_index(struct parquet_file *f, const struct parquet_chunk *c, const struct parquet_chunk_totals *t,
                     struct parquet_chunk_meta *m)
{
    m->meta = f->meta.len;
    m->columns = f->columns.len;
    m->offsets = f->offsets.len;
    int rc = parquet_meta_chunk(&f->meta, c, t, null_encoding_of(c));
    if (rc == 0 && parquet_meta_has_column_index(c))
        rc = parquet_meta_column_index(&f->columns, c);
    if (rc == 0)
        rc = parquet_meta_offset_index(&f->offsets, f->places, c->page_count);
    m->meta_len = f->meta.len - m->meta;
    m->columns_len = f->columns.len - m->columns;
    m->offsets_len = f->offsets.len - m->offsets;
    m->raw = t->raw;
    m->packed = t->packed;
    return rc;
}

static int put_chunk(struct parquet_file *f, const struct parquet_chunk *c, struct parquet_work *w,
                     struct parquet_chunk_meta *m, struct kymo_err *err)
{
    struct parquet_chunk_totals t = {0};
    enum parquet_encoding null_encoding = null_encoding_of(c);
    uint64_t row = 0;
    int rc = PARQUET_GROW(f->places, f->place_cap, c->page_count, PARQUET_CHUNK_PAGES_MAX);

    m->start = position(f);
    if (rc == 0 && needs_dict(c))
        rc = put_dict(f, c, w, &t);
    t.data_offset = position(f);
    for (size_t i = 0; rc == 0 && i < c->page_count; i++) {
        rc = put_page(f, c, &c->pages[i], null_encoding, w, &t, &f->places[i], err);
        f->places[i].first_row = row;
        row += c->pages[i].rows;
    }
    return rc == 0 ? put_index(f, c, &t, m) : rc;
}

int parquet_file_group(struct parquet_file *f, struct parquet_chunk *chunks, uint64_t rows, int sorted_by,
                       struct parquet_work *w, struct kymo_err *err)
{
    size_t columns = f->table->column_count;
    int rc = PARQUET_GROW(f->groups, f->group_cap, f->group_count + 1, PARQUET_GROUPS_MAX);

    if (rc == 0)
        rc = PARQUET_GROW(f->chunks, f->chunk_cap, f->chunk_count + columns, (size_t)PARQUET_GROUPS_MAX * columns);
    for (size_t i = 0; rc == 0 && i < columns; i++) {
        struct kymo_err why = {0};
        rc = put_chunk(f, &chunks[i], w, &f->chunks[f->chunk_count + i], &why);
        if (rc < 0)
            return kymo_err_set(err, rc, "%s: column %s: %s", f->path, chunks[i].column->name,
                                why.code < 0 ? why.text : "cannot make its pages");
        rc = write_pieces(f, err);
        if (rc < 0)
            return rc;
        parquet_chunk_reset(&chunks[i]);
    }
    if (rc < 0)
        return kymo_err_set(err, rc, "%s: too many row groups or no memory", f->path);
    f->groups[f->group_count++] = (struct parquet_group_meta){.rows = rows, .sorted_by = sorted_by};
    f->chunk_count += columns;
    return 0;
}

static int put_end(struct parquet_file *f, char *const *kv)
{
    struct parquet_footer footer = {
        .table = f->table,
        .kv = kv,
        .groups = f->groups,
        .group_count = f->group_count,
        .chunks = f->chunks,
        .meta = f->meta.data,
        .columns_at = position(f),
        .offsets_at = position(f) + f->columns.len,
    };
    int rc = kymo_buf_append(&f->out, f->columns.data, f->columns.len);
    if (rc == 0)
        rc = kymo_buf_append(&f->out, f->offsets.data, f->offsets.len);
    size_t start = f->out.len;
    if (rc == 0)
        rc = parquet_meta_footer(&f->out, &footer);
    size_t len = f->out.len - start;
    if (rc == 0 && len >= FOOTER_MAX)
        return -EFBIG;
    uint8_t tail[8];
    kymo_put_le32(tail, (uint32_t)len);
    memcpy(tail + 4, magic, sizeof magic);
    return rc == 0 ? kymo_buf_append(&f->out, tail, sizeof tail) : rc;
}

int parquet_file_finish(struct parquet_file *f, char *const *kv, struct kymo_err *err)
{
    int rc = put_end(f, kv);

    if (rc < 0)
        return kymo_err_set(err, rc, "%s: cannot make the footer", f->path);
    rc = write_out(f, f->out.len, err);
    if (rc == 0)
        rc = kymo_file_sync(f->fd, f->path, err);
    if (rc == 0)
        f->fd = kymo_file_close(f->fd);
    return rc;
}
