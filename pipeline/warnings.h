/*
 * Warnings of one profile: each text once, in the order of first mention, at most WARNINGS_MAX of them. Every text says
 * what is missing, why, and what to do. Not thread-safe.
 */
#ifndef KYMO_PIPELINE_WARNINGS_H
#define KYMO_PIPELINE_WARNINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define WARNINGS_MAX 1024

struct warnings;

struct warnings *warnings_new(void); /* NULL: out of memory */
struct warnings *warnings_free(struct warnings *w);
/* Category: a word or two as the Warning table has them. A text beyond the maximum is counted and told of in one last
 * row. */
void warnings_add(struct warnings *w, const char *category, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/*
 * The same thing of several rings, files or members: calls with the same category and text become one row, which ends
 * in the number of items and their list, cut at a length.
 */
void warnings_list(struct warnings *w, const char *category, const char *item, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
size_t warnings_count(const struct warnings *w);
const char *warnings_text(const struct warnings *w, size_t i);
const char *warnings_category(const struct warnings *w, size_t i);
/* True: inputs or records are missing or do not belong, so who asked for the profile should hear of it at once. */
bool warnings_serious(const struct warnings *w, size_t i);
/* Writes the table Warning; no file when there is none. */
int warnings_write(const struct warnings *w, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
