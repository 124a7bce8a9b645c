/*
 * Where an instruction comes from, as text: columns of Instruction that rest on the compiler's records. Found once per
 * static row.
 */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_INSTR_SOURCE_H
#define KYMO_PIPELINE_INSTRUCTIONS_INSTR_SOURCE_H

#include "pipeline/instructions/statics.h"

#define INSTR_SOURCE_TEXT_MAX 4096
#define INSTR_SOURCE_CHAIN_MAX 32768

struct instr_source {
    const char *executed_by; /* sequencer, compute; NULL: the opcode is not known */
    const char *kernel_name, *hlo_attrs, *operator_name, *nki_region; /* NULL: none */
    char stack_frames[INSTR_SOURCE_TEXT_MAX];                         /* [1, 2]; "": none, as in those below */
    char nki_location[INSTR_SOURCE_TEXT_MAX];                         /* file:line */
    char nki_path[INSTR_SOURCE_TEXT_MAX];                             /* regions, outermost first, slashes between */
    char chain[INSTR_SOURCE_CHAIN_MAX];
};

/*
 * The operator is the path of the framework operator; without a framework layer the HLO instruction's name, else the
 * outermost function of the NKI kernel. Instructions of the runtime, and those of which no layer says where they come
 * from, have none (G). A chain is a record of the compiler's with those that continue it.
 */
void instr_source_find(const struct statics *s, const struct static_row *row, const struct static_facts *facts,
                       struct instr_source *ret);

#endif
