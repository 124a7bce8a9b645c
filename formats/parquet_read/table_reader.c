#include "formats/parquet_read/table_reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/parquet_read/table_thrift.h"
#include "formats/parquet_read/table_unpack.h"

enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
enum { PLAIN = 0, PLAIN_DICTIONARY = 2, DELTA = 5, RLE_DICTIONARY = 8 };

struct page {
    int64_t type, packed, unpacked, values, encoding;
};

/* Memory that texts point into, kept until the group is forgotten. */
struct kept {
    struct kept *next;
    uint8_t bytes[];
};

/* Of the chunk that is being read. */
struct dictionary {
    union {
        int64_t number;
        double real;
        struct table_text text;
    } * values;
    size_t n, cap;
};

struct table_reader {
    const struct table_file *file;
    ZSTD_DCtx *zstd;
    struct kymo_buf raw, body;
    struct kept *kept;
    struct dictionary dictionary;
    uint32_t *places; /* of a page: numbers in the dictionary, or whether there is a value */
    int64_t *numbers; /* of a page */
    uint32_t *levels;
    size_t cap_places, cap_numbers, cap_levels;
};

/* One reading of a column. */
struct reading {
    struct table_reader *r;
    enum table_type type;
    bool optional;
    const uint32_t *rows; /* NULL: all */
    size_t n, done;
    enum { NUMBERS, REALS, TEXTS } as;
    union {
        int64_t *numbers;
        double *reals;
        struct table_text *texts;
    } ret;
};

struct table_reader *table_reader_new(const struct table_file *f)
{
    struct table_reader *r = KYMO_NEW(struct table_reader);
    if (!r)
        return NULL;
    r->file = f;
    kymo_buf_init(&r->raw, TABLE_READER_CHUNK_MAX);
    kymo_buf_init(&r->body, TABLE_READER_PAGE_MAX + TABLE_UNPACK_SLACK);
    r->zstd = ZSTD_createDCtx();
    return r->zstd ? r : table_reader_free(r);
}

void table_reader_forget(struct table_reader *r)
{
    while (r->kept) {
        struct kept *k = r->kept;
        r->kept = k->next;
        kymo_free(k);
    }
}

struct table_reader *table_reader_free(struct table_reader *r)
{
    if (!r)
        return NULL;
    table_reader_forget(r);
    (void)ZSTD_freeDCtx(r->zstd);
    kymo_buf_done(&r->raw);
    kymo_buf_done(&r->body);
    kymo_free(r->dictionary.values);
    kymo_free(r->places);
    kymo_free(r->numbers);
    kymo_free(r->levels);
    kymo_free(r);
    return NULL;
}

void table_reader_freep(struct table_reader **r)
{
    *r = table_reader_free(*r);
}

static void read_page_facts(struct table_thrift *t, struct page *p)
{
    struct table_thrift_field f = {0};
    while (table_thrift_next(t, &f)) {
        if (f.id == 1 && f.type == TABLE_THRIFT_I32)
            p->values = table_thrift_int(t);
        else if (f.id == 2 && f.type == TABLE_THRIFT_I32)
            p->encoding = table_thrift_int(t);
        else
            table_thrift_skip(t, f.type);
    }
}

static bool read_page(struct table_thrift *t, struct page *p)
{
    struct table_thrift_field f = {0};
    *p = (struct page){.type = -1, .values = -1, .encoding = -1};
    while (table_thrift_next(t, &f)) {
        if (f.id <= 3 && f.type == TABLE_THRIFT_I32)
            *(f.id == 1 ? &p->type : f.id == 2 ? &p->unpacked : &p->packed) = table_thrift_int(t);
        else if ((f.id == 5 || f.id == 7) && f.type == TABLE_THRIFT_STRUCT)
            read_page_facts(t, p);
        else
            table_thrift_skip(t, f.type);
    }
    return !t->bad && p->packed >= 0 && p->packed <= t->end - t->at && p->unpacked >= 0 &&
           p->unpacked <= (int64_t)TABLE_READER_PAGE_MAX && p->values >= 0 &&
           p->values <= (int64_t)TABLE_READER_GROUP_MAX;
}

/* The page's bytes, slack behind them; texts of it need memory that stays. */
static int unpack(struct table_reader *r, const uint8_t *packed, const struct page *p, bool keep, const uint8_t **ret)
{
    size_t n = (size_t)p->unpacked;
    uint8_t *body;
    if (keep) {
        struct kept *k = kymo_malloc(sizeof *k + n + TABLE_UNPACK_SLACK);
        if (!k)
            return -ENOMEM;
        k->next = r->kept;
        r->kept = k;
        body = k->bytes;
    } else {
        kymo_buf_reset(&r->body);
        if (kymo_buf_reserve(&r->body, n + TABLE_UNPACK_SLACK) < 0)
            return -ENOMEM;
        body = r->body.data;
    }
    memset(body + n, 0, TABLE_UNPACK_SLACK);
    size_t found = n ? ZSTD_decompressDCtx(r->zstd, body, n, packed, (size_t)p->packed) : 0;
    *ret = body;
    return ZSTD_isError(found) || found != n ? -EBADMSG : 0;
}

static size_t width_of(enum table_type type)
{
    return type == TABLE_I32 || type == TABLE_F32 ? 4 : 8;
}

static int64_t number_at(enum table_type type, const uint8_t *at)
{
    return type == TABLE_I32 ? (int32_t)kymo_le32(at) : (int64_t)kymo_le64(at);
}

static double real_at(enum table_type type, const uint8_t *at)
{
    float narrow;
    double wide;
    uint32_t a = kymo_le32(at);
    if (type == TABLE_F32) {
        memcpy(&narrow, &a, sizeof narrow);
        return (double)narrow;
    }
    uint64_t b = kymo_le64(at);
    memcpy(&wide, &b, sizeof wide);
    return wide;
}

/* NULL: it does not fit. */
static const uint8_t *text_at(const uint8_t *at, const uint8_t *end, struct table_text *ret)
{
    uint32_t n = end - at < 4 ? 0 : kymo_le32(at);
    if (end - at < 4 || n > (size_t)(end - at) - 4)
        return NULL;
    *ret = (struct table_text){.at = (const char *)at + 4, .n = n, .place = UINT32_MAX};
    return at + 4 + n;
}

static int take_dictionary(struct reading *g, const uint8_t *packed, const struct page *p)
{
    struct dictionary *d = &g->r->dictionary;
    const uint8_t *at;
    void *values = d->values;
    int r = unpack(g->r, packed, p, g->type == TABLE_TEXT, &at);
    if (r == 0)
        r = kymo_grow(&values, &d->cap, (size_t)p->values + 1, TABLE_READER_GROUP_MAX + 1, sizeof *d->values);
    d->values = values;
    if (r < 0)
        return r;
    const uint8_t *end = at + p->unpacked;
    size_t width = width_of(g->type);
    d->n = (size_t)p->values;
    if (g->type != TABLE_TEXT && d->n > (size_t)p->unpacked / width)
        return -EBADMSG;
    for (size_t i = 0; i < d->n && at; i++) {
        if (g->type == TABLE_TEXT) {
            at = text_at(at, end, &d->values[i].text);
            d->values[i].text.place = (uint32_t)i;
        } else if (g->as == REALS) {
            d->values[i].real = real_at(g->type, at + i * width);
        } else {
            d->values[i].number = number_at(g->type, at + i * width);
        }
    }
    return at ? 0 : -EBADMSG;
}

static int room(void **p, size_t *cap, size_t n, size_t size)
{
    return kymo_grow(p, cap, n + 1, TABLE_READER_GROUP_MAX + 1, size);
}

static int make_room(struct table_reader *r, size_t n)
{
    void *places = r->places, *numbers = r->numbers, *levels = r->levels;
    int rc = room(&places, &r->cap_places, n, sizeof *r->places);
    r->places = places;
    if (rc == 0)
        rc = room(&numbers, &r->cap_numbers, n, sizeof *r->numbers);
    r->numbers = numbers;
    if (rc == 0)
        rc = room(&levels, &r->cap_levels, n, sizeof *r->levels);
    r->levels = levels;
    return rc;
}

/* Which of a page's rows have a value: levels, 1 where one is; and how many do. */
static int take_levels(struct reading *g, const uint8_t **at, const uint8_t *end, size_t rows, size_t *ret)
{
    *ret = rows;
    if (!g->optional)
        return 0;
    uint32_t n = end - *at < 4 ? UINT32_MAX : kymo_le32(*at);
    if (end - *at < 4 || n > (size_t)(end - *at) - 4)
        return -EBADMSG;
    int r = table_unpack_hybrid(*at + 4, *at + 4 + n, 1, g->r->levels, rows);
    *at += 4 + n;
    *ret = 0;
    for (size_t i = 0; r == 0 && i < rows; i++)
        *ret += g->r->levels[i];
    return r;
}

static void put(struct reading *g, size_t place)
{
    const struct dictionary *d = &g->r->dictionary;
    if (g->as == TEXTS)
        g->ret.texts[g->done] = d->values[place].text;
    else if (g->as == REALS)
        g->ret.reals[g->done] = d->values[place].real;
    else
        g->ret.numbers[g->done] = d->values[place].number;
}

static void put_null(struct reading *g)
{
    if (g->as == TEXTS)
        g->ret.texts[g->done] = (struct table_text){.place = UINT32_MAX};
    else if (g->as == REALS)
        g->ret.reals[g->done] = NAN;
    else
        g->ret.numbers[g->done] = TABLE_NULL;
}

/* How the values of a page, those that are there, are to be had. */
struct values {
    bool placed, delta;
    const uint8_t *plain; /* of fixed width */
    size_t width;
    const struct table_text *texts;
};

static void put_value(struct reading *g, const struct values *v, size_t i)
{
    if (v->placed)
        put(g, g->r->places[i]);
    else if (v->texts)
        g->ret.texts[g->done] = v->texts[i];
    else if (v->delta)
        g->ret.numbers[g->done] = g->r->numbers[i];
    else if (g->as == REALS)
        g->ret.reals[g->done] = real_at(g->type, v->plain + i * v->width);
    else
        g->ret.numbers[g->done] = number_at(g->type, v->plain + i * v->width);
}

static void put_reals(struct reading *g, const struct values *v, size_t rows)
{
    const struct dictionary *d = &g->r->dictionary;
    double *ret = g->ret.reals + g->done;
    if (v->placed)
        for (size_t i = 0; i < rows; i++)
            ret[i] = d->values[g->r->places[i]].real;
    else if (g->type == TABLE_F32)
        for (size_t i = 0; i < rows; i++)
            ret[i] = real_at(TABLE_F32, v->plain + i * sizeof(float));
    else
        for (size_t i = 0; i < rows; i++)
            ret[i] = real_at(g->type, v->plain + i * v->width);
}

/* All of a page, in which no value is missing. */
static void put_all(struct reading *g, const struct values *v, size_t rows)
{
    const struct dictionary *d = &g->r->dictionary;
    if (v->delta) {
        memcpy(g->ret.numbers + g->done, g->r->numbers, rows * sizeof *g->ret.numbers);
    } else if (v->placed && g->as == NUMBERS) {
        for (size_t i = 0; i < rows; i++)
            g->ret.numbers[g->done + i] = d->values[g->r->places[i]].number;
    } else if (v->placed && g->as == TEXTS) {
        for (size_t i = 0; i < rows; i++)
            g->ret.texts[g->done + i] = d->values[g->r->places[i]].text;
    } else if (g->as == REALS) {
        put_reals(g, v, rows);
    } else {
        for (size_t i = 0; i < rows; i++, g->done++)
            put_value(g, v, i);
        return;
    }
    g->done += rows;
}

/* Rows of a page that begins at the row first of the group; n of them have a value. */
static void put_rows(struct reading *g, const struct values *v, size_t first, size_t rows, size_t n)
{
    size_t value = 0, row = 0;
    const uint32_t *levels = n < rows ? g->r->levels : NULL;
    if (!g->rows && !levels) {
        put_all(g, v, rows);
        return;
    }
    while (g->done < g->n) {
        size_t wanted = (g->rows ? g->rows[g->done] : g->done) - first;
        if (wanted >= rows)
            return;
        for (; levels && row < wanted; row++)
            value += levels[row];
        if (!levels)
            value = wanted;
        if (levels && !levels[wanted])
            put_null(g);
        else
            put_value(g, v, value);
        g->done++;
    }
}

static int take_places(struct reading *g, const uint8_t *at, const uint8_t *end, size_t n)
{
    uint32_t *places = g->r->places;
    if (n == 0)
        return 0;
    if (at == end)
        return -EBADMSG;
    int r = table_unpack_hybrid(at + 1, end, *at, places, n);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (places[i] >= g->r->dictionary.n)
            r = -EBADMSG;
    return r;
}

static int take_plain_texts(struct reading *g, const uint8_t *at, const uint8_t *end, size_t n, struct table_text **ret)
{
    struct kept *k = kymo_malloc(sizeof *k + (n + 1) * sizeof **ret);
    if (!k)
        return -ENOMEM;
    k->next = g->r->kept;
    g->r->kept = k;
    struct table_text *texts = (struct table_text *)(void *)k->bytes;
    for (size_t i = 0; i < n && at; i++)
        at = text_at(at, end, &texts[i]);
    *ret = texts;
    return at ? 0 : -EBADMSG;
}

static int take_values(struct reading *g, int64_t encoding, const uint8_t *at, const uint8_t *end, size_t n,
                       struct values *v)
{
    struct table_text *texts = NULL;
    int r = 0;
    *v = (struct values){.plain = at, .width = width_of(g->type)};
    if (encoding == RLE_DICTIONARY || encoding == PLAIN_DICTIONARY) {
        v->placed = true;
        r = take_places(g, at, end, n);
    } else if (encoding == DELTA && g->as == NUMBERS) {
        v->delta = true;
        r = n ? table_unpack_delta(at, end, g->type == TABLE_I32, g->r->numbers, n) : 0;
    } else if (encoding == PLAIN && g->as == TEXTS) {
        r = take_plain_texts(g, at, end, n, &texts);
        v->texts = texts;
    } else if (encoding == PLAIN) {
        r = n > (size_t)(end - at) / v->width ? -EBADMSG : 0;
    } else {
        r = -ENOTSUP;
    }
    return r;
}

static int take_page(struct reading *g, const uint8_t *packed, const struct page *p, size_t first)
{
    const uint8_t *at;
    struct values v;
    size_t rows = (size_t)p->values, n;
    bool keep = g->as == TEXTS && p->encoding == PLAIN;
    int r = unpack(g->r, packed, p, keep, &at);
    if (r == 0)
        r = make_room(g->r, rows);
    if (r < 0)
        return r;
    const uint8_t *end = at + p->unpacked;
    r = take_levels(g, &at, end, rows, &n);
    if (r == 0)
        r = take_values(g, p->encoding, at, end, n, &v);
    if (r == 0)
        put_rows(g, &v, first, rows, n);
    return r;
}

static bool wants(const struct reading *g, size_t end)
{
    return g->done < g->n && (g->rows ? g->rows[g->done] : g->done) < end;
}

static int take_pages(struct reading *g, size_t rows)
{
    struct table_thrift t = {.at = g->r->raw.data, .end = g->r->raw.data + g->r->raw.len};
    size_t row = 0;
    int r = 0;
    while (r == 0 && g->done < g->n) {
        struct page p;
        if (row >= rows || !read_page(&t, &p))
            return -EBADMSG;
        size_t end = row + (p.type == PAGE_DATA ? (size_t)p.values : 0);
        if (p.type == PAGE_DICTIONARY)
            r = p.encoding == PLAIN || p.encoding == PLAIN_DICTIONARY ? take_dictionary(g, t.at, &p) : -ENOTSUP;
        else if (p.type != PAGE_DATA)
            r = -ENOTSUP;
        else if (end > rows || p.values == 0)
            r = -EBADMSG;
        else if (wants(g, end))
            r = take_page(g, t.at, &p, row);
        t.at += p.packed;
        row = end;
    }
    return r;
}

static int read_chunk(struct table_reader *r, size_t group, size_t column, struct kymo_err *err)
{
    const struct table_chunk *c = &r->file->chunks[group * r->file->n_columns + column];
    kymo_buf_reset(&r->raw);
    if (c->size == 0)
        return kymo_err_set(err, -EBADMSG, "%s: row group %zu has a column without bytes", r->file->path, group);
    if (c->size > TABLE_READER_CHUNK_MAX || kymo_buf_reserve(&r->raw, c->size) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for a column of %s", r->file->path);
    r->raw.len = c->size;
    return kymo_file_pread_all(r->file->fd, r->raw.data, c->size, c->offset, r->file->path, err);
}

static int read_column(struct reading *g, size_t group, size_t column, struct kymo_err *err)
{
    const struct table_file *f = g->r->file;
    g->type = f->types[column];
    g->optional = f->optional[column];
    g->r->dictionary.n = 0;
    if (g->type == TABLE_ABSENT) {
        for (; g->done < g->n; g->done++)
            put_null(g);
        return 0;
    }
    bool text = g->type == TABLE_TEXT, real = g->type == TABLE_F32 || g->type == TABLE_F64;
    int r = text != (g->as == TEXTS) || real != (g->as == REALS) ? -ENOTSUP : 0;
    if (r == 0 && (f->rows[group] > TABLE_READER_GROUP_MAX || (!g->rows && g->n != f->rows[group])))
        r = -ENOTSUP;
    if (r == 0 && g->n) {
        r = read_chunk(g->r, group, column, err);
        if (r < 0)
            return r;
        r = take_pages(g, f->rows[group]);
    }
    return r < 0 ? kymo_err_set(err, r, "%s: row group %zu, column %zu: %s", f->path, group, column,
                                r == -ENOTSUP  ? "packed in another way than kymo's"
                                : r == -ENOMEM ? "no memory"
                                               : "a page is broken")
                 : 0;
}

int table_reader_ints(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n, int64_t *ret,
                      struct kymo_err *err)
{
    struct reading g = {.r = r, .rows = rows, .n = n, .as = NUMBERS, .ret.numbers = ret};
    return read_column(&g, group, column, err);
}

int table_reader_reals(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n, double *ret,
                       struct kymo_err *err)
{
    struct reading g = {.r = r, .rows = rows, .n = n, .as = REALS, .ret.reals = ret};
    return read_column(&g, group, column, err);
}

int table_reader_texts(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n,
                       struct table_text *ret, struct kymo_err *err)
{
    struct reading g = {.r = r, .rows = rows, .n = n, .as = TEXTS, .ret.texts = ret};
    return read_column(&g, group, column, err);
}
