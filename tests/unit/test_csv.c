/* Records of CSV, byte for byte. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "formats/csv/csv_text.h"

static void expect(struct csv_text *c, const char *text)
{
    assert_int_equal(c->buf.len, strlen(text));
    assert_memory_equal(c->buf.data, text, strlen(text));
}

static void put(struct csv_text *c, const char *s)
{
    csv_text_string(c, s, strlen(s));
}

static void test_strings(void **state)
{
    (void)state;
    struct csv_text c;
    csv_text_init(&c, 4096);
    put(&c, "plain text");
    put(&c, "a,b");
    put(&c, "say \"hi\"");
    put(&c, "two\nlines");
    put(&c, "two\r\nlines");
    put(&c, "");
    csv_text_null(&c);
    put(&c, "\xc3\xa4");
    assert_int_equal(csv_text_end(&c), 0);
    expect(&c, "plain text,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"two\r\nlines\",\"\",,\xc3\xa4\r\n");
    csv_text_done(&c);
}

static void test_numbers(void **state)
{
    (void)state;
    struct csv_text c;
    csv_text_init(&c, 4096);
    csv_text_int(&c, 0);
    csv_text_int(&c, INT64_MIN);
    csv_text_int(&c, INT64_MAX);
    csv_text_int(&c, -10);
    csv_text_float(&c, 0.1f);
    csv_text_float(&c, 16777217.0f);
    csv_text_double(&c, 0.1);
    csv_text_double(&c, 1.0 / 3);
    csv_text_bool(&c, true);
    csv_text_bool(&c, false);
    assert_int_equal(csv_text_end(&c), 0);
    expect(&c, "0,-9223372036854775808,9223372036854775807,-10,0.1,16777216,0.1,0.3333333333333333,true,false\r\n");
    csv_text_done(&c);
}

/* A record of one null is an empty line, as RFC 4180 leaves no other way; records follow each other. */
static void test_records(void **state)
{
    (void)state;
    struct csv_text c;
    csv_text_init(&c, 4096);
    csv_text_null(&c);
    assert_int_equal(csv_text_end(&c), 0);
    csv_text_int(&c, 1);
    csv_text_null(&c);
    assert_int_equal(csv_text_end(&c), 0);
    expect(&c, "\r\n1,\r\n");
    csv_text_reset(&c);
    csv_text_int(&c, 2);
    assert_int_equal(csv_text_end(&c), 0);
    expect(&c, "2\r\n");
    csv_text_done(&c);
}

static void test_errors(void **state)
{
    (void)state;
    struct csv_text c;
    csv_text_init(&c, 8);
    put(&c, "123456");
    put(&c, "789");
    put(&c, "");
    assert_int_equal(csv_text_end(&c), -ENOBUFS);
    csv_text_reset(&c);
    put(&c, "12");
    assert_int_equal(csv_text_end(&c), 0);
    csv_text_done(&c);

    csv_text_init(&c, 4096);
    kymo_alloc_fail_after(0);
    put(&c, "1");
    kymo_alloc_fail_after(-1);
    assert_int_equal(csv_text_end(&c), -ENOMEM);
    csv_text_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
