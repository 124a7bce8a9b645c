/*
 * An array of fixed-size records in an unlinked temporary file: appended and read in order, or reached by index through
 * a small page cache. Memory is a few pages whatever its length. Not thread-safe; several readers may walk one spill
 * once it is sealed.
 */
#ifndef KYMO_PIPELINE_SPILL_H
#define KYMO_PIPELINE_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct spill;

/* size: bytes of a record, at most 4096. The file lies in dir, without a name. */
int spill_open(const char *dir, size_t size, struct spill **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct spill *spill_free(struct spill *s);
uint64_t spill_count(const struct spill *s);
int spill_append(struct spill *s, const void *record, struct kymo_err *err) KYMO_MUST_CHECK;
/* As spill_append, but *ret is where the record is to be written, before the next call. */
int spill_extend(struct spill *s, void **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Replaces record index; records between the end and index become zeroes. */
int spill_put(struct spill *s, uint64_t index, const void *record, struct kymo_err *err) KYMO_MUST_CHECK;
int spill_get(struct spill *s, uint64_t index, void *record, struct kymo_err *err) KYMO_MUST_CHECK;
/* Flushes; after it, only spill_reader functions may be used until the next append. */
int spill_seal(struct spill *s, struct kymo_err *err) KYMO_MUST_CHECK;

/* A sequential walk with its own buffer of about 16 KiB. */
struct spill_reader {
    const struct spill *spill;
    uint64_t next, first; /* first: index of the record at the buffer's start */
    size_t held, room;    /* records in buf, and at most */
    uint8_t *buf;
};
int spill_reader_init(struct spill_reader *r, const struct spill *s, struct kymo_err *err) KYMO_MUST_CHECK;
void spill_reader_done(struct spill_reader *r);
/* 1 and *ret (valid until the next call), 0 at the end, negative on failure. */
int spill_reader_next(struct spill_reader *r, const void **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
