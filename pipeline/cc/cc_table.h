/*
 * The collectives that a profile's programs know: what the NTFF says of each (kind, algorithm, elements, stream) and
 * what the NEFF adds (replica groups, the engine that triggers it, the semaphore that its end counts up). Immutable
 * once open; nothing here depends on how often a collective ran.
 */
#ifndef KYMO_PIPELINE_CC_CC_TABLE_H
#define KYMO_PIPELINE_CC_CC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/input.h"

#define CC_NONE UINT32_MAX
#define CC_STREAMS_PER_NODE 64 /* stream_id is the NEFF's place times this, plus stream_index */

struct cc_op {
    uint32_t node;
    int64_t op_id, num_elements, input_size, output_size; /* sizes -1: not known */
    int64_t stream_index, stream_id;
    int64_t layout, rank,
        ranks; /* replica group layout; rank among all ranks of the job, -1: not known; of its group */
    uint8_t kind, dtype;
    int8_t engine;     /* that triggers it; -1: not known */
    uint8_t pcore;     /* of which the programs tell of it */
    int16_t semaphore; /* of that core, which it counts up when it is done; -1: none, or not known */
    char operation[24], algorithm[24], dtype_name[16];
    const char *replica_group; /* NULL: not known */
};

struct cc_stream {
    int64_t stream_id, stream_index;
    uint32_t node;
    const uint64_t *cores; /* the NTFF's */
    size_t core_count;
};

struct cc_table {
    struct cc_op *ops;
    size_t count, cap;
    struct cc_stream *streams;
    size_t stream_count, stream_cap;
    uint32_t first[INPUT_NODES_MAX + 1]; /* ops of node n: [first[n], first[n + 1]) */
    char **texts;                        /* of replica groups */
    size_t text_count, text_cap;
};

int cc_table_open(struct cc_table *t, const struct input *in, struct kymo_err *err) KYMO_MUST_CHECK;
void cc_table_done(struct cc_table *t);
/* By place in the node's cc_op_info, as records number them; by op_id. CC_NONE: none. */
uint32_t cc_table_at(const struct cc_table *t, uint32_t node, uint32_t place);
uint32_t cc_table_find(const struct cc_table *t, uint32_t node, uint64_t op_id);

#endif
