#include "pipeline/flow_compiler.h"

#include <errno.h>

#include "base/alloc.h"

static uint32_t depth_of(const struct flow_static *f, uint32_t tail)
{
    return f->rows[f->tail_row[tail]].loop ? FLOW_RUNS : 1;
}

int flow_compiler_open(struct flow_compiler *c, const struct flow_static *facts, struct kymo_err *err)
{
    *c = (struct flow_compiler){.facts = facts, .execution = 1, .epoch = 1};
    size_t runs = 0;
    c->counters = KYMO_NEW_ARRAY(struct flow_counter, facts->count + 1);
    c->first = KYMO_NEW_ARRAY(uint32_t, facts->tail_count + 1);
    c->seen = KYMO_NEW_ARRAY(uint32_t, facts->tail_count + 1);
    for (size_t i = 0; c->first && i < facts->tail_count; i++) {
        c->first[i] = (uint32_t)runs;
        runs += depth_of(facts, (uint32_t)i);
    }
    c->runs = KYMO_NEW_ARRAY(struct flow_run, runs + 1);
    if (c->counters && c->first && c->seen && c->runs)
        return 0;
    flow_compiler_done(c);
    return kymo_err_set(err, -ENOMEM, "no memory for the dependencies of %zu instructions", facts->count);
}

void flow_compiler_done(struct flow_compiler *c)
{
    kymo_free(c->counters);
    kymo_free(c->first);
    kymo_free(c->seen);
    kymo_free(c->runs);
    *c = (struct flow_compiler){0};
}

void flow_compiler_execution(struct flow_compiler *c)
{
    c->execution++;
}

void flow_compiler_lost(struct flow_compiler *c)
{
    c->epoch++;
    c->broken = c->execution;
}

uint32_t flow_compiler_number(const struct flow_compiler *c, uint32_t row)
{
    const struct flow_counter *n = &c->counters[row];
    return n->execution == c->execution ? n->runs : 0;
}

/* Of one loop: the latest run that is not beyond number. */
static const struct flow_run *find_numbered(struct flow_compiler *c, uint32_t tail, uint32_t number)
{
    uint32_t seen = c->seen[tail], held = seen < FLOW_RUNS ? seen : FLOW_RUNS;
    if (c->broken == c->execution) {
        c->left_out++;
        return NULL;
    }
    for (uint32_t k = 1; k <= held; k++) {
        const struct flow_run *run = &c->runs[c->first[tail] + (seen - k) % FLOW_RUNS];
        if (run->execution != c->execution)
            return NULL;
        if (run->number <= number)
            return run;
    }
    c->left_out += seen > held;
    return NULL;
}

const struct flow_run *flow_compiler_find(struct flow_compiler *c, uint32_t row, uint32_t number,
                                          const struct flow_pred *pred)
{
    const struct flow_row *from = &c->facts->rows[c->facts->tail_row[pred->tail]];
    uint32_t seen = c->seen[pred->tail];
    if (from->loop && from->loop == c->facts->rows[row].loop)
        return find_numbered(c, pred->tail, number);
    const struct flow_run *run =
        seen ? &c->runs[c->first[pred->tail] + (from->loop ? (seen - 1) % FLOW_RUNS : 0)] : NULL;
    bool here = run && run->execution == c->execution;
    if (here && run->epoch == c->epoch)
        return run;
    c->left_out += c->broken == c->execution;
    return NULL;
}

void flow_compiler_note(struct flow_compiler *c, uint32_t row, const struct flow_run *run)
{
    const struct flow_row *r = &c->facts->rows[row];
    uint32_t number = flow_compiler_number(c, row);
    if (r->loop)
        c->counters[row] = (struct flow_counter){c->execution, number + 1};
    if (r->tail == FLOW_NONE)
        return;
    struct flow_run *to = &c->runs[c->first[r->tail] + (r->loop ? c->seen[r->tail] % FLOW_RUNS : 0)];
    *to = *run;
    to->number = number;
    to->execution = c->execution;
    to->epoch = c->epoch;
    c->seen[r->tail]++;
}
