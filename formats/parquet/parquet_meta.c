#include "formats/parquet/parquet_meta.h"

#include <string.h>

#include "base/le.h"
#include "formats/parquet/parquet_thrift.h"

enum { TYPE_BOOLEAN = 0, TYPE_INT32 = 1, TYPE_INT64 = 2, TYPE_FLOAT = 4, TYPE_DOUBLE = 5, TYPE_BYTE_ARRAY = 6 };
enum { REQUIRED = 0, OPTIONAL = 1, REPEATED = 2 };
enum { CONVERTED_UTF8 = 0, CONVERTED_LIST = 3 };
enum { LOGICAL_STRING = 1, LOGICAL_LIST = 3 };
enum { CODEC_ZSTD = 6 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
enum { UNORDERED = 0, ASCENDING = 1, DESCENDING = 2 };

static int physical(enum kymo_type leaf)
{
    switch (leaf) {
    case KYMO_TYPE_BOOL:
        return TYPE_BOOLEAN;
    case KYMO_TYPE_INT32:
        return TYPE_INT32;
    case KYMO_TYPE_FLOAT:
        return TYPE_FLOAT;
    case KYMO_TYPE_DOUBLE:
        return TYPE_DOUBLE;
    case KYMO_TYPE_STRING:
        return TYPE_BYTE_ARRAY;
    default:
        return TYPE_INT64;
    }
}

int parquet_meta_dict_header(struct kymo_buf *b, size_t raw, size_t packed, size_t values)
{
    struct parquet_thrift t = parquet_thrift_begin(b);

    parquet_thrift_i32(&t, 1, PAGE_DICTIONARY);
    parquet_thrift_i32(&t, 2, (int32_t)raw);
    parquet_thrift_i32(&t, 3, (int32_t)packed);
    parquet_thrift_struct(&t, 7);
    parquet_thrift_i32(&t, 1, (int32_t)values);
    parquet_thrift_i32(&t, 2, PARQUET_PLAIN);
    parquet_thrift_close(&t);
    return parquet_thrift_end(&t);
}

int parquet_meta_page_header(struct kymo_buf *b, const struct parquet_page *p, enum parquet_encoding encoding,
                             size_t raw, size_t packed)
{
    struct parquet_thrift t = parquet_thrift_begin(b);

    parquet_thrift_i32(&t, 1, PAGE_DATA);
    parquet_thrift_i32(&t, 2, (int32_t)raw);
    parquet_thrift_i32(&t, 3, (int32_t)packed);
    parquet_thrift_struct(&t, 5);
    parquet_thrift_i32(&t, 1, (int32_t)p->levels);
    parquet_thrift_i32(&t, 2, (int32_t)encoding);
    parquet_thrift_i32(&t, 3, PARQUET_RLE);
    parquet_thrift_i32(&t, 4, PARQUET_RLE);
    parquet_thrift_close(&t);
    return parquet_thrift_end(&t);
}

struct bound {
    const void *data;
    size_t len;
    bool exact;
    uint8_t room[PARQUET_BOUND_MAX];
};

static size_t char_start(const uint8_t *s, size_t n)
{
    while (n > 0 && (s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* Cuts a long string to a bound that is still one: below it for the least, above it for the greatest. */
static void cut(struct bound *b, const uint8_t *s, size_t len, bool greatest)
{
    size_t n = char_start(s, PARQUET_BOUND_MAX);

    *b = (struct bound){.data = s, .len = len, .exact = true};
    if (greatest) {
        /* The last character that has a successor in one byte goes up by one; what is behind it goes. */
        while (n > 0 && (s[n - 1] >= 0x7f))
            n = char_start(s, n - 1);
    }
    if (n == 0)
        return;
    memcpy(b->room, s, n);
    if (greatest)
        b->room[n - 1]++;
    b->data = b->room;
    b->len = n;
    b->exact = false;
}

static void put_real(const struct parquet_chunk *c, struct bound *b, uint64_t v, bool greatest)
{
    double d;

    memcpy(&d, &v, sizeof d);
    /* Readers that compare bits must find both zeros between the bounds. */
    if (d == 0)
        d = greatest ? 0.0 : -0.0;
    float f = (float)d;
    b->len = parquet_type_size(c->leaf_type);
    memcpy(b->room, c->leaf_type == KYMO_TYPE_FLOAT ? (const void *)&f : (const void *)&d, b->len);
}

static void bound_of(const struct parquet_chunk *c, struct bound *b, uint64_t v, bool greatest)
{
    if (c->leaf.order == PARQUET_ORDER_BYTES) {
        const uint8_t *s = parquet_dict_data(&c->leaf, (uint32_t)v);
        size_t len = c->leaf.lens[v];
        if (len > PARQUET_BOUND_MAX)
            cut(b, s, len, greatest);
        else
            *b = (struct bound){.data = s, .len = len, .exact = true};
        return;
    }
    *b = (struct bound){.exact = true};
    b->data = b->room;
    if (c->leaf.order == PARQUET_ORDER_REAL) {
        put_real(c, b, v, greatest);
    } else {
        b->len = parquet_type_size(c->leaf_type);
        memcpy(b->room, &v, b->len);
    }
}

static void put_statistics(struct parquet_thrift *t, int field, const struct parquet_chunk *c)
{
    struct parquet_page all = {0};
    struct bound b;

    for (size_t i = 0; i < c->page_count; i++) {
        const struct parquet_page *p = &c->pages[i];
        if (!p->bounded)
            continue;
        if (!all.bounded || parquet_chunk_compare(c, p->min, all.min) < 0)
            all.min = p->min;
        if (!all.bounded || parquet_chunk_compare(c, p->max, all.max) > 0)
            all.max = p->max;
        all.bounded = true;
    }
    parquet_thrift_struct(t, field);
    parquet_thrift_i64(t, 3, (int64_t)c->nulls);
    if (all.bounded) {
        bound_of(c, &b, all.max, true);
        bool max_exact = b.exact;
        parquet_thrift_binary(t, 5, b.data, b.len);
        bound_of(c, &b, all.min, false);
        parquet_thrift_binary(t, 6, b.data, b.len);
        parquet_thrift_bool(t, 7, max_exact);
        parquet_thrift_bool(t, 8, b.exact);
    }
    parquet_thrift_close(t);
}

static void put_encoding_stat(struct parquet_thrift *t, int type, int encoding, size_t count)
{
    parquet_thrift_list_struct(t);
    parquet_thrift_i32(t, 1, type);
    parquet_thrift_i32(t, 2, encoding);
    parquet_thrift_i32(t, 3, (int32_t)count);
    parquet_thrift_close(t);
}

static void put_encodings(struct parquet_thrift *t, const size_t count[PARQUET_RLE_DICTIONARY + 1], bool dict)
{
    bool has[PARQUET_RLE_DICTIONARY + 1];
    size_t n = 0;

    for (int e = 0; e <= PARQUET_RLE_DICTIONARY; e++) {
        has[e] = count[e] > 0 || e == PARQUET_RLE || (e == PARQUET_PLAIN && dict);
        n += has[e];
    }
    parquet_thrift_list(t, 2, PARQUET_THRIFT_I32, n);
    for (int e = 0; e <= PARQUET_RLE_DICTIONARY; e++) {
        if (has[e])
            parquet_thrift_list_int(t, e);
    }
}

static void put_path(struct parquet_thrift *t, const struct parquet_chunk *c)
{
    parquet_thrift_list(t, 3, PARQUET_THRIFT_BINARY, c->is_list ? 3 : 1);
    parquet_thrift_list_binary(t, c->column->name, strlen(c->column->name));
    if (c->is_list) {
        parquet_thrift_list_binary(t, "list", 4);
        parquet_thrift_list_binary(t, "element", 7);
    }
}

int parquet_meta_chunk(struct kymo_buf *b, const struct parquet_chunk *c, const struct parquet_chunk_totals *totals,
                       enum parquet_encoding null_encoding)
{
    struct parquet_thrift t = parquet_thrift_begin(b);
    size_t count[PARQUET_RLE_DICTIONARY + 1] = {0}, kinds = totals->dict_offset > 0;

    for (size_t i = 0; i < c->page_count; i++)
        count[c->pages[i].len > 0 ? c->pages[i].encoding : null_encoding]++;
    for (int e = 0; e <= PARQUET_RLE_DICTIONARY; e++)
        kinds += count[e] > 0;
    parquet_thrift_i32(&t, 1, physical(c->leaf_type));
    put_encodings(&t, count, totals->dict_offset > 0);
    put_path(&t, c);
    parquet_thrift_i32(&t, 4, CODEC_ZSTD);
    parquet_thrift_i64(&t, 5, (int64_t)c->values);
    parquet_thrift_i64(&t, 6, (int64_t)totals->raw);
    parquet_thrift_i64(&t, 7, (int64_t)totals->packed);
    parquet_thrift_i64(&t, 9, (int64_t)totals->data_offset);
    if (totals->dict_offset > 0)
        parquet_thrift_i64(&t, 11, (int64_t)totals->dict_offset);
    put_statistics(&t, 12, c);
    parquet_thrift_list(&t, 13, PARQUET_THRIFT_STRUCT, kinds);
    if (totals->dict_offset > 0)
        put_encoding_stat(&t, PAGE_DICTIONARY, PARQUET_PLAIN, 1);
    for (int e = 0; e <= PARQUET_RLE_DICTIONARY; e++) {
        if (count[e] > 0)
            put_encoding_stat(&t, PAGE_DATA, e, count[e]);
    }
    return parquet_thrift_end(&t);
}

static bool is_null_page(const struct parquet_page *p)
{
    return p->nulls == p->levels;
}

bool parquet_meta_has_column_index(const struct parquet_chunk *c)
{
    for (size_t i = 0; i < c->page_count; i++) {
        if (!c->pages[i].bounded && !is_null_page(&c->pages[i]))
            return false;
    }
    return true;
}

static int boundary_order(const struct parquet_chunk *c)
{
    const struct parquet_page *last = NULL;
    bool up = true, down = true;

    for (size_t i = 0; i < c->page_count; i++) {
        const struct parquet_page *p = &c->pages[i];
        if (!p->bounded)
            continue;
        if (last) {
            int low = parquet_chunk_compare(c, p->min, last->min), high = parquet_chunk_compare(c, p->max, last->max);
            up = up && low >= 0 && high >= 0;
            down = down && low <= 0 && high <= 0;
        }
        last = p;
    }
    return up ? ASCENDING : down ? DESCENDING : UNORDERED;
}

static void put_bounds(struct parquet_thrift *t, int field, const struct parquet_chunk *c, bool greatest)
{
    struct bound b;

    parquet_thrift_list(t, field, PARQUET_THRIFT_BINARY, c->page_count);
    for (size_t i = 0; i < c->page_count; i++) {
        const struct parquet_page *p = &c->pages[i];
        if (!p->bounded) {
            parquet_thrift_list_binary(t, "", 0);
            continue;
        }
        bound_of(c, &b, greatest ? p->max : p->min, greatest);
        parquet_thrift_list_binary(t, b.data, b.len);
    }
}

int parquet_meta_column_index(struct kymo_buf *b, const struct parquet_chunk *c)
{
    struct parquet_thrift t = parquet_thrift_begin(b);

    parquet_thrift_list(&t, 1, PARQUET_THRIFT_TRUE, c->page_count);
    for (size_t i = 0; i < c->page_count; i++)
        parquet_thrift_list_bool(&t, is_null_page(&c->pages[i]));
    put_bounds(&t, 2, c, false);
    put_bounds(&t, 3, c, true);
    parquet_thrift_i32(&t, 4, boundary_order(c));
    parquet_thrift_list(&t, 5, PARQUET_THRIFT_I64, c->page_count);
    for (size_t i = 0; i < c->page_count; i++)
        parquet_thrift_list_int(&t, c->pages[i].nulls);
    return parquet_thrift_end(&t);
}

int parquet_meta_offset_index(struct kymo_buf *b, const struct parquet_place *places, size_t n)
{
    struct parquet_thrift t = parquet_thrift_begin(b);

    parquet_thrift_list(&t, 1, PARQUET_THRIFT_STRUCT, n);
    for (size_t i = 0; i < n; i++) {
        parquet_thrift_list_struct(&t);
        parquet_thrift_i64(&t, 1, (int64_t)places[i].offset);
        parquet_thrift_i32(&t, 2, (int32_t)places[i].len);
        parquet_thrift_i64(&t, 3, (int64_t)places[i].first_row);
        parquet_thrift_close(&t);
    }
    return parquet_thrift_end(&t);
}

static void put_logical(struct parquet_thrift *t, int converted, int logical)
{
    parquet_thrift_i32(t, 6, converted);
    parquet_thrift_struct(t, 10);
    parquet_thrift_struct(t, logical);
    parquet_thrift_close(t);
    parquet_thrift_close(t);
}

static void put_leaf(struct parquet_thrift *t, const char *name, enum kymo_type type, int repetition)
{
    parquet_thrift_list_struct(t);
    parquet_thrift_i32(t, 1, physical(type));
    parquet_thrift_i32(t, 3, repetition);
    parquet_thrift_string(t, 4, name);
    if (type == KYMO_TYPE_STRING)
        put_logical(t, CONVERTED_UTF8, LOGICAL_STRING);
    parquet_thrift_close(t);
}

static void put_list(struct parquet_thrift *t, const struct kymo_column *c, enum kymo_type leaf)
{
    parquet_thrift_list_struct(t);
    parquet_thrift_i32(t, 3, c->required ? REQUIRED : OPTIONAL);
    parquet_thrift_string(t, 4, c->name);
    parquet_thrift_i32(t, 5, 1);
    put_logical(t, CONVERTED_LIST, LOGICAL_LIST);
    parquet_thrift_close(t);
    parquet_thrift_list_struct(t);
    parquet_thrift_i32(t, 3, REPEATED);
    parquet_thrift_string(t, 4, "list");
    parquet_thrift_i32(t, 5, 1);
    parquet_thrift_close(t);
    put_leaf(t, "element", leaf, OPTIONAL);
}

static enum kymo_type list_leaf(enum kymo_type type, bool *ret_is_list)
{
    *ret_is_list = true;
    switch (type) {
    case KYMO_TYPE_LIST_INT32:
        return KYMO_TYPE_INT32;
    case KYMO_TYPE_LIST_INT64:
        return KYMO_TYPE_INT64;
    case KYMO_TYPE_LIST_STRING:
        return KYMO_TYPE_STRING;
    default:
        *ret_is_list = false;
        return type;
    }
}

static void put_schema(struct parquet_thrift *t, int field, const struct kymo_table *table)
{
    size_t n = 1;
    bool list;

    for (size_t i = 0; i < table->column_count; i++) {
        (void)list_leaf(table->columns[i].type, &list);
        n += list ? 3 : 1;
    }
    parquet_thrift_list(t, field, PARQUET_THRIFT_STRUCT, n);
    parquet_thrift_list_struct(t);
    parquet_thrift_string(t, 4, "schema");
    parquet_thrift_i32(t, 5, (int32_t)table->column_count);
    parquet_thrift_close(t);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct kymo_column *c = &table->columns[i];
        enum kymo_type leaf = list_leaf(c->type, &list);
        if (list)
            put_list(t, c, leaf);
        else
            put_leaf(t, c->name, leaf, c->required ? REQUIRED : OPTIONAL);
    }
}

static void put_group(struct parquet_thrift *t, const struct parquet_footer *f, size_t g)
{
    size_t columns = f->table->column_count;
    const struct parquet_chunk_meta *chunks = f->chunks + g * columns;
    uint64_t raw = 0, packed = 0;

    parquet_thrift_list_struct(t);
    parquet_thrift_list(t, 1, PARQUET_THRIFT_STRUCT, columns);
    for (size_t i = 0; i < columns; i++) {
        const struct parquet_chunk_meta *c = &chunks[i];
        raw += c->raw;
        packed += c->packed;
        parquet_thrift_list_struct(t);
        parquet_thrift_i64(t, 2, 0);
        parquet_thrift_ready(t, 3, f->meta + c->meta, c->meta_len);
        parquet_thrift_i64(t, 4, (int64_t)(f->offsets_at + c->offsets));
        parquet_thrift_i32(t, 5, (int32_t)c->offsets_len);
        if (c->columns_len > 0) {
            parquet_thrift_i64(t, 6, (int64_t)(f->columns_at + c->columns));
            parquet_thrift_i32(t, 7, (int32_t)c->columns_len);
        }
        parquet_thrift_close(t);
    }
    parquet_thrift_i64(t, 2, (int64_t)raw);
    parquet_thrift_i64(t, 3, (int64_t)f->groups[g].rows);
    if (f->groups[g].sorted_by >= 0) {
        parquet_thrift_list(t, 4, PARQUET_THRIFT_STRUCT, 1);
        parquet_thrift_list_struct(t);
        parquet_thrift_i32(t, 1, f->groups[g].sorted_by);
        parquet_thrift_bool(t, 2, false);
        parquet_thrift_bool(t, 3, false);
        parquet_thrift_close(t);
    }
    parquet_thrift_i64(t, 5, (int64_t)chunks[0].start);
    parquet_thrift_i64(t, 6, (int64_t)packed);
    parquet_thrift_close(t);
}

static void put_pair(struct parquet_thrift *t, const char *key, const char *value)
{
    parquet_thrift_list_struct(t);
    parquet_thrift_string(t, 1, key);
    parquet_thrift_string(t, 2, value);
    parquet_thrift_close(t);
}

static void put_kv(struct parquet_thrift *t, int field, const struct parquet_footer *f)
{
    size_t n = 0;

    while (f->kv && f->kv[2 * n] && f->kv[2 * n + 1])
        n++;
    parquet_thrift_list(t, field, PARQUET_THRIFT_STRUCT, n + 3);
    put_pair(t, "kymo.table", f->table->name);
    put_pair(t, "kymo.profile_schema_version", KYMO_SCHEMA_VERSION);
    put_pair(t, "kymo.schema_version", KYMO_SCHEMA_OWN_VERSION);
    for (size_t i = 0; i < n; i++)
        put_pair(t, f->kv[2 * i], f->kv[2 * i + 1]);
}

int parquet_meta_footer(struct kymo_buf *b, const struct parquet_footer *f)
{
    struct parquet_thrift t = parquet_thrift_begin(b);
    uint64_t rows = 0;

    for (size_t g = 0; g < f->group_count; g++)
        rows += f->groups[g].rows;
    parquet_thrift_i32(&t, 1, 2);
    put_schema(&t, 2, f->table);
    parquet_thrift_i64(&t, 3, (int64_t)rows);
    parquet_thrift_list(&t, 4, PARQUET_THRIFT_STRUCT, f->group_count);
    for (size_t g = 0; g < f->group_count; g++)
        put_group(&t, f, g);
    put_kv(&t, 5, f);
    parquet_thrift_string(&t, 6, "kymo version " KYMO_VERSION);
    /* Without it readers may not trust the bounds of strings. */
    parquet_thrift_list(&t, 7, PARQUET_THRIFT_STRUCT, f->table->column_count);
    for (size_t i = 0; i < f->table->column_count; i++) {
        parquet_thrift_list_struct(&t);
        parquet_thrift_struct(&t, 1);
        parquet_thrift_close(&t);
        parquet_thrift_close(&t);
    }
    return parquet_thrift_end(&t);
}
