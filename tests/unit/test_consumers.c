/* Batches reach every consumer that wants them, in order, whatever number of threads takes them; failures stop all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "pipeline/consumers.h"
#include "pipeline/crew.h"

#define ROWS 50000

struct seen {
    uint64_t instructions, packets, sum;
    int64_t last_id;
    unsigned stages[4], n_stages;
    bool in_use, finished, freed, out_of_order, overlapped;
};
static struct seen seen[3];
static uint64_t fails_at; /* the second consumer fails at this row; 0: never */

static int open_at(size_t i, void **ret)
{
    seen[i] = (struct seen){.last_id = -1};
    *ret = &seen[i];
    return 0;
}

static int open_0(const struct job *j, void **ret, struct kymo_err *err)
{
    (void)j;
    (void)err;
    return open_at(0, ret);
}

static int open_1(const struct job *j, void **ret, struct kymo_err *err)
{
    (void)j;
    (void)err;
    return open_at(1, ret);
}

/* Has nothing to do. */
static int open_2(const struct job *j, void **ret, struct kymo_err *err)
{
    (void)j;
    (void)err;
    *ret = NULL;
    return 0;
}

static int open_fails(const struct job *j, void **ret, struct kymo_err *err)
{
    (void)j;
    (void)ret;
    return kymo_err_set(err, -EIO, "cannot open");
}

static void enter(struct seen *s)
{
    s->overlapped |= __atomic_exchange_n(&s->in_use, true, __ATOMIC_ACQ_REL);
}

static void leave(struct seen *s)
{
    __atomic_store_n(&s->in_use, false, __ATOMIC_RELEASE);
}

static int take_instructions(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct seen *s = c;
    int r = 0;
    enter(s);
    for (size_t i = 0; i < n && r == 0; i++) {
        s->out_of_order |= rows[i].id != s->last_id + 1 || s->n_stages != 1;
        s->last_id = rows[i].id;
        s->sum += (uint64_t)rows[i].start;
        s->instructions++;
        if (s == &seen[1] && fails_at && s->instructions == fails_at)
            r = kymo_err_set(err, -ENOSPC, "row %llu: no room", (unsigned long long)fails_at);
    }
    leave(s);
    return r;
}

static int take_packets(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    struct seen *s = c;
    (void)err;
    enter(s);
    for (size_t i = 0; i < n; i++)
        s->sum += rows[i].row.bytes;
    s->packets += n;
    leave(s);
    return 0;
}

static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct seen *s = c;
    (void)err;
    enter(s);
    s->stages[s->n_stages++] = stage;
    leave(s);
    return 0;
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    struct seen *s = c;
    (void)w;
    (void)err;
    s->finished = true;
    return 0;
}

static void release(void *c)
{
    struct seen *s = c;
    s->freed = true;
}

static const struct consumer first = {.name = "first",
                                      .open = open_0,
                                      .packets = take_packets,
                                      .instructions = take_instructions,
                                      .end_stage = end_stage,
                                      .finish = finish,
                                      .free = release};
static const struct consumer second = {.name = "second",
                                       .open = open_1,
                                       .instructions = take_instructions,
                                       .end_stage = end_stage,
                                       .finish = finish,
                                       .free = release};
static const struct consumer idle = {
    .name = "idle", .open = open_2, .instructions = take_instructions, .finish = finish, .free = release};
static const struct consumer broken = {.name = "broken", .open = open_fails, .finish = finish, .free = release};

static const struct consumer *const list[] = {&first, &idle, &second, NULL};
static const struct consumer *const broken_list[] = {&first, &broken, NULL};

static int feed(struct consumers *c, struct kymo_err *err)
{
    int r = 0;
    for (int64_t i = 0; i < ROWS && r == 0; i++)
        r = consumers_packet(c, &(struct consumer_packet){.row = {.id = i, .bytes = 3}}, err);
    if (r == 0)
        r = consumers_end_stage(c, CONSUMER_TRANSFERS, err);
    for (int64_t i = 0; i < ROWS && r == 0; i++)
        r = consumers_instruction(c, &(struct instr_row){.id = i, .start = i}, err);
    if (r == 0)
        r = consumers_end_stage(c, CONSUMER_INSTRUCTIONS, err);
    return r == 0 ? consumers_finish(c, NULL, err) : r;
}

static void check_whole(const struct seen *s, uint64_t packets)
{
    const uint64_t ids = (uint64_t)ROWS * (ROWS - 1) / 2;
    assert_int_equal(s->instructions, ROWS);
    assert_int_equal(s->packets, packets);
    assert_int_equal(s->sum, ids + 3 * packets);
    assert_int_equal(s->n_stages, 2);
    assert_int_equal(s->stages[0], CONSUMER_TRANSFERS);
    assert_int_equal(s->stages[1], CONSUMER_INSTRUCTIONS);
    assert_true(s->finished && s->freed);
    assert_false(s->out_of_order || s->overlapped);
}

static void test_everything_in_order(void **state)
{
    (void)state;
    fails_at = 0;
    for (unsigned threads = 0; threads <= 3; threads++) {
        struct crew *crew = crew_new(threads);
        struct consumers *c = NULL;
        assert_true(threads == 0 ? !crew : crew != NULL);
        for (int again = 0; again < 2; again++) { /* a crew serves one after another */
            assert_int_equal(consumers_open_list(NULL, list, crew, &c, NULL), 0);
            assert_int_equal(feed(c, NULL), 0);
            assert_null(consumers_free(c));
            check_whole(&seen[0], ROWS);
            check_whole(&seen[1], 0);
        }
        assert_null(crew_free(crew));
    }
}

static void test_failure(void **state)
{
    (void)state;
    const uint64_t rows[] = {1, 30000, ROWS};
    for (unsigned threads = 0; threads <= 2; threads++)
        for (size_t i = 0; i < 3; i++) {
            struct crew *crew = crew_new(threads);
            struct consumers *c = NULL;
            struct kymo_err err = {0};
            fails_at = rows[i];
            assert_int_equal(consumers_open_list(NULL, list, crew, &c, NULL), 0);
            assert_int_equal(feed(c, &err), -ENOSPC);
            assert_non_null(strstr(err.text, "no room"));
            consumers_free(c);
            assert_int_equal(seen[1].instructions, fails_at);
            assert_true(seen[0].freed && seen[1].freed);
            assert_false(seen[0].finished || seen[1].finished);
            crew_free(crew);
        }
}

/* What is under way when the caller gives up is not waited for longer than one batch. */
static void test_abandoned(void **state)
{
    (void)state;
    fails_at = 0;
    struct crew *crew = crew_new(2);
    struct consumers *c = NULL;
    struct kymo_err err = {0};
    assert_int_equal(consumers_open_list(NULL, list, crew, &c, NULL), 0);
    for (int64_t i = 0; i < 5000; i++)
        assert_int_equal(consumers_packet(c, &(struct consumer_packet){.row = {.bytes = 1}}, NULL), 0);
    consumers_free(c);
    assert_true(seen[0].freed && seen[1].freed);
    assert_int_equal(consumers_open_list(NULL, broken_list, crew, &c, &err), -EIO);
    assert_true(seen[0].freed);
    crew_free(crew);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct consumers *c = NULL;
    struct kymo_err err = {0};
    fails_at = 0;
    assert_int_equal(consumers_open_list(NULL, list, NULL, &c, NULL), 0);
    kymo_alloc_fail_after(0);
    /* Another batch does as well. */
    assert_int_equal(consumers_packet(c, &(struct consumer_packet){.row = {.bytes = 1}}, &err), 0);
    consumers_free(c);
    kymo_alloc_fail_after(0);
    assert_int_equal(consumers_open_list(NULL, list, NULL, &c, &err), -ENOMEM);
    kymo_alloc_fail_after(0);
    assert_null(crew_new(1));
    kymo_alloc_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_in_order),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
