#include "formats/neff/neff_path.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "formats/neff/neff.h"

const char *neff_path_strip(const char *name)
{
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    return name;
}

static bool has_parent_component(const char *name)
{
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return true;
        p += n + (p[n] == '/');
    }
    return false;
}

const char *neff_path_unsafe(const char *stripped)
{
    if (*stripped == '\0')
        return "it is empty";
    if (*stripped == '/')
        return "it is absolute";
    if (strnlen(stripped, NEFF_NAME_MAX + 1) > NEFF_NAME_MAX)
        return "it is too long";
    if (has_parent_component(stripped))
        return "it climbs out of its folder";
    for (const unsigned char *p = (const unsigned char *)stripped; *p; p++)
        if (*p < 0x20 || *p == 0x7F)
            return "it holds a control character";
    return NULL;
}

bool neff_path_beside(const char *base, const char *name, char *out, size_t n)
{
    const char *slash = strrchr(base, '/');
    int folder = slash ? (int)(slash - base) + 1 : 0;
    int len = snprintf(out, n, "%.*s%s", folder, base, neff_path_strip(name));
    return len >= 0 && (size_t)len < n;
}
