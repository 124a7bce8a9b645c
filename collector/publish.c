#include "collector/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

#define MAGIC "PAR1"
#define MAGIC_BYTES 4
#define TAIL_BYTES 8 /* length of the footer, little endian, and the magic */
#define FOOTER_START 10

static bool is_table(const char *path)
{
    static const char suffix[] = ".parquet";
    size_t n = strlen(path), m = sizeof suffix - 1;
    struct stat st;
    const char *slash = strrchr(path, '/');
    /* Readers pass over hidden files. */
    if (slash && slash[1] == '.')
        return false;
    return n > m && !strcmp(path + n - m, suffix) && lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Whether a footer begins as parquet.thrift's FileMetaData does in Thrift's compact form: version, an i32, then the
 * list of the schema's elements, structures, which is not empty.
 */
static bool is_metadata(const uint8_t start[static FOOTER_START])
{
    size_t at = 1;
    while (at < 6 && start[at] & 0x80)
        at++;
    return start[0] == 0x15 && start[at + 1] == 0x19 && (start[at + 2] & 0x0f) == 0x0c && start[at + 2] >> 4;
}

static int check_footer(int fd, const char *path, uint64_t size, const uint8_t tail[static TAIL_BYTES],
                        struct kymo_err *err)
{
    uint8_t start[FOOTER_START] = {0};
    uint64_t n = tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    if (n < 4 || n > size - MAGIC_BYTES - TAIL_BYTES)
        return kymo_err_set(err, -EBADMSG, "%s: offset %llu: a footer of %llu bytes is not in a file of %llu", path,
                            (unsigned long long)(size - TAIL_BYTES), (unsigned long long)n, (unsigned long long)size);
    uint64_t offset = size - TAIL_BYTES - n;
    int r = kymo_file_pread_all(fd, start, n < sizeof start ? (size_t)n : sizeof start, offset, path, err);
    if (r == 0 && !is_metadata(start))
        r = kymo_err_set(err, -EBADMSG, "%s: offset %llu: is no Parquet footer with a schema", path,
                         (unsigned long long)offset);
    return r;
}

/* Durable as well: a processor that kymo did not make may not have seen to it. */
static int check_table(const char *path, struct publish_counts *counts, struct kymo_err *err)
{
    uint8_t head[MAGIC_BYTES] = {0}, tail[TAIL_BYTES] = {0};
    uint64_t size = 0;
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
    int r = fd < 0 ? fd : kymo_file_size(fd, &size, path, err);
    if (r < 0)
        return r;
    if (size < MAGIC_BYTES + TAIL_BYTES)
        return kymo_err_set(err, -EBADMSG, "%s: %llu bytes are no Parquet file", path, (unsigned long long)size);
    r = kymo_file_pread_all(fd, head, sizeof head, 0, path, err);
    if (r == 0)
        r = kymo_file_pread_all(fd, tail, sizeof tail, size - sizeof tail, path, err);
    if (r < 0)
        return r;
    if (memcmp(head, MAGIC, sizeof head) != 0 || memcmp(tail + TAIL_BYTES - MAGIC_BYTES, MAGIC, MAGIC_BYTES) != 0)
        return kymo_err_set(err, -EBADMSG, "%s: is no Parquet file, or was cut off", path);
    r = check_footer(fd, path, size, tail, err);
    if (r < 0)
        return r;
    counts->tables++;
    counts->bytes += size;
    return kymo_file_sync(fd, path, err);
}

static int take_entry(const char *work, const char *name, struct publish_counts *counts, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", work, name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (counts->tables >= PUBLISH_TABLES_MAX)
        return kymo_err_set(err, -EBADMSG, "%s: more than %d tables", work, PUBLISH_TABLES_MAX);
    return is_table(path) ? check_table(path, counts, err) : kymo_file_remove_tree(path, err);
}

static int take_entries(const char *work, struct publish_counts *counts, struct kymo_err *err)
{
    DIR *dir = opendir(work);
    if (!dir)
        return kymo_err_set(err, -errno, "%s: cannot be listed: %s", work, strerror(errno));
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = take_entry(work, e->d_name, counts, err);
    (void)closedir(dir);
    return r;
}

int publish_check(const char *work, struct publish_counts *ret, struct kymo_err *err)
{
    struct publish_counts counts = {0};
    struct stat st;
    if (lstat(work, &st) < 0 || !S_ISDIR(st.st_mode))
        return kymo_err_set(err, -EBADMSG, "%s: no directory of tables was made", work);
    int r = take_entries(work, &counts, err);
    if (r < 0)
        return r;
    if (!counts.tables)
        return kymo_err_set(err, -EBADMSG, "%s: no table was made", work);
    r = kymo_file_sync_dir(work, err);
    if (r == 0)
        *ret = counts;
    return r;
}

int publish_tables(const char *work, const char *place, struct publish_counts *ret, struct kymo_err *err)
{
    struct publish_counts counts;
    struct stat st;
    int r = publish_check(work, &counts, err);
    if (r < 0)
        return r;
    if (lstat(place, &st) < 0)
        r = kymo_file_rename(work, place, err);
    else if (!S_ISDIR(st.st_mode))
        r = kymo_err_set(err, -ENOTDIR, "%s: is not a directory and will not be replaced", place);
    else if (kymo_file_ops()->exchange(work, place) < 0)
        r = kymo_err_set(err, -errno, "%s: cannot be exchanged with %s: %s", place, work, strerror(errno));
    if (r == 0)
        r = kymo_file_sync_parent(place, err);
    if (r == 0)
        *ret = counts;
    return r;
}
