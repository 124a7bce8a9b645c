#include "formats/parquet/parquet_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/parquet/parquet_chunk.h"
#include "formats/parquet/parquet_file.h"
#include "formats/parquet/parquet_pending.h"

#define ROWS_PER_GROUP (1u << 17)
#define ROWS_PER_GROUP_MAX ((uint64_t)1 << 26)
#define KV_MAX 64
#define PARTS_MAX 1000000u
/* A batch of at least this many rows is a page of its own rather than copied. */
#define DIRECT_ROWS 32768

struct parquet_writer {
    char *dir;
    const struct kymo_table *table;
    uint64_t rows_per_group, split_rows;
    char **kv;
    struct parquet_chunk *chunks;
    struct parquet_pending *pending;
    struct parquet_work work;
    struct parquet_file file;
    bool open;      /* a part is being written */
    unsigned parts; /* begun */
    uint64_t rows, part_rows, group_rows;
    size_t waiting;  /* rows in pending, not counted in the others */
    int sort_column; /* or -1 */
    int failed;
};

static char *part_path(const struct parquet_writer *w, unsigned part, bool temporary)
{
    const char *before = temporary ? "." : "", *after = temporary ? ".tmp" : "";

    if (w->split_rows == 0)
        return kymo_asprintf("%s/%s%s.parquet%s", w->dir, before, w->table->name, after);
    return kymo_asprintf("%s/%s%s_%u.parquet%s", w->dir, before, w->table->name, part, after);
}

static void free_kv(char **kv)
{
    for (size_t i = 0; kv && kv[i]; i++)
        kymo_free(kv[i]);
    kymo_free(kv);
}

static int copy_kv(const char *const *kv, char ***ret)
{
    size_t n = 0;

    while (kv && n < KV_MAX && kv[n] && kv[n + 1])
        n += 2;
    char **copy = KYMO_NEW_ARRAY(char *, n + 1);
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        copy[i] = kymo_strdup(kv[i]);
        if (!copy[i]) {
            free_kv(copy);
            return -ENOMEM;
        }
    }
    *ret = copy;
    return 0;
}

static void free_writer(struct parquet_writer *w)
{
    for (size_t i = 0; w->chunks && i < w->table->column_count; i++)
        parquet_chunk_done(&w->chunks[i]);
    for (size_t i = 0; w->pending && i < w->table->column_count; i++)
        parquet_pending_done(&w->pending[i]);
    kymo_free(w->chunks);
    kymo_free(w->pending);
    parquet_work_done(&w->work);
    parquet_file_done(&w->file);
    free_kv(w->kv);
    kymo_free(w->dir);
    kymo_free(w);
}

static int fill(struct parquet_writer *w, const char *dir, const struct parquet_options *opt)
{
    size_t n = w->table->column_count;

    w->rows_per_group = opt && opt->rows_per_group ? opt->rows_per_group : ROWS_PER_GROUP;
    w->split_rows = opt ? opt->split_rows : 0;
    if (w->rows_per_group > ROWS_PER_GROUP_MAX)
        return -EINVAL;
    w->dir = kymo_strdup(dir);
    w->chunks = KYMO_NEW_ARRAY(struct parquet_chunk, n);
    w->pending = KYMO_NEW_ARRAY(struct parquet_pending, n);
    if (!w->dir || !w->chunks || !w->pending)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        parquet_chunk_init(&w->chunks[i], &w->table->columns[i]);
    int rc = copy_kv(opt ? opt->kv : NULL, &w->kv);
    return rc < 0 ? rc : parquet_work_init(&w->work, opt && opt->zstd_level ? opt->zstd_level : 1);
}

int parquet_writer_open(const char *dir, const struct kymo_table *table, const struct parquet_options *opt,
                        struct parquet_writer **ret, struct kymo_err *err)
{
    struct parquet_writer *w = KYMO_NEW(struct parquet_writer);
    if (!w)
        return kymo_err_set(err, -ENOMEM, "%s: table %s: no memory", dir, table->name);
    w->table = table;
    w->sort_column = table->sort_column ? kymo_schema_column(table, table->sort_column) : -1;
    parquet_file_init(&w->file, table);
    int rc = fill(w, dir, opt);
    if (rc < 0) {
        free_writer(w);
        return kymo_err_set(err, rc, "%s: table %s: %s", dir, table->name,
                            rc == -ENOMEM ? "no memory" : "an option is out of range");
    }
    *ret = w;
    return 0;
}

static int open_part(struct parquet_writer *w, struct kymo_err *err)
{
    if (w->parts >= PARTS_MAX)
        return kymo_err_set(err, -EFBIG, "%s: table %s: more than %u parts", w->dir, w->table->name, PARTS_MAX);
    char *path KYMO_FREE = part_path(w, w->parts, true);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "%s: table %s: no memory", w->dir, w->table->name);
    /* Counted before it is there, so that a file that cannot be begun is removed too. */
    w->parts++;
    int rc = parquet_file_open(&w->file, path, err);
    if (rc < 0)
        return rc;
    w->open = true;
    w->part_rows = 0;
    return 0;
}

static int end_group(struct parquet_writer *w, struct kymo_err *err)
{
    if (w->group_rows == 0)
        return 0;
    int sorted = w->sort_column >= 0 && !w->chunks[w->sort_column].unsorted ? w->sort_column : -1;
    int rc = parquet_file_group(&w->file, w->chunks, w->group_rows, sorted, &w->work, err);
    if (rc == 0)
        w->group_rows = 0;
    return rc;
}

static int end_part(struct parquet_writer *w, struct kymo_err *err)
{
    int rc = end_group(w, err);

    if (rc == 0)
        rc = parquet_file_finish(&w->file, w->kv, err);
    if (rc < 0)
        return rc;
    parquet_file_done(&w->file);
    w->open = false;
    return 0;
}

static int put_page(struct parquet_writer *w, const struct parquet_column *columns, size_t at, size_t n,
                    struct kymo_err *err)
{
    parquet_work_page(&w->work);
    for (size_t i = 0; i < w->table->column_count; i++) {
        struct parquet_column in = parquet_column_from(&columns[i], &w->table->columns[i], at);
        int rc = parquet_chunk_rows(&w->chunks[i], &w->work, &in, n, err);
        if (rc < 0) {
            kymo_err_prefix(err, "table %s", w->table->name);
            return rc;
        }
    }
    w->group_rows += n;
    w->part_rows += n;
    return 0;
}

static int flush_waiting(struct parquet_writer *w, struct kymo_err *err)
{
    if (w->waiting == 0)
        return 0;
    parquet_work_page(&w->work);
    for (size_t i = 0; i < w->table->column_count; i++) {
        struct parquet_column in = parquet_pending_take(&w->pending[i]);
        int rc = parquet_chunk_rows(&w->chunks[i], &w->work, &in, w->waiting, err);
        if (rc < 0) {
            kymo_err_prefix(err, "table %s", w->table->name);
            return rc;
        }
    }
    w->group_rows += w->waiting;
    w->part_rows += w->waiting;
    w->waiting = 0;
    return 0;
}

static int wait_rows(struct parquet_writer *w, const struct parquet_column *columns, size_t at, size_t n,
                     struct kymo_err *err)
{
    for (size_t i = 0; i < w->table->column_count; i++) {
        struct parquet_column in = parquet_column_from(&columns[i], &w->table->columns[i], at);
        int rc = parquet_pending_append(&w->pending[i], &w->chunks[i], &in, n, w->waiting);
        if (rc < 0)
            return kymo_err_set(err, rc, "table %s: column %s: %s", w->table->name, w->table->columns[i].name,
                                rc == -ENOMEM ? "no memory" : "strings and lists by index, within map and dictionary");
    }
    w->waiting += n;
    return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Rows from at on, as many as fit into the page, row group and part that are being filled. */
static int put_rows(struct parquet_writer *w, const struct parquet_column *columns, size_t at, size_t n, size_t *ret,
                    struct kymo_err *err)
{
    int rc = w->open ? 0 : open_part(w, err);
    if (rc < 0)
        return rc;
    uint64_t left = w->rows_per_group - w->group_rows;
    if (w->split_rows > 0)
        left = least(left, w->split_rows - w->part_rows);
    left = least(left, PARQUET_BATCH_MAX);
    size_t take = (size_t)least(left - w->waiting, n);
    if (w->waiting == 0 && (take >= DIRECT_ROWS || take == left))
        rc = put_page(w, columns, at, take, err);
    else
        rc = wait_rows(w, columns, at, take, err);
    if (rc == 0 && w->waiting == left)
        rc = flush_waiting(w, err);
    if (rc == 0 && w->group_rows == w->rows_per_group)
        rc = end_group(w, err);
    if (rc == 0 && w->split_rows > 0 && w->part_rows == w->split_rows)
        rc = end_part(w, err);
    *ret = take;
    return rc;
}

int parquet_writer_batch(struct parquet_writer *w, const struct parquet_column *columns, size_t n, struct kymo_err *err)
{
    if (w->failed < 0)
        return kymo_err_set(err, w->failed, "%s: table %s: writing failed before", w->dir, w->table->name);
    if (n > PARQUET_BATCH_MAX)
        return kymo_err_set(err, -EINVAL, "table %s: a batch of %zu rows, %d are the most", w->table->name, n,
                            PARQUET_BATCH_MAX);
    for (size_t at = 0, took = 0; at < n; at += took) {
        int rc = put_rows(w, columns, at, n - at, &took, err);
        if (rc < 0)
            return w->failed = rc;
    }
    w->rows += n;
    return 0;
}

uint64_t parquet_writer_rows(const struct parquet_writer *w)
{
    return w->rows;
}

/* What went wrong first is reported; what cannot be removed stays, as there is nobody left to tell. */
static void remove_parts(struct parquet_writer *w)
{
    for (unsigned i = 0; i < w->parts; i++) {
        for (int temporary = 0; temporary < 2; temporary++) {
            char *path KYMO_FREE = part_path(w, i, temporary);
            if (path)
                (void)kymo_file_ops()->unlink(path);
        }
    }
}

static int publish(struct parquet_writer *w, struct kymo_err *err)
{
    for (unsigned i = 0; i < w->parts; i++) {
        char *from KYMO_FREE = part_path(w, i, true);
        char *to KYMO_FREE = part_path(w, i, false);
        if (!from || !to)
            return kymo_err_set(err, -ENOMEM, "%s: table %s: no memory", w->dir, w->table->name);
        int rc = kymo_file_rename(from, to, err);
        if (rc < 0)
            return rc;
    }
    return kymo_file_sync_dir(w->dir, err);
}

int parquet_writer_finish(struct parquet_writer *w, struct kymo_err *err)
{
    int rc = w->failed;

    if (rc < 0)
        (void)kymo_err_set(err, rc, "%s: table %s: writing failed before", w->dir, w->table->name);
    if (rc == 0 && w->open) {
        rc = flush_waiting(w, err);
        if (rc == 0)
            rc = end_part(w, err);
    }
    if (rc == 0 && w->parts > 0)
        rc = publish(w, err);
    if (rc < 0)
        remove_parts(w);
    free_writer(w);
    return rc;
}

struct parquet_writer *parquet_writer_discard(struct parquet_writer *w)
{
    if (w) {
        remove_parts(w);
        free_writer(w);
    }
    return NULL;
}

static uint32_t id_failed(struct parquet_writer *w, unsigned column, int rc, const char *why, struct kymo_err *err)
{
    (void)kymo_err_set(err, rc, "table %s: column %u: %s", w->table->name, column, why);
    return PARQUET_NULL;
}

static struct parquet_chunk *chunk_of(struct parquet_writer *w, unsigned column, bool list, bool right)
{
    if (column >= w->table->column_count || !right)
        return NULL;
    struct parquet_chunk *c = &w->chunks[column];
    return c->is_list == list ? c : NULL;
}

static bool has_type(const struct parquet_writer *w, unsigned column, enum kymo_type a, enum kymo_type b)
{
    return column < w->table->column_count && (w->chunks[column].leaf_type == a || w->chunks[column].leaf_type == b);
}

uint32_t parquet_writer_string_id(struct parquet_writer *w, unsigned column, const char *s, size_t len,
                                  struct kymo_err *err)
{
    struct parquet_chunk *c = chunk_of(w, column, false, has_type(w, column, KYMO_TYPE_STRING, KYMO_TYPE_STRING));
    uint32_t id;

    if (!c || len > PARQUET_STRING_MAX)
        return id_failed(w, column, -EINVAL, c ? "a string is too long" : "not a column of strings", err);
    int rc = parquet_dict_bytes(&c->leaf, s, len, &id);
    return rc < 0 ? id_failed(w, column, rc, "too many values, or no memory", err) : id;
}

bool parquet_writer_forget(struct parquet_writer *w, unsigned column)
{
    if (column >= w->table->column_count || w->group_rows || w->waiting)
        return false;
    parquet_chunk_forget(&w->chunks[column]);
    return true;
}

static int int_bits(const struct parquet_chunk *c, int64_t v, uint64_t *ret)
{
    if (c->leaf_type == KYMO_TYPE_INT32 && (v < INT32_MIN || v > INT32_MAX))
        return -ERANGE;
    *ret = (uint64_t)(c->leaf_type == KYMO_TYPE_BOOL ? v != 0 : v);
    return 0;
}

uint32_t parquet_writer_int_id(struct parquet_writer *w, unsigned column, int64_t v, struct kymo_err *err)
{
    bool right =
        has_type(w, column, KYMO_TYPE_INT64, KYMO_TYPE_INT32) || has_type(w, column, KYMO_TYPE_BOOL, KYMO_TYPE_BOOL);
    struct parquet_chunk *c = chunk_of(w, column, false, right);
    uint64_t bits;
    uint32_t id;

    if (!c)
        return id_failed(w, column, -EINVAL, "not a column of integers", err);
    int rc = int_bits(c, v, &bits);
    if (rc == 0)
        rc = parquet_dict_scalar(&c->leaf, bits, &id);
    return rc < 0 ? id_failed(w, column, rc, "out of range, too many values, or no memory", err) : id;
}

uint32_t parquet_writer_float_id(struct parquet_writer *w, unsigned column, double v, struct kymo_err *err)
{
    struct parquet_chunk *c = chunk_of(w, column, false, has_type(w, column, KYMO_TYPE_FLOAT, KYMO_TYPE_DOUBLE));
    uint64_t bits;
    uint32_t id;

    if (!c)
        return id_failed(w, column, -EINVAL, "not a column of real numbers", err);
    if (c->leaf_type == KYMO_TYPE_FLOAT)
        v = (double)(float)v;
    memcpy(&bits, &v, sizeof bits);
    int rc = parquet_dict_scalar(&c->leaf, bits, &id);
    return rc < 0 ? id_failed(w, column, rc, "too many values, or no memory", err) : id;
}

/* The list whose elements' numbers are ids[0..n). */
static uint32_t list_id(struct parquet_writer *w, unsigned column, int rc, const uint32_t *ids, size_t n,
                        struct kymo_err *err)
{
    uint32_t id = 0;

    if (rc == 0)
        rc = parquet_dict_bytes(&w->chunks[column].lists, ids, n * sizeof *ids, &id);
    return rc < 0 ? id_failed(w, column, rc, "out of range, too many values, or no memory", err) : id;
}

uint32_t parquet_writer_list_id(struct parquet_writer *w, unsigned column, const int64_t *v, size_t n,
                                struct kymo_err *err)
{
    struct parquet_chunk *c = chunk_of(w, column, true, has_type(w, column, KYMO_TYPE_INT64, KYMO_TYPE_INT32));
    int rc = 0;

    if (!c || n > PARQUET_LIST_MAX)
        return id_failed(w, column, -EINVAL, c ? "a list is too long" : "not a column of lists of integers", err);
    uint32_t *ids KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, n);
    if (!ids)
        return id_failed(w, column, -ENOMEM, "no memory", err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        uint64_t bits;
        rc = int_bits(c, v[i], &bits);
        if (rc == 0)
            rc = parquet_dict_scalar(&c->leaf, bits, &ids[i]);
    }
    return list_id(w, column, rc, ids, n, err);
}

uint32_t parquet_writer_string_list_id(struct parquet_writer *w, unsigned column, const char *const *v, size_t n,
                                       struct kymo_err *err)
{
    struct parquet_chunk *c = chunk_of(w, column, true, has_type(w, column, KYMO_TYPE_STRING, KYMO_TYPE_STRING));
    int rc = 0;

    if (!c || n > PARQUET_LIST_MAX)
        return id_failed(w, column, -EINVAL, c ? "a list is too long" : "not a column of lists of strings", err);
    uint32_t *ids KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, n);
    if (!ids)
        return id_failed(w, column, -ENOMEM, "no memory", err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t len = strlen(v[i]);
        rc = len > PARQUET_STRING_MAX ? -EINVAL : parquet_dict_bytes(&c->leaf, v[i], len, &ids[i]);
    }
    return list_id(w, column, rc, ids, n, err);
}
