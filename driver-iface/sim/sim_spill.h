/*
 * Rings of kymo-sim ntff: records pile up in memory and, beyond a buffer's size, in an unlinked file beside the output.
 * A ring with a limit takes no more records when it is full: nobody drains it. Not thread-safe.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_SPILL_H
#define KYMO_DRIVER_IFACE_SIM_SIM_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "driver-iface/sim/sim_core.h"

struct sim_spill;

/* limits[i]: records that ring i holds. The files' names begin with prefix and are gone at once. */
int sim_spill_new(const char *prefix, const uint64_t *limits, size_t n, struct sim_spill **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;
struct sim_spill *sim_spill_free(struct sim_spill *s);
void sim_spill_freep(struct sim_spill **s);

struct sim_ring_sink sim_spill_sink(struct sim_spill *s);
/* 0, or why records could not be kept: the sink itself cannot fail. */
int sim_spill_check(const struct sim_spill *s, struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t sim_spill_size(const struct sim_spill *s, size_t ring); /* bytes */
/* The read function of a struct ntff_source whose ctx is sim_spill_ring(s, ring). */
void *sim_spill_ring(struct sim_spill *s, size_t ring);
int sim_spill_read(void *ring, uint64_t off, void *buf, size_t n);

#endif
