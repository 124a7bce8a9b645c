/* The table LevelOfDetail: tracks, names and rows for lod.h, from the events of a profile. */
#include "pipeline/lod/lod_tables.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/instructions/instr_source.h"
#include "pipeline/job.h"
#include "pipeline/lod/lod.h"
#include "pipeline/lod/track_names.h"

#define BATCH 16384
#define GROUP_ROWS (1u << 15) /* a timeline reads some thousands of rows at a time, here and there */

/* KIND_SPLIT: instructions by where they run, on the engine's sequencer or on its compute side. */
enum kind { KIND_DMA_ENGINE, KIND_DMA_QUEUE, KIND_DMA_TRANSFER, KIND_HOST_DMA, KIND_INSTRUCTION, KIND_SPLIT, KINDS };

static const char *const kind_names[KINDS] = {"dma_engine", "dma_queue",   "dma_transfer",
                                              "host_dma",   "instruction", "instruction_split"};
static const enum consumer_stage kind_stages[KINDS] = {CONSUMER_TRANSFERS,    CONSUMER_TRANSFERS,
                                                       CONSUMER_TRANSFERS,    CONSUMER_HOST_TRANSFERS,
                                                       CONSUMER_INSTRUCTIONS, CONSUMER_INSTRUCTIONS};

/* Dictionary ids of one kind's columns, by track and by label. */
struct names {
    uint32_t *track, *pcore, *label, *operators;
    size_t tracks, labels;
};

struct table {
    const struct job *j;
    struct lod_plan plan;
    unsigned base[KINDS]; /* finest level that a kind has */
    struct lod *lods[KINDS];
    struct names names[KINDS];
    uint32_t kind_ids[KINDS];
    struct parquet_writer *writer;
    enum kind kind; /* whose rows are being written */
    size_t n;
    struct {
        int64_t start[BATCH], first[BATCH], last[BATCH], busy[BATCH], longest[BATCH], longest_id[BATCH], count[BATCH],
            bytes[BATCH], width[BATCH];
        int32_t level[BATCH];
        uint32_t track[BATCH], label[BATCH], kind[BATCH];
        uint8_t has_bytes[BATCH];
    } batch;
};

static int name_track(struct table *t, enum kind k, size_t track, const char *name, int pcore, struct kymo_err *err)
{
    struct names *n = &t->names[k];
    n->track[track] = parquet_writer_string_id(t->writer, KYMO_LEVEL_OF_DETAIL_TIMELINE_TRACK, name, strlen(name), err);
    n->pcore[track] = PARQUET_NULL;
    if (pcore >= 0)
        n->pcore[track] = parquet_writer_int_id(t->writer, KYMO_LEVEL_OF_DETAIL_PCORE_IDX, pcore, err);
    return n->track[track] == PARQUET_NULL || (pcore >= 0 && n->pcore[track] == PARQUET_NULL) ? -ENOMEM : 0;
}

static int name_label(struct table *t, enum kind k, size_t label, const char *name, struct kymo_err *err)
{
    uint32_t id = parquet_writer_string_id(t->writer, KYMO_LEVEL_OF_DETAIL_LABEL, name, strlen(name), err);
    t->names[k].label[label] = id;
    return id == PARQUET_NULL ? -ENOMEM : 0;
}

static int make_names(struct table *t, enum kind k, size_t tracks, size_t labels, struct kymo_err *err)
{
    struct names *n = &t->names[k];
    n->tracks = tracks;
    n->labels = labels;
    n->track = KYMO_NEW_ARRAY(uint32_t, tracks + 1);
    n->pcore = KYMO_NEW_ARRAY(uint32_t, tracks + 1);
    n->label = KYMO_NEW_ARRAY(uint32_t, labels + 1);
    n->operators = KYMO_NEW_ARRAY(uint32_t, labels + 1);
    if (!n->track || !n->pcore || !n->label || !n->operators)
        return kymo_err_set(err, -ENOMEM, "no memory for the names of %zu tracks", tracks);
    for (size_t i = 0; i <= labels; i++)
        n->operators[i] = PARQUET_NULL;
    struct lod_plan plan = {.levels = t->plan.levels - t->base[k], .least = t->plan.least};
    for (unsigned i = 0; i < plan.levels; i++)
        plan.width[i] = t->plan.width[t->base[k] + i];
    return lod_open(t->j->dir, &plan, tracks, &t->lods[k], err);
}

/* DMA packets by engine, and by queue on each engine; transfers by queue. */

static const char *queue_name(const struct table *t, uint32_t phys)
{
    const struct dma_queues *q = &t->j->queues;
    for (size_t i = 0; i < q->hwq_count; i++)
        if (q->hwqs[i].phys == phys)
            return q->sets[q->hwqs[i].set].name;
    return NULL;
}

static int name_packets(struct table *t, struct kymo_err *err)
{
    char name[TRACK_NAME_MAX];
    int r = make_names(t, KIND_DMA_ENGINE, INPUT_CORES_MAX * DMA_ENGINES, t->j->queues.set_count + 1, err);
    if (r == 0)
        r = make_names(t, KIND_DMA_QUEUE, DMA_PHYS_MAX, t->j->queues.set_count + 1, err);
    for (unsigned i = 0; i < INPUT_CORES_MAX * DMA_ENGINES && r == 0; i++) {
        track_name_engine(t->j, i * DMA_QUEUES, name);
        r = name_track(t, KIND_DMA_ENGINE, i, name, (int)(i / DMA_ENGINES), err);
    }
    for (unsigned i = 0; i < DMA_PHYS_MAX && r == 0; i++) {
        track_name_queue(t->j, i, queue_name(t, i), name);
        r = name_track(t, KIND_DMA_QUEUE, i, name, (int)(i / DMA_QUEUES / DMA_ENGINES), err);
    }
    return r;
}

static int name_transfers(struct table *t, struct kymo_err *err)
{
    const struct dma_queues *q = &t->j->queues;
    char name[TRACK_NAME_MAX];
    int r = make_names(t, KIND_DMA_TRANSFER, q->set_count + 1, q->set_count + 1, err);
    for (size_t i = 0; i <= q->set_count && r == 0; i++) {
        bool known = i < q->set_count;
        track_name_transfers(t->j, known ? (uint32_t)i : DMA_NONE, name);
        r = name_track(t, KIND_DMA_TRANSFER, i, name, known ? (int)q->sets[i].pcore : -1, err);
        for (enum kind k = KIND_DMA_ENGINE; k <= KIND_DMA_TRANSFER && r == 0; k++)
            r = name_label(t, k, i, known ? q->sets[i].name : "unknown", err);
    }
    return r;
}

static int name_host(struct table *t, struct kymo_err *err)
{
    const struct kymo_arch *a = t->j->in->arch;
    char name[TRACK_NAME_MAX];
    int r = make_names(t, KIND_HOST_DMA, t->j->scan.count, a->h2d_queue_count + 1, err);
    for (size_t i = 0; i < t->j->scan.count && r == 0; i++) {
        track_name_host(t->j, (uint32_t)i, name);
        r = name_track(t, KIND_HOST_DMA, i, name, -1, err);
    }
    for (size_t i = 0; i <= a->h2d_queue_count && r == 0; i++) {
        const char *traffic = i < a->h2d_queue_count ? a->h2d_queues[i].traffic : NULL;
        r = name_label(t, KIND_HOST_DMA, i, traffic ? traffic : "unknown", err);
    }
    return r;
}

static uint32_t instruction_track(const struct static_row *row)
{
    return ((uint32_t)row->pcore * KYMO_ENGINE_MAX + row->engine) * 2 + statics_is_matmul(row);
}

static uint32_t split_track(const struct static_row *row)
{
    return ((uint32_t)row->pcore * KYMO_ENGINE_MAX + row->engine) * TRACK_PARTS + track_part_of(row);
}

static int name_split(struct table *t, const struct static_row *row, struct kymo_err *err)
{
    char name[TRACK_NAME_MAX];
    track_name_part(t->j, row, name);
    return name_track(t, KIND_SPLIT, split_track(row), name, row->pcore, err);
}

static int name_operator(struct table *t, size_t label, const char *name, struct kymo_err *err)
{
    uint32_t id = PARQUET_NULL;
    if (name) {
        id = parquet_writer_string_id(t->writer, KYMO_LEVEL_OF_DETAIL_OPERATOR, name, strlen(name), err);
        if (id == PARQUET_NULL)
            return -ENOMEM;
    }
    t->names[KIND_INSTRUCTION].operators[label] = t->names[KIND_SPLIT].operators[label] = id;
    return 0;
}

static int name_instruction(struct table *t, size_t label, struct instr_source *source, struct kymo_err *err)
{
    const struct statics *s = &t->j->statics;
    const struct static_row *row = &s->rows[label];
    struct static_facts facts;
    char name[TRACK_NAME_MAX];
    statics_track(s, row, name, sizeof name);
    int r = name_track(t, KIND_INSTRUCTION, instruction_track(row), name, row->pcore, err);
    if (r == 0)
        r = name_split(t, row, err);
    const char *opcode = row->known ? kymo_opcode_name(row->opcode, name, sizeof name) : "";
    if (r == 0)
        r = name_label(t, KIND_INSTRUCTION, label, opcode, err);
    if (r == 0)
        r = name_label(t, KIND_SPLIT, label, opcode, err);
    statics_facts(s, row, &facts);
    instr_source_find(s, row, &facts, source);
    return r < 0 ? r : name_operator(t, label, source->operator_name, err);
}

static int name_instructions(struct table *t, struct kymo_err *err)
{
    const struct statics *s = &t->j->statics;
    struct instr_source *source KYMO_FREE = KYMO_NEW(struct instr_source);
    if (!source)
        return kymo_err_set(err, -ENOMEM, "no memory for the names of instructions");
    int r = make_names(t, KIND_INSTRUCTION, INPUT_CORES_MAX * KYMO_ENGINE_MAX * 2, s->count, err);
    if (r == 0)
        r = make_names(t, KIND_SPLIT, INPUT_CORES_MAX * KYMO_ENGINE_MAX * TRACK_PARTS, s->count, err);
    for (size_t i = 0; i < s->count && r == 0; i++)
        r = name_instruction(t, i, source, err);
    return r;
}

/* Rows */

static int flush(struct table *t, struct kymo_err *err)
{
    const struct names *n = &t->names[t->kind];
    struct parquet_column c[KYMO_LEVEL_OF_DETAIL_MAX] = {0};
    c[KYMO_LEVEL_OF_DETAIL_KIND] = (struct parquet_column){.index = t->batch.kind};
    c[KYMO_LEVEL_OF_DETAIL_LEVEL].values = t->batch.level;
    c[KYMO_LEVEL_OF_DETAIL_BUCKET_NS].values = t->batch.width;
    c[KYMO_LEVEL_OF_DETAIL_TIMELINE_TRACK] =
        (struct parquet_column){.index = t->batch.track, .map = n->track, .map_len = n->tracks};
    c[KYMO_LEVEL_OF_DETAIL_PCORE_IDX] =
        (struct parquet_column){.index = t->batch.track, .map = n->pcore, .map_len = n->tracks};
    c[KYMO_LEVEL_OF_DETAIL_START_TS].values = t->batch.start;
    c[KYMO_LEVEL_OF_DETAIL_FIRST_TS].values = t->batch.first;
    c[KYMO_LEVEL_OF_DETAIL_LAST_TS].values = t->batch.last;
    c[KYMO_LEVEL_OF_DETAIL_EVENT_COUNT].values = t->batch.count;
    c[KYMO_LEVEL_OF_DETAIL_BUSY_NS].values = t->batch.busy;
    c[KYMO_LEVEL_OF_DETAIL_TRANSFER_BYTES] =
        (struct parquet_column){.values = t->batch.bytes, .valid = t->batch.has_bytes};
    c[KYMO_LEVEL_OF_DETAIL_LONGEST_ID].values = t->batch.longest_id;
    c[KYMO_LEVEL_OF_DETAIL_LONGEST_NS].values = t->batch.longest;
    c[KYMO_LEVEL_OF_DETAIL_LABEL] =
        (struct parquet_column){.index = t->batch.label, .map = n->label, .map_len = n->labels};
    c[KYMO_LEVEL_OF_DETAIL_OPERATOR] =
        (struct parquet_column){.index = t->batch.label, .map = n->operators, .map_len = n->labels};
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

static int write_row(void *ctx, unsigned level, const struct lod_row *row, struct kymo_err *err)
{
    struct table *t = ctx;
    size_t i = t->n++;
    t->batch.kind[i] = t->kind_ids[t->kind];
    level += t->base[t->kind];
    t->batch.level[i] = (int32_t)level;
    t->batch.width[i] = t->plan.width[level];
    t->batch.track[i] = row->track;
    t->batch.label[i] = row->label;
    t->batch.start[i] = row->start;
    t->batch.first[i] = row->first;
    t->batch.last[i] = row->last;
    t->batch.count[i] = (int64_t)row->count;
    t->batch.busy[i] = row->busy;
    t->batch.bytes[i] = (int64_t)row->bytes;
    t->batch.has_bytes[i] = t->kind < KIND_INSTRUCTION;
    t->batch.longest[i] = row->longest;
    t->batch.longest_id[i] = row->longest_id;
    return t->n == BATCH ? flush(t, err) : 0;
}

/* Consumer */

static uint64_t densest_track(const struct scan *s)
{
    uint64_t most = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct ntff_ring *ring = &s->rings[i].ring;
        bool instructions = ring->kind == NTFF__RING_KIND__RING_INSTRUCTION;
        bool dma = ring->kind == NTFF__RING_KIND__RING_DMA || ring->kind == NTFF__RING_KIND__RING_H2D_DMA;
        /* Two records an event; an instruction ring is shared by engines, of which one or two do most. */
        uint64_t events = instructions ? ring->records / 4 : dma ? ring->records / 2 : 0;
        if (events > most)
            most = events;
    }
    return most;
}

static void table_free(void *c)
{
    struct table *t = c;
    for (unsigned k = 0; k < KINDS; k++) {
        lod_free(t->lods[k]);
        kymo_free(t->names[k].track);
        kymo_free(t->names[k].pcore);
        kymo_free(t->names[k].label);
        kymo_free(t->names[k].operators);
    }
    parquet_writer_discard(t->writer);
    kymo_free(t);
}

static int table_open(const struct job *j, void **ret, struct kymo_err *err)
{
    struct table *t = KYMO_NEW(struct table);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the table LevelOfDetail");
    t->j = j;
    t->plan = lod_plan((int64_t)(j->scan.last_ps / 1000) - (int64_t)(j->scan.first_ps / 1000), densest_track(&j->scan));
    /* An engine's packets fall to several queues, so that a queue's are as dense one level up. */
    t->base[KIND_DMA_QUEUE] = t->plan.levels > 1;
    struct parquet_options options = j->parquet;
    options.rows_per_group = GROUP_ROWS;
    int r = parquet_writer_open(j->dir, kymo_schema_table(KYMO_T_LEVEL_OF_DETAIL), &options, &t->writer, err);
    for (unsigned k = 0; k < KINDS && r == 0; k++) {
        t->kind_ids[k] =
            parquet_writer_string_id(t->writer, KYMO_LEVEL_OF_DETAIL_KIND, kind_names[k], strlen(kind_names[k]), err);
        r = t->kind_ids[k] == PARQUET_NULL ? -ENOMEM : 0;
    }
    if (r == 0)
        r = name_packets(t, err);
    if (r == 0)
        r = name_transfers(t, err);
    if (r == 0)
        r = name_host(t, err);
    if (r == 0)
        r = name_instructions(t, err);
    if (r < 0)
        table_free(t);
    else
        *ret = t;
    return r;
}

static uint32_t set_label(const struct table *t, uint32_t set)
{
    return set == DMA_NONE ? (uint32_t)t->j->queues.set_count : set;
}

static int take_packets(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_packet_row *p = &rows[i].row;
        struct lod_event e = {
            p->start, p->start, p->end, p->id, p->bytes, p->phys / DMA_QUEUES, set_label(t, rows[i].flow.set)};
        r = lod_add(t->lods[KIND_DMA_ENGINE], &e, err);
        e.track = p->phys;
        if (r == 0)
            r = lod_add(t->lods[KIND_DMA_QUEUE], &e, err);
    }
    return r;
}

static int take_transfers(void *c, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_transfer *x = &rows[i].transfer;
        uint32_t set = set_label(t, x->set);
        r = lod_add(t->lods[KIND_DMA_TRANSFER],
                    &(struct lod_event){x->start, x->start, x->end, x->id, x->bytes, set, set}, err);
    }
    return r;
}

static int take_host(void *c, const struct consumer_host_transfer *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    const struct kymo_arch *a = t->j->in->arch;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct consumer_host_transfer *x = &rows[i];
        uint32_t label = (uint32_t)(x->kind ? (size_t)(x->kind - a->h2d_queues) : a->h2d_queue_count);
        r = lod_add(t->lods[KIND_HOST_DMA],
                    &(struct lod_event){x->start, x->start, x->end, x->id, x->bytes, x->ring, label}, err);
    }
    return r;
}

static int take_instructions(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct instr_row *x = &rows[i];
        const struct static_row *row = &t->j->statics.rows[x->row];
        struct lod_event e = {x->start, x->begin, x->end, x->id, 0, instruction_track(row), x->row};
        r = lod_add(t->lods[KIND_INSTRUCTION], &e, err);
        e.track = split_track(row);
        if (r == 0)
            r = lod_add(t->lods[KIND_SPLIT], &e, err);
    }
    return r;
}

static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct table *t = c;
    int r = 0;
    for (enum kind k = 0; k < KINDS && r == 0; k++) {
        if (kind_stages[k] != stage)
            continue;
        t->kind = k;
        r = lod_finish(t->lods[k], write_row, t, err);
        if (r == 0)
            r = flush(t, err);
        t->lods[k] = lod_free(t->lods[k]);
    }
    return r;
}

static int table_finish(void *c, struct warnings *w, struct kymo_err *err)
{
    struct table *t = c;
    (void)w;
    struct parquet_writer *writer = t->writer;
    t->writer = NULL;
    return parquet_writer_finish(writer, err);
}

const struct consumer lod_consumer = {
    .name = "level of detail",
    .open = table_open,
    .packets = take_packets,
    .transfers = take_transfers,
    .host_transfers = take_host,
    .instructions = take_instructions,
    .end_stage = end_stage,
    .finish = table_finish,
    .free = table_free,
};
