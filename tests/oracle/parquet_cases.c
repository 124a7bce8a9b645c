/*
 * Writes Parquet files whose content test_parquet_readers.py works out again: every type, encoding and pattern of
 * nulls. usage: parquet_cases DIR CASE ROWS BATCH GROUP SPLIT CASE  values  scalars by value            ids   scalars
 * by dictionary number     map   by index and map (500 distinct) mixed   values and ids by turns     late  optional
 * columns null in the first half
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"

enum {
    SORTED,
    WIDE,
    I32,
    LOW,
    F32,
    F64,
    BOOLEAN,
    S_LOW,
    S_UNIQUE,
    S_LONG,
    S_NULL,
    L32,
    L64,
    L_STRING,
    I32_REQ,
    B_REQ,
    F64_REQ,
    RUNS,
    L_SHORT,
    COLUMNS
};
#define MAP_LEN 500
#define COL(n, t, r)                                                                                                   \
    {                                                                                                                  \
        .name = n, .type = KYMO_TYPE_##t, .required = r, .empty = r ? "" : NULL                                        \
    }

static const struct kymo_column columns[COLUMNS] = {
    [SORTED] = COL("sorted", INT64, true),
    [WIDE] = COL("wide", INT64, false),
    [I32] = COL("i32", INT32, false),
    [LOW] = COL("low", INT64, false),
    [F32] = COL("f32", FLOAT, false),
    [F64] = COL("f64", DOUBLE, false),
    [BOOLEAN] = COL("boolean", BOOL, false),
    [S_LOW] = COL("s_low", STRING, false),
    [S_UNIQUE] = COL("s_unique", STRING, true),
    [S_LONG] = COL("s_long", STRING, false),
    [S_NULL] = COL("s_null", STRING, false),
    [L32] = COL("l32", LIST_INT32, false),
    [L64] = COL("l64", LIST_INT64, true),
    [L_STRING] = COL("l_string", LIST_STRING, false),
    [I32_REQ] = COL("i32_req", INT32, true),
    [B_REQ] = COL("b_req", BOOL, true),
    [F64_REQ] = COL("f64_req", DOUBLE, true),
    [RUNS] = COL("runs", INT64, false),
    [L_SHORT] = COL("l_short", LIST_INT32, false),
};
static const struct kymo_table table = {"Cases", "test rows", columns, COLUMNS, "sorted", true};

static uint64_t mix(uint64_t row, uint64_t column)
{
    uint64_t z = (row * 1000003 + column * 7919 + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool is_null(unsigned c, uint64_t i)
{
    switch (c) {
    case WIDE:
        return mix(i, 100 + c) % 5 == 0;
    case I32:
    case F32:
    case F64:
        return mix(i, 100 + c) % 11 == 0;
    case LOW:
        return i % 1000 < 500;
    case BOOLEAN:
        return i % 3 == 0;
    case S_LOW:
    case L_STRING:
        return mix(i, 100 + c) % 13 == 0;
    case S_LONG:
        return i % 500 != 0;
    case S_NULL:
        return true;
    case L32:
        return i % 4 == 0;
    case L_SHORT:
        return i % 5 == 0;
    default:
        return false;
    }
}

static int64_t int_of(unsigned c, uint64_t i)
{
    uint64_t r = mix(i, c);

    switch (c) {
    case SORTED:
        return (int64_t)(i * 10 + r % 10);
    case WIDE:
        return i % 97 == 0 ? INT64_MIN : i % 97 == 1 ? INT64_MAX : (int64_t)r;
    case I32:
        return i % 97 == 0 ? INT32_MIN : i % 97 == 1 ? INT32_MAX : (int32_t)(uint32_t)r;
    case LOW:
        return (int64_t)(r % 7) - 3;
    case BOOLEAN:
    case B_REQ:
        return (int64_t)(r & 1);
    case I32_REQ:
        return 7;
    default:
        return (int64_t)(i / 1000 % 5);
    }
}

static double real_of(unsigned c, uint64_t i)
{
    /* Few enough for a dictionary, and too many. */
    uint64_t many = c == F64_REQ ? 2000 : 200;
    double v = ((double)(mix(i, c) % many) - (double)many / 2) / 8;

    return c == F32 && i % 53 == 0 ? NAN : v;
}

static uint32_t string_id(struct parquet_writer *w, unsigned c, uint64_t i, struct kymo_err *err)
{
    char s[400];
    uint64_t r = mix(i, c);

    s[0] = '\0';
    if (c == S_LOW && r % 50 > 0)
        (void)snprintf(s, sizeof s, "v%" PRIu64, r % 50);
    if (c == S_UNIQUE)
        (void)snprintf(s, sizeof s, "row-%" PRIu64 "-\xc3\xa9", i);
    if (c == S_LONG) {
        size_t n = 60 + i / 500 % 200;
        memset(s, 'x', n);
        memcpy(s + n, "\xc3\xbc", 3);
    }
    return parquet_writer_string_id(w, c, s, strlen(s), err);
}

static uint32_t list_id(struct parquet_writer *w, unsigned c, uint64_t i, struct kymo_err *err)
{
    uint64_t r = mix(i, c);
    int64_t v[8];
    char text[3][24];
    const char *s[3] = {text[0], text[1], text[2]};
    size_t n = c == L64 ? i % 3 : c == L_SHORT ? r % 2 : r % 4;

    if (c == L_STRING) {
        n = r % 3;
        (void)snprintf(text[0], sizeof text[0], "%s", r & 8 ? "a" : "");
        (void)snprintf(text[1], sizeof text[1], "b%" PRIu64, r % 100);
        return parquet_writer_string_list_id(w, c, s, n, err);
    }
    for (size_t k = 0; k < n; k++)
        v[k] = c == L64 ? (int64_t)(r >> k) : (int64_t)(r >> (4 * k + 8) & 7);
    return parquet_writer_list_id(w, c, v, n, err);
}

static uint32_t id_of(struct parquet_writer *w, unsigned c, uint64_t i, struct kymo_err *err)
{
    if (is_null(c, i))
        return PARQUET_NULL;
    if (columns[c].type == KYMO_TYPE_STRING)
        return string_id(w, c, i, err);
    if (columns[c].type >= KYMO_TYPE_LIST_INT32)
        return list_id(w, c, i, err);
    if (columns[c].type == KYMO_TYPE_FLOAT || columns[c].type == KYMO_TYPE_DOUBLE)
        return parquet_writer_float_id(w, c, real_of(c, i), err);
    return parquet_writer_int_id(w, c, int_of(c, i), err);
}

struct memory {
    uint64_t values[COLUMNS][PARQUET_BATCH_MAX];
    uint8_t valid[COLUMNS][PARQUET_BATCH_MAX];
    uint32_t ids[COLUMNS][PARQUET_BATCH_MAX], map[COLUMNS][MAP_LEN], index[PARQUET_BATCH_MAX];
};

static void put_value(struct memory *m, unsigned c, size_t at, uint64_t i)
{
    m->valid[c][at] = !is_null(c, i);
    if (columns[c].type == KYMO_TYPE_INT64)
        m->values[c][at] = (uint64_t)int_of(c, i);
    else if (columns[c].type == KYMO_TYPE_INT32)
        ((int32_t *)(void *)m->values[c])[at] = (int32_t)int_of(c, i);
    else if (columns[c].type == KYMO_TYPE_BOOL)
        ((uint8_t *)m->values[c])[at] = (uint8_t)int_of(c, i);
    else if (columns[c].type == KYMO_TYPE_FLOAT)
        ((float *)(void *)m->values[c])[at] = (float)real_of(c, i);
    else
        ((double *)(void *)m->values[c])[at] = real_of(c, i);
}

static bool has_values(unsigned c)
{
    return columns[c].type != KYMO_TYPE_STRING && columns[c].type < KYMO_TYPE_LIST_INT32;
}

/* How column c of the batch that starts at row `first` is given. */
static struct parquet_column give(struct parquet_writer *w, struct memory *m, const char *how, unsigned c,
                                  uint64_t first, size_t n, uint64_t rows, struct kymo_err *err)
{
    struct parquet_column out = {0};
    bool map = strcmp(how, "map") == 0 && c != SORTED;
    bool ids = strcmp(how, "ids") == 0 || (strcmp(how, "mixed") == 0 && first / n % 2);

    if (strcmp(how, "late") == 0 && !columns[c].required && first < rows / 2)
        return out;
    if (map)
        return (struct parquet_column){.index = m->index, .map = m->map[c], .map_len = MAP_LEN};
    if (has_values(c) && (!ids || c == SORTED)) {
        for (size_t k = 0; k < n; k++)
            put_value(m, c, k, first + k);
        return (struct parquet_column){.values = m->values[c], .valid = m->valid[c]};
    }
    for (size_t k = 0; k < n; k++)
        m->ids[c][k] = id_of(w, c, first + k, err);
    out.index = m->ids[c];
    return out;
}

static int write_rows(struct parquet_writer *w, struct memory *m, const char *how, uint64_t rows, size_t batch,
                      struct kymo_err *err)
{
    for (unsigned c = 0; c < COLUMNS && strcmp(how, "map") == 0; c++) {
        for (unsigned k = 0; k < MAP_LEN; k++)
            m->map[c][k] = id_of(w, c, k, err);
    }
    for (uint64_t first = 0; first < rows && err->code == 0; first += batch) {
        size_t n = rows - first < batch ? (size_t)(rows - first) : batch;
        struct parquet_column in[COLUMNS];
        for (size_t k = 0; k < n; k++)
            m->index[k] = (uint32_t)(mix(first + k, 99) % MAP_LEN);
        for (unsigned c = 0; c < COLUMNS; c++)
            in[c] = give(w, m, how, c, first, n, rows, err);
        if (err->code < 0 || parquet_writer_batch(w, in, n, err) < 0)
            break;
    }
    return err->code;
}

int main(int argc, char **argv)
{
    struct kymo_err err = {0};
    struct parquet_writer *w;

    if (argc != 7)
        return fprintf(stderr, "usage: parquet_cases DIR CASE ROWS BATCH GROUP SPLIT\n"), 2;
    struct parquet_options opt = {
        .rows_per_group = strtoull(argv[5], NULL, 10),
        .split_rows = strtoull(argv[6], NULL, 10),
        .kv = (const char *const[]){"case", argv[2], NULL},
    };
    struct memory *m = KYMO_NEW(struct memory);
    if (!m || parquet_writer_open(argv[1], &table, &opt, &w, &err) < 0)
        return fprintf(stderr, "%s\n", err.text), 1;
    int rc = write_rows(w, m, argv[2], strtoull(argv[3], NULL, 10), (size_t)strtoull(argv[4], NULL, 10), &err);
    if (rc == 0)
        rc = parquet_writer_finish(w, &err);
    else
        (void)parquet_writer_discard(w);
    kymo_free(m);
    if (rc < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    return rc < 0;
}
