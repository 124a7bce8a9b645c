/* Packed answers against the golden file, and their limits. --write makes the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "collector/query/packed.h"

#define GOLDEN "tests/golden/packed/answer.kyb"

static int append(void *ctx, const void *data, size_t n, struct kymo_err *err)
{
    (void)err;
    return kymo_buf_append(ctx, data, n);
}

/* Each type, an empty track, texts that repeat, one that is no UTF-8, a number beyond its type. */
static void make(struct kymo_buf *out)
{
    static const struct packed_column events[] = {
        {"id", PACKED_I64}, {"label", PACKED_U32}, {"share", PACKED_F64}, {"flag", PACKED_U8}};
    static const struct packed_column buckets[] = {{"start", PACKED_I64}, {"count", PACKED_U32}};
    static const char *const labels[] = {"MATMUL", "LDWEIGHTS", "MATMUL"};
    struct packed *p = packed_new(-5, 1000000, 1600);
    assert_non_null(p);
    size_t a = packed_track(p, "instruction:Tensor(nc0)", "events", 0, events, 4);
    size_t b = packed_track(p, "dma_queue:DMA-E0 q%2Cx", "buckets", 65536, buckets, 2);
    size_t c = packed_track(p, "bad \xff id", "events", 0, events, 4);
    for (int i = 0; i < 3; i++) {
        packed_int(p, a, 0, i == 2 ? INT64_MIN : 1000 + i);
        packed_int(p, a, 1, packed_text(p, labels[i], strlen(labels[i])));
        packed_real(p, a, 2, i / 4.0);
        packed_int(p, a, 3, i * 200);
    }
    packed_int(p, b, 0, 65536);
    packed_int(p, b, 1, (int64_t)1 << 40);
    packed_int(p, c, 0, 1);
    packed_int(p, c, 1, packed_text(p, "x\xc3", 2));
    packed_real(p, c, 2, -0.5);
    packed_int(p, c, 3, -1);
    assert_int_equal(packed_write(p, append, out, NULL), 0);
    packed_free(p);
}

static void test_golden(void **state)
{
    struct kymo_buf b;
    uint8_t *data = NULL;
    size_t n;
    (void)state;
    kymo_buf_init(&b, 1u << 20);
    make(&b);
    assert_int_equal(kymo_file_read_all(GOLDEN, 1u << 20, &data, &n, NULL), 0);
    assert_int_equal(n, b.len);
    assert_memory_equal(data, b.data, n);
    kymo_free(data);
    kymo_buf_done(&b);
}

static void test_dictionary(void **state)
{
    struct packed *p = packed_new(0, 1, 1);
    (void)state;
    assert_int_equal(packed_text(p, "", 0), 0);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            char text[16];
            int n = snprintf(text, sizeof text, "t%u", i);
            assert_int_equal(packed_text(p, text, (size_t)n), i + 1);
        }
    packed_free(p);
}

/* A NUL is text as any other character, beside bytes that are no UTF-8 too. */
static void test_no_text(void **state)
{
    struct packed *p = packed_new(0, 1, 1);
    struct kymo_buf b;
    (void)state;
    kymo_buf_init(&b, 1000);
    (void)packed_text(p,
                      "a\0\xff"
                      "b",
                      4);
    assert_int_equal(packed_write(p, append, &b, NULL), 0);
    assert_int_equal(kymo_buf_append(&b, "", 1), 0);
    assert_non_null(strstr((const char *)b.data + 8, "\"a\\u0000?b\""));
    packed_free(p);
    kymo_buf_done(&b);
}

static void test_uneven(void **state)
{
    static const struct packed_column columns[] = {{"a", PACKED_I64}, {"b", PACKED_I64}};
    struct packed *p = packed_new(0, 1, 1);
    struct kymo_buf b;
    (void)state;
    kymo_buf_init(&b, 1000);
    packed_int(p, packed_track(p, "t", "events", 0, columns, 2), 0, 3);
    assert_int_equal(packed_write(p, append, &b, NULL), -EINVAL);
    packed_free(p);
    kymo_buf_done(&b);
}

/* Every allocation may fail: the answer says so, and nothing is lost. */
static void test_no_memory(void **state)
{
    static const struct packed_column columns[] = {{"a", PACKED_I64}};
    (void)state;
    for (long i = 0; i < 40; i++) {
        struct kymo_buf b;
        kymo_buf_init(&b, 1u << 16);
        kymo_alloc_fail_after(i);
        struct packed *p = packed_new(0, 1, 1);
        int r = p ? 0 : -ENOMEM;
        if (p) {
            size_t t = packed_track(p, "t", "events", 0, columns, 1);
            for (uint32_t k = 0; k < 300; k++)
                packed_int(p, t, 0, packed_text(p, (const char *)&k, sizeof k));
            r = packed_write(p, append, &b, NULL);
        }
        kymo_alloc_fail_after(-1);
        assert_true(r == 0 || r == -ENOMEM);
        packed_free(p);
        kymo_buf_done(&b);
    }
}

static int write_golden(void)
{
    struct kymo_buf b;
    struct kymo_err err = {0};
    kymo_buf_init(&b, 1u << 20);
    make(&b);
    return kymo_file_write_atomic(GOLDEN, b.data, b.len, &err) < 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_dictionary), cmocka_unit_test(test_no_text),
        cmocka_unit_test(test_uneven), cmocka_unit_test(test_no_memory),
    };
    if (argc > 1 && !strcmp(argv[1], "--write"))
        return write_golden();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
