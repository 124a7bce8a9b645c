/* What kymo neff inspect prints. Both forms say the same; numbers beyond 2^53 are text in JSON. */
#ifndef KYMO_TOOLS_NEFF_PRINT_H
#define KYMO_TOOLS_NEFF_PRINT_H

#include <stdio.h>

#include "formats/neff/neff.h"

struct neff_print {
    const struct neff *neff;
    const struct kymo_arch *arch; /* operand layouts */
    enum kymo_engine engine;      /* INVALID: all */
    bool instructions;
};

/* 0 or a negative errno; errors of the stream itself are left in it (ferror). */
int neff_print_text(const struct neff_print *p, FILE *out);
int neff_print_json(const struct neff_print *p, FILE *out);

/* How far the debug layers reach for one engine. */
struct neff_debug_reach {
    size_t records, sources, hlo, layers, edges;
};
struct neff_debug_reach neff_debug_reach(const struct neff *n, const struct neff_subgraph *sg,
                                         const struct neff_engine *e);

/* Instructions by opcode number. */
void neff_opcode_counts(const struct neff_engine *e, size_t counts[256]);

#endif
