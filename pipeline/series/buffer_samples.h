/*
 * Bytes in use at instants that are a fixed time apart, from spans given in any order: an array of differences by
 * instant, whatever their number. An instant has what is in use from it on: since <= instant < until. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_BUFFER_SAMPLES_H
#define KYMO_PIPELINE_BUFFER_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buffer_samples {
    int32_t *changes; /* [instant][column] */
    size_t columns, count;
    int64_t width; /* between two instants, from 0 on */
};

int buffer_samples_init(struct buffer_samples *s, size_t columns, int64_t width, int64_t span,
                        struct kymo_err *err) KYMO_MUST_CHECK;
void buffer_samples_done(struct buffer_samples *s);
/* Number of the first instant at or after a time. */
size_t buffer_samples_at(const struct buffer_samples *s, int64_t time);
void buffer_samples_add(struct buffer_samples *s, size_t column, int64_t since, int64_t until, uint32_t bytes);

#endif
