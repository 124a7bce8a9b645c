/*
 * Which tables of a directory are damaged inside: they begin and end as they should, and views of them can be made, but
 * reading all of their values fails. Takes as long as reading all of them, so it is for when something has failed.
 */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_DAMAGE_H
#define KYMO_COLLECTOR_QUERY_QUERY_DAMAGE_H

#include "collector/query/query_bad.h"
#include "collector/query/query_db.h"

/* Whether a statement's error is of a kind that damaged files lead to. A statement can be the cause, too. */
bool query_damage_may_be(const struct kymo_err *err);

/* Another one when a file in dir, or what it holds, has changed. */
uint64_t query_damage_stamp(const char *dir);

/* Told of the database that reads, so that another thread can interrupt it; an error of begin ends the search. */
struct query_damage_watch {
    int (*begin)(void *ctx, struct query_db *db, struct kymo_err *err);
    void (*end)(void *ctx);
    void *ctx;
};

/*
 * named: only tables whose names stand in it; NULL: all. known: tables to pass over; NULL: none. watch NULL: nobody
 * interrupts. at: which file to begin with, and on failure which one to go on with; NULL: the first. Appends to ret,
 * also on failure. -ECANCELED: interrupted.
 */
int query_damage_find(const char *dir, const char *named, const struct query_bad *known,
                      const struct query_limits *limits, const struct query_damage_watch *watch, size_t *at,
                      struct query_bad *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
