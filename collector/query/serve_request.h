/*
 * One request of kymo-query --serve, as the operations see it: parameters in, an answer out. An operation runs on a
 * thread of its own and answers once: with serve_answer_json, serve_answer_packed, or serve_head and any number of
 * serve_data; or it returns an error and has said nothing.
 */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_REQUEST_H
#define KYMO_COLLECTOR_QUERY_SERVE_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "collector/query/packed.h"
#include "collector/query/serve_dir.h"
#include "collector/query/serve_question.h"
#include "collector/query/serve_sql.h"

struct serve_request;

const struct serve_question *serve_question_of(const struct serve_request *q);
struct serve_dir *serve_dir_of(const struct serve_request *q);
/* The request's own connection; CANCEL and the time limit end what runs on it. */
const struct sql *serve_sql_of(const struct serve_request *q);

/* visit with serve_dir_of and serve_sql_of of another directory: for operations that are not about one. */
int serve_visit(struct serve_request *q, const char *path,
                int (*visit)(struct serve_request *q, void *ctx, struct kymo_err *err), void *ctx,
                struct kymo_err *err) KYMO_MUST_CHECK;
/* The same with the first connection to a database of the operation's own; serve_dir_of stays as it is. */
int serve_visit_db(struct serve_request *q, struct query_db *db,
                   int (*visit)(struct serve_request *q, void *ctx, struct kymo_err *err), void *ctx,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* A database of the operation's own, whose statements end when the request does; until done. */
int serve_own_db(struct serve_request *q, struct query_db *db, struct kymo_err *err) KYMO_MUST_CHECK;
void serve_own_db_done(struct serve_request *q);
/* The same for who looks for damaged tables. */
struct query_damage_watch serve_watch(struct serve_request *q);

/* Each waits for credit. -ECANCELED: nobody wants it any more. */
int serve_head(struct serve_request *q, unsigned status, const char *type, struct kymo_err *err) KYMO_MUST_CHECK;
int serve_data(struct serve_request *q, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;

/* Small pieces of an answer on their way, gathered so that a few bytes are no frame. */
struct serve_gather {
    struct serve_request *q;
    struct kymo_buf buf;
};
void serve_gather_init(struct serve_gather *g, struct serve_request *q);
/* ctx: a struct serve_gather. */
int serve_gather_write(void *ctx, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;
int serve_gather_flush(struct serve_gather *g, struct kymo_err *err) KYMO_MUST_CHECK;
void serve_gather_done(struct serve_gather *g);

/* 200, and the whole answer; body is taken. */
int serve_answer_json(struct serve_request *q, json_t *body, struct kymo_err *err) KYMO_MUST_CHECK;
int serve_answer_packed(struct serve_request *q, struct packed *p, struct kymo_err *err) KYMO_MUST_CHECK;

/* The calling thread, which ends with its work, leaves the processor to what the timeline is moved with. */
void serve_give_way(void);

#endif
