/*
 * Dictionary numbers of reals that are given as such, while a column has few different ones: a rate or a share that is
 * one of a hundred values takes a byte a row this way. Internal to the writer. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PARQUET_PARQUET_REALS_H
#define KYMO_FORMATS_PARQUET_PARQUET_REALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/parquet/parquet_dict.h"

#define PARQUET_REALS_MAX 256 /* different ones; with more the values stand for themselves */

struct parquet_reals;

/* ids: the number in d of each of n floats (single) or doubles, UINT32_MAX where valid is 0. 1: there are more than
 * PARQUET_REALS_MAX, and ids is void. *r is made when it is NULL. */
int parquet_reals_number(struct parquet_reals **r, struct parquet_dict *d, const void *v, const uint8_t *valid,
                         size_t n, bool single, uint32_t *ids) KYMO_MUST_CHECK;
struct parquet_reals *parquet_reals_free(struct parquet_reals *r);

#endif
