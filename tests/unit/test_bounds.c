/* Every figure of Summary says what it rests on; marks by hand for the cases that a reader meets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/ring.h"
#include "formats/schema/schema.h"
#include "pipeline/summary/bounds.h"

static void test_every_column(void **state)
{
    (void)state;
    const struct kymo_table *t = kymo_schema_table(KYMO_T_SUMMARY);
    assert_true(t->column_count > 100);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct bounds_column *c = bounds_find(t->columns[i].name);
        if (!c)
            fail_msg("%s has no entry", t->columns[i].name);
        assert_int_equal(c->low & c->high, 0);
        assert_int_equal((c->low | c->high) & c->either, 0);
    }
    assert_null(bounds_find("no_column"));
}

static enum bounds_mark mark(const char *column, unsigned missing)
{
    return bounds_mark(bounds_find(column), missing);
}

static void test_marks(void **state)
{
    (void)state;
    assert_int_equal(mark("hbm_read_bytes", 0), BOUNDS_EXACT);
    assert_int_equal(mark("hbm_read_bytes", BOUNDS_INSTRUCTIONS), BOUNDS_EXACT);
    assert_int_equal(mark("hbm_read_bytes", BOUNDS_DMA), BOUNDS_LOWER);
    assert_int_equal(mark("transpose_flops", BOUNDS_INSTRUCTIONS), BOUNDS_LOWER);
    /* Complete flops over lost bytes. */
    assert_int_equal(mark("mfu_max_achievable_estimated_percent", BOUNDS_DMA), BOUNDS_UNCERTAIN);
    /* Waits that count as active, instructions that do not count at all. */
    assert_int_equal(mark("tensor_engine_active_time", BOUNDS_WAITS), BOUNDS_UNCERTAIN);
    assert_int_equal(mark("tensor_engine_active_time", BOUNDS_WAITS | BOUNDS_INSTRUCTIONS), BOUNDS_UNCERTAIN);
    assert_int_equal(mark("tensor_engine_active_time", BOUNDS_EVENTS | BOUNDS_INSTRUCTIONS), BOUNDS_LOWER);
    /* A transfer of many packets becomes many transfers, whose times add up. */
    assert_int_equal(mark("dma_transfer_time", BOUNDS_DMA | BOUNDS_DGE), BOUNDS_UNCERTAIN);
    assert_int_equal(mark("dma_transfer_time", BOUNDS_NAMES), BOUNDS_LOWER);
    assert_int_equal(mark("weight_size_bytes", BOUNDS_DMA | BOUNDS_INSTRUCTIONS | BOUNDS_EVENTS), BOUNDS_EXACT);
    assert_int_equal(mark("mbu_min_read_util_percent", BOUNDS_STATUS), BOUNDS_UNCERTAIN);
    assert_int_equal(mark("mfu_estimated_percent", BOUNDS_FAILED), BOUNDS_LOWER);
    assert_int_equal(mark("hfu_estimated_percent", BOUNDS_FAILED), BOUNDS_EXACT);
    assert_int_equal(bounds_causes(bounds_find("event_count"), BOUNDS_DMA | BOUNDS_EVENTS), BOUNDS_EVENTS);
}

/* Every kind of ring is something that figures rest on. */
static void test_inputs(void **state)
{
    (void)state;
    for (unsigned r = 0; r < KYMO_RING_MAX; r++) {
        char label[64];
        kymo_ring_label((enum kymo_ring)r, 1, 3, label, sizeof label);
        if (!bounds_of_ring(label))
            fail_msg("%s is no input", label);
    }
    assert_int_equal(bounds_of_ring("INSTRUCTION(nc1)"), BOUNDS_INSTRUCTIONS);
    assert_int_equal(bounds_of_ring("DMA-E12(nc0)"), BOUNDS_DMA);
    assert_int_equal(bounds_of_ring("CC_CORE_EVENT-2"), BOUNDS_CC_EVENTS);
    assert_int_equal(bounds_of_ring("SYSTEM(nc0)"), 0);
    assert_int_equal(bounds_of_partial("dma_packet"), BOUNDS_DMA);
    assert_int_equal(bounds_of_partial("system_event"), 0);
    assert_int_equal(bounds_of_warning("DMA transfers"), BOUNDS_NAMES);
    assert_int_equal(bounds_of_warning("DGE notifications"), BOUNDS_NAMES | BOUNDS_DGE);
    assert_int_equal(bounds_of_warning("Missing Data"), 0);
    for (unsigned i = 0; i < BOUNDS_INPUTS; i++)
        assert_true(strlen(bounds_text((enum bounds_input)(1u << i))) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_column),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
