/*
 * How much of a window is covered by intervals, key by key. Intervals come in the order of their events' starts; each
 * begins at its event's start or later (behind a wait), and those that begin later are held until their turn comes, so
 * that memory is that of the keys and of what waits at one time. Pure, but for memory. Not thread-safe.
 */
#ifndef KYMO_COLLECTOR_QUERY_BUSY_H
#define KYMO_COLLECTOR_QUERY_BUSY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BUSY_KEYS_MAX (1u << 20)
#define BUSY_HELD_MAX (1u << 20) /* of one key */

struct busy;

struct busy *busy_new(int64_t from, int64_t to); /* NULL without memory */
struct busy *busy_free(struct busy *b);          /* NULL is fine; returns NULL */
void busy_freep(struct busy **b);

/* start: never before that of an earlier call. -E2BIG: too many keys, or too much is held. */
int busy_add(struct busy *b, const char *key, size_t n, int64_t start, int64_t begin, int64_t end,
             struct kymo_err *err) KYMO_MUST_CHECK;
/* Time that is known to be covered beside the intervals. */
int busy_add_sum(struct busy *b, const char *key, size_t n, int64_t ns, struct kymo_err *err) KYMO_MUST_CHECK;
/* Nanoseconds inside the window that intervals of this key cover; 0 for one that never came. Nothing may be added then.
 */
int64_t busy_of(struct busy *b, const char *key, size_t n);

#endif
