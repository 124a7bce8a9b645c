#include "collector/source_root.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

int source_root_resolve(const char *option, const char *dir, char **ret, struct kymo_err *err)
{
    char real[PATH_MAX];
    struct stat st;
    int code = 0;
    *ret = NULL;
    if (!dir)
        return 0;
    if (!realpath(dir, real) || stat(real, &st) < 0)
        code = -errno;
    else if (!S_ISDIR(st.st_mode))
        code = -ENOTDIR;
    if (code < 0)
        return kymo_err_set(err, code, "%s: %s: %s", option, dir, strerror(-code));
    *ret = kymo_strdup(real);
    return *ret ? 0 : kymo_err_set(err, -ENOMEM, "no memory for %s", option);
}
