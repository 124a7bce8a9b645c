/*
 * When cells of on-chip memory are in use. No document says what the vendor's fill counts; ours (class G): a cell is in
 * use from the beginning of a write to the end of its last read before the next write that does not add to it, or to
 * the end of the write where nobody reads it. What is read without having been written in the profile was there from
 * the profile's zero. Accesses come in order of their beginning, reads before writes of one instruction. Not
 * thread-safe.
 */
#ifndef KYMO_PIPELINE_SERIES_BUFFER_USE_H
#define KYMO_PIPELINE_SERIES_BUFFER_USE_H

#include "pipeline/series/buffer_map.h"

#define BUFFER_USE_NOBODY UINT32_MAX

enum buffer_access { BUFFER_READ, BUFFER_WRITE, BUFFER_ADD }; /* ADD: reads what it writes */

/* A cell was in use from since to until, after a write by owner; in no order of time. */
typedef int (*buffer_use_sink)(void *ctx, uint32_t cell, int64_t since, int64_t until, uint32_t owner,
                               struct kymo_err *err);

struct buffer_cell {
    int64_t since, until;
    uint32_t owner;
    bool used; /* since and until hold */
};

struct buffer_use {
    const struct buffer_map *map;
    struct buffer_cell *cells;
    buffer_use_sink sink;
    void *ctx;
};

int buffer_use_init(struct buffer_use *u, const struct buffer_map *map, buffer_use_sink sink, void *ctx,
                    struct kymo_err *err) KYMO_MUST_CHECK;
void buffer_use_done(struct buffer_use *u);
int buffer_use_access(struct buffer_use *u, uint32_t range, enum buffer_access how, int64_t begin, int64_t end,
                      uint32_t owner, struct kymo_err *err) KYMO_MUST_CHECK;
int buffer_use_finish(struct buffer_use *u, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
