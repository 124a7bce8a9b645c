#include "pipeline/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *name;
    uint64_t def, least, greatest;
    size_t offset;
} rows[] = {
#define ROW(name, def, least, greatest, text) {#name, def, least, greatest, offsetof(struct settings, name)},
    SETTINGS(ROW)
#undef ROW
};

static void put(struct settings *s, const struct row *row, uint64_t v)
{
    memcpy((char *)s + row->offset, &v, sizeof v);
}

void settings_defaults(struct settings *s)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put(s, &rows[i], rows[i].def);
}

/* The vendor's names have - where these have _. */
static bool names(const char *text, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && name[i] && (text[i] == name[i] || (text[i] == '-' && name[i] == '_')))
        i++;
    return i == n && !name[i];
}

static uint64_t number_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (!strcmp(text, "true") || !strcmp(text, "false"))
        return text[0] == 't';
    return digits && digits < 19 && !text[digits] ? strtoull(text, NULL, 10) : UINT64_MAX;
}

int settings_set(struct settings *s, const char *text, struct kymo_err *err)
{
    size_t n = strcspn(text, "=");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (!names(text, n, row->name) || !text[n])
            continue;
        uint64_t v = number_of(text + n + 1);
        if (v < row->least || v > row->greatest)
            return kymo_err_set(err, -EINVAL, "setting %s: not a number from %" PRIu64 " to %" PRIu64, text, row->least,
                                row->greatest);
        put(s, row, v);
        return 0;
    }
    return kymo_err_set(err, -EINVAL, "setting %.80s: no NAME=NUMBER of the list that --help shows", text);
}

int settings_check(const char *text, struct kymo_err *err)
{
    struct settings s;
    return settings_set(&s, text, err);
}
