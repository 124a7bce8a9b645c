/*
 * Reads one ring in chunks. Chunks are small enough that those of all rings that are merged stay in the processor's
 * cache. A shared one keeps the last few, so that several cursors over the same ring near the same place share what was
 * read. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_RING_IO_H
#define KYMO_PIPELINE_RING_IO_H

#include <stddef.h>
#include <stdint.h>

#include "formats/ntff/ntff_reader.h"
#include "formats/ntff/record.h"

#define RING_IO_CHUNK 2048 /* records: 32 KiB */
#define RING_IO_SLOTS 32

/* A record that is read with another time than it has in the file (scan_times.h). */
struct ring_io_time {
    uint64_t index, raw;
};

struct ring_io_times {
    struct ring_io_time *at; /* by index */
    size_t count, cap;
};

struct ring_io {
    const struct ntff_reader *reader;
    const struct ring_io_times *times;
    size_t ring;
    uint64_t records;
    unsigned count; /* of slots in use */
    struct {
        uint8_t *data;
        uint64_t chunk; /* UINT64_MAX: empty */
    } slots[RING_IO_SLOTS];
};

/* times: outlive io; NULL: all as they are. */
void ring_io_init(struct ring_io *io, const struct ntff_reader *reader, size_t ring, const struct ring_io_times *times);
void ring_io_init_shared(struct ring_io *io, const struct ntff_reader *reader, size_t ring,
                         const struct ring_io_times *times);
void ring_io_done(struct ring_io *io);
/* Records [chunk * RING_IO_CHUNK, ...): *ret_n of them, 0 beyond the end. *ret is valid until the next call on io. */
int ring_io_chunk(struct ring_io *io, uint64_t chunk, const uint8_t **ret, size_t *ret_n,
                  struct kymo_err *err) KYMO_MUST_CHECK;

static inline uint8_t ring_io_type(const uint8_t *rec)
{
    return rec[3] & 0x1f;
}

static inline bool ring_io_lost_before(const uint8_t *rec)
{
    return rec[3] & 0x20;
}

static inline bool ring_io_lost_after(const uint8_t *rec)
{
    return rec[3] & 0x40;
}

#endif
