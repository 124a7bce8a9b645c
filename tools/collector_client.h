/*
 * A client of a collector's HTTP API (collector/openapi.json), over libcurl: blocking, no redirects, no proxies,
 * answers of bounded size. The token comes from a file or the environment, never from the command line, where others
 * see it.
 */
#ifndef KYMO_TOOLS_COLLECTOR_CLIENT_H
#define KYMO_TOOLS_COLLECTOR_CLIENT_H

#include <jansson.h>

#include "base/err.h"
#include "base/options.h"

#define COLLECTOR_TOKEN_VARIABLE "KYMO_TOKEN"

struct collector_options {
    const char *url, *token_file, *ca;
};

/* Rows for the member where of struct T. */
#define COLLECTOR_ROWS(T, where)                                                                                       \
    {.name = "collector",                                                                                              \
     .type = KYMO_OPTION_TEXT,                                                                                         \
     .arg = "URL",                                                                                                     \
     .offset = offsetof(T, where.url),                                                                                 \
     .help = "a collector's address, such as http://127.0.0.1:3001, in place of --data-path"},                         \
        {.name = "token-file",                                                                                         \
         .type = KYMO_OPTION_TEXT,                                                                                     \
         .arg = "FILE",                                                                                                \
         .offset = offsetof(T, where.token_file),                                                                      \
         .help = "holds the collector's token; without it, " COLLECTOR_TOKEN_VARIABLE " in the environment"},          \
    {                                                                                                                  \
        .name = "ca", .type = KYMO_OPTION_TEXT, .arg = "FILE", .offset = offsetof(T, where.ca),                        \
        .help = "certificates of who signs the collector's; without it, the system's"                                  \
    }

struct collector_client;

int collector_client_new(const struct collector_options *o, struct collector_client **ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;
struct collector_client *collector_client_free(struct collector_client *c); /* NULL is fine; returns NULL */

/*
 * One request; body NULL: none. *ret is the answer, for json_decref. An error that the collector tells is -ENOENT for
 * 404, -EACCES for 401 and 403, -EALREADY for 409, -EINVAL for others below 500, -EAGAIN for 503 and -EIO for the rest;
 * the text has its message. -ECONNREFUSED: nobody answers; -EBADMSG: no JSON.
 */
int collector_client_get(struct collector_client *c, const char *path, json_t **ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;
int collector_client_post(struct collector_client *c, const char *path, const json_t *body, json_t **ret,
                          struct kymo_err *err) KYMO_MUST_CHECK;
/* All pages of a list: the members key of their answers as one array. path has no query. */
int collector_client_list(struct collector_client *c, const char *path, const char *key, const char *query,
                          json_t **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
