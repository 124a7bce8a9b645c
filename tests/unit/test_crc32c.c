#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_known_values(void **state)
{
    (void)state;
    /* The check value of the algorithm and two of the vectors of RFC 3720, appendix B.4. */
    assert_int_equal(kymo_crc32c(0, "123456789", 9), 0xe3069283u);
    uint8_t block[32] = {0};
    assert_int_equal(kymo_crc32c(0, block, sizeof block), 0x8a9136aau);
    memset(block, 0xff, sizeof block);
    assert_int_equal(kymo_crc32c(0, block, sizeof block), 0x62a8ab43u);
    assert_int_equal(kymo_crc32c(0, NULL, 0), 0);
}

static void test_continues(void **state)
{
    (void)state;
    static const char text[] = "any cut of a text gives the sum of the whole";
    const size_t n = sizeof text - 1;
    uint32_t whole = kymo_crc32c(0, text, n);
    for (size_t cut = 0; cut <= n; cut++)
        assert_int_equal(kymo_crc32c(kymo_crc32c(0, text, cut), text + cut, n - cut), whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
