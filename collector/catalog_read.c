/* What reads the catalogue. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/catalog_impl.h"

#define COLUMNS "SELECT " CATALOG_PROFILE_COLUMNS " FROM profiles p JOIN captures c ON c.id = p.capture "

static enum catalog_state state_of(const char *text)
{
    int s = 0;
    while (s + 1 < CATALOG_STATE_MAX && strcmp(catalog_state_name((enum catalog_state)s), text) != 0)
        s++;
    return (enum catalog_state)s;
}

void catalog_read_profile(sqlite3_stmt *s, struct catalog_profile *p)
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
    p->is_parent = sqlite3_column_int(s, 25);
    catalog_text(s, 26, p->request, sizeof p->request);
    catalog_text(s, 27, p->fleet, sizeof p->fleet);
    catalog_text(s, 28, p->fleet_reason, sizeof p->fleet_reason);
    p->captured_ns = sqlite3_column_int64(s, 29);
    catalog_text(s, 30, p->owner, sizeof p->owner);
    p->pinned = sqlite3_column_int(s, 31) != 0;
}

int catalog_step(struct catalog *c, sqlite3_stmt *s, struct kymo_err *err)
{
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return code == SQLITE_ROW;
    return catalog_error(c, "cannot read", err);
}

int catalog_receiving_source(struct catalog *c, const char *capture, char ret_source[static MANIFEST_TEXT_MAX + 1],
                             int64_t *ret_ns, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, "SELECT source, received_ns FROM captures WHERE id=? AND state='receiving'",
                            "t", capture);
    if (r == 0)
        r = catalog_step(c, s, err);
    if (r == 1) {
        catalog_text(s, 0, ret_source, MANIFEST_TEXT_MAX + 1);
        *ret_ns = sqlite3_column_int64(s, 1);
    }
    return r;
}

int catalog_next(struct catalog *c, int64_t before_ns, struct catalog_profile *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            COLUMNS "WHERE p.state='queued' AND p.queued_ns < ? ORDER BY p.queued_ns, p.name LIMIT 1",
                            "i", before_ns);
    if (r == 0)
        r = catalog_step(c, s, err);
    if (r == 1)
        catalog_read_profile(s, ret);
    return r;
}

int catalog_find(struct catalog *c, const char *profile, struct catalog_profile *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, COLUMNS "WHERE p.name=?", "t", profile);
    if (r == 0)
        r = catalog_step(c, s, err);
    if (r < 0)
        return r;
    if (r == 0)
        return kymo_err_set(err, -ENOENT, "there is no profile %.200s", profile);
    catalog_read_profile(s, ret);
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
    while ((r = catalog_step(c, s, err)) == 1) {
        catalog_read_profile(s, &p);
        r = each(ctx, &p);
        if (r != 0)
            return r;
    }
    return r;
}

void catalog_read_capture(sqlite3_stmt *s, struct catalog_capture *capture)
{
    *capture = (struct catalog_capture){0};
    catalog_text(s, 0, capture->id, sizeof capture->id);
    catalog_text(s, 1, capture->state, sizeof capture->state);
    catalog_text(s, 2, capture->reason, sizeof capture->reason);
    capture->files = (uint64_t)sqlite3_column_int64(s, 3);
    capture->bytes = (uint64_t)sqlite3_column_int64(s, 4);
    catalog_text(s, 5, capture->job, sizeof capture->job);
    catalog_text(s, 6, capture->host, sizeof capture->host);
    capture->rank = (uint32_t)sqlite3_column_int64(s, 7);
    catalog_text(s, 8, capture->mode, sizeof capture->mode);
    catalog_text(s, 9, capture->trigger, sizeof capture->trigger);
    capture->first_execution = (uint64_t)sqlite3_column_int64(s, 10);
    capture->execution_count = (uint64_t)sqlite3_column_int64(s, 11);
    capture->start_ns = sqlite3_column_int64(s, 12);
    capture->end_ns = sqlite3_column_int64(s, 13);
    capture->received_ns = sqlite3_column_int64(s, 14);
    catalog_text(s, 15, capture->instance_type, sizeof capture->instance_type);
    catalog_text(s, 16, capture->driver_version, sizeof capture->driver_version);
    catalog_text(s, 17, capture->runtime_version, sizeof capture->runtime_version);
    catalog_text(s, 18, capture->writer, sizeof capture->writer);
}

#define CAPTURES "SELECT " CATALOG_CAPTURE_COLUMNS " FROM captures c JOIN capture_states s ON s.id = c.id "

int catalog_list_captures(struct catalog *c, int (*each)(void *ctx, const struct catalog_capture *capture), void *ctx,
                          struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    struct catalog_capture capture;
    int r = catalog_prepare(c, &s, err, CAPTURES "ORDER BY c.received_ns, c.id", "");
    if (r < 0)
        return r;
    while ((r = catalog_step(c, s, err)) == 1) {
        catalog_read_capture(s, &capture);
        r = each(ctx, &capture);
        if (r != 0)
            return r;
    }
    return r;
}

int catalog_find_capture(struct catalog *c, const char *id, struct catalog_capture *ret, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err, CAPTURES "WHERE c.id=?", "t", id);
    if (r == 0)
        r = catalog_step(c, s, err);
    if (r < 0)
        return r;
    if (r == 0)
        return kymo_err_set(err, -ENOENT, "there is no capture %.100s", id);
    catalog_read_capture(s, ret);
    return 0;
}

int catalog_list_labels(struct catalog *c, const char *capture,
                        int (*each)(void *ctx, const char *key, const char *value), void *ctx, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    char key[MANIFEST_TEXT_MAX + 1], value[MANIFEST_TEXT_MAX + 1];
    int r = catalog_prepare(c, &s, err, "SELECT key, value FROM labels WHERE capture=? ORDER BY key", "t", capture);
    if (r < 0)
        return r;
    while ((r = catalog_step(c, s, err)) == 1) {
        catalog_text(s, 0, key, sizeof key);
        catalog_text(s, 1, value, sizeof value);
        r = each(ctx, key, value);
        if (r != 0)
            return r;
    }
    return r;
}

int catalog_count(struct catalog *c, uint64_t ret[static CATALOG_STATE_MAX], struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    uint64_t counts[CATALOG_STATE_MAX] = {0};
    char state[16];
    int r = catalog_prepare(c, &s, err, "SELECT state, n FROM profile_counts", "");
    if (r < 0)
        return r;
    while ((r = catalog_step(c, s, err)) == 1) {
        catalog_text(s, 0, state, sizeof state);
        counts[state_of(state)] += (uint64_t)sqlite3_column_int64(s, 1);
    }
    if (r == 0)
        memcpy(ret, counts, sizeof counts);
    return r;
}
