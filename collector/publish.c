#include "collector/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

#define MAGIC "PAR1"
#define MAGIC_BYTES 4

static bool is_table(const char *path)
{
    static const char suffix[] = ".parquet";
    size_t n = strlen(path), m = sizeof suffix - 1;
    struct stat st;
    return n > m && !strcmp(path + n - m, suffix) && lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Durable as well: a processor that kymo did not make may not have seen to it. */
static int check_table(const char *path, struct publish_counts *counts, struct kymo_err *err)
{
    char head[MAGIC_BYTES], tail[MAGIC_BYTES];
    uint64_t size = 0;
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
    int r = fd < 0 ? fd : kymo_file_size(fd, &size, path, err);
    if (r < 0)
        return r;
    if (size < 3 * MAGIC_BYTES)
        return kymo_err_set(err, -EBADMSG, "%s: %llu bytes are no Parquet file", path, (unsigned long long)size);
    r = kymo_file_pread_all(fd, head, sizeof head, 0, path, err);
    if (r == 0)
        r = kymo_file_pread_all(fd, tail, sizeof tail, size - sizeof tail, path, err);
    if (r < 0)
        return r;
    if (memcmp(head, MAGIC, sizeof head) != 0 || memcmp(tail, MAGIC, sizeof tail) != 0)
        return kymo_err_set(err, -EBADMSG, "%s: is no Parquet file, or was cut off", path);
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

int publish_tables(const char *work, const char *place, struct publish_counts *ret, struct kymo_err *err)
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
