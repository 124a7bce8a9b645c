#include "tests/unit/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

size_t vectors_each(const char *path, void (*each)(json_t *line, void *ctx), void *ctx)
{
    FILE *f = fopen(path, "re");
    if (!f)
        fail_msg("%s: cannot open", path);
    size_t n = 0;
    char *text = NULL;
    size_t cap = 0;
    while (getline(&text, &cap, f) > 0) {
        json_error_t error;
        json_t *line = json_loads(text, 0, &error);
        if (!line)
            fail_msg("%s: line %zu: %s", path, n + 1, error.text);
        each(line, ctx);
        json_decref(line);
        n++;
    }
    /* getline owns its buffer through the C library, so the C library frees it. */
    (free)(text);
    (void)fclose(f);
    print_message("%s: %zu lines\n", path, n);
    return n;
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("no member %s", key);
    return value;
}

const char *vectors_string(const json_t *object, const char *key)
{
    const char *s = json_string_value(member(object, key));
    if (!s)
        fail_msg("%s is no text", key);
    return s;
}

int64_t vectors_int(const json_t *object, const char *key)
{
    const json_t *value = member(object, key);
    if (json_is_string(value))
        return (int64_t)strtoull(json_string_value(value), NULL, 0);
    if (!json_is_integer(value))
        fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

double vectors_real(const json_t *object, const char *key)
{
    const json_t *value = member(object, key);
    if (json_is_string(value))
        return strtod(json_string_value(value), NULL);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

size_t vectors_hex(const char *hex, uint8_t *out, size_t max)
{
    size_t n = strlen(hex) / 2;
    if (n > max)
        fail_msg("%zu bytes of hex do not fit into %zu", n, max);
    for (size_t i = 0; i < n; i++) {
        const char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}
