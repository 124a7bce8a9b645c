/* Which files of a directory are tables, by name and by their ends. */
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

#include "base/alloc.h"
#include "base/file.h"
#include "collector/query/query_files.h"

static char dir[64];

static void write_file(const char *name, const char *text, size_t n)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(kymo_file_write_atomic(path, text, n, NULL), 0);
}

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-query-files-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static void test_names(void **state)
{
    static const struct {
        const char *file, *table; /* NULL: none */
    } rows[] = {
        {"Instruction.parquet", "Instruction"},
        {"instruction.parquet", "Instruction"},
        {"INSTRUCTION.PARQUET", "Instruction"},
        {"dmaPACKET_12.Parquet", "DmaPacket"},
        {"DmaPacketAggregated.parquet", "DmaPacketAggregated"},
        {"Foo.parquet", "Foo"},
        {"foo_0.parquet", "foo"},
        {"In struction.parquet", NULL},
        {"a'b.parquet", NULL},
        {".Instruction.parquet.tmp", NULL},
        {"Instruction.parquet.bak", NULL},
        {".parquet", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *table = NULL;
        size_t n = 0;
        assert_int_equal(query_files_is_table(rows[i].file, &table, &n), rows[i].table != NULL);
        if (rows[i].table) {
            assert_int_equal(n, strlen(rows[i].table));
            assert_memory_equal(table, rows[i].table, n);
        }
    }
}

static void test_case_doubles(void **state)
{
    static const char *const names[] = {"instruction.parquet", "Instruction.parquet", "INSTRUCTION.parquet",
                                        "flow_1.parquet",      "Flow_0.parquet",      "FLOW_1.PARQUET",
                                        "foo.parquet",         "Foo.parquet",         "notes.txt"};
    static const char *const wanted[] = {"Flow_0.parquet", "FLOW_1.PARQUET", "Foo.parquet", "Instruction.parquet"};
    struct query_files files;
    struct kymo_err err = {0};
    char *path = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_file(names[i], "x", 1);
    assert_int_equal(query_files_list(dir, &files, &err), 0);
    assert_int_equal(files.n, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < files.n; i++)
        assert_string_equal(files.items[i].name, wanted[i]);
    assert_true(query_files_same_table(&files.items[0], &files.items[1]));
    assert_int_equal(query_files_only(&files, dir, "Flow", &path, &err), 0);
    assert_null(path);
    assert_int_equal(query_files_only(&files, dir, "Instruction", &path, &err), 0);
    assert_string_equal(strrchr(path, '/'), "/Instruction.parquet");
    kymo_free(path);
    query_files_done(&files);
    assert_int_equal(query_files_list("/nonexistent/kymo", &files, &err), -ENOENT);
}

static void test_ends(void **state)
{
    static const char whole[] = "PAR1footer\x06\0\0\0PAR1", encrypted[] = "PAREfooter\x06\0\0\0PARE",
                      long_footer[] = "PAR1footer\x07\0\0\0PAR1";
    struct kymo_err err = {0};
    char path[160];
    (void)state;
    write_file("A.parquet", whole, sizeof whole - 1);
    write_file("B.parquet", encrypted, sizeof encrypted - 1);
    assert_int_equal(query_files_check(dir, "A.parquet", &err), 0);
    assert_int_equal(query_files_check(dir, "B.parquet", &err), 0);
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        write_file("C.parquet", whole, n);
        assert_int_equal(query_files_check(dir, "C.parquet", &err), -EBADMSG);
        assert_string_equal(err.text, "C.parquet: is no Parquet file, or was cut off");
    }
    write_file("C.parquet", long_footer, sizeof long_footer - 1);
    assert_int_equal(query_files_check(dir, "C.parquet", &err), -EBADMSG);
    assert_int_equal(query_files_check(dir, "D.parquet", &err), -ENOENT);
    assert_string_equal(err.text, "D.parquet: No such file or directory");
    (void)snprintf(path, sizeof path, "%s/E.parquet", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(query_files_check(dir, "E.parquet", &err), -EBADMSG);
    assert_string_equal(err.text, "E.parquet: is no regular file");
}

static void test_places(void **state)
{
    char text[] = "File '/proc/self/fd/4/Summary.parquet' and \"/proc/self/fd/123/X\", /proc/self/fd/",
         none[] = "all of it";
    (void)state;
    query_files_hide_places(text);
    assert_string_equal(text, "File 'Summary.parquet' and \"X\", ");
    query_files_hide_places(none);
    assert_string_equal(none, "all of it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_case_doubles, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_ends, make_dir, remove_dir),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
