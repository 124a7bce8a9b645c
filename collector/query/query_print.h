/* Output forms of a query's result: aligned table, CSV, TSV, JSON lines. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_PRINT_H
#define KYMO_COLLECTOR_QUERY_QUERY_PRINT_H

#include <stdio.h>

#include "collector/query/query_db.h"

enum query_form { QUERY_FORM_TABLE, QUERY_FORM_CSV, QUERY_FORM_TSV, QUERY_FORM_JSON };

#define QUERY_TABLE_TEXT_MAX (64u << 20) /* a table is held whole to align it; the other forms stream */

struct query_printer;

int query_print_new(enum query_form form, FILE *out, struct query_printer **ret) KYMO_MUST_CHECK;
struct query_printer *query_print_free(struct query_printer *p);
struct query_sink query_print_sink(struct query_printer *p);
/* After the query: writes what was held, reports a failed stream. -ENOBUFS from a row: too much for an aligned table.
 */
int query_print_finish(struct query_printer *p) KYMO_MUST_CHECK;

#endif
