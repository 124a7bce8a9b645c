#include "pipeline/series/sbuf_rows.h"

#include <errno.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/series/buffer_use.h"
#include "pipeline/spill/time_queue.h"

#define TEXT_MAX 2048

struct sbuf_rows {
    const struct job *job;
    const struct buffer_map *maps[INPUT_CORES_MAX];
    struct time_queue *spans;
    struct parquet_row *row;
};

int sbuf_rows_open(const struct job *j, struct sbuf_rows **ret, struct kymo_err *err)
{
    struct sbuf_rows *t = KYMO_NEW(struct sbuf_rows);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the ranges of SBUF");
    t->job = j;
    int r = time_queue_open(j->dir, 0, &t->spans, err);
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_SBUF_ALLOCATION), &j->parquet, &t->row, err);
    if (r < 0) {
        sbuf_rows_discard(t);
        return r;
    }
    *ret = t;
    return 0;
}

struct sbuf_rows *sbuf_rows_discard(struct sbuf_rows *t)
{
    if (!t)
        return NULL;
    time_queue_free(t->spans);
    parquet_row_discard(t->row);
    kymo_free(t);
    return NULL;
}

/* order: core and cell, a: until, tag: owner. */
int sbuf_rows_add(struct sbuf_rows *t, const struct buffer_map *map, unsigned pcore, uint32_t cell, int64_t since,
                  int64_t until, uint32_t owner, struct kymo_err *err)
{
    t->maps[pcore] = map;
    if (map->segments[map->segment_at[cell]].lane >= BUFFER_MAP_SBUF)
        return 0; /* PSUM's; a cell is in one memory, since a range is */
    struct time_item item = {.at = since, .order = (uint64_t)pcore << 32 | cell, .a = (uint64_t)until, .tag = owner};
    return time_queue_push(t->spans, &item, err);
}

static void put_transfer(struct parquet_row *row, const struct static_facts *f)
{
    const struct dma_block *b = f->block;
    parquet_row_string(row, KYMO_SBUF_ALLOCATION_OP_SOURCE_TYPE, "dma");
    parquet_row_string(row, KYMO_SBUF_ALLOCATION_QUEUE_NAME, f->set ? f->set->name : NULL);
    if (!b)
        return;
    parquet_row_int(row, KYMO_SBUF_ALLOCATION_BLOCK_ID, b->id);
    parquet_row_string(row, KYMO_SBUF_ALLOCATION_TENSOR_NAME, b->variable);
}

static void put_owner(struct sbuf_rows *t, uint32_t owner)
{
    const struct static_row *st = &t->job->statics.rows[owner];
    struct static_facts f;
    char text[TEXT_MAX], name[32];
    statics_facts(&t->job->statics, st, &f);
    if (f.debug)
        parquet_row_string(t->row, KYMO_SBUF_ALLOCATION_HLO_NAME, f.debug->hlo_name);
    if (st->trigger != STATICS_NO_TRIGGER) {
        put_transfer(t->row, &f);
        return;
    }
    parquet_row_string(t->row, KYMO_SBUF_ALLOCATION_OP_SOURCE_TYPE, "instruction");
    parquet_row_string(t->row, KYMO_SBUF_ALLOCATION_OPCODE, kymo_opcode_name(st->opcode, name, sizeof name));
    kymo_instr_text(t->job->in->arch, f.record, text, sizeof text);
    parquet_row_string(t->row, KYMO_SBUF_ALLOCATION_OPERANDS, text);
}

static int write_span(struct sbuf_rows *t, const struct time_item *item, struct kymo_err *err)
{
    unsigned pcore = (unsigned)(item->order >> 32);
    uint32_t cell = (uint32_t)item->order;
    const struct buffer_map *m = t->maps[pcore];
    int r = 0;
    for (uint32_t i = m->segment_at[cell]; i < m->segment_at[cell + 1] && r == 0; i++) {
        const struct buffer_segment *s = &m->segments[i];
        parquet_row_int(t->row, KYMO_SBUF_ALLOCATION_START_TS, item->at);
        parquet_row_int(t->row, KYMO_SBUF_ALLOCATION_END_TS, (int64_t)item->a);
        parquet_row_int(t->row, KYMO_SBUF_ALLOCATION_START_ADDRESS, s->first);
        parquet_row_int(t->row, KYMO_SBUF_ALLOCATION_END_ADDRESS, s->end - 1);
        parquet_row_int(t->row, KYMO_SBUF_ALLOCATION_PARTITION, s->lane * BUFFER_MAP_PARTITION_STEP);
        parquet_row_int(t->row, KYMO_SBUF_ALLOCATION_PCORE_IDX, pcore);
        if (item->tag != BUFFER_USE_NOBODY)
            put_owner(t, item->tag);
        r = parquet_row_end(t->row, err);
    }
    return r;
}

int sbuf_rows_finish(struct sbuf_rows *t, struct kymo_err *err)
{
    const struct time_item *first;
    int r = 0;
    while (r == 0 && (first = time_queue_first(t->spans))) {
        r = write_span(t, first, err);
        if (r == 0)
            r = time_queue_pop(t->spans, err);
    }
    if (r == 0) {
        r = parquet_row_finish(t->row, err);
        t->row = NULL;
    }
    sbuf_rows_discard(t);
    return r;
}
