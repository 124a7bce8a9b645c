#include "pipeline/formulas/levels.h"

#include <stdbool.h>

int levels_init(struct levels *l, const char *dir, struct kymo_err *err)
{
    *l = (struct levels){0};
    return time_queue_open(dir, 0, &l->changes, err);
}

void levels_done(struct levels *l)
{
    l->changes = time_queue_free(l->changes);
}

int levels_add(struct levels *l, unsigned lane, int64_t since, int64_t until, struct kymo_err *err)
{
    int r = time_queue_push(l->changes, &(struct time_item){.at = since, .a = 1, .tag = lane}, err);
    return r < 0 ? r : time_queue_push(l->changes, &(struct time_item){.at = until, .tag = lane}, err);
}

int levels_finish(struct levels *l, levels_sink sink, void *ctx, struct kymo_err *err)
{
    int64_t value[LEVELS_LANES] = {0};
    bool touched[LEVELS_LANES] = {false};
    const struct time_item *first;
    int r = 0;
    while (r == 0 && (first = time_queue_first(l->changes))) {
        int64_t at = first->at;
        value[first->tag] += first->a ? 1 : -1;
        touched[first->tag] = true;
        r = time_queue_pop(l->changes, err);
        first = time_queue_first(l->changes);
        for (unsigned lane = 0; lane < LEVELS_LANES && r == 0 && (!first || first->at != at); lane++)
            if (touched[lane]) {
                touched[lane] = false;
                r = sink(ctx, lane, at, value[lane], err);
            }
    }
    return r;
}
