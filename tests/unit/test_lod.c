/* Levels of detail: hand-computed rows, and random events against counts made from the events themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "pipeline/lod/lod.h"
#include "pipeline/lod/lod_rows.h"

#define ROWS_MAX 20000
#define EVENTS 4000
#define TRACKS 3
#define KEPT 60000
#define REACH ((1 << 22) - 1) /* more than a packed row's */
#define IDLE (3 << 20)

struct found {
    struct lod_row rows[LOD_LEVELS_MAX][ROWS_MAX];
    size_t count[LOD_LEVELS_MAX];
    unsigned last_level;
};

static int keep(void *ctx, unsigned level, const struct lod_row *row, struct kymo_err *err)
{
    struct found *f = ctx;
    (void)err;
    assert_true(level >= f->last_level && level < LOD_LEVELS_MAX);
    assert_true(f->count[level] < ROWS_MAX);
    f->last_level = level;
    f->rows[level][f->count[level]++] = *row;
    return 0;
}

static void test_plan(void **state)
{
    (void)state;
    struct lod_plan p = lod_plan(1000000, 1000); /* 1,000 ns each, 4 in a bucket: 4,004 ns, up to a power of two */
    assert_int_equal(p.width[0], 4096);
    assert_int_equal(p.levels, 1); /* 244 buckets */
    p = lod_plan(1000000000, 1000000);
    assert_int_equal(p.width[0], 4096); /* 244,140 buckets, then 61,035, 15,258, 3,814, 953, 238 */
    assert_int_equal(p.levels, 6);
    assert_int_equal(p.width[5], 4096 * 1024);
    p = lod_plan(0, 0);
    assert_int_equal(p.levels, 1);
    p = lod_plan(INT64_MAX, 1);
    assert_true(p.width[0] > 0 && p.levels >= 1);
    p = lod_plan(INT64_MAX, UINT64_MAX);
    for (unsigned i = 0; i < p.levels; i++)
        assert_true(p.width[i] > 0);
}

static void test_rows(void **state)
{
    const struct lod_plan plan = {.width = {10, 40}, .levels = 2};
    struct found *f = kymo_calloc(1, sizeof *f);
    struct lod *l = NULL;
    assert_non_null(f);
    assert_int_equal(lod_open(*state, &plan, 2, &l, NULL), 0);
    const struct lod_event events[] = {
        {.start = 0, .begin = 0, .end = 4, .id = 1, .bytes = 5, .track = 0, .label = 7},
        {.start = 3, .begin = 3, .end = 18, .id = 2, .bytes = 1, .track = 0, .label = 8}, /* 14 of them are new */
        {.start = 5, .begin = 5, .end = 6, .id = 3, .track = 1, .label = 9},
        {.start = 15, .begin = 15, .end = 20, .id = 4, .track = 0, .label = 7}, /* 2 are new */
        {.start = 41, .begin = 43, .end = 45, .id = 5, .track = 1, .label = 9}, /* it waits for 2 */
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_int_equal(lod_add(l, &events[i], NULL), 0);
    struct lod_event wrong = {.track = 2};
    assert_true(lod_add(l, &wrong, NULL) < 0);
    assert_int_equal(lod_finish(l, keep, f, NULL), 0);
    assert_int_equal(f->count[0], 4);
    const struct lod_row first = {.start = 0,
                                  .first = 0,
                                  .last = 18,
                                  .busy = 18,
                                  .longest = 15,
                                  .longest_id = 2,
                                  .count = 2,
                                  .bytes = 6,
                                  .track = 0,
                                  .label = 8};
    assert_memory_equal(&f->rows[0][0], &first, sizeof first);
    assert_int_equal(f->rows[0][1].track, 1);
    assert_int_equal(f->rows[0][2].start, 10);
    assert_int_equal(f->rows[0][2].busy, 2);
    assert_int_equal(f->count[1], 3);
    const struct lod_row up = {.start = 0,
                               .first = 0,
                               .last = 20,
                               .busy = 20,
                               .longest = 15,
                               .longest_id = 2,
                               .count = 3,
                               .bytes = 6,
                               .track = 0,
                               .label = 8};
    assert_memory_equal(&f->rows[1][0], &up, sizeof up);
    assert_int_equal(f->rows[1][2].start, 40);
    assert_int_equal(f->rows[1][2].longest, 4);
    assert_int_equal(f->rows[1][2].busy, 2);
    assert_null(lod_free(l));
    kymo_free(f);
}

/* Every level holds every event once, in order, and the time covered is that of a straight count. */
static void check_level(const struct found *f, unsigned level, const struct lod_event *events, int64_t width)
{
    uint64_t count[TRACKS] = {0};
    int64_t busy[TRACKS] = {0}, covered[TRACKS], want[TRACKS] = {0}, before = INT64_MIN;
    memset(covered, 0, sizeof covered);
    for (size_t i = 0; i < f->count[level]; i++) {
        const struct lod_row *row = &f->rows[level][i];
        assert_true(row->start >= before && row->start % width == 0);
        assert_true(row->first >= row->start && row->first < row->start + width);
        before = row->start;
        count[row->track] += row->count;
        busy[row->track] += row->busy;
    }
    uint64_t all[TRACKS] = {0};
    for (size_t i = 0; i < EVENTS; i++) {
        const struct lod_event *e = &events[i];
        for (int64_t t = e->begin; t < e->end; t++)
            if (t >= covered[e->track]) {
                want[e->track]++;
                covered[e->track] = t + 1;
            }
        all[e->track]++;
    }
    for (unsigned t = 0; t < TRACKS; t++) {
        assert_int_equal(count[t], all[t]);
        assert_int_equal(busy[t], want[t]);
    }
}

static void test_random(void **state)
{
    struct found *f = kymo_calloc(1, sizeof *f);
    static struct lod_event events[EVENTS];
    assert_non_null(f);
    int64_t at = 0;
    srand(20261129);
    for (size_t i = 0; i < EVENTS; i++) {
        at += rand() % 40;
        int64_t wait = rand() % 4 ? 0 : rand() % 60;
        events[i] = (struct lod_event){.start = at,
                                       .begin = at + wait,
                                       .end = at + wait + rand() % 120,
                                       .id = (int64_t)i,
                                       .bytes = 1,
                                       .track = (uint32_t)(rand() % TRACKS),
                                       .label = (uint32_t)(rand() % 5)};
    }
    const struct lod_plan plan = lod_plan(at, EVENTS); /* a level too fine for three tracks, and one above it */
    struct lod *l = NULL;
    assert_int_equal(lod_open(*state, &plan, TRACKS, &l, NULL), 0);
    for (size_t i = 0; i < EVENTS; i++)
        assert_int_equal(lod_add(l, &events[i], NULL), 0);
    assert_int_equal(lod_finish(l, keep, f, NULL), 0);
    for (unsigned level = 0; level < plan.levels; level++)
        if (f->count[level])
            check_level(f, level, events, plan.width[level]);
    for (unsigned level = 0; level + 1 < plan.levels; level++)
        assert_true(f->count[level] * LOD_LEAST <= EVENTS);
    assert_true(f->count[0] == 0 && f->count[plan.levels - 1] > 0);
    lod_free(l);
    kymo_free(f);
}

struct kept {
    const struct lod_row *rows;
    size_t seen;
};

static int expect_kept(void *ctx, unsigned level, const struct lod_row *row, struct kymo_err *err)
{
    struct kept *k = ctx;
    (void)err;
    assert_int_equal(level, 5);
    assert_memory_equal(row, &k->rows[k->seen++], sizeof *row);
    return 0;
}

static int64_t number(unsigned bits)
{
    uint64_t v = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 16 ^ (uint64_t)rand();
    return bits ? (int64_t)(v >> (64 - bits)) : 0;
}

/* Rows of any numbers come back as they were: small ones, which most are, and ones just within and beyond what packs.
 */
static void test_kept(void **state)
{
    static const int64_t width = 1000;
    struct lod_row *rows = kymo_calloc(KEPT, sizeof *rows);
    struct lod_rows *l = NULL;
    struct kept kept = {.rows = rows};
    int64_t bucket = -KEPT;
    assert_non_null(rows);
    assert_int_equal(lod_rows_open(*state, width, &l, NULL), 0);
    srand(20261130);
    for (size_t i = 0; i < KEPT; i++) {
        struct lod_row *row = &rows[i];
        unsigned more = rand() % 8 ? 0 : (unsigned)rand() % 36; /* bits */
        bucket += rand() % 3 + (rand() % 50 ? 0 : number(6 + more / 4));
        row->start = bucket * width;
        row->first = row->start + number(17 + more / 2) - (rand() % 90 ? 0 : 7);
        row->last = row->first + number(21 + more / 2);
        row->busy = row->last - row->first - number(20 + more / 2);
        row->longest = row->last - row->first - number(20 + more / 2);
        row->longest_id = (i ? row[-1].longest_id : 0) + number(30 + more / 9) - number(30 + more / 9);
        row->count = 1 + (uint64_t)number(9 + more);
        row->bytes = (uint64_t)number(29 + more);
        row->track = (uint32_t)number(11 + more / 2);
        row->label = (uint32_t)number(19 + more / 3);
        assert_int_equal(lod_rows_add(l, row, bucket, NULL), 0);
    }
    assert_int_equal(lod_rows_count(l), KEPT);
    assert_int_equal(lod_rows_hand_out(l, 5, expect_kept, &kept, NULL), 0);
    assert_int_equal(kept.seen, KEPT);
    lod_rows_free(l);
    kymo_free(rows);
}

/* Numbers at the ends of what they can be. */
static void test_kept_extremes(void **state)
{
    const struct lod_row rows[] = {
        {.count = 1},
        {.start = -4000, .first = INT64_MIN, .last = INT64_MAX, .count = 1, .track = UINT32_MAX, .label = UINT32_MAX},
        {.start = -4000, .last = -4000, .busy = INT64_MAX, .longest = INT64_MIN, .longest_id = INT64_MIN, .count = 2},
        {.start = 0, .last = (1 << 22) - 1, .longest_id = INT64_MAX, .count = UINT64_MAX, .bytes = UINT64_MAX},
        {.start = 1000, .longest_id = 5, .count = 1},
        /* As the row before, but for one number that is the first beyond, or the last within. */
        {.start = 1000,
         .first = 1000,
         .last = 1000 + REACH,
         .busy = IDLE,
         .longest = IDLE,
         .longest_id = 5,
         .count = 1},
        {.start = 1000, .first = 1000, .last = 999 + REACH, .busy = IDLE, .longest = IDLE, .longest_id = 5, .count = 1},
        {.start = 1000, .first = 1000, .last = 1000, .longest_id = 5 + (INT64_C(1) << 31), .count = 1},
        {.start = 1000, .first = 1000, .last = 1000, .longest_id = 4 + (INT64_C(1) << 32), .count = 1},
        {.start = 1000, .first = 1000, .last = 1000, .longest_id = 4 + (INT64_C(1) << 32), .count = 1024},
        {.start = 1000, .first = 1000, .last = 1000, .longest_id = 4 + (INT64_C(1) << 32), .count = 1025},
        {.start = 16000, .first = 16000, .last = 16000, .longest_id = 4 + (INT64_C(1) << 32), .count = 1},
        {.start = 32000, .first = 32000, .last = 32000, .longest_id = 4 + (INT64_C(1) << 32), .count = 1},
    };
    struct kept kept = {.rows = rows};
    struct lod_rows *l = NULL;
    assert_int_equal(lod_rows_open(*state, 1000, &l, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(lod_rows_add(l, &rows[i], rows[i].start / 1000, NULL), 0);
    assert_int_equal(lod_rows_hand_out(l, 5, expect_kept, &kept, NULL), 0);
    assert_int_equal(kept.seen, sizeof rows / sizeof *rows);
    lod_rows_free(l);
}

static int setup(void **state)
{
    static char dir[] = "/tmp/kymo-lod-XXXXXX";
    *state = mkdtemp(dir);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    return kymo_file_remove_tree(*state, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan), cmocka_unit_test(test_rows),          cmocka_unit_test(test_random),
        cmocka_unit_test(test_kept), cmocka_unit_test(test_kept_extremes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
