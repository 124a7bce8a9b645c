#include "collector/catalog.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/catalog_impl.h"

#define BUSY_MS 5000

/* Each brings a catalogue from the version of its place to the next. They are never changed, only added to. */
static const char *const migrations[] = {
    "CREATE TABLE captures("
    " id TEXT PRIMARY KEY, state TEXT NOT NULL CHECK(state IN ('receiving','received')), reason TEXT,"
    " job TEXT, rank INTEGER NOT NULL, host TEXT, boot_id TEXT, mode TEXT, trigger TEXT, first_execution INTEGER,"
    " execution_count INTEGER, start_unix_ns INTEGER, end_unix_ns INTEGER, instance_type TEXT, driver_version TEXT,"
    " runtime_version TEXT, writer TEXT, files INTEGER NOT NULL, bytes INTEGER NOT NULL, received_ns INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE labels("
    " capture TEXT NOT NULL REFERENCES captures(id), key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(capture, key)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE profiles("
    " name TEXT PRIMARY KEY, capture TEXT NOT NULL REFERENCES captures(id), file TEXT NOT NULL,"
    " file_index INTEGER NOT NULL, vnc INTEGER NOT NULL, file_size INTEGER NOT NULL,"
    " state TEXT NOT NULL CHECK(state IN ('received','queued','processing','ready','failed')),"
    " reason TEXT, file_offset INTEGER, stage TEXT, done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0,"
    " attempts INTEGER NOT NULL DEFAULT 0, received_ns INTEGER NOT NULL, queued_ns INTEGER, started_ns INTEGER,"
    " finished_ns INTEGER, processor TEXT, schema_version TEXT, records INTEGER, tables INTEGER, bytes INTEGER"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX profiles_by_state ON profiles(state, queued_ns, name);"
    "CREATE INDEX profiles_by_capture ON profiles(capture);"
    "CREATE VIEW capture_states AS SELECT c.id, c.received_ns, c.files, c.bytes,"
    " CASE WHEN c.state = 'receiving' THEN 'receiving' ELSE coalesce((SELECT p.state FROM profiles p"
    "  WHERE p.capture = c.id ORDER BY instr('received queued processing failed ready', p.state) LIMIT 1), 'ready')"
    " END AS state, c.reason FROM captures c;",
    /* Who sent a capture; processors that were killed; losses, and whether their host was told (null: none to tell). */
    "ALTER TABLE captures ADD COLUMN source TEXT;"
    "ALTER TABLE profiles ADD COLUMN kills INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE profiles ADD COLUMN told INTEGER;"
    "CREATE TABLE losses("
    " profile TEXT NOT NULL REFERENCES profiles(name), n INTEGER NOT NULL, stage TEXT NOT NULL, ring TEXT NOT NULL,"
    " cause TEXT NOT NULL, records INTEGER, emitted INTEGER, PRIMARY KEY(profile, n)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX profiles_untold ON profiles(capture, name) WHERE told = 0;",
    "CREATE TABLE host_losses("
    " source TEXT NOT NULL, row INTEGER NOT NULL, first_seq INTEGER NOT NULL, first_unix_ns INTEGER NOT NULL,"
    " cause TEXT NOT NULL, last_seq INTEGER NOT NULL, captures INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " last_unix_ns INTEGER NOT NULL, received_ns INTEGER NOT NULL, PRIMARY KEY(source, row, first_seq, first_unix_ns)"
    ") STRICT, WITHOUT ROWID;",
    /* Orders of pages (catalog_search.h). */
    "CREATE INDEX profiles_by_received ON profiles(received_ns, name);"
    "CREATE INDEX profiles_by_finished ON profiles(coalesce(finished_ns,0), name);"
    "CREATE INDEX captures_by_received ON captures(received_ns, id);",
    /* Counts by state, which status and metrics ask for again and again. */
    "CREATE TABLE profile_counts(state TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO profile_counts SELECT state, count(*) FROM profiles GROUP BY state;"
    "CREATE TRIGGER profiles_come AFTER INSERT ON profiles BEGIN"
    " INSERT INTO profile_counts VALUES(new.state, 1) ON CONFLICT(state) DO UPDATE SET n=n+1; END;"
    "CREATE TRIGGER profiles_go AFTER DELETE ON profiles BEGIN"
    " UPDATE profile_counts SET n=n-1 WHERE state=old.state; END;"
    "CREATE TRIGGER profiles_move AFTER UPDATE OF state ON profiles WHEN new.state<>old.state BEGIN"
    " UPDATE profile_counts SET n=n-1 WHERE state=old.state;"
    " INSERT INTO profile_counts VALUES(new.state, 1) ON CONFLICT(state) DO UPDATE SET n=n+1; END;",
    /*
     * Captures of one wish: a parent profile belongs to a row of captures of the kind ranks, which is no capture and
     * is no capture's id. changed_ns: when something happened to a member, until the parent was made of it.
     */
    "ALTER TABLE captures ADD COLUMN kind TEXT NOT NULL DEFAULT 'capture';"
    "ALTER TABLE captures ADD COLUMN request TEXT;"
    "CREATE INDEX captures_by_request ON captures(request) WHERE request IS NOT NULL;"
    "CREATE TABLE requests(request TEXT PRIMARY KEY, first_ns INTEGER NOT NULL, changed_ns INTEGER) STRICT,"
    " WITHOUT ROWID;"
    "CREATE INDEX requests_changed ON requests(changed_ns) WHERE changed_ns IS NOT NULL;"
    "CREATE TRIGGER captures_come AFTER INSERT ON captures WHEN new.request IS NOT NULL AND new.kind='capture' BEGIN"
    " INSERT INTO requests VALUES(new.request, new.received_ns, new.received_ns)"
    " ON CONFLICT(request) DO UPDATE SET changed_ns=excluded.changed_ns; END;"
    "CREATE TRIGGER captures_move AFTER UPDATE OF state ON captures WHEN new.kind='capture' BEGIN"
    " UPDATE requests SET changed_ns=new.received_ns WHERE request=new.request; END;"
    "CREATE TRIGGER profiles_end AFTER UPDATE OF state ON profiles WHEN new.state IN ('ready','failed') BEGIN"
    " UPDATE requests SET changed_ns=new.finished_ns WHERE request=(SELECT request FROM captures c"
    "  WHERE c.id=new.capture AND c.kind='capture'); END;"
    /* Rows of fleet tables: null (none yet), waiting, working, ready, failed, gone. */
    "ALTER TABLE profiles ADD COLUMN fleet TEXT;"
    "ALTER TABLE profiles ADD COLUMN fleet_reason TEXT;"
    "ALTER TABLE profiles ADD COLUMN fleet_ns INTEGER;"
    "ALTER TABLE profiles ADD COLUMN fleet_kills INTEGER NOT NULL DEFAULT 0;"
    "UPDATE profiles SET fleet='waiting', fleet_ns=0 WHERE state='ready';"
    "CREATE INDEX profiles_by_fleet ON profiles(fleet_ns, name) WHERE fleet='waiting';"
    "CREATE TRIGGER profiles_ready AFTER UPDATE OF state ON profiles WHEN new.state='ready' BEGIN"
    " UPDATE profiles SET fleet='waiting', fleet_reason=NULL, fleet_ns=new.finished_ns, fleet_kills=0"
    "  WHERE name=new.name; END;"
    "DROP VIEW capture_states;"
    "CREATE VIEW capture_states AS SELECT c.id, c.received_ns, c.files, c.bytes,"
    " CASE WHEN c.state = 'receiving' THEN 'receiving' ELSE coalesce((SELECT p.state FROM profiles p"
    "  WHERE p.capture = c.id ORDER BY instr('received queued processing failed ready', p.state) LIMIT 1), 'ready')"
    " END AS state, c.reason FROM captures c WHERE c.kind = 'capture';",
    /* Who uploaded a capture (null: a host sent it); profiles that stay. */
    "ALTER TABLE captures ADD COLUMN owner TEXT; ALTER TABLE profiles ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;",
    /* Rows of the fleet have a table of their own now, by which they are read much faster: all are made again. */
    "UPDATE profiles SET fleet='waiting', fleet_ns=0 WHERE fleet='ready';",
};
_Static_assert(sizeof migrations / sizeof *migrations == CATALOG_SCHEMA_VERSION, "one migration per version");

const char *catalog_state_name(enum catalog_state s)
{
    static const char *const names[] = {
#define X(name, text) text,
        CATALOG_STATES(X)
#undef X
    };
    return names[s];
}

static int errno_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EBADMSG;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_CONSTRAINT:
        return -EINVAL;
    default:
        return -EIO;
    }
}

int catalog_error(struct catalog *c, const char *what, struct kymo_err *err)
{
    return kymo_err_set(err, errno_of(sqlite3_errcode(c->db)), "%s: %s: %s", c->path, what, sqlite3_errmsg(c->db));
}

void catalog_finalize(sqlite3_stmt **s)
{
    (void)sqlite3_finalize(*s);
    *s = NULL;
}

static int bind_all(struct catalog *c, sqlite3_stmt *s, const char *types, va_list args, struct kymo_err *err)
{
    for (int i = 1; *types; i++, types++) {
        int code;
        if (*types == 't')
            code = sqlite3_bind_text(s, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
        else
            code = sqlite3_bind_int64(s, i, va_arg(args, int64_t));
        if (code != SQLITE_OK)
            return catalog_error(c, "cannot bind", err);
    }
    return 0;
}

static int prepare(struct catalog *c, sqlite3_stmt **ret, struct kymo_err *err, const char *sql, const char *types,
                   va_list args)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return catalog_error(c, "cannot prepare a statement", err);
    int r = bind_all(c, s, types, args, err);
    if (r == 0)
        *ret = KYMO_TAKE(s);
    return r;
}

int catalog_prepare(struct catalog *c, sqlite3_stmt **ret, struct kymo_err *err, const char *sql, const char *types,
                    ...)
{
    va_list args;
    va_start(args, types);
    int r = prepare(c, ret, err, sql, types, args);
    va_end(args);
    return r;
}

int catalog_run(struct catalog *c, struct kymo_err *err, const char *sql, const char *types, ...)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    va_list args;
    va_start(args, types);
    int r = prepare(c, &s, err, sql, types, args);
    va_end(args);
    if (r < 0)
        return r;
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW)
        continue;
    return code == SQLITE_DONE ? sqlite3_changes(c->db) : catalog_error(c, "cannot write", err);
}

int catalog_script(struct catalog *c, const char *sql, struct kymo_err *err)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : catalog_error(c, "cannot write", err);
}

int catalog_end(struct catalog *c, int r, struct kymo_err *err)
{
    if (r == 0)
        r = catalog_script(c, "COMMIT", err);
    /* A full disk may have ended the transaction already. */
    if (r < 0 && !sqlite3_get_autocommit(c->db))
        (void)sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

void catalog_text(sqlite3_stmt *s, int column, char *out, size_t n)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    (void)snprintf(out, n, "%s", text ? text : "");
}

static int read_version(struct catalog *c, int *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, "PRAGMA user_version", "");
    if (r < 0)
        return r;
    if (sqlite3_step(s) != SQLITE_ROW)
        return catalog_error(c, "cannot read its version", err);
    *ret = sqlite3_column_int(s, 0);
    return 0;
}

static int migrate_one(struct catalog *c, int from, struct kymo_err *err)
{
    char version[64];
    (void)snprintf(version, sizeof version, "PRAGMA user_version=%d", from + 1);
    int r = catalog_script(c, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    r = catalog_script(c, migrations[from], err);
    if (r == 0)
        r = catalog_script(c, version, err);
    return catalog_end(c, r, err);
}

static int check_version(struct catalog *c, bool read_only, struct kymo_err *err)
{
    int version = 0;
    int r = read_version(c, &version, err);
    if (r < 0)
        return r;
    if (version > CATALOG_SCHEMA_VERSION || version < 0)
        return kymo_err_set(err, -ENOTSUP, "%s: version %d, but this program knows versions up to %d", c->path, version,
                            CATALOG_SCHEMA_VERSION);
    if (read_only && version < CATALOG_SCHEMA_VERSION)
        return kymo_err_set(err, -ENOTSUP,
                            "%s: version %d is older than this program's; it is brought up to date by "
                            "the next program that writes to the store",
                            c->path, version);
    for (; r == 0 && version < CATALOG_SCHEMA_VERSION; version++)
        r = migrate_one(c, version, err);
    return r;
}

struct catalog *catalog_free(struct catalog *c)
{
    if (!c)
        return NULL;
    (void)sqlite3_close(c->db);
    kymo_free(c->path);
    kymo_free(c);
    return NULL;
}

static void catalog_freep(struct catalog **c)
{
    catalog_free(*c);
}

/* A commit is durable when it returns: what the raw store was acknowledged for must be known after a loss of power. */
static int set_up(struct catalog *c, bool read_only, struct kymo_err *err)
{
    (void)sqlite3_busy_timeout(c->db, BUSY_MS);
    int r = catalog_script(c, "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF", err);
    if (r == 0 && !read_only)
        r = catalog_script(c, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", err);
    return r < 0 ? r : check_version(c, read_only, err);
}

int catalog_open(const char *path, bool read_only, struct catalog **ret, struct kymo_err *err)
{
    struct catalog *c KYMO_CLEANUP(catalog_freep) = KYMO_NEW(struct catalog);
    if (!c || !(c->path = kymo_strdup(path)))
        return kymo_err_set(err, -ENOMEM, "no memory for the catalogue");
    int flags = read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int code = sqlite3_open_v2(path, &c->db, flags | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK) {
        int cause = c->db ? sqlite3_system_errno(c->db) : ENOMEM;
        return kymo_err_set(err, cause ? -cause : errno_of(code), "%s: cannot be opened: %s", path,
                            cause ? strerror(cause) : sqlite3_errstr(code));
    }
    int r = set_up(c, read_only, err);
    if (r == 0)
        *ret = KYMO_TAKE(c);
    return r;
}
