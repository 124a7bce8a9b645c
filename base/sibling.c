#include "base/sibling.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sibling_path(const char *program, char ret[static PATH_MAX], struct kymo_err *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) {
        int code = -errno;
        return kymo_err_set(err, code, "cannot find this program's directory: %s", strerror(-code));
    }
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    int len = snprintf(ret, PATH_MAX, "%s/%s", self, program);
    if (len < 0 || len >= PATH_MAX)
        return kymo_err_set(err, -ENAMETOOLONG, "the path of %s is too long", program);
    return 0;
}

int sibling_exec(const char *program, char *const *argv, struct kymo_err *err)
{
    char path[PATH_MAX];
    int r = sibling_path(program, path, err);
    if (r < 0)
        return r;
    (void)execv(path, argv);
    r = -errno;
    return kymo_err_set(err, r, "cannot run %s: %s", path, strerror(-r));
}

int sibling_main(const char *program, char *const *argv)
{
    struct kymo_err err = {0};
    if (sibling_exec(program, argv, &err) < 0)
        (void)fprintf(stderr, "kymo %s: %s\n", argv[0], err.text);
    return 1;
}
