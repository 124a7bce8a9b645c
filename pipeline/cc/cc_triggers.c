#include "pipeline/cc/cc_triggers.h"

#include <errno.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/instructions/instr_stream.h"

#define KEPT 4 /* triggers of one op; all but the latest that was over are of no use */

struct kept {
    struct cc_trigger list[KEPT];
    unsigned count;
};

struct engine {
    uint64_t last_ps, gap_ps; /* latest event; that before the latest loss */
    bool gap;
};

struct cc_triggers {
    const struct job *j;
    struct instr_stream *stream;
    const struct instr_event *next; /* NULL: not read yet */
    bool ended;
    uint32_t *op_of_row; /* by static row; CC_NONE */
    struct kept *ops;    /* by op of the table */
    struct engine engines[INPUT_CORES_MAX][KYMO_ENGINE_MAX];
};

static bool map_rows(struct cc_triggers *t, const struct cc_table *table)
{
    const struct statics *s = &t->j->statics;
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct static_row *row = &s->rows[i];
        uint64_t id;
        const uint8_t *compiler =
            row->program && row->slot >= 0 ? program_compiler_record(row->program, (size_t)row->slot) : NULL;
        t->op_of_row[i] = CC_NONE;
        if (compiler && compiler[0] == KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE &&
            kymo_layout_get(s->in->arch, compiler, KYMO_F_ID, &id))
            t->op_of_row[i] = cc_table_find(table, row->program->node, id);
        any |= t->op_of_row[i] != CC_NONE;
    }
    return any;
}

int cc_triggers_open(const struct job *j, const struct cc_table *table, struct cc_triggers **ret, struct kymo_err *err)
{
    *ret = NULL;
    struct cc_triggers *t = KYMO_NEW(struct cc_triggers);
    if (t) {
        t->j = j;
        t->op_of_row = KYMO_NEW_ARRAY(uint32_t, j->statics.count + 1);
        t->ops = KYMO_NEW_ARRAY(struct kept, table->count + 1);
    }
    if (!t || !t->op_of_row || !t->ops) {
        cc_triggers_free(t);
        return kymo_err_set(err, -ENOMEM, "no memory for the triggers of collectives");
    }
    if (!map_rows(t, table)) {
        cc_triggers_free(t);
        return 0;
    }
    int r = instr_stream_open(j->in, &j->scan, &j->statics, &j->timeline, &t->stream, err);
    if (r < 0) {
        cc_triggers_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

struct cc_triggers *cc_triggers_free(struct cc_triggers *t)
{
    if (!t)
        return NULL;
    instr_stream_free(t->stream);
    kymo_free(t->op_of_row);
    kymo_free(t->ops);
    kymo_free(t);
    return NULL;
}

static void keep(struct kept *k, const struct instr_event *e)
{
    if (k->count == KEPT)
        memmove(k->list, k->list + 1, (--k->count) * sizeof *k->list);
    k->list[k->count++] = (struct cc_trigger){.start_ps = e->has_start ? e->start_ps : e->end_ps,
                                              .end_ps = e->has_end ? e->end_ps : e->start_ps,
                                              .row = e->row,
                                              .pcore = e->pcore,
                                              .engine = e->engine,
                                              .has_start = e->has_start};
}

static void take(struct cc_triggers *t, const struct instr_event *e)
{
    struct engine *g = &t->engines[e->pcore][e->engine];
    if (e->gap) {
        g->gap = true;
        g->gap_ps = g->last_ps;
        return;
    }
    uint64_t ps = e->has_end ? e->end_ps : e->start_ps;
    g->last_ps = ps > g->last_ps ? ps : g->last_ps;
    if (t->op_of_row[e->row] != CC_NONE)
        keep(&t->ops[t->op_of_row[e->row]], e);
}

static uint64_t time_of(const struct instr_event *e)
{
    return e->has_start ? e->start_ps : e->end_ps;
}

/* Everything that began at or before ps. Losses go out with what stands before them. */
static int read_until(struct cc_triggers *t, uint64_t ps, struct kymo_err *err)
{
    for (;;) {
        if (!t->next && !t->ended) {
            int r = instr_stream_next(t->stream, &t->next, err);
            if (r < 0)
                return r;
            t->ended = r == 0;
        }
        if (t->ended || (!t->next->gap && time_of(t->next) > ps))
            return 0;
        take(t, t->next);
        t->next = NULL;
    }
}

int cc_triggers_find(struct cc_triggers *t, uint32_t op, uint64_t start_ps, struct cc_trigger *ret,
                     struct kymo_err *err)
{
    int r = read_until(t, start_ps, err);
    if (r < 0)
        return r;
    struct kept *k = &t->ops[op];
    unsigned n = k->count;
    while (n && k->list[n - 1].end_ps > start_ps)
        n--;
    if (!n)
        return 0;
    struct cc_trigger found = k->list[n - 1];
    /* What came before it has lost its chance. */
    memmove(k->list, k->list + n, (k->count - n) * sizeof *k->list);
    k->count -= n;
    const struct engine *g = &t->engines[found.pcore][found.engine];
    if (g->gap && g->gap_ps >= found.end_ps && g->gap_ps <= start_ps)
        return 0;
    *ret = found;
    return 1;
}
