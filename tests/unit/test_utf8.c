/* UTF-8: every code point is accepted in its one form; the neighbours of every bound are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static size_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)((0xf00u >> n & 0xff) | c);
    return n;
}

static void test_code_points(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t bytes[4] = {0};
        size_t n = encode(c, bytes);
        size_t want = c >= 0xd800 && c < 0xe000 ? 0 : n;
        assert_int_equal(kymo_utf8_sequence(bytes, n), want);
        if (n > 1)
            assert_int_equal(kymo_utf8_sequence(bytes, n - 1), 0);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xc3\x28",
                                      "\xe2\x82\x28",
                                      "\xf0\x9f\x98\x28"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kymo_utf8_sequence(bad[i], strlen(bad[i])), 0);
}

static void test_mend(void **state)
{
    (void)state;
    char text[] = "a\0\xff\xc3\xa9\xe2\x82";
    kymo_utf8_mend(text, sizeof text - 1);
    assert_memory_equal(text, "a\0?\xc3\xa9??", sizeof text);
}

static void test_copy_plain(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        size_t size;
    } cases[] = {{"plain", "plain", 6},
                 {"plain", "plai", 5},
                 {"", "", 1},
                 {"x", "", 1},
                 {"a\x1b[m\x7f\n", "a?[m??", 9},
                 {"\xc3\xa9\xc3", "\xc3\xa9?", 9},
                 {"a\xe2\x82\xac", "a", 4}, /* a sequence that does not fit is left out whole */
                 {"a\xe2\x82\xac", "a\xe2\x82\xac", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[16];
        memset(out, 'z', sizeof out);
        kymo_utf8_copy_plain(out, cases[i].size, cases[i].text, strlen(cases[i].text));
        assert_string_equal(out, cases[i].want);
    }
    char out[8];
    kymo_utf8_copy_plain(out, sizeof out, "ab\0cd", 5);
    assert_string_equal(out, "ab");
    kymo_utf8_copy_plain(out, sizeof out, "\xe2\x82\xac", 2);
    assert_string_equal(out, "??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_code_points), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_mend), cmocka_unit_test(test_copy_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
