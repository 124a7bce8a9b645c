/* Where a statement begins and ends in a text of SQL, as DuckDB's scanner has it. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_TEXT_H
#define KYMO_COLLECTOR_QUERY_QUERY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The first statement without semicolons and comments before it and behind; n 0: there is none. */
struct query_text {
    const char *at;
    size_t n;
    bool more; /* another one follows */
};

struct query_text query_text_find(const char *sql);
/* Whether the first word of a statement is this one, whatever the case of letters. */
bool query_text_begins(const struct query_text *t, const char *word);
/* Whether it has the word outside of quotes and comments. */
bool query_text_has(const struct query_text *t, const char *word);

#endif
