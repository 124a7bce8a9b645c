#include "formats/systrace/trace_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

#define WINDOW_BYTES (256u << 10)
#define KEY_MAX 64
#define NS_PER_US 1000
#define US_MAX 9000000000000000ll /* so that ns fit */

struct trace_json {
    int fd;
    char *path;
    uint64_t size, base; /* of the file; where the window begins */
    uint8_t *window;
    size_t len, pos;
    int64_t base_ns;
    uint64_t array; /* offset behind the '[' of the events */
    struct kymo_buf text;
    struct trace_json_event event;
};

static uint64_t place(const struct trace_json *t)
{
    return t->base + t->pos;
}

static int refuse(const struct trace_json *t, uint64_t offset, const char *cause, struct kymo_err *err)
{
    return kymo_err_set(err, -EPROTO, "%s: offset %llu: %s", t->path, (unsigned long long)offset, cause);
}

static int seek(struct trace_json *t, uint64_t offset)
{
    t->base = offset;
    t->len = t->pos = 0;
    return 0;
}

/* The next byte without taking it; -1: the end. */
static int peek(struct trace_json *t, int *ret, struct kymo_err *err)
{
    if (t->pos == t->len) {
        t->base += t->len;
        t->pos = t->len = 0;
        uint64_t left = t->size - t->base;
        size_t n = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        int r = kymo_file_pread_all(t->fd, t->window, n, t->base, t->path, err);
        if (r < 0)
            return r;
        t->len = n;
    }
    *ret = t->len ? t->window[t->pos] : -1;
    return 0;
}

static int skip_space(struct trace_json *t, bool commas, int *ret, struct kymo_err *err)
{
    int r;
    while ((r = peek(t, ret, err)) == 0 && *ret >= 0 && (isspace(*ret) || (commas && *ret == ',')))
        t->pos++;
    return r;
}

/* Takes bytes of one value until it is balanced; keeps them in text when asked. Values without brackets end before a
 * comma, a closing bracket or space. */
struct walk {
    unsigned depth;
    bool string, escaped, begun;
};

/* True: c ends the value; *take whether it is a part of it. */
static bool step(struct walk *w, int c, bool *take)
{
    bool bare = w->begun && !w->depth && !w->string;
    *take = true;
    if (w->string) {
        bool closing = c == '"' && !w->escaped;
        w->escaped = c == '\\' && !w->escaped;
        w->string = !closing;
        return closing && !w->depth;
    }
    if (bare && (c == ',' || c == ']' || c == '}' || isspace(c))) {
        *take = false;
        return true;
    }
    w->begun = true;
    if (c == '"')
        w->string = true;
    else if (c == '{' || c == '[')
        w->depth++;
    else if ((c == '}' || c == ']') && w->depth)
        return --w->depth == 0;
    return false;
}

/* As far as the window goes. True: the value has ended. */
static bool walk_window(struct trace_json *t, struct walk *w)
{
    bool take = true, last = false;
    while (t->pos < t->len && !last) {
        last = step(w, t->window[t->pos], &take);
        t->pos += take;
    }
    return last;
}

static int take_value(struct trace_json *t, bool keep, struct kymo_err *err)
{
    uint64_t start = place(t);
    struct walk w = {0};
    kymo_buf_reset(&t->text);
    for (bool last = false; !last;) {
        int c, r = peek(t, &c, err);
        if (r < 0)
            return r;
        if (c < 0)
            return refuse(t, start, "the file breaks off inside of what begins here", err);
        size_t from = t->pos;
        last = walk_window(t, &w);
        r = keep ? kymo_buf_append(&t->text, t->window + from, t->pos - from) : 0;
        if (r < 0)
            return refuse(t, start, r == -ENOBUFS ? "an event is too long" : "no memory for an event", err);
    }
    return 0;
}

/* A key of the outermost object and its colon; longer keys are none that is looked for. */
static int take_key(struct trace_json *t, char out[KEY_MAX], struct kymo_err *err)
{
    int c, r = take_value(t, true, err);
    if (r < 0)
        return r;
    size_t n = t->text.len >= 2 ? t->text.len - 2 : 0;
    out[0] = '\0';
    if (n < KEY_MAX) {
        memcpy(out, t->text.data + 1, n);
        out[n] = '\0';
    }
    r = skip_space(t, false, &c, err);
    if (r == 0 && c != ':')
        return refuse(t, place(t), "a key without a value", err);
    t->pos += r == 0;
    return r;
}

static int take_base(struct trace_json *t, struct kymo_err *err)
{
    char text[32] = "", *stop;
    int r = take_value(t, true, err);
    if (r < 0)
        return r;
    size_t n = t->text.len < sizeof text - 1 ? t->text.len : sizeof text - 1;
    memcpy(text, t->text.data, n);
    long long v = strtoll(text, &stop, 10);
    if (!*text || *stop || v < 0)
        return refuse(t, place(t), "baseTimeNanoseconds is no time", err);
    t->base_ns = v;
    return 0;
}

/* One member of the outermost object. */
static int look_at_member(struct trace_json *t, struct kymo_err *err)
{
    char key[KEY_MAX];
    int c = 0, r = take_key(t, key, err);
    if (r == 0)
        r = skip_space(t, false, &c, err);
    if (r < 0)
        return r;
    if (!strcmp(key, "traceEvents") && c == '[' && !t->array)
        t->array = place(t) + 1;
    return strcmp(key, "baseTimeNanoseconds") ? take_value(t, false, err) : take_base(t, err);
}

static int look_at_object(struct trace_json *t, struct kymo_err *err)
{
    t->pos++;
    for (;;) {
        int c, r = skip_space(t, true, &c, err);
        if (r < 0 || c == '}')
            return r;
        if (c != '"')
            return refuse(t, place(t), c < 0 ? "the file breaks off" : "no key where one must stand", err);
        r = look_at_member(t, err);
        if (r < 0)
            return r;
    }
}

/* A file that breaks off inside of its events has those that stand before. */
static int find_events(struct trace_json *t, struct kymo_err *err)
{
    int c, r = skip_space(t, false, &c, err);
    if (r < 0)
        return r;
    if (c == '[')
        t->array = place(t) + 1;
    else if (c == '{')
        r = look_at_object(t, err);
    else
        return refuse(t, place(t), "no JSON object or array", err);
    if (t->array)
        return seek(t, t->array);
    return r < 0 ? r : refuse(t, 0, "no traceEvents in it", err);
}

int trace_json_open(const char *path, struct trace_json **ret, struct kymo_err *err)
{
    struct trace_json *t KYMO_CLEANUP(trace_json_freep) = KYMO_NEW(struct trace_json);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to read it", path);
    kymo_buf_init(&t->text, TRACE_JSON_EVENT_MAX);
    t->fd = kymo_file_open_regular(path, &t->size, err);
    if (t->fd < 0)
        return t->fd;
    t->path = kymo_strdup(path);
    t->window = kymo_malloc(WINDOW_BYTES);
    if (!t->path || !t->window)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to read it", path);
    int r = find_events(t, err);
    if (r == 0)
        *ret = KYMO_TAKE(t);
    return r;
}

struct trace_json *trace_json_free(struct trace_json *t)
{
    if (!t)
        return NULL;
    kymo_file_close(t->fd);
    kymo_free(t->event.args);
    kymo_buf_done(&t->text);
    kymo_free(t->window);
    kymo_free(t->path);
    kymo_free(t);
    return NULL;
}

void trace_json_freep(struct trace_json **t)
{
    *t = trace_json_free(*t);
}

uint64_t trace_json_size(const struct trace_json *t)
{
    return t->size;
}

/* The text of a number that is a member of the event itself; a double would lose nanoseconds of a Unix time. */
static const char *find_number(const struct trace_json *t, const char *key, size_t *ret_len)
{
    const char *p = (const char *)t->text.data, *end = p + t->text.len;
    size_t n = strlen(key);
    unsigned depth = 0;
    bool string = false, escaped = false;
    for (; p < end; p++) {
        if (string) {
            string = *p != '"' || escaped;
            escaped = *p == '\\' && !escaped;
        } else if (*p == '"') {
            if (depth == 1 && (size_t)(end - p) > n + 2 && !memcmp(p + 1, key, n) && p[n + 1] == '"')
                break;
            string = true;
            escaped = false;
        } else {
            depth += *p == '{' || *p == '[';
            depth -= *p == '}' || *p == ']';
        }
    }
    if (p == end)
        return NULL;
    p += n + 2;
    while (p < end && (isspace((unsigned char)*p) || *p == ':'))
        p++;
    const char *start = p;
    while (p < end && *p && strchr("+-.0123456789eE", *p))
        p++;
    *ret_len = (size_t)(p - start);
    return start;
}

/* Microseconds as text to ns, cut below. False: no such number. */
static bool to_ns(const char *text, size_t n, int64_t *ret)
{
    char number[64], *stop;
    if (!n || n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    if (strpbrk(number, "eE")) {
        double us = strtod(number, &stop);
        if (*stop || !(us >= 0 && us <= (double)US_MAX))
            return false;
        *ret = (int64_t)llround(us * NS_PER_US);
        return true;
    }
    errno = 0;
    long long us = strtoll(number, &stop, 10);
    if (errno || stop == number || *number == '-' || us > US_MAX)
        return false;
    int64_t ns = us * NS_PER_US;
    if (*stop == '.')
        for (int64_t unit = NS_PER_US / 10; unit && isdigit((unsigned char)*++stop); unit /= 10)
            ns += (*stop - '0') * unit;
    *ret = ns;
    return true;
}

static bool take_time(const struct trace_json *t, const char *key, int64_t *ret)
{
    size_t n = 0;
    const char *text = find_number(t, key, &n);
    return text && to_ns(text, n, ret);
}

/* Ids come as numbers or as text. */
static void take_id(char out[TRACE_JSON_ID_MAX + 1], const json_t *v)
{
    out[0] = '\0';
    if (json_is_integer(v))
        (void)snprintf(out, TRACE_JSON_ID_MAX + 1, "%lld", (long long)json_integer_value(v));
    else if (json_is_string(v))
        (void)snprintf(out, TRACE_JSON_ID_MAX + 1, "%.*s", TRACE_JSON_ID_MAX, json_string_value(v));
}

static bool take_integer(const json_t *v, int64_t *ret)
{
    char *stop;
    if (json_is_integer(v)) {
        *ret = json_integer_value(v);
        return true;
    }
    const char *text = json_string_value(v);
    if (!text || !isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *ret = strtoll(text, &stop, 10);
    return !errno && !*stop;
}

/* Cut at a character, not inside of one. */
static void take_name(char out[TRACE_JSON_NAME_MAX + 1], const json_t *v)
{
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    size_t n = strlen(text);
    if (n > TRACE_JSON_NAME_MAX)
        for (n = TRACE_JSON_NAME_MAX; n && ((unsigned char)text[n] & 0xc0) == 0x80;)
            n--;
    memcpy(out, text, n);
    out[n] = '\0';
}

static int take_args(struct trace_json *t, const json_t *args, struct kymo_err *err)
{
    struct trace_json_event *e = &t->event;
    int64_t sequence;
    if (!json_is_object(args) || !json_object_size(args))
        return 0;
    e->has_sequence = take_integer(json_object_get(args, "nrt_sequence_id"), &sequence) && sequence >= 0;
    e->sequence = e->has_sequence ? (uint64_t)sequence : 0;
    take_id(e->stream, json_object_get(args, "stream"));
    size_t n = json_dumpb(args, NULL, 0, JSON_COMPACT | JSON_PRESERVE_ORDER);
    e->args = n ? kymo_calloc(n + 1, 1) : NULL;
    if (!e->args || json_dumpb(args, e->args, n, JSON_COMPACT | JSON_PRESERVE_ORDER) != n)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for an event", t->path);
    return 0;
}

static int take_event(struct trace_json *t, const json_t *object, struct kymo_err *err)
{
    struct trace_json_event *e = &t->event;
    const char *phase = json_string_value(json_object_get(object, "ph"));
    e->phase = '\0';
    if (phase)
        e->phase = *phase;
    take_name(e->name, json_object_get(object, "name"));
    /* A time that 64 bits do not hold is none. */
    e->timed = take_time(t, "ts", &e->start_ns) && !__builtin_add_overflow(e->start_ns, t->base_ns, &e->start_ns);
    e->has_duration = take_time(t, "dur", &e->duration_ns);
    e->has_pid = take_integer(json_object_get(object, "pid"), &e->pid);
    e->has_tid = take_integer(json_object_get(object, "tid"), &e->tid);
    take_id(e->id, json_object_get(object, "id"));
    e->has_sequence = false;
    e->stream[0] = '\0';
    return take_args(t, json_object_get(object, "args"), err);
}

static int parse(struct trace_json *t, struct kymo_err *err)
{
    json_error_t why;
    uint64_t start = t->event.offset;
    json_t *object = json_loadb((const char *)t->text.data, t->text.len, 0, &why);
    if (!object)
        return kymo_err_set(err, -EPROTO, "%s: offset %llu: no JSON: %s", t->path,
                            (unsigned long long)(start + (why.position > 0 ? (uint64_t)why.position : 0)), why.text);
    int r = json_is_object(object) ? take_event(t, object, err) : refuse(t, start, "no object", err);
    json_decref(object);
    return r;
}

int trace_json_next(struct trace_json *t, const struct trace_json_event **ret, struct kymo_err *err)
{
    int c, r = skip_space(t, true, &c, err);
    if (r < 0)
        return r;
    kymo_free(t->event.args);
    t->event.args = NULL;
    if (c == ']')
        return 0;
    if (c != '{')
        return refuse(t, place(t), c < 0 ? "the file breaks off" : "no object where an event must stand", err);
    t->event.offset = place(t);
    r = take_value(t, true, err);
    if (r == 0)
        r = parse(t, err);
    if (r < 0)
        return r;
    *ret = &t->event;
    return 1;
}
