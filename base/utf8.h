/* UTF-8, strictly: no overlong forms, no surrogates, nothing beyond U+10FFFF. Pure. */
#ifndef KYMO_BASE_UTF8_H
#define KYMO_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the valid sequence that the n > 0 bytes at p begin with; 0: there is none. */
static inline size_t kymo_utf8_sequence(const void *p, size_t n)
{
    const uint8_t *b = (const uint8_t *)p;
    if (b[0] < 0x80)
        return 1;
    size_t len = b[0] >= 0xc2 && b[0] < 0xe0   ? 2
                 : b[0] >= 0xe0 && b[0] < 0xf0 ? 3
                 : b[0] >= 0xf0 && b[0] < 0xf5 ? 4
                                               : 0;
    if (len == 0 || len > n)
        return 0;
    /* The second byte's range rules out overlong forms, surrogates and what lies beyond the last code point. */
    uint8_t low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    if (b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Each byte that belongs to no sequence becomes '?', in place. NULs stay. */
void kymo_utf8_mend(char *text, size_t n);

/*
 * For people's eyes: copies as much of the n bytes at text, up to a NUL, as fits into size - 1 bytes and ends it with a
 * NUL. Sequences stay whole; control characters and what is no UTF-8 become '?'. size is at least 1.
 */
void kymo_utf8_copy_plain(char *out, size_t size, const char *text, size_t n);

#endif
