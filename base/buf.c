#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void kymo_buf_init(struct kymo_buf *b, size_t max)
{
    *b = (struct kymo_buf){.max = max};
}

void kymo_buf_done(struct kymo_buf *b)
{
    kymo_free(b->data);
    kymo_buf_init(b, b->max);
}

void kymo_buf_reset(struct kymo_buf *b)
{
    b->len = 0;
}

int kymo_buf_reserve(struct kymo_buf *b, size_t extra)
{
    size_t need;
    if (__builtin_add_overflow(b->len, extra, &need))
        return -ENOBUFS;
    void *p = b->data;
    int r = kymo_grow(&p, &b->cap, need, b->max, 1);
    if (r < 0)
        return r;
    b->data = p;
    return 0;
}

int kymo_buf_append(struct kymo_buf *b, const void *data, size_t n)
{
    if (n == 0)
        return 0;
    int r = kymo_buf_reserve(b, n);
    if (r < 0)
        return r;
    memcpy(b->data + b->len, data, n);
    b->len += n;
    return 0;
}

int kymo_buf_printf(struct kymo_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -EINVAL;
    /* vsnprintf writes the terminator too; it is not counted in len. */
    int r = kymo_buf_reserve(b, (size_t)n + 1);
    if (r < 0)
        return r;
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}
