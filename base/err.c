#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"

static void put(struct kymo_err *err, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Names and words of files are other people's bytes, and the text goes to a terminal. */
static void put(struct kymo_err *err, const char *fmt, va_list ap)
{
    char text[KYMO_ERR_TEXT_MAX];
    *text = '\0';
    (void)vsnprintf(text, sizeof text, fmt, ap);
    (void)kymo_plain_copy(err->text, sizeof err->text, text);
}

int(kymo_err_set)(struct kymo_err *err, int code, const char *fmt, ...)
{
    if (code >= 0)
        code = -EIO;
    if (!err)
        return code;
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    put(err, fmt, ap);
    va_end(ap);
    return code;
}

int kymo_err_lines(struct kymo_err *err, int code, const char *text)
{
    size_t used = 0;
    if (code >= 0)
        code = -EIO;
    if (!err)
        return code;
    err->code = code;
    *err->text = '\0';
    while (*text && used + 2 < sizeof err->text) {
        char line[KYMO_ERR_TEXT_MAX];
        size_t n = strcspn(text, "\n");
        (void)snprintf(line, sizeof line, "%.*s", n < sizeof line ? (int)n : (int)sizeof line - 1, text);
        for (char *tab = line; (tab = strchr(tab, '\t'));)
            *tab = ' ';
        used += kymo_plain_copy(err->text + used, sizeof err->text - used - 1, line);
        text += n;
        if (*text == '\n') {
            err->text[used++] = *text++;
            err->text[used] = '\0';
        }
    }
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
    put(err, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    (void)snprintf(err->text + n, sizeof err->text - n, ": %s", rest);
}
