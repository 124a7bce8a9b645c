#include "collector/query/serve_frame.h"

#include <errno.h>

#include "base/le.h"

static const struct row {
    size_t most, least;
} rows[] = {
#define X(name, number, most, least) [number] = {most, least},
    SERVE_FRAMES(X)
#undef X
};

long serve_frame_parse(const void *data, size_t n, struct serve_frame *ret, struct kymo_err *err)
{
    const uint8_t *at = data;
    if (n < SERVE_FRAME_HEAD)
        return 0;
    uint32_t length = kymo_le32(at);
    unsigned type = at[4];
    if (type == 0 || type >= sizeof rows / sizeof *rows)
        return kymo_err_set(err, -EPROTO, "a frame of the unknown type %u", type);
    if (length > rows[type].most || length < rows[type].least)
        return kymo_err_set(err, -EPROTO, "a frame of type %u with %u bytes", type, length);
    if (n - SERVE_FRAME_HEAD < length)
        return 0;
    *ret = (struct serve_frame){(enum serve_frame_type)type, kymo_le32(at + 5), at + SERVE_FRAME_HEAD, length};
    return (long)(SERVE_FRAME_HEAD + length);
}

void serve_frame_head(uint8_t out[static SERVE_FRAME_HEAD], enum serve_frame_type type, uint32_t id, size_t n)
{
    kymo_put_le32(out, (uint32_t)n);
    out[4] = (uint8_t)type;
    kymo_put_le32(out + 5, id);
}

uint32_t serve_frame_credit(const struct serve_frame *f)
{
    return f->type == SERVE_CREDIT && f->n == 4 ? kymo_le32(f->payload) : 0;
}
