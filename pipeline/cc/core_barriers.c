/*
 * The table CoreBarriers: executions of what the runtime made of a PSEUDO_CORE_BARRIER, the EVENT_SEMAPHORE that begins
 * when its core is at the barrier and ends when the other one is there too. The id is that of the Instruction row.
 */
#include "pipeline/cc/core_barriers.h"

#include <errno.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/job.h"

#define TEXT_MAX 2048

struct barriers {
    const struct job *j;
    bool *rows; /* static rows that are barriers */
    struct parquet_row *out;
};

static const uint8_t *barrier_of(const struct statics *s, size_t i)
{
    const struct static_row *row = &s->rows[i];
    const uint8_t *rec =
        row->program && row->slot >= 0 ? program_compiler_record(row->program, (size_t)row->slot) : NULL;
    return rec && rec[0] == KYMO_OP_PSEUDO_CORE_BARRIER ? rec : NULL;
}

static void barriers_free(void *ctx)
{
    struct barriers *b = ctx;
    if (!b)
        return;
    parquet_row_discard(b->out);
    kymo_free(b->rows);
    kymo_free(b);
}

static int barriers_open(const struct job *j, void **ret, struct kymo_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < j->statics.count; i++)
        n += barrier_of(&j->statics, i) != NULL;
    *ret = NULL;
    if (!n)
        return 0;
    struct barriers *b = KYMO_NEW(struct barriers);
    if (b)
        b->rows = KYMO_NEW_ARRAY(bool, j->statics.count);
    if (!b || !b->rows) {
        barriers_free(b);
        return kymo_err_set(err, -ENOMEM, "no memory for the core barriers");
    }
    b->j = j;
    for (size_t i = 0; i < j->statics.count; i++)
        b->rows[i] = barrier_of(&j->statics, i) != NULL;
    *ret = b;
    return 0;
}

static int put(struct barriers *b, const struct instr_row *row, struct kymo_err *err)
{
    const struct statics *s = &b->j->statics;
    const struct static_row *st = &s->rows[row->row];
    const uint8_t *rec = barrier_of(s, row->row);
    char text[TEXT_MAX], name[32];
    uint64_t v;
    kymo_instr_text(s->in->arch, rec, text, sizeof text);
    parquet_row_int(b->out, KYMO_CORE_BARRIERS_START_TS, row->start);
    parquet_row_int(b->out, KYMO_CORE_BARRIERS_END_TS, row->end);
    parquet_row_int(b->out, KYMO_CORE_BARRIERS_DURATION_NS, row->end - row->start);
    parquet_row_string(b->out, KYMO_CORE_BARRIERS_ENGINE_NAME, kymo_engine_name((enum kymo_engine)st->engine));
    parquet_row_int(b->out, KYMO_CORE_BARRIERS_ID, row->id);
    if (kymo_layout_get(s->in->arch, rec, KYMO_F_DMA_SEM, &v))
        parquet_row_int(b->out, KYMO_CORE_BARRIERS_SEMAPHORE, (int64_t)v);
    parquet_row_int(b->out, KYMO_CORE_BARRIERS_COMPILER_PC, st->program->compiler_pc[st->slot]);
    parquet_row_string(b->out, KYMO_CORE_BARRIERS_COMPILER_OPCODE, kymo_opcode_name(rec[0], name, sizeof name));
    parquet_row_string(b->out, KYMO_CORE_BARRIERS_COMPILER_OPERANDS, text);
    parquet_row_int(b->out, KYMO_CORE_BARRIERS_PCORE_IDX, st->pcore);
    if (kymo_layout_get(s->in->arch, rec, KYMO_F_ID, &v))
        parquet_row_int(b->out, KYMO_CORE_BARRIERS_BARRIER_ID, (int64_t)v);
    return parquet_row_end(b->out, err);
}

static int barriers_instructions(void *ctx, const struct instr_row *rows, size_t n, struct kymo_err *err)
{
    struct barriers *b = ctx;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (!b->rows[rows[i].row])
            continue;
        if (!b->out)
            r = parquet_row_open(b->j->dir, kymo_schema_table(KYMO_T_CORE_BARRIERS), &b->j->parquet, &b->out, err);
        if (r == 0)
            r = put(b, &rows[i], err);
    }
    return r;
}

static int barriers_finish(void *ctx, struct warnings *w, struct kymo_err *err)
{
    struct barriers *b = ctx;
    struct parquet_row *out = b->out;
    (void)w;
    b->out = NULL;
    return out ? parquet_row_finish(out, err) : 0;
}

const struct consumer core_barriers_consumer = {
    .name = "core barriers",
    .open = barriers_open,
    .instructions = barriers_instructions,
    .finish = barriers_finish,
    .free = barriers_free,
};
