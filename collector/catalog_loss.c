/* Losses in the catalogue: what a processor counted, and whether the host was told. */
#include <errno.h>

#include "base/alloc.h"
#include "collector/catalog_impl.h"

/* Those that a host can do something about. */
#define OF_THE_DEVICE "device_ring"
/* Who is to be told of a capture's losses. */
#define SOURCE "coalesce(c.source, c.host)"

static int put_losses(struct catalog *c, const char *profile, const struct loss *losses, size_t n, struct kymo_err *err)
{
    int r = catalog_run(c, err, "DELETE FROM losses WHERE profile=?", "t", profile);
    for (size_t i = 0; r >= 0 && i < n && i < LOSS_MAX; i++) {
        const struct loss *l = &losses[i];
        r = catalog_run(c, err, "INSERT INTO losses VALUES(?1,?2,?3,?4,?5,iif(?6,?7,NULL),iif(?8,?9,NULL))",
                        "titttiiii", profile, (int64_t)i, l->stage, l->ring, l->cause, (int64_t)l->has_records,
                        (int64_t)l->records, (int64_t)l->has_emitted, (int64_t)l->emitted);
    }
    if (r < 0)
        return r;
    /* A profile that is made again tells nothing new. */
    r = catalog_run(
        c, err,
        "UPDATE profiles SET told=iif(EXISTS(SELECT 1 FROM losses WHERE profile=?1 AND stage='" OF_THE_DEVICE
        "'), 0, NULL) WHERE name=?1 AND told IS NOT 1",
        "t", profile);
    return r < 0 ? r : 0;
}

int catalog_set_losses(struct catalog *c, const char *profile, const struct loss *losses, size_t n,
                       struct kymo_err *err)
{
    int r = catalog_script(c, "BEGIN IMMEDIATE", err);
    return r < 0 ? r : catalog_end(c, put_losses(c, profile, losses, n, err), err);
}

static int step(struct catalog *c, sqlite3_stmt *s, struct kymo_err *err)
{
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return code == SQLITE_ROW;
    return catalog_error(c, "cannot read", err);
}

int catalog_list_losses(struct catalog *c, const char *profile, int (*each)(void *ctx, const struct loss *loss),
                        void *ctx, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(
        c, &s, err, "SELECT stage, ring, cause, records, emitted FROM losses WHERE profile=? ORDER BY n", "t", profile);
    if (r < 0)
        return r;
    while ((r = step(c, s, err)) == 1) {
        struct loss l = {.has_records = sqlite3_column_type(s, 3) != SQLITE_NULL,
                         .has_emitted = sqlite3_column_type(s, 4) != SQLITE_NULL,
                         .records = (uint64_t)sqlite3_column_int64(s, 3),
                         .emitted = (uint64_t)sqlite3_column_int64(s, 4)};
        catalog_text(s, 0, l.stage, sizeof l.stage);
        catalog_text(s, 1, l.ring, sizeof l.ring);
        catalog_text(s, 2, l.cause, sizeof l.cause);
        r = each(ctx, &l);
        if (r != 0)
            return r;
    }
    return r;
}

int catalog_next_untold(struct catalog *c, const char *source, const char *after, struct catalog_profile *profile,
                        struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    char name[MANIFEST_PROFILE_NAME_MAX + 1];
    int r = catalog_prepare(c, &s, err,
                            "SELECT p.name FROM profiles p JOIN captures c ON c.id = p.capture WHERE p.told=0"
                            " AND p.state='ready' AND p.name > ?2 AND " SOURCE "=?1 ORDER BY p.name LIMIT 1",
                            "tt", source, after);
    if (r == 0)
        r = step(c, s, err);
    if (r <= 0)
        return r;
    catalog_text(s, 0, name, sizeof name);
    r = catalog_find(c, name, profile, err);
    return r < 0 ? r : 1;
}

int catalog_told(struct catalog *c, const char *profile, struct kymo_err *err)
{
    int r = catalog_run(c, err, "UPDATE profiles SET told=1 WHERE name=? AND told=0", "t", profile);
    return r < 0 ? r : 0;
}

int catalog_untold_source(struct catalog *c, const char *profile, char ret[static MANIFEST_TEXT_MAX + 1],
                          struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            "SELECT " SOURCE " FROM profiles p JOIN captures c ON c.id = p.capture"
                            " WHERE p.name=? AND p.told=0 AND p.state='ready'",
                            "t", profile);
    if (r == 0)
        r = step(c, s, err);
    if (r == 1)
        catalog_text(s, 0, ret, MANIFEST_TEXT_MAX + 1);
    return r;
}
