#include "pipeline/rings/ring_io.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/le.h"

#define RECORD_TIME_AT 8 /* in a record, 8 bytes */

void ring_io_init(struct ring_io *io, const struct ntff_reader *reader, size_t ring, const struct ring_io_times *times)
{
    *io = (struct ring_io){
        .reader = reader, .times = times, .ring = ring, .records = ntff_reader_ring(reader, ring)->records, .count = 1};
    for (unsigned i = 0; i < RING_IO_SLOTS; i++)
        io->slots[i].chunk = UINT64_MAX;
}

void ring_io_init_shared(struct ring_io *io, const struct ntff_reader *reader, size_t ring,
                         const struct ring_io_times *times)
{
    ring_io_init(io, reader, ring, times);
    io->count = RING_IO_SLOTS;
}

void ring_io_done(struct ring_io *io)
{
    for (unsigned i = 0; i < RING_IO_SLOTS; i++)
        kymo_free(io->slots[i].data);
    *io = (struct ring_io){0};
}

static void put_times(const struct ring_io_times *times, uint64_t first, size_t n, uint8_t *data)
{
    size_t low = 0, high = times->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (times->at[middle].index < first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < times->count && times->at[low].index - first < n; low++)
        kymo_put_le64(data + (times->at[low].index - first) * KYMO_RECORD_SIZE + RECORD_TIME_AT, times->at[low].raw);
}

int ring_io_chunk(struct ring_io *io, uint64_t chunk, const uint8_t **ret, size_t *ret_n, struct kymo_err *err)
{
    uint64_t first = chunk * RING_IO_CHUNK;
    if (first >= io->records) {
        *ret = NULL;
        *ret_n = 0;
        return 0;
    }
    size_t n = io->records - first < RING_IO_CHUNK ? (size_t)(io->records - first) : RING_IO_CHUNK;
    unsigned i = (unsigned)(chunk % io->count);
    if (io->slots[i].chunk != chunk) {
        if (!io->slots[i].data && !(io->slots[i].data = kymo_malloc((size_t)RING_IO_CHUNK * KYMO_RECORD_SIZE)))
            return kymo_err_set(err, -ENOMEM, "no memory for a chunk of records");
        io->slots[i].chunk = UINT64_MAX;
        int r = ntff_reader_records(io->reader, io->ring, first, n, io->slots[i].data, err);
        if (r < 0)
            return r;
        if (io->times)
            put_times(io->times, first, n, io->slots[i].data);
        io->slots[i].chunk = chunk;
    }
    *ret = io->slots[i].data;
    *ret_n = n;
    return 0;
}
