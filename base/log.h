/*
 * Lines for people on stderr, for programs only: library code returns struct kymo_err instead. One line is one write,
 * so lines of threads and processes do not mix. Thread-safe after kymo_log_init.
 */
#ifndef KYMO_BASE_LOG_H
#define KYMO_BASE_LOG_H

enum kymo_log_level { KYMO_LOG_ERROR, KYMO_LOG_WARNING, KYMO_LOG_INFO, KYMO_LOG_DEBUG };

/* program must outlive the process's logging. Lines above level are dropped; the default is KYMO_LOG_INFO. */
void kymo_log_init(const char *program, enum kymo_log_level level);

/* "<N>text" for the journal, where stderr is one; else "program: text", with "warning: " or "debug: " between; at most
 * 1 KiB, control characters replaced by "?". */
void kymo_log(enum kymo_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
