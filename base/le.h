/* Little-endian loads and stores on unaligned bytes. All formats here are little-endian. */
#ifndef KYMO_BASE_LE_H
#define KYMO_BASE_LE_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kymo is written for little-endian hosts (x86-64, aarch64)"
#endif

static inline uint16_t kymo_le16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t kymo_le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t kymo_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void kymo_put_le16(void *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void kymo_put_le32(void *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void kymo_put_le64(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

#endif
