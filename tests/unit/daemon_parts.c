#include "tests/unit/daemon_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct daemon_parts parts;

int jobs_each(const struct jobs *j, int (*each)(void *ctx, const struct jobs_rank *r), void *ctx)
{
    (void)j;
    int r = 0;
    for (size_t i = 0; r == 0 && i < parts.nranks; i++)
        r = each(ctx, &parts.ranks[i]);
    return r;
}

size_t jobs_count(const struct jobs *j)
{
    (void)j;
    return parts.njobs;
}

size_t jobs_rank_count(const struct jobs *j)
{
    (void)j;
    return parts.nranks;
}

void captures_get_counts(const struct captures *c, struct captures_counts *ret)
{
    (void)c;
    *ret = parts.counts;
}

static struct captures_ask *watch_with(captures_watch *watch, void *ctx)
{
    for (size_t i = 0; i < PARTS_ASKS_MAX; i++)
        if (!parts.asks[i].watch) {
            parts.asks[i] = (struct captures_ask){watch, ctx};
            return &parts.asks[i];
        }
    abort();
}

int captures_ask(struct captures *c, const struct captures_wish *wish, captures_watch *watch, void *ctx,
                 char ids[][KYMO_HOOK_ID_MAX], size_t *ret_n, struct captures_ask **ret_ask, struct kymo_err *err)
{
    (void)c;
    parts.asked++;
    parts.wish = *wish;
    (void)snprintf(parts.job, sizeof parts.job, "%s", wish->job ? wish->job : "");
    (void)snprintf(parts.mode, sizeof parts.mode, "%s", wish->mode ? wish->mode : "");
    (void)snprintf(parts.trigger, sizeof parts.trigger, "%s", wish->trigger);
    if (wish->ncores)
        memcpy(parts.cores, wish->cores, wish->ncores * sizeof *wish->cores);
    if (parts.answer < 0)
        return kymo_err_set(err, parts.answer, "%s", parts.text);
    if (parts.text)
        (void)kymo_err_set(err, -EBUSY, "%s", parts.text);
    for (size_t i = 0; i < parts.nids; i++)
        (void)snprintf(ids[i], KYMO_HOOK_ID_MAX, "capture-%u-%zu", parts.asked, i);
    *ret_n = parts.nids;
    if (watch)
        *ret_ask = watch_with(watch, ctx);
    return 0;
}

void captures_unwatch(struct captures *c, struct captures_ask *ask)
{
    (void)c;
    if (!ask->watch)
        abort();
    ask->watch = NULL;
    parts.unwatched++;
}

size_t parts_watching(void)
{
    size_t n = 0;
    for (size_t i = 0; i < PARTS_ASKS_MAX; i++)
        n += parts.asks[i].watch != NULL;
    return n;
}

void outbox_get_status(struct outbox *o, struct outbox_status *ret)
{
    (void)o;
    *ret = parts.outbox;
}

struct hook_server_counts hook_server_get_counts(const struct hook_server *s)
{
    (void)s;
    return parts.hooks;
}
