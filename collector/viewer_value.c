#include "collector/viewer_value.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define TEXT_MAX 200
#define SAFE_MAX 9007199254740991 /* what a browser holds as a whole number */

struct member {
    const char *name;
    char type; /* t: text, n: a whole number, o: that or null; 0: no more */
};

/* What a list of each kind holds: objects of these members, or names where there are none. */
struct shape {
    size_t max;
    struct member members[8];
};

static const struct shape shapes[VIEWER_KIND_MAX] = {
    [VIEWER_annotations] = {500, {{"id", 'n'}, {"name", 't'}, {"ts", 'n'}, {"versus", 'o'}}},
    [VIEWER_layouts] = {40, {{"id", 't'}, {"type", 't'}, {"x", 'n'}, {"y", 'n'}, {"w", 'n'}, {"h", 'n'}}},
    [VIEWER_folders] = {1000, {{0}}},
    [VIEWER_tags] = {1000, {{0}}},
};

static bool fits(const json_t *value, char type)
{
    if (type == 't')
        return json_is_string(value) && json_string_length(value) <= TEXT_MAX;
    if (type == 'o' && json_is_null(value))
        return true;
    json_int_t n = json_integer_value(value);
    return json_is_integer(value) && n >= -SAFE_MAX && n <= SAFE_MAX;
}

static int check_object(const struct shape *shape, const json_t *value, struct kymo_err *err)
{
    size_t n = 0;
    for (const struct member *m = shape->members; m->name; m++, n++)
        if (!fits(json_object_get(value, m->name), m->type))
            return kymo_err_set(err, -EINVAL, "%s of an item of the value is missing, or of another type", m->name);
    return json_object_size(value) == n
               ? 0
               : kymo_err_set(err, -EINVAL, "an item of the value has members that are not known");
}

int viewer_value_check_key(const char *key, struct kymo_err *err)
{
    size_t n = strlen(key), i = 0;
    while (i < n && (unsigned char)key[i] >= 0x20 && key[i] != 0x7f)
        i++;
    return n > 0 && n <= VIEWER_DB_KEY_MAX && i == n
               ? 0
               : kymo_err_set(err, -EINVAL, "a name has 1 to %d bytes, none of them a control character",
                              VIEWER_DB_KEY_MAX);
}

static int check_name(const json_t *value, struct kymo_err *err)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != json_string_length(value))
        return kymo_err_set(err, -EINVAL, "the value is a list of names");
    return viewer_value_check_key(text, err);
}

int viewer_value_check(enum viewer_kind kind, const json_t *value, struct kymo_err *err)
{
    const struct shape *shape = &shapes[kind];
    if (shape->max == 0)
        return json_is_true(value) ? 0 : kymo_err_set(err, -EINVAL, "the value is true");
    if (!json_is_array(value) || json_array_size(value) > shape->max)
        return kymo_err_set(err, -EINVAL, "the value is a list of at most %zu items", shape->max);
    int r = 0;
    for (size_t i = 0; i < json_array_size(value) && r == 0; i++) {
        const json_t *item = json_array_get(value, i);
        r = shape->members[0].name ? check_object(shape, item, err) : check_name(item, err);
    }
    return r;
}
