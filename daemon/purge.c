#include "daemon/purge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define DEPTH_MAX 8 /* deeper folders come up first, so that descriptors do not run out */
#define PASSES_MAX 65536

struct purge {
    int top;
    unsigned n; /* of what has come up */
};

int purge_lock(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() && fchown(fd, geteuid(), getegid()) < 0)
        return -errno;
    return fchmod(fd, 0700) < 0 ? -errno : 0;
}

static int open_folder(int at, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(at, name, flags);
    /* Without privileges, a folder of our own that forbids itself. */
    if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
        fd = openat(at, name, flags);
    return fd;
}

/* Takes fd. */
static void empty(struct purge *p, int fd, unsigned depth)
{
    (void)purge_lock(fd);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)kymo_file_close(fd);
        return;
    }
    for (const struct dirent *e; (e = readdir(dir));) {
        char up[32];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || unlinkat(fd, e->d_name, 0) == 0)
            continue;
        if (depth < DEPTH_MAX) {
            int below = open_folder(fd, e->d_name);
            if (below >= 0)
                empty(p, below, depth + 1);
            (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
        } else {
            (void)snprintf(up, sizeof up, "deep-%u", p->n++);
            (void)renameat(fd, e->d_name, p->top, up);
        }
    }
    (void)closedir(dir);
}

void purge_entry(int at, const char *name)
{
    struct purge p = {.n = 0};
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return;
    for (unsigned i = 0; i < PASSES_MAX && unlinkat(at, name, AT_REMOVEDIR) < 0; i++) {
        unsigned before = p.n;
        p.top = open_folder(at, name);
        int fd = p.top < 0 ? -1 : fcntl(p.top, F_DUPFD_CLOEXEC, 3);
        if (fd >= 0)
            empty(&p, fd, 0);
        (void)kymo_file_close(p.top);
        if (fd < 0 || (p.n == before && i > 0))
            break; /* nothing moves any more */
    }
    (void)unlinkat(at, name, AT_REMOVEDIR);
}
