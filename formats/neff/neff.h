/*
 * Reads a NEFF: header, archive, neff.json, kelf, def.json, engine JSON, instruction streams, debug layers (facts:
 * neff.md; FORMAT.md beside this file). Everything is in memory and immutable after neff_open; all pointers live as
 * long as the neff. Unsafe paths, huge members and broken JSON are refused with file, member, offset and reason.
 * Nothing is ever unpacked to disk.
 */
#ifndef KYMO_FORMATS_NEFF_NEFF_H
#define KYMO_FORMATS_NEFF_NEFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"

#define NEFF_HEADER_SIZE 1024
#define NEFF_MEMBER_MAX (1ull << 31)
#define NEFF_TOTAL_MAX (4ull << 30)
#define NEFF_MEMBERS_MAX 65536
#define NEFF_NAME_MAX 4096

struct neff_header {
    uint64_t pkg_version, header_size, data_size, version_major, version_minor;
    char build_version[129];
    uint32_t num_tpb;
    uint8_t hash[32];
    uint8_t uuid[16];
    char name[257];
    uint32_t requested_tpb_count;
    uint8_t tpb_per_node[64];
    uint64_t feature_bits;
    uint32_t lnc_size;
};

/* Why a file is refused, for machines: X(id, name). The name is what tools print. */
#define NEFF_ERROR_MAP(X)                                                                                              \
    X(NONE, "none")                                                                                                    \
    X(IO, "io") /* cannot be read, or no memory for it */                                                              \
    X(EMPTY, "empty")                                                                                                  \
    X(SHORT_HEADER, "short_header")                                                                                    \
    X(UNKNOWN_PKG_VERSION, "unknown_pkg_version")                                                                      \
    X(BAD_HEADER_SIZE, "bad_header_size")                                                                              \
    X(DATA_TRUNCATED, "data_truncated")                                                                                \
    X(NOT_AN_ARCHIVE, "not_an_archive")                                                                                \
    X(GZIP_DAMAGED, "gzip_damaged")                                                                                    \
    X(TAR_DAMAGED, "tar_damaged")                                                                                      \
    X(MEMBER_TOO_LARGE, "member_too_large")                                                                            \
    X(UNSAFE_PATH, "unsafe_path")                                                                                      \
    X(LIMIT, "limit") /* more members, bytes or values than the limits here allow */                                   \
    X(MISSING_MEMBER, "missing_member")                                                                                \
    X(BAD_JSON, "bad_json")                                                                                            \
    X(BAD_STREAM_LENGTH, "bad_stream_length")                                                                          \
    X(HASH_MISMATCH, "hash_mismatch") /* never a refusal: see neff_hash_matches */

enum neff_error {
#define X(id, name) NEFF_ERROR_##id,
    NEFF_ERROR_MAP(X)
#undef X
        NEFF_ERROR_MAX,
};
const char *neff_error_name(enum neff_error e);

enum neff_hash_kind { NEFF_HASH_NONE, NEFF_HASH_MD5, NEFF_HASH_SHA256 };

struct neff_member {
    const char *name;
    const uint8_t *data; /* NULL: empty, or large and packed and not needed by anything here, so not held */
    size_t size;
};

struct neff_var {
    const char *name, *type, *file_name; /* type as in def.json; file_name may be NULL */
    int64_t var_id;                      /* -1: absent */
    uint64_t size;
    const char *shape, *format, *dtype; /* NULL when the file does not say */
};

struct neff_queue {
    const char *name, *type, *owner; /* type in, out, data, embedding_update, dynamic; owner engine key or NULL */
    unsigned num_queues;
    int semaphore; /* completion semaphore, -1: none */
    const char *const *instances;
    size_t instance_count;
};

#define NEFF_DMA_DIMS 4
struct neff_access { /* one side of a transfer: steps in bytes; sizes[0] element bytes, the rest counts */
    const char *variable;
    int64_t offset;
    unsigned step_count, size_count;
    int64_t steps[NEFF_DMA_DIMS];
    int64_t sizes[NEFF_DMA_DIMS];
    const char *dtype; /* uint8 by default */
};

struct neff_dma_block {
    uint32_t id;
    const char *queue;    /* instance_name when given, else queue */
    const char *function; /* NULL before any function_start of this queue set */
    const char *op;       /* copy when absent */
    struct neff_access from, to;
    uint64_t bytes;      /* product of from.sizes */
    int semaphore;       /* -1: none of its own */
    uint32_t desc_count; /* descriptors in the block, at least 1 */
    const int64_t *transpose_shape;
    unsigned transpose_dims;
    int64_t transpose_element_size; /* 0: none */
};

struct neff_engine {
    enum kymo_engine engine;
    const char *bin_name, *json_name; /* members; NULL: named by def.json and absent (code, blocks are then empty) */
    const uint8_t *code;              /* 64 * count bytes */
    size_t count;
    const struct neff_dma_block *blocks;
    size_t block_count;
};

/* One group of ranks that work together in a collective, and a layout: the groups that all ranks are divided into. */
struct neff_replica_set {
    const uint32_t *ranks;
    size_t count;
};
struct neff_replica_layout {
    const struct neff_replica_set *sets;
    size_t count;
};

struct neff_subgraph {
    const char *name, *definition;
    unsigned pcore_idx;
    const struct neff_queue *queues;
    size_t queue_count;
    const struct neff_var *vars;
    size_t var_count;
    const struct neff_engine *engines;
    size_t engine_count;
    unsigned world_size;                               /* ranks; 0: the file does not say */
    unsigned stream_count;                             /* of collectives */
    const struct neff_replica_layout *replica_layouts; /* by the group field of a collective */
    size_t replica_layout_count;
};

/* Call stacks of the framework, of all indexes in the package one behind the other. Ids count from 1; 0: none. */
struct neff_location {
    uint32_t file, function, line; /* numbers of names, from 1 */
};
struct neff_frame {
    uint32_t location, parent; /* parent 0: outermost */
};
struct neff_frames {
    const char *const *files, *const *functions;
    const struct neff_location *locations;
    const struct neff_frame *frames;
    uint32_t file_count, function_count, location_count, frame_count;
};

/* A record of the penguin, HLO or framework layer. Of several parents the first counts as the one above. */
struct neff_node {
    uint64_t id, parent_id;
    bool has_parent;
    const struct neff_node *parent; /* NULL: none, or its layer has no such record */
    const char *name;               /* NULL: it has none */
    const char *attributes;         /* key=value, commas between, the source's keys left out; NULL: none */
    const char *file;
    int line;       /* 0: none */
    uint32_t frame; /* innermost, in neff_frames; 0: none */
    const uint64_t *parents;
    size_t parent_count;
};

/* NKI kernels (FORMAT.md section 7). Indexes are those of the lists of struct neff_kernels, plus 1; 0: none. */
struct neff_kernel_scope { /* a call frame, a value of a loop variable, or a region */
    const char *name;      /* function with its module; variable; region */
    const char *file;      /* NULL: not said */
    int line;              /* 0: not said */
    int64_t value;         /* of a loop variable */
    uint32_t parent;       /* in the same list */
    uint32_t depth;        /* 1: outermost */
};
struct neff_kernel_instruction {
    const char *name; /* BIR name and penguin id, with a colon between */
    const char *file;
    int line;
    uint32_t frame, variable, region;
};
struct neff_kernels {
    const struct neff_kernel_scope *frames, *variables, *regions;
    const struct neff_kernel_instruction *instructions; /* by name */
    uint32_t frame_count, variable_count, region_count, instruction_count;
};

/* Debug record of one compiler instruction (asm layer joined with the backend layer); NULL fields are absent. */
struct neff_debug {
    uint64_t raw_bir_id;
    const char *bir_name; /* I-83-1_sg0001 */
    uint64_t raw_penguin_id;
    bool has_penguin;
    int kind;          /* 0 unknown, 1 regular, 2 spill, 3 transpose */
    const char *file;  /* source location from the attributes, with line */
    int line;          /* 0: none */
    const char *layer; /* framework path */
    const char *hlo_name;
    uint64_t raw_hlo_id, raw_framework_id;
    const uint64_t *dataflow_predecessors;
    const uint32_t *dataflow_kinds;
    size_t dataflow_count;
    const uint64_t *scheduling_predecessors;
    const uint32_t *scheduling_kinds;
    size_t scheduling_count;
    const struct neff_node *penguin, *hlo, *framework; /* NULL: the chain ends before */
    const uint32_t *frames;                            /* innermost frames, one per source operation; in neff_frames */
    size_t frame_count;
    const char *kernel_name;                      /* key of its kernel instruction; NULL: of no NKI kernel */
    const struct neff_kernel_instruction *kernel; /* in the subgraph's neff_kernels */
};

struct neff;

/* neff_open: a wrong hash is not fatal (see neff_hash_matches). flags: NEFF_NO_DEBUG skips the debug layers. */
enum { NEFF_NO_DEBUG = 1 };
int neff_open(const char *path, unsigned flags, struct neff **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Over memory; name is for messages. The bytes are copied as needed and not referred to afterwards. */
int neff_open_memory(const void *data, size_t n, const char *name, unsigned flags, struct neff **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Both of the above in one, telling the class of a refusal in *ret_class (NONE on success). data NULL: name is a path
 * to read. */
int neff_open_classified(const char *name, const void *data, size_t n, unsigned flags, struct neff **ret,
                         enum neff_error *ret_class, struct kymo_err *err) KYMO_MUST_CHECK;
struct neff *neff_free(struct neff *n);
void neff_freep(struct neff **n);

/* Header alone, from the first bytes of a file; -EPROTO with the reason when it is no NEFF header. */
int neff_header_parse(const uint8_t *data, size_t n, struct neff_header *ret, struct kymo_err *err) KYMO_MUST_CHECK;

const char *neff_path(const struct neff *n);
const struct neff_header *neff_get_header(const struct neff *n);
enum neff_hash_kind neff_hash_kind(const struct neff *n);
bool neff_hash_matches(const struct neff *n);
const uint8_t *neff_file_sha256(const struct neff *n); /* 32 bytes, whole file */
bool neff_is_gzip(const struct neff *n);
size_t neff_member_count(const struct neff *n);
const struct neff_member *neff_member(const struct neff *n,
                                      size_t i); /* by name; what the runtime ignores is left out */
const struct neff_member *neff_find_member(const struct neff *n, const char *name);
const char *neff_kelf_name(const struct neff *n);
const char *neff_target(const struct neff *n);           /* "*", v2, sunda, ... ; NULL: absent */
const char *neff_compiler_version(const struct neff *n); /* NULL: absent */
int64_t neff_mac_count(const struct neff *n);            /* hlo_stats.json; -1: absent */
size_t neff_subgraph_count(const struct neff *n);
const struct neff_subgraph *neff_subgraph(const struct neff *n, size_t i);                    /* by physical core */
const struct neff_subgraph *neff_subgraph_of_pcore(const struct neff *n, unsigned pcore_idx); /* NULL: none */
/* NULL: no debug layer, or it has no record for it. */
const struct neff_debug *neff_debug_of(const struct neff *n, const struct neff_subgraph *sg, enum kymo_engine engine,
                                       size_t compiler_pc);
bool neff_has_debug(const struct neff *n);
const struct neff_frames *neff_get_frames(const struct neff *n); /* empty: no stack frame index */
/* NKI kernels of a subgraph; NULL: none. Subgraphs may share one. */
const struct neff_kernels *neff_kernels_of(const struct neff *n, const struct neff_subgraph *sg);
/* Things worth telling that did not stop reading (absent members named by JSON, wrong hash, ...). */
size_t neff_note_count(const struct neff *n);
const char *neff_note(const struct neff *n, size_t i);

/* Feature bits: name of one bit (kymo's wording; explorer's where known), NULL when no fact names it. */
const char *neff_feature_name(uint64_t bit);
const char *neff_feature_explorer_name(uint64_t bit);
/* Bits that the runtime of 2.31 takes; it refuses major 2 with any other, and any major above 2 (class C). */
#define NEFF_FEATURES_RUNTIME_2_31 0x7FFFFFFull
bool neff_refused_by_runtime_2_31(const struct neff_header *h);

#endif
