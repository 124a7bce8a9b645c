/* Directories that are kept open: the latest few, and all that are in use. Thread-safe. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_DIRS_H
#define KYMO_COLLECTOR_QUERY_SERVE_DIRS_H

#include "collector/query/serve_dir.h"

#define SERVE_DIRS_MAX 8

struct serve_dirs;

/* NULL without memory. limits are those of each directory. */
struct serve_dirs *serve_dirs_new(const struct query_limits *limits);
struct serve_dirs *serve_dirs_free(struct serve_dirs *d); /* NULL is fine; returns NULL. Nobody may be using any */
/* Opens it, or waits for who is opening it. One that was exchanged since is opened anew. Given back with
 * serve_dirs_put. */
int serve_dirs_get(struct serve_dirs *d, const char *path, struct serve_dir **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Something of a directory that is in use could not be read. 0: nothing is damaged; -EBADMSG: something is, and err
 * says of which file. *ret_again: serve_dirs_get gives the directory without it from now on.
 */
int serve_dirs_doubt(struct serve_dirs *d, struct serve_dir *dir, const struct query_damage_watch *watch,
                     bool *ret_again, struct kymo_err *err) KYMO_MUST_CHECK;
void serve_dirs_put(struct serve_dirs *d, struct serve_dir *dir);

#endif
