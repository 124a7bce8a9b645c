/* Stack frame index of a debug file: frame ids to file and line. Ids count from one, parent 0 is the root. */
#ifndef KYMO_FORMATS_NEFF_NEFF_STACK_H
#define KYMO_FORMATS_NEFF_NEFF_STACK_H

#include "formats/neff/neff_wire.h"
#include "proto/neff_debug.pb-c.h"

struct neff_stack {
    Neuroncc__DebugInfo__StackFrameIndex *index; /* NULL: none */
};

/* 0; -ENOMEM; -EPROTO when the bytes are no index. */
int neff_stack_load(struct neff_stack *s, const uint8_t *data, size_t n);
void neff_stack_done(struct neff_stack *s);
/* Innermost frame; false when the index does not have it. *ret_file lives as long as s. */
bool neff_stack_find(const struct neff_stack *s, uint64_t frame, const char **ret_file, int *ret_line);

#endif
