#include "base/alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_countdown = -1;

void kymo_alloc_fail_after(long countdown)
{
    atomic_store(&fail_countdown, countdown);
}

static int failure_is_due(void)
{
    /* The common case must not write a shared cache line on every allocation. */
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0)
        return 0;
    return atomic_fetch_sub(&fail_countdown, 1) == 0;
}

void *kymo_malloc(size_t size)
{
    return failure_is_due() ? NULL : malloc(size ? size : 1);
}

void *kymo_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || failure_is_due())
        return NULL;
    return calloc(1, bytes ? bytes : 1);
}

void *kymo_realloc_array(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || failure_is_due())
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

char *kymo_strdup(const char *s)
{
    return kymo_strndup(s, strlen(s));
}

char *kymo_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = kymo_malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *kymo_asprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    char *s = kymo_malloc((size_t)n + 1);
    if (!s)
        return NULL;
    va_start(ap, fmt);
    (void)vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

void kymo_free(void *p)
{
    free(p);
}

void kymo_freep(void *pp)
{
    void *p;
    memcpy(&p, pp, sizeof p);
    kymo_free(p);
}

int kymo_grow(void **p, size_t *cap, size_t need, size_t max, size_t size)
{
    if (need <= *cap)
        return 0;
    if (need > max)
        return -ENOBUFS;
    size_t want = *cap ? *cap : 16;
    while (want < need)
        want = want > max / 2 ? max : want * 2;
    if (want > max)
        want = max;
    void *grown = kymo_realloc_array(*p, want, size);
    if (!grown)
        return -ENOMEM;
    *p = grown;
    *cap = want;
    return 0;
}
