/* The Parquet writer's encoders against bytes worked out by hand, and its behaviour when things go wrong. What readers
 * make of whole files is in tests/oracle/test_parquet_readers.py. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/parquet/parquet_dict.h"
#include "formats/parquet/parquet_index.h"
#include "formats/parquet/parquet_rle.h"
#include "formats/parquet/parquet_split.h"
#include "formats/parquet/parquet_thrift.h"
#include "formats/parquet/parquet_writer.h"

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static struct kymo_buf buffer(void)
{
    struct kymo_buf b;

    kymo_buf_init(&b, 1 << 24);
    return b;
}

static void expect_bytes(struct kymo_buf *b, const uint8_t *want, size_t n)
{
    assert_int_equal(b->len, n);
    assert_memory_equal(b->data, want, n);
    kymo_buf_done(b);
}

static void thrift_bytes(void **state)
{
    (void)state;
    struct kymo_buf b = buffer();
    struct parquet_thrift t = parquet_thrift_begin(&b);

    parquet_thrift_i32(&t, 1, 2);
    parquet_thrift_i64(&t, 3, -1);
    parquet_thrift_string(&t, 4, "ab");
    parquet_thrift_bool(&t, 30, true);
    parquet_thrift_struct(&t, 31);
    parquet_thrift_i32(&t, 1, 300);
    parquet_thrift_close(&t);
    parquet_thrift_list(&t, 32, PARQUET_THRIFT_I32, 2);
    parquet_thrift_list_int(&t, 1);
    parquet_thrift_list_int(&t, -2);
    assert_int_equal(parquet_thrift_end(&t), 0);
    expect_bytes(&b,
                 BYTES(0x15, 4, 0x26, 1, 0x18, 2, 'a', 'b', 0x01, 60, 0x1c, 0x15, 0xd8, 0x04, 0, 0x19, 0x25, 2, 3, 0));
}

static void thrift_keeps_its_first_error(void **state)
{
    (void)state;
    struct kymo_buf b;

    kymo_buf_init(&b, 4);
    struct parquet_thrift t = parquet_thrift_begin(&b);
    parquet_thrift_string(&t, 1, "longer than four bytes");
    parquet_thrift_i32(&t, 2, 1);
    assert_int_equal(parquet_thrift_end(&t), -ENOBUFS);
    kymo_buf_done(&b);
}

static void varints(void **state)
{
    (void)state;
    uint8_t out[PARQUET_VARINT_MAX];

    assert_int_equal(parquet_varint(0, out), 1);
    assert_int_equal(parquet_varint(127, out), 1);
    assert_int_equal(parquet_varint(128, out), 2);
    assert_memory_equal(out, "\x80\x01", 2);
    assert_int_equal(parquet_varint(UINT64_MAX, out), 10);
    assert_true(parquet_zigzag(INT64_MIN) == UINT64_MAX);
    assert_int_equal(parquet_zigzag(-1), 1);
    assert_int_equal(parquet_zigzag(1), 2);
}

static void rle_bytes(void **state)
{
    (void)state;
    struct kymo_buf b = buffer();
    uint32_t v[128];

    for (uint32_t i = 0; i < 8; i++)
        v[i] = i;
    assert_int_equal(parquet_rle_append(&b, v, 8, 3), 0);
    expect_bytes(&b, BYTES(0x03, 0x88, 0xc6, 0xfa));

    for (size_t i = 0; i < 100; i++)
        v[i] = 4;
    assert_int_equal(parquet_rle_append(&b, v, 100, 3), 0);
    expect_bytes(&b, BYTES(0xc8, 0x01, 4));

    /* Five values are one group with three of padding. */
    for (uint32_t i = 0; i < 5; i++)
        v[i] = 1;
    assert_int_equal(parquet_rle_append(&b, v, 5, 1), 0);
    expect_bytes(&b, BYTES(0x03, 0x1f));

    assert_int_equal(parquet_rle_append_run(&b, 0x1234, 3, 13), 0);
    expect_bytes(&b, BYTES(0x06, 0x34, 0x12));
    assert_int_equal(parquet_rle_append(&b, v, 0, 1), 0);
    assert_int_equal(b.len, 0);
    kymo_buf_done(&b);
}

static uint64_t bits_at(const uint8_t *p, size_t at, unsigned width)
{
    uint64_t v = 0;

    for (unsigned k = 0; k < width; k++)
        v |= (uint64_t)(p[(at + k) / 8] >> ((at + k) % 8) & 1) << k;
    return v;
}

static uint64_t read_varint(const uint8_t **p)
{
    uint64_t v = 0;

    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*p)++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
}

/* The hybrid read back, a value at a time. */
static size_t read_rle(const struct kymo_buf *b, unsigned width, uint32_t *out, size_t n)
{
    const uint8_t *p = b->data, *end = b->data + b->len;
    size_t got = 0;

    while (p < end && got < n) {
        uint64_t head = read_varint(&p), count = head & 1 ? (head >> 1) * 8 : head >> 1;
        for (uint64_t k = 0; k < count && got < n; k++)
            out[got++] = (uint32_t)(head & 1 ? bits_at(p, k * width, width) : bits_at(p, 0, width));
        p += head & 1 ? (head >> 1) * width : (width + 7) / 8;
    }
    assert_ptr_equal(p, end);
    return got;
}

static void rle_round_trips(void **state)
{
    (void)state;
    static uint32_t v[1200], copy[1200], back[1200];
    uint64_t seed = 1;

    for (unsigned width = 1; width <= 32; width++) {
        for (size_t n = 1; n < 1100; n += 97) {
            struct kymo_buf b = buffer();
            for (size_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                /* Runs of all lengths, and noise between them. */
                bool run = i > 0 && (i / 60) % 3 != 1;
                v[i] = run ? v[i - 1] : (uint32_t)(seed >> 32) & (uint32_t)((1ull << width) - 1);
            }
            memcpy(copy, v, sizeof copy);
            assert_int_equal(parquet_rle_append(&b, v, n, width), 0);
            assert_int_equal(read_rle(&b, width, back, n), n);
            assert_memory_equal(back, copy, n * sizeof *back);
            kymo_buf_done(&b);
        }
    }
}

static void delta_bytes(void **state)
{
    (void)state;
    struct kymo_buf b = buffer();

    assert_int_equal(parquet_delta_append64(&b, (const int64_t[]){1, 2, 3, 4, 5}, 5), 0);
    expect_bytes(&b, BYTES(0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0));
    assert_int_equal(parquet_delta_append32(&b, (const int32_t[]){7, 5, 3, 1, 2, 3, 4, 5}, 8), 0);
    expect_bytes(&b, BYTES(0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0));
    assert_int_equal(parquet_delta_append64(&b, NULL, 0), 0);
    expect_bytes(&b, BYTES(0x80, 1, 4, 0, 0));
    assert_int_equal(parquet_delta_append64(&b, (const int64_t[]){-3}, 1), 0);
    expect_bytes(&b, BYTES(0x80, 1, 4, 1, 5));
}

static void read_delta(const struct kymo_buf *b, int64_t *out, size_t n, bool narrow)
{
    const uint8_t *p = b->data;

    assert_int_equal(read_varint(&p), 128);
    assert_int_equal(read_varint(&p), 4);
    assert_int_equal(read_varint(&p), n);
    uint64_t z = read_varint(&p), last = (z >> 1) ^ -(z & 1);
    out[0] = (int64_t)last;
    for (size_t at = 1; at < n; at += 128) {
        z = read_varint(&p);
        uint64_t least = (z >> 1) ^ -(z & 1);
        const uint8_t *widths = p;
        p += 4;
        for (unsigned m = 0; m < 4 && at + m * 32 < n; m++) {
            for (size_t k = 0; k < 32 && at + m * 32 + k < n; k++) {
                last += least + bits_at(p, k * widths[m], widths[m]);
                out[at + m * 32 + k] = narrow ? (int32_t)(uint32_t)last : (int64_t)last;
            }
            p += 4 * widths[m];
        }
    }
    assert_ptr_equal(p, b->data + b->len);
}

static void delta_round_trips(void **state)
{
    (void)state;
    static int64_t v[700], back[700];
    static int32_t narrow[700];

    for (unsigned width = 0; width <= 64; width++) {
        for (size_t n = 1; n < 700; n += 61) {
            uint64_t seed = width * 31 + n;
            for (size_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                uint64_t noise = width == 0 ? 0 : seed >> (64 - width);
                v[i] = i % 50 == 7 && width == 64 ? INT64_MIN : i % 50 == 8 && width == 64 ? INT64_MAX : (int64_t)noise;
                narrow[i] = (int32_t)(uint32_t)v[i];
            }
            struct kymo_buf b = buffer();
            assert_int_equal(parquet_delta_append64(&b, v, n), 0);
            read_delta(&b, back, n, false);
            assert_memory_equal(back, v, n * sizeof *v);
            kymo_buf_reset(&b);
            assert_int_equal(parquet_delta_append32(&b, narrow, n), 0);
            read_delta(&b, back, n, true);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(back[i], narrow[i]);
            kymo_buf_done(&b);
        }
    }
}

static void bools(void **state)
{
    (void)state;
    uint8_t out[3] = {0};

    parquet_pack_bools((const uint8_t[]){1, 0, 0, 2, 0, 0, 0, 255, 0, 1, 128}, 11, out);
    assert_memory_equal(out, "\x89\x06\x00", 3);
}

static void dictionary(void **state)
{
    (void)state;
    struct parquet_dict d;
    uint32_t a, b, c, id;

    parquet_dict_init(&d, PARQUET_ORDER_BYTES);
    assert_int_equal(parquet_dict_bytes(&d, "beta", 4, &a), 0);
    assert_int_equal(parquet_dict_bytes(&d, "", 0, &b), 0);
    assert_int_equal(parquet_dict_bytes(&d, "be", 2, &c), 0);
    assert_true(a == 0 && b == 1 && c == 2);
    assert_int_equal(parquet_dict_bytes(&d, "beta", 4, &id), 0);
    assert_int_equal(id, a);
    assert_true(parquet_dict_compare(&d, b, c) < 0 && parquet_dict_compare(&d, c, a) < 0);
    for (unsigned i = 0; i < 5000; i++) {
        char s[32];
        int n = snprintf(s, sizeof s, "value %u", i);
        assert_int_equal(parquet_dict_bytes(&d, s, (size_t)n, &id), 0);
        assert_int_equal(id, i + 3);
    }
    assert_int_equal(parquet_dict_rank(&d), 0);
    assert_int_equal(d.ranked, 5003);
    /* A value without a rank is compared by itself. */
    assert_int_equal(parquet_dict_bytes(&d, "a", 1, &id), 0);
    assert_true(parquet_dict_compare(&d, id, a) < 0 && parquet_dict_compare(&d, b, id) < 0);
    parquet_dict_done(&d);
}

static void dictionary_of_reals(void **state)
{
    (void)state;
    const double values[] = {2.5, NAN, -INFINITY, 0.0, -0.0, 1e300};
    struct parquet_dict d;

    parquet_dict_init(&d, PARQUET_ORDER_REAL);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t id;
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        assert_int_equal(parquet_dict_scalar(&d, bits, &id), 0);
        assert_int_equal(id, i);
        assert_int_equal(parquet_order_is_nan(PARQUET_ORDER_REAL, bits), i == 1);
    }
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t id;
        assert_int_equal(parquet_dict_scalar(&d, 0x4000000000000000u + i, &id), 0);
    }
    assert_int_equal(parquet_dict_rank(&d), 0);
    assert_int_equal(d.rank[1], PARQUET_DICT_NO_RANK);
    assert_true(parquet_dict_compare(&d, 2, 3) < 0 && parquet_dict_compare(&d, 0, 5) < 0);
    parquet_dict_done(&d);
}

static void index_taken_apart(void **state)
{
    (void)state;
    const uint32_t ids[] = {7, 3, PARQUET_NULL, 7, 7, 0};
    struct parquet_index x;

    parquet_index_init(&x);
    assert_int_equal(parquet_index_build(&x, ids, 6, 7), -EINVAL);
    assert_int_equal(parquet_index_build(&x, ids, 6, 8), 0);
    assert_int_equal(x.distinct, 4);
    assert_memory_equal(x.ids, ((const uint32_t[]){7, 3, PARQUET_NULL, 0}), 16);
    assert_memory_equal(x.counts, ((const uint32_t[]){3, 1, 1, 1}), 16);
    assert_memory_equal(x.place, ((const uint16_t[]){0, 1, 2, 0, 0, 3}), 12);

    const uint32_t split[] = {0, 1, PARQUET_NULL, 1}, other[] = {0, 1, PARQUET_NULL, 2};
    struct kymo_buf b = buffer();
    assert_int_equal(parquet_split_append(&b, &x, split, true, 1), 0);
    /* Levels 1 1 0 1 1 1, width 1, numbers 0 1 0 0 1. */
    const uint8_t want[] = {2, 0, 0, 0, 0x03, 0x3b, 1, 0x03, 0x12};
    assert_int_equal(b.len, sizeof want);
    assert_memory_equal(b.data, want, sizeof want);
    assert_null(parquet_index_find(&x, split, true));
    assert_int_equal(parquet_index_keep(&x, split, true, &b, 0, b.len, 99), 0);
    assert_null(parquet_index_find(&x, other, true));
    assert_null(parquet_index_find(&x, split, false));
    assert_int_equal(parquet_index_find(&x, split, true)->raw_len, 99);
    /* All null needs no dictionary at all. */
    assert_int_equal(parquet_index_build(&x, (const uint32_t[]){PARQUET_NULL}, 1, 0), 0);
    assert_int_equal(x.need, 0);
    kymo_buf_done(&b);
    parquet_index_done(&x);
}

static void split_of_many_rows(void **state)
{
    (void)state;
    static uint32_t ids[5003], back[5003];
    struct parquet_index x;

    for (uint32_t i = 0; i < 5003; i++)
        ids[i] = i % 7 == 3 ? PARQUET_NULL : i * 2654435761u % 300;
    parquet_index_init(&x);
    assert_int_equal(parquet_index_build(&x, ids, 5003, 300), 0);
    struct kymo_buf b = buffer();
    uint32_t split[301];
    size_t nulls = 0;
    for (size_t k = 0; k < x.distinct; k++) {
        split[k] = x.ids[k] == PARQUET_NULL ? PARQUET_NULL : x.ids[k] + 5;
        nulls += x.ids[k] == PARQUET_NULL ? x.counts[k] : 0;
    }
    assert_int_equal(parquet_split_append(&b, &x, split, true, nulls), 0);
    size_t levels = kymo_le32(b.data);
    struct kymo_buf part = {.data = b.data + 4, .len = levels};
    assert_int_equal(read_rle(&part, 1, back, 5003), 5003);
    for (size_t i = 0; i < 5003; i++)
        assert_int_equal(back[i], ids[i] != PARQUET_NULL);
    assert_int_equal(b.data[4 + levels], 9);
    part = (struct kymo_buf){.data = b.data + 5 + levels, .len = b.len - 5 - levels};
    assert_int_equal(read_rle(&part, 9, back, 5003 - nulls), 5003 - nulls);
    for (size_t i = 0, k = 0; i < 5003; i++) {
        if (ids[i] != PARQUET_NULL)
            assert_int_equal(back[k++], ids[i] + 5);
    }
    kymo_buf_done(&b);
    parquet_index_done(&x);
}

/* Whole files. */

enum { KEY, NAME, VALUE, REAL, FLAG, LIST, WORDS, TEST_COLUMNS };
static const struct kymo_column columns[TEST_COLUMNS] = {
    [KEY] = {.name = "key", .type = KYMO_TYPE_INT64, .required = true, .empty = "-1"},
    [NAME] = {.name = "name", .type = KYMO_TYPE_STRING, .required = true, .empty = "unknown"},
    [VALUE] = {.name = "value", .type = KYMO_TYPE_INT32},
    [REAL] = {.name = "real", .type = KYMO_TYPE_FLOAT},
    [FLAG] = {.name = "flag", .type = KYMO_TYPE_BOOL},
    [LIST] = {.name = "list", .type = KYMO_TYPE_LIST_INT64, .required = true, .empty = ""},
    [WORDS] = {.name = "words", .type = KYMO_TYPE_LIST_STRING},
};
static const struct kymo_table table = {"Test", "rows", columns, TEST_COLUMNS, "key", true};

static char directory[] = "/tmp/test_parquet_XXXXXX";

static int set_up(void **state)
{
    (void)state;
    memcpy(directory, "/tmp/test_parquet_XXXXXX", sizeof directory);
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kymo_file_set_ops(NULL);
    kymo_alloc_fail_after(-1);
    return kymo_file_remove_tree(directory, NULL);
}

static size_t files_there(void)
{
    DIR *d = opendir(directory);
    size_t n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static bool is_there(const char *name)
{
    char path[300];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    if (stat(path, &st) < 0)
        return false;
    uint8_t *data;
    size_t n;
    assert_int_equal(kymo_file_read_all(path, 1 << 24, &data, &n, NULL), 0);
    assert_true(n > 12);
    assert_memory_equal(data, "PAR1", 4);
    assert_memory_equal(data + n - 4, "PAR1", 4);
    assert_true(kymo_le32(data + n - 8) < n - 12);
    kymo_free(data);
    return true;
}

/* Rows through the row helper, with nulls and without; what can fail is reported by the last call. */
static int write_rows(size_t rows, const struct parquet_options *opt, struct kymo_err *err)
{
    struct parquet_row *r;
    int rc = parquet_row_open(directory, &table, opt, &r, err);

    for (size_t i = 0; rc == 0 && i < rows; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "name %zu", i % 10);
        parquet_row_int(r, KEY, (int64_t)i);
        if (i % 3)
            parquet_row_string(r, NAME, name);
        if (i % 2)
            parquet_row_int(r, VALUE, (int64_t)i % 100 - 50);
        if (i % 5)
            parquet_row_real(r, REAL, (double)i / 4);
        if (i % 7)
            parquet_row_int(r, FLAG, i % 4 == 0);
        if (i % 4)
            parquet_row_list(r, LIST, (const int64_t[]){1, INT64_MAX, (int64_t)i}, i % 4);
        if (i % 6)
            parquet_row_string_list(r, WORDS, (const char *const[]){"a", "", name}, i % 4);
        if (parquet_row_end(r, err) < 0) {
            (void)parquet_row_discard(r);
            return err->code;
        }
    }
    return rc < 0 ? rc : parquet_row_finish(r, err);
}

static void no_rows_no_file(void **state)
{
    (void)state;
    struct kymo_err err = {0};

    assert_int_equal(write_rows(0, NULL, &err), 0);
    assert_int_equal(files_there(), 0);
}

static void one_file(void **state)
{
    (void)state;
    struct kymo_err err = {0};

    assert_int_equal(write_rows(10000, NULL, &err), 0);
    assert_int_equal(files_there(), 1);
    assert_true(is_there("Test.parquet"));
}

static void split_files(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct parquet_options opt = {.split_rows = 4000, .rows_per_group = 1500};

    assert_int_equal(write_rows(8001, &opt, &err), 0);
    assert_int_equal(files_there(), 3);
    assert_true(is_there("Test_0.parquet") && is_there("Test_1.parquet") && is_there("Test_2.parquet"));
}

static void discarded(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct parquet_writer *w;
    struct parquet_options opt = {.split_rows = 2};

    assert_int_equal(parquet_writer_open(directory, &table, &opt, &w, &err), 0);
    struct parquet_column in[TEST_COLUMNS] = {{0}};
    uint32_t name = parquet_writer_string_id(w, NAME, "", 0, &err),
             list = parquet_writer_list_id(w, LIST, NULL, 0, &err);
    in[KEY].values = (const int64_t[]){5, 4, 3};
    in[NAME].index = (const uint32_t[]){name, name, name};
    in[LIST].index = (const uint32_t[]){list, list, list};
    assert_int_equal(parquet_writer_batch(w, in, 3, &err), 0);
    assert_int_equal(parquet_writer_rows(w), 3);
    assert_true(files_there() > 0);
    assert_null(parquet_writer_discard(w));
    assert_int_equal(files_there(), 0);
    assert_null(parquet_writer_discard(NULL));
    assert_null(parquet_row_discard(NULL));
}

/* Each of these is refused, sticks, and leaves nothing behind. */
static void wrong_batches(void **state)
{
    (void)state;
    static const int64_t keys[2] = {1, 2};
    static const uint8_t valid[2] = {1, 0};
    static const uint32_t zero[2] = {0, 0}, two[2] = {0, 2}, null_first[2] = {PARQUET_NULL, 0};

    for (unsigned k = 0; k < 14; k++) {
        struct kymo_err err = {0};
        struct parquet_writer *w;
        struct parquet_options opt = {.rows_per_group = k < 7 ? 2 : 0}; /* pages at once, or rows that wait */
        assert_int_equal(parquet_writer_open(directory, &table, &opt, &w, &err), 0);
        (void)parquet_writer_string_id(w, NAME, "n", 1, &err);
        (void)parquet_writer_list_id(w, LIST, keys, 2, &err);
        struct parquet_column in[TEST_COLUMNS] = {
            [KEY] = {.values = keys}, [NAME] = {.index = zero}, [LIST] = {.index = zero}};
        switch (k % 7) {
        case 0:
            in[KEY].valid = valid;
            break;
        case 1:
            in[NAME] = (struct parquet_column){0};
            break;
        case 2:
            in[NAME].index = two;
            break;
        case 3:
            in[NAME].values = keys;
            in[NAME].index = NULL;
            break;
        case 4:
            in[LIST].index = two;
            break;
        case 5:
            in[NAME].map = zero;
            in[NAME].map_len = 0;
            break;
        default:
            in[LIST].index = null_first;
        }
        int rc = parquet_writer_batch(w, in, 2, &err);
        if (rc == 0)
            rc = parquet_writer_finish(w, &err);
        else
            assert_true(parquet_writer_batch(w, in, 2, NULL) < 0 && parquet_writer_finish(w, NULL) < 0);
        assert_int_equal(rc, -EINVAL);
        assert_non_null(strstr(err.text, "Test"));
        assert_int_equal(files_there(), 0);
    }
}

static void wrong_values(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct parquet_writer *w;

    assert_int_equal(parquet_writer_open(directory, &table, NULL, &w, &err), 0);
    assert_int_equal(parquet_writer_string_id(w, KEY, "x", 1, &err), PARQUET_NULL);
    assert_int_equal(parquet_writer_string_id(w, 99, "x", 1, &err), PARQUET_NULL);
    assert_int_equal(parquet_writer_string_id(w, NAME, "x", PARQUET_STRING_MAX + 1, &err), PARQUET_NULL);
    assert_int_equal(parquet_writer_int_id(w, VALUE, INT64_MAX, &err), PARQUET_NULL);
    assert_int_equal(err.code, -ERANGE);
    assert_int_equal(parquet_writer_int_id(w, NAME, 1, &err), PARQUET_NULL);
    assert_int_equal(parquet_writer_float_id(w, VALUE, 1, &err), PARQUET_NULL);
    assert_int_equal(parquet_writer_list_id(w, WORDS, NULL, 0, &err), PARQUET_NULL);
    assert_int_equal(parquet_writer_string_list_id(w, LIST, NULL, 0, &err), PARQUET_NULL);
    struct parquet_column in[TEST_COLUMNS] = {{0}};
    assert_int_equal(parquet_writer_batch(w, in, PARQUET_BATCH_MAX + 1, &err), -EINVAL);
    (void)parquet_writer_discard(w);
    struct parquet_options opt = {.rows_per_group = UINT64_MAX};
    assert_int_equal(parquet_writer_open(directory, &table, &opt, &w, &err), -EINVAL);
}

static void row_errors_stick(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct parquet_row *r;

    assert_int_equal(parquet_row_open(directory, &table, NULL, &r, &err), 0);
    assert_int_equal(parquet_row_end(r, &err), 0);
    parquet_row_int(r, REAL, 1);
    assert_int_equal(parquet_row_end(r, &err), -EINVAL);
    assert_int_equal(parquet_row_count(r), 1);
    assert_int_equal(parquet_row_end(r, NULL), -EINVAL);
    assert_int_equal(parquet_row_finish(r, NULL), -EINVAL);
    assert_int_equal(files_there(), 0);
}

static int no_directory_helper(struct kymo_err *err)
{
    struct parquet_row *r;
    int rc = parquet_row_open("/nonexistent-directory", &table, NULL, &r, err);

    if (rc < 0)
        return rc;
    rc = parquet_row_end(r, err);
    return rc < 0 ? rc : parquet_row_finish(r, err);
}

static void no_directory(void **state)
{
    (void)state;
    struct kymo_err err = {0};

    assert_int_equal(no_directory_helper(&err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent-directory/"));
}

/* The n-th allocation fails, for every n: an error each time, no file, no leak (the sanitizers look). */
static void allocations_fail(void **state)
{
    (void)state;
    struct parquet_options opt = {.split_rows = 70, .kv = (const char *const[]){"a", "b", NULL}};
    long n = 0;

    for (; n < 5000; n++) {
        struct kymo_err err = {0};
        kymo_alloc_fail_after(n);
        int rc = write_rows(100, &opt, &err);
        kymo_alloc_fail_after(-1);
        if (rc == 0)
            break;
        assert_int_equal(rc, -ENOMEM);
        /* Removing needs a little memory too; the one failure was spent before, so that it has it. */
        assert_int_equal(files_there(), 0);
    }
    assert_true(n > 50 && n < 5000);
    assert_int_equal(files_there(), 2);
}

static uint64_t room_left;

static ssize_t small_disk(int fd, const void *buf, size_t n, off_t off)
{
    if (room_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    /* Short writes too. */
    size_t take = n < 1000 ? n : 1000;
    take = take < room_left ? take : room_left;
    room_left -= take;
    return kymo_file_ops_system.pwrite(fd, buf, take, off);
}

static int bad_sync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

static int bad_rename(const char *from, const char *to)
{
    if (strstr(from, "_1.parquet")) {
        errno = EACCES;
        return -1;
    }
    return kymo_file_ops_system.rename(from, to);
}

static void disks_fail(void **state)
{
    (void)state;
    struct kymo_file_ops ops = kymo_file_ops_system;
    struct parquet_options opt = {.split_rows = 3000};

    ops.pwrite = small_disk;
    kymo_file_set_ops(&ops);
    for (uint64_t room = 0; room < 20000; room += 1777) {
        struct kymo_err err = {0};
        room_left = room;
        assert_int_equal(write_rows(8000, &opt, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "Test_"));
        assert_int_equal(files_there(), 0);
    }
    room_left = 1 << 30;
    assert_int_equal(write_rows(8000, &opt, NULL), 0);
    assert_int_equal(files_there(), 3);
    assert_int_equal(kymo_file_remove_tree(directory, NULL), 0);
    assert_int_equal(mkdir(directory, 0755), 0);

    ops = kymo_file_ops_system;
    ops.fsync = bad_sync;
    assert_int_equal(write_rows(10, &opt, NULL), -EIO);
    assert_int_equal(files_there(), 0);
    ops = kymo_file_ops_system;
    ops.rename = bad_rename;
    assert_int_equal(write_rows(8000, &opt, NULL), -EACCES);
    assert_int_equal(files_there(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thrift_bytes),
        cmocka_unit_test(thrift_keeps_its_first_error),
        cmocka_unit_test(varints),
        cmocka_unit_test(rle_bytes),
        cmocka_unit_test(rle_round_trips),
        cmocka_unit_test(delta_bytes),
        cmocka_unit_test(delta_round_trips),
        cmocka_unit_test(bools),
        cmocka_unit_test(dictionary),
        cmocka_unit_test(dictionary_of_reals),
        cmocka_unit_test(index_taken_apart),
        cmocka_unit_test(split_of_many_rows),
        cmocka_unit_test_setup_teardown(no_rows_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(split_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(discarded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(row_errors_stick, set_up, tear_down),
        cmocka_unit_test(no_directory),
        cmocka_unit_test_setup_teardown(allocations_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(disks_fail, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
