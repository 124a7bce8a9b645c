/* Subcommand tables: dispatch, arguments, wrong usage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/commands.h"

static int seen_argc;
static const char *seen_name;

static int one(int argc, char **argv)
{
    seen_argc = argc;
    seen_name = argv[0];
    return 7;
}

static const struct kymo_command table[] = {{"one", one, "does one thing"}, {NULL, NULL, NULL}};

static int call(int argc, const char *const *words)
{
    char *argv[8] = {0};
    for (int i = 0; i < argc; i++)
        memcpy(&argv[i], &words[i], sizeof *argv);
    return kymo_commands_main("program", table, argc, argv);
}

static void test_dispatch(void **state)
{
    (void)state;
    assert_int_equal(call(3, (const char *[]){"program", "one", "--flag"}), 7);
    assert_int_equal(seen_argc, 2);
    assert_string_equal(seen_name, "one");
}

static void test_usage(void **state)
{
    (void)state;
    assert_int_equal(call(1, (const char *[]){"program"}), 2);
    assert_int_equal(call(2, (const char *[]){"program", "two"}), 2);
    assert_int_equal(call(2, (const char *[]){"program", "--help"}), 0);
    assert_int_equal(call(2, (const char *[]){"program", "--version"}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
