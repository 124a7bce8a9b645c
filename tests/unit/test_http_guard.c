/* Hosts, origins and tokens that are let in, and those that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collector/http_guard.h"

static void test_host(void **state)
{
    static const char *const names[] = {"collector.example"};
    static const char *const good[] = {"localhost", "LocalHost:3001", "127.0.0.1",         "127.255.0.9:1",
                                       "[::1]",     "[::1]:65535",    "Collector.Example", "collector.example:80"};
    static const char *const bad[] = {
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0",
        "127.0.0.256",
        "127.0.0.1.1",
        "128.0.0.1",
        "127..0.1",
        "127.0.0.1:123456",
        "0127.0.0.1",
        "[::2]",
        "[::1",
        "::1",
        "[::1]evil",
        "localhost@evil",
        "0.0.0.0",
        "[::]",
        "localhost ",
        "127.1",
        "2130706433",
        "xlocalhost",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(http_guard_host(good[i], names, 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(http_guard_host(bad[i], names, 1));
    assert_false(http_guard_host("collector.example", NULL, 0));
}

static void test_origin(void **state)
{
    (void)state;
    assert_true(http_guard_origin("http://localhost:3001", "localhost:3001"));
    assert_true(http_guard_origin("https://Collector.example", "collector.example"));
    assert_false(http_guard_origin("http://localhost:3002", "localhost:3001"));
    assert_false(http_guard_origin("http://evil.example", "localhost:3001"));
    assert_false(http_guard_origin("null", "localhost:3001"));
    assert_false(http_guard_origin("", ""));
    assert_false(http_guard_origin("http://", ""));
    assert_false(http_guard_origin("file://localhost:3001", "localhost:3001"));
}

static void test_token(void **state)
{
    static const char token[] = "0123456789abcdef";
    char longest[HTTP_TOKEN_MAX + 2];
    (void)state;
    assert_true(http_guard_is_token(token));
    assert_false(http_guard_is_token("0123456789abcde"));
    assert_false(http_guard_is_token("0123456789abcdef "));
    assert_false(http_guard_is_token(""));
    memset(longest, 'a', sizeof longest);
    longest[HTTP_TOKEN_MAX + 1] = '\0';
    assert_false(http_guard_is_token(longest));
    longest[HTTP_TOKEN_MAX] = '\0';
    assert_true(http_guard_is_token(longest));
    assert_true(http_guard_authorized("Bearer 0123456789abcdef", token));
    assert_true(http_guard_authorized("bearer   0123456789abcdef", token));
    assert_false(http_guard_authorized(NULL, token));
    assert_false(http_guard_authorized("", token));
    assert_false(http_guard_authorized("Bearer", token));
    assert_false(http_guard_authorized("Bearer ", token));
    assert_false(http_guard_authorized("Basic 0123456789abcdef", token));
    assert_false(http_guard_authorized("Bearer 0123456789abcdeF", token));
    assert_false(http_guard_authorized("Bearer 0123456789abcdef0", token));
    assert_false(http_guard_authorized("Bearer 0123456789abcde", token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
