/*
 * Compiler edges from execution to execution, for one core. Called in the order in which instructions begin to run.
 *
 * Rule (ours, G): an edge stays within one execution of the NEFF. When both ends lie in the same loop, both run equally
 * often, and the n-th run of the later one is linked to the n-th run of the earlier one; to the run before it where the
 * earlier one stands further on in the program, so that the edge goes round the loop. In all other cases it is linked
 * to the latest run that began before it. It leaves the last instruction of that run that began before the later one
 * does; when none has, another instruction of the later one is where the edge holds. Where records were lost since,
 * there is no edge; runs in a loop are then not counted any more until the next execution. Plain data; memory by static
 * row.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_COMPILER_H
#define KYMO_PIPELINE_FLOW_FLOW_COMPILER_H

#include "pipeline/flow/flow_static.h"

#define FLOW_RUNS                                                                                                      \
    16 /* of one instruction in a loop that are remembered: how far engines may run ahead of each other                \
        */

struct flow_launch { /* what an instruction started: a transfer or a collective */
    int64_t id, end; /* id -1: nothing; end: ns */
    uint8_t table;   /* enum flow_table */
};

struct flow_run {
    int64_t id, end; /* ns */
    struct flow_launch launched;
    uint32_t number;           /* of the BIR instruction's runs in the execution */
    uint32_t execution, epoch; /* execution 0: not used */
};

struct flow_counter {
    uint32_t execution, runs;
};

struct flow_compiler {
    const struct flow_static *facts;
    struct flow_counter *counters; /* by static row; only rows in loops are counted */
    struct flow_run *runs;
    uint32_t *first;           /* by tail, into runs: one run, or FLOW_RUNS in a loop, by number modulo that */
    uint32_t *latest;          /* by tail: number of its latest run */
    uint32_t execution, epoch; /* from 1; an epoch ends where records were lost */
    uint32_t broken;           /* execution in which loops are not counted any more; 0: none */
    uint64_t left_out;         /* edges not known because records were lost, or engines ran too far ahead */
};

int flow_compiler_open(struct flow_compiler *c, const struct flow_static *facts, struct kymo_err *err) KYMO_MUST_CHECK;
void flow_compiler_done(struct flow_compiler *c);
void flow_compiler_execution(struct flow_compiler *c); /* another execution begins */
void flow_compiler_lost(struct flow_compiler *c);      /* records were lost here */
/* Number that the next run of a row will have in its execution; 0 outside loops. */
uint32_t flow_compiler_number(const struct flow_compiler *c, uint32_t row);
/* The run that an edge into run `number` of a row leaves; NULL: none. To be asked before that run is noted itself. */
const struct flow_run *flow_compiler_find(struct flow_compiler *c, uint32_t row, uint32_t number,
                                          const struct flow_pred *pred);
/* One instruction begins: counts it, and keeps it for edges that leave it. run: all but number, execution, epoch. */
void flow_compiler_note(struct flow_compiler *c, uint32_t row, const struct flow_run *run);

#endif
