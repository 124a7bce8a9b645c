#include "base/plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text, *plain;
} cases[] = {
    {"", ""},
    {"input_0/\xc3\xa4\xe2\x82\xac", "input_0/\xc3\xa4\xe2\x82\xac"},
    {"a\x1b[31m\nb", "a\\x1b[31m\\x0ab"},
    {"\x7f", "\\x7f"},
    {"\xc2\x9b"
     "31m \xc2\xa0",
     "\\xc2\\x9b31m \xc2\xa0"},
    {"no \xff UTF-8 \xe2\x82", "no \\xff UTF-8 \\xe2\\x82"},
    {"c:\\x1b", "c:\\x1b"},
};

static void test_copy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64], again[64];
        assert_int_equal(kymo_plain_copy(out, sizeof out, cases[i].text), strlen(cases[i].plain));
        assert_string_equal(out, cases[i].plain);
        (void)kymo_plain_copy(again, sizeof again, out);
        assert_string_equal(again, out);
    }
}

static void test_copy_is_cut(void **state)
{
    (void)state;
    char out[8];
    assert_int_equal(kymo_plain_copy(out, sizeof out, "abcd\x1b[m"), 4);
    assert_string_equal(out, "abcd");
    assert_int_equal(kymo_plain_copy(out, sizeof out, "123456\xc3\xa4"), 6);
    assert_string_equal(out, "123456");
    assert_int_equal(kymo_plain_copy(out, 1, "a"), 0);
    assert_string_equal(out, "");
    assert_int_equal(kymo_plain_copy(NULL, 0, "a"), 0);
}

static void test_print(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        kymo_plain_print(out, cases[i].text);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, cases[i].plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_is_cut),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
