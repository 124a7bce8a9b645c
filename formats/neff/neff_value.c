#include "formats/neff/neff_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void neff_json_freep(json_t **j)
{
    json_decref(*j);
}

static int refuse_json(struct neff_load *l, const struct neff_member *m, size_t at, const char *why)
{
    return neff_refuse(l, NEFF_ERROR_BAD_JSON, -EPROTO, "member \"%s\": byte %zu: %s", m->name, at, why);
}

/* Commas and openings bound the number of values from above, strings and all; so memory is bounded before it is taken.
 */
static bool too_many_values(const uint8_t *p, size_t n)
{
    size_t marks = 0;
    for (size_t i = 0; i < n; i++)
        marks += p[i] == ',' || p[i] == '[' || p[i] == '{';
    return marks > NEFF_JSON_VALUES_MAX;
}

static int refuse_parse(struct neff_load *l, const struct neff_member *m, size_t base, const json_error_t *e)
{
    if (json_error_code(e) == json_error_out_of_memory)
        return neff_no_memory(l);
    return refuse_json(l, m, base + (e->position > 0 ? (size_t)e->position : 0), e->text);
}

int neff_json_parse(struct neff_load *l, const struct neff_member *m, json_t **ret)
{
    if (m->size > NEFF_JSON_MAX || too_many_values(m->data, m->size))
        return neff_refuse(l, NEFF_ERROR_LIMIT, -EFBIG, "member \"%s\": the JSON is too large", m->name);
    json_error_t e = {0};
    json_t *root NEFF_JSON = json_loadb((const char *)m->data, m->size, 0, &e);
    if (!root)
        return refuse_parse(l, m, 0, &e);
    if (!json_is_object(root))
        return refuse_json(l, m, 0, "it is no object");
    *ret = KYMO_TAKE(root);
    return 0;
}

struct cursor {
    struct neff_load *l;
    const struct neff_member *m;
    size_t at;
};

/* The next byte that is no white space, 0 at the end. */
static char peek(struct cursor *c)
{
    const char *p = (const char *)c->m->data;
    while (c->at < c->m->size && (p[c->at] == ' ' || p[c->at] == '\t' || p[c->at] == '\n' || p[c->at] == '\r'))
        c->at++;
    return c->at < c->m->size ? p[c->at] : '\0';
}

static int expect(struct cursor *c, char want)
{
    if (peek(c) != want) {
        char why[32] = "expected '?' here";
        why[10] = want;
        return refuse_json(c->l, c->m, c->at, why);
    }
    c->at++;
    return 0;
}

static int next_value(struct cursor *c, size_t max, json_t **ret)
{
    (void)peek(c);
    const uint8_t *p = c->m->data + c->at;
    size_t left = c->m->size - c->at, n = left < max ? left : max;
    json_error_t e = {0};
    json_t *v = json_loadb((const char *)p, n, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &e);
    if (!v && n < left && e.position > 0 && (size_t)e.position >= n)
        return neff_refuse(c->l, NEFF_ERROR_LIMIT, -EFBIG, "member \"%s\": byte %zu: a value longer than %zu bytes",
                           c->m->name, c->at, max);
    if (!v)
        return refuse_parse(c->l, c->m, c->at, &e);
    c->at += (size_t)e.position;
    *ret = v;
    return 0;
}

static int walk_array(struct cursor *c, int (*each)(void *, const json_t *), void *ctx)
{
    int r = expect(c, '[');
    if (r < 0)
        return r;
    if (peek(c) == ']')
        return expect(c, ']');
    for (size_t i = 0; i < NEFF_JSON_ENTRIES_MAX; i++) {
        json_t *entry NEFF_JSON = NULL;
        r = next_value(c, NEFF_JSON_ENTRY_MAX, &entry);
        if (r == 0)
            r = each(ctx, entry);
        if (r < 0)
            return r;
        if (peek(c) == ']')
            return expect(c, ']');
        r = expect(c, ',');
        if (r < 0)
            return r;
    }
    return neff_refuse(c->l, NEFF_ERROR_LIMIT, -E2BIG, "member \"%s\": more than %u entries", c->m->name,
                       NEFF_JSON_ENTRIES_MAX);
}

static int walk_pair(struct cursor *c, const char *key, int (*each)(void *, const json_t *), void *ctx)
{
    json_t *name NEFF_JSON = NULL;
    if (peek(c) != '"')
        return refuse_json(c->l, c->m, c->at, "expected a name here");
    int r = next_value(c, NEFF_JSON_ENTRY_MAX, &name);
    if (r == 0)
        r = expect(c, ':');
    if (r < 0)
        return r;
    if (!strcmp(json_string_value(name), key) && peek(c) == '[')
        return walk_array(c, each, ctx);
    json_t *value NEFF_JSON = NULL;
    return next_value(c, NEFF_JSON_OTHER_MAX, &value);
}

static int walk_object(struct cursor *c, const char *key, int (*each)(void *, const json_t *), void *ctx)
{
    int r = expect(c, '{');
    if (r < 0)
        return r;
    if (peek(c) == '}')
        return expect(c, '}');
    for (size_t i = 0; i < NEFF_JSON_ENTRIES_MAX; i++) {
        r = walk_pair(c, key, each, ctx);
        if (r < 0)
            return r;
        if (peek(c) == '}')
            return expect(c, '}');
        r = expect(c, ',');
        if (r < 0)
            return r;
    }
    return neff_refuse(c->l, NEFF_ERROR_LIMIT, -E2BIG, "member \"%s\": more than %u names", c->m->name,
                       NEFF_JSON_ENTRIES_MAX);
}

int neff_json_walk(struct neff_load *l, const struct neff_member *m, const char *key,
                   int (*each)(void *ctx, const json_t *entry), void *ctx)
{
    if (m->size > NEFF_JSON_WALK_MAX)
        return neff_refuse(l, NEFF_ERROR_LIMIT, -EFBIG, "member \"%s\": the JSON is too large", m->name);
    struct cursor c = {l, m, 0};
    int r = walk_object(&c, key, each, ctx);
    if (r == 0 && (peek(&c) != '\0' || c.at < m->size))
        r = refuse_json(l, m, c.at, "something follows the object");
    return r;
}

const char *neff_json_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t neff_json_int(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(object, key);
    if (json_is_integer(v))
        return json_integer_value(v);
    if (!json_is_string(v))
        return fallback;
    const char *text = json_string_value(v);
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 ? n : fallback;
}
