#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

/* A program may change them while its other threads say something. */
static const char *_Atomic log_program = "kymo";
static _Atomic int log_level = KYMO_LOG_INFO;
static atomic_bool log_to_journal;

/* JOURNAL_STREAM names the journal's end of a stream as DEVICE:INODE (systemd.exec(5)); stderr may be another one. */
static bool is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    char rest;
    return text && sscanf(text, "%llu:%llu%c", &device, &inode, &rest) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == device && st.st_ino == inode;
}

void kymo_log_init(const char *program, enum kymo_log_level level)
{
    atomic_store(&log_program, program);
    atomic_store(&log_level, (int)level);
    atomic_store(&log_to_journal, is_journal());
}

static size_t at_most(int n, size_t max)
{
    return n < 0 ? 0 : (size_t)n < max ? (size_t)n : max;
}

/* The journal knows the program, and takes the level as a number. */
static int put_head(char *line, size_t room, enum kymo_log_level level)
{
    static const char *const marks[] = {
        [KYMO_LOG_ERROR] = "", [KYMO_LOG_WARNING] = "warning: ", [KYMO_LOG_INFO] = "", [KYMO_LOG_DEBUG] = "debug: "};
    static const int priorities[] = {
        [KYMO_LOG_ERROR] = 3, [KYMO_LOG_WARNING] = 4, [KYMO_LOG_INFO] = 6, [KYMO_LOG_DEBUG] = 7};
    return atomic_load(&log_to_journal) ? snprintf(line, room, "<%d>", priorities[level])
                                        : snprintf(line, room, "%s: %s", atomic_load(&log_program), marks[level]);
}

void kymo_log(enum kymo_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&log_level))
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES];
    const size_t room = sizeof line - 2; /* the newline and the terminator */
    size_t n = at_most(put_head(line, room, level), room - 1);
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
