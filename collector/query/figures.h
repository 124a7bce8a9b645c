/*
 * Figures of several captures side by side: rows with a value per capture, captures grouped into sides, the first of
 * which is the base. Says how far sides differ, and whether that is more than captures of one side do. Pure.
 */
#ifndef KYMO_COLLECTOR_QUERY_FIGURES_H
#define KYMO_COLLECTOR_QUERY_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define FIGURES_CAPTURES_MAX 16
#define FIGURES_ROWS_MAX 100000

struct figures;

/* sides: how many captures each has, n of them, together at most FIGURES_CAPTURES_MAX. NULL without memory. */
struct figures *figures_new(const size_t *sides, size_t n);
struct figures *figures_free(struct figures *f); /* NULL is fine; returns NULL */

/* The value of a row in a capture, by its number over all sides. field and unit live as long as f. */
int figures_add(struct figures *f, const char *key, const char *field, const char *unit, size_t capture, double value,
                struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Rows as SERVE.md has them, in the order in which they came first; with by, in the order of the greatest value of that
 * field, the rows of one key together. At most max; *more: there were more. zero: a capture that lacks a row has 0
 * there.
 */
json_t *figures_rows(const struct figures *f, const char *by, bool zero, size_t max, bool *more);

#endif
