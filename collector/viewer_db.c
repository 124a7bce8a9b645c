#include "collector/viewer_db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "collector/json_text.h"
#include "collector/viewer_value.h"

#define BUSY_MS 2000
#define VERSION 1
#define APPLICATION 0x6b796d76 /* "kymv" */
#define STEP_NS 1000           /* times of change are multiples of it */

struct viewer_db {
    sqlite3 *db;
    char *path;
};

static const struct {
    const char *name;
    int64_t max;
} kinds[VIEWER_KIND_MAX] = {
#define X(name, max) {#name, max},
    VIEWER_KINDS(X)
#undef X
};

const char *viewer_kind_name(enum viewer_kind kind)
{
    return kinds[kind].name;
}

static int fail(const struct viewer_db *v, const char *what, struct kymo_err *err)
{
    static const struct {
        int code, error;
    } rows[] = {{SQLITE_FULL, -ENOSPC},  {SQLITE_NOMEM, -ENOMEM},   {SQLITE_BUSY, -EBUSY},
                {SQLITE_LOCKED, -EBUSY}, {SQLITE_NOTADB, -EBADMSG}, {SQLITE_CORRUPT, -EBADMSG},
                {SQLITE_PERM, -EBUSY},   {SQLITE_READONLY, -EBUSY}};
    int code = sqlite3_errcode(v->db) & 0xff, error = -EIO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            error = rows[i].error;
    return kymo_err_set(err, error, "%s: %s: %s", v->path, what, sqlite3_errmsg(v->db));
}

static void finalize(sqlite3_stmt **s)
{
    (void)sqlite3_finalize(*s);
    *s = NULL;
}

/* Binds user, kind and key, as far as the statement has them. */
static int prepare(struct viewer_db *v, const char *sql, const char *user, enum viewer_kind kind, const char *key,
                   sqlite3_stmt **ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    const char *texts[] = {user, kinds[kind].name, key};
    if (sqlite3_prepare_v2(v->db, sql, -1, &s, NULL) != SQLITE_OK)
        return fail(v, "a statement is refused", err);
    for (int i = 0; i < 3 && i < sqlite3_bind_parameter_count(s); i++)
        if (sqlite3_bind_text(s, i + 1, texts[i], -1, SQLITE_TRANSIENT) != SQLITE_OK)
            return fail(v, "a value is refused", err);
    *ret = KYMO_TAKE(s);
    return 0;
}

static int script(struct viewer_db *v, const char *sql, struct kymo_err *err)
{
    return sqlite3_exec(v->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(v, "it cannot be written", err);
}

/* One row of at most two numbers; 0 where there is none. */
static int numbers(struct viewer_db *v, const char *sql, const char *user, enum viewer_kind kind, const char *key,
                   int64_t ret[static 2], struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    int r = prepare(v, sql, user, kind, key, &s, err);
    if (r < 0)
        return r;
    int code = sqlite3_step(s);
    ret[0] = ret[1] = 0;
    for (int i = 0; code == SQLITE_ROW && i < 2 && i < sqlite3_column_count(s); i++)
        ret[i] = sqlite3_column_int64(s, i);
    return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : fail(v, "it cannot be read", err);
}

static int end(struct viewer_db *v, int r, struct kymo_err *err)
{
    if (r == 0)
        r = script(v, "COMMIT", err);
    /* A full disk may have ended the transaction already. */
    if (r < 0 && !sqlite3_get_autocommit(v->db))
        (void)sqlite3_exec(v->db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

static int make_tables(struct viewer_db *v, struct kymo_err *err)
{
    static const char tables[] =
        "CREATE TABLE items(user TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
        " changed_ns INTEGER NOT NULL, PRIMARY KEY(user, kind, key)) STRICT, WITHOUT ROWID;"
        "PRAGMA application_id=0x6b796d76; PRAGMA user_version=1";
    int64_t version[2] = {0}, application[2] = {0};
    int r = script(v, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    r = numbers(v, "PRAGMA user_version", "", VIEWER_tags, "", version, err);
    if (r == 0)
        r = numbers(v, "PRAGMA application_id", "", VIEWER_tags, "", application, err);
    if (r == 0 && (application[0] != 0 || version[0] != 0) && application[0] != APPLICATION)
        r = kymo_err_set(err, -EBADMSG, "%s: it is a database of something else", v->path);
    if (r == 0 && version[0] > VERSION)
        r = kymo_err_set(err, -ENOTSUP, "%s: version %lld, but this program knows versions up to %d", v->path,
                         (long long)version[0], VERSION);
    if (r == 0 && version[0] == 0)
        r = script(v, tables, err);
    return end(v, r, err);
}

static void db_freep(struct viewer_db **v)
{
    viewer_db_free(*v);
}

int viewer_db_open(const char *path, struct viewer_db **ret, struct kymo_err *err)
{
    struct viewer_db *v KYMO_CLEANUP(db_freep) = KYMO_NEW(struct viewer_db);
    if (!v || !(v->path = kymo_strdup(path)))
        return kymo_err_set(err, -ENOMEM, "no memory for a database");
    /* SQLite makes files that others may read. */
    int fd = kymo_file_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600, err);
    if (fd < 0)
        return fd;
    (void)kymo_file_close(fd);
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &v->db, flags, NULL) != SQLITE_OK)
        return v->db ? fail(v, "it cannot be opened", err) : kymo_err_set(err, -ENOMEM, "no memory for a database");
    (void)sqlite3_busy_timeout(v->db, BUSY_MS);
    int r = script(v, "PRAGMA trusted_schema=OFF; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", err);
    if (r == 0)
        r = make_tables(v, err);
    if (r == 0)
        *ret = KYMO_TAKE(v);
    return r;
}

struct viewer_db *viewer_db_free(struct viewer_db *v)
{
    if (!v)
        return NULL;
    (void)sqlite3_close(v->db);
    kymo_free(v->path);
    kymo_free(v);
    return NULL;
}

/* Columns key, value, changed_ns. NULL: a value that is no JSON, or no memory. */
static json_t *item_of(sqlite3_stmt *s)
{
    json_error_t why;
    const char *key = (const char *)sqlite3_column_text(s, 0), *value = (const char *)sqlite3_column_text(s, 1);
    json_t *v = value ? json_loads(value, JSON_DECODE_ANY, &why) : NULL;
    return key && v ? json_pack("{s:o, s:o, s:I}", "key", json_text(key), "value", v, "changed_ns",
                                (json_int_t)sqlite3_column_int64(s, 2))
                    : NULL;
}

int viewer_db_list(struct viewer_db *v, const char *user, enum viewer_kind kind, json_t **ret_items,
                   struct kymo_err *err)
{
    static const char by_key[] = "SELECT key, value, changed_ns FROM items WHERE user=?1 AND kind=?2 ORDER BY key";
    static const char newest[] =
        "SELECT key, value, changed_ns FROM items WHERE user=?1 AND kind=?2 ORDER BY changed_ns DESC, key";
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    int r = prepare(v, kind == VIEWER_recents ? newest : by_key, user, kind, "", &s, err), code = SQLITE_DONE;
    if (r < 0)
        return r;
    json_t *list = json_array();
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        json_t *item = item_of(s);
        if (item)
            (void)json_array_append_new(list, item);
    }
    if (code != SQLITE_DONE) {
        json_decref(list);
        return fail(v, "it cannot be read", err);
    }
    *ret_items = list;
    return 0;
}

int viewer_db_get(struct viewer_db *v, const char *user, enum viewer_kind kind, const char *key, json_t **ret_item,
                  struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    int r = prepare(v, "SELECT key, value, changed_ns FROM items WHERE user=?1 AND kind=?2 AND key=?3", user, kind, key,
                    &s, err);
    if (r < 0)
        return r;
    int code = sqlite3_step(s);
    if (code == SQLITE_DONE)
        return kymo_err_set(err, -ENOENT, "nothing of this name is kept");
    if (code != SQLITE_ROW)
        return fail(v, "it cannot be read", err);
    *ret_item = item_of(s);
    return *ret_item ? 0 : kymo_err_set(err, -EBADMSG, "%s: an item is damaged", v->path);
}

/* Whether one more, or a longer one, is within the user's limits. */
static int check_room(struct viewer_db *v, const char *user, enum viewer_kind kind, const char *key, size_t bytes,
                      struct kymo_err *err)
{
    int64_t count[2] = {0}, size[2] = {0};
    int r = numbers(v, "SELECT count(*) FROM items WHERE user=?1 AND kind=?2 AND key<>?3", user, kind, key, count, err);
    if (r == 0)
        r = numbers(v,
                    "SELECT coalesce(sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))), 0) FROM items"
                    " WHERE user=?1 AND NOT (kind=?2 AND key=?3)",
                    user, kind, key, size, err);
    if (r < 0)
        return r;
    if (kind != VIEWER_recents && count[0] >= kinds[kind].max)
        return kymo_err_set(err, -ENOSPC, "%lld %s are kept; there may be no more", (long long)count[0],
                            kinds[kind].name);
    if (size[0] + (int64_t)bytes > VIEWER_DB_USER_MAX)
        return kymo_err_set(err, -ENOSPC, "what one user keeps has at most %u bytes", VIEWER_DB_USER_MAX);
    return 0;
}

static int write_item(struct viewer_db *v, const char *user, enum viewer_kind kind, const char *key,
                      const struct kymo_buf *text, int64_t changed_ns, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    int r = prepare(v, "INSERT OR REPLACE INTO items VALUES(?1, ?2, ?3, ?4, ?5)", user, kind, key, &s, err);
    if (r < 0)
        return r;
    (void)sqlite3_bind_text(s, 4, (const char *)text->data, (int)text->len, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(s, 5, changed_ns);
    return sqlite3_step(s) == SQLITE_DONE ? 0 : fail(v, "it cannot be written", err);
}

/* The oldest go. */
static int trim(struct viewer_db *v, const char *user, enum viewer_kind kind, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    int r = prepare(v,
                    "DELETE FROM items WHERE user=?1 AND kind=?2 AND key IN (SELECT key FROM items WHERE user=?1 AND"
                    " kind=?2 ORDER BY changed_ns DESC, key LIMIT -1 OFFSET ?3)",
                    user, kind, "", &s, err);
    if (r < 0)
        return r;
    (void)sqlite3_bind_int64(s, 3, kinds[kind].max);
    return sqlite3_step(s) == SQLITE_DONE ? 0 : fail(v, "it cannot be written", err);
}

/*
 * Browsers have numbers of 53 bits, which print other digits of a time in nanoseconds than they were given. Of whole
 * microseconds they keep each; of older items, which have others, they come near.
 */
static bool is_seen(int64_t seen, int64_t changed)
{
    return changed == 0 ? seen == 0 : seen > changed - STEP_NS && seen < changed + STEP_NS;
}

static int put(struct viewer_db *v, const char *user, enum viewer_kind kind, const char *key,
               const struct kymo_buf *text, int64_t seen, struct kymo_err *err)
{
    int64_t before[2] = {0}, newest[2] = {0};
    int r =
        numbers(v, "SELECT changed_ns FROM items WHERE user=?1 AND kind=?2 AND key=?3", user, kind, key, before, err);
    if (r == 0)
        r = numbers(v, "SELECT max(changed_ns) FROM items WHERE user=?1 AND kind=?2", user, kind, key, newest, err);
    if (r == 0 && seen >= 0 && !is_seen(seen, before[0]))
        r = kymo_err_set(err, -EEXIST, "it was changed meanwhile");
    if (r == 0)
        r = check_room(v, user, kind, key, strlen(key) + text->len, err);
    int64_t now = (int64_t)kymo_clock_real_ns() / STEP_NS * STEP_NS;
    if (r == 0)
        r = write_item(v, user, kind, key, text, now > newest[0] ? now : (newest[0] / STEP_NS + 2) * STEP_NS, err);
    return r == 0 && kind == VIEWER_recents ? trim(v, user, kind, err) : r;
}

int viewer_db_put(struct viewer_db *v, const char *user, enum viewer_kind kind, const char *key, const json_t *value,
                  int64_t seen, json_t **ret_item, struct kymo_err *err)
{
    struct kymo_buf text;
    int r = viewer_value_check_key(key, err);
    if (r == 0)
        r = viewer_value_check(kind, value, err);
    if (r < 0)
        return r;
    kymo_buf_init(&text, VIEWER_DB_VALUE_MAX);
    if (json_print(value, &text) < 0)
        r = kymo_err_set(err, -E2BIG, "a value has at most %u bytes", VIEWER_DB_VALUE_MAX);
    if (r == 0)
        r = script(v, "BEGIN IMMEDIATE", err);
    if (r == 0)
        r = end(v, put(v, user, kind, key, &text, seen, err), err);
    kymo_buf_done(&text);
    return r < 0 ? r : viewer_db_get(v, user, kind, key, ret_item, err);
}

int viewer_db_delete(struct viewer_db *v, const char *user, enum viewer_kind kind, const char *key,
                     struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(finalize) = NULL;
    int r = prepare(v, "DELETE FROM items WHERE user=?1 AND kind=?2 AND key=?3", user, kind, key, &s, err);
    if (r < 0)
        return r;
    return sqlite3_step(s) == SQLITE_DONE ? sqlite3_changes(v->db) > 0 : fail(v, "it cannot be written", err);
}
