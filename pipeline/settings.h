/*
 * What the user may set about derived tables, first of all the conditions of TimelineWarning: one list of names,
 * defaults, bounds and texts. No document of the vendor gives these windows and most of these thresholds; where one
 * does (4 KiB, 10 %, 25 %, 50 %) it is the default.
 */
#ifndef KYMO_PIPELINE_SETTINGS_H
#define KYMO_PIPELINE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* X(name, default, least, greatest, text) */
#define SETTINGS(X)                                                                                                    \
    X(small_dma_bytes, 4096, 1, 16777216, "a hardware-dynamic DMA is small below so many bytes per descriptor")        \
    X(small_dma_count, 32, 1, 65536, "small ones that make a band, when they start within the window")                 \
    X(small_dma_window_us, 100, 1, 1000000000, "that window")                                                          \
    X(small_dma_percent, 50, 0, 100, "least share of the hardware-dynamic DMAs there that is small")                   \
    X(throttling_percent, 0, 0, 100, "loss of speed, averaged over the band, above which throttling is a band")        \
    X(transpose_percent, 10, 0, 100, "share of a window's matmul FLOPs above which transposes are a band")             \
    X(spill_reload_percent, 25, 0, 100, "share of a window's HBM reads above which reloads of spills are a band")      \
    X(nki_coverage_percent, 50, 0, 100, "share of instructions from NKI below which a window is a band")               \
    X(collective_outlier_percent, 50, 0, 1000000, "excess over its group's median that makes a collective a band")     \
    X(window_us, 1000, 1, 1000000000, "window of shares; bands that are no further apart are one")                     \
    X(bands_max, 1000, 2, 65536, "bands of one kind and core; the nearest of more become one")                         \
    X(dma_usage_bucket_ns, 0, 0, 1000000000000, "width of DmaUsageSummary's buckets; 0: at most 4,096 in all, 1 us")   \
    X(flops_window_ns, 0, 0, 1000000000000, "window of FlopsUsage; 0: at most 65,536 in all, 1 us at least")           \
    X(ignore_nc_buf_usage, 0, 0, 1, "1: no SbufUsage and no PsumUsage")                                                \
    X(enable_memory_viewer, 0, 0, 1, "1: SbufAllocation is made")                                                      \
    X(buffer_samples, 65536, 16, 1048576, "most samples of SbufUsage and PsumUsage over the profile")

#define SETTINGS_FIELD(name, def, least, greatest, text) uint64_t name;
struct settings {
    SETTINGS(SETTINGS_FIELD)
};
#undef SETTINGS_FIELD

/* The list as lines of a program's help. */
#define SETTINGS_LINE(name, def, least, greatest, text) "\n  " #name "=" #def "  " text
#define SETTINGS_HELP "Settings of --set and their defaults:" SETTINGS(SETTINGS_LINE)

void settings_defaults(struct settings *s);
/* text: NAME=NUMBER, or true and false for 1 and 0; - is as good as _ in a name. -EINVAL says what is wrong with it. */
int settings_set(struct settings *s, const char *text, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same without a place to put it: struct kymo_option's check. */
int settings_check(const char *text, struct kymo_err *err);

#endif
