/* pipeline/sort_spill and text_store. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "pipeline/spill/sort_spill.h"
#include "pipeline/spill/text_store.h"

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-sort.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

struct rec {
    int64_t key;
    uint32_t n;
};

/* Keys repeat, so that the order of equal ones shows; runs of 7 do not divide the number. */
static void sort(size_t count, size_t run)
{
    struct kymo_err err = {0};
    struct sort_spill *s = NULL;
    uint64_t x = 88172645463325252ull;
    const void *next;
    struct rec last = {.key = INT64_MIN};
    size_t seen = 0;
    assert_int_equal(sort_spill_open(dir, sizeof(struct rec), run, &s, &err), 0);
    for (uint32_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        struct rec r = {.key = (int64_t)(x % 37) - 18, .n = i};
        assert_int_equal(sort_spill_add(s, r.key, &r, &err), 0);
    }
    assert_int_equal(sort_spill_count(s), count);
    assert_int_equal(sort_spill_merge(s, &err), 0);
    while (sort_spill_next(s, &next, &err) > 0) {
        struct rec r;
        memcpy(&r, next, sizeof r);
        assert_true(r.key > last.key || (r.key == last.key && r.n > last.n));
        last = r;
        seen++;
    }
    assert_int_equal(seen, count);
    assert_int_equal(sort_spill_next(s, &next, &err), 0);
    sort_spill_free(s);
}

static void test_sort(void **state)
{
    static const size_t counts[] = {0, 1, 6, 7, 8, 1000, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        sort(counts[i], 7 + counts[i] / 50);
        sort(counts[i], 0);
    }
}

static void test_sort_refuses(void **state)
{
    struct kymo_err err = {0};
    struct sort_spill *s = NULL;
    (void)state;
    assert_int_equal(sort_spill_open(dir, 0, 0, &s, &err), -EINVAL);
    assert_int_equal(sort_spill_open(dir, 5000, 0, &s, &err), -EINVAL);
    assert_int_equal(sort_spill_open("/nonexistent", 8, 0, &s, &err), -ENOENT);
}

/* Texts of all lengths, read forwards, backwards and across pages, while more are put. */
static void test_texts(void **state)
{
    enum { N = 3000 };
    static uint64_t places[N];
    static char text[70000], want[70000];
    struct kymo_err err = {0};
    struct text_store *t = NULL;
    const char *got;
    (void)state;
    assert_int_equal(text_store_open(dir, &t, &err), 0);
    for (int i = 0; i < N; i++) {
        size_t n = i % 500 == 7 ? sizeof text : (size_t)i % 301;
        memset(text, 'a' + i % 26, n);
        assert_int_equal(text_store_put(t, text, n, &places[i], &err), 0);
        if (i % 100 == 0 && n)
            assert_int_equal(text_store_get(t, places[i], n, &got, &err), 0);
    }
    for (int step = 0; step < 2 * N; step++) {
        int i = step < N ? step : 2 * N - 1 - step;
        size_t n = i % 500 == 7 ? sizeof text : (size_t)i % 301;
        memset(want, 'a' + i % 26, n);
        assert_int_equal(text_store_get(t, places[i], n, &got, &err), 0);
        assert_true(n == 0 || memcmp(got, want, n) == 0);
    }
    assert_int_equal(text_store_get(t, places[N - 1] + 1000, 1, &got, &err), -ERANGE);
    text_store_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort), cmocka_unit_test(test_sort_refuses),
                                       cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
