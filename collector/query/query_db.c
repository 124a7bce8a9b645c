#include "collector/query/query_db.h"

#include <duckdb.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "collector/query/query_cell.h"
#include "collector/query/query_internal.h"
#include "collector/query/query_views.h"

#define DEFAULT_MEMORY (512ull << 20)
#define DIR_NAME_MAX 32
#define AGAIN_MS 100

struct query_db {
    duckdb_database database;
    duckdb_connection connection;
    unsigned timeout_ms;
    bool read_once, skip_bad;
    const struct query_bad *known_bad; /* while it is being opened */
    struct query_bad bad;
    int *dir_fds; /* -1: could not be opened */
    size_t n_dirs;
};

/*
 * Interrupts the connection when a query runs over its time; stopped by the query's end. Again and again: what comes
 * between two statements of one query is lost.
 */
struct watchdog {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t done_changed;
    duckdb_connection connection;
    struct timespec deadline;
    bool running, done, fired;
};

static void add_ms(struct timespec *t, unsigned ms)
{
    t->tv_sec += ms / 1000;
    t->tv_nsec += (long)(ms % 1000) * 1000000;
    if (t->tv_nsec >= 1000000000) {
        t->tv_nsec -= 1000000000;
        t->tv_sec++;
    }
}

static void *watch(void *arg)
{
    struct watchdog *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->done)
        if (pthread_cond_timedwait(&w->done_changed, &w->lock, &w->deadline) == ETIMEDOUT && !w->done) {
            w->fired = true;
            duckdb_interrupt(w->connection);
            add_ms(&w->deadline, AGAIN_MS);
        }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int watchdog_start(struct watchdog *w, duckdb_connection connection, unsigned timeout_ms)
{
    *w = (struct watchdog){.connection = connection};
    if (!timeout_ms)
        return 0;
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->done_changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &w->deadline);
    add_ms(&w->deadline, timeout_ms);
    int r = pthread_create(&w->thread, NULL, watch, w);
    w->running = r == 0;
    return -r;
}

/* True when the time was over. */
static bool watchdog_stop(struct watchdog *w)
{
    if (!w->running)
        return false;
    (void)pthread_mutex_lock(&w->lock);
    w->done = true;
    (void)pthread_cond_signal(&w->done_changed);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->done_changed);
    (void)pthread_mutex_destroy(&w->lock);
    return w->fired;
}

static int execute(struct query_db *db, const char *sql, struct kymo_err *err)
{
    duckdb_result result;
    int r = 0;
    if (duckdb_query(db->connection, sql, &result) == DuckDBError)
        r = kymo_err_lines(err, -EINVAL, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    return r;
}

static int open_database(struct query_db *db, const struct query_limits *limits, struct kymo_err *err)
{
    uint64_t memory = limits->memory_bytes ? limits->memory_bytes : DEFAULT_MEMORY;
    char memory_text[32], threads_text[16];
    (void)snprintf(memory_text, sizeof memory_text, "%lluKiB", (unsigned long long)(memory / 1024));
    (void)snprintf(threads_text, sizeof threads_text, "%u", limits->threads ? limits->threads : 1);
    const char *const settings[][2] = {
        {"memory_limit", memory_text},
        {"threads", threads_text},
        {"temp_directory", limits->spill_dir ? limits->spill_dir : ""},
        {"autoinstall_known_extensions", "false"},
        {"autoload_known_extensions", "false"},
        {"allow_community_extensions", "false"},
    };
    duckdb_config config;
    if (duckdb_create_config(&config) == DuckDBError)
        return kymo_err_set(err, -ENOMEM, "no DuckDB configuration can be made");
    int r = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && r == 0; i++)
        if (duckdb_set_config(config, settings[i][0], settings[i][1]) == DuckDBError)
            r = kymo_err_set(err, -EINVAL, "DuckDB refuses %s = %s", settings[i][0], settings[i][1]);
    char *text = NULL;
    if (r == 0 && duckdb_open_ext(NULL, &db->database, config, &text) == DuckDBError)
        r = kymo_err_set(err, -EIO, "cannot open DuckDB: %s", text ? text : "no reason given");
    duckdb_free(text);
    duckdb_destroy_config(&config);
    if (r == 0 && duckdb_connect(db->database, &db->connection) == DuckDBError)
        r = kymo_err_set(err, -EIO, "cannot connect to DuckDB");
    return r;
}

/* After the views are there: the directories are all that can be read, and no query can open more. */
static int lock_down(struct query_db *db, struct kymo_err *err)
{
    struct kymo_buf sql;
    kymo_buf_init(&sql, QUERY_SQL_MAX);
    int r = kymo_buf_printf(&sql,
                            "SET GLOBAL parquet_metadata_cache = %s; SET GLOBAL enable_external_file_cache = %s;"
                            " SET allowed_directories = [",
                            db->read_once ? "false" : "true", db->read_once ? "false" : "true");
    for (size_t i = 0; i < db->n_dirs && r == 0; i++)
        if (db->dir_fds[i] >= 0)
            r = kymo_buf_printf(&sql, "'/proc/self/fd/%d',", db->dir_fds[i]);
    if (r == 0)
        r = kymo_buf_printf(&sql, "]; SET enable_external_access = false; SET lock_configuration = true");
    r = r < 0 ? kymo_err_set(err, r, "no memory for a statement") : execute(db, (const char *)sql.data, err);
    kymo_buf_done(&sql);
    return r;
}

static int create_view(void *ctx, const char *sql, struct kymo_err *err)
{
    return execute(ctx, sql, err);
}

/*
 * DuckDB takes the paths of files for patterns, and a directory may be called a*b. By way of its descriptor the
 * directory has a name without special characters, whatever people called it.
 */
static int open_dir(struct query_db *db, const char *dir, char ret_name[static DIR_NAME_MAX], struct kymo_err *err)
{
    int fd = kymo_file_open(dir, O_RDONLY | O_DIRECTORY, 0, err);
    if (fd < 0)
        return fd;
    (void)snprintf(ret_name, DIR_NAME_MAX, "/proc/self/fd/%d", fd);
    db->dir_fds[db->n_dirs++] = fd;
    return 0;
}

/* schema NULL: the main one. */
static int make_views(struct query_db *db, const char *dir, const char *name, const char *schema, const char *named,
                      struct kymo_err *err)
{
    char text[64];
    int r = 0;
    if (schema) {
        (void)snprintf(text, sizeof text, "CREATE SCHEMA %s; SET schema = '%s'", schema, schema);
        r = execute(db, text, err);
    }
    if (r == 0)
        r = query_views_each(name, named, db->known_bad, db->skip_bad ? &db->bad : NULL, create_view, db, err);
    if (r == -ENOENT)
        r = kymo_err_set(err, -ENOENT, "%s: no table (NAME.parquet) in this directory", dir);
    return r == 0 && schema ? execute(db, "SET schema = 'main'", err) : r;
}

static int open_dirs(struct query_db *db, const char *const *dirs, size_t n, bool schemas, const char *named,
                     struct kymo_err *err)
{
    char name[DIR_NAME_MAX], schema[32];
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        r = open_dir(db, dirs[i], name, err);
        if (r == 0 && i == 0)
            r = make_views(db, dirs[i], name, NULL, named, err);
        (void)snprintf(schema, sizeof schema, "p%zu", i + 1);
        if (r == 0 && schemas)
            r = make_views(db, dirs[i], name, schema, named, err);
    }
    return r;
}

static void open_places(struct query_db *db, const char *const *dirs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        db->dir_fds[db->n_dirs++] = kymo_file_open(dirs[i], O_RDONLY | O_DIRECTORY, 0, NULL);
}

enum views { VIEWS_NONE, VIEWS_PLAIN, VIEWS_AND_SCHEMAS };

static int open_all(const char *const *dirs, size_t n, enum views views, const char *named,
                    const struct query_limits *limits, struct query_db **ret, struct kymo_err *err)
{
    struct query_db *db KYMO_CLEANUP(query_db_freep) = KYMO_NEW(struct query_db);
    if (!db || !(db->dir_fds = KYMO_NEW_ARRAY(int, n + 1)))
        return kymo_err_set(err, -ENOMEM, "out of memory");
    db->timeout_ms = limits->timeout_ms;
    db->read_once = limits->read_once;
    db->skip_bad = limits->skip_bad;
    db->known_bad = limits->known_bad;
    int r = open_database(db, limits, err);
    /* Each statement looks at the files' ends again otherwise; a file that has changed is read anew even so. */
    if (r == 0 && !db->read_once)
        r = execute(db, "SET parquet_metadata_cache = true", err);
    if (r == 0)
        open_places(db, dirs, views == VIEWS_NONE ? n : 0);
    if (r == 0 && views != VIEWS_NONE)
        r = open_dirs(db, dirs, n, views == VIEWS_AND_SCHEMAS, named, err);
    if (r == 0)
        r = lock_down(db, err);
    db->known_bad = NULL;
    if (r < 0)
        return r;
    *ret = KYMO_TAKE(db);
    return 0;
}

int query_db_open(const char *dir, const struct query_limits *limits, struct query_db **ret, struct kymo_err *err)
{
    return open_all(&dir, 1, VIEWS_PLAIN, NULL, limits, ret, err);
}

int query_db_open_many(const char *const *dirs, size_t n, const char *sql, const struct query_limits *limits,
                       struct query_db **ret, struct kymo_err *err)
{
    if (n == 0 || n > QUERY_DIRS_MAX)
        return kymo_err_set(err, -EINVAL, "1 to %d directories can be asked at once", QUERY_DIRS_MAX);
    return open_all(dirs, n, n > 1 ? VIEWS_AND_SCHEMAS : VIEWS_PLAIN, sql, limits, ret, err);
}

int query_db_open_places(const char *const *dirs, size_t n, const struct query_limits *limits, struct query_db **ret,
                         struct kymo_err *err)
{
    if (n > QUERY_PLACES_MAX)
        return kymo_err_set(err, -EINVAL, "at most %d directories can be read at once", QUERY_PLACES_MAX);
    return open_all(dirs, n, VIEWS_NONE, NULL, limits, ret, err);
}

int query_db_place(const struct query_db *db, size_t i)
{
    return db->dir_fds[i];
}

const struct query_bad *query_db_bad(const struct query_db *db)
{
    return &db->bad;
}

void query_db_interrupt(struct query_db *db)
{
    duckdb_interrupt(db->connection);
}

int query_db_connect(struct query_db *db, duckdb_connection *ret, struct kymo_err *err)
{
    return duckdb_connect(db->database, ret) == DuckDBError ? kymo_err_set(err, -EIO, "cannot connect to DuckDB") : 0;
}

struct query_db *query_db_free(struct query_db *db)
{
    if (!db)
        return NULL;
    if (db->connection)
        duckdb_disconnect(&db->connection);
    if (db->database)
        duckdb_close(&db->database);
    for (size_t i = 0; i < db->n_dirs; i++)
        if (db->dir_fds[i] >= 0)
            (void)kymo_file_close(db->dir_fds[i]);
    kymo_free(db->dir_fds);
    query_bad_done(&db->bad);
    kymo_free(db);
    return NULL;
}

void query_db_freep(struct query_db **db)
{
    *db = query_db_free(*db);
}

static int run_prepared(duckdb_prepared_statement statement, query_stream stream, const void *sink,
                        struct kymo_err *err)
{
    duckdb_pending_result pending = NULL;
    duckdb_result result = {0};
    const char *text = NULL;
    int r;
    if (duckdb_pending_prepared_streaming(statement, &pending) == DuckDBError)
        text = duckdb_pending_error(pending);
    else if (duckdb_execute_pending(pending, &result) == DuckDBError)
        text = duckdb_result_error(&result);
    if (text)
        r = kymo_err_lines(err, -EINVAL, text);
    else
        r = stream(&result, sink, err);
    duckdb_destroy_result(&result);
    duckdb_destroy_pending(&pending);
    return r;
}

int query_db_stream(struct query_db *db, const char *sql, struct query_types *types, query_stream stream,
                    const void *sink, struct kymo_err *err)
{
    if (strlen(sql) > QUERY_SQL_MAX)
        return kymo_err_set(err, -E2BIG, "the query is longer than %u bytes", QUERY_SQL_MAX);
    duckdb_prepared_statement statement = NULL;
    struct watchdog dog;
    int r = watchdog_start(&dog, db->connection, db->timeout_ms);
    if (r < 0)
        return kymo_err_set(err, r, "no thread for the time limit: %s", strerror(-r));
    r = query_db_prepare(db->connection, sql, types, &statement, err);
    if (r == 0)
        r = run_prepared(statement, stream, sink, err);
    duckdb_destroy_prepare(&statement);
    if (watchdog_stop(&dog) && r < 0)
        r = kymo_err_set(err, -ETIMEDOUT, "the query took longer than %u ms", db->timeout_ms);
    return r;
}

static int stream_text(duckdb_result *result, const void *sink, struct kymo_err *err)
{
    return query_cell_stream(result, sink, err);
}

int query_db_run(struct query_db *db, const char *sql, const struct query_sink *sink, struct kymo_err *err)
{
    return query_db_stream(db, sql, NULL, stream_text, sink, err);
}

struct integers {
    int64_t *values;
    size_t n, rows;
};

static int keep_row(void *ctx, size_t columns, const char *const *values)
{
    struct integers *k = ctx;
    if (k->rows++ > 0)
        return 0;
    for (size_t i = 0; i < k->n; i++)
        k->values[i] = i < columns && values[i] ? strtoll(values[i], NULL, 10) : INT64_MIN;
    return 0;
}

int query_db_integers(struct query_db *db, const char *sql, int64_t *ret, size_t n, struct kymo_err *err)
{
    struct integers k = {.values = ret, .n = n};
    const struct query_sink sink = {.row = keep_row, .ctx = &k};
    int r = query_db_run(db, sql, &sink, err);
    if (r < 0)
        return r;
    return k.rows ? 0 : kymo_err_set(err, -ENODATA, "the query gave no row");
}
