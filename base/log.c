#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

static const char *log_program = "kymo";
static enum kymo_log_level log_level = KYMO_LOG_INFO;

void kymo_log_init(const char *program, enum kymo_log_level level)
{
    log_program = program;
    log_level = level;
}

static size_t at_most(int n, size_t max)
{
    return n < 0 ? 0 : (size_t)n < max ? (size_t)n : max;
}

void kymo_log(enum kymo_log_level level, const char *fmt, ...)
{
    static const char *const marks[] = {
        [KYMO_LOG_ERROR] = "", [KYMO_LOG_WARNING] = "warning: ", [KYMO_LOG_INFO] = "", [KYMO_LOG_DEBUG] = "debug: "};
    if (level > log_level)
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES];
    const size_t room = sizeof line - 2; /* the newline and the terminator */
    size_t n = at_most(snprintf(line, room, "%s: %s", log_program, marks[level]), room - 1);
    va_list ap;
    va_start(ap, fmt);
    n += at_most(vsnprintf(line + n, room - n, fmt, ap), room - n - 1);
    va_end(ap);
    /* Names out of untrusted files end up here: they must not forge lines or steer a terminal. */
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        errno = saved; /* Nobody is left to tell. */
    errno = saved;
}
