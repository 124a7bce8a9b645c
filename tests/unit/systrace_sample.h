/* A small session of the system trace with known contents, for tests and golden files. */
#ifndef KYMO_TESTS_SYSTRACE_SAMPLE_H
#define KYMO_TESTS_SYSTRACE_SAMPLE_H

#include <stdint.h>

#include "base/err.h"

#define SYSTRACE_SAMPLE_T0 1766072156592459482ull
#define SYSTRACE_SAMPLE_EVENTS 12

/* Writes ntrace.pb, trace_info.pb, cpu_util.pb and host_mem.pb into dir, which exists. */
int systrace_sample_write(const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
