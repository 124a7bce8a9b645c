/*
 * Questions about the tables of one profile, /api/v1/profiles/{name}/..., answered by kymo-query (query_pool.h). Used
 * by the collector's API and by its view of plain directories. All on the loop's thread.
 */
#ifndef KYMO_COLLECTOR_API_QUERY_H
#define KYMO_COLLECTOR_API_QUERY_H

#include "collector/http.h"
#include "collector/query_pool.h"

/* The context of the handlers begins with it. */
struct api_query {
    struct query_pool *pool;               /* NULL: none */
    struct viewer_store *store;            /* what users keep; NULL: nothing */
    struct uploads *uploads;               /* NULL: none are taken */
    const char *why_not;                   /* and why; NULL: no reason of its own */
    bool manages;                          /* profiles can be uploaded, removed, pinned */
    const char *framework_root, *nki_root; /* folders of source texts; NULL: none */
    const char *fleet;                     /* folder of the fleet's tables; NULL: none */
    /* The directory of a profile, absolute, as fresh memory. -ENOENT; -EALREADY: it is not ready. */
    int (*find)(struct api_query *q, const char *name, char **ret_dir, struct kymo_err *err);
    /* Puts the directories of a profile's members into dirs, by name, where they have any. */
    int (*members)(struct api_query *q, const char *name, json_t *dirs, struct kymo_err *err);
    /* The folder of source texts that came with a profile's capture, as fresh memory; NULL: there is none. */
    char *(*find_sources)(struct api_query *q, const char *name);
};

/* X(operation, class, path below the profile, parameters beside those in the path) */
#define API_QUERIES(X)                                                                                                 \
    X(overview, QUERY_QUICK, "overview", "")                                                                           \
    X(timeline, QUERY_QUICK, "timeline", "from,to,width,groups,tracks,dma,split")                                      \
    X(series, QUERY_QUICK, "series", "from,to,width,groups,tracks")                                                    \
    X(bands, QUERY_QUICK, "bands", "from,to")                                                                          \
    X(event, QUERY_QUICK, "events/{table}/{id}", "")                                                                   \
    X(dependencies, QUERY_QUICK, "events/{table}/{id}/dependencies", "")                                               \
    X(why, QUERY_QUICK, "events/{table}/{id}/why", "")                                                                 \
    X(search, QUERY_LONG, "search", "category,field,match,value,page,size,marks,from,to,width")                        \
    X(summary, QUERY_QUICK, "summary", "from,to,tracks")                                                               \
    X(operators, QUERY_QUICK, "operators", "parent,from,to,sort,filter,page,size")                                     \
    X(export, QUERY_LONG, "export", "tables,from,to,mode,width")                                                       \
    X(regions, QUERY_LONG, "regions", "path,pcore")                                                                    \
    X(source, QUERY_LONG, "source", "file")                                                                            \
    X(source_lines, QUERY_LONG, "source/lines", "file")                                                                \
    X(source_events, QUERY_LONG, "source/events", "file,lines,from,to,width")                                          \
    X(skew, QUERY_QUICK, "skew", "from,to,sort,operation,last,significant,id,arrivals,page,size")

#define X(op, class, path, params) void api_query_##op(void *ctx, struct http_request *q);
API_QUERIES(X)
#undef X

#define API_FIND_MAX 100 /* profiles that are asked for by their names */
#define API_SQL_PROFILES_MAX 8
#define API_COMPARE_MAX 16

/* Those that name their profiles themselves. */
void api_query_sql(void *ctx, struct http_request *q);
void api_query_compare(void *ctx, struct http_request *q);
/* api_ranks.c: about the members of one, and about all of them. */
void api_query_ranks(void *ctx, struct http_request *q);
void api_query_lanes(void *ctx, struct http_request *q);
void api_query_fleet(void *ctx, struct http_request *q);
void api_query_fleet_profiles(void *ctx, struct http_request *q);

/* Rows for a table of routes. */
#define API_QUERY_ALONE_ROUTES                                                                                         \
    {"POST", "/api/v1/sql", api_query_sql}, {"GET", "/api/v1/compare", api_query_compare},                             \
        {"GET", "/api/v1/profiles/{name}/ranks", api_query_ranks},                                                     \
        {"GET", "/api/v1/profiles/{name}/ranks/lanes", api_query_lanes}, {"GET", "/api/v1/fleet", api_query_fleet},    \
        {"GET", "/api/v1/fleet/profiles", api_query_fleet_profiles},
#define API_QUERY_ROUTE(op, class, path, params) {"GET", "/api/v1/profiles/{name}/" path, api_query_##op},

#endif
