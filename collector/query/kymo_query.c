/* kymo-query: read-only SQL over one directory of Parquet tables, in a process of its own, with limits. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/sandbox.h"
#include "collector/query/query_damage.h"
#include "collector/query/query_db.h"
#include "collector/query/query_files.h"
#include "collector/query/query_print.h"
#include "collector/query/query_verify.h"
#include "collector/query/serve.h"

#define VERIFY_UNREADABLE 4
#define KEPT_BYTES (32 << 20) /* of memory that is free, at most so much at the end of each heap */

struct args {
    const char *dir, *sql;
    int form;
    bool verify, serve;
    uint64_t memory, threads, timeout_s;
};

static const struct kymo_option rows[] = {
    {.name = "DIR",
     .type = KYMO_OPTION_POSITIONAL,
     .offset = offsetof(struct args, dir),
     .help = "directory of tables (NAME.parquet)"},
    {.name = "SQL",
     .type = KYMO_OPTION_POSITIONAL,
     .offset = offsetof(struct args, sql),
     .help = "one SELECT; each table is a view of its name"},
    {.name = "format",
     .letter = 'f',
     .type = KYMO_OPTION_CHOICE,
     .choices = "table|csv|tsv|json",
     .def = "table",
     .offset = offsetof(struct args, form),
     .help = "table aligns and holds all rows; the others stream"},
    {.name = "verify",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, verify),
     .help = "check the loss equation instead of running SQL"},
    {.name = "serve",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, serve),
     .help = "answer kymo-collector's requests, which come on descriptor 3"},
    QUERY_LIMIT_ROWS(struct args),
    {.name = "timeout",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .def = "60",
     .min = 0,
     .max = 86400,
     .offset = offsetof(struct args, timeout_s),
     .help = "0: no limit"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo query",
    .about = "Runs SQL over the tables of one profile, or verifies that every record is accounted for.",
    .rows = rows,
};

static int report(const struct kymo_err *err)
{
    struct kymo_err told = *err;
    query_files_hide_places(told.text);
    (void)fprintf(stderr, "kymo-query: %s\n", told.text);
    return 1;
}

/* DuckDB does not always say which file it could not read. */
static void find_damage(const struct args *args, const struct query_limits *limits, struct kymo_err *err)
{
    struct query_bad found = {0};
    if (query_damage_may_be(err) &&
        query_damage_find(args->dir, args->sql, NULL, limits, NULL, NULL, &found, NULL) == 0 && found.n)
        (void)kymo_err_set(err, -EBADMSG, "%s/%s", args->dir, found.items[0].why);
    query_bad_done(&found);
}

static int run_query(struct query_db *db, const struct args *args, const struct query_limits *limits)
{
    struct kymo_err err = {0};
    struct query_printer *printer = NULL;
    int r = query_print_new((enum query_form)args->form, stdout, &printer);
    if (r < 0) {
        (void)kymo_err_set(&err, r, "out of memory");
        return report(&err);
    }
    const struct query_sink sink = query_print_sink(printer);
    r = query_db_run(db, args->sql, &sink, &err);
    if (r == 0) {
        r = query_print_finish(printer);
        if (r < 0)
            (void)kymo_err_set(&err, r, "cannot write the result: %s", strerror(-r));
    }
    (void)query_print_free(printer);
    if (r == -ENOBUFS)
        kymo_err_prefix(&err, "the result is too big for an aligned table; use --format csv");
    if (r == -EINVAL)
        find_damage(args, limits, &err);
    return r < 0 ? report(&err) : 0;
}

/* 0 closed, 1 violated, 3 open or unverifiable, 4 could not be read: that must not look like a violation. */
static int run_verify(struct query_db *db, const struct args *args, const struct query_limits *limits)
{
    struct kymo_err err = {0};
    enum query_verdict verdict;
    if (query_verify(db, stdout, &verdict, &err) < 0) {
        find_damage(args, limits, &err);
        (void)report(&err);
        return VERIFY_UNREADABLE;
    }
    if (verdict == QUERY_VIOLATED)
        return 1;
    return verdict == QUERY_CLOSED ? 0 : 3;
}

/* Tables are other people's bytes, and so is SQL. */
static int run_serve(const struct query_limits *limits)
{
    /* Each answer takes and gives back some megabytes, which the kernel would clear and map anew each time. */
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    struct kymo_err err = {0};
    int r = kymo_sandbox_enter_reader(&err);
    if (r == 0)
        r = serve_run(SERVE_FD, limits, &err);
    return r < 0 ? report(&err) : 0;
}

int main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (!args.serve && !args.dir) {
        (void)fprintf(stderr, "kymo-query: DIR is missing\n");
        return 2;
    }
    if (args.serve ? args.dir || args.verify : args.verify == (args.sql != NULL)) {
        (void)fprintf(stderr, "kymo-query: give one of SQL, --verify and --serve, which takes no DIR\n");
        return 2;
    }
    const struct query_limits limits = {
        .memory_bytes = args.memory,
        .threads = (unsigned)args.threads,
        .timeout_ms = (unsigned)(args.timeout_s * 1000),
    };
    struct kymo_err err = {0};
    if (args.serve)
        return run_serve(&limits);
    struct query_db *db KYMO_CLEANUP(query_db_freep) = NULL;
    if (query_db_open(args.dir, &limits, &db, &err) < 0) {
        (void)report(&err);
        return args.verify ? VERIFY_UNREADABLE : 1;
    }
    return args.verify ? run_verify(db, &args, &limits) : run_query(db, &args, &limits);
}
