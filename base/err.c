#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int(kymo_err_set)(struct kymo_err *err, int code, const char *fmt, ...)
{
    if (code >= 0)
        code = -EIO;
    if (!err)
        return code;
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return code;
}

void kymo_err_prefix(struct kymo_err *err, const char *fmt, ...)
{
    if (!err || !err->code)
        return;
    char rest[KYMO_ERR_TEXT_MAX];
    memcpy(rest, err->text, sizeof rest);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof err->text)
        return;
    (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", rest);
}
