#include "collector/fleet_store.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/publish.h"

#define NS_PER_S 1000000000
#define CLUSTER "cluster="
#define SUFFIX ".parquet"
#define DATE_MAX sizeof "date=-2147483648-00-00"

struct fleet {
    const char *data_path, *work, *profile, *cluster; /* work NULL: nothing new */
    const char *table;                                /* whose parts are looked at */
    char date[DATE_MAX];
    struct kymo_err *err;
};

int fleet_store_check_cluster(const char *cluster, struct kymo_err *err)
{
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(cluster);
    if (n && n <= FLEET_STORE_CLUSTER_MAX && *cluster != '.' && strspn(cluster, characters) == n)
        return 0;
    return kymo_err_set(err, -EINVAL, "a cluster's name has 1 to %d of A-Z a-z 0-9 . _ -, no dot in front",
                        FLEET_STORE_CLUSTER_MAX);
}

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for rows of the fleet");
}

static void set_date(struct fleet *f, int64_t captured_ns)
{
    time_t s = (time_t)(captured_ns / NS_PER_S);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || !strftime(f->date, sizeof f->date, "date=%Y-%m-%d", &tm))
        (void)snprintf(f->date, sizeof f->date, "date=1970-01-01");
}

/* Calls each with the names in a directory; one that is not there has none. */
static int each_name(struct fleet *f, const char *path,
                     int (*each)(struct fleet *f, const char *path, const char *name))
{
    DIR *dir = opendir(path);
    int r = 0;
    if (!dir)
        return errno == ENOENT ? 0 : kymo_err_set(f->err, -errno, "%s: cannot be listed: %s", path, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            r = each(f, path, e->d_name);
    (void)closedir(dir);
    return r;
}

/* Puts one table in its place. */
static int put(struct fleet *f, const char *path, const char *name)
{
    size_t n = strlen(name), suffix = sizeof SUFFIX - 1;
    if (n <= suffix || strcmp(name + n - suffix, SUFFIX) != 0)
        return 0;
    char *from KYMO_FREE = kymo_asprintf("%s/%s", path, name);
    char *place KYMO_FREE =
        kymo_asprintf("%s/fleet/%.*s/%s/cluster=%s", f->data_path, (int)(n - suffix), name, f->date, f->cluster);
    char *to KYMO_FREE = place ? kymo_asprintf("%s/part-%s" SUFFIX, place, f->profile) : NULL;
    if (!from || !to)
        return no_memory(f->err);
    int r = kymo_file_mkdirs(place, f->err);
    if (r == 0)
        r = kymo_file_rename(from, to, f->err);
    if (r == 0)
        r = kymo_file_sync_parent(to, f->err);
    /* The folders may be new as well. */
    for (unsigned up = 0; up < 3 && r == 0; up++) {
        r = kymo_file_sync_parent(place, f->err);
        *strrchr(place, '/') = '\0';
    }
    return r;
}

/* What will be replaced stays until then; all else of this profile goes. */
static int remove_part(struct fleet *f, const char *path, const char *name)
{
    char *part KYMO_FREE = kymo_asprintf("%s/%s/part-%s" SUFFIX, path, name, f->profile);
    char *table KYMO_FREE = kymo_asprintf("%s/%s" SUFFIX, f->work ? f->work : "", f->table);
    if (!part || !table)
        return no_memory(f->err);
    bool stays = f->work && !strncmp(name, CLUSTER, sizeof CLUSTER - 1) &&
                 !strcmp(name + sizeof CLUSTER - 1, f->cluster) && access(table, F_OK) == 0;
    if (stays || access(part, F_OK) < 0)
        return 0;
    int r = kymo_file_remove_tree(part, f->err);
    return r < 0 ? r : kymo_file_sync_parent(part, f->err);
}

static int remove_of_table(struct fleet *f, const char *path, const char *name)
{
    char *day KYMO_FREE = kymo_asprintf("%s/%s/%s", path, name, f->date);
    f->table = name;
    return day ? each_name(f, day, remove_part) : no_memory(f->err);
}

static int remove_old(struct fleet *f)
{
    char *root KYMO_FREE = kymo_asprintf("%s/fleet", f->data_path);
    return root ? each_name(f, root, remove_of_table) : no_memory(f->err);
}

int fleet_store_publish(const char *data_path, const char *work, const char *profile, int64_t captured_ns,
                        const char *cluster, struct kymo_err *err)
{
    struct fleet f = {.data_path = data_path, .work = work, .profile = profile, .cluster = cluster, .err = err};
    struct publish_counts counts;
    int r = fleet_store_check_cluster(cluster, err);
    if (r == 0)
        r = publish_check(work, &counts, err);
    set_date(&f, captured_ns);
    if (r == 0)
        r = remove_old(&f);
    return r < 0 ? r : each_name(&f, work, put);
}

int fleet_store_remove(const char *data_path, const char *profile, int64_t captured_ns, struct kymo_err *err)
{
    struct fleet f = {.data_path = data_path, .profile = profile, .err = err};
    set_date(&f, captured_ns);
    return remove_old(&f);
}
