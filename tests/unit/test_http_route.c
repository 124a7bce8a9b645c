/* Routes: what a path and method lead to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collector/http_route.h"

static const struct http_route routes[] = {
    {"GET", "/", NULL},         {"GET", "/a", NULL},           {"POST", "/a", NULL},
    {"GET", "/a/{name}", NULL}, {"DELETE", "/a/{name}", NULL}, {"POST", "/a/{name}/do/{what}", NULL},
    {"PUT", "/{}", NULL},
};

static int find(const char *method, const char *path, size_t *ret, char allow[static HTTP_ALLOW_MAX])
{
    struct http_target t;
    const struct http_route *route = NULL;
    assert_int_equal(http_target_parse(path, &t, NULL), 0);
    int r = http_route_find(routes, sizeof routes / sizeof *routes, method, &t, &route, allow, NULL);
    *ret = r == 0 ? (size_t)(route - routes) : 99;
    http_target_done(&t);
    return r;
}

static void test_find(void **state)
{
    static const struct {
        const char *method, *path;
        int r;
        size_t index;
        const char *allow;
    } rows[] = {
        {"GET", "/", 0, 0, ""},
        {"HEAD", "/a?x=1", 0, 1, ""},
        {"POST", "/a", 0, 2, ""},
        {"GET", "/a/b", 0, 3, ""},
        {"DELETE", "/a/b", 0, 4, ""},
        {"POST", "/a/b/do/c", 0, 5, ""},
        {"PUT", "/a", -EOPNOTSUPP, 99, "GET, HEAD, POST"},
        {"get", "/a", -EOPNOTSUPP, 99, "GET, HEAD, POST"},
        {"HEAD", "/a/b/do/c", -EOPNOTSUPP, 99, "POST"},
        {"GET", "/b", -ENOENT, 99, ""},
        {"GET", "/a/b/c", -ENOENT, 99, ""},
        {"POST", "/a/b/do", -ENOENT, 99, ""},
        {"POST", "/a/b/doo/c", -ENOENT, 99, ""},
        {"GET", "/aa", -ENOENT, 99, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t index;
        char allow[HTTP_ALLOW_MAX];
        assert_int_equal(find(rows[i].method, rows[i].path, &index, allow), rows[i].r);
        assert_int_equal(index, rows[i].index);
        assert_string_equal(allow, rows[i].allow);
    }
}

static void test_values(void **state)
{
    struct http_target t;
    (void)state;
    assert_int_equal(http_target_parse("/a/b%20c/do/d", &t, NULL), 0);
    assert_string_equal(http_route_value(&routes[5], &t, "name"), "b c");
    assert_string_equal(http_route_value(&routes[5], &t, "what"), "d");
    assert_null(http_route_value(&routes[5], &t, "nam"));
    assert_null(http_route_value(&routes[5], &t, "do"));
    http_target_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
