/*
 * Allocation: the one seam to malloc. All sizes are overflow-checked. Tests make the n-th allocation fail.
 * Thread-safe; the failure countdown is process-wide.
 */
#ifndef KYMO_BASE_ALLOC_H
#define KYMO_BASE_ALLOC_H

#include <stddef.h>

/* NULL on overflow of n * size, on exhaustion, or when the injected failure is due. Memory from calloc is zeroed. */
void *kymo_malloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));
void *kymo_calloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2), warn_unused_result));
/* As realloc for n elements; on failure p stays valid. */
void *kymo_realloc_array(void *p, size_t n, size_t size) __attribute__((alloc_size(2, 3), warn_unused_result));
char *kymo_strdup(const char *s) __attribute__((malloc, warn_unused_result));
/* Copies at most n bytes and terminates. */
char *kymo_strndup(const char *s, size_t n) __attribute__((malloc, warn_unused_result));
/* printf into fresh memory; NULL on failure. */
char *kymo_asprintf(const char *fmt, ...) __attribute__((malloc, format(printf, 1, 2), warn_unused_result));
void kymo_free(void *p); /* NULL is fine */

/*
 * Grows *p (elements of size bytes, *cap of them) so that need fit, doubling, never beyond max elements.
 * 0, -ENOBUFS beyond max, -ENOMEM. *p and *cap are untouched on failure.
 */
int kymo_grow(void **p, size_t *cap, size_t need, size_t max, size_t size) __attribute__((warn_unused_result));

/* Fault injection: the allocation after `countdown` further successes fails, once. Negative: never. */
void kymo_alloc_fail_after(long countdown);

#define KYMO_NEW(T) ((T *)kymo_calloc(1, sizeof(T)))
#define KYMO_NEW_ARRAY(T, n) ((T *)kymo_calloc((n), sizeof(T)))

/* Scope-bound release: char *s KYMO_FREE = kymo_strdup(x); return KYMO_TAKE(s); hands it over. */
void kymo_freep(void *pp);
#define KYMO_FREE __attribute__((cleanup(kymo_freep)))
#define KYMO_CLEANUP(fn) __attribute__((cleanup(fn)))
#define KYMO_TAKE(p)                                                                                                   \
    __extension__({                                                                                                    \
        __typeof__(p) kymo_taken_ = (p);                                                                               \
        (p) = NULL;                                                                                                    \
        kymo_taken_;                                                                                                   \
    })

#endif
