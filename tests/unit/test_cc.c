/* Collectives' sizes, rounds and bandwidth factors, worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch/cc.h"

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        unsigned kind;
        uint64_t elements;
        unsigned bits, ranks;
        uint64_t in, out;
    } cases[] = {
        {KYMO_CC_ALL_REDUCE, 1000, 16, 4, 2000, 2000},
        {KYMO_CC_ALL_GATHER, 1000, 16, 4, 2000, 8000},
        {KYMO_CC_REDUCE_SCATTER, 1000, 16, 4, 2000, 500},
        {KYMO_CC_ALL_TO_ALL, 7, 32, 3, 28, 28},
        {KYMO_CC_PERMUTE, 3, 8, 2, 3, 3},
        {KYMO_CC_BROADCAST, 3, 4, 2, 2, 2}, /* half bytes round up */
        {KYMO_CC_ALL_REDUCE, 0, 32, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t in, out;
        assert_true(kymo_cc_sizes(cases[i].kind, cases[i].elements, cases[i].bits, cases[i].ranks, &in, &out));
        assert_int_equal(in, cases[i].in);
        assert_int_equal(out, cases[i].out);
    }
}

static void test_sizes_that_are_none(void **state)
{
    (void)state;
    uint64_t in = 1, out = 2;
    assert_false(kymo_cc_sizes(KYMO_CC_KIND_MAX, 1, 8, 2, &in, &out));
    assert_false(kymo_cc_sizes(KYMO_CC_ALL_REDUCE, 1, 0, 2, &in, &out));
    assert_false(kymo_cc_sizes(KYMO_CC_ALL_REDUCE, 1, 8, 0, &in, &out));
    assert_false(kymo_cc_sizes(KYMO_CC_ALL_REDUCE, 1, 8, KYMO_CC_RANKS_MAX + 1, &in, &out));
    assert_false(kymo_cc_sizes(KYMO_CC_ALL_REDUCE, UINT64_MAX, 32, 2, &in, &out));
    assert_false(kymo_cc_sizes(KYMO_CC_ALL_GATHER, 1ull << 58, 32, 64, &in, &out)); /* 2^66 bytes */
    assert_int_equal(in, 1);
    assert_int_equal(out, 2);
}

static void test_rounds(void **state)
{
    (void)state;
    assert_int_equal(kymo_cc_rounds(KYMO_CC_ALL_REDUCE, KYMO_CC_RING, 4), 6);
    assert_int_equal(kymo_cc_rounds(KYMO_CC_ALL_REDUCE, KYMO_CC_MESH, 4), 2);
    assert_int_equal(kymo_cc_rounds(KYMO_CC_ALL_GATHER, KYMO_CC_RING, 4), 3);
    assert_int_equal(kymo_cc_rounds(KYMO_CC_PERMUTE, KYMO_CC_RING, 4), 1);
    assert_int_equal(kymo_cc_rounds(KYMO_CC_ALL_REDUCE, KYMO_CC_RING, 1), 0);
    assert_int_equal(kymo_cc_round_bytes(KYMO_CC_ALL_REDUCE, KYMO_CC_RING, 4, 4000), 1000);
    assert_int_equal(kymo_cc_round_bytes(KYMO_CC_ALL_REDUCE, KYMO_CC_MESH, 4, 4000), 3000);
    assert_int_equal(kymo_cc_choose(65536, 8), KYMO_CC_MESH);
    assert_int_equal(kymo_cc_choose(65537, 8), KYMO_CC_RING);
    assert_int_equal(kymo_cc_choose(16, 9), KYMO_CC_RING);
}

/* What a ring moves in all is what the factor says. */
static void test_factors(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 64; n++) {
        double share = (double)(n - 1) / n;
        assert_true(kymo_cc_bus_factor(KYMO_CC_ALL_REDUCE, n) == 2 * share);
        assert_true(kymo_cc_bus_factor(KYMO_CC_ALL_GATHER, n) == share);
        assert_true(kymo_cc_bus_factor(KYMO_CC_REDUCE_SCATTER, n) == share);
        assert_true(kymo_cc_bus_factor(KYMO_CC_ALL_TO_ALL, n) == share);
        assert_true(kymo_cc_bus_factor(KYMO_CC_BROADCAST, n) == 1);
        uint64_t bytes = 1000ull * n;
        uint64_t moved = kymo_cc_rounds(KYMO_CC_ALL_REDUCE, KYMO_CC_RING, n) *
                         kymo_cc_round_bytes(KYMO_CC_ALL_REDUCE, KYMO_CC_RING, n, bytes);
        assert_int_equal(moved, 2000ull * (n - 1));
    }
    assert_true(kymo_cc_bus_factor(KYMO_CC_KIND_MAX, 4) == 0);
    assert_true(kymo_cc_bus_factor(KYMO_CC_ALL_REDUCE, 0) == 0);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(kymo_cc_kind_name(KYMO_CC_REDUCE_SCATTER), "ReduceScatter");
    assert_string_equal(kymo_cc_algorithm_name(KYMO_CC_RING), "Ring");
    assert_string_equal(kymo_cc_instr_name(KYMO_CC_DMA_ADVANCE), "DMA_ADVANCE");
    assert_null(kymo_cc_kind_name(KYMO_CC_KIND_MAX));
    assert_null(kymo_cc_algorithm_name(KYMO_CC_ALGORITHM_MAX));
    assert_null(kymo_cc_instr_name(9));
    assert_null(kymo_cc_instr_name(16));
    assert_int_equal(kymo_cc_pc(3, 5), 3 << 10 | 5);
    assert_int_equal(kymo_cc_pc_op(kymo_cc_pc(1023, 1023)), 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_sizes_that_are_none),
        cmocka_unit_test(test_rounds), cmocka_unit_test(test_factors),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
