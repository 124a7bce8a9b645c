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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_code_points), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
