#include "pipeline/series/buffer_use.h"

#include <errno.h>

#include "base/alloc.h"

int buffer_use_init(struct buffer_use *u, const struct buffer_map *map, buffer_use_sink sink, void *ctx,
                    struct kymo_err *err)
{
    *u = (struct buffer_use){.map = map, .sink = sink, .ctx = ctx};
    u->cells = KYMO_NEW_ARRAY(struct buffer_cell, map->cell_count + 1);
    return u->cells ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the cells of on-chip memory");
}

void buffer_use_done(struct buffer_use *u)
{
    kymo_free(u->cells);
    u->cells = NULL;
}

static int free_cell(struct buffer_use *u, uint32_t cell, int64_t at_latest, struct kymo_err *err)
{
    const struct buffer_cell *c = &u->cells[cell];
    int64_t until = c->until < at_latest ? c->until : at_latest;
    return c->used && until > c->since ? u->sink(u->ctx, cell, c->since, until, c->owner, err) : 0;
}

static int access_cell(struct buffer_use *u, uint32_t cell, enum buffer_access how, int64_t begin, int64_t end,
                       uint32_t owner, struct kymo_err *err)
{
    struct buffer_cell *c = &u->cells[cell];
    if (how == BUFFER_WRITE || (how == BUFFER_ADD && !c->used)) {
        int r = free_cell(u, cell, begin, err);
        *c = (struct buffer_cell){begin, end, owner, true};
        return r;
    }
    if (!c->used)
        *c = (struct buffer_cell){0, end, BUFFER_USE_NOBODY, true};
    c->until = end > c->until ? end : c->until;
    return 0;
}

int buffer_use_access(struct buffer_use *u, uint32_t range, enum buffer_access how, int64_t begin, int64_t end,
                      uint32_t owner, struct kymo_err *err)
{
    int r = 0;
    for (uint32_t i = u->map->range_at[range]; i < u->map->range_at[range + 1] && r == 0; i++)
        r = access_cell(u, u->map->list[i], how, begin, end, owner, err);
    return r;
}

int buffer_use_finish(struct buffer_use *u, struct kymo_err *err)
{
    int r = 0;
    for (uint32_t cell = 0; cell < u->map->cell_count && r == 0; cell++)
        r = free_cell(u, cell, INT64_MAX, err);
    return r;
}
