/*
 * Who WindowSums tells of: tracks, engines, operations (what an engine does for an operator), and the nodes of the tree
 * of operators. Each is known by a number; names are dictionary ids of the table's columns. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_LOD_WINDOW_SUBJECTS_H
#define KYMO_PIPELINE_LOD_WINDOW_SUBJECTS_H

#include "formats/parquet/parquet_writer.h"
#include "pipeline/instructions/instr_source.h"
#include "pipeline/job.h"

#define WINDOW_DEPTH_MAX 32 /* segments of an operator's path that have a node of their own */
#define WINDOW_TREE_MAX                                                                                                \
    (WINDOW_DEPTH_MAX + 2) /* nodes that an operation is in: those, its HLO operation and its opcode */
#define WINDOW_NONE UINT32_MAX

/* In the order of the table. */
enum window_kind {
    WINDOW_DMA, /* all packets */
    WINDOW_DMA_ENGINE,
    WINDOW_DMA_QUEUE,
    WINDOW_DMA_TRANSFER,
    WINDOW_HOST_DMA,
    WINDOW_ENGINE,
    WINDOW_INSTRUCTION, /* tracks of instructions */
    WINDOW_SPLIT,
    WINDOW_OPERATION,
    WINDOW_OPERATOR, /* of the tree: a path up to some segment; no name: what has no operator */
    WINDOW_HLO,
    WINDOW_OPCODE,
    WINDOW_KINDS
};

enum window_name {
    WINDOW_TRACK,
    WINDOW_SPLIT_TRACK,
    WINDOW_PCORE,
    WINDOW_ENGINE_NAME,
    WINDOW_OPCODE_NAME,
    WINDOW_OPERATOR_NAME,
    WINDOW_HLO_NAME,
    WINDOW_QUEUE_NAME,
    WINDOW_NAMES
};

struct window_subject {
    enum window_kind kind;
    uint32_t names[WINDOW_NAMES]; /* PARQUET_NULL: none */
    /* Not of its identity. up: the node of the tree above it, of an operation its own; WINDOW_NONE: none. The others
     * are an operation's. */
    uint32_t up, engine, track, split;
};

struct window_subjects;

/* Names go to this writer of WindowSums, which outlives it. */
int window_subjects_open(const struct job *j, struct parquet_writer *writer, struct window_subjects **ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;
struct window_subjects *window_subjects_free(struct window_subjects *s);
size_t window_subjects_count(const struct window_subjects *s);
/* Valid until another is added. */
const struct window_subject *window_subjects_at(const struct window_subjects *s, uint32_t subject);

/* The nodes of the tree that the subject is in, from the nearest up; up to WINDOW_TREE_MAX. Returns how many. */
size_t window_subjects_above(const struct window_subjects *s, const struct window_subject *subject, uint32_t *ret);

/* Each gives the subject's number, a new one where it was not known. phys: a hardware queue; set, DMA_NONE: not known.
 */
int window_subjects_packets(struct window_subjects *s, enum window_kind kind, uint32_t phys, uint32_t set,
                            uint32_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
int window_subjects_transfers(struct window_subjects *s, uint32_t set, unsigned pcore, uint32_t *ret,
                              struct kymo_err *err) KYMO_MUST_CHECK;
int window_subjects_host(struct window_subjects *s, uint32_t ring, uint32_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The operation, with all that belongs to it. */
int window_subjects_operation(struct window_subjects *s, const struct static_row *row, const struct static_facts *facts,
                              uint32_t *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
