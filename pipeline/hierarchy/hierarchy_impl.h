/* Shared by hierarchy.c, hierarchy_layers.c, hierarchy_rows.c and framework_nodes.c alone. */
#ifndef KYMO_PIPELINE_HIERARCHY_HIERARCHY_IMPL_H
#define KYMO_PIPELINE_HIERARCHY_HIERARCHY_IMPL_H

#include "pipeline/formulas/intervals.h"
#include "pipeline/instructions/calls.h"
#include "pipeline/job.h"

#define HIER_NONE UINT32_MAX

enum hier_layer { HIER_BIR, HIER_PENGUIN, HIER_HLO, HIER_FRAMEWORK, HIER_LAYERS };

/* What is known of a record before anything ran. */
struct hier_record {
    const struct neff *neff;
    const struct neff_node *node;   /* NULL: a BIR record */
    const struct neff_debug *debug; /* BIR: itself; else one below it */
    uint32_t above;                 /* record of the next layer, HIER_NONE: none */
    uint8_t pcore;
};

/* What one execution of a static row adds. */
struct hier_weight {
    uint32_t record; /* BIR; HIER_NONE: without a debug record */
    uint16_t function;
    uint8_t engine, cores; /* cores: bit of its physical core */
    bool has_memory;
    uint32_t channels;
    uint64_t hbm_read, hbm_write, sbuf_read, sbuf_write, weights, elements, transposed;
};

struct hier_sums {
    int64_t start, end; /* meaningful when any */
    bool any, has_memory;
    uint8_t cores; /* bit k: physical core k took part */
    uint64_t hbm_read, hbm_write, sbuf_read, sbuf_write, weights, elements, transposed;
    uint64_t count[KYMO_ENGINE_MAX], channels[KYMO_ENGINE_MAX];
    int64_t shortest[KYMO_ENGINE_MAX], longest[KYMO_ENGINE_MAX];
    struct intervals busy;
};

/* One row: a record in one call of its function. ids: of all layers, those below from the earliest member; -1: none. */
struct hier_item {
    uint32_t record, call;
    int64_t ids[HIER_LAYERS];
    struct hier_sums sums;
};

struct hier_items {
    struct hier_item *list;
    size_t count, cap, limit; /* of busy spans of each */
};

struct hierarchy {
    const struct job *job;
    struct hier_weight *weights; /* per static row */
    struct hier_record *records[HIER_LAYERS];
    size_t record_count[HIER_LAYERS];
    struct hier_items items; /* of BIR: the first ones are call 0 of each record */
    uint32_t **calls_of;     /* per BIR record: item of each further call, by number; NULL: none */
    bool has_functions;
    struct calls calls;
    size_t without[HIER_LAYERS]; /* BIR records whose chain ends below this layer; BIR: static rows without a record */
    size_t coarse;               /* rows whose spans were joined */
    size_t cut;                  /* rows whose lists of names were cut */
};

/* hierarchy_layers.c: records of all layers, and the weights. */
int hierarchy_find_records(struct hierarchy *h, struct kymo_err *err) KYMO_MUST_CHECK;
/* The items of a layer from those of the layer below, whose span lists are freed. */
int hierarchy_roll_up(const struct hierarchy *h, enum hier_layer layer, struct hier_items *below,
                      struct hier_items *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void hier_items_done(struct hier_items *items);
/* Adds b, but its busy spans. */
void hier_sums_add(struct hier_sums *a, const struct hier_sums *b);

/* hierarchy_rows.c: one table; sorts items by start. */
int hierarchy_write(struct hierarchy *h, enum hier_layer layer, struct hier_items *items,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* framework_nodes.c: FrameworkNode from the framework's items. */
int hierarchy_write_nodes(struct hierarchy *h, const struct hier_items *items, struct kymo_err *err) KYMO_MUST_CHECK;

const char *hier_record_name(const struct hier_record *r); /* "": it has none */

#endif
