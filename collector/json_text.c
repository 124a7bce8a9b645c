#include "collector/json_text.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

json_t *json_text(const char *s)
{
    json_t *sound = json_string(s);
    if (sound)
        return sound;
    char *clean KYMO_FREE = kymo_strdup(s);
    size_t left = clean ? strlen(clean) : 0;
    for (char *at = clean; left > 0;) {
        size_t len = kymo_utf8_sequence(at, left);
        if (len == 0)
            *at = '?';
        at += len ? len : 1;
        left -= len ? len : 1;
    }
    return clean ? json_string(clean) : NULL;
}

json_t *json_number(uint64_t n)
{
    return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

void json_put(json_t *object, const char *key, json_t *value, bool known)
{
    if (known)
        (void)json_object_set_new(object, key, value);
    else
        json_decref(value);
}
