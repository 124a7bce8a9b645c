/*
 * Sums by subject and stretch of time ("bucket"): what events do inside of each, so that figures of a window are those
 * of its whole buckets, added up, and of the events at its two ends. An event counts in the bucket in which it begins;
 * its time is spread over all that it touches. Memory is bounded: when there are too many sums, buckets become twice as
 * wide. Not thread-safe; times are ns of the profile.
 */
#ifndef KYMO_PIPELINE_TIME_SUMS_H
#define KYMO_PIPELINE_TIME_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TIME_SUMS_BUCKETS 1024    /* at most, of the profile's length */
#define TIME_SUMS_ROWS (1u << 17) /* at most, or four for each subject that has any where that is more */
#define TIME_SUMS_BYTES 8
#define TIME_SUMS_FLOPS 2

enum time_sums_figure { TIME_SUMS_TIME, TIME_SUMS_WAIT, TIME_SUMS_BUSY, TIME_SUMS_FIGURES };

/* What an instruction does, as Instruction has it: bytes as its event begins, FLOPs spread over its time. */
struct time_sums_work {
    int64_t bytes[TIME_SUMS_BYTES];
    double flops[TIME_SUMS_FLOPS];
    bool has_bytes, has_flops; /* what has none counts as nothing */
};

struct time_sums_row {
    int64_t bucket; /* it starts at bucket times the width */
    uint32_t subject;
    uint64_t count, bytes; /* of events that begin in it */
    int64_t cost;
    int64_t first, last; /* least start and greatest end of these */
    int64_t figures[TIME_SUMS_FIGURES];
};

struct time_sums;

/* work: whether events have any. */
int time_sums_open(int64_t duration, bool work, struct time_sums **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct time_sums *time_sums_free(struct time_sums *s); /* NULL is fine; returns NULL */

struct time_sums_event {
    int64_t start, begin, end, cost; /* it waits from start to begin */
    uint64_t bytes;
    const struct time_sums_work *work; /* NULL: none */
};
/* Each of the subjects has it. They are numbered from 0; those that have no rows here take 32 bytes. FLOPs go where the
 * event is busy, from begin to end; one that never is has them where it starts. Cheap where events come near the order
 * of their start. */
int time_sums_event(struct time_sums *s, const uint32_t *subjects, size_t n, const struct time_sums_event *e,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* Of each of the subjects, the part of it that earlier spans do not cover goes to TIME_SUMS_BUSY. Spans come in order
 * of begin. */
int time_sums_cover(struct time_sums *s, const uint32_t *subjects, size_t n, int64_t begin, int64_t end,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* Subjects that have the same events, which are busy all of their time: all have them, but only the first of them tell
 * of more than that. */
#define TIME_SUMS_GROUP 3
#define TIME_SUMS_COUNTED 2
/* Groups are numbered from 0. What one had before stays with the subjects that it had then. */
int time_sums_group(struct time_sums *s, uint32_t group, const uint32_t subjects[TIME_SUMS_GROUP],
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* As time_sums_event and time_sums_cover, and cheaper where many events come in one bucket. */
int time_sums_group_event(struct time_sums *s, uint32_t group, int64_t start, int64_t end, uint64_t bytes,
                          struct kymo_err *err) KYMO_MUST_CHECK;
/* rank: of each subject. Rows come by rank, then by bucket, then by subject; work NULL without work. */
typedef int (*time_sums_sink)(void *ctx, const struct time_sums_row *row, const struct time_sums_work *work,
                              struct kymo_err *err);
int time_sums_rows(struct time_sums *s, const uint8_t *rank, time_sums_sink sink, void *ctx,
                   struct kymo_err *err) KYMO_MUST_CHECK;
int64_t time_sums_width(const struct time_sums *s); /* of a bucket, ns: a power of two */

#endif
