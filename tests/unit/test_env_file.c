/* Environment files: assignments, and what only looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tools/env_file.h"

static void test_sets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool sets;
    } cases[] = {
        {"", false},
        {"X=1", true},
        {"X=", true},
        {" X = 1", true},
        {"A=b\nX=1\n", true},
        {"X", false},
        {"XY=1\nYX=1", false},
        {"export X=1", false},
        {"#X=1\n;X=1\n", false},
        {"# a \\\nX=1\n", false}, /* a comment goes on */
        {"# it's\nX=1\n", true},
        {"A='b\nX=1\n'", false},
        {"A=\"b\nX=1\n\"", false},
        {"A=\"b\\\"\nX=1\n\"", false},
        {"A='b\\'\nX=1\n", true}, /* no escapes in single quotes */
        {"A=b\"c\nX=1\n", true},  /* a quote within a value is none */
        {"A='b' \"c\nX=1\n\"", false},
        {"A=b\\\nX=1\n", false},
        {"A\nX=1", true},
        {"A='", false},
        {"A=\\", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (env_file_sets(cases[i].text, "X") != cases[i].sets)
            fail_msg("case %zu: %s", i, cases[i].text);
}

static void test_find(void **state)
{
    (void)state;
    char dir[] = "/tmp/kymo-test-env-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char one[64], two[64], pattern[64];
    (void)snprintf(one, sizeof one, "%s/1.env", dir);
    (void)snprintf(two, sizeof two, "%s/2.env", dir);
    (void)snprintf(pattern, sizeof pattern, "%s/*.env", dir);
    char *found KYMO_FREE = NULL;
    assert_int_equal(env_file_find(pattern, "X", &found, NULL), 0);
    assert_null(found);
    assert_int_equal(kymo_file_write_atomic(one, "A=b\n", 4, NULL), 0);
    assert_int_equal(kymo_file_write_atomic(two, "X=1\n", 4, NULL), 0);
    assert_int_equal(env_file_find(one, "X", &found, NULL), 0);
    assert_null(found);
    assert_int_equal(env_file_find(pattern, "X", &found, NULL), 0);
    assert_string_equal(found, two);
    assert_int_equal(kymo_file_remove_tree(dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sets), cmocka_unit_test(test_find)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
