#include "pipeline/consumers.h"

#include <errno.h>

#include "base/alloc.h"
#include "pipeline/flow.h"
#include "pipeline/hierarchy.h"
#include "pipeline/job.h"
#include "pipeline/lod_tables.h"
#include "pipeline/timeline_warnings.h"

#define BATCH 4096

/* One row per consumer, in the order in which they are called; NULL ends it. */
static const struct consumer *const list[] = {
    &throttle_summary,   /* ThrottleSummary */
    &timeline_warnings,  /* TimelineWarning */
    &lod_consumer,       /* LevelOfDetail */
    &flow_consumer,      /* Flow, WaitCause */
    &hierarchy_consumer, /* compiler's layers, stack frames, NKI */
    NULL,
};
#define LIST_MAX (sizeof list / sizeof *list)

struct consumers {
    void *state[LIST_MAX]; /* NULL: nothing to do for this profile */
    size_t packet_count, transfer_count, host_count, semaphore_count, instruction_count;
    struct consumer_packet packets[BATCH];
    struct consumer_transfer transfers[BATCH];
    struct consumer_host_transfer host[BATCH];
    struct consumer_semaphore semaphores[BATCH];
    struct instr_row instructions[BATCH];
};

int consumers_open(const struct job *j, struct consumers **ret, struct kymo_err *err)
{
    struct consumers *c = KYMO_NEW(struct consumers);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "no memory for the batches of events");
    for (size_t i = 0; list[i]; i++) {
        int r = list[i]->open(j, &c->state[i], err);
        if (r < 0) {
            consumers_free(c);
            return r;
        }
    }
    *ret = c;
    return 0;
}

struct consumers *consumers_free(struct consumers *c)
{
    for (size_t i = 0; c && list[i]; i++)
        if (c->state[i])
            list[i]->free(c->state[i]);
    kymo_free(c);
    return NULL;
}

/* One gatherer per kind of event: a full batch goes to every consumer that wants the kind. */
#define GATHER(NAME, MEMBER, COUNT, ARRAY, TYPE)                                                                       \
    static int flush_##NAME(struct consumers *c, struct kymo_err *err)                                                 \
    {                                                                                                                  \
        int r = 0;                                                                                                     \
        for (size_t i = 0; list[i] && c->COUNT && r == 0; i++)                                                         \
            if (c->state[i] && list[i]->MEMBER)                                                                        \
                r = list[i]->MEMBER(c->state[i], c->ARRAY, c->COUNT, err);                                             \
        c->COUNT = 0;                                                                                                  \
        return r;                                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    int consumers_##NAME(struct consumers *c, const TYPE *row, struct kymo_err *err)                                   \
    {                                                                                                                  \
        c->ARRAY[c->COUNT++] = *row;                                                                                   \
        return c->COUNT == BATCH ? flush_##NAME(c, err) : 0;                                                           \
    }

GATHER(packet, packets, packet_count, packets, struct consumer_packet)
GATHER(transfer, transfers, transfer_count, transfers, struct consumer_transfer)
GATHER(host_transfer, host_transfers, host_count, host, struct consumer_host_transfer)
GATHER(semaphore, semaphores, semaphore_count, semaphores, struct consumer_semaphore)
GATHER(instruction, instructions, instruction_count, instructions, struct instr_row)

int consumers_end_stage(struct consumers *c, enum consumer_stage stage, struct kymo_err *err)
{
    int r = 0;
    switch (stage) {
    case CONSUMER_TRANSFERS:
        r = flush_packet(c, err);
        r = r < 0 ? r : flush_transfer(c, err);
        break;
    case CONSUMER_HOST_TRANSFERS:
        r = flush_host_transfer(c, err);
        break;
    case CONSUMER_SEMAPHORES:
        r = flush_semaphore(c, err);
        break;
    case CONSUMER_INSTRUCTIONS:
        r = flush_instruction(c, err);
        break;
    }
    for (size_t i = 0; list[i] && r == 0; i++)
        if (c->state[i] && list[i]->end_stage)
            r = list[i]->end_stage(c->state[i], stage, err);
    return r;
}

int consumers_finish(struct consumers *c, struct warnings *w, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; list[i] && r == 0; i++)
        if (c->state[i])
            r = list[i]->finish(c->state[i], w, err);
    return r;
}
