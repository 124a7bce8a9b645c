/*
 * Consumer of one notification ring: a mapped power-of-two area of 16-byte records and a control block with the
 * producer's tail and the consumer's head (facts: driver.md 2). Positions count records since the ring was made, so
 * that a wrapped ring cannot be mistaken for an empty one. The producer is not trusted: the consumer keeps its own
 * head, bounds the tail by the ring's size, and takes a record only when its phase bit belongs to the pass that the
 * position says.
 *
 * One nq has one consuming thread; the producer may be another thread or process. The mapping belongs to the caller and
 * must outlive the nq.
 */
#ifndef KYMO_DRIVER_IFACE_NQ_NQ_H
#define KYMO_DRIVER_IFACE_NQ_NQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/ring.h"
#include "base/err.h"

#define NQ_RING_MIN 64ull
#define NQ_RING_MAX (1ull << 36)

/* In a record's byte 3 (driver.md 2). */
#define NQ_PHASE 0x80u   /* of the first pass: 1, so that zeroed memory holds no record */
#define NQ_HW_MARK 0x40u /* later records were lost */
#define NQ_SW_MARK 0x20u /* earlier records were lost: the ring was full */

/* Control block (G: on hardware these are registers). Shared memory; each side writes its own cache lines only. */
struct nq_control {
    _Alignas(64) _Atomic uint64_t tail; /* producer: records written */
    _Atomic uint64_t emitted;           /* producer: records made, kept or not */
    _Atomic uint64_t dropped;           /* producer: records that found the ring full */
    _Alignas(64) _Atomic uint64_t head; /* consumer: records taken */
};
_Static_assert(sizeof(struct nq_control) == 128, "shared between processes");

/* The phase bit that the record at this position carries. */
static inline bool nq_phase_of(uint64_t position, uint64_t ring_records)
{
    return (position / ring_records) % 2 == 0;
}

struct nq_stats {
    uint64_t taken;       /* records handed to sinks */
    uint64_t discarded;   /* records skipped on request */
    uint64_t sw_marks;    /* taken records that say earlier ones were lost */
    uint64_t hw_marks;    /* taken records that say later ones were lost */
    uint64_t overrun;     /* records overwritten before they were taken: tail ran further than the ring is long */
    uint64_t torn;        /* taken records that the producer may have overwritten while a sink had them */
    uint64_t phase_stops; /* times a record of the wrong phase ended a span */
    uint64_t backward;    /* times the tail went back; the ring is then at an end */
};

struct nq;

/* ring_bytes must be a power of two of at least NQ_RING_MIN. Starts at the control block's head when that is sane, else
 * -EPROTO. */
int nq_new(struct nq_control *control, const void *ring, uint64_t ring_bytes, struct nq **ret,
           struct kymo_err *err) KYMO_MUST_CHECK;
struct nq *nq_free(struct nq *q);
void nq_freep(struct nq **q);

/* Whole records in place, oldest first: at most two pieces, the second one after the wrap. */
struct nq_span {
    const uint8_t *data;
    uint64_t records;
};

/*
 * What is readable now, without taking it; returns the number of records in both spans. Bytes are shared memory: a
 * reader that cares copies once. The marks are counted when records are released.
 */
uint64_t nq_peek(struct nq *q, struct nq_span spans[2]);
/* Gives the first n peeked records back to the producer; n beyond what was peeked is cut. */
void nq_release(struct nq *q, uint64_t n);

/* A sink copies n records (16 n bytes). A negative errno stops the drain; those records stay in the ring. */
typedef int (*nq_sink)(void *ctx, const uint8_t *records, uint64_t n);

/* Drains up to max records in spans; *ret_n (may be NULL) is set in any case. The sink's error is passed on. */
int nq_drain(struct nq *q, uint64_t max, nq_sink sink, void *ctx, uint64_t *ret_n,
             struct kymo_err *err) KYMO_MUST_CHECK;
/* Skips everything that is there. */
uint64_t nq_discard(struct nq *q);

const struct nq_stats *nq_get_stats(const struct nq *q);

#endif
