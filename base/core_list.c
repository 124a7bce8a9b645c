#include "base/core_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Digits alone: no sign, no blank. */
static bool take_number(const char **at, uint32_t limit, uint32_t *ret)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    unsigned long v = strtoul(*at, &end, 10);
    *at = end;
    *ret = (uint32_t)v;
    return v < limit;
}

int kymo_core_list(const char *text, uint32_t limit, uint32_t *cores, size_t max, size_t *ret_n)
{
    size_t n = 0;
    for (const char *at = text;; at++) {
        uint32_t first, last;
        if (!take_number(&at, limit, &first))
            return -EINVAL;
        last = first;
        if (*at == '-' && (at++, !take_number(&at, limit, &last)))
            return -EINVAL;
        if (first > last || (*at && *at != ','))
            return -EINVAL;
        if (last - first >= max - n)
            return -ENOBUFS;
        while (first <= last)
            cores[n++] = first++;
        if (!*at)
            break;
    }
    *ret_n = n;
    return 0;
}
