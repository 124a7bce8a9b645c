/* The schema in the forms of kymo schema. Errors show in the stream. */
#ifndef KYMO_TOOLS_SCHEMA_PRINT_H
#define KYMO_TOOLS_SCHEMA_PRINT_H

#include <stdio.h>

#include "formats/schema/schema.h"

struct schema_form {
    void (*head)(FILE *out); /* NULL: none */
    void (*table)(FILE *out, const struct kymo_table *t);
};

void schema_print_list(FILE *out, const struct kymo_table *t);
/* One OpenAPI 3.0 document: the head, then tables in any number. Tables and columns of kymo's own have x-kymo-own. */
void schema_print_yaml_head(FILE *out);
void schema_print_yaml(FILE *out, const struct kymo_table *t);
void schema_print_markdown_head(FILE *out);
void schema_print_markdown(FILE *out, const struct kymo_table *t);
/* Table.column, a tab, and "filled: from what" or "empty: why". */
void schema_print_coverage(FILE *out, const struct kymo_table *t);

#endif
