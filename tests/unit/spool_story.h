/*
 * A story for the spool's crash tests: a fixed course of captures, reads, acknowledgements, evictions and drops, with
 * an account of what the spool promised, and a check of a spool against that account.
 */
#ifndef KYMO_TESTS_SPOOL_STORY_H
#define KYMO_TESTS_SPOOL_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/spool/spool.h"

#define STORY_CAPTURES 14
#define STORY_FILES 3 /* two and the manifest */

struct story_capture {
    bool published; /* the spool said so */
    bool tried;     /* to publish */
    bool dropped, done, done_tried;
    uint64_t seq;
    uint64_t acked[STORY_FILES], acked_tried[STORY_FILES];
};

struct story {
    struct story_capture captures[STORY_CAPTURES];
    bool has_neff;
    uint8_t neff[KYMO_SHA256_SIZE];
    uint64_t reported, reported_tried; /* lost captures handed on */
};

extern const struct spool_limits story_limits;

/* Runs it on spool `dir` with files made in `intake`. Goes on after failures, as a daemon would. */
void story_run(struct story *st, const char *dir, const char *intake);
/* Opens the spool and holds it against the story; delivers what is left, opens again. NULL: all holds. */
const char *story_check(const struct story *st, const char *dir);
/* Content of a capture's file; returns its size (at most 8192). */
size_t story_content(size_t capture, size_t file, uint8_t *out);

#endif
