#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

/* What the replaced table does; zero is what the system does. */
static struct {
    size_t step;       /* at most so many bytes a call */
    int interrupts;    /* so many calls fail with EINTR first */
    size_t room;       /* writes beyond fail with ENOSPC, when limited */
    int limited;       /* room counts */
    int nothing;       /* pwrite returns 0 */
    int fsync_errno;   /* fsync fails so */
    int fsync_on_dirs; /* only from the second call on: the directory's */
    int fsync_calls;   /* count */
    int rename_errno;  /* rename fails so */
    int unlink_calls;  /* count */
} fault;

static char dir[] = "/tmp/kymo-test-file-XXXXXX";
static char path[64];

static int interrupted(void)
{
    if (fault.interrupts == 0)
        return 0;
    fault.interrupts--;
    errno = EINTR;
    return 1;
}

static int faulty_open(const char *name, int flags, mode_t mode)
{
    return interrupted() ? -1 : kymo_file_ops_system.open(name, flags, mode);
}

static ssize_t faulty_pread(int fd, void *buf, size_t n, off_t off)
{
    if (interrupted())
        return -1;
    return pread(fd, buf, fault.step && n > fault.step ? fault.step : n, off);
}

static ssize_t faulty_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (interrupted())
        return -1;
    if (fault.nothing)
        return 0;
    if (fault.step && n > fault.step)
        n = fault.step;
    if (fault.limited && fault.room == 0) {
        errno = ENOSPC;
        return -1;
    }
    /* A file system that fills up writes what still fits first. */
    if (fault.limited && n > fault.room)
        n = fault.room;
    fault.room -= fault.limited ? n : 0;
    return pwrite(fd, buf, n, off);
}

static int faulty_fsync(int fd)
{
    fault.fsync_calls++;
    if (fault.fsync_errno && !(fault.fsync_on_dirs && fault.fsync_calls == 1)) {
        errno = fault.fsync_errno;
        return -1;
    }
    return fsync(fd);
}

static int faulty_rename(const char *from, const char *to)
{
    if (fault.rename_errno) {
        errno = fault.rename_errno;
        return -1;
    }
    return rename(from, to);
}

static int counting_unlink(const char *name)
{
    fault.unlink_calls++;
    return unlink(name);
}

static struct kymo_file_ops faulty;

static int setup_group(void **state)
{
    (void)state;
    faulty = kymo_file_ops_system;
    faulty.open = faulty_open;
    faulty.pread = faulty_pread;
    faulty.pwrite = faulty_pwrite;
    faulty.fsync = faulty_fsync;
    faulty.rename = faulty_rename;
    faulty.unlink = counting_unlink;
    if (!mkdtemp(dir))
        return -1;
    return snprintf(path, sizeof path, "%s/data", dir) < 0;
}

static int teardown_group(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static int setup(void **state)
{
    (void)state;
    memset(&fault, 0, sizeof fault);
    kymo_file_set_ops(&faulty);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kymo_file_set_ops(NULL);
    (void)unlink(path);
    return 0;
}

static void read_back(const char *expected)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    assert_int_equal(kymo_file_read_all(path, 1000, &data, &n, NULL), 0);
    assert_int_equal(n, strlen(expected));
    assert_string_equal((const char *)data, expected);
}

static void test_short_and_interrupted_calls(void **state)
{
    (void)state;
    fault.step = 3;
    fault.interrupts = 2;
    assert_int_equal(kymo_file_write_atomic(path, "0123456789", 10, NULL), 0);
    fault.interrupts = 2;
    read_back("0123456789");
}

static void test_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    assert_int_equal(kymo_file_write_atomic(path, "old", 3, NULL), 0);
    fault.limited = 1;
    fault.room = 5;
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_write_atomic(path, "0123456789", 10, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "data.tmp: cannot write: No space left"));
    assert_int_equal(fault.unlink_calls, 1);
    read_back("old");
    char tmp[80];
    (void)snprintf(tmp, sizeof tmp, "%s.tmp", path);
    assert_int_equal(access(tmp, F_OK), -1);
}

static void test_failing_sync_is_a_failure(void **state)
{
    (void)state;
    assert_int_equal(kymo_file_write_atomic(path, "old", 3, NULL), 0);
    fault.fsync_errno = EIO;
    fault.fsync_calls = 0;
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_write_atomic(path, "new", 3, &err), -EIO);
    /* A failed sync is never tried again: the kernel may have dropped the pages. */
    assert_int_equal(fault.fsync_calls, 1);
    read_back("old");
}

static void test_failing_directory_sync_is_a_failure(void **state)
{
    (void)state;
    fault.fsync_errno = EIO;
    fault.fsync_on_dirs = 1;
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_write_atomic(path, "new", 3, &err), -EIO);
    assert_int_equal(fault.fsync_calls, 2);
}

static void test_spared_pipe(void **state)
{
    (void)state;
    struct stat st;
    struct kymo_err err = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(kymo_file_write_atomic(path, "new", 3, &err), -EEXIST);
    assert_non_null(strstr(err.text, "will not be replaced"));
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(unlink(path), 0);
}

static void test_failing_rename(void **state)
{
    (void)state;
    fault.rename_errno = EXDEV;
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_write_atomic(path, "new", 3, &err), -EXDEV);
    assert_int_equal(fault.unlink_calls, 1);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_a_write_of_nothing_ends(void **state)
{
    (void)state;
    fault.nothing = 1;
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_write_atomic(path, "new", 3, &err), -EIO);
    assert_non_null(strstr(err.text, "offset 0: nothing was written"));
}

static void test_reading_past_the_end(void **state)
{
    (void)state;
    assert_int_equal(kymo_file_write_atomic(path, "12345", 5, NULL), 0);
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY, 0, NULL);
    assert_true(fd >= 0);
    char buf[8];
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_pread_all(fd, buf, 8, 2, "name", &err), -ENODATA);
    assert_string_equal(err.text, "name: offset 5: the file ends 5 bytes early");
    uint64_t size;
    assert_int_equal(kymo_file_size(fd, &size, "name", NULL), 0);
    assert_int_equal(size, 5);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

static void test_read_all_limits(void **state)
{
    (void)state;
    assert_int_equal(kymo_file_write_atomic(path, "12345", 5, NULL), 0);
    uint8_t *data = NULL;
    size_t n = 77;
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_read_all(path, 4, &data, &n, &err), -EFBIG);
    assert_int_equal(kymo_file_read_all(dir, 4, &data, &n, &err), -EINVAL);
    kymo_alloc_fail_after(0);
    assert_int_equal(kymo_file_read_all(path, 5, &data, &n, &err), -ENOMEM);
    kymo_alloc_fail_after(-1);
    assert_int_equal(kymo_file_read_all("/nonexistent/x", 5, &data, &n, &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/x: cannot open: No such file or directory");
    assert_null(data);
    assert_int_equal(n, 77);
}

/* A pipe that nobody writes to would hold open() up for ever. */
static void test_nothing_but_regular_files(void **state)
{
    (void)state;
    uint8_t *data;
    size_t n;
    uint64_t size;
    struct kymo_err err = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)alarm(20);
    assert_int_equal(kymo_file_open_regular(path, &size, &err), -EINVAL);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(kymo_file_read_all(path, 100, &data, &n, &err), -EINVAL);
    (void)alarm(0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kymo_file_write_atomic(path, "12345", 5, &err), 0);
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, &err);
    assert_true(fd >= 0);
    assert_int_equal(size, 5);
}

static void test_directories(void **state)
{
    (void)state;
    char deep[96];
    (void)snprintf(deep, sizeof deep, "%s/a/b//c/", dir);
    assert_int_equal(kymo_file_mkdirs(deep, NULL), 0);
    assert_int_equal(kymo_file_mkdirs(deep, NULL), 0);
    char link[96];
    (void)snprintf(link, sizeof link, "%s/a/link", dir);
    assert_int_equal(kymo_file_write_atomic(path, "kept", 4, NULL), 0);
    assert_int_equal(symlink(path, link), 0);
    struct kymo_err err = {0};
    (void)snprintf(deep, sizeof deep, "%s/under", path);
    assert_int_equal(kymo_file_mkdirs(deep, &err), -ENOTDIR);
    assert_int_equal(kymo_file_mkdirs(path, &err), -ENOTDIR);
    assert_int_equal(kymo_file_mkdirs("", &err), -ENAMETOOLONG);
    (void)snprintf(deep, sizeof deep, "%s/a", dir);
    assert_int_equal(kymo_file_remove_tree(deep, NULL), 0);
    assert_int_equal(access(deep, F_OK), -1);
    /* The link went, what it points to stayed. */
    read_back("kept");
    assert_int_equal(kymo_file_remove_tree(deep, NULL), 0);
}

static void test_remove_tree_has_a_depth(void **state)
{
    (void)state;
    char deep[256];
    int n = snprintf(deep, sizeof deep, "%s/d", dir);
    for (int i = 0; i < 40; i++)
        n += snprintf(deep + n, sizeof deep - (size_t)n, "/d");
    assert_int_equal(kymo_file_mkdirs(deep, NULL), 0);
    struct kymo_err err = {0};
    char top[64];
    (void)snprintf(top, sizeof top, "%s/d", dir);
    assert_int_equal(kymo_file_remove_tree(top, &err), -ELOOP);
    /* From half way down it is allowed; then the rest is. */
    char half[256];
    (void)snprintf(half, sizeof half, "%.*s", (int)strlen(top) + 40, deep);
    assert_int_equal(kymo_file_remove_tree(half, NULL), 0);
    assert_int_equal(kymo_file_remove_tree(top, NULL), 0);
}

static void test_closing(void **state)
{
    (void)state;
    assert_int_equal(kymo_file_close(-1), -1);
    int fd = kymo_file_open(dir, O_RDONLY | O_DIRECTORY, 0, NULL);
    assert_true(fd >= 0);
    int number = fd;
    kymo_file_closep(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(fcntl(number, F_GETFD), -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_short_and_interrupted_calls),
        TEST(test_full_disk_leaves_the_old_file),
        TEST(test_failing_sync_is_a_failure),
        TEST(test_failing_directory_sync_is_a_failure),
        TEST(test_failing_rename),
        TEST(test_spared_pipe),
        TEST(test_a_write_of_nothing_ends),
        TEST(test_reading_past_the_end),
        TEST(test_read_all_limits),
        TEST(test_nothing_but_regular_files),
        TEST(test_directories),
        TEST(test_remove_tree_has_a_depth),
        TEST(test_closing),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
