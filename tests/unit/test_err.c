#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_set(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    assert_int_equal(kymo_err_set(&err, -EBADMSG, "%s: offset %d: cut", "a.ntff", 7), -EBADMSG);
    assert_int_equal(err.code, -EBADMSG);
    assert_string_equal(err.text, "a.ntff: offset 7: cut");
    assert_int_equal(kymo_err_set(NULL, -ENOENT, "nobody listens"), -ENOENT);
}

static void test_success_is_no_error(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    assert_int_equal(kymo_err_set(&err, 0, "errno was not set"), -EIO);
    assert_int_equal(err.code, -EIO);
    assert_int_equal((kymo_err_set)(&err, 5, "positive"), -EIO);
    assert_int_equal(err.code, -EIO);
}

static void test_text_is_cut(void **state)
{
    (void)state;
    char big[2 * KYMO_ERR_TEXT_MAX];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    struct kymo_err err = {0};
    assert_int_equal(kymo_err_set(&err, -EIO, "%s", big), -EIO);
    assert_int_equal(strlen(err.text), KYMO_ERR_TEXT_MAX - 1);
    kymo_err_prefix(&err, "%s", big);
    assert_int_equal(strlen(err.text), KYMO_ERR_TEXT_MAX - 1);
    kymo_err_prefix(&err, "first");
    assert_int_equal(strlen(err.text), KYMO_ERR_TEXT_MAX - 1);
    assert_int_equal(strncmp(err.text, "first: xxx", 10), 0);
}

static void test_prefix(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    kymo_err_prefix(&err, "not set");
    assert_string_equal(err.text, "");
    kymo_err_prefix(NULL, "nobody listens");
    (void)kymo_err_set(&err, -EINVAL, "no such ring");
    kymo_err_prefix(&err, "%s: node %d", "a.ntff", 3);
    assert_string_equal(err.text, "a.ntff: node 3: no such ring");
    assert_int_equal(err.code, -EINVAL);
}

/* Names of files' members and of peers reach a terminal by way of error texts. */
static void test_text_is_plain(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    (void)kymo_err_set(&err, -EBADMSG, "member %s: no JSON", "a\x1b[31m\nb");
    assert_string_equal(err.text, "member a\\x1b[31m\\x0ab: no JSON");
    kymo_err_prefix(&err, "%s", "b\r.neff");
    assert_string_equal(err.text, "b\\x0d.neff: member a\\x1b[31m\\x0ab: no JSON");
    char big[KYMO_ERR_TEXT_MAX];
    memset(big, 0x1b, sizeof big - 1);
    big[sizeof big - 1] = '\0';
    (void)kymo_err_set(&err, -EBADMSG, "%s", big);
    assert_int_equal(strlen(err.text), (KYMO_ERR_TEXT_MAX - 1) / 4 * 4);
}

static void test_lines(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    assert_int_equal(kymo_err_lines(&err, -EINVAL, "Parser Error\n\nLINE 1: \x1b[2J\n   ^"), -EINVAL);
    assert_string_equal(err.text, "Parser Error\n\nLINE 1: \\x1b[2J\n   ^");
    assert_int_equal(err.code, -EINVAL);
    (void)kymo_err_lines(&err, -EINVAL, "\tCandidate functions:\n\t+(a, b)");
    assert_string_equal(err.text, " Candidate functions:\n +(a, b)");
    assert_int_equal(kymo_err_lines(NULL, 0, "nobody listens"), -EIO);
    char big[2 * KYMO_ERR_TEXT_MAX];
    memset(big, '\n', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    (void)kymo_err_lines(&err, -EINVAL, big);
    assert_true(strlen(err.text) < KYMO_ERR_TEXT_MAX);
    memset(big, 0x1b, sizeof big - 1);
    (void)kymo_err_lines(&err, -EINVAL, big);
    assert_true(strlen(err.text) < KYMO_ERR_TEXT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),    cmocka_unit_test(test_success_is_no_error), cmocka_unit_test(test_text_is_cut),
        cmocka_unit_test(test_prefix), cmocka_unit_test(test_text_is_plain),       cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
