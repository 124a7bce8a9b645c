#include "pipeline/lod/window_sums.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/job.h"
#include "pipeline/lod/time_sums.h"
#include "pipeline/lod/window_subjects.h"
#include "pipeline/spill/time_queue.h"

#define BATCH 8192
#define GROUP_ROWS (1u << 15) /* a summary reads one kind of rows at a time */

/* Events that are summed up together have buckets of one width. */
enum group { GROUP_PACKETS, GROUP_TRANSFERS, GROUP_HOST, GROUP_INSTRUCTIONS, GROUPS };
static const enum consumer_stage group_stages[GROUPS] = {CONSUMER_TRANSFERS, CONSUMER_TRANSFERS,
                                                         CONSUMER_HOST_TRANSFERS, CONSUMER_INSTRUCTIONS};

/* What rows of a kind tell of. */
enum { HAS_EVENTS = 1, HAS_WAIT = 2, HAS_BUSY = 4, HAS_BYTES = 8 };
static const struct {
    const char *name;
    unsigned has;
} kinds[WINDOW_KINDS] = {
    [WINDOW_DMA] = {"dma", HAS_BUSY},
    [WINDOW_DMA_ENGINE] = {"dma_engine", HAS_EVENTS | HAS_BUSY | HAS_BYTES},
    [WINDOW_DMA_QUEUE] = {"dma_queue", HAS_EVENTS | HAS_BUSY | HAS_BYTES},
    [WINDOW_DMA_TRANSFER] = {"dma_transfer", HAS_EVENTS | HAS_BUSY | HAS_BYTES},
    [WINDOW_HOST_DMA] = {"host_dma", HAS_EVENTS | HAS_BUSY | HAS_BYTES},
    [WINDOW_ENGINE] = {"engine", HAS_BUSY},
    [WINDOW_INSTRUCTION] = {"instruction", HAS_BUSY},
    [WINDOW_SPLIT] = {"instruction_split", HAS_BUSY},
    [WINDOW_OPERATION] = {"operation", HAS_EVENTS | HAS_WAIT},
    [WINDOW_OPERATOR] = {"operator", HAS_BUSY},
    [WINDOW_HLO] = {"hlo", HAS_BUSY},
    [WINDOW_OPCODE] = {"opcode", HAS_BUSY},
};

/* The subjects of a hardware queue's packets are those of the set that its last one was of. */
struct packets_of {
    uint32_t set;
    bool known;
};

/* Whom an operation makes busy: its engine, track and part of a track, and its nodes of the tree. */
#define CHAINS 256
struct chain {
    uint32_t operation; /* WINDOW_NONE: none */
    uint32_t n;
    uint32_t subjects[3 + WINDOW_TREE_MAX];
};

struct columns {
    int64_t start[BATCH], width[BATCH], count[BATCH], first[BATCH], last[BATCH], time[BATCH], wait[BATCH], busy[BATCH],
        transfer_bytes[BATCH], bytes[TIME_SUMS_BYTES][BATCH];
    double flops[TIME_SUMS_FLOPS][BATCH];
    uint32_t subject[BATCH];
    uint8_t has_events[BATCH], has_any[BATCH], has_wait[BATCH], has_busy[BATCH], has_transfer[BATCH], has_bytes[BATCH],
        has_flops[BATCH];
};

struct table {
    const struct job *j;
    struct parquet_writer *writer;
    struct window_subjects *subjects;
    struct time_sums *sums[GROUPS];
    uint32_t dma;               /* all packets */
    struct packets_of *packets; /* by hardware queue */
    uint32_t *operations;       /* by static row */
    struct time_sums_work *work;
    struct chain *chains;      /* of operations that were there last, by the low bits of their number */
    struct time_queue *begins; /* instructions whose wait may last beyond the start of the next */
    uint32_t kind_ids[WINDOW_KINDS];
    uint32_t *maps[WINDOW_NAMES], *kind_map; /* by subject, while rows are written */
    uint8_t *ranks;
    int64_t width;
    size_t n;
    struct columns *batch;
};

/* Rows */

static int flush(struct table *t, struct kymo_err *err)
{
    static const unsigned names[WINDOW_NAMES] = {KYMO_WINDOW_SUMS_TIMELINE_TRACK, KYMO_WINDOW_SUMS_SPLIT_TRACK,
                                                 KYMO_WINDOW_SUMS_PCORE_IDX,      KYMO_WINDOW_SUMS_ENGINE,
                                                 KYMO_WINDOW_SUMS_OPCODE,         KYMO_WINDOW_SUMS_OPERATOR,
                                                 KYMO_WINDOW_SUMS_HLO_NAME,       KYMO_WINDOW_SUMS_QUEUE_NAME};
    static const unsigned bytes[TIME_SUMS_BYTES] = {
        KYMO_WINDOW_SUMS_HBM_READ_BYTES,   KYMO_WINDOW_SUMS_HBM_WRITE_BYTES,   KYMO_WINDOW_SUMS_SBUF_READ_BYTES,
        KYMO_WINDOW_SUMS_SBUF_WRITE_BYTES, KYMO_WINDOW_SUMS_PSUM_READ_BYTES,   KYMO_WINDOW_SUMS_PSUM_WRITE_BYTES,
        KYMO_WINDOW_SUMS_SPILL_SAVE_BYTES, KYMO_WINDOW_SUMS_SPILL_RELOAD_BYTES};
    const struct columns *b = t->batch;
    size_t subjects = window_subjects_count(t->subjects);
    struct parquet_column c[KYMO_WINDOW_SUMS_MAX] = {0};
    c[KYMO_WINDOW_SUMS_KIND] = (struct parquet_column){.index = b->subject, .map = t->kind_map, .map_len = subjects};
    for (int i = 0; i < WINDOW_NAMES; i++)
        c[names[i]] = (struct parquet_column){.index = b->subject, .map = t->maps[i], .map_len = subjects};
    c[KYMO_WINDOW_SUMS_BUCKET_NS].values = b->width;
    c[KYMO_WINDOW_SUMS_START_TS].values = b->start;
    c[KYMO_WINDOW_SUMS_EVENT_COUNT] = (struct parquet_column){.values = b->count, .valid = b->has_events};
    c[KYMO_WINDOW_SUMS_FIRST_TS] = (struct parquet_column){.values = b->first, .valid = b->has_any};
    c[KYMO_WINDOW_SUMS_LAST_TS] = (struct parquet_column){.values = b->last, .valid = b->has_any};
    c[KYMO_WINDOW_SUMS_TIME_NS] = (struct parquet_column){.values = b->time, .valid = b->has_events};
    c[KYMO_WINDOW_SUMS_WAIT_NS] = (struct parquet_column){.values = b->wait, .valid = b->has_wait};
    c[KYMO_WINDOW_SUMS_BUSY_NS] = (struct parquet_column){.values = b->busy, .valid = b->has_busy};
    c[KYMO_WINDOW_SUMS_TRANSFER_BYTES] = (struct parquet_column){.values = b->transfer_bytes, .valid = b->has_transfer};
    for (int i = 0; i < TIME_SUMS_BYTES; i++)
        c[bytes[i]] = (struct parquet_column){.values = b->bytes[i], .valid = b->has_bytes};
    c[KYMO_WINDOW_SUMS_RAW_FLOPS] = (struct parquet_column){.values = b->flops[0], .valid = b->has_flops};
    c[KYMO_WINDOW_SUMS_FLOPS_TRANSPOSE] = (struct parquet_column){.values = b->flops[1], .valid = b->has_flops};
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

static int write_row(void *ctx, const struct time_sums_row *row, const struct time_sums_work *work,
                     struct kymo_err *err)
{
    static const struct time_sums_work none = {.has_bytes = false};
    struct table *t = ctx;
    struct columns *b = t->batch;
    size_t i = t->n++;
    unsigned has = kinds[t->ranks[row->subject]].has;
    work = work ? work : &none;
    b->subject[i] = row->subject;
    b->start[i] = row->bucket * t->width;
    b->width[i] = t->width;
    b->count[i] = (int64_t)row->count;
    b->first[i] = row->first;
    b->last[i] = row->last;
    b->time[i] = row->figures[TIME_SUMS_TIME];
    b->wait[i] = row->figures[TIME_SUMS_WAIT];
    b->busy[i] = row->figures[TIME_SUMS_BUSY];
    b->transfer_bytes[i] = (int64_t)row->bytes;
    b->has_events[i] = (has & HAS_EVENTS) != 0;
    b->has_any[i] = row->count > 0;
    b->has_wait[i] = (has & HAS_WAIT) != 0;
    b->has_busy[i] = (has & HAS_BUSY) != 0;
    b->has_transfer[i] = (has & HAS_BYTES) != 0;
    b->has_bytes[i] = work->has_bytes;
    b->has_flops[i] = work->has_flops;
    for (int k = 0; k < TIME_SUMS_BYTES; k++)
        b->bytes[k][i] = work->bytes[k];
    for (int k = 0; k < TIME_SUMS_FLOPS; k++)
        b->flops[k][i] = work->flops[k];
    return t->n == BATCH ? flush(t, err) : 0;
}

static void free_maps(struct table *t)
{
    for (int i = 0; i < WINDOW_NAMES; i++) {
        kymo_free(t->maps[i]);
        t->maps[i] = NULL;
    }
    kymo_free(t->kind_map);
    kymo_free(t->ranks);
    t->kind_map = NULL;
    t->ranks = NULL;
}

static int make_maps(struct table *t, struct kymo_err *err)
{
    size_t n = window_subjects_count(t->subjects);
    bool all = (t->kind_map = KYMO_NEW_ARRAY(uint32_t, n + 1)) && (t->ranks = KYMO_NEW_ARRAY(uint8_t, n + 1));
    for (int i = 0; i < WINDOW_NAMES && all; i++)
        all = (t->maps[i] = KYMO_NEW_ARRAY(uint32_t, n + 1)) != NULL;
    if (!all)
        return kymo_err_set(err, -ENOMEM, "no memory for the names of %zu sums", n);
    for (size_t k = 0; k < n; k++) {
        const struct window_subject *s = window_subjects_at(t->subjects, (uint32_t)k);
        t->kind_map[k] = t->kind_ids[s->kind];
        t->ranks[k] = (uint8_t)s->kind;
        for (int i = 0; i < WINDOW_NAMES; i++)
            t->maps[i][k] = s->names[i];
    }
    return 0;
}

static int write_group(struct table *t, enum group g, struct kymo_err *err)
{
    int r = make_maps(t, err);
    t->width = time_sums_width(t->sums[g]);
    if (r == 0)
        r = time_sums_rows(t->sums[g], t->ranks, write_row, t, err);
    if (r == 0)
        r = flush(t, err);
    t->sums[g] = time_sums_free(t->sums[g]);
    free_maps(t);
    return r;
}

/* Consumer */

static void table_free(void *c)
{
    struct table *t = c;
    for (int g = 0; g < GROUPS; g++)
        time_sums_free(t->sums[g]);
    free_maps(t);
    window_subjects_free(t->subjects);
    time_queue_free(t->begins);
    kymo_free(t->packets);
    kymo_free(t->operations);
    kymo_free(t->work);
    kymo_free(t->chains);
    kymo_free(t->batch);
    parquet_writer_discard(t->writer);
    kymo_free(t);
}

static void put_work(struct time_sums_work *w, const struct static_facts *f)
{
    struct statics_traffic traffic = statics_traffic(f);
    const uint64_t bytes[TIME_SUMS_BYTES] = {traffic.hbm_read,   traffic.hbm_write,   traffic.sbuf_read,
                                             traffic.sbuf_write, traffic.psum_read,   traffic.psum_write,
                                             traffic.spill_save, traffic.spill_reload};
    for (int i = 0; i < TIME_SUMS_BYTES; i++)
        w->bytes[i] = (int64_t)bytes[i];
    w->has_bytes = traffic.known;
    w->has_flops = f->record && f->footprint.matmul;
    w->flops[0] = (double)f->raw_flops;
    w->flops[1] = f->transpose ? (double)f->raw_flops : 0;
}

static int name_operations(struct table *t, struct kymo_err *err)
{
    const struct statics *s = &t->j->statics;
    int r = 0;
    for (size_t i = 0; i < s->count && r == 0; i++) {
        struct static_facts facts;
        statics_facts(s, &s->rows[i], &facts);
        put_work(&t->work[i], &facts);
        r = window_subjects_operation(t->subjects, &s->rows[i], &facts, &t->operations[i], err);
    }
    return r;
}

static int open_writer(struct table *t, struct kymo_err *err)
{
    struct parquet_options options = t->j->parquet;
    options.rows_per_group = GROUP_ROWS;
    int r = parquet_writer_open(t->j->dir, kymo_schema_table(KYMO_T_WINDOW_SUMS), &options, &t->writer, err);
    for (int k = 0; k < WINDOW_KINDS && r == 0; k++) {
        t->kind_ids[k] =
            parquet_writer_string_id(t->writer, KYMO_WINDOW_SUMS_KIND, kinds[k].name, strlen(kinds[k].name), err);
        r = t->kind_ids[k] == PARQUET_NULL ? -ENOMEM : 0;
    }
    if (r == 0)
        r = window_subjects_open(t->j, t->writer, &t->subjects, err);
    if (r == 0)
        r = window_subjects_packets(t->subjects, WINDOW_DMA, 0, DMA_NONE, &t->dma, err);
    return r;
}

static int table_open(const struct job *j, void **ret, struct kymo_err *err)
{
    struct table *t = KYMO_NEW(struct table);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the table WindowSums");
    int64_t duration = (int64_t)(j->scan.last_ps / 1000) - (int64_t)(j->scan.first_ps / 1000);
    t->j = j;
    t->packets = KYMO_NEW_ARRAY(struct packets_of, DMA_PHYS_MAX);
    t->operations = KYMO_NEW_ARRAY(uint32_t, j->statics.count + 1);
    t->work = KYMO_NEW_ARRAY(struct time_sums_work, j->statics.count + 1);
    t->chains = KYMO_NEW_ARRAY(struct chain, CHAINS);
    t->batch = KYMO_NEW(struct columns);
    for (size_t i = 0; t->chains && i < CHAINS; i++)
        t->chains[i].operation = WINDOW_NONE;
    int r = t->packets && t->operations && t->work && t->chains && t->batch
                ? open_writer(t, err)
                : kymo_err_set(err, -ENOMEM, "no memory for the table WindowSums");
    for (int g = 0; g < GROUPS && r == 0; g++)
        r = time_sums_open(duration, g == GROUP_INSTRUCTIONS, &t->sums[g], err);
    if (r == 0)
        r = time_queue_open(j->dir, 0, &t->begins, err);
    if (r == 0)
        r = name_operations(t, err);
    if (r < 0)
        table_free(t);
    else
        *ret = t;
    return r;
}

static int find_packets(struct table *t, struct packets_of *p, uint32_t phys, uint32_t set, struct kymo_err *err)
{
    uint32_t subjects[TIME_SUMS_GROUP] = {0};
    subjects[TIME_SUMS_COUNTED] = t->dma;
    p->set = set;
    p->known = true;
    int r = window_subjects_packets(t->subjects, WINDOW_DMA_ENGINE, phys, set, &subjects[0], err);
    if (r == 0)
        r = window_subjects_packets(t->subjects, WINDOW_DMA_QUEUE, phys, set, &subjects[1], err);
    return r < 0 ? r : time_sums_group(t->sums[GROUP_PACKETS], phys, subjects, err);
}

/* An event that is busy all of its time. */
static int add(struct time_sums *s, uint32_t subject, const struct time_sums_event *e, struct kymo_err *err)
{
    int r = time_sums_event(s, &subject, 1, e, err);
    return r < 0 ? r : time_sums_cover(s, &subject, 1, e->start, e->end, err);
}

static int take_packets(void *c, const struct consumer_packet *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    struct time_sums *s = t->sums[GROUP_PACKETS];
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_packet_row *row = &rows[i].row;
        struct packets_of *p = &t->packets[row->phys];
        if (!p->known || p->set != rows[i].flow.set)
            r = find_packets(t, p, row->phys, rows[i].flow.set, err);
        if (r == 0)
            r = time_sums_group_event(s, row->phys, row->start, row->end, row->bytes, err);
    }
    return r;
}

static int take_transfers(void *c, const struct consumer_transfer *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct dma_transfer *x = &rows[i].transfer;
        uint32_t subject = 0;
        r = window_subjects_transfers(t->subjects, x->set, x->pcore, &subject, err);
        if (r == 0)
            r = add(t->sums[GROUP_TRANSFERS], subject,
                    &(struct time_sums_event){.start = x->start, .begin = x->start, .end = x->end, .bytes = x->bytes},
                    err);
    }
    return r;
}

static int take_host(void *c, const struct consumer_host_transfer *rows, size_t n, struct kymo_err *err)
{
    struct table *t = c;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct consumer_host_transfer *x = &rows[i];
        uint32_t subject = 0;
        r = window_subjects_host(t->subjects, x->ring, &subject, err);
        if (r == 0)
            r = add(t->sums[GROUP_HOST], subject,
                    &(struct time_sums_event){.start = x->start, .begin = x->start, .end = x->end, .bytes = x->bytes},
                    err);
    }
    return r;
}

static const struct chain *chain_of(struct table *t, uint32_t operation)
{
    struct chain *c = &t->chains[operation % CHAINS];
    if (c->operation == operation)
        return c;
    const struct window_subject *o = window_subjects_at(t->subjects, operation);
    const uint32_t tracks[] = {o->engine, o->track, o->split};
    memcpy(c->subjects, tracks, sizeof tracks);
    c->n = 3 + (uint32_t)window_subjects_above(t->subjects, o, c->subjects + 3);
    c->operation = operation;
    return c;
}

/* What it is busy with, from when its wait is over. */
static int cover(struct table *t, const struct time_item *item, struct kymo_err *err)
{
    const struct chain *c = chain_of(t, t->operations[item->tag]);
    return time_sums_cover(t->sums[GROUP_INSTRUCTIONS], c->subjects, c->n, item->at, (int64_t)item->a, err);
}

static int cover_until(struct table *t, int64_t until, struct kymo_err *err)
{
    const struct time_item *first;
    int r = 0;
    while (r == 0 && (first = time_queue_first(t->begins)) && first->at <= until) {
        r = cover(t, first, err);
        if (r == 0)
            r = time_queue_pop(t->begins, err);
    }
    return r;
}

static int put_span(struct table *t, const struct instr_row *x, struct kymo_err *err)
{
    const struct time_item item = {.at = x->begin, .order = (uint64_t)x->id, .a = (uint64_t)x->end, .tag = x->row};
    if (x->begin >= x->end)
        return 0;
    return x->begin > x->start ? time_queue_push(t->begins, &item, err) : cover(t, &item, err);
}

static int take_instruction(struct table *t, const struct instr_row *x, struct kymo_err *err)
{
    struct time_sums *s = t->sums[GROUP_INSTRUCTIONS];
    const struct time_sums_event e = {.start = x->start, .begin = x->begin, .end = x->end, .work = &t->work[x->row]};
    int r = cover_until(t, x->start, err);
    if (r == 0)
        r = time_sums_event(s, &t->operations[x->row], 1, &e, err);
    return r < 0 ? r : put_span(t, x, err);
}

static int take_instructions(void *c, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_instruction(c, &rows[i], err);
    return r;
}

static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct table *t = c;
    int r = stage == CONSUMER_INSTRUCTIONS ? cover_until(t, INT64_MAX, err) : 0;
    for (enum group g = 0; g < GROUPS && r == 0; g++)
        if (group_stages[g] == stage)
            r = write_group(t, g, err);
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

const struct consumer window_sums_consumer = {
    .name = "sums by stretch of time",
    .open = table_open,
    .packets = take_packets,
    .transfers = take_transfers,
    .host_transfers = take_host,
    .instructions = take_instructions,
    .end_stage = end_stage,
    .finish = table_finish,
    .free = table_free,
};
