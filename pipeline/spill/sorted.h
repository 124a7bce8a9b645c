/*
 * Sorts any number of fixed-size records in bounded memory: runs are sorted where they fit, spilled, and merged. Not
 * thread-safe.
 */
#ifndef KYMO_PIPELINE_SORTED_H
#define KYMO_PIPELINE_SORTED_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sorted;

/* A record begins with its key, a uint64_t; equal keys are in order of the bytes that follow. size: at most 4096. dir:
 * the caller's, where runs are spilled. */
int sorted_open(const char *dir, size_t size, struct sorted **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct sorted *sorted_free(struct sorted *s);
int sorted_add(struct sorted *s, const void *record, struct kymo_err *err) KYMO_MUST_CHECK;
/* No record is added any more. */
int sorted_seal(struct sorted *s, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1 and *ret (valid until the next call), 0 at the end, negative on failure. */
int sorted_next(struct sorted *s, const void **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
