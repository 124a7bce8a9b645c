/* The parts of a summary: each is the answer to one query. Internal to the summaries. */
#ifndef KYMO_TOOLS_EXPORT_SUMMARY_PARTS_H
#define KYMO_TOOLS_EXPORT_SUMMARY_PARTS_H

#include "collector/query/export_profile.h"
#include "pipeline/summary/bounds.h"

struct summary_column {
    char *name;
    const char *unit;      /* "" when none, or not in the schema */
    enum bounds_mark mark; /* of Summary */
    char *doubt;           /* why this figure is marked; NULL: it is not */
    bool number;           /* else text, bool or list */
};

struct summary_value {
    enum query_value_kind kind;
    int64_t integer;
    double real;
    char *text; /* of texts and lists */
};

struct summary_part {
    const char *key, *title;
    bool single; /* one row: shown as names and values */
    struct summary_column *columns;
    size_t column_count;
    struct summary_value *values; /* row by row */
    size_t row_count, value_cap;
};

#define SUMMARY_PARTS 15

struct summary_parts {
    struct summary_part parts[SUMMARY_PARTS];
    size_t count;
};

/* Runs all queries. summary_parts_done is due whatever the outcome. */
int summary_parts_read(struct summary_parts *s, const struct export_profile *p, struct kymo_err *err) KYMO_MUST_CHECK;
void summary_parts_done(struct summary_parts *s);
/* NULL: no such part. */
const struct summary_part *summary_parts_find(const struct summary_parts *s, const char *key);

#endif
