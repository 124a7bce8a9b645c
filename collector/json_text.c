#include "collector/json_text.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

json_t *json_text(const char *s)
{
    json_t *sound = json_string(s);
    if (sound)
        return sound;
    char *clean KYMO_FREE = kymo_strdup(s);
    if (!clean)
        return NULL;
    kymo_utf8_mend(clean, strlen(clean));
    return json_string(clean);
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

struct printed {
    struct kymo_buf *b;
    int error;
};

static int append(const char *data, size_t n, void *ctx)
{
    struct printed *p = ctx;
    p->error = kymo_buf_append(p->b, data, n);
    return p->error;
}

int json_print(const json_t *value, struct kymo_buf *b)
{
    struct printed p = {.b = b};
    int r = value ? json_dump_callback(value, append, &p, JSON_COMPACT | JSON_ENCODE_ANY) : -1;
    return p.error ? p.error : r < 0 ? -ENOMEM : 0;
}
