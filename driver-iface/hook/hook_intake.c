#include "driver-iface/hook/hook_intake.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "driver-iface/hook/hook_internal.h"

#define DEPTH_MAX 4u
#define ENTRIES_MAX 4096u
#define FULL_BELOW (16ull << 20) /* a writer that failed may have removed what it had written */
#define PART_MAX (KYMO_HOOK_ID_MAX + 8)

static struct hook_fd intake = {.fd = -1};

void hook_intake_set(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return;
    }
    hook_fd_close(&intake);
    intake = hook_fd_take(fd);
}

bool hook_intake_usable(void)
{
    return hook_fd_is_ours(&intake);
}

static void part_name(const char *id, char ret[PART_MAX])
{
    (void)snprintf(ret, PART_MAX, "%.63s.part", id);
}

bool hook_intake_open(const char *id, char path[HOOK_PATH_MAX])
{
    char part[PART_MAX];
    struct stat st;

    part_name(id, part);
    if (!hook_intake_usable() || fstatat(intake.fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
        mkdirat(intake.fd, part, 0777) < 0)
        return false;
    (void)snprintf(path, HOOK_PATH_MAX, "/proc/self/fd/%d/%s", intake.fd, part);
    return true;
}

/* Removes directories without files, from the leaves. True: nothing was in the way. */
static bool remove_empty(int parent, const char *name, unsigned depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const struct dirent *e;
    bool empty = true;
    unsigned n = 0;
    DIR *dir;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    while (empty && n++ < ENTRIES_MAX && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            empty = depth < DEPTH_MAX && remove_empty(dirfd(dir), e->d_name, depth + 1);
    (void)closedir(dir);
    return empty && unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

bool hook_intake_publish(const char *id)
{
    char part[PART_MAX];

    part_name(id, part);
    if (!hook_intake_usable() || remove_empty(intake.fd, part, 0))
        return false;
    return renameat(intake.fd, part, intake.fd, id) == 0;
}

bool hook_intake_is_full(unsigned long long *ret_free)
{
    struct statvfs fs;
    unsigned long long bytes;

    if (!hook_intake_usable() || fstatvfs(intake.fd, &fs) < 0)
        return false;
    bytes = (unsigned long long)fs.f_bavail * fs.f_frsize;
    if (ret_free)
        *ret_free = bytes;
    return bytes < FULL_BELOW || (fs.f_files > 0 && fs.f_favail == 0);
}

void hook_intake_discard(const char *id)
{
    char part[PART_MAX];

    part_name(id, part);
    if (hook_intake_usable())
        (void)remove_empty(intake.fd, part, 0);
}

void hook_intake_forked(void)
{
    hook_fd_close(&intake);
}
