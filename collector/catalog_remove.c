/* What users of the page do to the catalogue: profiles are pinned and removed. */
#include <errno.h>

#include "base/alloc.h"
#include "collector/catalog_impl.h"

int catalog_pin(struct catalog *c, const char *profile, bool pinned, struct kymo_err *err)
{
    int r = catalog_run(c, err, "UPDATE profiles SET pinned=?2 WHERE name=?1", "ti", profile, (int64_t)pinned);
    if (r == 0)
        return kymo_err_set(err, -ENOENT, "there is no profile %.200s", profile);
    return r < 0 ? r : 0;
}

int catalog_is_alone(struct catalog *c, const char *profile, struct kymo_err *err)
{
    sqlite3_stmt *s KYMO_CLEANUP(catalog_finalize) = NULL;
    int r = catalog_prepare(c, &s, err,
                            "SELECT count(*) FROM profiles WHERE capture=(SELECT capture FROM profiles WHERE name=?)",
                            "t", profile);
    if (r == 0)
        r = catalog_step(c, s, err);
    return r == 1 ? sqlite3_column_int64(s, 0) <= 1 : r;
}

/* What belongs to the capture goes when no profile of it is left; a request goes with the last of its captures. */
static int remove_rows(struct catalog *c, const char *profile, struct kymo_err *err)
{
    static const char *const texts[] = {
        "DELETE FROM losses WHERE profile=?1 AND ?2 IS NOT NULL",
        "DELETE FROM profiles WHERE name=?1 AND ?2 IS NOT NULL",
        "DELETE FROM labels WHERE capture=?2 AND NOT EXISTS(SELECT 1 FROM profiles WHERE capture=?2) AND ?1 IS NOT "
        "NULL",
        "DELETE FROM requests WHERE ?1 IS NOT NULL AND request=(SELECT request FROM captures WHERE id=?2 AND"
        " kind='capture') AND NOT EXISTS(SELECT 1 FROM captures WHERE request=requests.request AND kind='capture' AND"
        " id<>?2) AND NOT EXISTS(SELECT 1 FROM profiles WHERE capture=?2)",
        "DELETE FROM captures WHERE id=?2 AND NOT EXISTS(SELECT 1 FROM profiles WHERE capture=?2) AND ?1 IS NOT NULL",
    };
    struct catalog_profile p;
    int r = catalog_find(c, profile, &p, err);
    for (size_t i = 0; r >= 0 && i < sizeof texts / sizeof *texts; i++)
        r = catalog_run(c, err, texts[i], "tt", profile, p.capture);
    return r < 0 ? r : 0;
}

int catalog_remove(struct catalog *c, const char *profile, struct kymo_err *err)
{
    int r = catalog_script(c, "BEGIN IMMEDIATE", err);
    return r < 0 ? r : catalog_end(c, remove_rows(c, profile, err), err);
}
