/*
 * Reads trace.json, the framework's events in Chrome's trace format: an object with "traceEvents", or the bare array.
 * One event is in memory at a time. Times are microseconds, from "baseTimeNanoseconds" where the file has it (PyTorch),
 * else from the Unix epoch. Not thread-safe.
 */
#ifndef KYMO_FORMATS_SYSTRACE_TRACE_JSON_H
#define KYMO_FORMATS_SYSTRACE_TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TRACE_JSON_FILE "trace.json"
#define TRACE_JSON_EVENT_MAX (1u << 20) /* bytes of one event */
#define TRACE_JSON_NAME_MAX 1023
#define TRACE_JSON_ID_MAX 63

struct trace_json;

struct trace_json_event {
    char phase;                         /* X complete, B begin, E end, i or I instant, s t f flow, M metadata, others */
    char name[TRACE_JSON_NAME_MAX + 1]; /* UTF-8; longer ones are cut */
    bool timed;                         /* start_ns is there */
    bool has_duration, has_pid, has_tid, has_sequence;
    int64_t start_ns, duration_ns;
    int64_t pid, tid;
    uint64_t sequence;                  /* args.nrt_sequence_id: the runtime's nrta_seq_id */
    char stream[TRACE_JSON_ID_MAX + 1]; /* args.stream; "": none */
    char id[TRACE_JSON_ID_MAX + 1];     /* of a flow; "": none */
    char *args;                         /* compact JSON object; NULL: none */
    uint64_t offset;                    /* in the file */
};

/* Looks through the file once for where the events are. -EPROTO: no JSON, or none with trace events. */
int trace_json_open(const char *path, struct trace_json **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct trace_json *trace_json_free(struct trace_json *t);
void trace_json_freep(struct trace_json **t);

/* 1: *ret is the next event, valid until the next call. 0: the end. -EPROTO with file, offset and cause; a file that
 * breaks off is one. */
int trace_json_next(struct trace_json *t, const struct trace_json_event **ret, struct kymo_err *err) KYMO_MUST_CHECK;
uint64_t trace_json_size(const struct trace_json *t);

#endif
