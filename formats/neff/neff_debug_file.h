/* Which member is a debug file, of what layer, engine and part: two layouts are known, see FORMAT.md section 6. */
#ifndef KYMO_FORMATS_NEFF_NEFF_DEBUG_FILE_H
#define KYMO_FORMATS_NEFF_NEFF_DEBUG_FILE_H

#include "formats/neff/neff_internal.h"

enum neff_layer {
    NEFF_LAYER_STACK, /* stack_frame_index */
    NEFF_LAYER_FRAMEWORK,
    NEFF_LAYER_HLO,
    NEFF_LAYER_PENGUIN,
    NEFF_LAYER_BACKEND,
    NEFF_LAYER_ASM,
    NEFF_LAYER_MAX,
};

struct neff_debug_file {
    const struct neff_member *member;
    enum neff_layer layer;
    enum kymo_engine engine; /* INVALID: the name tells none */
    unsigned part;
    bool shared; /* lies in no subgraph's folder: holds records of all of them */
};

/*
 * The debug files that belong to a subgraph, in the order of the enum, then by engine and part: those in its own folder
 * and those in no subgraph's folder. Into fresh memory.
 */
int neff_debug_files(struct neff_load *l, const struct neff_subgraph *sg, struct neff_debug_file **ret,
                     size_t *ret_n) KYMO_MUST_CHECK;

#endif
