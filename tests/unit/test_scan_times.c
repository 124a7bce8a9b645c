/* What a chunk as a whole tells about times is what its records tell one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "pipeline/rings/scan_times.h"

#define RECORDS 9000
#define ROUNDS 60
#define MS 1000000000ull

/* No order among notes: they are of ranges and bitmaps. */
struct notes {
    uint64_t count, sum, mixed;
};

static void on_note(void *ctx, uint64_t ps, uint32_t low)
{
    struct notes *n = ctx;
    n->count++;
    n->sum += ps;
    n->mixed += ps * (2 * (uint64_t)low + 1);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

/* Times go on, now and then a little back; every damaged-th record's are anything, at times several in a row. */
static void make(uint8_t *records, size_t n, uint64_t damaged, uint64_t *state)
{
    static const uint8_t types[] = {0x02, 0x04, 0x05, 0x07, 0x08, 0x09, 0x14, 0x15, 0x1b, 0x1f};
    uint64_t ps = 1000000 * MS;
    size_t row = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t drawn = next_random(state), at;
        ps += drawn % 5000;
        at = ps - (drawn % 97 ? 0 : drawn % MS);
        if (damaged && drawn % damaged == 0)
            row = 1 + drawn / damaged % 11;
        if (row) {
            row--;
            at = drawn & 1 ? ps + 7 * MS * (drawn % 1000) : ps - 3 * MS * (drawn % 1000);
        }
        /* Rare types have chunks without a record, or with a few. */
        uint8_t type = types[next_random(state) % (drawn % 13 ? 2 : sizeof types)];
        kymo_put_le32(records + i * KYMO_RECORD_SIZE, (uint32_t)type << 24 | (uint32_t)(drawn & 0xffff));
        kymo_put_le32(records + i * KYMO_RECORD_SIZE + 4, (uint32_t)i);
        kymo_put_le64(records + i * KYMO_RECORD_SIZE + 8, at);
    }
}

struct result {
    struct scan scan;
    struct scan_ring ring;
    struct scan_times *times;
    struct notes notes;
    uint64_t inner;
};

static void read_ring(struct result *r, const uint8_t *records, size_t n, bool whole)
{
    struct kymo_err err;
    memset(r, 0, sizeof *r);
    r->scan = (struct scan){.rings = &r->ring, .count = 1};
    r->times = scan_times_new(&r->scan, &err);
    assert_non_null(r->times);
    r->times->r = &r->ring;
    r->times->note = on_note;
    r->times->ctx = &r->notes;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *bytes = records + i * KYMO_RECORD_SIZE;
        uint64_t ps = kymo_le64(bytes + 8);
        if (whole && i % RING_IO_CHUNK == 0)
            scan_times_chunk(r->times, bytes, n - i < RING_IO_CHUNK ? n - i : RING_IO_CHUNK);
        if (scan_times_inner(r->times, kymo_le32(bytes))) {
            assert_int_equal(r->times->ps[i % RING_IO_CHUNK], ps);
            scan_times_certain(r->times, ps);
            on_note(&r->notes, ps, kymo_le32(bytes));
            r->inner++;
            continue;
        }
        const struct time_order_entry e = {
            .ps = ps, .raw = ps, .index = i, .low = kymo_le32(bytes), .high = kymo_le32(bytes + 4)};
        assert_int_equal(scan_times_add(r->times, &e), 0);
    }
    assert_int_equal(scan_times_end_ring(r->times), 0);
}

static void free_result(struct result *r)
{
    kymo_free(r->ring.times.at);
    scan_times_free(r->times);
}

static void expect_same(const struct result *a, const struct result *b)
{
    assert_memory_equal(&a->notes, &b->notes, sizeof a->notes);
    assert_memory_equal(&a->times->certain, &b->times->certain, sizeof a->times->certain);
    assert_int_equal(a->ring.doubtful, b->ring.doubtful);
    assert_int_equal(a->ring.times.count, b->ring.times.count);
    if (a->ring.times.count)
        assert_memory_equal(a->ring.times.at, b->ring.times.at, a->ring.times.count * sizeof *a->ring.times.at);
    assert_int_equal(a->times->count, b->times->count);
    for (size_t i = 0; i < a->times->count; i++) {
        assert_int_equal(a->times->edges[i].e.index, b->times->edges[i].e.index);
        assert_int_equal(a->times->edges[i].e.ps, b->times->edges[i].e.ps);
        assert_int_equal(a->times->edges[i].near_ps, b->times->edges[i].near_ps);
    }
}

static void compare(uint64_t damaged, uint64_t seed, uint64_t *ret_inner, uint64_t *ret_doubtful)
{
    static uint8_t records[RECORDS * KYMO_RECORD_SIZE];
    struct result one_by_one, whole;
    uint64_t state = seed;
    size_t n = 1 + next_random(&state) % RECORDS;
    make(records, n, damaged, &state);
    read_ring(&one_by_one, records, n, false);
    read_ring(&whole, records, n, true);
    expect_same(&one_by_one, &whole);
    assert_int_equal(one_by_one.inner, 0);
    *ret_inner += whole.inner;
    *ret_doubtful += whole.ring.doubtful;
    free_result(&one_by_one);
    free_result(&whole);
}

static void test_sound(void **state)
{
    (void)state;
    uint64_t inner = 0, doubtful = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        compare(0, seed, &inner, &doubtful);
    assert_int_equal(doubtful, 0);
    assert_true(inner > 100000);
}

static void test_damaged(void **state)
{
    (void)state;
    static const uint64_t every[] = {20, 700, 5000};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        uint64_t inner = 0, doubtful = 0;
        for (uint64_t seed = 1; seed <= ROUNDS; seed++)
            compare(every[i], 1000 * i + seed, &inner, &doubtful);
        assert_true(doubtful > 0);
        assert_true(i == 0 || inner > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
