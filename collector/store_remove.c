/* Profiles that go for good. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
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

/* Big files take the disk a while: they go in steps, when all else is done. */
static int take_capture(const struct store *s, const char *capture, char **ret_left, struct kymo_err *err)
{
    char *work KYMO_FREE = kymo_asprintf("%s/work", s->data_path);
    char *gone KYMO_FREE = kymo_asprintf("%s/work/removed-capture-%s", s->data_path, capture);
    if (!work || !gone)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    int r = kymo_file_mkdirs(work, err);
    if (r == 0)
        r = kymo_file_remove_tree(gone, err);
    if (r == 0)
        r = raw_store_take_away(s->raw, capture, gone, err);
    if (r == 0)
        *ret_left = KYMO_TAKE(gone);
    return r == -ENOENT ? 0 : r;
}

/* A profile that was made again while rows were made of its former tables has a state of its own, and those come even
 * so. */
static int is_at_rest(const struct work_queue *q, const char *profile, struct kymo_err *err)
{
    return q && work_queue_has(q, profile)
               ? kymo_err_set(err, -EBUSY, "%s: its rows for the fleet are being made; again in a moment", profile)
               : 0;
}

int store_remove(struct store *s, const struct work_queue *q, const char *profile, const char *user, char **ret_left,
                 struct kymo_err *err)
{
    struct catalog_profile p;
    char *left KYMO_FREE = NULL;
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
        r = take_capture(s, p.capture, &left, err);
    if (r == 0)
        r = catalog_remove(s->catalog, p.name, err);
    *ret_left = KYMO_TAKE(left);
    return r;
}

static int failed(const char *path, struct kymo_err *err)
{
    return kymo_err_set(err, -errno, "%s: cannot be removed: %s", path, strerror(errno));
}

/* A file that has another name as well keeps its bytes. 1: there is more of it. */
static int clear_file(const char *path, const struct stat *st, struct kymo_err *err)
{
    if (!S_ISREG(st->st_mode) || st->st_nlink > 1 || (uint64_t)st->st_size <= STORE_CLEAR_STEP)
        return kymo_file_ops()->unlink(path) < 0 ? failed(path, err) : 0;
    int fd KYMO_CLOSE = kymo_file_open(path, O_WRONLY | O_NOFOLLOW, 0, err);
    if (fd < 0)
        return fd;
    return kymo_file_ops()->ftruncate(fd, st->st_size - (off_t)STORE_CLEAR_STEP) < 0 ? failed(path, err) : 1;
}

/* Captures have no folders that are nested deeper than their names are long. */
static int clear(const char *path, uint64_t until_ns, struct kymo_err *err) /* NOLINT(misc-no-recursion) */
{
    struct stat st;
    int r = 0;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : failed(path, err);
    if (!S_ISDIR(st.st_mode)) {
        while ((r = clear_file(path, &st, err)) == 1 && kymo_clock_mono_ns() < until_ns)
            st.st_size -= (off_t)STORE_CLEAR_STEP;
        return r == 0 && kymo_clock_mono_ns() >= until_ns ? 1 : r;
    }
    DIR *dir = opendir(path);
    if (!dir)
        return failed(path, err);
    for (const struct dirent *e; r == 0 && (e = readdir(dir));) {
        bool dot = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
        char *child KYMO_FREE = dot ? NULL : kymo_asprintf("%s/%s", path, e->d_name);
        if (!dot)
            r = child ? clear(child, until_ns, err) : kymo_err_set(err, -ENOMEM, "no memory for a path");
    }
    (void)closedir(dir);
    if (r != 0)
        return r;
    return kymo_file_ops()->rmdir(path) < 0 ? failed(path, err) : 0;
}

int store_clear(const char *path, unsigned ms, struct kymo_err *err)
{
    return clear(path, kymo_clock_mono_ns() + (uint64_t)ms * 1000000, err);
}
