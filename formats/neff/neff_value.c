#include "formats/neff/neff_value.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/*
 * Jansson's lexer goes on when it finds no memory for a byte of a text; it then looks for the quote that it lost beyond
 * the end of its buffer (2.14, lex_save and lex_scan_string). So an allocation of a parse must not fail: all of them
 * come from the document's own arena, and want of memory leaves the parser by a jump, after which the arena is dropped
 * whole.
 */
static _Thread_local struct neff_arena *pool; /* of the parse under way */
static _Thread_local jmp_buf no_memory;

static void *json_allocate(size_t n)
{
    if (!pool)
        return kymo_malloc(n);
    void *p = neff_arena_alloc(pool, 1, n);
    if (!p)
        longjmp(no_memory, 1);
    return p;
}

static void json_release(void *p)
{
    if (!pool)
        kymo_free(p);
}

/*
 * Another copy of this code may live in the same process: a program that reads programs itself and has loaded the
 * simulated runtime. Jansson has one allocator for all, so each parse makes sure that it is this copy's.
 */
static void install_allocator(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    json_malloc_t now;
    (void)pthread_mutex_lock(&lock);
    json_get_alloc_funcs(&now, NULL);
    if (now != json_allocate)
        json_set_alloc_funcs(json_allocate, json_release);
    (void)pthread_mutex_unlock(&lock);
}

/* NULL with *e filled when the text is wrong, NULL with *ret_no_memory otherwise. */
static json_t *parse(struct neff_arena *a, const uint8_t *data, size_t n, size_t flags, json_error_t *e,
                     bool *ret_no_memory)
{
    install_allocator();
    json_t *v = NULL;
    *ret_no_memory = true;
    pool = a;
    if (setjmp(no_memory) == 0) {
        v = json_loadb((const char *)data, n, flags, e);
        *ret_no_memory = false;
    }
    pool = NULL;
    return *ret_no_memory ? NULL : v;
}

void neff_json_done(struct neff_json *j)
{
    neff_arena_done(&j->memory);
    j->root = NULL;
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
    return refuse_json(l, m, base + (e->position > 0 ? (size_t)e->position : 0), e->text);
}

int neff_json_parse(struct neff_load *l, const struct neff_member *m, struct neff_json *j)
{
    if (m->size > NEFF_JSON_MAX || too_many_values(m->data, m->size))
        return neff_refuse(l, NEFF_ERROR_LIMIT, -EFBIG, "member \"%s\": the JSON is too large", m->name);
    json_error_t e = {0};
    bool no_memory_left;
    j->root = parse(&j->memory, m->data, m->size, 0, &e, &no_memory_left);
    if (no_memory_left)
        return neff_no_memory(l);
    if (!j->root)
        return refuse_parse(l, m, 0, &e);
    return json_is_object(j->root) ? 0 : refuse_json(l, m, 0, "it is no object");
}

struct cursor {
    struct neff_load *l;
    const struct neff_member *m;
    size_t at;
    struct neff_arena memory; /* of the value at hand */
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

/* The value lives until the next one is read. */
static int next_value(struct cursor *c, size_t max, const json_t **ret)
{
    (void)peek(c);
    const uint8_t *p = c->m->data + c->at;
    size_t left = c->m->size - c->at, n = left < max ? left : max;
    json_error_t e = {0};
    bool no_memory_left;
    neff_arena_reset(&c->memory);
    json_t *v = parse(&c->memory, p, n, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &e, &no_memory_left);
    if (no_memory_left)
        return neff_no_memory(c->l);
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
        const json_t *entry = NULL;
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
    const json_t *name = NULL;
    if (peek(c) != '"')
        return refuse_json(c->l, c->m, c->at, "expected a name here");
    int r = next_value(c, NEFF_JSON_ENTRY_MAX, &name);
    if (r == 0)
        r = expect(c, ':');
    if (r < 0)
        return r;
    const char *text = json_string_value(name);
    if (text && !strcmp(text, key) && peek(c) == '[')
        return walk_array(c, each, ctx);
    const json_t *value;
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
    int r = neff_archive_hold(l, m);
    if (r < 0)
        return r;
    struct cursor c = {.l = l, .m = m};
    r = walk_object(&c, key, each, ctx);
    neff_arena_done(&c.memory);
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
