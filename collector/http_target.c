#include "collector/http_target.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_clean(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = kymo_utf8_sequence(text + i, n - i);
        if (len == 0 || (unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
        i += len;
    }
    return true;
}

/* In place: n bytes at text become a string, for which there is room since something follows them. */
static int decode(char *text, size_t n, bool plus_is_space, struct kymo_err *err)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%') {
            int high = n - i > 2 ? hex(text[i + 1]) : -1;
            int low = n - i > 2 ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return kymo_err_set(err, -EINVAL, "the request's target has a bad escape at byte %zu of a part", i);
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        text[out++] = c;
    }
    if (!is_clean(text, out))
        return kymo_err_set(err, -EINVAL, "the request's target holds control characters or no UTF-8");
    text[out] = '\0';
    return 0;
}

static int add_segment(struct http_target *t, char *text, size_t n, struct kymo_err *err)
{
    int r = decode(text, n, false, err);
    if (r < 0)
        return r;
    if (!*text || !strcmp(text, ".") || !strcmp(text, "..") || t->n_segments == HTTP_SEGMENTS_MAX)
        return kymo_err_set(err, -ENOENT, "there is nothing at this path");
    t->segments[t->n_segments++] = text;
    return 0;
}

/* path: from the first '/', which ends with a NUL. */
static int parse_path(struct http_target *t, char *path, struct kymo_err *err)
{
    if (path[1] == '\0')
        return 0;
    for (char *at = path + 1;;) {
        size_t n = strcspn(at, "/");
        bool last = at[n] == '\0';
        int r = add_segment(t, at, n, err);
        if (r < 0 || last)
            return r;
        at += n + 1;
    }
}

static int add_param(struct http_target *t, char *text, size_t n, struct kymo_err *err)
{
    char *equals = memchr(text, '=', n);
    size_t name = equals ? (size_t)(equals - text) : n;
    char *value = equals ? equals + 1 : text + n;
    int r = equals ? decode(value, n - name - 1, true, err) : 0;
    if (r == 0)
        r = decode(text, name, true, err);
    if (r < 0)
        return r;
    if (!*text)
        return kymo_err_set(err, -EINVAL, "a parameter has no name");
    if (http_target_param(t, text))
        return kymo_err_set(err, -EINVAL, "the parameter %.64s is there twice", text);
    if (t->n_params == HTTP_PARAMS_MAX)
        return kymo_err_set(err, -E2BIG, "more than %d parameters", HTTP_PARAMS_MAX);
    t->params[t->n_params++] = (struct http_param){text, equals ? value : ""};
    return 0;
}

static int parse_query(struct http_target *t, char *query, struct kymo_err *err)
{
    for (char *at = query;;) {
        size_t n = strcspn(at, "&");
        bool last = at[n] == '\0';
        int r = n > 0 ? add_param(t, at, n, err) : 0;
        if (r < 0 || last)
            return r;
        at += n + 1;
    }
}

int http_target_parse(const char *text, struct http_target *ret, struct kymo_err *err)
{
    struct http_target t = {0};
    size_t n = strlen(text);
    if (n > HTTP_TARGET_MAX)
        return kymo_err_set(err, -E2BIG, "the request's target is longer than %d bytes", HTTP_TARGET_MAX);
    if (text[0] != '/')
        return kymo_err_set(err, -EINVAL, "the request's target does not begin with /");
    t.text = kymo_strdup(text);
    if (!t.text)
        return kymo_err_set(err, -ENOMEM, "no memory for a request");
    char *query = strchr(t.text, '?');
    if (query)
        *query++ = '\0';
    int r = parse_path(&t, t.text, err);
    if (r == 0 && query)
        r = parse_query(&t, query, err);
    if (r < 0)
        http_target_done(&t);
    else
        *ret = t;
    return r;
}

void http_target_done(struct http_target *t)
{
    kymo_free(t->text);
    *t = (struct http_target){0};
}

const char *http_target_param(const struct http_target *t, const char *name)
{
    for (size_t i = 0; i < t->n_params; i++)
        if (!strcmp(t->params[i].name, name))
            return t->params[i].value;
    return NULL;
}
