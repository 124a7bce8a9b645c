/*
 * Sorts records of one size by a 64-bit key, whatever their number: runs of them are sorted in memory and kept in an
 * unlinked file, then merged. Records of one key keep the order in which they came. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_SORT_SPILL_H
#define KYMO_PIPELINE_SORT_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sort_spill;

/* size: bytes of a record, at most 1024. run: records sorted at once, which is what stands in memory; 0: 65,536. */
int sort_spill_open(const char *dir, size_t size, size_t run, struct sort_spill **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
struct sort_spill *sort_spill_free(struct sort_spill *s);
int sort_spill_add(struct sort_spill *s, int64_t key, const void *record, struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t sort_spill_count(const struct sort_spill *s);
/* No more is added from here on. */
int sort_spill_merge(struct sort_spill *s, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: *ret is the next record, valid until the next call. 0: the end. */
int sort_spill_next(struct sort_spill *s, const void **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
