#include "pipeline/output_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
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

const struct output_content output_tables = {
    .ending = ".parquet",
    .names = {"Metadata.parquet", "SchemaFields.parquet"},
    .file = "table",
    .whole = "profile",
};

static bool is_named(const struct output_content *c, const char *name)
{
    return !strcmp(name, c->names[0]) || (c->names[1] && !strcmp(name, c->names[1]));
}

static bool belongs(const struct output_content *c, const char *name)
{
    size_t n = strlen(name), m = strlen(c->ending);

    return is_named(c, name) || (n > m && strcmp(name + n - m, c->ending) == 0);
}

static bool is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool is_regular(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* A profile has nothing but tables, and one of the two that every profile has. */
static int check_entries(DIR *dir, const char *path, const struct output_content *c, struct kymo_err *err)
{
    bool empty = true, known = false;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (is_dot(e->d_name))
            continue;
        if (!belongs(c, e->d_name) || !is_regular(dirfd(dir), e->d_name))
            return kymo_err_set(err, -EEXIST, "%s holds %s, which is no %s: not replaced", path, e->d_name, c->file);
        empty = false;
        known = known || is_named(c, e->d_name);
    }
    if (!empty && !known)
        return kymo_err_set(err, -EEXIST, "%s holds %ss, but no %s: no %s, not replaced", path, c->file, c->names[0],
                            c->whole);
    return 0;
}

/* Publishing removes what is there: only a profile may be lost by it, never a device, a link or somebody's own files.
 */
static int check_replaceable(const char *path, const struct output_content *c, struct kymo_err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return kymo_err_set(err, -ENOTDIR, "%s is not a directory: not replaced", path);
    DIR *dir = opendir(path);
    if (!dir)
        return kymo_err_set(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
    int r = check_entries(dir, path, c, err);
    (void)closedir(dir);
    return r;
}

int output_dir_check_input(const char *path, const char *input, struct kymo_err *err)
{
    char out[PATH_MAX], in[PATH_MAX];
    if (!realpath(path, out) || !realpath(input, in))
        return 0;
    size_t n = strlen(out);
    if (!strcmp(out, "/") || (!strncmp(in, out, n) && (in[n] == '\0' || in[n] == '/')))
        return kymo_err_set(err, -EEXIST, "%s %s the input %s: not replaced", path, in[n] ? "holds" : "is", input);
    return 0;
}

/* The work directory stays locked while its process lives, for a pid says nothing about other containers' processes. */
static int lock_dir(const char *path)
{
    int fd = kymo_file_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, NULL);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        fd = kymo_file_close(fd);
    return fd;
}

static bool holds_files_only(const char *path)
{
    DIR *dir = opendir(path);
    bool only = dir != NULL;
    for (const struct dirent *e; only && (e = readdir(dir));)
        only = is_dot(e->d_name) || is_regular(dirfd(dir), e->d_name);
    if (dir)
        (void)closedir(dir);
    return only;
}

/* What a process that was killed left behind. A directory that cannot be removed stays; its name says what it is. */
static void remove_stale(const char *parent, const char *name)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", parent, name);
    int lock KYMO_CLOSE = path ? lock_dir(path) : -1;
    if (lock >= 0 && holds_files_only(path)) {
        int r = kymo_file_remove_tree(path, NULL);
        (void)r;
    }
}

/* True for <base>.tmp-<pid> of a process that is gone. */
static bool is_stale(const char *name, const char *base)
{
    static const char mark[] = ".tmp-";
    size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, mark, sizeof mark - 1) != 0)
        return false;
    const char *digits = name + n + sizeof mark - 1;
    size_t len = strspn(digits, "0123456789");
    if (!len || len > 9 || digits[len] || *digits == '0')
        return false;
    return kill((pid_t)strtol(digits, NULL, 10), 0) < 0 && errno == ESRCH;
}

static void sweep(const char *path)
{
    char parent[OUTPUT_DIR_PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    const char *base = slash ? path + (slash - parent) + 1 : path;
    if (slash)
        slash[slash == parent] = 0;
    DIR *dir = opendir(slash ? parent : ".");
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (is_stale(e->d_name, base))
            remove_stale(slash ? parent : ".", e->d_name);
    if (dir)
        (void)closedir(dir);
}

static int make_work(struct output_dir *d, struct kymo_err *err)
{
    char work[OUTPUT_DIR_PATH_MAX];
    (void)snprintf(work, sizeof work, "%.*s.tmp-%ld", OUTPUT_DIR_PATH_MAX - 32, d->path, (long)getpid());
    /* A process of this number may have died here before. */
    int lock KYMO_CLOSE = lock_dir(work);
    if (lock < 0 && access(work, F_OK) == 0)
        return kymo_err_set(err, -EBUSY, "%s: is in use", work);
    int r = kymo_file_remove_tree(work, err);
    if (r < 0)
        return r;
    if (kymo_file_ops()->mkdir(work, 0777) < 0)
        return kymo_err_set(err, -errno, "%s: cannot make the directory: %s", work, strerror(errno));
    memcpy(d->work, work, sizeof work);
    d->lock = lock_dir(work);
    return 0;
}

int output_dir_open(struct output_dir *d, const char *path, struct kymo_err *err)
{
    return output_dir_open_for(d, path, &output_tables, err);
}

int output_dir_open_for(struct output_dir *d, const char *path, const struct output_content *content,
                        struct kymo_err *err)
{
    *d = (struct output_dir){.lock = -1, .content = content};
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (!n || n + 32 >= sizeof d->path)
        return kymo_err_set(err, -ENAMETOOLONG, "output directory name of %zu bytes is not supported", n);
    memcpy(d->path, path, n);
    const char *slash = strrchr(d->path, '/');
    if (is_dot(slash ? slash + 1 : d->path) || !strcmp(d->path, "/"))
        return kymo_err_set(err, -EINVAL, "%s: not a name that a directory can be moved to", path);
    int r = make_parent(d->path, err);
    if (r == 0)
        r = check_replaceable(d->path, d->content, err);
    if (r < 0)
        return r;
    sweep(d->path);
    return make_work(d, err);
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
    r = check_replaceable(d->path, d->content, err);
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
    d->lock = kymo_file_close(d->lock);
}
