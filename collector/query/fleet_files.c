#include "collector/query/fleet_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
#define SAFE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

const char *const fleet_tables[FLEET_TABLES] = {"FleetProfile",  "Summary",         "Metadata",
                                                "ExecutionInfo", "ThrottleSummary", "LossLedger"};

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

/* Nothing in a name means anything to a statement. */
static bool is_cluster(const char *name)
{
    size_t prefix = sizeof CLUSTER - 1;
    return !strncmp(name, CLUSTER, prefix) && name[prefix] && name[prefix] != '.' &&
           name[prefix + strspn(name + prefix, SAFE)] == '\0';
}

static bool is_part(const char *name)
{
    size_t n = strlen(name), suffix = sizeof SUFFIX - 1;
    return n > suffix && *name != '.' && name[strspn(name, SAFE)] == '\0' && !strcmp(name + n - suffix, SUFFIX);
}

static bool is_day(const char *name, int64_t *ret)
{
    struct kymo_err ignored = {0};
    return !strncmp(name, DATE, sizeof DATE - 1) && fleet_day_parse(name + sizeof DATE - 1, ret, &ignored) == 0;
}

/* Calls back with the path of each directory of a cluster below a table's day, and what that is below the table. */
static int each_cluster(int fd, enum fleet_table table, int64_t day,
                        int (*each)(void *ctx, const char *path, const char *below, struct kymo_err *err), void *ctx,
                        struct kymo_err *err)
{
    char text[FLEET_DAY_MAX];
    fleet_day_text(day, text);
    char *dir KYMO_FREE = kymo_asprintf("/proc/self/fd/%d/%s/" DATE "%s", fd, fleet_tables[table], text);
    DIR *d = dir ? opendir(dir) : NULL;
    int r = dir ? 0 : kymo_err_set(err, -ENOMEM, "no memory for a path");
    for (const struct dirent *e; d && r == 0 && (e = readdir(d));) {
        char *path KYMO_FREE = is_cluster(e->d_name) ? kymo_asprintf("%s/%s", dir, e->d_name) : NULL;
        if (path)
            r = each(ctx, path, strstr(path, "/" DATE) + 1, err);
    }
    if (d)
        (void)closedir(d);
    return r;
}

static int add_part(struct fleet_parts *p, const char *below, const char *name, bool whole, struct kymo_err *err)
{
    void *list = p->list;
    int r = kymo_grow(&list, &p->cap, p->n + 1, 2 * FLEET_PARTS_MAX, sizeof *p->list);
    if (r < 0)
        return r == -ENOBUFS ? kymo_err_set(err, -E2BIG, "a day of a fleet has more than %d profiles", FLEET_PARTS_MAX)
                             : kymo_err_set(err, r, "no memory for the profiles of a day");
    p->list = list;
    char *key = kymo_asprintf("%s/%s", below, name);
    if (!key)
        return kymo_err_set(err, -ENOMEM, "no memory for the profiles of a day");
    p->list[p->n++] = (struct fleet_part){.key = key, .whole = whole};
    return 0;
}

struct listing {
    struct fleet_parts *parts;
    bool whole;
};

static int add_parts(void *ctx, const char *path, const char *below, struct kymo_err *err)
{
    const struct listing *l = ctx;
    DIR *d = opendir(path);
    int r = 0;
    for (const struct dirent *e; d && r == 0 && (e = readdir(d));)
        if (is_part(e->d_name))
            r = add_part(l->parts, below, e->d_name, l->whole, err);
    if (d)
        (void)closedir(d);
    return r;
}

static int by_key(const void *a, const void *b)
{
    const struct fleet_part *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (int)y->whole - (int)x->whole;
}

static uint64_t mixed(uint64_t mark, uint64_t v)
{
    mark ^= v + UINT64_C(0x9e3779b97f4a7c15) + (mark << 6) + (mark >> 2);
    mark *= UINT64_C(0xff51afd7ed558ccd);
    return mark ^ (mark >> 33);
}

static int64_t changed_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static uint64_t stamp_file(int fd, enum fleet_table table, const char *key, uint64_t stamp)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", fleet_tables[table], key);
    struct stat st;
    if (!path || fstatat(fd, path, &st, 0) < 0)
        return mixed(stamp, 0);
    stamp = mixed(mixed(stamp, (uint64_t)st.st_ino), (uint64_t)st.st_dev);
    return mixed(mixed(stamp, (uint64_t)st.st_size), (uint64_t)changed_ns(&st));
}

static uint64_t stamp_of(int fd, const struct fleet_part *part)
{
    uint64_t stamp = part->whole;
    for (int t = part->whole ? FLEET_PROFILE : FLEET_SUMMARY; t < (part->whole ? FLEET_SUMMARY : FLEET_TABLES); t++)
        stamp = stamp_file(fd, (enum fleet_table)t, part->key, stamp);
    return stamp;
}

/* One of each key, the whole one where there is one. */
static void keep_one(struct fleet_parts *p)
{
    size_t n = 0;
    qsort(p->list, p->n, sizeof *p->list, by_key);
    for (size_t i = 0; i < p->n; i++) {
        if (n && !strcmp(p->list[n - 1].key, p->list[i].key))
            kymo_free(p->list[i].key);
        else
            p->list[n++] = p->list[i];
    }
    p->n = n;
}

int fleet_files_list(int fd, int64_t day, struct fleet_parts *ret, struct kymo_err *err)
{
    /* A profile of many ranks has no Summary. */
    static const enum fleet_table tables[] = {FLEET_PROFILE, FLEET_SUMMARY, FLEET_METADATA};
    int r = 0;
    *ret = (struct fleet_parts){0};
    for (size_t i = 0; i < sizeof tables / sizeof *tables && r == 0; i++) {
        struct listing l = {ret, tables[i] == FLEET_PROFILE};
        r = each_cluster(fd, tables[i], day, add_parts, &l, err);
        if (ret->n)
            keep_one(ret);
    }
    for (size_t i = 0; i < ret->n; i++)
        ret->list[i].stamp = stamp_of(fd, &ret->list[i]);
    if (r == 0 && ret->n > FLEET_PARTS_MAX)
        r = kymo_err_set(err, -E2BIG, "a day of a fleet has more than %d profiles", FLEET_PARTS_MAX);
    if (r < 0)
        fleet_parts_done(ret);
    return r;
}

void fleet_parts_done(struct fleet_parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        kymo_free(p->list[i].key);
    kymo_free(p->list);
    *p = (struct fleet_parts){0};
}

bool fleet_files_has(int fd, enum fleet_table table, const char *key)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", fleet_tables[table], key);
    struct stat st;
    return path && fstatat(fd, path, &st, 0) == 0;
}

/* In whatever order they are listed. */
static uint64_t mark_of(const char *dir, bool *calm)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return 0;
    if ((int64_t)kymo_clock_real_ns() - changed_ns(&st) < CALM_NS)
        *calm = false;
    return mixed(mixed(mixed(1, (uint64_t)st.st_ino), (uint64_t)st.st_dev), (uint64_t)changed_ns(&st));
}

struct marking {
    uint64_t sum;
    bool *calm;
};

static int add_mark(void *ctx, const char *path, const char *below, struct kymo_err *err)
{
    struct marking *m = ctx;
    (void)below;
    (void)err;
    m->sum += mark_of(path, m->calm);
    return 0;
}

/* Of the clusters' directories, and, by their number, of the day's own. */
uint64_t fleet_files_mark(int fd, int64_t day, bool *calm)
{
    struct kymo_err ignored = {0};
    uint64_t mark = 1;
    for (int t = 0; t < FLEET_TABLES; t++) {
        struct marking m = {0, calm};
        int r = each_cluster(fd, (enum fleet_table)t, day, add_mark, &m, &ignored);
        mark = mixed(mark, r == 0 ? m.sum : 0);
    }
    return mark ? mark : 1;
}

bool fleet_files_days(int fd, int64_t *ret_first, int64_t *ret_last)
{
    static const enum fleet_table tables[] = {FLEET_PROFILE, FLEET_SUMMARY};
    bool any = false;
    size_t seen = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char *dir KYMO_FREE = kymo_asprintf("/proc/self/fd/%d/%s", fd, fleet_tables[tables[i]]);
        DIR *d = dir ? opendir(dir) : NULL;
        for (const struct dirent *e; d && seen < DAYS_MAX && (e = readdir(d)); seen++) {
            int64_t day;
            if (!is_day(e->d_name, &day))
                continue;
            *ret_first = any && *ret_first < day ? *ret_first : day;
            *ret_last = any && *ret_last > day ? *ret_last : day;
            any = true;
        }
        if (d)
            (void)closedir(d);
    }
    return any;
}
