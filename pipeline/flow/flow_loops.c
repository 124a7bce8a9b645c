#include "pipeline/flow/flow_loops.h"

#include <errno.h>
#include <stdlib.h>

#include "arch/opcode.h"
#include "base/alloc.h"

#define LOOPS_MAX (1u << 20)

static int by_place(const void *a, const void *b)
{
    const struct flow_loop *x = a, *y = b;
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->last > y->last ? -1 : x->last < y->last; /* the outer one first */
}

static int by_bir(const void *a, const void *b)
{
    const struct flow_loop *x = *(const struct flow_loop *const *)a, *y = *(const struct flow_loop *const *)b;
    if (x->program->node != y->program->node)
        return x->program->node < y->program->node ? -1 : 1;
    if (x->program->pcore != y->program->pcore)
        return x->program->pcore < y->program->pcore ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->bir_first < y->bir_first ? -1 : x->bir_first > y->bir_first;
}

static bool is_around(const struct flow_loop *outer, const struct flow_loop *at)
{
    return outer->program == at->program && outer->last >= at->last;
}

static void nest(struct flow_loops *l)
{
    if (l->count)
        qsort(l->list, l->count, sizeof *l->list, by_place);
    for (size_t i = 1; i < l->count; i++) {
        struct flow_loop *at = &l->list[i];
        uint32_t outer = (uint32_t)i;
        while (outer && !is_around(&l->list[outer - 1], at))
            outer = l->list[outer - 1].parent;
        at->parent = outer;
        at->depth = outer ? l->list[outer - 1].depth + 1 : 0;
    }
}

/* Branches that ran are static rows themselves. */
int flow_loops_open(struct flow_loops *l, const struct kymo_arch *arch, const struct statics *statics,
                    struct kymo_err *err)
{
    l->marks = KYMO_NEW_ARRAY(struct flow_mark, statics->count + 1);
    if (!l->marks)
        return kymo_err_set(err, -ENOMEM, "no memory for the loops of the programs");
    for (size_t i = 0; i < statics->count; i++) {
        const struct static_row *row = &statics->rows[i];
        int64_t target;
        if (!row->known || row->opcode != KYMO_OP_COMPARE_BRANCH ||
            !kymo_layout_get_int(arch, program_record(row->program, (size_t)row->slot), KYMO_F_TARGET, &target) ||
            target >= 0 || row->slot + target < 0)
            continue;
        uint64_t operation = 0, value = 0;
        (void)kymo_layout_get(arch, program_record(row->program, (size_t)row->slot), KYMO_F_BRANCH_OP, &operation);
        (void)kymo_layout_get(arch, program_record(row->program, (size_t)row->slot), KYMO_F_VALUE, &value);
        void *p = l->list;
        int r = kymo_grow(&p, &l->cap, l->count + 1, LOOPS_MAX, sizeof *l->list);
        l->list = p;
        if (r < 0)
            return kymo_err_set(err, r, "no memory for the loops of the programs");
        l->list[l->count++] = (struct flow_loop){.program = row->program,
                                                 .first = row->slot + target,
                                                 .last = row->slot,
                                                 .bir_first = UINT64_MAX,
                                                 .condition = operation << 32 | value};
    }
    nest(l);
    return 0;
}

void flow_loops_done(struct flow_loops *l)
{
    kymo_free(l->list);
    kymo_free(l->marks);
    *l = (struct flow_loops){0};
}

/* The innermost body: the last that begins at or before the slot, or one around it that has not ended. */
static struct flow_loop *innermost(const struct flow_loops *l, const struct static_row *row)
{
    size_t low = 0, high = l->count;
    const struct flow_loop key = {.program = row->program, .first = row->slot, .last = -1};
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (by_place(&l->list[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || l->list[low - 1].program != row->program)
        return NULL;
    while (low && l->list[low - 1].last < row->slot)
        low = l->list[low - 1].parent;
    return low ? &l->list[low - 1] : NULL;
}

void flow_loops_note(struct flow_loops *l, const struct static_row *row, uint64_t bir)
{
    struct flow_loop *at = innermost(l, row);
    l->marks[l->mark_count++] = (struct flow_mark){bir, row->program->node, at ? at->depth + 1 : 0, row->pcore};
    if (!at)
        return;
    at->bir_first = bir < at->bir_first ? bir : at->bir_first;
    at->bir_last = bir > at->bir_last ? bir : at->bir_last;
}

static int mark_order(const void *a, const void *b)
{
    const struct flow_mark *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->pcore != y->pcore)
        return x->pcore < y->pcore ? -1 : 1;
    return x->bir < y->bir ? -1 : x->bir > y->bir;
}

/* Some BIR instruction between the two is outside of bodies of this depth. */
static bool parted(const struct flow_loops *l, const struct flow_loop *at, uint64_t after)
{
    const struct flow_mark key = {.node = at->program->node, .pcore = (uint8_t)at->program->pcore, .bir = after};
    size_t low = 0, high = l->mark_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (mark_order(&l->marks[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < l->mark_count && l->marks[low].node == key.node && l->marks[low].pcore == key.pcore &&
           l->marks[low].bir < at->bir_first;
         low++)
        if (l->marks[low].level <= at->depth)
            return true;
    return false;
}

struct join { /* the loop that bodies are being joined to */
    const struct flow_loop *first;
    uint64_t end;
    unsigned engines;
};

static bool belongs(const struct flow_loops *l, const struct join *j, const struct flow_loop *at)
{
    const struct flow_loop *f = j->first;
    if (!f || f->program->node != at->program->node || f->program->pcore != at->program->pcore ||
        f->depth != at->depth || f->condition != at->condition || j->engines >> at->program->engine & 1)
        return false;
    return at->bir_first <= j->end || !parted(l, at, j->end);
}

int flow_loops_join(struct flow_loops *l, struct kymo_err *err)
{
    const struct flow_loop **order KYMO_FREE = KYMO_NEW_ARRAY(const struct flow_loop *, l->count + 1);
    if (!order)
        return kymo_err_set(err, -ENOMEM, "no memory for the loops of the programs");
    size_t n = 0;
    uint32_t number = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->list[i].bir_first <= l->list[i].bir_last)
            order[n++] = &l->list[i];
    if (n)
        qsort(order, n, sizeof *order, by_bir);
    if (l->mark_count)
        qsort(l->marks, l->mark_count, sizeof *l->marks, mark_order);
    struct join j = {0};
    for (size_t i = 0; i < n; i++) {
        struct flow_loop *at = &l->list[order[i] - l->list];
        if (!belongs(l, &j, at)) {
            j = (struct join){.first = at};
            number++;
        }
        j.end = j.end > at->bir_last ? j.end : at->bir_last;
        j.engines |= 1u << at->program->engine;
        at->number = number;
    }
    return 0;
}

uint32_t flow_loops_find(const struct flow_loops *l, const struct static_row *row)
{
    const struct flow_loop *at = innermost(l, row);
    return at ? at->number : 0;
}
