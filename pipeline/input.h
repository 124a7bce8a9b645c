/*
 * The inputs of one profile: an NTFF, the NEFFs offered for it, and the capture's manifest. Only an NTFF that cannot be
 * read, or is not the one that the manifest lists, is fatal; a NEFF that cannot be read or does not belong is left out
 * with a warning.
 */
#ifndef KYMO_PIPELINE_INPUT_H
#define KYMO_PIPELINE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "formats/neff/neff.h"
#include "formats/ntff/ntff_reader.h"
#include "pipeline/warnings.h"
#include "proto/manifest.pb-c.h"

#define INPUT_NEFFS_MAX 256
#define INPUT_NODES_MAX 64
#define INPUT_CORES_MAX 2

struct input_node { /* one NEFF of the NTFF */
    const Ntff__NeffNodeInfo *info;
    unsigned position;                                /* in ntff_info.neff_nodes */
    const Ntff__SubgraphInfo *graph[INPUT_CORES_MAX]; /* by pcore_idx; NULL: not there */
    const struct neff *neff;                          /* NULL: decode without it */
};

struct input {
    struct ntff_reader *ntff;
    const Ntff__NtffInfo *info;
    const struct kymo_arch *arch;
    unsigned cores; /* physical cores of the logical core */
    struct neff *neffs[INPUT_NEFFS_MAX];
    size_t neff_count;
    bool neff_unreadable; /* one that was offered could not be read */
    struct input_node *nodes;
    size_t node_count;
    Kymo__Manifest__Capture *manifest; /* NULL: none given */
};

/* -ENODATA: the NTFF has 0 bytes. */
int input_open(const char *ntff, const char *const *neffs, size_t neff_count, const char *manifest,
               struct warnings *warnings, struct input **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct input *input_free(struct input *in);
void input_freep(struct input **in);

/* The image of one engine on one core; NULL: the node has none. */
const Ntff__EngineInstructionInfo *input_engine(const struct input_node *node, unsigned pcore, enum kymo_engine engine);
/* The NEFF's subgraph that runs on a core; NULL: no NEFF, or it has none for this core. */
const struct neff_subgraph *input_subgraph(const struct input *in, uint32_t node, unsigned pcore);
/* 32 hex digits into out (33 bytes); "none" when the node has no uuid. */
void input_node_uuid(const struct input_node *node, char out[33]);

#endif
