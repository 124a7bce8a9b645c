/* Parents of requests and rows of fleet tables: when they are due, and what a crash leaves. */
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
#include "collector/catalog.h"
#include "tests/unit/capture_sample.h"

#define PARENT "train-c-1-ranks"
#define SETTLE 1000
#define LIMIT 50000

static char root[64], path[128];
static uint64_t now = 1000;

static uint64_t fake_now(void)
{
    return now++;
}

static int set_up(void **state)
{
    static const struct kymo_clock_ops clock = {.mono_ns = fake_now, .real_ns = fake_now};
    (void)state;
    kymo_clock_set_ops(&clock);
    (void)snprintf(root, sizeof root, "/tmp/kymo-catalog-gather.XXXXXX");
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(path, sizeof path, "%s/catalog.db", root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(root, NULL);
}

static struct catalog *open_it(void)
{
    struct catalog *c;
    struct kymo_err err = {0};
    if (catalog_open(path, false, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static Kymo__Manifest__Capture *manifest(const char *id, unsigned rank, const char *request)
{
    static const struct sample_file file = {"a.ntff", KYMO__MANIFEST__FILE__KIND__NTFF, "xx", 2, 0};
    Kymo__Manifest__Capture *m;
    size_t n;
    uint8_t *data KYMO_FREE = capture_sample_manifest(id, &file, 1, &n);
    assert_int_equal(manifest_parse(data, n, &m, NULL), 0);
    m->rank = rank;
    m->request = request ? kymo_strdup(request) : NULL;
    return m;
}

static void come(struct catalog *c, const char *id, unsigned rank, const char *request)
{
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = manifest(id, rank, request);
    assert_int_equal(catalog_received(c, m, NULL), 0);
    assert_int_equal(catalog_queue_received(c, id, NULL), 0);
}

static void name_of(const char *id, unsigned rank, char out[static 128])
{
    (void)snprintf(out, 128, "train-host-1-r%u-%s-nc0", rank, id);
}

static void end(struct catalog *c, const char *name, bool fine)
{
    static const struct catalog_result made = {.schema_version = "7.4.0", .records = 10, .tables = 3, .bytes = 999};
    struct kymo_err err = {0};
    int r = catalog_start(c, name, "kymo 1", &err);
    if (r == 0)
        r = fine ? catalog_ready(c, name, &made, &err) : catalog_fail(c, name, "cut off", -1, &err);
    if (r < 0)
        fail_msg("%s", err.text);
}

static int plan(struct catalog *c)
{
    struct kymo_err err = {0};
    int r = catalog_plan_parents(c, (int64_t)now, SETTLE, LIMIT, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    return r;
}

static int count(void *ctx, const struct catalog_profile *p)
{
    assert_false(p->is_parent);
    ++*(int *)ctx;
    return 0;
}

static void a_parent_is_made_once_all_is_there(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    struct catalog_profile p;
    char first[128], second[128];
    int members = 0;
    name_of("c0", 0, first);
    name_of("c1", 1, second);
    come(c, "c0", 0, "c-1");
    come(c, "c1", 1, "c-1");
    come(c, "c9", 9, NULL);
    end(c, first, true);
    now += 2 * SETTLE;
    assert_int_equal(plan(c), 0); /* one is not at its end */
    end(c, second, false);
    assert_int_equal(plan(c), 0); /* something may still come */
    now += 2 * SETTLE;
    assert_int_equal(plan(c), 1);
    assert_int_equal(plan(c), 0);
    assert_int_equal(catalog_find(c, PARENT, &p, NULL), 0);
    assert_true(p.is_parent);
    assert_int_equal(p.state, CATALOG_QUEUED);
    assert_string_equal(p.request, "c-1");
    assert_string_equal(p.job, "train");
    assert_int_equal(catalog_list_members(c, "c-1", count, &members, NULL), 0);
    assert_int_equal(members, 2);
    /* It is no capture. */
    struct catalog_capture capture;
    assert_int_equal(catalog_find_capture(c, p.capture, &capture, NULL), -ENOENT);
    catalog_free(c);
}

static void a_parent_is_made_again_with_its_members(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    struct catalog_profile p;
    char first[128], second[128];
    name_of("c0", 0, first);
    name_of("c1", 1, second);
    come(c, "c0", 0, "c-1");
    come(c, "c1", 1, "c-1");
    end(c, first, true);
    end(c, second, true);
    now += 2 * SETTLE;
    assert_int_equal(plan(c), 1);
    /* While it is made a member becomes another: it is made again after that. */
    assert_int_equal(catalog_start(c, PARENT, "kymo 1", NULL), 0);
    assert_int_equal(catalog_queue(c, second, NULL), 0);
    end(c, second, true);
    now += 2 * SETTLE;
    assert_int_equal(plan(c), 0);
    assert_int_equal(catalog_fail(c, PARENT, "some reason", -1, NULL), 0);
    assert_int_equal(plan(c), 1);
    assert_int_equal(catalog_find(c, PARENT, &p, NULL), 0);
    assert_int_equal(p.state, CATALOG_QUEUED);
    assert_string_equal(p.reason, "");
    catalog_free(c);
}

static void a_limit_ends_the_waiting(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    char name[128];
    come(c, "c0", 0, "c-1");
    come(c, "c1", 1, "c-1");
    name_of("c0", 0, name);
    end(c, name, true);
    now += LIMIT;
    assert_int_equal(plan(c), 1);
    /* What has one profile, or none that is ready, has no parent. */
    come(c, "c2", 0, "c-2");
    name_of("c2", 0, name);
    end(c, name, true);
    come(c, "c3", 0, "c-3");
    come(c, "c4", 1, "c-3");
    now += LIMIT;
    assert_int_equal(plan(c), 0);
    catalog_free(c);
}

/* The job of a capture can be made so that its profile has a parent's name. */
static void equal_names_are_told_apart(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    struct catalog_profile p;
    char name[128];
    for (unsigned rank = 0; rank < 2; rank++) {
        char id[8];
        (void)snprintf(id, sizeof id, "c%u", rank);
        come(c, id, rank, "c-1");
        name_of(id, rank, name);
        end(c, name, true);
    }
    assert_int_equal(catalog_find(c, name, &p, NULL), 0);
    now += 2 * SETTLE;
    assert_int_equal(plan(c), 1);
    assert_int_equal(catalog_find(c, PARENT, &p, NULL), 0);
    assert_string_not_equal(p.capture, "c-1");
    catalog_free(c);
}

static void rows_wait_work_and_end(void **state)
{
    (void)state;
    struct catalog *c = open_it();
    struct catalog_profile p;
    char name[128];
    come(c, "c0", 0, NULL);
    name_of("c0", 0, name);
    assert_int_equal(catalog_next_fleet(c, INT64_MAX, &p, NULL), 0);
    end(c, name, true);
    assert_int_equal(catalog_next_fleet(c, INT64_MAX, &p, NULL), 1);
    assert_string_equal(p.name, name);
    assert_int_equal(catalog_fleet_start(c, name, NULL), 1);
    assert_int_equal(catalog_next_fleet(c, INT64_MAX, &p, NULL), 0);
    assert_int_equal(catalog_fleet_end(c, name, "waiting", "no room", 5000000, NULL), 0);
    assert_int_equal(catalog_next_fleet(c, 5000000, &p, NULL), 0);
    assert_int_equal(catalog_next_fleet(c, 5000001, &p, NULL), 1);
    assert_string_equal(p.fleet_reason, "no room");
    /* What was at work when the writer ended is done again. */
    assert_int_equal(catalog_fleet_start(c, name, NULL), 1);
    assert_int_equal(catalog_recover(c, NULL), 0);
    assert_int_equal(catalog_next_fleet(c, 1, &p, NULL), 1);
    /* Made again meanwhile: the end of the former work is no longer of interest. */
    assert_int_equal(catalog_fleet_start(c, name, NULL), 1);
    assert_int_equal(catalog_queue(c, name, NULL), 0);
    end(c, name, true);
    assert_int_equal(catalog_fleet_end(c, name, "ready", NULL, 0, NULL), 0);
    assert_int_equal(catalog_find(c, name, &p, NULL), 0);
    assert_string_equal(p.fleet, "waiting");
    /* Killed three times it has failed. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(catalog_fleet_start(c, name, NULL), 1);
        assert_int_equal(catalog_fleet_killed(c, name, "killed", 0, 3, NULL), 0);
    }
    assert_int_equal(catalog_find(c, name, &p, NULL), 0);
    assert_string_equal(p.fleet, "failed");
    assert_non_null(strstr(p.fleet_reason, "try 3 of 3"));
    catalog_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_parent_is_made_once_all_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_parent_is_made_again_with_its_members, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_limit_ends_the_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_names_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_wait_work_and_end, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
