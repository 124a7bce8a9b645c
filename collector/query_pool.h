/*
 * kymo-query --serve as children of the collector: one process for each class of requests, started when first needed
 * and again when it ends, after a while that grows while it keeps ending. At most so many requests of a class run at
 * once; others wait their turn. All on the loop's thread. query/SERVE.md has what goes between.
 */
#ifndef KYMO_COLLECTOR_QUERY_POOL_H
#define KYMO_COLLECTOR_QUERY_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uv.h>

#include "base/err.h"

enum query_class { QUERY_QUICK, QUERY_LONG, QUERY_CLASSES };

#define QUERY_POOL_RUNNING 8   /* of a class */
#define QUERY_POOL_WAITING 256 /* of a class, beyond those */

struct query_pool;
struct query_call;

struct query_failure {
    unsigned status;
    const char *code, *message;
};

struct query_head {
    unsigned status;
    const char *type;
    const char *left_out; /* names of damaged tables that the answer does without, with commas; NULL: none */
};

/* In this order: head once, data any number of times, end once; end alone when it fails at once. */
struct query_call_ops {
    void (*head)(void *ctx, const struct query_head *head);
    void (*data)(void *ctx, const void *data, size_t n);
    void (*end)(void *ctx, const struct query_failure *why); /* NULL: the answer is whole. The call is no more */
};

struct query_pool_config {
    uv_loop_t *loop;
    const char *program; /* path of kymo-query; NULL: a build without it */
    void (*say)(void *ctx, int level, const char *text);
    void *ctx; /* of say */
};

/* Texts of config are copied. */
int query_pool_new(const struct query_pool_config *config, struct query_pool **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends all calls with 503, and the children. The loop must run once more. NULL is fine; returns NULL. */
struct query_pool *query_pool_free(struct query_pool *p);

/* Asks; ops are called later. params, an object of texts, is taken. -EBUSY, -ENOTSUP (no program), -ENOMEM. */
int query_pool_ask(struct query_pool *p, enum query_class class, const char *dir, const char *op, json_t *params,
                   const struct query_call_ops *ops, void *ctx, struct query_call **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* n bytes of data were taken: so many more may come. */
void query_call_took(struct query_call *c, size_t n);
/* Nobody wants the answer: ops are called no more, and the call is no more the caller's. */
void query_call_cancel(struct query_call *c);

struct query_pool_figures {
    unsigned running, waiting;
    uint64_t asked, failed, canceled, starts;
};
void query_pool_figures(const struct query_pool *p, enum query_class class, struct query_pool_figures *ret);

#endif
