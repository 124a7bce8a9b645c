#include "tests/fuzz/fuzz_session.h"

#include "base/le.h"
#include "proto/frame.h"

#define HEAD 6
#define PLAIN_MAX 5000u

void fuzz_session_frames(const uint8_t *data, size_t size, struct kymo_buf *out)
{
    while (size >= HEAD) {
        uint16_t message = kymo_le16(data + 1), raw = kymo_le16(data + 3);
        struct frame f = {.type = (uint16_t)(data[0] & 0x7f), .flags = data[5] & FRAME_ZSTD};
        if (data[0] & 0x80)
            f.type |= FRAME_MAY_SKIP;
        /* The rest of the flags' byte stands for the uncompressed size, in steps. */
        uint32_t plain = (uint32_t)(data[5] >> 1) * (PLAIN_MAX / 127);
        data += HEAD;
        size -= HEAD;
        f.message = data;
        f.message_len = message < size ? message : (uint32_t)size;
        data += f.message_len;
        size -= f.message_len;
        f.raw = data;
        f.raw_len = raw < size ? raw : (uint32_t)size;
        f.plain_len = f.flags & FRAME_ZSTD ? plain : f.raw_len;
        data += f.raw_len;
        size -= f.raw_len;
        if (frame_append(out, &f, NULL) < 0)
            return;
    }
}
