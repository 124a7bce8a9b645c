/*
 * What users of the page keep (viewer.db, SQLite): annotations, layouts, favourites, recents, folders, tags. README.md
 * has the kinds and their limits. Values are JSON, checked here. One thread at a time.
 */
#ifndef KYMO_COLLECTOR_VIEWER_DB_H
#define KYMO_COLLECTOR_VIEWER_DB_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

#define VIEWER_DB_KEY_MAX 255
#define VIEWER_DB_VALUE_MAX (64u << 10)
#define VIEWER_DB_USER_MAX (4u << 20) /* bytes of keys and values of one user */

/* X(kind, items of one user at most) */
#define VIEWER_KINDS(X)                                                                                                \
    X(annotations, 1000)                                                                                               \
    X(layouts, 100)                                                                                                    \
    X(favourites, 1000)                                                                                                \
    X(recents, 50)                                                                                                     \
    X(folders, 200)                                                                                                    \
    X(tags, 200)

enum viewer_kind {
#define X(name, max) VIEWER_##name,
    VIEWER_KINDS(X)
#undef X
        VIEWER_KIND_MAX
};

const char *viewer_kind_name(enum viewer_kind kind);

struct viewer_db;

/* Makes the file. -ENOTSUP: a newer program has written it; -EBADMSG: it is something else. */
int viewer_db_open(const char *path, struct viewer_db **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct viewer_db *viewer_db_free(struct viewer_db *db); /* NULL is fine; returns NULL */

/* Items as README.md has them. */
int viewer_db_list(struct viewer_db *db, const char *user, enum viewer_kind kind, json_t **ret_items,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* -ENOENT. */
int viewer_db_get(struct viewer_db *db, const char *user, enum viewer_kind kind, const char *key, json_t **ret_item,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * seen: changed_ns of the item that is to be replaced, 0: there is none, -1: whatever there is. The time of change
 * always grows. -EINVAL: the key or the value; -EEXIST: changed since; -ENOSPC: a limit, or the disk.
 */
int viewer_db_put(struct viewer_db *db, const char *user, enum viewer_kind kind, const char *key, const json_t *value,
                  int64_t seen, json_t **ret_item, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: it is gone; 0: there was none. */
int viewer_db_delete(struct viewer_db *db, const char *user, enum viewer_kind kind, const char *key,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
