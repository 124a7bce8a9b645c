/* Profiles that go for good. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/fleet_store.h"
#include "collector/http_guard.h"
#include "collector/store.h"
#include "collector/work_queue.h"

static int may_go(const struct catalog_profile *p, const char *user, struct kymo_err *err)
{
    if (p->pinned)
        return kymo_err_set(err, -EALREADY, "%s is pinned", p->name);
    /* "local": whoever needs no token here may do everything. */
    if (*p->owner && strcmp(p->owner, user) != 0 && strcmp(user, HTTP_USER_LOCAL) != 0)
        return kymo_err_set(err, -EPERM, "%s was uploaded by %s", p->name, p->owner);
    if (p->state == CATALOG_PROCESSING)
        return kymo_err_set(err, -EALREADY, "%s is being made; it can be deleted when that is over", p->name);
    if (!strcmp(p->fleet, "working"))
        return kymo_err_set(err, -EBUSY, "%s: its rows for the fleet are being made; again in a moment", p->name);
    return 0;
}

/* At once for who looks at the list of tables; what a crash leaves goes when work/ is emptied. */
static int remove_tables(const struct store *s, const char *profile, struct kymo_err *err)
{
    char *place KYMO_FREE = work_queue_place(s->data_path, profile);
    char *work KYMO_FREE = kymo_asprintf("%s/work", s->data_path);
    char *gone KYMO_FREE = kymo_asprintf("%s/work/removed-%s", s->data_path, profile);
    if (!place || !work || !gone)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (access(place, F_OK) < 0 && errno == ENOENT)
        return 0;
    int r = kymo_file_mkdirs(work, err);
    if (r == 0)
        r = kymo_file_remove_tree(gone, err);
    if (r == 0)
        r = kymo_file_rename(place, gone, err);
    if (r == 0)
        r = kymo_file_sync_parent(place, err);
    return r < 0 ? r : kymo_file_remove_tree(gone, err);
}

/* A profile that was made again while rows were made of its former tables has a state of its own, and those come even
 * so. */
static int is_at_rest(const struct work_queue *q, const char *profile, struct kymo_err *err)
{
    return q && work_queue_has(q, profile)
               ? kymo_err_set(err, -EBUSY, "%s: its rows for the fleet are being made; again in a moment", profile)
               : 0;
}

int store_remove(struct store *s, const struct work_queue *q, const char *profile, const char *user,
                 struct kymo_err *err)
{
    struct catalog_profile p;
    int r = catalog_find(s->catalog, profile, &p, err);
    if (r == 0)
        r = may_go(&p, user, err);
    if (r == 0)
        r = is_at_rest(q, profile, err);
    int alone = r < 0 ? r : catalog_is_alone(s->catalog, profile, err);
    r = alone < 0 ? alone : remove_tables(s, p.name, err);
    if (r == 0)
        r = fleet_store_remove(s->data_path, p.name, p.captured_ns, err);
    if (r == 0 && alone && !p.is_parent)
        r = raw_store_remove(s->raw, p.capture, err);
    return r < 0 ? r : catalog_remove(s->catalog, p.name, err);
}
