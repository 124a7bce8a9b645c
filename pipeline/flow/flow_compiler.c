#include "pipeline/flow/flow_compiler.h"

#include <errno.h>

#include "base/alloc.h"

int flow_compiler_open(struct flow_compiler *c, const struct flow_static *facts, struct kymo_err *err)
{
    *c = (struct flow_compiler){.facts = facts, .execution = 1, .epoch = 1};
    size_t runs = 0;
    c->counters = KYMO_NEW_ARRAY(struct flow_counter, facts->count + 1);
    c->first = KYMO_NEW_ARRAY(uint32_t, facts->tail_count + 1);
    c->latest = KYMO_NEW_ARRAY(uint32_t, facts->tail_count + 1);
    for (size_t i = 0; c->first && i < facts->tail_count; i++) {
        c->first[i] = (uint32_t)runs;
        runs += facts->tail_loop[i] ? FLOW_RUNS : 1;
    }
    c->runs = KYMO_NEW_ARRAY(struct flow_run, runs + 1);
    if (c->counters && c->first && c->latest && c->runs)
        return 0;
    flow_compiler_done(c);
    return kymo_err_set(err, -ENOMEM, "no memory for the dependencies of %zu instructions", facts->count);
}

void flow_compiler_done(struct flow_compiler *c)
{
    kymo_free(c->counters);
    kymo_free(c->first);
    kymo_free(c->latest);
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

/* Of one loop. A later run in its place means that engines ran too far apart. */
static const struct flow_run *find_numbered(struct flow_compiler *c, uint32_t tail, uint32_t number)
{
    const struct flow_run *run = &c->runs[c->first[tail] + number % FLOW_RUNS];
    bool here = run->execution == c->execution && c->broken != c->execution;
    c->left_out += c->broken == c->execution || (here && run->number > number);
    return here && run->number == number ? run : NULL;
}

const struct flow_run *flow_compiler_find(struct flow_compiler *c, uint32_t row, uint32_t number,
                                          const struct flow_pred *pred)
{
    uint32_t loop = c->facts->tail_loop[pred->tail];
    if (loop && loop == c->facts->rows[row].loop)
        return !pred->comes_later ? find_numbered(c, pred->tail, number)
               : number           ? find_numbered(c, pred->tail, number - 1)
                                  : NULL;
    const struct flow_run *run = &c->runs[c->first[pred->tail] + (loop ? c->latest[pred->tail] % FLOW_RUNS : 0)];
    if (run->execution == c->execution && run->epoch == c->epoch)
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
    bool loop = c->facts->tail_loop[r->tail];
    struct flow_run *to = &c->runs[c->first[r->tail] + (loop ? number % FLOW_RUNS : 0)];
    bool same = to->execution == c->execution && to->epoch == c->epoch && to->number == number;
    struct flow_run old = *to;
    *to = *run;
    if (same && run->launched.id < 0) /* another instruction of this run started it */
        to->launched = old.launched;
    to->number = number;
    to->execution = c->execution;
    to->epoch = c->epoch;
    c->latest[r->tail] = number;
}
