/* Targets of requests: what is taken apart, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collector/http_target.h"

static void test_parts(void **state)
{
    (void)state;
    struct http_target t;
    assert_int_equal(http_target_parse("/api/v1/a%2Fb?x=1&y=%20z+w&&flag&u=%C3%A4%26", &t, NULL), 0);
    assert_int_equal(t.n_segments, 3);
    assert_string_equal(t.segments[2], "a/b");
    assert_int_equal(t.n_params, 4);
    assert_string_equal(http_target_param(&t, "x"), "1");
    assert_string_equal(http_target_param(&t, "y"), " z w");
    assert_string_equal(http_target_param(&t, "flag"), "");
    assert_string_equal(http_target_param(&t, "u"), "\xc3\xa4&");
    assert_null(http_target_param(&t, "z"));
    http_target_done(&t);
    assert_int_equal(http_target_parse("/", &t, NULL), 0);
    assert_int_equal(t.n_segments + t.n_params, 0);
    http_target_done(&t);
    assert_int_equal(http_target_parse("/?=%", &t, NULL), -EINVAL);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int error;
    } rows[] = {
        {"", -EINVAL},
        {"x", -EINVAL},
        {"http://h/x", -EINVAL},
        {"*", -EINVAL},
        {"//", -ENOENT},
        {"/a//b", -ENOENT},
        {"/a/", -ENOENT},
        {"/a/../b", -ENOENT},
        {"/%2e%2E/b", -ENOENT},
        {"/.", -ENOENT},
        {"/a%", -EINVAL},
        {"/a%4", -EINVAL},
        {"/a%4g", -EINVAL},
        {"/a%00", -EINVAL},
        {"/a%0d%0a", -EINVAL},
        {"/a%ff", -EINVAL},
        {"/\xff", -EINVAL},
        {"/a?x=%zz", -EINVAL},
        {"/a?=1", -EINVAL},
        {"/a?x=1&x=2", -EINVAL},
        {"/a?%=1", -EINVAL},
        {"/a?x=%c0%80", -EINVAL},
        {"/a?x=%7f", -EINVAL},
        {"/a?x=%", -EINVAL},
        {"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", -ENOENT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_target t;
        struct kymo_err err = {0};
        assert_int_equal(http_target_parse(rows[i].text, &t, &err), rows[i].error);
        assert_int_equal(err.code, rows[i].error);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct http_target t;
    char text[HTTP_TARGET_MAX + 2];
    memset(text, 'a', sizeof text);
    text[0] = '/';
    text[HTTP_TARGET_MAX] = '\0';
    assert_int_equal(http_target_parse(text, &t, NULL), 0);
    http_target_done(&t);
    text[HTTP_TARGET_MAX] = 'a';
    text[HTTP_TARGET_MAX + 1] = '\0';
    assert_int_equal(http_target_parse(text, &t, NULL), -E2BIG);
    size_t n = (size_t)snprintf(text, sizeof text, "/?");
    for (int i = 0; i <= HTTP_PARAMS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "p%d=&", i);
    assert_int_equal(http_target_parse(text, &t, NULL), -E2BIG);
    kymo_alloc_fail_after(0);
    assert_int_equal(http_target_parse("/a", &t, NULL), -ENOMEM);
    kymo_alloc_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
