/*
 * Writes one file of the system trace (FORMAT.md): a root message, appended to field by field. It appears under its
 * name when it is finished. Not thread-safe.
 */
#ifndef KYMO_FORMATS_SYSTRACE_SYSTRACE_WRITER_H
#define KYMO_FORMATS_SYSTRACE_SYSTRACE_WRITER_H

#include <stdint.h>

#include "base/err.h"
#include "proto/neuron_trace.pb-c.h"

struct systrace_writer;

int systrace_writer_open(const char *path, struct systrace_writer **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* What the root message has beside events and samples; those that are in it are written too. */
int systrace_writer_info(struct systrace_writer *w, const Ntff__NtraceInfo *info, struct kymo_err *err) KYMO_MUST_CHECK;
int systrace_writer_stats(struct systrace_writer *w, const Ntff__HostStats *stats,
                          struct kymo_err *err) KYMO_MUST_CHECK;
int systrace_writer_event(struct systrace_writer *w, const Ntff__NtraceEvent *event,
                          struct kymo_err *err) KYMO_MUST_CHECK;
int systrace_writer_cpu(struct systrace_writer *w, const Ntff__CpuUtil *cpu, struct kymo_err *err) KYMO_MUST_CHECK;
int systrace_writer_memory(struct systrace_writer *w, const Ntff__HostMemUsage *memory,
                           struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t systrace_writer_bytes(const struct systrace_writer *w);
/* Syncs, renames, frees w whatever the result; after a failure nothing is left. */
int systrace_writer_finish(struct systrace_writer *w, struct kymo_err *err) KYMO_MUST_CHECK;
struct systrace_writer *systrace_writer_discard(struct systrace_writer *w);

#endif
