#include "collector/query/serve_question.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int serve_question_parse(const void *data, size_t n, json_t **ret_root, struct serve_question *ret,
                         struct kymo_err *err)
{
    json_error_t why;
    const char *key;
    json_t *value;
    json_t *root = json_loadb(data, n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return kymo_err_set(err, -EINVAL, "a request is no JSON: %s", why.text);
    struct serve_question q = {json_string_value(json_object_get(root, "dir")),
                               json_string_value(json_object_get(root, "op")), json_object_get(root, "params")};
    int r = 0;
    if (!q.dir || *q.dir != '/' || !q.op || !json_is_object(q.params) || json_object_size(root) != 3)
        r = kymo_err_set(err, -EINVAL, "a request has an absolute dir, an op and params");
    json_object_foreach(q.params, key, value) if (r == 0 && !json_is_string(value)) r =
        kymo_err_set(err, -EINVAL, "the parameter %.64s is no text", key);
    if (r < 0) {
        json_decref(root);
        return r;
    }
    *ret_root = root;
    *ret = q;
    return 0;
}

const char *serve_question_text(const struct serve_question *q, const char *name)
{
    return json_string_value(json_object_get(q->params, name));
}

int serve_question_int(const struct serve_question *q, const char *name, int64_t min, int64_t max, bool required,
                       int64_t *ret, struct kymo_err *err)
{
    const char *text = serve_question_text(q, name);
    char *end;
    if (!text)
        return required ? kymo_err_set(err, -EINVAL, "the parameter %s is missing", name) : 0;
    errno = 0;
    int64_t v = strtoll(text, &end, 10);
    bool digits = (*text >= '0' && *text <= '9') || (*text == '-' && text[1] >= '0' && text[1] <= '9');
    if (!digits || *end || errno || v < min || v > max)
        return kymo_err_set(err, -EINVAL, "%s is a number from %" PRId64 " to %" PRId64, name, min, max);
    *ret = v;
    return 0;
}

int serve_question_json(const struct serve_question *q, const char *name, json_t **ret, struct kymo_err *err)
{
    json_error_t why;
    const char *text = serve_question_text(q, name);
    json_t *value = text ? json_loads(text, 0, &why) : NULL;
    if (!json_is_array(value)) {
        json_decref(value);
        return kymo_err_set(err, -EINVAL, "the parameter %s is no list", name);
    }
    *ret = value;
    return 0;
}

int serve_question_choice(const struct serve_question *q, const char *name, const char *const *names, int *ret,
                          struct kymo_err *err)
{
    const char *text = serve_question_text(q, name);
    for (int i = 0; text && names[i]; i++)
        if (!strcmp(names[i], text)) {
            *ret = i;
            return 0;
        }
    return text ? kymo_err_set(err, -EINVAL, "%s is one of few values, and %.64s is none of them", name, text) : 0;
}

bool serve_question_has(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
            return true;
        if (!*at)
            return false;
    }
    return false;
}
