/* Rows of the fleet: in their places, replaced, removed, and made good after any interruption. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/fleet_store.h"
#include "tests/unit/capture_sample.h"

#define DAY 1767225600000000000ll /* 2026-01-01 */
/* The least that passes for a table: a footer that begins as FileMetaData does. */
#define TABLE "PAR1\x15\x04\x19\x1c\x00\x05\x00\x00\x00PAR1"

static char root[64], text[256];

static const char *at(const char *name)
{
    (void)snprintf(text, sizeof text, "%s/%s", root, name);
    return text;
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/kymo-fleet.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    capture_sample_fail(-1, 0, 0);
    return kymo_file_remove_tree(root, NULL);
}

static void make_table(const char *name)
{
    assert_int_equal(kymo_file_mkdirs(at("work"), NULL), 0);
    assert_int_equal(kymo_file_write_atomic(at(name), TABLE, sizeof TABLE - 1, NULL), 0);
}

static int publish(const char *profile, const char *cluster, struct kymo_err *err)
{
    char work[128];
    (void)snprintf(work, sizeof work, "%s/work", root);
    return fleet_store_publish(root, work, profile, DAY + 5, cluster, err);
}

static void publish_all(const char *profile, const char *cluster)
{
    struct kymo_err err = {0};
    make_table("work/Summary.parquet");
    make_table("work/Warning.parquet");
    if (publish(profile, cluster, &err) < 0)
        fail_msg("%s", err.text);
}

static bool there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

static void puts_replaces_and_removes(void **state)
{
    (void)state;
    publish_all("p1", "east");
    publish_all("p2", "east");
    assert_true(there("fleet/Summary/date=2026-01-01/cluster=east/part-p1.parquet"));
    assert_true(there("fleet/Warning/date=2026-01-01/cluster=east/part-p2.parquet"));
    /* Made again without a warning, by a collector that calls its cluster otherwise. */
    make_table("work/Summary.parquet");
    assert_int_equal(publish("p1", "west", NULL), 0);
    assert_true(there("fleet/Summary/date=2026-01-01/cluster=west/part-p1.parquet"));
    assert_false(there("fleet/Summary/date=2026-01-01/cluster=east/part-p1.parquet"));
    assert_false(there("fleet/Warning/date=2026-01-01/cluster=east/part-p1.parquet"));
    assert_true(there("fleet/Summary/date=2026-01-01/cluster=east/part-p2.parquet"));
    assert_int_equal(fleet_store_remove(root, "p2", DAY, NULL), 0);
    assert_false(there("fleet/Summary/date=2026-01-01/cluster=east/part-p2.parquet"));
    assert_true(there("fleet/Summary/date=2026-01-01/cluster=west/part-p1.parquet"));
}

static void refuses_what_is_no_name_or_table(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    make_table("work/Summary.parquet");
    assert_int_equal(publish("p1", "../..", &err), -EINVAL);
    assert_int_equal(kymo_file_write_atomic(at("work/Summary.parquet"), "PAR1", 4, NULL), 0);
    assert_int_equal(publish("p1", "east", &err), -EBADMSG);
    assert_false(there("fleet/Summary/date=2026-01-01/cluster=east/part-p1.parquet"));
}

/* Ended, or out of room, at each call that changes the file system: done again it is whole. */
static void an_interruption_is_made_good(void **state)
{
    (void)state;
    bool over = false;
    for (long nth = 0; !over; nth++) {
        struct kymo_err err = {0};
        make_table("work/Summary.parquet");
        make_table("work/Warning.parquet");
        capture_sample_fail(nth, ENOSPC, 1);
        int r = publish("p1", "east", &err);
        over = capture_sample_calls() <= nth;
        capture_sample_fail(-1, 0, 0);
        assert_true(r == 0 || r == -ENOSPC);
        assert_true(nth < 200);
        publish_all("p1", "east");
        assert_true(there("fleet/Summary/date=2026-01-01/cluster=east/part-p1.parquet"));
        assert_true(there("fleet/Warning/date=2026-01-01/cluster=east/part-p1.parquet"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(puts_replaces_and_removes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_name_or_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_interruption_is_made_good, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
