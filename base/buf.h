/* Growable byte buffer with a maximum given at birth. Not thread-safe. */
#ifndef KYMO_BASE_BUF_H
#define KYMO_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct kymo_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max;
};

void kymo_buf_init(struct kymo_buf *b, size_t max); /* allocates nothing */
void kymo_buf_done(struct kymo_buf *b);             /* frees contents; b may be used again */
void kymo_buf_reset(struct kymo_buf *b);            /* keeps memory */
/* Room for extra more bytes. -ENOBUFS beyond max, -ENOMEM; contents untouched on failure. */
int kymo_buf_reserve(struct kymo_buf *b, size_t extra) KYMO_MUST_CHECK;
int kymo_buf_append(struct kymo_buf *b, const void *data, size_t n) KYMO_MUST_CHECK;
int kymo_buf_printf(struct kymo_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3))) KYMO_MUST_CHECK;

#endif
