#include "pipeline/series/buffer_samples.h"

#include <errno.h>

#include "base/alloc.h"

int buffer_samples_init(struct buffer_samples *s, size_t columns, int64_t width, int64_t span, struct kymo_err *err)
{
    *s = (struct buffer_samples){.columns = columns, .width = width, .count = (size_t)(span / width) + 2};
    s->changes = KYMO_NEW_ARRAY(int32_t, s->count * columns);
    return s->changes ? 0 : kymo_err_set(err, -ENOMEM, "no memory for %zu samples", s->count);
}

void buffer_samples_done(struct buffer_samples *s)
{
    kymo_free(s->changes);
    s->changes = NULL;
}

size_t buffer_samples_at(const struct buffer_samples *s, int64_t time)
{
    int64_t n = time <= 0 ? 0 : (time - 1) / s->width + 1;
    return (size_t)n < s->count ? (size_t)n : s->count - 1;
}

void buffer_samples_add(struct buffer_samples *s, size_t column, int64_t since, int64_t until, uint32_t bytes)
{
    size_t from = buffer_samples_at(s, since), to = buffer_samples_at(s, until);
    if (from >= to)
        return;
    s->changes[from * s->columns + column] += (int32_t)bytes;
    s->changes[to * s->columns + column] -= (int32_t)bytes;
}
