/* What reads the catalogue. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/catalog_impl.h"

#define COLUMNS                                                                                                        \
    "SELECT p.name, p.capture, p.file, p.file_index, p.vnc, p.file_size, c.job, c.host, c.rank, p.state, p.reason,"    \
    " coalesce(p.file_offset,-1), p.stage, p.done, p.total, p.attempts, p.received_ns, p.queued_ns, p.started_ns,"     \
    " p.finished_ns, p.processor, p.schema_version, p.records, p.tables, p.bytes"                                      \
    " FROM profiles p JOIN captures c ON c.id = p.capture "

static enum catalog_state state_of(const char *text)
{
    int s = 0;
    while (s + 1 < CATALOG_STATE_MAX && strcmp(catalog_state_name((enum catalog_state)s), text) != 0)
        s++;
    return (enum catalog_state)s;
}

static void read_profile(sqlite3_stmt *s, struct catalog_profile *p)
{
    char state[16];
    *p = (struct catalog_profile){0};
    catalog_text(s, 0, p->name, sizeof p->name);
    catalog_text(s, 1, p->capture, sizeof p->capture);
    catalog_text(s, 2, p->file, sizeof p->file);
    p->file_index = (uint32_t)sqlite3_column_int64(s, 3);
    p->vnc = (uint32_t)sqlite3_column_int64(s, 4);
    p->file_size = (uint64_t)sqlite3_column_int64(s, 5);
    catalog_text(s, 6, p->job, sizeof p->job);
    catalog_text(s, 7, p->host, sizeof p->host);
    p->rank = (uint32_t)sqlite3_column_int64(s, 8);
    catalog_text(s, 9, state, sizeof state);
    p->state = state_of(state);
    catalog_text(s, 10, p->reason, sizeof p->reason);
    p->file_offset = sqlite3_column_int64(s, 11);
    catalog_text(s, 12, p->stage, sizeof p->stage);
    p->done = (uint64_t)sqlite3_column_int64(s, 13);
    p->total = (uint64_t)sqlite3_column_int64(s, 14);
    p->attempts = (uint32_t)sqlite3_column_int64(s, 15);
    p->received_ns = sqlite3_column_int64(s, 16);
    p->queued_ns = sqlite3_column_int64(s, 17);
    p->started_ns = sqlite3_column_int64(s, 18);
    p->finished_ns = sqlite3_column_int64(s, 19);
    catalog_text(s, 20, p->processor, sizeof p->processor);
    catalog_text(s, 21, p->schema_version, sizeof p->schema_version);
    p->records = (uint64_t)sqlite3_column_int64(s, 22);
    p->tables = (uint64_t)sqlite3_column_int64(s, 23);
    p->bytes = (uint64_t)sqlite3_column_int64(s, 24);
}

/* 1: *ret is the next row. 0: there is none. */
static int step(struct catalog *c, sqlite3_stmt *s, struct kymo_err *err)
{
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return code == SQLITE_ROW;
    return catalog_error(c, "cannot read", err);
}

int catalog_next(struct catalog *c, int64_t before_ns, struct catalog_profile *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            COLUMNS "WHERE p.state='queued' AND p.queued_ns < ? ORDER BY p.queued_ns, p.name LIMIT 1",
                            "i", before_ns);
    if (r == 0)
        r = step(c, s, err);
    if (r == 1)
        read_profile(s, ret);
    return r;
}

int catalog_find(struct catalog *c, const char *profile, struct catalog_profile *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, COLUMNS "WHERE p.name=?", "t", profile);
    if (r == 0)
        r = step(c, s, err);
    if (r < 0)
        return r;
    if (r == 0)
        return kymo_err_set(err, -ENOENT, "there is no profile %.200s", profile);
    read_profile(s, ret);
    return 0;
}

int catalog_list(struct catalog *c, const char *capture, int (*each)(void *ctx, const struct catalog_profile *p),
                 void *ctx, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    struct catalog_profile p;
    int r = catalog_prepare(c, &s, err, COLUMNS "WHERE ?1 IS NULL OR p.capture=?1 ORDER BY p.received_ns, p.name", "t",
                            capture);
    if (r < 0)
        return r;
    while ((r = step(c, s, err)) == 1) {
        read_profile(s, &p);
        r = each(ctx, &p);
        if (r != 0)
            return r;
    }
    return r;
}

int catalog_list_captures(struct catalog *c, int (*each)(void *ctx, const struct catalog_capture *capture), void *ctx,
                          struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            "SELECT id, state, reason, files, bytes FROM capture_states ORDER BY received_ns, id", "");
    if (r < 0)
        return r;
    while ((r = step(c, s, err)) == 1) {
        struct catalog_capture capture;
        catalog_text(s, 0, capture.id, sizeof capture.id);
        catalog_text(s, 1, capture.state, sizeof capture.state);
        catalog_text(s, 2, capture.reason, sizeof capture.reason);
        capture.files = (uint64_t)sqlite3_column_int64(s, 3);
        capture.bytes = (uint64_t)sqlite3_column_int64(s, 4);
        r = each(ctx, &capture);
        if (r != 0)
            return r;
    }
    return r;
}
