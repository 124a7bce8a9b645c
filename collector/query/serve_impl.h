/* What the files of the server share. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_IMPL_H
#define KYMO_COLLECTOR_QUERY_SERVE_IMPL_H

#include <pthread.h>
#include <stdio.h>

#include "base/buf.h"
#include "collector/query/serve.h"
#include "collector/query/serve_dirs.h"
#include "collector/query/serve_ops.h"

struct serve {
    int fd;
    struct query_limits limits;
    struct serve_dirs *dirs;
    pthread_mutex_t lock;     /* of the list and what is in it */
    pthread_mutex_t out_lock; /* frames are written whole */
    struct serve_request *requests;
    unsigned running;
};

struct serve_request {
    struct serve_request *next;
    struct serve *serve;
    uint32_t id;
    json_t *root;
    struct serve_question question;
    const struct serve_op *op;
    struct serve_dir *dir;
    struct sql sql;
    struct query_db *own;   /* of an operation that has one, while it runs */
    pthread_cond_t changed; /* credit, stop */
    uint64_t credit, deadline_ns;
    volatile bool stop;
    bool late, begun; /* begun: HEAD is out */
    bool again;       /* what failed may work now: damaged tables are left out */
};

/* The last frame of id; err NULL: the answer is whole. */
void serve_end(struct serve *s, uint32_t id, const struct kymo_err *err);

#endif
