/* Bytes of any length in an unlinked file, put one after the other and read back by place. Not thread-safe. */
#ifndef KYMO_PIPELINE_TEXT_STORE_H
#define KYMO_PIPELINE_TEXT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct text_store;

int text_store_open(const char *dir, struct text_store **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct text_store *text_store_free(struct text_store *t);
int text_store_put(struct text_store *t, const void *data, size_t n, uint64_t *ret_place,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* *ret is valid until the next call of get or put. */
int text_store_get(struct text_store *t, uint64_t place, size_t n, const char **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;

#endif
