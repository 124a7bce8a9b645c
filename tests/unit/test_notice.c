/* What throttle and error records mean, from bytes drawn by hand as in FORMAT.md's section on notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "formats/ntff/notice.h"

static struct record decode(uint32_t low, uint32_t high)
{
    uint8_t bytes[KYMO_RECORD_SIZE] = {0};
    struct record rec;
    kymo_put_le32(bytes, low);
    kymo_put_le32(bytes + 4, high);
    record_decode(bytes, &rec);
    return rec;
}

static void test_throttle(void **state)
{
    (void)state;
    struct notice_throttle t;
    struct record rec = decode(0x1E000000u | 1u << 16 | 8u << 8 | 6u, 30000);
    notice_throttle(&rec, &t);
    assert_int_equal(t.class_id, 1);
    assert_int_equal(t.k, 6);
    assert_int_equal(t.n, 8);
    assert_int_equal(t.duration_ns, 30000);
    assert_string_equal(notice_throttle_class(t.class_id), "activity_1");
    rec = decode(0x1EFFFFFFu, 0xFFFFFFFFu);
    notice_throttle(&rec, &t);
    assert_string_equal(notice_throttle_class(t.class_id), "unknown");
    assert_int_equal(t.duration_ns, NOTICE_DURATION_SATURATED);
    assert_false(notice_is_error(&rec));
}

struct row {
    uint32_t low, high;
    const char *type, *description, *metadata, *hex;
    int32_t id;
};

static const struct row rows[] = {
    /* TPB errors: id in the low byte, then 48 bits of metadata */
    {0x1F000001u | 0x1234u << 8, 0xABCDEF01u, "Errors", "NaN", "", "abcdef011234", 1},
    {0x1F000006u | 0x0105u << 8, 0, "Errors", "Semaphore", "sem 5 overflow", "000000000105", 6},
    {0x1F000006u | 0x0007u << 8, 0, "Errors", "Semaphore", "sem 7 underflow", "000000000007", 6},
    {0x1F000007u | 0x0009u << 8, 0, "Errors", "Event", "event 9", "000000000009", 7},
    {0x1F000009u, 0x42019300u, "Warnings", "Sequencer Nonfatal", "Vector pc 25 info 0x42", "420193000000", 9},
    {0x1F00000Au, 0x0000FF00u, "Errors", "Sequencer Fatal", "block pc 15 info 0x00", "0000ff000000", 10},
    {0x1F0000FFu, 0, "Errors", "Unknown 255", "", "000000000000", 255},
    /* interrupts and warnings */
    {0x03000000u | 77u << 4 | 2u, 0xDEADBEEFu, "Errors", "Interrupt", "block 77", "deadbeef", 2},
    {0x03000000u | 77u << 8 | 8u | 5u, 7, "Warnings", "Warning", "block 77", "00000007", 5},
    /* custom: explicit, extended hint 6, the sub-id as soft-reset counter */
    {0x0E000000u | 25u, 6u << 16 | 0u, "Custom Notification", "EMBD OOB", "GpSimd pc 25", "00019", 0},
    {0x0E000000u, 6u << 16 | 7u, "Custom Notification", "Tensor Completion", "GpSimd pc 0", "00000", 7},
    {0x06000000u, 6u << 16 | 0xFFFFu, "Custom Notification", "Unknown 65535", "Tensor pc 0", "00000", 65535},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record rec = decode(rows[i].low, rows[i].high);
        struct notice_error e;
        assert_true(notice_is_error(&rec));
        notice_error(&rec, &e);
        assert_string_equal(e.type, rows[i].type);
        assert_string_equal(e.description, rows[i].description);
        assert_string_equal(e.metadata, rows[i].metadata);
        assert_string_equal(e.metadata_hex, rows[i].hex);
        assert_int_equal(e.id, rows[i].id);
    }
}

/* Status notices and other explicit records are no errors. */
static void test_others(void **state)
{
    (void)state;
    static const uint32_t hints[] = {0, 2, 3, 5, 7, 8};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        struct record rec = decode(0x16000000u, hints[i] << 16);
        assert_int_equal(rec.kind, RECORD_EXPLICIT);
        assert_false(notice_is_error(&rec));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_throttle),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
