/* DMA queue sets over engines and hardware queues, and blocks into descriptors (facts: neff.md 1.7, 2.7; split sizes
 * G). */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_op.h"

#define QUEUES_MAX (SIM_DMA_ENGINES * SIM_DMA_QUEUES)

struct layout {
    uint16_t used[SIM_DMA_QUEUES]; /* engines whose hardware queue of this number is taken */
    unsigned next_engine;          /* sets begin at different engines, so that the load is even */
};

static uint16_t rotate16(uint16_t mask, unsigned by)
{
    by %= 16;
    return (uint16_t)(mask << by | mask >> ((16 - by) % 16));
}

/* The lowest hardware queue number that has num free engines in a row (modulo 16). */
static int place_set(struct layout *l, unsigned num, struct sim_queue *q)
{
    uint16_t run = (uint16_t)(num >= 16 ? 0xFFFFu : (1u << num) - 1u);
    for (unsigned queue = 0; queue < SIM_DMA_QUEUES; queue++) {
        for (unsigned turn = 0; turn < SIM_DMA_ENGINES; turn++) {
            uint16_t mask = rotate16(run, l->next_engine + turn);
            if (l->used[queue] & mask)
                continue;
            l->used[queue] = (uint16_t)(l->used[queue] | mask);
            l->next_engine = (l->next_engine + turn + num) % SIM_DMA_ENGINES;
            q->queue_index = (uint8_t)queue;
            q->engines = mask;
            return 0;
        }
    }
    return -ENOSPC;
}

static Ntff__DmaQueueType queue_type(const char *type)
{
    if (!type)
        return NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_UNKNOWN;
    if (!strcmp(type, "in"))
        return NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INPUT;
    if (!strcmp(type, "out"))
        return NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_OUTPUT;
    if (!strcmp(type, "data") || !strcmp(type, "embedding_update"))
        return NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_WEIGHTS;
    return NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_UNKNOWN;
}

static int add_queue(const struct kymo_arch *arch, struct layout *l, const struct neff_queue *nq, const char *name,
                     struct sim_queue *q, struct kymo_err *err)
{
    unsigned num = nq->num_queues ? nq->num_queues : 1;
    if (num > SIM_DMA_ENGINES)
        return kymo_err_set(err, -EPROTO, "queue %s has %u rings, an engine set has %d", name, num, SIM_DMA_ENGINES);
    q->name = name;
    q->type = queue_type(nq->type);
    q->semaphore = nq->semaphore;
    if (nq->type && !strcmp(nq->type, "dynamic")) {
        enum kymo_engine owner = nq->owner ? kymo_engine_find(nq->owner) : KYMO_ENGINE_INVALID;
        /* The second generation has no descriptor generation engine; GpSimd makes descriptors in software everywhere.
         */
        q->hardware_dynamic = arch->nc_generation >= 3 && owner != KYMO_ENGINE_GPSIMD;
        q->software_dynamic = !q->hardware_dynamic;
    }
    if (place_set(l, num, q) < 0)
        return kymo_err_set(err, -ENOSPC, "no room for queue %s: %d queues of each DMA engine are taken", name,
                            SIM_DMA_QUEUES);
    return 0;
}

static size_t count_names(const struct neff_subgraph *sg)
{
    size_t n = 0;
    for (size_t i = 0; i < sg->queue_count; i++)
        n += sg->queues[i].instance_count + 1;
    return n;
}

static bool block_on(const struct neff_subgraph *sg, const char *name)
{
    for (size_t e = 0; e < sg->engine_count; e++)
        for (size_t b = 0; b < sg->engines[e].block_count; b++)
            if (sg->engines[e].blocks[b].queue && !strcmp(sg->engines[e].blocks[b].queue, name))
                return true;
    return false;
}

/* Share k of n rings of total packets: the first total % n rings have one more. */
static uint32_t share_of(uint32_t total, unsigned n, unsigned k)
{
    return total / n + (k < total % n ? 1u : 0u);
}

static int fill_packets(const struct sim_queue *q, struct sim_block *b, struct kymo_err *err)
{
    uint64_t want = (b->bytes + SIM_PACKET_BYTES_MAX - 1) / SIM_PACKET_BYTES_MAX;
    if (want < b->neff->desc_count)
        want = b->neff->desc_count;
    if (want > b->bytes && b->bytes)
        want = b->bytes;
    if (!want)
        want = 1;
    if (want > SIM_BLOCK_PACKETS_MAX)
        return kymo_err_set(err, -EFBIG, "block %u of queue %s: %llu bytes make more than %u packets", b->id, q->name,
                            (unsigned long long)b->bytes, SIM_BLOCK_PACKETS_MAX);
    b->packet_count = (uint32_t)want;
    b->packets = KYMO_NEW_ARRAY(struct sim_packet, b->packet_count);
    if (!b->packets)
        return kymo_err_set(err, -ENOMEM, "no memory for %u packets", b->packet_count);
    unsigned rings = (unsigned)__builtin_popcount(q->engines), ring = 0;
    uint32_t at = 0;
    for (unsigned e = 0; e < SIM_DMA_ENGINES; e++) {
        b->share_first[e] = at;
        uint32_t n = q->engines >> e & 1 ? share_of(b->packet_count, rings, ring++) : 0;
        for (uint32_t k = 0; k < n; k++, at++) {
            uint64_t bytes = b->bytes / b->packet_count + (at < b->bytes % b->packet_count ? 1u : 0u);
            b->packets[at] =
                (struct sim_packet){.dma_engine = (uint8_t)e, .queue_index = q->queue_index, .bytes = (uint32_t)bytes};
        }
    }
    b->share_first[SIM_DMA_ENGINES] = at;
    return 0;
}

static int add_blocks(const struct neff_subgraph *sg, struct sim_queue *q, struct kymo_err *err)
{
    size_t n = 0;
    for (size_t e = 0; e < sg->engine_count; e++)
        for (size_t b = 0; b < sg->engines[e].block_count; b++)
            n += sg->engines[e].blocks[b].queue && !strcmp(sg->engines[e].blocks[b].queue, q->name);
    if (!n)
        return 0;
    q->blocks = KYMO_NEW_ARRAY(struct sim_block, n);
    if (!q->blocks)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu DMA blocks", n);
    for (size_t e = 0; e < sg->engine_count; e++) {
        for (size_t i = 0; i < sg->engines[e].block_count; i++) {
            const struct neff_dma_block *nb = &sg->engines[e].blocks[i];
            if (!nb->queue || strcmp(nb->queue, q->name) != 0)
                continue;
            struct sim_block *b = &q->blocks[q->block_count++];
            *b = (struct sim_block){.id = nb->id, .function = nb->function, .bytes = nb->bytes, .neff = nb};
            b->semaphore = nb->semaphore >= 0 ? nb->semaphore : q->semaphore;
            if (b->semaphore > 255)
                return kymo_err_set(err, -EPROTO, "block %u of queue %s: no semaphore %d", b->id, q->name,
                                    b->semaphore);
            int r = fill_packets(q, b, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int sim_queue_layout(const struct kymo_arch *arch, struct sim_core_image *ci, struct kymo_err *err)
{
    const struct neff_subgraph *sg = ci->subgraph;
    size_t names = count_names(sg);
    if (names > 2 * QUEUES_MAX)
        return kymo_err_set(err, -EFBIG, "%s names %zu DMA queues", sg->name, names);
    ci->queues = KYMO_NEW_ARRAY(struct sim_queue, names + 1);
    if (!ci->queues)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu DMA queues", names);
    struct layout l = {0};
    for (size_t i = 0; i < sg->queue_count; i++) {
        const struct neff_queue *nq = &sg->queues[i];
        /* Instances are rings of their own; the set's name is one more only when blocks use it. */
        for (size_t k = 0; k <= nq->instance_count; k++) {
            bool own = k == nq->instance_count;
            if (own && nq->instance_count && !block_on(sg, nq->name))
                continue;
            struct sim_queue *q = &ci->queues[ci->queue_count++];
            int r = add_queue(arch, &l, nq, own ? nq->name : nq->instances[k], q, err);
            if (r >= 0)
                r = add_blocks(sg, q, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

void sim_queue_free(struct sim_core_image *ci)
{
    for (size_t i = 0; i < ci->queue_count; i++) {
        for (size_t b = 0; b < ci->queues[i].block_count; b++)
            kymo_free(ci->queues[i].blocks[b].packets);
        kymo_free(ci->queues[i].blocks);
    }
    kymo_free(ci->queues);
    ci->queues = NULL;
    ci->queue_count = 0;
}

int sim_queue_find_block(const struct sim_core_image *ci, const char *queue, uint32_t id, uint16_t *ret_queue,
                         uint32_t *ret_block, struct kymo_err *err)
{
    for (size_t i = 0; i < ci->queue_count; i++) {
        const struct sim_queue *q = &ci->queues[i];
        if (strcmp(q->name, queue) != 0)
            continue;
        /* A trigger outside functions means the block outside functions, where both exist. */
        const struct sim_block *found = NULL;
        for (size_t b = 0; b < q->block_count; b++)
            if (q->blocks[b].id == id && (!found || (found->function && !q->blocks[b].function)))
                found = &q->blocks[b];
        if (!found)
            continue;
        *ret_queue = (uint16_t)i;
        *ret_block = (uint32_t)(found - q->blocks);
        return 0;
    }
    return kymo_err_set(err, -ENOENT, "%s has no DMA block %u on queue \"%s\"", ci->subgraph->name, id, queue);
}

int sim_queue_dynamic(const struct sim_core_image *ci, enum kymo_engine engine)
{
    size_t at = 0;
    const struct neff_subgraph *sg = ci->subgraph;
    for (; at < ci->queue_count; at++) {
        if (!ci->queues[at].software_dynamic && !ci->queues[at].hardware_dynamic)
            continue;
        for (size_t i = 0; i < sg->queue_count; i++)
            if (!strcmp(sg->queues[i].name, ci->queues[at].name) && sg->queues[i].owner &&
                kymo_engine_find(sg->queues[i].owner) == engine)
                return (int)at;
    }
    return -1;
}
