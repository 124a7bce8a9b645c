/*
 * Stack frame indexes of debug files, gathered into one list of files, functions, locations and frames. Ids count from
 * one, parent 0 is the root; within the list each index has its ids moved behind those before it.
 */
#ifndef KYMO_FORMATS_NEFF_NEFF_STACK_H
#define KYMO_FORMATS_NEFF_NEFF_STACK_H

#include "formats/neff/neff_internal.h"

/* Under construction; zeroed: empty. */
struct neff_stacks {
    const char **files, **functions;
    struct neff_location *locations;
    struct neff_frame *frames;
    size_t file_count, function_count, location_count, frame_count;
    size_t file_cap, function_cap, location_cap, frame_cap;
    struct neff_stack_source *sources; /* indexes already taken in: a shared file serves several subgraphs */
    size_t source_count, source_cap;
};

/* One index in the list: its frame k is frame base + k. */
struct neff_stack {
    uint32_t base, count; /* count 0: no index */
};

/* Takes an index in; data stays where it is while s lives. 0; -ENOMEM; -EPROTO when the bytes are no index; -ENOBUFS
 * when the list is full. */
int neff_stack_load(struct neff_load *l, struct neff_stacks *s, const uint8_t *data, size_t n, struct neff_stack *ret);
void neff_stacks_done(struct neff_stacks *s);
/* Into the package's own memory. 0 or -ENOMEM. */
int neff_stacks_keep(struct neff_load *l, const struct neff_stacks *s);
/* Id in the list of an index's frame; 0: it has none such. */
uint32_t neff_stack_frame(struct neff_stack stack, uint64_t frame);
/* File and line of a frame; false when it has none. */
bool neff_stack_find(const struct neff_stacks *s, uint32_t frame, const char **ret_file, int *ret_line);

#endif
