/* Bands, shares and crowds worked out by hand; settings. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/formulas/bands.h"
#include "pipeline/settings.h"

static struct band one(int64_t start, int64_t end)
{
    return (struct band){.start = start, .end = end, .count = 1, .part = 1, .whole = 2};
}

static void test_near_ones_join(void **state)
{
    (void)state;
    struct bands b;
    bands_init(&b, 10, 100);
    assert_int_equal(bands_add(&b, one(0, 5), NULL), 0);
    assert_int_equal(bands_add(&b, one(15, 16), NULL), 0); /* 10 apart: near */
    assert_int_equal(bands_add(&b, one(2, 3), NULL), 0);   /* inside: the end stays */
    assert_int_equal(bands_add(&b, one(27, 30), NULL), 0); /* 11 apart */
    assert_int_equal(b.count, 2);
    assert_int_equal(b.rows[0].start, 0);
    assert_int_equal(b.rows[0].end, 16);
    assert_int_equal(b.rows[0].count, 3);
    assert_true(b.rows[0].part == 3 && b.rows[0].whole == 6);
    assert_int_equal(b.joined, 0);
    bands_done(&b);
}

/* Whatever comes, there are no more than the maximum, and no event and no time is lost. */
static void test_maximum(void **state)
{
    (void)state;
    struct bands b;
    bands_init(&b, 0, 8);
    uint64_t count = 0;
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(bands_add(&b, one(i * 100 + i % 7, i * 100 + 20), NULL), 0);
        assert_true(b.count <= 8);
    }
    for (size_t i = 0; i < b.count; i++)
        count += b.rows[i].count;
    assert_int_equal(count, 1000);
    assert_int_equal(b.rows[0].start, 0);
    assert_int_equal(b.rows[b.count - 1].end, 99920);
    assert_true(b.joined > 0);
    bands_done(&b);
}

/* Windows of 100, limit 25 %: 1 of 3 is over, 1 of 4 is not, a window without a part never is. */
static void test_shares(void **state)
{
    (void)state;
    struct shares s;
    shares_init(&s, 100, 25, 10);
    assert_int_equal(shares_add(&s, 10, 40, 0, 2, NULL), 0);
    assert_int_equal(shares_add(&s, 20, 35, 1, 1, NULL), 0);
    assert_int_equal(shares_add(&s, 310, 320, 1, 4, NULL), 0);
    assert_int_equal(shares_add(&s, 420, 430, 0, 9, NULL), 0);
    assert_int_equal(shares_add(&s, 560, 570, 3, 3, NULL), 0);
    assert_int_equal(shares_add(&s, 599, 650, 3, 3, NULL), 0);
    assert_int_equal(shares_finish(&s, NULL), 0);
    assert_int_equal(s.bands.count, 2);
    assert_int_equal(s.bands.rows[0].start, 20);
    assert_int_equal(s.bands.rows[0].end, 35);
    assert_int_equal(s.bands.rows[0].count, 1);
    assert_true(s.bands.rows[0].part == 1 && s.bands.rows[0].whole == 3);
    assert_int_equal(s.bands.rows[1].start, 560);
    assert_int_equal(s.bands.rows[1].end, 650);
    assert_int_equal(s.bands.rows[1].count, 2);
    shares_done(&s);
}

/* Limit 0 %: any part is over it. */
static void test_any_share(void **state)
{
    (void)state;
    struct shares s;
    shares_init(&s, 100, 0, 10);
    assert_int_equal(shares_add(&s, 0, 1, 0, 1000, NULL), 0);
    assert_int_equal(shares_add(&s, 2, 3, 1, 1000, NULL), 0);
    assert_int_equal(shares_finish(&s, NULL), 0);
    assert_int_equal(s.bands.count, 1);
    shares_done(&s);
}

/* Three marked within 10 and half of all: 0, 5 and 10 are a crowd of three, 12 makes it four. */
static void test_crowds(void **state)
{
    (void)state;
    struct crowds c;
    assert_int_equal(crowds_init(&c, 3, 10, 50, 100, NULL), 0);
    assert_int_equal(crowds_add(&c, 0, 2, true, NULL), 0);
    assert_int_equal(crowds_add(&c, 5, 6, true, NULL), 0);
    assert_int_equal(c.bands.count, 0);
    assert_int_equal(crowds_add(&c, 10, 11, true, NULL), 0);
    assert_int_equal(c.bands.count, 1);
    assert_int_equal(c.bands.rows[0].count, 3);
    assert_int_equal(crowds_add(&c, 12, 19, true, NULL), 0);
    assert_int_equal(c.bands.rows[0].count, 4);
    assert_int_equal(c.bands.rows[0].start, 0);
    assert_int_equal(c.bands.rows[0].end, 19);
    /* Two more too far away, then a third within 10 of them but diluted by unmarked ones. */
    assert_int_equal(crowds_add(&c, 100, 101, true, NULL), 0);
    assert_int_equal(crowds_add(&c, 101, 102, true, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(crowds_add(&c, 102, 103, false, NULL), 0);
    assert_int_equal(crowds_add(&c, 103, 104, true, NULL), 0);
    assert_int_equal(c.bands.count, 1);
    /* Without dilution the newest three are a crowd, the first of the earlier ones being out. */
    assert_int_equal(crowds_add(&c, 104, 105, true, NULL), 0);
    assert_int_equal(c.bands.count, 1); /* 3 of 7 */
    assert_int_equal(crowds_add(&c, 105, 106, true, NULL), 0);
    assert_int_equal(c.bands.count, 2); /* 103, 104, 105 */
    assert_int_equal(c.bands.rows[1].start, 103);
    assert_int_equal(c.bands.rows[1].count, 3);
    crowds_done(&c);
}

static void test_settings(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "small_dma_count",
                                        "small_dma_count=",
                                        "small_dma_count=0",
                                        "small_dma_count=65537",
                                        "small_dma_count=-1",
                                        "small_dma_count= 1",
                                        "small_dma_count=1x",
                                        "small_dma=1",
                                        "nothing=1",
                                        "=1",
                                        "small_dma_count=99999999999999999999"};
    struct settings s, before;
    struct kymo_err err = {0};
    settings_defaults(&s);
    assert_int_equal(s.small_dma_bytes, 4096);
    assert_int_equal(s.transpose_percent, 10);
    assert_int_equal(s.spill_reload_percent, 25);
    assert_int_equal(s.nki_coverage_percent, 50);
    before = s;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(settings_set(&s, wrong[i], &err), -EINVAL);
    assert_memory_equal(&s, &before, sizeof s);
    assert_int_equal(settings_set(&s, "small_dma_count=65536", &err), 0);
    assert_int_equal(s.small_dma_count, 65536);
    assert_non_null(strstr(SETTINGS_HELP, "small_dma_count=32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_ones_join), cmocka_unit_test(test_maximum), cmocka_unit_test(test_shares),
        cmocka_unit_test(test_any_share),      cmocka_unit_test(test_crowds),  cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
