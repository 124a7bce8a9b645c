#include "driver-iface/sim/sim_captures.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

#define DEPTH 2 /* directories below the one given */

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

static int count(const char *dir, const char *end, int depth, struct sim_captures *c, struct kymo_err *err);

static int count_entry(const char *path, int depth, struct sim_captures *c, struct kymo_err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0;
    if (S_ISDIR(st.st_mode) && depth > 0)
        return count(path, depth > 1 ? "" : ".ntff", depth - 1, c, err);
    if (S_ISREG(st.st_mode) && depth == 0)
        *(st.st_size ? &c->written : &c->empty) += 1;
    return 0;
}

static int count(const char *dir, const char *end, int depth, struct sim_captures *c, struct kymo_err *err)
{
    DIR *d = opendir(dir);
    int r = 0;
    if (!d)
        return errno == ENOENT ? 0 : kymo_err_set(err, -errno, "%s: cannot be listed: %s", dir, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(d));) {
        if (e->d_name[0] == '.' || !ends_in(e->d_name, end))
            continue;
        char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, e->d_name);
        r = path ? count_entry(path, depth, c, err) : kymo_err_set(err, -ENOMEM, "out of memory");
    }
    (void)closedir(d);
    return r;
}

int sim_captures_count(const char *dir, pid_t pid, struct sim_captures *ret, struct kymo_err *err)
{
    char end[32];
    struct sim_captures c = {0};
    (void)snprintf(end, sizeof end, "_pid_%ld", (long)pid);
    int r = count(dir, end, DEPTH, &c, err);
    if (r == 0)
        *ret = c;
    return r;
}
