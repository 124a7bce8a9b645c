#include "tests/unit/shadow_fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define NODES_MAX 4096
#define PATH_SIZE 512

struct name {
    char text[256];
    size_t node;
};

struct node {
    ino_t ino;
    bool live; /* ino is this node's; else it may have been given to another file */
    bool dir;
    uint8_t *data; /* synced */
    size_t size;
    struct name *names; /* synced */
    size_t nnames;
    char path[PATH_SIZE]; /* while laying out: where it is now, "" when unlinked */
};

static struct node nodes[NODES_MAX];
static size_t nnodes;
static char root[PATH_SIZE];
static long operations, fail_at, cut_at;
static int fail_cause;
static bool second_half;
static uint64_t free_bytes;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "shadow_fs: %s: %s\n", what, strerror(errno));
    abort();
}

static size_t new_node(const struct stat *st)
{
    for (size_t i = 0; i < nnodes; i++)
        if (nodes[i].live && nodes[i].ino == st->st_ino)
            nodes[i].live = false;
    must(nnodes < NODES_MAX, "too many files");
    nodes[nnodes] = (struct node){.ino = st->st_ino, .live = true, .dir = S_ISDIR(st->st_mode)};
    return nnodes++;
}

static size_t node_of(const struct stat *st)
{
    for (size_t i = 0; i < nnodes; i++)
        if (nodes[i].live && nodes[i].ino == st->st_ino)
            return i;
    return new_node(st);
}

static void bury(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        nodes[node_of(&st)].live = false;
}

static uint8_t *read_file(const char *path, size_t *ret_size)
{
    uint8_t *data;
    must(kymo_file_read_all(path, 64u << 20, &data, ret_size, NULL) == 0, path);
    return data;
}

static void remember_file(size_t i, int fd)
{
    struct stat st;
    must(fstat(fd, &st) == 0, "fstat");
    kymo_free(nodes[i].data);
    nodes[i].size = (size_t)st.st_size;
    nodes[i].data = kymo_malloc(nodes[i].size + 1);
    /* The descriptor may be for writing alone. */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    must(again >= 0, "open again");
    must(pread(again, nodes[i].data, nodes[i].size, 0) == (ssize_t)nodes[i].size, "read");
    (void)close(again);
}

static void remember_dir(size_t i, const char *path)
{
    struct stat st;
    DIR *dir = opendir(path);
    must(dir != NULL, path);
    kymo_free(nodes[i].names);
    nodes[i].names = NULL;
    size_t n = 0, cap = 0;
    for (const struct dirent *e; (e = readdir(dir));) {
        char child[2 * PATH_SIZE];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        must(kymo_grow((void **)&nodes[i].names, &cap, n + 1, NODES_MAX, sizeof(struct name)) == 0, "memory");
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        must(lstat(child, &st) == 0, child);
        (void)snprintf(nodes[i].names[n].text, sizeof nodes[i].names[n].text, "%s", e->d_name);
        nodes[i].names[n++].node = node_of(&st);
    }
    nodes[i].nnames = n;
    (void)closedir(dir);
}

/* ---- the table ---- */

/* 0: go on. 1: a short write. -1: fails, errno is set. */
static int next_operation(void)
{
    operations++;
    if (cut_at >= 0 && operations >= cut_at) {
        errno = EIO;
        return -1;
    }
    if (operations != fail_at)
        return 0;
    if (fail_cause == 0)
        return 1;
    errno = fail_cause;
    return -1;
}

static int shadow_open(const char *path, int flags, mode_t mode)
{
    struct stat st;
    bool creates = (flags & O_CREAT) && lstat(path, &st) < 0;
    if ((creates || (flags & O_TRUNC)) && next_operation() < 0)
        return -1;
    int fd = open(path, flags, mode);
    if (fd >= 0 && creates && fstat(fd, &st) == 0)
        (void)new_node(&st);
    return fd;
}

static ssize_t shadow_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    int r = second_half ? 0 : next_operation();
    second_half = r == 1;
    if (r < 0) {
        /* A disk that fills up, or fails, may take a part first. */
        if (cut_at < 0 && n > 1)
            (void)pwrite(fd, buf, n / 2, off);
        return -1;
    }
    return pwrite(fd, buf, r == 1 && n > 1 ? n / 2 : n, off);
}

static int shadow_fsync(int fd)
{
    char link[64], path[PATH_SIZE];
    struct stat st;
    if (next_operation() < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return -1;
    size_t i = node_of(&st);
    if (!S_ISDIR(st.st_mode)) {
        remember_file(i, fd);
        return 0;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    must(n > 0, "readlink");
    path[n] = '\0';
    remember_dir(i, path);
    return 0;
}

static int shadow_ftruncate(int fd, off_t size)
{
    return next_operation() < 0 ? -1 : ftruncate(fd, size);
}

static int shadow_rename(const char *from, const char *to)
{
    if (next_operation() < 0)
        return -1;
    bury(to);
    return rename(from, to);
}

static int shadow_unlink(const char *path)
{
    if (next_operation() < 0)
        return -1;
    bury(path);
    return unlink(path);
}

static int shadow_mkdir(const char *path, mode_t mode)
{
    struct stat st;
    if (lstat(path, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    if (next_operation() < 0)
        return -1;
    int r = mkdir(path, mode);
    if (r == 0 && lstat(path, &st) == 0)
        (void)new_node(&st);
    return r;
}

static int shadow_rmdir(const char *path)
{
    if (next_operation() < 0)
        return -1;
    bury(path);
    return rmdir(path);
}

static int shadow_statvfs(const char *path, struct statvfs *st)
{
    int r = kymo_file_ops_system.statvfs(path, st);
    if (r == 0 && free_bytes != UINT64_MAX)
        st->f_bavail = free_bytes / st->f_frsize;
    return r;
}

static void remember_all(const char *path)
{
    struct stat st;
    must(lstat(path, &st) == 0, path);
    size_t i = new_node(&st);
    if (!S_ISDIR(st.st_mode)) {
        nodes[i].data = read_file(path, &nodes[i].size);
        return;
    }
    DIR *dir = opendir(path);
    must(dir != NULL, path);
    for (const struct dirent *e; (e = readdir(dir));) {
        char child[2 * PATH_SIZE];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        remember_all(child);
    }
    (void)closedir(dir);
    remember_dir(i, path);
}

static void forget_all(void)
{
    for (size_t i = 0; i < nnodes; i++) {
        kymo_free(nodes[i].data);
        kymo_free(nodes[i].names);
    }
    nnodes = 0;
}

void shadow_start(const char *top)
{
    static struct kymo_file_ops table;
    forget_all();
    (void)snprintf(root, sizeof root, "%s", top);
    operations = 0;
    fail_at = cut_at = -1;
    second_half = false;
    free_bytes = UINT64_MAX;
    remember_all(root);
    table = kymo_file_ops_system;
    table.open = shadow_open;
    table.pwrite = shadow_pwrite;
    table.fsync = shadow_fsync;
    table.ftruncate = shadow_ftruncate;
    table.rename = shadow_rename;
    table.unlink = shadow_unlink;
    table.mkdir = shadow_mkdir;
    table.rmdir = shadow_rmdir;
    table.statvfs = shadow_statvfs;
    kymo_file_set_ops(&table);
}

void shadow_stop(void)
{
    kymo_file_set_ops(NULL);
}

long shadow_operations(void)
{
    return operations;
}

void shadow_fail(long at, int cause)
{
    fail_at = at;
    fail_cause = cause;
}

void shadow_cut_power(long at)
{
    cut_at = at;
}

void shadow_set_free(uint64_t bytes)
{
    free_bytes = bytes;
}

/* ---- after the crash ---- */

static uint64_t chance;

static uint64_t draw(uint64_t below)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance % below;
}

static void find_paths(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return;
    (void)snprintf(nodes[node_of(&st)].path, PATH_SIZE, "%s", path);
    DIR *dir = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char child[2 * PATH_SIZE];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        find_paths(child);
    }
    if (dir)
        (void)closedir(dir);
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    must(pwrite(fd, data, n, 0) == (ssize_t)n, path);
    (void)close(fd);
}

static void lay_out_file(const struct node *f, const char *to, enum shadow_survival survival)
{
    size_t n;
    if (survival == SHADOW_SYNCED || !f->path[0] || (survival == SHADOW_SOME && draw(3) == 0)) {
        write_file(to, f->data ? f->data : (const uint8_t *)"", f->size);
        return;
    }
    uint8_t *data = read_file(f->path, &n);
    if (survival == SHADOW_SOME && n > 0 && draw(2) == 0) {
        /* The size arrived, the bytes did not: whatever is not as synced beyond the cut reads as zeros. */
        size_t cut = (size_t)draw(n);
        for (size_t i = cut; i < n; i++)
            data[i] = i < f->size ? f->data[i] : 0;
    }
    write_file(to, data, n);
    kymo_free(data);
}

static void lay_out(size_t i, const char *to, enum shadow_survival survival, int depth);

static void lay_out_name(const struct name *name, const char *to, enum shadow_survival survival, int depth)
{
    char child[2 * PATH_SIZE];
    (void)snprintf(child, sizeof child, "%s/%s", to, name->text);
    struct stat st;
    if (lstat(child, &st) < 0)
        lay_out(name->node, child, survival, depth + 1);
}

static bool listed(const struct node *d, const struct name *name)
{
    for (size_t i = 0; i < d->nnames; i++)
        if (d->names[i].node == name->node && !strcmp(d->names[i].text, name->text))
            return true;
    return false;
}

static void lay_out(size_t i, const char *to, enum shadow_survival survival, int depth)
{
    must(depth < 16, "too deep");
    if (!nodes[i].dir) {
        lay_out_file(&nodes[i], to, survival);
        return;
    }
    must(mkdir(to, 0700) == 0, to);
    struct node synced = nodes[i];
    struct node now = {.nnames = 0};
    if (survival != SHADOW_SYNCED && nodes[i].path[0]) {
        nodes[i].names = NULL;
        remember_dir(i, nodes[i].path);
        now = nodes[i];
        nodes[i] = synced;
    }
    for (size_t k = 0; k < now.nnames; k++)
        if (survival == SHADOW_ALL || listed(&synced, &now.names[k]) || draw(2) == 0)
            lay_out_name(&now.names[k], to, survival, depth);
    for (size_t k = 0; k < synced.nnames; k++)
        if (survival == SHADOW_SYNCED || (survival == SHADOW_SOME && !listed(&now, &synced.names[k]) && draw(2) == 0) ||
            !synced.path[0])
            lay_out_name(&synced.names[k], to, survival, depth);
    kymo_free(now.names);
}

void shadow_lay_out(const char *to, enum shadow_survival survival, uint64_t seed)
{
    struct stat st;
    chance = seed * 0x9e3779b97f4a7c15u + 0x1234567;
    for (size_t i = 0; i < nnodes; i++)
        nodes[i].path[0] = '\0';
    find_paths(root);
    must(lstat(root, &st) == 0, root);
    lay_out(node_of(&st), to, survival, 0);
}
