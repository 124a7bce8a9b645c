#include "collector/query/fleet_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"

#define DAY_S 86400
#define DATE "date="
#define CLUSTER "cluster="
#define SUFFIX ".parquet"
#define CALM_NS (2 * INT64_C(1000000000))
#define DAYS_MAX 65536 /* directories looked at */

int fleet_day_parse(const char *text, int64_t *ret, struct kymo_err *err)
{
    struct tm tm = {0};
    char again[FLEET_DAY_MAX];
    int year, month, day, end = 0;
    if (strspn(text, "0123456789-") == FLEET_DAY_MAX - 1 && strlen(text) == FLEET_DAY_MAX - 1 &&
        sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3 && end == FLEET_DAY_MAX - 1) {
        tm.tm_year = year - 1900;
        tm.tm_mon = month - 1;
        tm.tm_mday = day;
        *ret = timegm(&tm) / DAY_S;
        fleet_day_text(*ret, again);
        if (year >= 1970 && !strcmp(again, text))
            return 0;
    }
    return kymo_err_set(err, -EINVAL, "%.32s is no day, which is written YYYY-MM-DD", text);
}

void fleet_day_text(int64_t day, char ret[static FLEET_DAY_MAX])
{
    time_t s = (time_t)(day * DAY_S);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || strftime(ret, FLEET_DAY_MAX, "%Y-%m-%d", &tm) != FLEET_DAY_MAX - 1)
        (void)snprintf(ret, FLEET_DAY_MAX, "1970-01-01");
}

static bool is_cluster(const char *name)
{
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t prefix = sizeof CLUSTER - 1;
    return !strncmp(name, CLUSTER, prefix) && name[prefix] && name[prefix] != '.' &&
           name[prefix + strspn(name + prefix, characters)] == '\0';
}

static bool is_day(const char *name, int64_t *ret)
{
    struct kymo_err ignored = {0};
    return !strncmp(name, DATE, sizeof DATE - 1) && fleet_day_parse(name + sizeof DATE - 1, ret, &ignored) == 0;
}

/* Its files; 0: none, or it cannot be listed. */
static size_t count_files(const char *dir)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    for (const struct dirent *e; d && n <= FLEET_FILES_MAX && (e = readdir(d));) {
        size_t len = strlen(e->d_name), suffix = sizeof SUFFIX - 1;
        n += len > suffix && e->d_name[0] != '.' && !strcmp(e->d_name + len - suffix, SUFFIX);
    }
    if (d)
        (void)closedir(d);
    return n;
}

struct source {
    struct kymo_buf *sql;
    size_t *n;
    bool any;
};

static int add_pattern(struct source *s, const char *dir, struct kymo_err *err)
{
    size_t files = count_files(dir);
    if (files == 0)
        return 0;
    *s->n += files;
    if (*s->n > FLEET_FILES_MAX)
        return kymo_err_set(err, -E2BIG, "more than %d files hold these days' rows; ask for fewer days",
                            FLEET_FILES_MAX);
    int r = kymo_buf_printf(s->sql, "%s'%s/*" SUFFIX "'", s->any ? ", " : "SELECT * FROM read_parquet([", dir);
    s->any = true;
    return r < 0 ? kymo_err_set(err, r, "no memory for a statement") : 0;
}

static int add_day(struct source *s, const char *dir, struct kymo_err *err)
{
    DIR *d = opendir(dir);
    int r = 0;
    for (const struct dirent *e; d && r == 0 && (e = readdir(d));) {
        char *path KYMO_FREE = is_cluster(e->d_name) ? kymo_asprintf("%s/%s", dir, e->d_name) : NULL;
        if (path)
            r = add_pattern(s, path, err);
    }
    if (d)
        (void)closedir(d);
    return r;
}

/* Calls back for each day that a table has; each may be NULL. */
static int each_day(int fd, const char *table,
                    int (*each)(void *ctx, int64_t day, const char *dir, struct kymo_err *err), void *ctx,
                    struct kymo_err *err)
{
    char *dir KYMO_FREE = kymo_asprintf("/proc/self/fd/%d/%s", fd, table);
    DIR *d = dir ? opendir(dir) : NULL;
    size_t seen = 0;
    int r = 0;
    for (const struct dirent *e; d && r == 0 && seen < DAYS_MAX && (e = readdir(d)); seen++) {
        int64_t day;
        char *path KYMO_FREE = is_day(e->d_name, &day) ? kymo_asprintf("%s/%s", dir, e->d_name) : NULL;
        if (path)
            r = each(ctx, day, path, err);
    }
    if (d)
        (void)closedir(d);
    return r;
}

struct range {
    struct source source;
    int64_t from, to;
};

static int add_if_inside(void *ctx, int64_t day, const char *dir, struct kymo_err *err)
{
    struct range *range = ctx;
    return day < range->from || day > range->to ? 0 : add_day(&range->source, dir, err);
}

int fleet_files_source(int fd, const char *table, int64_t from, int64_t to, struct kymo_buf *sql, size_t *n,
                       struct kymo_err *err)
{
    struct range range = {{sql, n, false}, from, to};
    int r = each_day(fd, table, add_if_inside, &range, err);
    if (r == 0 && range.source.any)
        r = kymo_buf_printf(sql, "], union_by_name = true, hive_partitioning = true,"
                                 " hive_types = {'date': VARCHAR, 'cluster': VARCHAR})");
    return r;
}

static uint64_t mixed(uint64_t mark, uint64_t v)
{
    mark ^= v + UINT64_C(0x9e3779b97f4a7c15) + (mark << 6) + (mark >> 2);
    mark *= UINT64_C(0xff51afd7ed558ccd);
    return mark ^ (mark >> 33);
}

/* In whatever order they are listed. */
static uint64_t mark_of(const char *dir, bool *calm)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return 0;
    int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if ((int64_t)kymo_clock_real_ns() - changed < CALM_NS)
        *calm = false;
    return mixed(mixed(mixed(1, (uint64_t)st.st_ino), (uint64_t)st.st_dev), (uint64_t)changed);
}

uint64_t fleet_files_mark(int fd, const char *table, int64_t day, uint64_t mark, bool *calm)
{
    char text[FLEET_DAY_MAX];
    fleet_day_text(day, text);
    char *dir KYMO_FREE = kymo_asprintf("/proc/self/fd/%d/%s/" DATE "%s", fd, table, text);
    DIR *d = dir ? opendir(dir) : NULL;
    uint64_t sum = d ? mark_of(dir, calm) : 0;
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *path KYMO_FREE = is_cluster(e->d_name) ? kymo_asprintf("%s/%s", dir, e->d_name) : NULL;
        sum += path ? mark_of(path, calm) : 0;
    }
    if (d)
        (void)closedir(d);
    mark = mixed(mark, sum);
    return mark ? mark : FLEET_MARK_NONE;
}

struct days {
    int64_t first, last;
    bool any;
};

static int keep_day(void *ctx, int64_t day, const char *dir, struct kymo_err *err)
{
    struct days *d = ctx;
    (void)dir;
    (void)err;
    d->first = d->any && d->first < day ? d->first : day;
    d->last = d->any && d->last > day ? d->last : day;
    d->any = true;
    return 0;
}

bool fleet_files_days(int fd, const char *table, int64_t *ret_first, int64_t *ret_last)
{
    struct days d = {0};
    struct kymo_err ignored = {0};
    int r = each_day(fd, table, keep_day, &d, &ignored);
    *ret_first = d.first;
    *ret_last = d.last;
    return r == 0 && d.any;
}
