/* Tables of a directory that cannot be read, and why. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_BAD_H
#define KYMO_COLLECTOR_QUERY_QUERY_BAD_H

#include <stddef.h>

#include "base/err.h"

/* why: a line that says of which file. */
struct query_bad_table {
    char *table, *why;
};

struct query_bad {
    struct query_bad_table *items;
    size_t n, cap;
};

/* A table called by n characters; both texts are copied. */
int query_bad_add(struct query_bad *bad, const char *table, size_t n, const char *why,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* Why a table cannot be read, whatever the case of its name, of n characters. NULL: it is not in the list, or bad is
 * NULL. */
const char *query_bad_why(const struct query_bad *bad, const char *table, size_t n);
/* Takes a table out of the list: why it cannot be read, the caller's to free. NULL: it is not in the list. */
char *query_bad_take(struct query_bad *bad, const char *table);
void query_bad_done(struct query_bad *bad);

/* Makes of what DuckDB says of a file such a line; -EBADMSG. */
void query_bad_say(const char *file, struct kymo_err *why);

#endif
