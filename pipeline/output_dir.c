#include "pipeline/output_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int make_parent(const char *path, struct kymo_err *err)
{
    char parent[OUTPUT_DIR_PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash || slash == parent)
        return 0;
    *slash = 0;
    return kymo_file_mkdirs(parent, err);
}

static int sync_parent(const char *path, struct kymo_err *err)
{
    char parent[OUTPUT_DIR_PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash)
        return kymo_file_sync_dir(".", err);
    slash[slash == parent] = 0;
    return kymo_file_sync_dir(parent, err);
}

static bool is_table(const char *name)
{
    static const char suffix[] = ".parquet";
    size_t n = strlen(name), m = sizeof suffix - 1;

    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Publishing removes what is there: only tables may be lost by it, never a device, a link or somebody's own files. */
static int check_replaceable(const char *path, struct kymo_err *err)
{
    struct stat st;
    int r = 0;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return kymo_err_set(err, -ENOTDIR, "%s is not a directory", path);
    DIR *dir = opendir(path);
    if (!dir)
        return kymo_err_set(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !is_table(e->d_name))
            r = kymo_err_set(err, -EEXIST, "%s holds %s, which is no table: not replaced", path, e->d_name);
    (void)closedir(dir);
    return r;
}

int output_dir_open(struct output_dir *d, const char *path, struct kymo_err *err)
{
    *d = (struct output_dir){0};
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (!n || n + 32 >= sizeof d->path)
        return kymo_err_set(err, -ENAMETOOLONG, "output directory name of %zu bytes is not supported", n);
    memcpy(d->path, path, n);
    int r = make_parent(d->path, err);
    if (r == 0)
        r = check_replaceable(d->path, err);
    if (r < 0)
        return r;
    char work[OUTPUT_DIR_PATH_MAX];
    (void)snprintf(work, sizeof work, "%.*s.tmp-%ld", (int)n, d->path, (long)getpid());
    /* A process of this number may have died here before. */
    r = kymo_file_remove_tree(work, err);
    if (r < 0)
        return r;
    if (kymo_file_ops()->mkdir(work, 0777) < 0)
        return kymo_err_set(err, -errno, "%s: cannot make the directory: %s", work, strerror(errno));
    memcpy(d->work, work, sizeof work);
    return 0;
}

int output_dir_publish(struct output_dir *d, struct kymo_err *err)
{
    int r = kymo_file_sync_dir(d->work, err);
    if (r < 0)
        return r;
    struct stat st;
    if (lstat(d->path, &st) < 0) {
        r = kymo_file_rename(d->work, d->path, err);
        if (r < 0)
            return r;
        d->work[0] = 0;
        return sync_parent(d->path, err);
    }
    r = check_replaceable(d->path, err);
    if (r < 0)
        return r;
    if (kymo_file_ops()->exchange(d->work, d->path) < 0)
        return kymo_err_set(err, -errno, "%s: cannot exchange it with %s: %s", d->path, d->work, strerror(errno));
    /* What was there before is under the work name now, to be removed. */
    return sync_parent(d->path, err);
}

void output_dir_done(struct output_dir *d)
{
    /* Nothing can be done about a directory that stays; its name says what it is. */
    if (d->work[0]) {
        int r = kymo_file_remove_tree(d->work, NULL);
        (void)r;
    }
    d->work[0] = 0;
}
