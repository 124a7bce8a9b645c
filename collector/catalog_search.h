/* Pages of the catalogue: filtered, in order, each with the place where the next one begins. */
#ifndef KYMO_COLLECTOR_CATALOG_SEARCH_H
#define KYMO_COLLECTOR_CATALOG_SEARCH_H

#include "collector/catalog.h"

#define CATALOG_PLACE_MAX 256 /* bytes of a place as text, with its NUL */

enum catalog_sort { CATALOG_BY_RECEIVED, CATALOG_BY_FINISHED, CATALOG_BY_NAME, CATALOG_SORT_MAX };

/* A row by what it is sorted by; rows that come or go meanwhile move no other. */
struct catalog_place {
    int64_t key; /* 0 where the name is the key */
    char name[MANIFEST_PROFILE_NAME_MAX + 1];
};

struct catalog_query {
    const char *job, *host, *capture; /* whole; NULL: any */
    const char *text; /* somewhere in a profile's name or reason, job, host, capture or a label "key=value"; NULL: any.
                         Without regard to the case of A to Z */
    int state;        /* enum catalog_state; -1: any */
    int64_t rank;     /* -1: any */
    enum catalog_sort sort;
    bool descending;
    unsigned limit, scan;              /* rows given, rows looked at, at most; both > 0 */
    unsigned budget_ms;                /* a page ends when it has taken so long, after one row at least; 0: never */
    const struct catalog_place *after; /* NULL: from the beginning */
};

/*
 * Calls back for the rows of one page; a negative return of each ends it and is returned. 1: there may be more rows
 * behind *ret_next, though there may be none on this page; 0: that was all.
 */
int catalog_search(struct catalog *c, const struct catalog_query *q,
                   int (*each)(void *ctx, const struct catalog_profile *p), void *ctx, struct catalog_place *ret_next,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * The same for captures, in order of receipt: of the query's fields job, host, descending, limit, scan and after count.
 * state: as struct catalog_capture has it; NULL: any.
 */
int catalog_search_captures(struct catalog *c, const struct catalog_query *q, const char *state,
                            int (*each)(void *ctx, const struct catalog_capture *capture), void *ctx,
                            struct catalog_place *ret_next, struct kymo_err *err) KYMO_MUST_CHECK;

/* A place as text of [A-Za-z0-9._-], bound to its order. */
void catalog_place_text(const struct catalog_query *q, const struct catalog_place *p,
                        char ret[static CATALOG_PLACE_MAX]);
/* -EINVAL: none, or of another order. */
int catalog_place_parse(const struct catalog_query *q, const char *text, struct catalog_place *ret,
                        struct kymo_err *err) KYMO_MUST_CHECK;

#endif
