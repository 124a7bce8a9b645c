/* pipeline/spill: an array in a file, against one in memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "pipeline/spill/spill.h"

#define BYTES_MAX 3000000u /* more than the pages that are held */

static char dir[64];

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static void expect_read(const struct spill *s, const uint8_t *all, size_t size, uint64_t from, uint64_t count)
{
    struct kymo_err err;
    struct spill_reader r;
    const void *next;
    assert_int_equal(spill_reader_init(&r, s, &err), 0);
    r.next = from;
    for (uint64_t i = from; i < count; i++) {
        assert_int_equal(spill_reader_next(&r, &next, &err), 1);
        assert_memory_equal(next, all + i * size, size);
    }
    assert_int_equal(spill_reader_next(&r, &next, &err), 0);
    spill_reader_done(&r);
}

/* Mostly appends; now and then a record far away, a hole, or a look at one. */
static void work(struct spill *s, uint8_t *all, size_t size, uint64_t max, uint64_t seed)
{
    struct kymo_err err;
    uint8_t record[4096];
    uint64_t count = spill_count(s), state = seed;
    while (count < max) {
        uint64_t drawn = next_random(&state), at = count;
        for (size_t i = 0; i < size; i++)
            record[i] = (uint8_t)(drawn + i * 7);
        if (drawn % 50 == 0 && count) {
            assert_int_equal(spill_get(s, drawn % count, record, &err), 0);
            assert_memory_equal(record, all + drawn % count * size, size);
            continue;
        }
        if (drawn % 60 == 0)
            at = next_random(&state) % (count + 1);
        else if (drawn % 5000 == 1 || max - count < 3)
            at = count + drawn % (max - count);
        memcpy(all + at * size, record, size);
        assert_int_equal(spill_put(s, at, record, &err), 0);
        count = at >= count ? at + 1 : count;
        assert_int_equal(spill_count(s), count);
    }
    assert_int_equal(spill_get(s, count, record, &err), -ERANGE);
}

static void test_array(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 24, 72, 1000, 4096};
    struct kymo_err err;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (uint64_t seed = 1; seed < 4; seed++) {
            uint64_t half = seed * BYTES_MAX / 6 / sizes[k];
            uint8_t *all = kymo_calloc(2 * half + 1, sizes[k]);
            struct spill *s = NULL;
            assert_non_null(all);
            assert_int_equal(spill_open(dir, sizes[k], &s, &err), 0);
            work(s, all, sizes[k], half, seed);
            assert_int_equal(spill_seal(s, &err), 0);
            expect_read(s, all, sizes[k], 0, half);
            work(s, all, sizes[k], 2 * half, seed + 9);
            assert_int_equal(spill_seal(s, &err), 0);
            expect_read(s, all, sizes[k], 0, 2 * half);
            expect_read(s, all, sizes[k], half, 2 * half);
            spill_free(s);
            kymo_free(all);
        }
}

static void test_empty(void **state)
{
    (void)state;
    struct kymo_err err;
    struct spill *s = NULL;
    assert_int_equal(spill_open(dir, 16, &s, &err), 0);
    assert_int_equal(spill_seal(s, &err), 0);
    expect_read(s, NULL, 16, 0, 0);
    spill_free(s);
    assert_int_equal(spill_open(dir, 0, &s, &err), -EINVAL);
    assert_int_equal(spill_open(dir, 4097, &s, &err), -EINVAL);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-spill.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
