/* Pages of the catalogue: every order, each filter, and a page after the other gives what all at once gives. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "collector/catalog_impl.h"
#include "collector/catalog_search.h"
#include "tests/unit/api_sample.h"

#define CAPTURES 20
#define ROWS (2 * CAPTURES + 2)

static char root[64];
static struct catalog *catalog;

static int set_up(void **state)
{
    struct api_sample *sample;
    char path[128];
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/kymo-search.XXXXXX");
    if (!mkdtemp(root) || api_sample_new(NULL, root, CAPTURES, &sample, NULL) < 0)
        return -1;
    api_sample_free(sample);
    (void)snprintf(path, sizeof path, "%s/catalog.db", root);
    return catalog_open(path, true, &catalog, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    catalog_free(catalog);
    return kymo_file_remove_tree(root, NULL);
}

struct found {
    size_t n;
    struct catalog_profile rows[ROWS];
};

static int add(void *ctx, const struct catalog_profile *p)
{
    struct found *f = ctx;
    assert_true(f->n < ROWS);
    f->rows[f->n++] = *p;
    return 0;
}

static const struct catalog_query all = {.state = -1, .rank = -1, .limit = ROWS, .scan = ROWS};

static size_t count(const struct catalog_query *q)
{
    struct found *f = kymo_calloc(1, sizeof *f);
    struct catalog_place next;
    struct kymo_err err = {0};
    int r = catalog_search(catalog, q, add, f, &next, &err);
    if (r < 0)
        print_message("%s\n", err.text);
    assert_int_equal(r, 0);
    size_t n = f->n;
    kymo_free(f);
    return n;
}

static void test_filters(void **state)
{
    static const struct {
        struct catalog_query q;
        size_t n;
    } rows[] = {
        {{.state = -1, .rank = -1}, ROWS},
        {{.state = -1, .rank = -1, .job = "train"}, CAPTURES},
        {{.state = -1, .rank = -1, .job = "Train"}, 0},
        {{.state = -1, .rank = -1, .host = "host-3"}, 4},
        {{.state = -1, .rank = -1, .host = "host-3", .job = "train"}, 0},
        {{.state = -1, .rank = -1, .capture = "cap-00007"}, 2},
        {{.state = -1, .rank = 6, .capture = "cap-00007"}, 0},
        {{.state = -1, .rank = 7, .capture = "cap-00007"}, 2},
        {{.state = -1, .rank = 0}, 6},
        {{.state = -1, .rank = -1, .text = "CAP-00007"}, 2},
        {{.state = -1, .rank = -1, .text = "team=colour_1"}, 14},
        {{.state = -1, .rank = -1, .text = "colour%1"}, 0},
        {{.state = -1, .rank = -1, .text = "colourx1"}, 0},
        {{.state = -1, .rank = -1, .text = "%_\\"}, 2},
        {{.state = -1, .rank = -1, .text = ""}, ROWS},
        {{.state = -1, .rank = -1, .text = " \t"}, ROWS},
        {{.state = -1, .rank = -1, .text = " CAP-00007\t "}, 2},
        {{.state = -1, .rank = -1, .text = "CAP- 00007"}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct catalog_query q = rows[i].q;
        q.limit = q.scan = ROWS;
        assert_int_equal(count(&q), rows[i].n);
    }
}

static void test_states(void **state)
{
    struct catalog_query q = all;
    size_t n = 0;
    (void)state;
    for (q.state = 0; q.state < CATALOG_STATE_MAX; q.state++)
        n += count(&q);
    assert_int_equal(n, ROWS);
    q.state = CATALOG_FAILED;
    size_t failed = count(&q);
    q.state = -1;
    q.text = "no known kind";
    assert_int_equal(count(&q), failed);
}

/* Whatever the page's size, and also where pages look at too few rows to find what they want. */
static void walk(const struct catalog_query *q)
{
    struct found *whole = kymo_calloc(1, sizeof *whole), *pages = kymo_calloc(1, sizeof *pages);
    struct catalog_query page = *q;
    struct catalog_place next, after;
    char text[CATALOG_PLACE_MAX];
    page.limit = 3;
    page.scan = 5;
    assert_int_equal(catalog_search(catalog, q, add, whole, &next, NULL), 0);
    for (int turns = 0;; turns++) {
        int r = catalog_search(catalog, &page, add, pages, &next, NULL);
        assert_in_range(r, 0, 1);
        assert_true(turns < ROWS);
        if (r == 0)
            break;
        catalog_place_text(&page, &next, text);
        assert_int_equal(catalog_place_parse(&page, text, &after, NULL), 0);
        page.after = &after;
    }
    assert_int_equal(pages->n, whole->n);
    for (size_t i = 0; i < whole->n; i++)
        assert_string_equal(pages->rows[i].name, whole->rows[i].name);
    kymo_free(whole);
    kymo_free(pages);
}

static void test_pages(void **state)
{
    (void)state;
    for (int sort = 0; sort < CATALOG_SORT_MAX; sort++)
        for (int descending = 0; descending < 2; descending++) {
            struct catalog_query q = all;
            q.sort = (enum catalog_sort)sort;
            q.descending = descending;
            walk(&q);
            q.state = CATALOG_FAILED;
            walk(&q);
            q.text = "colour_2";
            walk(&q);
        }
}

static uint64_t slow_now(void)
{
    static uint64_t now;
    return now += 400000;
}

/* Pages that run out of time are short, but they go on. */
static void test_budget(void **state)
{
    static const struct kymo_clock_ops slow = {.mono_ns = slow_now, .real_ns = slow_now};
    struct found *f = kymo_calloc(1, sizeof *f);
    struct catalog_query q = all;
    struct catalog_place next, after;
    int pages = 0, r;
    (void)state;
    q.budget_ms = 1;
    kymo_clock_set_ops(&slow);
    while ((r = catalog_search(catalog, &q, add, f, &next, NULL)) == 1 && pages++ < ROWS) {
        after = next;
        q.after = &after;
    }
    kymo_clock_set_ops(NULL);
    assert_int_equal(r, 0);
    assert_int_equal(f->n, ROWS);
    assert_in_range(pages, 5, ROWS);
    /* Nor do they hold what does not match. */
    f->n = 0;
    q.text = "nobody has this";
    q.after = NULL;
    kymo_clock_set_ops(&slow);
    while ((r = catalog_search(catalog, &q, add, f, &next, NULL)) == 1) {
        after = next;
        q.after = &after;
    }
    kymo_clock_set_ops(NULL);
    assert_int_equal(r, 0);
    assert_int_equal(f->n, 0);
    kymo_free(f);
}

static void test_order(void **state)
{
    struct found *f = kymo_calloc(1, sizeof *f);
    struct catalog_query q = all;
    struct catalog_place next;
    (void)state;
    q.sort = CATALOG_BY_FINISHED;
    q.descending = true;
    assert_int_equal(catalog_search(catalog, &q, add, f, &next, NULL), 0);
    for (size_t i = 1; i < f->n; i++)
        assert_true(f->rows[i].finished_ns <= f->rows[i - 1].finished_ns);
    f->n = 0;
    q.sort = CATALOG_BY_NAME;
    q.descending = false;
    assert_int_equal(catalog_search(catalog, &q, add, f, &next, NULL), 0);
    for (size_t i = 1; i < f->n; i++)
        assert_true(strcmp(f->rows[i - 1].name, f->rows[i].name) < 0);
    kymo_free(f);
}

static int add_capture(void *ctx, const struct catalog_capture *c)
{
    char(*ids)[MANIFEST_ID_MAX + 1] = ctx;
    for (size_t i = 0; i < ROWS; i++)
        if (!*ids[i]) {
            memcpy(ids[i], c->id, sizeof ids[i]);
            return 0;
        }
    return -ENOSPC;
}

static void test_captures(void **state)
{
    char(*whole)[MANIFEST_ID_MAX + 1] = kymo_calloc(ROWS, sizeof *whole);
    char(*pages)[MANIFEST_ID_MAX + 1] = kymo_calloc(ROWS, sizeof *pages);
    struct catalog_query q = all;
    struct catalog_place next, after;
    (void)state;
    q.descending = true;
    assert_int_equal(catalog_search_captures(catalog, &q, NULL, add_capture, whole, &next, NULL), 0);
    assert_string_equal(whole[0], "cap-receiving");
    assert_string_equal(whole[CAPTURES + 1], "cap-00000");
    q.limit = 3;
    for (int r = 1, turns = 0; r == 1; turns++) {
        r = catalog_search_captures(catalog, &q, NULL, add_capture, pages, &next, NULL);
        assert_in_range(r, 0, 1);
        assert_true(turns < ROWS);
        after = next;
        q.after = &after;
    }
    assert_memory_equal(whole, pages, ROWS * sizeof *whole);
    q = all;
    memset(pages, 0, ROWS * sizeof *pages);
    assert_int_equal(catalog_search_captures(catalog, &q, "receiving", add_capture, pages, &next, NULL), 0);
    assert_string_equal(pages[0], "cap-receiving");
    assert_string_equal(pages[1], "");
    kymo_free(whole);
    kymo_free(pages);
}

static void test_places(void **state)
{
    static const char *const bad[] = {
        "",      "r",     "ra",    "ra1",     "ra1.",      "ra.x",   "ra12345678901234567.x",
        "rd1.x", "na1.x", "raX.x", "ra1.x/y", "ra1.x\xff", "ra-1.x",
    };
    struct catalog_place p = {.key = INT64_MIN, .name = "a.b-c_d"}, back;
    char text[CATALOG_PLACE_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(catalog_place_parse(&all, bad[i], &back, NULL), -EINVAL);
    catalog_place_text(&all, &p, text);
    assert_int_equal(catalog_place_parse(&all, text, &back, NULL), 0);
    assert_int_equal(back.key, p.key);
    assert_string_equal(back.name, p.name);
}

static void test_details(void **state)
{
    struct catalog_capture c;
    uint64_t counts[CATALOG_STATE_MAX], sum = 0;
    (void)state;
    assert_int_equal(catalog_find_capture(catalog, "cap-00003", &c, NULL), 0);
    assert_string_equal(c.job, "eval");
    assert_int_equal(catalog_find_capture(catalog, "none", &c, NULL), -ENOENT);
    assert_int_equal(catalog_count(catalog, counts, NULL), 0);
    for (int i = 0; i < CATALOG_STATE_MAX; i++)
        sum += counts[i];
    assert_int_equal(sum, ROWS);
    for (int i = 0; i < CATALOG_STATE_MAX; i++) {
        struct catalog_query q = all;
        q.state = i;
        assert_int_equal(counts[i], count(&q));
    }
}

/* A store of the version before counts were kept. */
static void test_counts_of_an_older_store(void **state)
{
    struct catalog *c;
    char path[128];
    uint64_t before[CATALOG_STATE_MAX], after[CATALOG_STATE_MAX];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/catalog.db", root);
    assert_int_equal(catalog_count(catalog, before, NULL), 0);
    assert_int_equal(catalog_open(path, false, &c, NULL), 0);
    assert_int_equal(
        catalog_script(c,
                       "DROP TABLE profile_counts; DROP TRIGGER profiles_come; DROP TRIGGER profiles_go;"
                       "DROP TRIGGER profiles_move; DROP TRIGGER captures_come; DROP TRIGGER captures_move;"
                       "DROP TRIGGER profiles_end; DROP TRIGGER profiles_ready; DROP TABLE requests;"
                       "DROP INDEX captures_by_request; DROP INDEX profiles_by_fleet;"
                       "DROP VIEW capture_states; ALTER TABLE captures DROP COLUMN kind;"
                       "ALTER TABLE captures DROP COLUMN request; ALTER TABLE profiles DROP COLUMN fleet;"
                       "ALTER TABLE profiles DROP COLUMN fleet_reason;"
                       "ALTER TABLE profiles DROP COLUMN fleet_ns;"
                       "ALTER TABLE profiles DROP COLUMN fleet_kills;"
                       "ALTER TABLE captures DROP COLUMN owner; ALTER TABLE profiles DROP COLUMN pinned;"
                       "CREATE VIEW capture_states AS SELECT id FROM captures; PRAGMA user_version=4",
                       NULL),
        0);
    catalog_free(c);
    assert_int_equal(catalog_open(path, false, &c, NULL), 0);
    assert_int_equal(catalog_count(c, after, NULL), 0);
    assert_memory_equal(before, after, sizeof before);
    catalog_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters), cmocka_unit_test(test_states),  cmocka_unit_test(test_pages),
        cmocka_unit_test(test_order),   cmocka_unit_test(test_budget),  cmocka_unit_test(test_captures),
        cmocka_unit_test(test_places),  cmocka_unit_test(test_details), cmocka_unit_test(test_counts_of_an_older_store),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
