#include "collector/query/source_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

#define PART_MAX 255

struct parts {
    const char *at[SOURCE_PARTS_MAX];
    size_t len[SOURCE_PARTS_MAX], n;
};

/* False: a name that no file here has. */
static bool take_apart(const char *name, struct parts *p)
{
    p->n = 0;
    for (const char *at = name; *at;) {
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n == 0)
            break;
        if (p->n == SOURCE_PARTS_MAX || n > PART_MAX || (n == 2 && !strncmp(at, "..", 2)))
            return false;
        if (n > 1 || *at != '.') {
            p->at[p->n] = at;
            p->len[p->n++] = n;
        }
        at += n;
    }
    return p->n > 0;
}

/* By way of its descriptor the folder has a name of its own, so that only the last part is looked up, and no link is.
 */
static int open_part(int folder, const char *part, size_t n, bool last)
{
    char path[PART_MAX + 64];
    struct kymo_err ignored = {0};
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/%.*s", folder, (int)n, part);
    return kymo_file_open(path, O_RDONLY | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY), 0, &ignored);
}

/* The parts from first on. */
static int walk(int root, const struct parts *p, size_t first)
{
    int folder KYMO_CLOSE = -1;
    struct stat st;
    for (size_t i = first; i < p->n; i++) {
        bool last = i + 1 == p->n;
        int fd = open_part(folder < 0 ? root : folder, p->at[i], p->len[i], last);
        (void)kymo_file_close(folder);
        folder = fd;
        if (fd < 0)
            return fd;
    }
    if (kymo_file_ops()->fstat(folder, &st) < 0 || !S_ISREG(st.st_mode))
        return -ENOENT;
    int fd = folder;
    folder = -1;
    return fd;
}

int source_text_open(const char *root, const char *name, struct kymo_err *err)
{
    struct parts p;
    struct kymo_err ignored = {0};
    if (!take_apart(name, &p))
        return kymo_err_set(err, -ENOENT, "no file here has such a name");
    int folder KYMO_CLOSE = kymo_file_open(root, O_RDONLY | O_DIRECTORY, 0, &ignored);
    if (folder < 0)
        return kymo_err_set(err, -ENOENT, "there is no folder of source texts");
    for (size_t first = 0; first < p.n; first++) {
        int fd = walk(folder, &p, first);
        if (fd >= 0)
            return fd;
    }
    return kymo_err_set(err, -ENOENT, "the text is not there");
}

int source_text_read(int fd, const char *name, char **ret, struct kymo_err *err)
{
    uint64_t size;
    int r = kymo_file_size(fd, &size, name, err);
    if (r == 0 && size > SOURCE_TEXT_MAX)
        r = kymo_err_set(err, -EFBIG, "the text is longer than %u bytes", SOURCE_TEXT_MAX);
    if (r < 0)
        return r;
    char *text KYMO_FREE = KYMO_NEW_ARRAY(char, size + 1);
    if (!text)
        return kymo_err_set(err, -ENOMEM, "no memory for a text");
    r = kymo_file_pread_all(fd, text, size, 0, name, err);
    if (r == 0 && memchr(text, '\0', size))
        r = kymo_err_set(err, -EINVAL, "the file is no text");
    if (r == 0)
        *ret = KYMO_TAKE(text);
    return r;
}
