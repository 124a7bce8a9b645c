/* Loops of the programs, from backward branches (flow_static.h says which bodies are one loop). Inside of flow_static.
 */
#ifndef KYMO_PIPELINE_FLOW_FLOW_LOOPS_H
#define KYMO_PIPELINE_FLOW_FLOW_LOOPS_H

#include "pipeline/instructions/statics.h"

struct flow_loop { /* a body on one engine */
    const struct program *program;
    int64_t first, last;            /* slots */
    uint64_t bir_first, bir_last;   /* of its instructions; first > last: none */
    uint64_t condition;             /* of its branch: operation and value */
    uint32_t number, parent, depth; /* parent: the body around it plus 1, 0: none */
};

struct flow_mark { /* a BIR instruction, and how many bodies are around it */
    uint64_t bir;
    uint32_t node, level;
    uint8_t pcore;
};

struct flow_loops {
    struct flow_loop *list; /* by program, then first slot */
    size_t count, cap;
    struct flow_mark *marks;
    size_t mark_count;
};

int flow_loops_open(struct flow_loops *l, const struct kymo_arch *arch, const struct statics *statics,
                    struct kymo_err *err) KYMO_MUST_CHECK;
void flow_loops_done(struct flow_loops *l);
/* The BIR instruction of a row, each row once: extends the body it lies in. */
void flow_loops_note(struct flow_loops *l, const struct static_row *row, uint64_t bir);
/* Numbers the loops; once, after all notes. */
int flow_loops_join(struct flow_loops *l, struct kymo_err *err) KYMO_MUST_CHECK;
/* Number of the innermost loop around a row, 0: none. */
uint32_t flow_loops_find(const struct flow_loops *l, const struct static_row *row);

#endif
