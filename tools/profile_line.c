#include "tools/profile_line.h"

#include <stdio.h>
#include <string.h>

#include "base/plain.h"

#define LINE_MAX_BYTES 4096

const char *profile_line_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static long long number(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

void profile_line_print(const json_t *p)
{
    char line[LINE_MAX_BYTES], offset[32] = "";
    const char *name = profile_line_text(p, "name"), *state = profile_line_text(p, "state");
    const char *stage = profile_line_text(p, "stage"), *reason = profile_line_text(p, "reason");
    if (json_object_get(p, "file_offset"))
        (void)snprintf(offset, sizeof offset, " (offset %lld)", number(p, "file_offset"));
    if (!strcmp(state, "ready") && !strcmp(profile_line_text(p, "kind"), "ranks"))
        (void)snprintf(line, sizeof line, "%s ready %s (ranks of request %s)", name, profile_line_text(p, "path"),
                       profile_line_text(p, "request"));
    else if (!strcmp(state, "ready"))
        (void)snprintf(line, sizeof line, "%s ready %s", name, profile_line_text(p, "path"));
    else if (*stage)
        (void)snprintf(line, sizeof line, "%s %s: %s, %lld of %lld", name, state, stage, number(p, "done"),
                       number(p, "total"));
    else
        (void)snprintf(line, sizeof line, "%s %s%s%s%s", name, state, *reason ? ": " : "", reason, offset);
    kymo_plain_print(stdout, line);
    (void)putchar('\n');
}
