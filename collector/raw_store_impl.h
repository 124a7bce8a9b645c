/* What the files of the raw store share. */
#ifndef KYMO_COLLECTOR_RAW_STORE_IMPL_H
#define KYMO_COLLECTOR_RAW_STORE_IMPL_H

#include "collector/raw_store.h"

#define RAW_CAPTURES_MAX (1u << 24)

struct raw_store {
    char *captures, *incoming, *neffs;
    uint64_t reserve;
};

int raw_no_memory(struct kymo_err *err);
bool raw_exists(const char *path);
bool raw_is_neff(const Kymo__Manifest__File *f);
/* -ENOSPC when need bytes would touch the reserve. */
int raw_check_room(const struct raw_store *s, uint64_t need, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
