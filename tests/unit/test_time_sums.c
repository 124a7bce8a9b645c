/* Sums by stretch of time: random events against a straight count, whatever the widths that memory leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/lod/time_sums.h"

#define EVENTS 3000
#define SPAN 4096 /* ns */
#define LATE 256  /* events may last beyond the span */

struct event {
    uint32_t subject;
    struct time_sums_event e;
    struct time_sums_work work;
};

/* By subject and ns. */
struct want {
    uint64_t count, bytes;
    int64_t cost, figures[TIME_SUMS_FIGURES], read;
    double flops;
};

struct check {
    const struct time_sums *sums;
    struct want *want;
    size_t subjects;
    int64_t origin; /* of the first ns in want */
    uint8_t rank;
    int64_t bucket; /* of the last row */
    uint8_t *seen;  /* by subject and ns of its bucket */
};

static struct want *at(const struct check *c, uint32_t subject, int64_t ns)
{
    assert_true(ns >= c->origin && ns < c->origin + SPAN + LATE);
    return &c->want[(size_t)(ns - c->origin) * c->subjects + subject];
}

static void count_event(const struct check *c, const struct event *one, int64_t *covered)
{
    const struct time_sums_event *e = &one->e;
    struct want *first = at(c, one->subject, e->start);
    first->count++;
    first->bytes += e->bytes;
    first->cost += e->cost;
    first->read += e->work ? e->work->bytes[0] : 0;
    if (e->work && e->begin == e->end)
        first->flops += e->work->flops[1];
    for (int64_t t = e->start; t < e->end; t++) {
        struct want *w = at(c, one->subject, t);
        w->figures[TIME_SUMS_TIME]++;
        w->figures[TIME_SUMS_WAIT] += t < e->begin;
        if (t < e->begin)
            continue;
        if (e->work)
            w->flops += e->work->flops[1] / (double)(e->end - e->begin);
        w->figures[TIME_SUMS_BUSY] += t >= covered[one->subject];
        covered[one->subject] = t >= covered[one->subject] ? t + 1 : covered[one->subject];
    }
}

static int check_row(void *ctx, const struct time_sums_row *row, const struct time_sums_work *work,
                     struct kymo_err *err)
{
    struct check *c = ctx;
    struct want sum = {0};
    int64_t width = time_sums_width(c->sums);
    uint8_t rank = (uint8_t)(row->subject % 3);
    (void)err;
    assert_true(rank > c->rank || (rank == c->rank && row->bucket >= c->bucket));
    c->rank = rank;
    c->bucket = row->bucket;
    for (int64_t t = row->bucket * width; t < (row->bucket + 1) * width; t++) {
        if (t < c->origin || t >= c->origin + SPAN + LATE)
            continue;
        const struct want *w = at(c, row->subject, t);
        c->seen[(size_t)(t - c->origin) * c->subjects + row->subject]++;
        sum.count += w->count;
        sum.bytes += w->bytes;
        sum.cost += w->cost;
        sum.read += w->read;
        sum.flops += w->flops;
        for (int i = 0; i < TIME_SUMS_FIGURES; i++)
            sum.figures[i] += w->figures[i];
    }
    assert_int_equal(row->count, sum.count);
    assert_int_equal(row->bytes, sum.bytes);
    assert_int_equal(row->cost, sum.cost);
    assert_memory_equal(row->figures, sum.figures, sizeof sum.figures);
    assert_int_equal(work->bytes[0], sum.read);
    assert_true(work->flops[1] > sum.flops - 1e-3 && work->flops[1] < sum.flops + 1e-3);
    assert_true(row->count == 0 || (row->first >= row->bucket * width && row->first < (row->bucket + 1) * width));
    return 0;
}

static void make_event(struct event *one, int64_t *now, size_t subjects)
{
    static const int64_t lengths[] = {1, 4, 20, LATE - 20};
    int64_t wait = rand() % 3 ? 0 : rand() % 16, length = rand() % lengths[rand() % 4];
    *now += rand() % 3 ? 0 : rand() % (3 * SPAN / EVENTS + 1);
    one->subject = (uint32_t)((size_t)rand() % subjects);
    one->work = (struct time_sums_work){
        .bytes = {rand() % 100}, .flops = {1, rand() % 1000}, .has_bytes = true, .has_flops = true};
    one->e = (struct time_sums_event){.start = *now,
                                      .begin = *now + wait,
                                      .end = *now + wait + length,
                                      .cost = rand() % 10,
                                      .bytes = (uint64_t)(rand() % 50)};
}

/* Every sum is right, and nothing that happens is without one. */
static void run(size_t subjects, int64_t origin, bool all_at_once)
{
    struct check c = {.subjects = subjects, .origin = origin, .bucket = INT64_MIN};
    struct time_sums *s = NULL;
    struct event *events = kymo_calloc(EVENTS, sizeof *events);
    int64_t *covered = kymo_calloc(subjects, sizeof *covered), *begun = kymo_calloc(subjects, sizeof *begun);
    int64_t now = origin;
    uint8_t *rank = kymo_calloc(subjects, 1);
    size_t n = subjects * (SPAN + LATE);
    c.want = kymo_calloc(n, sizeof *c.want);
    c.seen = kymo_calloc(n, 1);
    assert_true(events && covered && begun && rank && c.want && c.seen);
    assert_int_equal(time_sums_open(all_at_once ? 0 : SPAN, true, &s, NULL), 0);
    for (size_t i = 0; i < subjects; i++) {
        rank[i] = (uint8_t)(i % 3);
        covered[i] = begun[i] = INT64_MIN;
    }
    for (size_t i = 0; i < EVENTS; i++) {
        struct event *one = &events[i];
        make_event(one, &now, subjects);
        one->e.work = rand() % 4 ? &one->work : NULL;
        if (one->e.start >= origin + SPAN)
            break;
        int64_t *last = &begun[one->subject]; /* spans come in order of begin */
        one->e.begin = *last = one->e.begin > *last ? one->e.begin : *last;
        one->e.end = one->e.end > *last ? one->e.end : *last;
        count_event(&c, one, covered);
        assert_int_equal(time_sums_event(s, &one->subject, 1, &one->e, NULL), 0);
        assert_int_equal(time_sums_cover(s, &one->subject, 1, one->e.begin, one->e.end, NULL), 0);
    }
    c.sums = s;
    assert_int_equal(time_sums_rows(s, rank, check_row, &c, NULL), 0);
    for (size_t i = 0; i < n; i++)
        assert_true(c.seen[i] == 1 || (c.seen[i] == 0 && !c.want[i].count && !c.want[i].figures[TIME_SUMS_TIME]));
    assert_null(time_sums_free(s));
    kymo_free(events);
    kymo_free(covered);
    kymo_free(begun);
    kymo_free(rank);
    kymo_free(c.want);
    kymo_free(c.seen);
}

static void test_random(void **state)
{
    (void)state;
    srand(20261130);
    for (int i = 0; i < 20; i++)
        run(1 + (size_t)rand() % 20, rand() % 2 ? 0 : -SPAN / 2, rand() % 4 == 0);
}

static int count_row(void *ctx, const struct time_sums_row *row, const struct time_sums_work *work,
                     struct kymo_err *err)
{
    uint64_t *sums = ctx;
    (void)err;
    assert_null(work);
    sums[0]++;
    sums[1] += row->count;
    sums[2] += (uint64_t)row->figures[TIME_SUMS_TIME];
    return 0;
}

/* Buckets become wider when there would be too many rows; a span of all of the profile, and one far beyond it, too. */
static void test_bounds(void **state)
{
    const uint32_t subjects = 1000, one = 1;
    uint64_t sums[3] = {0};
    uint8_t *rank = kymo_calloc(subjects, 1);
    struct time_sums *s = NULL;
    (void)state;
    assert_non_null(rank);
    assert_int_equal(time_sums_open(1 << 20, false, &s, NULL), 0);
    assert_int_equal(time_sums_width(s), 1024);
    for (int64_t t = 0; t < 1 << 20; t += 1024)
        for (uint32_t i = 0; i < subjects; i += 2)
            assert_int_equal(
                time_sums_event(s, &i, 1, &(struct time_sums_event){.start = t, .begin = t, .end = t + 10}, NULL), 0);
    assert_int_equal(time_sums_width(s), 4096);
    assert_int_equal(time_sums_event(s, &one, 1, &(struct time_sums_event){.end = (int64_t)1 << 50}, NULL), 0);
    assert_int_equal(time_sums_rows(s, rank, count_row, sums, NULL), 0);
    assert_true(sums[0] <= TIME_SUMS_ROWS);
    assert_int_equal(sums[1], 1024 * 500 + 1);
    assert_int_equal(sums[2], 1024 * 500 * 10 + ((uint64_t)1 << 50));
    assert_null(time_sums_free(s));
    kymo_free(rank);
}

struct rows {
    struct time_sums_row *list;
    size_t n, cap;
};

static int keep_row(void *ctx, const struct time_sums_row *row, const struct time_sums_work *work, struct kymo_err *err)
{
    struct rows *rows = ctx;
    (void)err;
    assert_null(work);
    assert_true(rows->n < rows->cap);
    rows->list[rows->n++] = *row;
    return 0;
}

#define GROUPED_QUEUES 64

/* Events of groups are what they are of each subject, whatever the widths, and whoever the subjects are meanwhile. */
static void run_groups(int64_t duration, int64_t step, int64_t length, int64_t width)
{
    struct time_sums *grouped = NULL, *single = NULL;
    struct rows got = {.cap = 1u << 18}, want = {.cap = 1u << 18};
    uint8_t rank[2 * GROUPED_QUEUES + 9] = {0};
    int64_t now = -1000;
    got.list = kymo_calloc(got.cap, sizeof *got.list);
    want.list = kymo_calloc(want.cap, sizeof *want.list);
    assert_true(got.list && want.list);
    memset(rank + GROUPED_QUEUES, 1, sizeof rank - GROUPED_QUEUES);
    assert_int_equal(time_sums_open(duration, false, &grouped, NULL), 0);
    assert_int_equal(time_sums_open(duration, false, &single, NULL), 0);
    for (uint32_t i = 0; i < 40000; i++) {
        uint32_t queue = (uint32_t)rand() % GROUPED_QUEUES, other = i / 20000 * GROUPED_QUEUES;
        const uint32_t subjects[TIME_SUMS_GROUP] = {2 * GROUPED_QUEUES + queue / 8, queue + other,
                                                    2 * GROUPED_QUEUES + 8};
        struct time_sums_event e = {.start = now, .begin = now, .bytes = (uint64_t)(rand() % 1000)};
        e.end = now + rand() % (rand() % 50 ? 5 : length);
        for (uint32_t q = 0; q < GROUPED_QUEUES && i % 20000 == 0; q++) {
            const uint32_t of_queue[TIME_SUMS_GROUP] = {2 * GROUPED_QUEUES + q / 8, q + other, subjects[2]};
            assert_int_equal(time_sums_group(grouped, q, of_queue, NULL), 0);
        }
        assert_int_equal(time_sums_group_event(grouped, queue, e.start, e.end, e.bytes, NULL), 0);
        assert_int_equal(time_sums_event(single, subjects, TIME_SUMS_COUNTED, &e, NULL), 0);
        assert_int_equal(time_sums_cover(single, subjects, TIME_SUMS_GROUP, e.start, e.end, NULL), 0);
        now += rand() % step;
    }
    assert_int_equal(time_sums_width(grouped), width);
    assert_int_equal(time_sums_width(single), width);
    assert_int_equal(time_sums_rows(grouped, rank, keep_row, &got, NULL), 0);
    assert_int_equal(time_sums_rows(single, rank, keep_row, &want, NULL), 0);
    assert_int_equal(got.n, want.n);
    for (size_t i = 0; i < got.n; i++) {
        const size_t figures = offsetof(struct time_sums_row, count);
        assert_int_equal(got.list[i].bucket, want.list[i].bucket);
        assert_int_equal(got.list[i].subject, want.list[i].subject);
        assert_memory_equal((char *)&got.list[i] + figures, (char *)&want.list[i] + figures,
                            sizeof *got.list - figures);
    }
    time_sums_free(grouped);
    time_sums_free(single);
    kymo_free(got.list);
    kymo_free(want.list);
}

static void test_groups(void **state)
{
    (void)state;
    srand(20261201);
    run_groups(1 << 20, 50, 100, 1024); /* many in each bucket */
    run_groups(0, 50, 100000, 512);     /* buckets become wider */
    run_groups(1 << 16, 3, 10000, 64);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (long n = 0; n < 4; n++) {
        struct time_sums *s = NULL;
        kymo_alloc_fail_after(n);
        int r = time_sums_open(1000, true, &s, NULL);
        if (r == 0)
            r = time_sums_event(s, &(uint32_t){0}, 1, &(struct time_sums_event){.end = 1}, NULL);
        kymo_alloc_fail_after(-1);
        assert_true(r < 0);
        time_sums_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
