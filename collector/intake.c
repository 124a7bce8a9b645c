#include "collector/intake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/intake_impl.h"

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for a capture");
}

int intakes_new(const struct intakes_config *config, struct intakes **ret, struct kymo_err *err)
{
    struct intakes *all = KYMO_NEW(struct intakes);
    if (!all)
        return no_memory(err);
    all->config = *config;
    if (!all->config.neff_still_ms)
        all->config.neff_still_ms = INTAKE_NEFF_STILL_MS;
    if (!all->config.neff_wait_ms)
        all->config.neff_wait_ms = INTAKE_NEFF_WAIT_MAX_MS;
    if (!all->config.sync_bytes)
        all->config.sync_bytes = INTAKE_SYNC_BYTES;
    *ret = all;
    return 0;
}

static void intake_free(struct intake *i)
{
    if (i->link) {
        *i->link = i->next;
        if (i->next)
            i->next->link = i->link;
        i->all->n--;
    }
    for (size_t k = 0; i->items && k < i->n_items; k++)
        kymo_free(i->items[k].name);
    raw_capture_free(i->raw);
    manifest_freep(&i->parsed);
    if (!i->ended)
        kymo_free(i->end);
    kymo_free(i->items);
    kymo_free(i->manifest);
    kymo_free(i);
}

static void intake_freep(struct intake **i)
{
    if (*i)
        intake_free(*i);
}

struct intakes *intakes_free(struct intakes *all)
{
    while (all && all->first)
        intake_free(all->first);
    kymo_free(all);
    return NULL;
}

void intakes_set_thread(struct intakes *all, struct store_thread *t)
{
    all->thread = t;
}

void intakes_figures(const struct intakes *all, struct intakes_figures *ret)
{
    ret->captures = atomic_load(&all->captures);
    ret->bytes = atomic_load(&all->on_disk);
    for (int i = 0; i < INCOMING_CAUSE_MAX; i++)
        ret->forgotten[i] = atomic_load(&all->forgotten[i]);
}

uint64_t intakes_bytes(const struct intakes *all)
{
    return all->bytes;
}

size_t intakes_open(const struct intakes *all)
{
    return all->n;
}

const char *intake_id(const struct intake *i)
{
    return i->id;
}

void *intake_owner(const struct intake *i)
{
    return i->ended ? NULL : i->owner;
}

static void offer_over(struct intake_job *j)
{
    struct intake *i = j->intake;
    const struct intake_ops *ops = i->all->config.ops;
    if (!intake_owner(i))
        return;
    if (j->code < 0)
        ops->failed(i->owner, i, j->code, j->text ? j->text : "no memory");
    else if (j->code == RAW_STORED)
        ops->have(i->owner, i);
    else
        ops->began(i->owner, i, j->offsets);
}

static void write_over(struct intake_job *j)
{
    struct intake *i = j->intake;
    const struct intake_ops *ops = i->all->config.ops;
    if (i->owner)
        ops->taken(i->owner, i, j->n);
    /* Each call may end the intake. */
    if (intake_owner(i) && j->code < 0)
        ops->failed(i->owner, i, j->code, j->text ? j->text : "no memory");
    else if (intake_owner(i) && j->durable)
        ops->durable(i->owner, i, j->item, j->durable);
}

static void done_over(struct intake_job *j)
{
    struct intake *i = j->intake;
    const struct intake_ops *ops = i->all->config.ops;
    if (!intake_owner(i))
        return;
    if (j->code < 0)
        ops->failed(i->owner, i, j->code, j->text ? j->text : "no memory");
    else
        ops->stored(i->owner, i);
}

static void job_over(struct store_job *job)
{
    struct intake_job *j = (struct intake_job *)job;
    j->intake->all->bytes -= j->cost;
    switch (j->kind) {
    case INTAKE_OFFER:
        offer_over(j);
        break;
    case INTAKE_WRITE:
        write_over(j);
        break;
    case INTAKE_DONE:
        done_over(j);
        break;
    case INTAKE_END:
        intake_free(j->intake);
        break;
    }
    kymo_free(j->offsets);
    kymo_free(j->text);
    kymo_free(j);
}

static struct intake_job *new_job(struct intake *i, enum intake_kind kind, size_t n)
{
    struct intake_job *j = kymo_calloc(1, sizeof *j + n);
    if (!j)
        return NULL;
    j->job.run = intake_run;
    j->job.done = job_over;
    j->intake = i;
    j->kind = kind;
    j->n = n;
    j->cost = sizeof *j + n;
    return j;
}

static void post(struct intake_job *j)
{
    j->intake->all->bytes += j->cost;
    store_thread_post(j->intake->all->thread, &j->job);
}

static int copy_items(struct intake *i, const Kymo__Uplink__Offer *offer)
{
    i->items = KYMO_NEW_ARRAY(struct intake_item, offer->n_items + 1);
    if (!i->items)
        return -ENOMEM;
    for (; i->n_items < offer->n_items; i->n_items++) {
        const Kymo__Uplink__Item *from = offer->items[i->n_items];
        struct intake_item *to = &i->items[i->n_items];
        to->name = from->name ? kymo_strdup(from->name) : NULL;
        if (from->name && !to->name)
            return -ENOMEM;
        to->size = from->size;
        to->neff = from->neff;
        to->file = INTAKE_NO_FILE;
        memcpy(to->sha256, from->sha256.data, sizeof to->sha256);
    }
    return 0;
}

int intake_offer(struct intakes *all, void *owner, const char *source, const Kymo__Uplink__Offer *offer,
                 struct intake **ret, struct kymo_err *err)
{
    struct intake *i KYMO_CLEANUP(intake_freep) = KYMO_NEW(struct intake);
    struct intake_job *j KYMO_FREE = i ? new_job(i, INTAKE_OFFER, 0) : NULL;
    if (!j)
        return no_memory(err);
    i->all = all;
    i->owner = owner;
    (void)snprintf(i->id, sizeof i->id, "%s", offer->capture_id);
    (void)snprintf(i->source, sizeof i->source, "%s", source);
    i->manifest = kymo_malloc(offer->manifest.len + 1);
    j->offsets = KYMO_NEW_ARRAY(uint64_t, offer->n_items + 1);
    /* The end must not need memory. */
    i->end = new_job(i, INTAKE_END, 0);
    if (!i->manifest || !j->offsets || !i->end || copy_items(i, offer) < 0) {
        kymo_free(j->offsets);
        return no_memory(err);
    }
    memcpy(i->manifest, offer->manifest.data, offer->manifest.len);
    i->manifest_n = offer->manifest.len;
    j->cost += i->manifest_n + i->n_items * sizeof *i->items;
    i->next = all->first;
    i->link = &all->first;
    if (i->next)
        i->next->link = &i->next;
    all->first = i;
    all->n++;
    post(KYMO_TAKE(j));
    *ret = KYMO_TAKE(i);
    return 0;
}

int intake_write(struct intake *i, uint32_t item, uint64_t offset, const void *data, size_t n, struct kymo_err *err)
{
    struct intake_job *j = new_job(i, INTAKE_WRITE, n);
    if (!j)
        return no_memory(err);
    j->item = item;
    j->offset = offset;
    memcpy(j->data, data, n);
    post(j);
    return 0;
}

int intake_done(struct intake *i, struct kymo_err *err)
{
    struct intake_job *j = new_job(i, INTAKE_DONE, 0);
    if (!j)
        return no_memory(err);
    post(j);
    return 0;
}

void intake_end(struct intake *i)
{
    if (i->ended)
        return;
    i->ended = true;
    post(i->end);
}

void intakes_orphan(struct intakes *all, const void *owner)
{
    for (struct intake *i = all->first; i; i = i->next)
        if (i->owner == owner)
            i->owner = NULL;
}

struct intake *intakes_find(const struct intakes *all, const char *id)
{
    for (struct intake *i = all->first; i; i = i->next)
        if (!i->ended && strcmp(i->id, id) == 0)
            return i;
    return NULL;
}
