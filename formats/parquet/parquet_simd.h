/*
 * Loops over 64-bit integers are twice as fast with AVX2, which the build cannot take for granted: such a function is
 * an inline body, compiled once as it is and once for AVX2, and chosen when called.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_SIMD_H
#define KYMO_FORMATS_PARQUET_PARQUET_SIMD_H

#include <stdbool.h>

#define PARQUET_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define PARQUET_AVX2 __attribute__((target("avx2")))
static inline bool parquet_has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define PARQUET_AVX2
static inline bool parquet_has_avx2(void)
{
    return false;
}
#endif

/* X(w) for the widths that most values have, which are worth code of their own. */
#define PARQUET_WIDTHS_17(X)                                                                                           \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)

#endif
