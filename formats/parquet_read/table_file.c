#include "formats/parquet_read/table_file.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/parquet_read/table_thrift.h"

#define TAIL 8 /* length of the footer, magic */
#define CODEC_ZSTD 6
#define BOUND_MAX 64
#define ELEMENTS_MAX 65536 /* of a schema */

/* As the schema has it. */
struct leaf {
    size_t column; /* SIZE_MAX: not asked for */
};

struct opening {
    struct table_file *f;
    const char *const *names;
    struct table_thrift t;
    struct leaf *leaves; /* all of the file, lists' too, in the order of chunks */
    size_t n_leaves;
    bool ours, other; /* other: something is not as our writer makes it */
};

static enum table_type type_of(int64_t physical)
{
    static const enum table_type types[] = {
        [1] = TABLE_I32, [2] = TABLE_I64, [4] = TABLE_F32, [5] = TABLE_F64, [6] = TABLE_TEXT};
    return physical >= 0 && physical < (int64_t)(sizeof types / sizeof *types) ? types[physical] : TABLE_ABSENT;
}

static size_t find_name(const struct opening *o, const uint8_t *name, size_t n)
{
    for (size_t i = 0; i < o->f->n_columns; i++)
        if (strlen(o->names[i]) == n && !memcmp(o->names[i], name, n))
            return i;
    return SIZE_MAX;
}

/* Lists are groups of groups: what lies below the top level is not ours to read. */
static void read_element(struct opening *o, size_t *nested)
{
    struct table_thrift_field f = {0};
    const uint8_t *name = (const uint8_t *)"";
    size_t name_n = 0;
    int64_t type = -1, repetition = 0, children = 0;
    while (table_thrift_next(&o->t, &f)) {
        if (f.id == 1 && f.type == TABLE_THRIFT_I32)
            type = table_thrift_int(&o->t);
        else if (f.id == 3 && f.type == TABLE_THRIFT_I32)
            repetition = table_thrift_int(&o->t);
        else if (f.id == 4 && f.type == TABLE_THRIFT_BINARY)
            name = table_thrift_binary(&o->t, &name_n);
        else if (f.id == 5 && f.type == TABLE_THRIFT_I32)
            children = table_thrift_int(&o->t);
        else
            table_thrift_skip(&o->t, f.type);
    }
    size_t column = o->t.bad || !name ? SIZE_MAX : find_name(o, name, name_n);
    bool top = *nested == 0;
    if (!top)
        (*nested)--;
    if (children > 0) {
        *nested += (size_t)children;
        o->other |= top && column != SIZE_MAX;
        return;
    }
    o->leaves[o->n_leaves++].column = top ? column : SIZE_MAX;
    if (!top || column == SIZE_MAX)
        return;
    o->f->types[column] = type_of(type);
    o->f->optional[column] = repetition == 1;
    o->other |= o->f->types[column] == TABLE_ABSENT || repetition > 1;
}

static int read_schema(struct opening *o)
{
    size_t n = table_thrift_list(&o->t, TABLE_THRIFT_STRUCT), nested = 0;
    struct table_thrift_field root = {0};
    if (o->leaves || n == 0 || n > ELEMENTS_MAX)
        o->t.bad = true;
    else if (!(o->leaves = KYMO_NEW_ARRAY(struct leaf, n)))
        return -ENOMEM;
    while (!o->t.bad && table_thrift_next(&o->t, &root))
        table_thrift_skip(&o->t, root.type);
    for (size_t i = 1; i < n && !o->t.bad; i++) {
        read_element(o, &nested);
        /* So many are not left in any file that is whole. */
        if (nested > n)
            o->t.bad = true;
    }
    return 0;
}

static void read_bounds(struct table_thrift *t, struct table_chunk *c)
{
    struct table_thrift_field f = {0};
    while (table_thrift_next(t, &f)) {
        if ((f.id != 5 && f.id != 6) || f.type != TABLE_THRIFT_BINARY) {
            table_thrift_skip(t, f.type);
            continue;
        }
        size_t n;
        const uint8_t *at = table_thrift_binary(t, &n);
        if (!at || n > BOUND_MAX)
            continue;
        *(f.id == 5 ? &c->max : &c->min) = at;
        *(f.id == 5 ? &c->max_n : &c->min_n) = (uint8_t)n;
    }
}

static void read_meta(struct opening *o, struct table_chunk *c, int64_t *ret_codec)
{
    struct table_thrift_field f = {0};
    int64_t size = 0, data = -1, dictionary = -1;
    while (table_thrift_next(&o->t, &f)) {
        if (f.id == 4 && f.type == TABLE_THRIFT_I32)
            *ret_codec = table_thrift_int(&o->t);
        else if (f.id == 7 && f.type == TABLE_THRIFT_I64)
            size = table_thrift_int(&o->t);
        else if (f.id == 9 && f.type == TABLE_THRIFT_I64)
            data = table_thrift_int(&o->t);
        else if (f.id == 11 && f.type == TABLE_THRIFT_I64)
            dictionary = table_thrift_int(&o->t);
        else if (f.id == 12 && f.type == TABLE_THRIFT_STRUCT)
            read_bounds(&o->t, c);
        else
            table_thrift_skip(&o->t, f.type);
    }
    int64_t offset = dictionary > 0 && dictionary < data ? dictionary : data;
    if (offset < 0 || size < 0 || size > UINT32_MAX)
        o->t.bad = true;
    c->offset = (uint64_t)offset;
    c->size = (uint32_t)size;
}

static void read_chunk(struct opening *o, size_t group, size_t leaf)
{
    struct table_thrift_field f = {0};
    struct table_chunk c = {0};
    int64_t codec = CODEC_ZSTD;
    while (table_thrift_next(&o->t, &f)) {
        if (f.id == 3 && f.type == TABLE_THRIFT_STRUCT)
            read_meta(o, &c, &codec);
        else
            table_thrift_skip(&o->t, f.type);
    }
    size_t column = leaf < o->n_leaves ? o->leaves[leaf].column : SIZE_MAX;
    if (o->t.bad || column == SIZE_MAX)
        return;
    o->other |= codec != CODEC_ZSTD;
    o->f->chunks[group * o->f->n_columns + column] = c;
}

static void read_group(struct opening *o, size_t group)
{
    struct table_thrift_field f = {0};
    while (table_thrift_next(&o->t, &f)) {
        if (f.id == 1 && f.type == TABLE_THRIFT_LIST) {
            size_t n = table_thrift_list(&o->t, TABLE_THRIFT_STRUCT);
            if (n != o->n_leaves)
                o->t.bad = true;
            for (size_t i = 0; i < n && !o->t.bad; i++)
                read_chunk(o, group, i);
        } else if (f.id == 3 && f.type == TABLE_THRIFT_I64) {
            int64_t rows = table_thrift_int(&o->t);
            if (rows < 0 || rows > UINT32_MAX)
                o->t.bad = true;
            o->f->rows[group] = (uint32_t)rows;
        } else {
            table_thrift_skip(&o->t, f.type);
        }
    }
}

static int read_groups(struct opening *o)
{
    struct table_file *f = o->f;
    size_t n = table_thrift_list(&o->t, TABLE_THRIFT_STRUCT);
    if (f->rows || !o->leaves || n > TABLE_FILE_GROUPS_MAX)
        o->t.bad = true;
    if (o->t.bad)
        return 0;
    f->rows = KYMO_NEW_ARRAY(uint32_t, n + 1);
    f->chunks = KYMO_NEW_ARRAY(struct table_chunk, n * f->n_columns + 1);
    if (!f->rows || !f->chunks)
        return -ENOMEM;
    f->n_groups = n;
    for (size_t i = 0; i < n && !o->t.bad; i++)
        read_group(o, i);
    return 0;
}

static int read_footer(struct opening *o)
{
    static const char ours[] = "kymo version ";
    struct table_thrift_field f = {0};
    int r = 0;
    while (r == 0 && table_thrift_next(&o->t, &f)) {
        if (f.id == 2 && f.type == TABLE_THRIFT_LIST) {
            r = read_schema(o);
        } else if (f.id == 4 && f.type == TABLE_THRIFT_LIST) {
            r = read_groups(o);
        } else if (f.id == 6 && f.type == TABLE_THRIFT_BINARY) {
            size_t n;
            const uint8_t *by = table_thrift_binary(&o->t, &n);
            o->ours = by && n >= sizeof ours - 1 && !memcmp(by, ours, sizeof ours - 1);
        } else {
            table_thrift_skip(&o->t, f.type);
        }
    }
    return r;
}

static int load(struct opening *o, uint64_t size, struct kymo_err *err)
{
    struct table_file *f = o->f;
    uint8_t tail[TAIL];
    if (size < TAIL + 4)
        return kymo_err_set(err, -EBADMSG, "%s: too short for a table", f->path);
    int r = kymo_file_pread_all(f->fd, tail, TAIL, size - TAIL, f->path, err);
    if (r < 0)
        return r;
    uint32_t n = kymo_le32(tail);
    if (memcmp(tail + 4, "PAR1", 4) != 0 || n > size - TAIL - 4)
        return kymo_err_set(err, -EBADMSG, "%s: no footer of Parquet", f->path);
    if (n > TABLE_FILE_FOOTER_MAX)
        return kymo_err_set(err, -ENOTSUP, "%s: a footer of %u bytes", f->path, n);
    if (!(f->footer = kymo_malloc((size_t)n + 1)))
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a footer", f->path);
    r = kymo_file_pread_all(f->fd, f->footer, n, size - TAIL - n, f->path, err);
    if (r < 0)
        return r;
    o->t = (struct table_thrift){.at = f->footer, .end = f->footer + n};
    r = read_footer(o);
    if (r < 0)
        return kymo_err_set(err, r, "%s: no memory for a footer", f->path);
    if (o->t.bad)
        return kymo_err_set(err, -EBADMSG, "%s: the footer is broken at byte %llu", f->path,
                            (unsigned long long)(size - TAIL - n + (uint64_t)(o->t.at - f->footer)));
    return o->ours && !o->other ? 0 : kymo_err_set(err, -ENOTSUP, "%s: not as kymo writes tables", f->path);
}

static void freep(struct table_file **f)
{
    *f = table_file_free(*f);
}

int table_file_open(const char *path, const char *const *columns, size_t n, struct table_file **ret,
                    struct kymo_err *err)
{
    struct table_file *f KYMO_CLEANUP(freep) = KYMO_NEW(struct table_file);
    if (!f)
        return kymo_err_set(err, -ENOMEM, "no memory for a table");
    f->fd = -1;
    if (n > TABLE_FILE_COLUMNS_MAX)
        return kymo_err_set(err, -E2BIG, "%zu columns of one table", n);
    if (!(f->path = kymo_strdup(path)))
        return kymo_err_set(err, -ENOMEM, "no memory for a table");
    struct opening o = {.f = f, .names = columns};
    uint64_t size = 0;
    f->n_columns = n;
    f->fd = kymo_file_open_regular(path, &size, err);
    int r = f->fd < 0 ? f->fd : load(&o, size, err);
    kymo_free(o.leaves);
    if (r < 0)
        return r;
    *ret = KYMO_TAKE(f);
    return 0;
}

struct table_file *table_file_free(struct table_file *f)
{
    if (!f)
        return NULL;
    (void)kymo_file_close(f->fd);
    kymo_free(f->path);
    kymo_free(f->footer);
    kymo_free(f->rows);
    kymo_free(f->chunks);
    kymo_free(f);
    return NULL;
}

static int64_t bound(const struct table_file *f, size_t column, const uint8_t *at, size_t n, int64_t otherwise)
{
    if (f->types[column] == TABLE_I64 && n == 8)
        return (int64_t)kymo_le64(at);
    return f->types[column] == TABLE_I32 && n == 4 ? (int32_t)kymo_le32(at) : otherwise;
}

int64_t table_file_min(const struct table_file *f, size_t group, size_t column, int64_t otherwise)
{
    const struct table_chunk *c = &f->chunks[group * f->n_columns + column];
    return bound(f, column, c->min, c->min_n, otherwise);
}

int64_t table_file_max(const struct table_file *f, size_t group, size_t column, int64_t otherwise)
{
    const struct table_chunk *c = &f->chunks[group * f->n_columns + column];
    return bound(f, column, c->max, c->max_n, otherwise);
}

bool table_file_may_have(const struct table_file *f, size_t group, size_t column, int64_t from, int64_t to)
{
    return table_file_min(f, group, column, from) <= to && table_file_max(f, group, column, to) >= from;
}

static int compare(const uint8_t *bound, size_t n, const char *text)
{
    size_t len = strlen(text);
    int c = memcmp(bound, text, n < len ? n : len);
    return c ? c : (n > len) - (n < len);
}

bool table_file_may_have_text(const struct table_file *f, size_t group, size_t column, const char *text)
{
    const struct table_chunk *c = &f->chunks[group * f->n_columns + column];
    if (f->types[column] != TABLE_TEXT || !c->min_n || !c->max_n)
        return true;
    return compare(c->min, c->min_n, text) <= 0 && compare(c->max, c->max_n, text) >= 0;
}
