#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

#define EXCHANGE_FLAG 2u /* RENAME_EXCHANGE of linux/fs.h */
#define TREE_DEPTH_MAX 32

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int system_fstat(int fd, struct stat *st)
{
    return fstat(fd, st);
}

static int system_exchange(const char *a, const char *b)
{
    return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EXCHANGE_FLAG);
}

const struct kymo_file_ops kymo_file_ops_system = {
    .open = system_open,
    .close = close,
    .pread = pread,
    .pwrite = pwrite,
    .fsync = fsync,
    .ftruncate = ftruncate,
    .fstat = system_fstat,
    .rename = rename,
    .link = link,
    .exchange = system_exchange,
    .unlink = unlink,
    .mkdir = mkdir,
    .rmdir = rmdir,
    .statvfs = statvfs,
};

static const struct kymo_file_ops *ops = &kymo_file_ops_system;

void kymo_file_set_ops(const struct kymo_file_ops *table)
{
    ops = table ? table : &kymo_file_ops_system;
}

const struct kymo_file_ops *kymo_file_ops(void)
{
    return ops;
}

static int fail(struct kymo_err *err, const char *what, const char *name)
{
    int cause = errno;
    return kymo_err_set(err, -cause, "%s: %s: %s", name, what, strerror(cause));
}

int kymo_file_open(const char *path, int flags, mode_t mode, struct kymo_err *err)
{
    int fd;
    do
        fd = ops->open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd >= 0 ? fd : fail(err, "cannot open", path);
}

int kymo_file_close(int fd)
{
    if (fd >= 0)
        (void)ops->close(fd);
    return -1;
}

void kymo_file_closep(int *fd)
{
    *fd = kymo_file_close(*fd);
}

int kymo_file_pread_all(int fd, void *buf, size_t n, uint64_t off, const char *name, struct kymo_err *err)
{
    uint8_t *p = buf;
    while (n > 0) {
        ssize_t got = ops->pread(fd, p, n, (off_t)off);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(err, "cannot read", name);
        if (got == 0)
            return kymo_err_set(err, -ENODATA, "%s: offset %llu: the file ends %zu bytes early", name,
                                (unsigned long long)off, n);
        p += got;
        off += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int kymo_file_pwrite_all(int fd, const void *buf, size_t n, uint64_t off, const char *name, struct kymo_err *err)
{
    const uint8_t *p = buf;
    while (n > 0) {
        ssize_t put = ops->pwrite(fd, p, n, (off_t)off);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail(err, "cannot write", name);
        if (put == 0)
            return kymo_err_set(err, -EIO, "%s: offset %llu: nothing was written", name, (unsigned long long)off);
        p += put;
        off += (uint64_t)put;
        n -= (size_t)put;
    }
    return 0;
}

int kymo_file_size(int fd, uint64_t *ret_size, const char *name, struct kymo_err *err)
{
    struct stat st;
    if (ops->fstat(fd, &st) < 0)
        return fail(err, "cannot stat", name);
    if (!S_ISREG(st.st_mode))
        return kymo_err_set(err, -EINVAL, "%s: not a regular file", name);
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

int kymo_file_open_regular(const char *path, uint64_t *ret_size, struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return fd;
    int r = kymo_file_size(fd, ret_size, path, err);
    if (r < 0)
        return r;
    int kept = fd;
    fd = -1;
    return kept;
}

int kymo_file_free_bytes(const char *path, uint64_t *ret_bytes, struct kymo_err *err)
{
    struct statvfs st;
    if (ops->statvfs(path, &st) < 0)
        return fail(err, "cannot see how much is free", path);
    if (__builtin_mul_overflow(st.f_bavail, st.f_frsize, ret_bytes))
        *ret_bytes = UINT64_MAX;
    return 0;
}

int kymo_file_sync(int fd, const char *name, struct kymo_err *err)
{
    return ops->fsync(fd) < 0 ? fail(err, "cannot sync", name) : 0;
}

int kymo_file_sync_dir(const char *path, struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY | O_DIRECTORY, 0, err);
    return fd < 0 ? fd : kymo_file_sync(fd, path, err);
}

int kymo_file_rename(const char *from, const char *to, struct kymo_err *err)
{
    struct stat st;

    /* Root could replace /dev/null by a file. */
    if (lstat(to, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
        return kymo_err_set(err, -EEXIST, "%s: not a file, will not be replaced", to);
    return ops->rename(from, to) < 0 ? fail(err, "cannot rename to it", to) : 0;
}

static int check_place(const char *path, const char *const *inputs, size_t n_inputs, struct kymo_err *err)
{
    struct stat there, input;

    if (lstat(path, &there) < 0)
        return errno == ENOENT ? 0 : fail(err, "cannot stat", path);
    for (size_t i = 0; i < n_inputs; i++)
        if (stat(inputs[i], &input) == 0 && input.st_dev == there.st_dev && input.st_ino == there.st_ino)
            return kymo_err_set(err, -EEXIST, "%s: is the input %s, will not be replaced", path, inputs[i]);
    if (!S_ISREG(there.st_mode))
        return kymo_err_set(err, -EEXIST, "%s: not a regular file, will not be replaced", path);
    return 0;
}

int kymo_file_check_target(const char *path, const char *const *inputs, size_t n_inputs, struct kymo_err *err)
{
    char *tmp KYMO_FREE = kymo_asprintf("%s.tmp", path);
    if (!tmp)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = check_place(path, inputs, n_inputs, err);
    return r < 0 ? r : check_place(tmp, inputs, n_inputs, err);
}

int kymo_file_mkdirs(const char *path, struct kymo_err *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: not a usable directory name", path);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (ops->mkdir(part, 0777) < 0 && errno != EEXIST)
            return fail(err, "cannot make directory", part);
        part[i] = kept;
    }
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return kymo_err_set(err, -ENOTDIR, "%s: exists and is no directory", path);
    return 0;
}

static int remove_tree(const char *path, int depth, struct kymo_err *err);

static int remove_entries(DIR *dir, const char *path, int depth, struct kymo_err *err)
{
    for (const struct dirent *e; (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char *child KYMO_FREE = kymo_asprintf("%s/%s", path, e->d_name);
        if (!child)
            return kymo_err_set(err, -ENOMEM, "out of memory");
        int r = remove_tree(child, depth + 1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int remove_tree(const char *path, int depth, struct kymo_err *err)
{
    if (depth > TREE_DEPTH_MAX)
        return kymo_err_set(err, -ELOOP, "%s: nested deeper than %d", path, TREE_DEPTH_MAX);
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : fail(err, "cannot stat", path);
    if (!S_ISDIR(st.st_mode))
        return ops->unlink(path) < 0 ? fail(err, "cannot remove", path) : 0;
    DIR *dir = opendir(path);
    if (!dir)
        return fail(err, "cannot list", path);
    int r = remove_entries(dir, path, depth, err);
    (void)closedir(dir);
    if (r < 0)
        return r;
    return ops->rmdir(path) < 0 ? fail(err, "cannot remove", path) : 0;
}

int kymo_file_remove_tree(const char *path, struct kymo_err *err)
{
    return remove_tree(path, 0, err);
}

int kymo_file_read_all(const char *path, size_t max, uint8_t **ret_data, size_t *ret_len, struct kymo_err *err)
{
    uint64_t size;
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, err);
    if (fd < 0)
        return fd;
    if (size > max)
        return kymo_err_set(err, -EFBIG, "%s: %llu bytes, more than the limit of %zu", path, (unsigned long long)size,
                            max);
    uint8_t *data KYMO_FREE = kymo_malloc((size_t)size + 1);
    if (!data)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory for %llu bytes", path, (unsigned long long)size);
    int r = kymo_file_pread_all(fd, data, (size_t)size, 0, path, err);
    if (r < 0)
        return r;
    data[size] = 0;
    *ret_len = (size_t)size;
    *ret_data = KYMO_TAKE(data);
    return 0;
}

static int write_and_sync(const char *path, const void *data, size_t n, struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, err);
    if (fd < 0)
        return fd;
    int r = kymo_file_pwrite_all(fd, data, n, 0, path, err);
    return r < 0 ? r : kymo_file_sync(fd, path, err);
}

int kymo_file_sync_parent(const char *path, struct kymo_err *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return kymo_file_sync_dir(".", err);
    char *dir KYMO_FREE = kymo_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    return dir ? kymo_file_sync_dir(dir, err) : kymo_err_set(err, -ENOMEM, "out of memory");
}

int kymo_file_write_atomic(const char *path, const void *data, size_t n, struct kymo_err *err)
{
    char *tmp KYMO_FREE = kymo_asprintf("%s.tmp", path);
    if (!tmp)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = write_and_sync(tmp, data, n, err);
    if (r == 0)
        r = kymo_file_rename(tmp, path, err);
    if (r < 0) {
        (void)ops->unlink(tmp);
        return r;
    }
    return kymo_file_sync_parent(path, err);
}
