/*
 * The schema: tables and columns, generated from schema.tsv beside this file (the one source of column definitions, of
 * SchemaFields, docs and checks). Constant data.
 */
#ifndef KYMO_FORMATS_SCHEMA_SCHEMA_H
#define KYMO_FORMATS_SCHEMA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KYMO_SCHEMA_VERSION "7.4.0" /* the vendor's; Metadata.profile_schema_version */
/* Metadata.kymo_schema_version. 1.2.0: WindowSums has waits to their end where counters came to theirs. */
#define KYMO_SCHEMA_OWN_VERSION "1.2.0"

enum kymo_type {
    KYMO_TYPE_INT64,
    KYMO_TYPE_INT32,
    KYMO_TYPE_FLOAT,
    KYMO_TYPE_DOUBLE,
    KYMO_TYPE_BOOL,
    KYMO_TYPE_STRING,
    KYMO_TYPE_LIST_INT32,
    KYMO_TYPE_LIST_INT64,
    KYMO_TYPE_LIST_STRING
};

struct kymo_column {
    const char *name;
    enum kymo_type type;
    bool required;
    const char *unit; /* "" when none */
    const char *description;
    const char *example;     /* "" when none */
    const char *enum_values; /* comma list, "" when open */
    const char *empty; /* value of a required column whose inputs are absent: "" (empty string or list), "-1", "0" or,
                          where the enum has it, "unknown"; NULL in an optional column */
    const char *openapi_type, *openapi_format;
    bool own;             /* kymo's, not in the vendor's 7.4.0 */
    const char *origin;   /* where values come from, in a word */
    bool filled;          /* this version fills it, given the inputs */
    const char *coverage; /* from what, or why not */
};

struct kymo_table {
    const char *name;
    const char *description;
    const struct kymo_column *columns;
    size_t column_count;
    const char *sort_column; /* rows are written in its order; NULL: none */
    bool own;
};

/*
 * enum kymo_table_id { KYMO_T_INSTRUCTION, ... KYMO_T_MAX } and, per table, enum { KYMO_INSTRUCTION_START_TS, ...
 * KYMO_INSTRUCTION_MAX }: the column's index in columns, and their number. One name would be there twice, so it is
 * KYMO_STACK_FRAME_FILE_LOCATION__ID for StackFrameFileLocation.id.
 */
#include "schema_gen.h"

const struct kymo_table *kymo_schema_table(enum kymo_table_id id);
const struct kymo_table *kymo_schema_find(const char *table);               /* NULL: unknown */
int kymo_schema_column(const struct kymo_table *table, const char *column); /* index in columns; -1: unknown */

#endif
