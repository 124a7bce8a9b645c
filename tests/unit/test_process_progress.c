/* The line of progress, at times and counts that are given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/process_progress.h"

#define MS 1000000ull

static void expect(struct process_progress *p, const char *stage, uint64_t done, uint64_t total, uint64_t ms,
                   const char *text)
{
    char line[PROCESS_PROGRESS_MAX];
    size_t n = process_progress_line(p, stage, done, total, ms * MS, line);
    assert_string_equal(line, text);
    assert_int_equal(n, strlen(text));
}

/* Half of the DMA stage is 1 + 6 + 21 of 100; after 14 s of 28 % the rest takes 36 s. */
static void test_stages(void **state)
{
    (void)state;
    struct process_progress p;
    process_progress_init(&p, "job", 0, 0);
    expect(&p, "open", 0, 0, 0, "job: [....................]   0 % open");
    expect(&p, "scan", 500000, 1000000, 100, "job: [....................]   4 % scan");
    expect(&p, "scan", 1000000, 1000000, 500, "job: [#...................]   7 % scan, 2.5 M records/s");
    expect(&p, "dma", 0, 1000000, 4000, "job: [#...................]   7 % dma, 53 s left");
    expect(&p, "dma", 500000, 1000000, 14000, "job: [#####...............]  28 % dma, 50 k records/s, 36 s left");
    expect(&p, "summary", 0, 0, 3600000, "job: [##################..]  92 % summary, 5 min 13 s left");
}

static void test_slow(void **state)
{
    (void)state;
    struct process_progress p;
    process_progress_init(&p, "job", 100, 0);
    expect(&p, "scan", 0, 100000, 0, "job: [....................]   1 % scan");
    expect(&p, "scan", 1000, 100000, 1000, "job: [....................]   1 % scan, 1.0 k records/s, 1 min 33 s left");
    expect(&p, "scan", 1000, 100000, 3600000,
           "job: [....................]   1 % scan, 0.0 k records/s, 93 h 20 min left");
}

/* A narrow terminal takes the name first, then the end of the figures; never a whole line, which would wrap. */
static void test_narrow(void **state)
{
    (void)state;
    struct process_progress p;
    process_progress_init(&p, "a-long-name-of-a-profile", 48, 0);
    expect(&p, "scan", 0, 100, 10, "a-long-name-: [....................]   1 % scan");
    p.width = 20;
    expect(&p, "scan", 0, 100, 10, "[..................");
    p.width = 1;
    expect(&p, "scan", 0, 100, 10, "");
}

/* A stage of a newer kymo-process is shown by its name, at the end of what is known. */
static void test_unknown_stage(void **state)
{
    (void)state;
    struct process_progress p;
    process_progress_init(&p, "job", 0, 0);
    expect(&p, "polish", 5, 10, 10, "job: [####################] 100 % polish");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_unknown_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
