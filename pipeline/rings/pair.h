/*
 * Pairs start and end records of ONE engine in ONE ring into instructions, streaming, with a bounded window.
 *
 * Rules (conformance vectors, pairing.jsonl): an end belongs to the oldest open start with the same pc; an end without
 * such a start is an instruction without a start, a start without such an end one without an end. Ours: a loss mark
 * between a start and an end of the same pc makes them two partial events, because nobody can tell whether they are one
 * execution; and a start of a pc that is still open gives the older one up as PAIR_LOST_AFTER, because an engine is
 * done with an instruction before it comes to it again. Not thread-safe; plain data, no allocation.
 */
#ifndef KYMO_PIPELINE_PAIR_H
#define KYMO_PIPELINE_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#define PAIR_WINDOW 256 /* events held back while an older one is open; a power of two */

/* PartialEvent.reason; PAIR_BACKWARDS: both records are there, but the end's time is before the start's. */
enum pair_reason {
    PAIR_WHOLE,
    PAIR_LOST_BEFORE,
    PAIR_LOST_AFTER,
    PAIR_OPEN_AT_END,
    PAIR_OPEN_AT_START,
    PAIR_BACKWARDS
};

struct pair_event {
    uint64_t start_ps, end_ps;       /* raw timestamps */
    uint64_t start_index, end_index; /* positions in the ring */
    uint32_t pc;
    uint16_t wait_cycles, crc_in, crc_out;
    bool has_start, has_end;
    bool decided; /* nothing can be added any more */
    enum pair_reason reason;
};

struct pair {
    struct pair_event window[PAIR_WINDOW];
    uint64_t head, tail; /* counts; slot = count % PAIR_WINDOW */
    bool seen_start;     /* a start has been seen: an end without one is no longer the ring's beginning */
    bool seen_gap;
};

void pair_init(struct pair *p);
/* Pop until pair_pop is false after each push; a full window gives its oldest open event up as PAIR_LOST_AFTER. */
void pair_start(struct pair *p, uint32_t pc, uint64_t ps, uint64_t index, uint16_t wait_cycles);
void pair_end(struct pair *p, uint32_t pc, uint64_t ps, uint64_t index, uint16_t crc_in, uint16_t crc_out);
void pair_gap(struct pair *p);    /* records of this ring were lost here */
void pair_finish(struct pair *p); /* the ring is at its end */
/* Next event in order of first records; false when the oldest is still open, or none is there. */
bool pair_pop(struct pair *p, struct pair_event *ret);

const char *pair_reason_name(enum pair_reason r); /* lost_before, ... */

#endif
