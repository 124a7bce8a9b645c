#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

void kymo_utf8_mend(char *text, size_t n)
{
    for (size_t at = 0, len; at < n; at += len ? len : 1) {
        len = kymo_utf8_sequence(text + at, n - at);
        if (len == 0)
            text[at] = '?';
    }
}

void kymo_utf8_copy_plain(char *out, size_t size, const char *text, size_t n)
{
    size_t used = 0;
    for (size_t at = 0, step; at < n && text[at]; at += step) {
        size_t len = kymo_utf8_sequence(text + at, n - at);
        bool plain = len > 1 || (len == 1 && (unsigned char)text[at] >= 0x20 && text[at] != 0x7f);
        step = len ? len : 1;
        if (used + (plain ? len : 1) >= size)
            break;
        if (plain)
            memcpy(out + used, text + at, len);
        else
            out[used] = '?';
        used += plain ? len : 1;
    }
    out[used] = '\0';
}
