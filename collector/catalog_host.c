/* What hosts had to give up before it could reach the collector. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/catalog_impl.h"

/* A row that was told before has grown, or is told again because the answer was lost; it never shrinks. */
static int put_row(struct catalog *c, const char *source, const struct catalog_host_loss *row, struct kymo_err *err)
{
    int r = catalog_run(c, err,
                        "INSERT INTO host_losses VALUES(?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"
                        " last_seq=max(last_seq, excluded.last_seq), captures=max(captures, excluded.captures),"
                        " bytes=max(bytes, excluded.bytes), last_unix_ns=max(last_unix_ns, excluded.last_unix_ns)",
                        "tiiitiiiii", source, (int64_t)row->row, (int64_t)row->first_seq, row->first_unix_ns,
                        row->cause, (int64_t)row->last_seq, (int64_t)row->captures, (int64_t)row->bytes,
                        row->last_unix_ns, (int64_t)kymo_clock_real_ns());
    return r < 0 ? r : 0;
}

int catalog_add_host_losses(struct catalog *c, const char *source, const struct catalog_host_loss *rows, size_t n,
                            struct kymo_err *err)
{
    int r = catalog_script(c, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = put_row(c, source, &rows[i], err);
    return catalog_end(c, r, err);
}

int catalog_list_host_losses(struct catalog *c, const char *source,
                             int (*each)(void *ctx, const char *source, const struct catalog_host_loss *row), void *ctx,
                             struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            "SELECT source, row, first_seq, first_unix_ns, cause, last_seq, captures, bytes,"
                            " last_unix_ns, received_ns FROM host_losses WHERE ?1 IS NULL OR source=?1"
                            " ORDER BY source, first_unix_ns, row, first_seq",
                            "t", source);
    if (r < 0)
        return r;
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        char from[MANIFEST_TEXT_MAX + 1];
        struct catalog_host_loss row = {.row = (uint64_t)sqlite3_column_int64(s, 1),
                                        .first_seq = (uint64_t)sqlite3_column_int64(s, 2),
                                        .first_unix_ns = sqlite3_column_int64(s, 3),
                                        .last_seq = (uint64_t)sqlite3_column_int64(s, 5),
                                        .captures = (uint64_t)sqlite3_column_int64(s, 6),
                                        .bytes = (uint64_t)sqlite3_column_int64(s, 7),
                                        .last_unix_ns = sqlite3_column_int64(s, 8),
                                        .received_ns = sqlite3_column_int64(s, 9)};
        catalog_text(s, 0, from, sizeof from);
        catalog_text(s, 4, row.cause, sizeof row.cause);
        r = each(ctx, from, &row);
        if (r != 0)
            return r;
    }
    return code == SQLITE_DONE ? 0 : catalog_error(c, "cannot read", err);
}
