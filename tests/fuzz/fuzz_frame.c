/*
 * The frame parser: the first byte steers the sizes of the pieces. Headers are repaired every second time, since their
 * checksum would stop nearly every mutation at the door. Whole frames are inflated when they say so.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/le.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

static const struct frame_limits limits = {5000, 20000};

static void look(const struct frame *f)
{
    must(f->message_len <= limits.message && f->raw_len <= limits.raw && f->plain_len <= limits.raw);
    volatile uint32_t sum = kymo_crc32c(0, f->message, f->message_len) ^ kymo_crc32c(0, f->raw, f->raw_len);
    (void)sum;
    if (!(f->flags & FRAME_ZSTD))
        return;
    struct kymo_buf out;
    kymo_buf_init(&out, limits.raw);
    if (frame_inflate(f, &out, NULL) == 0)
        must(out.len == f->plain_len);
    kymo_buf_done(&out);
}

static void run(const uint8_t *data, size_t size, size_t piece, bool stream)
{
    struct frame_parser *p;
    must(frame_parser_new(&limits, &p, NULL) == 0);
    if (stream)
        frame_parser_stream(p);
    int r = 0;
    for (size_t at = 0; at < size && r >= 0; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        const uint8_t *next = data + at;
        struct frame f;
        while ((r = frame_parser_next(p, &next, &n, &f, NULL)) > 0)
            look(&f);
        must(r < 0 || n == 0);
    }
    frame_parser_free(p);
}

static void repair(uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= FRAME_HEADER_SIZE;) {
        data[at + 15] = FRAME_VERSION;
        kymo_put_le32(data + at + 16, kymo_crc32c(0, data + at, 16));
        size_t length = kymo_le32(data + at);
        if (length > size - at - FRAME_HEADER_SIZE)
            return;
        at += FRAME_HEADER_SIZE + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t piece = (size_t)data[0] * data[0] + 1;
    uint8_t *copy KYMO_FREE = kymo_malloc(size - 1);
    must(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    run(copy, size - 1, piece, false);
    repair(copy, size - 1);
    run(copy, size - 1, piece, false);
    run(copy, size - 1, piece, true);
    return 0;
}
