/* Where a profile's tables appear: whole, in place of older tables only. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "pipeline/output_dir.h"

static char root[] = "/tmp/kymo-output-dir.XXXXXX";

static const char *at(const char *name)
{
    static char path[8][OUTPUT_DIR_PATH_MAX];
    static unsigned next;
    char *p = path[next++ % 8];

    (void)snprintf(p, OUTPUT_DIR_PATH_MAX, "%s/%s", root, name);
    return p;
}

static void put(const char *name, const char *text)
{
    assert_int_equal(kymo_file_write_atomic(at(name), text, strlen(text), NULL), 0);
}

static int publish(const char *name, struct kymo_err *err)
{
    struct output_dir d;
    char table[OUTPUT_DIR_PATH_MAX + 32];
    int r = output_dir_open(&d, at(name), err);

    if (r == 0) {
        (void)snprintf(table, sizeof table, "%s/New.parquet", d.work);
        assert_int_equal(kymo_file_write_atomic(table, "new", 3, NULL), 0);
        r = output_dir_publish(&d, err);
    }
    output_dir_done(&d);
    return r;
}

static void appears_with_its_parents(void **state)
{
    (void)state;
    assert_int_equal(publish("a/b/tables", NULL), 0);
    assert_int_equal(access(at("a/b/tables/New.parquet"), R_OK), 0);
}

static void replaces_tables(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("old"), 0777), 0);
    assert_int_equal(publish("old", NULL), 0);
    put("old/Old.parquet", "old");
    assert_int_equal(publish("old/", NULL), 0);
    assert_int_equal(access(at("old/New.parquet"), R_OK), 0);
    assert_int_equal(access(at("old/Old.parquet"), R_OK), -1);
}

static void spares_everything_else(void **state)
{
    struct kymo_err err = {0};
    struct stat st;

    (void)state;
    put("file", "x");
    assert_int_equal(publish("file", &err), -ENOTDIR);
    assert_non_null(strstr(err.text, "is not a directory"));
    assert_int_equal(mkdir(at("mine"), 0777), 0);
    put("mine/notes.txt", "x");
    assert_int_equal(publish("mine", &err), -EEXIST);
    assert_non_null(strstr(err.text, "holds notes.txt"));
    assert_int_equal(access(at("mine/notes.txt"), R_OK), 0);
    assert_int_equal(symlink("mine", at("link")), 0);
    assert_int_equal(publish("link", &err), -ENOTDIR);
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(mkfifo(at("pipe"), 0666), 0);
    assert_int_equal(publish("pipe", &err), -ENOTDIR);
    assert_int_equal(lstat(at("pipe"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/* What came while the tables were made is not lost either, and the work directory goes. */
static void looks_again_before_it_replaces(void **state)
{
    struct output_dir d;
    char work[OUTPUT_DIR_PATH_MAX];

    (void)state;
    assert_int_equal(output_dir_open(&d, at("late"), NULL), 0);
    (void)snprintf(work, sizeof work, "%s", d.work);
    put("late", "x");
    assert_int_equal(output_dir_publish(&d, NULL), -ENOTDIR);
    output_dir_done(&d);
    assert_int_equal(access(work, F_OK), -1);
    assert_int_equal(access(at("late"), R_OK), 0);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_with_its_parents),
        cmocka_unit_test(replaces_tables),
        cmocka_unit_test(spares_everything_else),
        cmocka_unit_test(looks_again_before_it_replaces),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
