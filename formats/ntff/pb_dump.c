#include "formats/ntff/pb_dump.h"

#include <stdbool.h>

#include "base/utf8.h"

static bool is_text(const uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = kymo_utf8_sequence(data + i, n - i);
        if (len == 0 || data[i] < 0x20 || data[i] == 0x7f)
            return false;
        i += len;
    }
    return true;
}

/* One level only: what the values hold is looked at when they are shown. */
static bool is_message(const uint8_t *data, size_t n)
{
    struct pb_cursor c = {.data = data, .size = n};
    struct pb_field f;
    const char *cause;
    int r;
    while ((r = pb_next(&c, &f, &cause)) > 0)
        ;
    return r == 0;
}

static enum pb_kind guess_kind(const struct pb_field *f, unsigned depth)
{
    if (f->wire != PB_LEN)
        return PB_KIND_NUMBER;
    if (is_text(f->data, f->len))
        return PB_KIND_TEXT;
    return depth < PB_DUMP_DEPTH_MAX && is_message(f->data, f->len) ? PB_KIND_MESSAGE : PB_KIND_BYTES;
}

static size_t dump_level(struct pb_dump *d, const uint8_t *data, size_t n, size_t base, unsigned depth,
                         const char **ret_cause);

static void dump_field(struct pb_dump *d, const struct pb_field *f, size_t offset, size_t data_offset, unsigned depth)
{
    enum pb_kind kind = guess_kind(f, depth);
    d->fields++;
    d->ops->field(d->ctx, f, kind, offset);
    if (kind != PB_KIND_MESSAGE)
        return;
    const char *cause;
    (void)dump_level(d, f->data, f->len, data_offset, depth + 1, &cause);
    d->ops->leave(d->ctx);
}

static size_t dump_level(struct pb_dump *d, const uint8_t *data, size_t n, size_t base, unsigned depth,
                         const char **ret_cause)
{
    struct pb_cursor c = {.data = data, .size = n};
    for (;;) {
        size_t at = c.pos;
        struct pb_field f;
        const char *cause = NULL;
        if (d->fields >= PB_DUMP_FIELDS_MAX) {
            *ret_cause = "more fields than are shown";
            return at;
        }
        int r = pb_next(&c, &f, &cause);
        if (r <= 0) {
            *ret_cause = cause;
            return at;
        }
        if (depth == 0 && d->top_number_max && f.number > d->top_number_max) {
            *ret_cause = "a field number that this message would not have";
            return at;
        }
        dump_field(d, &f, base + f.at, base + (size_t)(f.wire == PB_LEN ? f.data - data : 0), depth);
    }
}

size_t pb_dump_message(struct pb_dump *d, const uint8_t *data, size_t n, const char **ret_cause)
{
    return dump_level(d, data, n, 0, 0, ret_cause);
}

void pb_dump_field(struct pb_dump *d, const struct pb_field *f)
{
    if (d->fields < PB_DUMP_FIELDS_MAX)
        dump_field(d, f, 0, 0, 1);
}
