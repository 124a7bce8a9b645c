/*
 * Files: the one seam to the file system. Programs use the kymo_file_* helpers; tests replace the table below to
 * inject short writes, full disks and failing syncs. The table is process-wide: set it before threads start.
 */
#ifndef KYMO_BASE_FILE_H
#define KYMO_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/err.h"

/* Each returns what its system call returns, with errno set on failure. */
struct kymo_file_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*pread)(int fd, void *buf, size_t n, off_t off);
    ssize_t (*pwrite)(int fd, const void *buf, size_t n, off_t off);
    int (*fsync)(int fd);
    int (*ftruncate)(int fd, off_t size);
    int (*fstat)(int fd, struct stat *st);
    int (*rename)(const char *from, const char *to);
    int (*link)(const char *from, const char *to);
    int (*exchange)(const char *a, const char *b); /* renameat2 RENAME_EXCHANGE */
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rmdir)(const char *path);
    int (*statvfs)(const char *path, struct statvfs *st);
};

extern const struct kymo_file_ops kymo_file_ops_system;
void kymo_file_set_ops(const struct kymo_file_ops *ops); /* NULL: back to the system's */
const struct kymo_file_ops *kymo_file_ops(void);

/* Opens with O_CLOEXEC. Returns the descriptor or a negative errno; the text names the path. */
int kymo_file_open(const char *path, int flags, mode_t mode, struct kymo_err *err) KYMO_MUST_CHECK;
/* For reading, a regular file and nothing else: a pipe without a writer does not hold the caller up. -EINVAL: it is no
 * regular file. */
int kymo_file_open_regular(const char *path, uint64_t *ret_size, struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_file_close(int fd); /* negative is fine; always returns -1 so that fd = kymo_file_close(fd) reads well */
void kymo_file_closep(int *fd);
#define KYMO_CLOSE __attribute__((cleanup(kymo_file_closep)))

/* Whole reads and writes: loop over short ones and EINTR. A read past the end is -ENODATA. name is for the text. */
int kymo_file_pread_all(int fd, void *buf, size_t n, uint64_t off, const char *name,
                        struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_file_pwrite_all(int fd, const void *buf, size_t n, uint64_t off, const char *name,
                         struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_file_size(int fd, uint64_t *ret_size, const char *name, struct kymo_err *err) KYMO_MUST_CHECK;
/* What an unprivileged writer may still use of the file system that holds path. */
int kymo_file_free_bytes(const char *path, uint64_t *ret_bytes, struct kymo_err *err) KYMO_MUST_CHECK;
int kymo_file_sync(int fd, const char *name, struct kymo_err *err) KYMO_MUST_CHECK;
/* fsync of a directory, so that names in it survive. */
int kymo_file_sync_dir(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* fsync of the directory that holds path. */
int kymo_file_sync_parent(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* -EEXIST: to is a device, a pipe or a socket, which nothing here replaces. */
int kymo_file_rename(const char *from, const char *to, struct kymo_err *err) KYMO_MUST_CHECK;
/* 0 when a file may be written to path by way of path.tmp: what is there is a regular file, and neither is one of the
 * inputs. -EEXIST with the reason. */
int kymo_file_check_target(const char *path, const char *const *inputs, size_t n_inputs,
                           struct kymo_err *err) KYMO_MUST_CHECK;
/* mkdir -p. An existing directory is fine. */
int kymo_file_mkdirs(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes a file, or a directory with all below it; never follows links; absent is fine. */
int kymo_file_remove_tree(const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* Reads a whole regular file of at most max bytes into fresh memory (one NUL is added behind, not counted). -EFBIG
 * beyond. */
int kymo_file_read_all(const char *path, size_t max, uint8_t **ret_data, size_t *ret_len,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* Writes path.tmp, syncs, renames over path, syncs the directory. Nothing half-written remains under path. */
int kymo_file_write_atomic(const char *path, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
