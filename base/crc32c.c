#include "base/crc32c.h"

#include <isa-l/crc.h>

#define STEP_MAX (1u << 30) /* the library counts in int */

uint32_t kymo_crc32c(uint32_t crc, const void *data, size_t n)
{
    /* The library's buffer is not const, though it only reads; it leaves both inversions to its caller. */
    union {
        const void *in;
        unsigned char *out;
    } p = {.in = data};
    crc = ~crc;
    while (n > 0) {
        size_t step = n < STEP_MAX ? n : STEP_MAX;
        crc = crc32_iscsi(p.out, (int)step, crc);
        p.out += step;
        n -= step;
    }
    return ~crc;
}
