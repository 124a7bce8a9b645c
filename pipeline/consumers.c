#include "pipeline/consumers.h"

#include <errno.h>
#include <pthread.h>

#include "base/alloc.h"
#include "pipeline/cc/core_barriers.h"
#include "pipeline/crew.h"
#include "pipeline/flow/flow.h"
#include "pipeline/hierarchy/hierarchy.h"
#include "pipeline/job.h"
#include "pipeline/lod/lod_tables.h"
#include "pipeline/lod/window_sums.h"
#include "pipeline/row_tables.h"
#include "pipeline/semaphores/semaphore_rows.h"
#include "pipeline/series/series.h"
#include "pipeline/summary/timeline_warnings.h"

#define BATCH 2048
#define BATCHES 16 /* filled or being filled at once */
#define LIST_MAX 64

/* One row per consumer, in the order in which they are called; NULL ends it. */
static const struct consumer *const all[] = {
    &instruction_rows_consumer, /* Instruction */
    &dma_rows_consumer,         /* DmaPacket, DmaPacketAggregated */
    &semaphore_rows_consumer,   /* SemaphoreUpdate */
    &throttle_summary,          /* ThrottleSummary */
    &timeline_warnings,         /* TimelineWarning */
    &lod_consumer,              /* LevelOfDetail */
    &window_sums_consumer,      /* WindowSums */
    &flow_consumer,             /* Flow, WaitCause, WaitSums */
    &hierarchy_consumer,        /* compiler's layers, stack frames, NKI */
    &series_dma,                /* DmaUsage, DmaUsageSummary, HbmUsage */
    &series_host,               /* HostDmaUsage */
    &series_pending,            /* PendingDma */
    &series_flops,              /* FlopsUsage */
    &series_buffers,            /* SbufUsage, PsumUsage, SbufAllocation */
    &series_memory,             /* HbmUsageSummaryByType */
    &core_barriers_consumer,    /* CoreBarriers */
    NULL,
};
_Static_assert(sizeof all / sizeof *all <= LIST_MAX, "queues are an array");

enum kind { PACKETS, TRANSFERS, HOST_TRANSFERS, COLLECTIVES, SEMAPHORES, INSTRUCTIONS, KINDS };

struct batch {
    enum kind kind;
    unsigned refs; /* queues that hold it, and the filler; 0: free */
    size_t n;
    union {
        struct consumer_packet packets[BATCH];
        struct consumer_transfer transfers[BATCH];
        struct consumer_host_transfer host[BATCH];
        struct consumer_collective collectives[BATCH];
        struct consumer_semaphore semaphores[BATCH];
        struct instr_row instructions[BATCH];
    } rows;
};

struct item {
    struct batch *batch; /* NULL: the end of a stage */
    enum consumer_stage stage;
};

/* What one consumer has still to take. */
struct queue {
    struct item items[BATCHES + 8]; /* at most every batch, and the end of every stage */
    size_t first, count;
    bool running;
};

struct consumers {
    const struct consumer *const *list;
    void *state[LIST_MAX]; /* NULL: nothing to do for this profile */
    struct crew *crew;
    pthread_mutex_t lock;
    pthread_cond_t progress; /* something was taken */
    struct queue queues[LIST_MAX];
    struct batch *batches[BATCHES];
    struct batch *filling[KINDS];
    size_t turn; /* where the next search for work begins */
    int code;    /* the first failure */
    bool abandoned;
    struct kymo_err err;
};

#define QUEUE_MAX (sizeof((struct queue *)0)->items / sizeof(struct item))

static bool wants(const struct consumer *c, enum kind kind)
{
    switch (kind) {
    case PACKETS:
        return c->packets;
    case TRANSFERS:
        return c->transfers;
    case HOST_TRANSFERS:
        return c->host_transfers;
    case COLLECTIVES:
        return c->collectives;
    case SEMAPHORES:
        return c->semaphores;
    case INSTRUCTIONS:
        return c->instructions;
    default:
        return false;
    }
}

static int take(const struct consumers *c, size_t i, const struct item *item, struct kymo_err *err)
{
    const struct consumer *one = c->list[i];
    const struct batch *b = item->batch;
    void *state = c->state[i];
    if (!b)
        return one->end_stage(state, item->stage, err);
    switch (b->kind) {
    case PACKETS:
        return one->packets(state, b->rows.packets, b->n, err);
    case TRANSFERS:
        return one->transfers(state, b->rows.transfers, b->n, err);
    case HOST_TRANSFERS:
        return one->host_transfers(state, b->rows.host, b->n, err);
    case COLLECTIVES:
        return one->collectives(state, b->rows.collectives, b->n, err);
    case SEMAPHORES:
        return one->semaphores(state, b->rows.semaphores, b->n, err);
    default:
        return one->instructions(state, b->rows.instructions, b->n, err);
    }
}

/* A consumer that has something to take and that no thread is busy with; LIST_MAX: none. Under the lock. */
static size_t find_work(struct consumers *c)
{
    if (c->abandoned)
        return LIST_MAX;
    for (size_t k = 0; k < LIST_MAX; k++) {
        size_t i = (c->turn + k) % LIST_MAX;
        if (c->queues[i].count && !c->queues[i].running) {
            c->turn = i + 1;
            return i;
        }
    }
    return LIST_MAX;
}

/* One item of one consumer. False: there is nothing to do now. */
static bool step(void *ctx)
{
    struct consumers *c = ctx;
    struct kymo_err err = {0};
    (void)pthread_mutex_lock(&c->lock);
    size_t i = find_work(c);
    if (i == LIST_MAX) {
        (void)pthread_mutex_unlock(&c->lock);
        return false;
    }
    struct queue *q = &c->queues[i];
    struct item item = q->items[q->first];
    q->first = (q->first + 1) % QUEUE_MAX;
    q->count--;
    q->running = true;
    bool failed = c->code < 0;
    (void)pthread_mutex_unlock(&c->lock);
    int r = failed ? 0 : take(c, i, &item, &err);
    (void)pthread_mutex_lock(&c->lock);
    q->running = false;
    if (item.batch)
        item.batch->refs--;
    if (r < 0 && c->code == 0) {
        c->code = r;
        c->err = err;
    }
    (void)pthread_cond_broadcast(&c->progress);
    (void)pthread_mutex_unlock(&c->lock);
    return true;
}

/* Works, or waits for those who do, until holds(c); called and left without the lock. */
static void help_until(struct consumers *c, bool (*holds)(struct consumers *c))
{
    for (;;) {
        if (step(c))
            continue;
        (void)pthread_mutex_lock(&c->lock);
        bool over = holds(c);
        if (!over && find_work(c) == LIST_MAX)
            (void)pthread_cond_wait(&c->progress, &c->lock);
        (void)pthread_mutex_unlock(&c->lock);
        if (over)
            return;
    }
}

static struct batch *free_batch(struct consumers *c)
{
    for (size_t i = 0; i < BATCHES; i++) {
        if (!c->batches[i])
            c->batches[i] = KYMO_NEW(struct batch);
        if (c->batches[i] && c->batches[i]->refs == 0)
            return c->batches[i];
    }
    return NULL;
}

static bool is_empty(struct consumers *c)
{
    for (size_t i = 0; i < LIST_MAX; i++)
        if (c->queues[i].count || c->queues[i].running)
            return false;
    return true;
}

/* When nothing is under way that could give one back, there is no memory for another. */
static bool may_have_batch(struct consumers *c)
{
    return free_batch(c) || is_empty(c);
}

static int begin(struct consumers *c, enum kind kind, struct kymo_err *err)
{
    (void)pthread_mutex_lock(&c->lock);
    struct batch *b = free_batch(c);
    (void)pthread_mutex_unlock(&c->lock);
    if (!b) {
        help_until(c, may_have_batch);
        (void)pthread_mutex_lock(&c->lock);
        b = free_batch(c);
        (void)pthread_mutex_unlock(&c->lock);
    }
    if (!b)
        return kymo_err_set(err, -ENOMEM, "no memory for a batch of events");
    b->kind = kind;
    b->refs = 1;
    b->n = 0;
    c->filling[kind] = b;
    return 0;
}

/* Under the lock. A queue has room for every batch there is. */
static void append(struct queue *q, struct item item)
{
    q->items[(q->first + q->count++) % QUEUE_MAX] = item;
}

/* Without a crew everything is taken at once. */
static int hand_over(struct consumers *c, struct kymo_err *err)
{
    if (c->crew)
        crew_wake(c->crew);
    else
        while (step(c)) {
        }
    (void)pthread_mutex_lock(&c->lock);
    int r = c->code;
    if (r < 0 && err)
        *err = c->err;
    (void)pthread_mutex_unlock(&c->lock);
    return r;
}

static int flush(struct consumers *c, enum kind kind, struct kymo_err *err)
{
    struct batch *b = c->filling[kind];
    if (!b)
        return 0;
    c->filling[kind] = NULL;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; c->list[i]; i++)
        if (c->state[i] && wants(c->list[i], kind)) {
            append(&c->queues[i], (struct item){.batch = b});
            b->refs++;
        }
    b->refs--;
    (void)pthread_mutex_unlock(&c->lock);
    return hand_over(c, err);
}

#define GATHER(NAME, KIND, ARRAY, TYPE)                                                                                \
    int consumers_##NAME(struct consumers *c, const TYPE *row, struct kymo_err *err)                                   \
    {                                                                                                                  \
        int r = c->filling[KIND] ? 0 : begin(c, KIND, err);                                                            \
        if (r < 0)                                                                                                     \
            return r;                                                                                                  \
        struct batch *b = c->filling[KIND];                                                                            \
        b->rows.ARRAY[b->n++] = *row;                                                                                  \
        return b->n == BATCH ? flush(c, KIND, err) : 0;                                                                \
    }

GATHER(packet, PACKETS, packets, struct consumer_packet)
GATHER(transfer, TRANSFERS, transfers, struct consumer_transfer)
GATHER(host_transfer, HOST_TRANSFERS, host, struct consumer_host_transfer)
GATHER(collective, COLLECTIVES, collectives, struct consumer_collective)
GATHER(semaphore, SEMAPHORES, semaphores, struct consumer_semaphore)
GATHER(instruction, INSTRUCTIONS, instructions, struct instr_row)

int consumers_end_stage(struct consumers *c, enum consumer_stage stage, struct kymo_err *err)
{
    int r = 0;
    for (enum kind k = 0; k < KINDS && r == 0; k++)
        r = flush(c, k, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; c->list[i]; i++)
        if (c->state[i] && c->list[i]->end_stage)
            append(&c->queues[i], (struct item){.stage = stage});
    (void)pthread_mutex_unlock(&c->lock);
    return hand_over(c, err);
}

int consumers_finish(struct consumers *c, struct warnings *w, struct kymo_err *err)
{
    help_until(c, is_empty);
    int r = hand_over(c, err);
    for (size_t i = 0; c->list[i] && r == 0; i++)
        if (c->state[i])
            r = c->list[i]->finish(c->state[i], w, err);
    return r;
}

int consumers_open(const struct job *j, struct crew *crew, struct consumers **ret, struct kymo_err *err)
{
    return consumers_open_list(j, all, crew, ret, err);
}

int consumers_open_list(const struct job *j, const struct consumer *const *list, struct crew *crew,
                        struct consumers **ret, struct kymo_err *err)
{
    struct consumers *c = KYMO_NEW(struct consumers);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for the consumers of events");
    c->list = list;
    c->crew = crew;
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->progress, NULL);
    for (size_t i = 0; list[i]; i++) {
        int r = list[i]->open(j, &c->state[i], err);
        if (r < 0) {
            consumers_free(c);
            return r;
        }
    }
    crew_lend(crew, step, c);
    *ret = c;
    return 0;
}

struct consumers *consumers_free(struct consumers *c)
{
    if (!c)
        return NULL;
    (void)pthread_mutex_lock(&c->lock);
    c->abandoned = true;
    (void)pthread_mutex_unlock(&c->lock);
    crew_lend(c->crew, NULL, NULL);
    for (size_t i = 0; c->list[i]; i++)
        if (c->state[i])
            c->list[i]->free(c->state[i]);
    for (size_t i = 0; i < BATCHES; i++)
        kymo_free(c->batches[i]);
    (void)pthread_cond_destroy(&c->progress);
    (void)pthread_mutex_destroy(&c->lock);
    kymo_free(c);
    return NULL;
}
