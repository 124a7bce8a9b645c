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
#include <sys/wait.h>
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
        (void)snprintf(table, sizeof table, "%s/Metadata.parquet", d.work);
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
    assert_int_equal(access(at("a/b/tables/Metadata.parquet"), R_OK), 0);
}

static void replaces_tables(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("old"), 0777), 0);
    assert_int_equal(publish("old", NULL), 0);
    put("old/Old.parquet", "old");
    assert_int_equal(publish("old/", NULL), 0);
    assert_int_equal(access(at("old/Metadata.parquet"), R_OK), 0);
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

/* Tables of somebody else, and directories and links that only have the name of a table, stay. */
static void spares_what_is_no_profile(void **state)
{
    struct kymo_err err = {0};

    (void)state;
    assert_int_equal(mkdir(at("data"), 0777), 0);
    put("data/Sales.parquet", "x");
    assert_int_equal(publish("data", &err), -EEXIST);
    assert_non_null(strstr(err.text, "no Metadata.parquet"));
    assert_int_equal(access(at("data/Sales.parquet"), R_OK), 0);
    assert_int_equal(mkdir(at("deep"), 0777), 0);
    put("deep/Metadata.parquet", "x");
    assert_int_equal(mkdir(at("deep/More.parquet"), 0777), 0);
    assert_int_equal(publish("deep", &err), -EEXIST);
    assert_int_equal(publish("deep/.", &err), -EINVAL);
    assert_int_equal(publish("deep/..", &err), -EINVAL);
}

static void spares_inputs(void **state)
{
    struct kymo_err err = {0};

    (void)state;
    assert_int_equal(kymo_file_mkdirs(at("in/below"), NULL), 0);
    put("in/below/Metadata.parquet", "x");
    assert_int_equal(symlink("in/below/Metadata.parquet", at("alias")), 0);
    assert_int_equal(output_dir_check_input(at("in/below/Metadata.parquet"), at("alias"), &err), -EEXIST);
    assert_non_null(strstr(err.text, "is the input"));
    assert_int_equal(output_dir_check_input(at("in/below"), at("alias"), &err), -EEXIST);
    assert_non_null(strstr(err.text, "holds the input"));
    assert_int_equal(output_dir_check_input(at("in"), at("in/below/Metadata.parquet"), &err), -EEXIST);
    assert_int_equal(output_dir_check_input(at("in/bel"), at("in/below/Metadata.parquet"), &err), 0);
    assert_int_equal(output_dir_check_input(at("in/new"), at("in/below/Metadata.parquet"), &err), 0);
}

/* The pid of a child that has been waited for is gone. */
static void sweeps_work_of_dead_processes(void **state)
{
    char dead[64], deeper[64], alive[64], other[64];
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)snprintf(dead, sizeof dead, "swept.tmp-%ld", (long)pid);
    (void)snprintf(deeper, sizeof deeper, "swept.tmp-%ld/a.parquet", (long)pid);
    (void)snprintf(alive, sizeof alive, "swept.tmp-%ld", (long)getppid());
    (void)snprintf(other, sizeof other, "swept.tmp-%ldx", (long)pid);
    assert_int_equal(mkdir(at(dead), 0777), 0);
    put(deeper, "x");
    assert_int_equal(mkdir(at(alive), 0777), 0);
    assert_int_equal(mkdir(at(other), 0777), 0);
    assert_int_equal(publish("swept", NULL), 0);
    assert_int_equal(access(at(dead), F_OK), -1);
    assert_int_equal(access(at(alive), F_OK), 0);
    assert_int_equal(access(at(other), F_OK), 0);
    assert_int_equal(mkdir(at(dead), 0777), 0);
    assert_int_equal(mkdir(at(deeper), 0777), 0);
    assert_int_equal(publish("swept", NULL), 0);
    assert_int_equal(access(at(deeper), F_OK), 0);
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
        cmocka_unit_test(appears_with_its_parents),      cmocka_unit_test(replaces_tables),
        cmocka_unit_test(spares_everything_else),        cmocka_unit_test(looks_again_before_it_replaces),
        cmocka_unit_test(spares_what_is_no_profile),     cmocka_unit_test(spares_inputs),
        cmocka_unit_test(sweeps_work_of_dead_processes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
