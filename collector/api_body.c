#include "collector/api_body.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX 255
#define BRACKETS_MAX 8

/* jansson's own limit of nesting is thousands of levels deep. Brackets inside texts are none. */
static bool is_flat(const char *text, size_t n, size_t max)
{
    size_t brackets = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\')
            i++;
        else if (!quoted && (text[i] == '[' || text[i] == '{'))
            brackets++;
        if (brackets > max)
            return false;
    }
    return true;
}

json_t *api_body_parse(struct http_request *q)
{
    return api_body_parse_list(q, BRACKETS_MAX);
}

json_t *api_body_parse_list(struct http_request *q, size_t brackets)
{
    const void *data;
    size_t n;
    json_error_t why;
    http_body(q, &data, &n);
    if (n == 0)
        return json_object();
    const char *type = http_header(q, "Content-Type");
    if (!type || strncasecmp(type, "application/json", 16) != 0 || !strchr("; \t", type[16])) {
        http_answer_error(q, 415, "media_type", "the body's type must be application/json");
        return NULL;
    }
    json_t *root = is_flat(data, n, brackets) ? json_loadb(data, n, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (!root || !json_is_object(root)) {
        json_decref(root);
        http_answer_error(q, 400, "bad_request", "the body is no JSON object that this takes");
        return NULL;
    }
    return root;
}

bool api_body_known(struct http_request *q, const json_t *body, const char *const *known)
{
    /* jansson iterates only over what it might change. */
    union {
        const json_t *in;
        json_t *out;
    } object = {.in = body};
    const char *key;
    json_t *value;
    json_object_foreach(object.out, key, value)
    {
        size_t k = 0;
        while (known[k] && strcmp(known[k], key) != 0)
            k++;
        if (!known[k]) {
            http_answer_error(q, 400, "bad_request", "the body has no member %.64s", key);
            return false;
        }
    }
    return true;
}

/* NULL: absent. */
static const json_t *member(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

/* NULL: it is none. */
static const char *text_of(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t n = json_string_length(value), i = 0;
    while (i < n && (unsigned char)text[i] >= 0x20 && text[i] != 0x7f)
        i++;
    return n == 0 || n > TEXT_MAX || i < n ? NULL : text;
}

bool api_body_text(struct http_request *q, const json_t *body, const char *name, const char **ret)
{
    const json_t *value = member(body, name);
    const char *text = value ? text_of(value) : NULL;
    if (value && !text) {
        http_answer_error(q, 400, "bad_request", "%s is a text of 1 to %d bytes", name, TEXT_MAX);
        return false;
    }
    if (text)
        *ret = text;
    return true;
}

bool api_body_texts(struct http_request *q, const json_t *body, const char *name, size_t max, const char **ret,
                    size_t *ret_n)
{
    const json_t *value = member(body, name);
    size_t n = json_array_size(value);
    bool sound = !value || (json_is_array(value) && n <= max);
    for (size_t i = 0; sound && i < n; i++)
        sound = (ret[i] = text_of(json_array_get(value, i))) != NULL;
    if (!sound) {
        http_answer_error(q, 400, "bad_request", "%s is an array of at most %zu texts of 1 to %d bytes", name, max,
                          TEXT_MAX);
        return false;
    }
    *ret_n = n;
    return true;
}

bool api_body_choice(struct http_request *q, const json_t *body, const char *name, const char *const *names, int n,
                     int *ret)
{
    const char *text = NULL;
    char list[256] = "";
    if (!api_body_text(q, body, name, &text))
        return false;
    if (!text)
        return true;
    for (int i = 0; i < n; i++) {
        size_t len = strlen(list);
        if (!strcmp(names[i], text)) {
            *ret = i;
            return true;
        }
        (void)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", names[i]);
    }
    http_answer_error(q, 400, "bad_request", "%s is one of %s", name, list);
    return false;
}

bool api_body_number(struct http_request *q, const json_t *body, const char *name, uint64_t min, uint64_t max,
                     uint64_t *ret)
{
    const json_t *value = member(body, name);
    if (!value)
        return true;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || (uint64_t)n < min || (uint64_t)n > max) {
        http_answer_error(q, 400, "bad_request", "%s is a number from %" PRIu64 " to %" PRIu64, name, min, max);
        return false;
    }
    *ret = (uint64_t)n;
    return true;
}

bool api_body_bool(struct http_request *q, const json_t *body, const char *name, bool *ret)
{
    const json_t *value = member(body, name);
    if (!value)
        return true;
    if (!json_is_boolean(value)) {
        http_answer_error(q, 400, "bad_request", "%s is true or false", name);
        return false;
    }
    *ret = json_is_true(value);
    return true;
}

static bool has(const uint32_t *list, size_t n, uint32_t value)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return false;
}

bool api_body_numbers(struct http_request *q, const json_t *body, const char *name, size_t max, uint32_t *ret,
                      size_t *ret_n)
{
    const json_t *value = member(body, name);
    if (!value)
        return true;
    size_t n = json_array_size(value);
    bool sound = json_is_array(value) && n <= max;
    for (size_t i = 0; sound && i < n; i++) {
        const json_t *item = json_array_get(value, i);
        json_int_t number = json_integer_value(item);
        sound = json_is_integer(item) && number >= 0 && number <= UINT32_MAX && !has(ret, i, (uint32_t)number);
        ret[i] = (uint32_t)number;
    }
    if (!sound) {
        http_answer_error(q, 400, "bad_request", "%s is an array of at most %zu numbers, none twice", name, max);
        return false;
    }
    *ret_n = n;
    return true;
}
