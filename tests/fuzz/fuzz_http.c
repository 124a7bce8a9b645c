/*
 * What the HTTP server takes apart by itself: the first byte chooses among a target, with the route it leads to, a
 * cursor, a Host and an Origin header, a token; the rest is that text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "collector/api.h"
#include "collector/catalog_search.h"
#include "collector/http_guard.h"
#include "collector/http_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static void must_be_clean(const char *text)
{
    for (size_t left = strlen(text), n; left > 0; left -= n, text += n) {
        n = kymo_utf8_sequence(text, left);
        must(n > 0 && (unsigned char)*text >= 0x20 && *text != 0x7f);
    }
}

static void run_target(const char *text)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE"};
    struct http_target t;
    struct kymo_err err = {0};
    char allow[HTTP_ALLOW_MAX];
    size_t n;
    const struct http_route *routes = api_routes(&n), *found;
    int r = http_target_parse(text, &t, &err);
    must(r == (r ? err.code : 0));
    if (r < 0)
        return;
    for (size_t i = 0; i < t.n_segments; i++) {
        must(*t.segments[i] && strcmp(t.segments[i], "..") != 0);
        must_be_clean(t.segments[i]);
    }
    for (size_t i = 0; i < t.n_params; i++) {
        must(http_target_param(&t, t.params[i].name) == t.params[i].value);
        must_be_clean(t.params[i].name);
        must_be_clean(t.params[i].value);
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (http_route_find(routes, n, methods[i], &t, &found, allow, NULL) == 0 && strchr(found->pattern, '{'))
            must(http_route_value(found, &t, "name") || http_route_value(found, &t, "id"));
    http_target_done(&t);
}

/* A cursor that is taken is written back as it was, but for zeros in front of its number. */
static void run_cursor(const char *text)
{
    for (int i = 0; i < 2 * CATALOG_SORT_MAX; i++) {
        const struct catalog_query q = {.sort = (enum catalog_sort)(i / 2), .descending = i % 2};
        struct catalog_place p, again;
        char back[CATALOG_PLACE_MAX];
        if (catalog_place_parse(&q, text, &p, NULL) < 0)
            continue;
        catalog_place_text(&q, &p, back);
        must(catalog_place_parse(&q, back, &again, NULL) == 0);
        must(again.key == p.key && !strcmp(again.name, p.name));
    }
}

static void run_guard(const char *text)
{
    static const char token[] = "0123456789abcdef", tokens[] = "other 0123456789abcdeg\nsomebody 0123456789abcdef\n";
    static const char *const names[] = {"collector.example"};
    if (http_guard_host(text, names, 1))
        must(strlen(text) <= strlen(names[0]) + 6);
    if (http_guard_origin(text, "localhost:3001"))
        must(strlen(text) <= strlen("https://localhost:3001"));
    struct http_token t;
    if (http_guard_authorized(text, tokens, &t))
        must(strstr(text, t.name_n == 8 ? token : "0123456789abcdeg") != NULL);
    if (!http_guard_are_tokens(text))
        return;
    size_t n = 0;
    for (const char *at = text; http_guard_next_token(&at, &t); n++)
        must(t.token >= text && t.token_n >= HTTP_TOKEN_MIN && t.token_n <= HTTP_TOKEN_MAX &&
             t.name_n <= HTTP_USER_MAX);
    must(n > 0 && n <= HTTP_TOKENS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *text KYMO_FREE = kymo_strndup((const char *)data + 1, size - 1);
    must(text != NULL);
    switch (data[0] % 3) {
    case 0:
        run_target(text);
        break;
    case 1:
        run_cursor(text);
        break;
    default:
        run_guard(text);
    }
    return 0;
}
