/* Outliers of groups, by hand and over more events than are kept. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/formulas/outliers.h"

struct found {
    struct outliers_event rows[16];
    int64_t medians[16];
    size_t count;
    int fail;
};

static int take(void *ctx, const struct outliers_event *e, int64_t median, struct kymo_err *err)
{
    struct found *f = ctx;
    if (f->fail)
        return kymo_err_set(err, f->fail, "no more");
    assert_true(f->count < 16);
    f->medians[f->count] = median;
    f->rows[f->count++] = *e;
    return 0;
}

static void add(struct outliers *o, uint64_t group, int64_t start, int64_t length)
{
    assert_int_equal(outliers_add(o, &(struct outliers_event){group, start, start + length}, NULL), 0);
}

/* Median of 10, 10, 12, 30 is 10 (the lower one): 12 is not 50 % above it, 30 is. Three events are no group. */
static void test_by_hand(void **state)
{
    (void)state;
    struct outliers *o;
    struct found f = {.count = 0};
    assert_int_equal(outliers_open("/tmp", &o, NULL), 0);
    add(o, 7, 0, 10);
    add(o, 9, 5, 1);
    add(o, 7, 100, 30);
    add(o, 7, 200, 12);
    add(o, 9, 205, 1);
    add(o, 7, 300, 10);
    add(o, 9, 305, 50);
    assert_int_equal(outliers_each(o, 50, take, &f, NULL), 0);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.rows[0].start, 100);
    assert_int_equal(f.medians[0], 10);
    outliers_free(o);
}

static void test_exactly_at_the_limit(void **state)
{
    (void)state;
    struct outliers *o;
    struct found f = {.count = 0};
    assert_int_equal(outliers_open("/tmp", &o, NULL), 0);
    for (int i = 0; i < 5; i++)
        add(o, 1, i, 10);
    add(o, 1, 50, 15);
    add(o, 1, 60, 16);
    assert_int_equal(outliers_each(o, 50, take, &f, NULL), 0);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.rows[0].start, 60);
    outliers_free(o);
}

/* The median of very many is that of an even choice of them. */
static void test_many(void **state)
{
    (void)state;
    struct outliers *o;
    struct found f = {.count = 0};
    assert_int_equal(outliers_open("/tmp", &o, NULL), 0);
    srand(1);
    for (int64_t i = 0; i < 100000; i++)
        add(o, 3, i, i == 777 || i == 99999 ? 5000 : 900 + rand() % 200);
    assert_int_equal(outliers_each(o, 100, take, &f, NULL), 0);
    assert_int_equal(f.count, 2);
    assert_true(f.medians[0] > 980 && f.medians[0] < 1020);
    assert_int_equal(f.rows[1].start, 99999);
    outliers_free(o);
}

static void test_bounds(void **state)
{
    (void)state;
    struct outliers *o;
    struct found f = {.fail = -EIO};
    struct kymo_err err = {0};
    assert_int_equal(outliers_open("/tmp", &o, NULL), 0);
    assert_int_equal(outliers_each(o, 50, take, &f, &err), 0); /* nothing */
    outliers_free(o);
    assert_int_equal(outliers_open("/tmp", &o, NULL), 0);
    for (uint64_t g = 0; g < OUTLIERS_GROUPS_MAX + 10; g++)
        for (int i = 0; i < 5; i++)
            add(o, g, i, i == 4 ? 1000 : 1);
    assert_int_equal(outliers_each(o, 50, take, &f, &err), -EIO);
    assert_string_equal(err.text, "no more");
    outliers_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_exactly_at_the_limit),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
