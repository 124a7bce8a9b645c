#include "tests/unit/capture_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"

#define FILES_MAX 16

uint8_t *capture_sample_manifest(const char *id, const struct sample_file *files, size_t n, size_t *ret_size)
{
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    Kymo__Manifest__File list[FILES_MAX], *pointers[FILES_MAX];
    uint8_t sha[FILES_MAX][KYMO_SHA256_SIZE];
    assert_true(n <= FILES_MAX);
    for (size_t i = 0; i < n; i++) {
        kymo__manifest__file__init(&list[i]);
        assert_int_equal(kymo_hash_sha256(files[i].data, files[i].size, sha[i]), 0);
        list[i].name = (char *)(size_t)files[i].name;
        list[i].has_type = list[i].has_size = list[i].has_sha256 = list[i].has_vnc = 1;
        list[i].type = files[i].type;
        list[i].size = files[i].size;
        list[i].vnc = files[i].vnc;
        list[i].sha256 = (ProtobufCBinaryData){.len = sizeof sha[i], .data = sha[i]};
        pointers[i] = &list[i];
    }
    m.has_version = m.has_rank = 1;
    m.version = 1;
    m.rank = 3;
    m.capture_id = (char *)(size_t)id;
    m.job = (char *)(size_t) "train";
    m.host = (char *)(size_t) "host-1";
    m.n_files = n;
    m.files = pointers;
    size_t size = kymo__manifest__capture__get_packed_size(&m);
    uint8_t *data = kymo_malloc(size);
    assert_non_null(data);
    *ret_size = kymo__manifest__capture__pack(&m, data);
    return data;
}

static long calls, first, last;
static int fault;

static bool due(void)
{
    long now = calls++;
    if (first < 0 || now < first || now >= last)
        return false;
    if (!fault)
        _exit(77);
    errno = fault;
    return true;
}

static ssize_t failing_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (!due())
        return kymo_file_ops_system.pwrite(fd, buf, n, off);
    int cause = errno;
    (void)kymo_file_ops_system.pwrite(fd, buf, n / 2, off);
    errno = cause;
    return -1;
}

static int failing_open(const char *path, int flags, mode_t mode)
{
    return (flags & O_CREAT) && due() ? -1 : kymo_file_ops_system.open(path, flags, mode);
}

/* A process that ends loses nothing that it wrote, so the disk need not be waited for. */
static int failing_fsync(int fd)
{
    (void)fd;
    return due() ? -1 : 0;
}

static int failing_rename(const char *from, const char *to)
{
    return due() ? -1 : kymo_file_ops_system.rename(from, to);
}

static int failing_link(const char *from, const char *to)
{
    return due() ? -1 : kymo_file_ops_system.link(from, to);
}

static int failing_exchange(const char *a, const char *b)
{
    return due() ? -1 : kymo_file_ops_system.exchange(a, b);
}

static int failing_unlink(const char *path)
{
    return due() ? -1 : kymo_file_ops_system.unlink(path);
}

static int failing_mkdir(const char *path, mode_t mode)
{
    return due() ? -1 : kymo_file_ops_system.mkdir(path, mode);
}

static int failing_rmdir(const char *path)
{
    return due() ? -1 : kymo_file_ops_system.rmdir(path);
}

void capture_sample_fail(long nth, int error, long times)
{
    static struct kymo_file_ops ops;
    ops = kymo_file_ops_system;
    ops.pwrite = failing_pwrite;
    ops.open = failing_open;
    ops.fsync = failing_fsync;
    ops.rename = failing_rename;
    ops.link = failing_link;
    ops.exchange = failing_exchange;
    ops.unlink = failing_unlink;
    ops.mkdir = failing_mkdir;
    ops.rmdir = failing_rmdir;
    calls = 0;
    first = nth;
    last = nth + times;
    fault = error;
    kymo_file_set_ops(&ops);
}

long capture_sample_calls(void)
{
    return calls;
}
