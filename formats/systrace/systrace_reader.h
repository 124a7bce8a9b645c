/*
 * Reads one file of the system trace (FORMAT.md), item by item: events and samples one at a time, everything else of
 * the root message together as its head. Memory is bounded whatever the file's size. Not thread-safe.
 */
#ifndef KYMO_FORMATS_SYSTRACE_SYSTRACE_READER_H
#define KYMO_FORMATS_SYSTRACE_SYSTRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/neuron_trace.pb-c.h"

#define SYSTRACE_HEAD_MAX (16u << 20)       /* packed bytes of a head */
#define SYSTRACE_UNPACKED_MAX (64ull << 20) /* of a head or an item in memory */

enum systrace_kind { SYSTRACE_KIND_NTRACE, SYSTRACE_KIND_TRACE_INFO, SYSTRACE_KIND_CPU_UTIL, SYSTRACE_KIND_HOST_MEM };
#define SYSTRACE_KIND_MAX 4

/* The file's name in a session's directory. */
const char *systrace_file_name(enum systrace_kind kind);

/*
 * The files of one session have one prefix: its directory, or, where a spool has put folders into names, "<folders>-".
 * The prefix of a directory is itself with a slash, that of one of the files (trace.json too) what stands before its
 * name. 0: its length in path, without the slash of a directory; -EINVAL: neither.
 */
int systrace_prefix(const char *path, size_t *ret_len, bool *ret_directory);

struct systrace_reader;

enum systrace_item_type { SYSTRACE_ITEM_EVENT, SYSTRACE_ITEM_CPU, SYSTRACE_ITEM_MEMORY };

struct systrace_item {
    enum systrace_item_type type;
    union {
        const Ntff__NtraceEvent *event;
        const Ntff__CpuUtil *cpu;
        const Ntff__HostMemUsage *memory;
    };
    uint64_t offset; /* in the file */
};

int systrace_open(const char *path, enum systrace_kind kind, struct systrace_reader **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;
struct systrace_reader *systrace_free(struct systrace_reader *r);
void systrace_freep(struct systrace_reader **r);

/*
 * 1: *ret is the next item, valid until the next call. 0: the end; the head is complete. -EPROTO: not what it should
 * be, with file, offset and cause; -ENOMEM. After a failure the reader gives nothing more until it is rewound.
 */
int systrace_next(struct systrace_reader *r, struct systrace_item *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* To the file's first item again. The head stays. */
void systrace_rewind(struct systrace_reader *r);

/* Reads the whole file for its head alone. A file that breaks off has a head too, of what stands before: the failure is
 * returned and the head is there. -ENOMEM: it is not. */
int systrace_read_head(struct systrace_reader *r, struct kymo_err *err) KYMO_MUST_CHECK;
/* By kind; NULL before the end was reached, and for the other kinds. */
const Ntff__NtraceInfo *systrace_info(const struct systrace_reader *r);
const Ntff__HostStats *systrace_stats(const struct systrace_reader *r);
/* Fields of the root message that this schema does not know, of which a foreign file is full. */
uint64_t systrace_unknown_fields(const struct systrace_reader *r);
uint64_t systrace_item_count(const struct systrace_reader *r); /* given so far, since the last rewind */

#endif
