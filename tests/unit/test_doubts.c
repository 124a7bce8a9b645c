/* Warnings about what a trace tells against itself, and how warnings of the same kind are joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "pipeline/rings/doubts.h"
#include "pipeline/rings/ledger.h"

static void expect(const struct warnings *w, size_t i, const char *text)
{
    assert_true(i < warnings_count(w));
    if (!strstr(warnings_text(w, i), text))
        fail_msg("\"%s\" does not say \"%s\"", warnings_text(w, i), text);
}

static void test_lists(void **state)
{
    (void)state;
    struct warnings *w = warnings_new();
    warnings_list(w, "Lost records", "ring 0", "records of %s were lost", "rings");
    expect(w, 0, "records of rings were lost: ring 0");
    for (int i = 1; i < 500; i++) {
        char item[16];
        (void)snprintf(item, sizeof item, "ring %d", i);
        warnings_list(w, "Lost records", item, "records of %s were lost", "rings");
    }
    warnings_list(w, "Other", "ring 0", "records of %s were lost", "rings");
    warnings_add(w, "Other", "alone");
    warnings_add(w, "Other", "alone");
    assert_int_equal(warnings_count(w), 3);
    expect(w, 0, "records of rings were lost: 500: ring 0; ring 1; ring 2;");
    expect(w, 0, " more");
    assert_true(strlen(warnings_text(w, 0)) < 1024);
    expect(w, 1, "records of rings were lost: ring 0");
    warnings_free(w);
}

static void test_executions(void **state)
{
    (void)state;
    struct timeline_exec execs[] = {
        {.start_ps = 10, .end_ps = 20, .index = 4},
        {.start_ps = 30, .end_ps = 40, .index = 5, .status = 1204},
        {.start_ps = 50, .end_ps = 45, .index = 6, .status = 5},
    };
    struct timeline t = {.execs = execs, .count = 1};
    struct scan scan = {0};
    struct warnings *w = warnings_new();
    doubts_tell(&scan, &t, 0, w);
    assert_int_equal(warnings_count(w), 0);
    t.count = 3;
    doubts_tell(&scan, &t, 7, w);
    assert_int_equal(warnings_count(w), 3);
    expect(w, 0, "2: execution 5 with NRT status 1204; execution 6 with NRT status 5");
    expect(w, 1, "ends before it starts in the file's timeline: its end is left out: execution 6");
    expect(w, 2, "7 events end before they start");
    warnings_free(w);
}

static void test_records(void **state)
{
    (void)state;
    struct scan_ring rings[2] = {{.by_kind = {[RECORD_TPB_ERROR] = 3, [RECORD_UNKNOWN] = 2}},
                                 {.by_kind = {[RECORD_UNKNOWN] = 4}}};
    struct timeline t = {0};
    struct scan scan = {.rings = rings, .count = 2, .records = 9};
    struct warnings *w = warnings_new();
    rings[0].ring.kind = rings[1].ring.kind = NTFF__RING_KIND__RING_INSTRUCTION;
    doubts_tell(&scan, &t, 0, w);
    assert_int_equal(warnings_count(w), 2);
    expect(w, 0, "the device reported errors");
    expect(w, 0, ": 3 in INSTRUCTION");
    expect(w, 1, "6 of 9 records are of unknown kinds");
    warnings_free(w);
    w = warnings_new();
    rings[0].by_kind[RECORD_TPB_ERROR] = 0;
    scan.records = 6;
    doubts_tell(&scan, &t, 0, w);
    assert_int_equal(warnings_count(w), 1);
    expect(w, 0, "none of the 6 records is of a known kind");
    warnings_free(w);
}

static void test_times(void **state)
{
    (void)state;
    struct scan_ring rings[2] = {
        {.ring = {.kind = NTFF__RING_KIND__RING_EVENT}, .doubtful = 3, .doubtful_offset = 4242},
        {.ring = {.kind = NTFF__RING_KIND__RING_DMA, .engine_index = 5}, .doubtful = 1, .doubtful_offset = 6464},
    };
    struct scan scan = {.rings = rings, .count = 2};
    struct timeline t = {0};
    struct warnings *w = warnings_new();
    doubts_tell(&scan, &t, 0, w);
    assert_int_equal(warnings_count(w), 1);
    assert_true(warnings_serious(w, 0));
    expect(w, 0, "the records around them contradict");
    expect(w, 0, ": 2: 3 in EVENT(nc0), the first at offset 4242; 1 in DMA-E5(nc0), ");
    expect(w, 0, "the first at offset 6464");
    warnings_free(w);
}

static void test_counters(void **state)
{
    (void)state;
    char dir[] = "/tmp/kymo-doubts-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct scan_ring rings[2] = {0};
    for (unsigned i = 0; i < 2; i++)
        rings[i].ring = (struct ntff_ring){.kind = NTFF__RING_KIND__RING_INSTRUCTION,
                                           .pcore_idx = i,
                                           .records = 5,
                                           .emitted = 9 + i,
                                           .dropped = 1,
                                           .counters_contradict = 1};
    struct scan scan = {.rings = rings, .count = 2};
    struct input in = {.cores = 2};
    struct timebase tb = {0};
    struct ledger l;
    struct kymo_err err = {0};
    struct warnings *w = warnings_new();
    assert_int_equal(ledger_init(&l, &scan, &err), 0);
    if (ledger_write(&l, &in, &scan, &tb, dir, w, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(warnings_count(w), 1);
    expect(w, 0, "the file's counters contradict the stored records");
    expect(w, 0, "9 emitted, 5 stored, 1 dropped; ");
    expect(w, 0, "10 emitted, 5 stored, 1 dropped");
    warnings_free(w);
    ledger_done(&l);
    assert_int_equal(kymo_file_remove_tree(dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists), cmocka_unit_test(test_executions), cmocka_unit_test(test_records),
        cmocka_unit_test(test_times), cmocka_unit_test(test_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
