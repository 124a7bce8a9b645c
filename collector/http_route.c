#include "collector/http_route.h"

#include <string.h>

/* The next part of a pattern; its length, 0 at the end. */
static size_t next_part(const char **pattern)
{
    *pattern += **pattern == '/';
    return strcspn(*pattern, "/");
}

static bool is_variable(const char *part, size_t n)
{
    return n > 2 && part[0] == '{' && part[n - 1] == '}';
}

static bool fits(const char *pattern, const struct http_target *t)
{
    for (size_t i = 0, n;; i++, pattern += n) {
        n = next_part(&pattern);
        if (n == 0 || i == t->n_segments)
            return n == 0 && i == t->n_segments;
        if (!is_variable(pattern, n) && (strncmp(pattern, t->segments[i], n) != 0 || t->segments[i][n] != '\0'))
            return false;
    }
}

static bool takes(const struct http_route *route, const char *method)
{
    return !strcmp(route->method, method) || (!strcmp(route->method, "GET") && !strcmp(method, "HEAD"));
}

static void add_method(char *allow, const char *method)
{
    size_t n = strlen(allow);
    (void)snprintf(allow + n, HTTP_ALLOW_MAX - n, "%s%s%s", n ? ", " : "", method,
                   !strcmp(method, "GET") ? ", HEAD" : "");
}

int http_route_find(const struct http_route *routes, size_t n, const char *method, const struct http_target *target,
                    const struct http_route **ret, char allow[static HTTP_ALLOW_MAX], struct kymo_err *err)
{
    allow[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (!fits(routes[i].pattern, target))
            continue;
        if (takes(&routes[i], method)) {
            *ret = &routes[i];
            allow[0] = '\0';
            return 0;
        }
        add_method(allow, routes[i].method);
    }
    if (*allow)
        return kymo_err_set(err, -EOPNOTSUPP, "this path takes %s", allow);
    return kymo_err_set(err, -ENOENT, "there is nothing at this path");
}

const char *http_route_value(const struct http_route *route, const struct http_target *target, const char *name)
{
    const char *pattern = route->pattern;
    size_t len = strlen(name);
    for (size_t i = 0, n; i < target->n_segments; i++, pattern += n) {
        n = next_part(&pattern);
        if (is_variable(pattern, n) && n == len + 2 && !strncmp(pattern + 1, name, len))
            return target->segments[i];
    }
    return NULL;
}
