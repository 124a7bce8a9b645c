#include "base/plain.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

static size_t escape(uint8_t byte, char *out)
{
    static const char digits[] = "0123456789abcdef";
    out[0] = '\\';
    out[1] = 'x';
    out[2] = digits[byte >> 4];
    out[3] = digits[byte & 15];
    return 4;
}

size_t kymo_plain_next(const char **text, char out[static KYMO_PLAIN_MAX])
{
    const uint8_t *p = (const uint8_t *)*text;
    if (!*p)
        return 0;
    /* A sequence ends before the text does: the zero behind it is no continuation byte. */
    size_t n = kymo_utf8_sequence(p, strnlen(*text, 4));
    *text += n ? n : 1;
    if (n == 0 || (n == 1 && (*p < 0x20 || *p == 0x7f)))
        return escape(*p, out);
    if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0) {
        (void)escape(p[0], out);
        return 4 + escape(p[1], out + 4);
    }
    memcpy(out, p, n);
    return n;
}

size_t kymo_plain_copy(char *out, size_t size, const char *text)
{
    char one[KYMO_PLAIN_MAX];
    size_t used = 0;
    for (size_t n; (n = kymo_plain_next(&text, one)) > 0 && used + n < size; used += n)
        memcpy(out + used, one, n);
    if (size)
        out[used] = '\0';
    return used;
}

void kymo_plain_print(FILE *out, const char *text)
{
    char one[KYMO_PLAIN_MAX];
    for (size_t n; (n = kymo_plain_next(&text, one)) > 0;)
        (void)fwrite(one, 1, n, out);
}
