/* Runs a piece of a test within a limit on address space, so that a size taken on trust shows. A sanitizer needs
 * terabytes of it. */
#ifndef KYMO_TESTS_UNIT_SMALL_MEMORY_H
#define KYMO_TESTS_UNIT_SMALL_MEMORY_H

#include <stddef.h>
#include <sys/resource.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define KYMO_TEST_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KYMO_TEST_SANITIZED 1
#endif

/* Returns the limit to give back to small_memory_end. */
static inline rlim_t small_memory_begin(size_t bytes)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) < 0)
        return RLIM_INFINITY;
    rlim_t old = r.rlim_cur;
#ifndef KYMO_TEST_SANITIZED
    r.rlim_cur = bytes;
    (void)setrlimit(RLIMIT_AS, &r);
#else
    (void)bytes;
#endif
    return old;
}

static inline void small_memory_end(rlim_t old)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) < 0)
        return;
    r.rlim_cur = old;
    (void)setrlimit(RLIMIT_AS, &r);
}

#endif
