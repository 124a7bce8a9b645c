/*
 * A stream of Perfetto trace packets (proto/perfetto.proto): tracks, slices, instants and counters on one packet
 * sequence. Packets go to a callback as they are made; what is held is the interned texts, up to a fixed number, and
 * nothing else. Events may come in any order of time, but of one track those of one moment in the order in which they
 * happened. Texts that are no UTF-8 are written with '?' in place of what is wrong. Not thread-safe.
 */
#ifndef KYMO_FORMATS_PERFETTO_PERFETTO_WRITER_H
#define KYMO_FORMATS_PERFETTO_PERFETTO_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PERFETTO_ARGS_MAX 32
#define PERFETTO_TEXT_MAX 65536 /* bytes of one text; what is beyond is left out */

struct perfetto_writer;

typedef int (*perfetto_out)(void *ctx, const void *bytes, size_t n); /* 0 or a negative errno */

int perfetto_writer_new(perfetto_out out, void *ctx, struct perfetto_writer **ret) KYMO_MUST_CHECK;
struct perfetto_writer *perfetto_writer_free(struct perfetto_writer *w);

struct perfetto_track {
    uint64_t parent; /* 0: none */
    const char *name;
    const char *description; /* NULL: none */
    const char *unit;        /* of a counter; NULL: a track of events */
    int rank;                /* among the children of its parent */
    bool ordered;            /* its children stand by their ranks, not by their names */
};

/* Declares a track; *ret_id is never 0. Tracks of one name and parent are shown as one. */
int perfetto_writer_track(struct perfetto_writer *w, const struct perfetto_track *t, uint64_t *ret_id) KYMO_MUST_CHECK;

enum perfetto_arg_kind { PERFETTO_INT, PERFETTO_DOUBLE, PERFETTO_BOOL, PERFETTO_TEXT };

struct perfetto_arg {
    const char *name;
    enum perfetto_arg_kind kind;
    int64_t integer; /* or bool */
    double real;
    const char *text;
    size_t len;
};

struct perfetto_event {
    uint64_t track;
    int64_t start, end; /* nanoseconds, not negative */
    const char *name;
    size_t name_len;
    const char *category; /* NULL: none */
    const struct perfetto_arg *args;
    size_t arg_count; /* at most PERFETTO_ARGS_MAX */
    /*
     * Arrows that leave the event and those that enter it. Readers match the ends of an arrow in the order of their
     * times, and an event that waits begins before what it waits for. So arrows leave with the begin and enter with the
     * end.
     */
    const uint64_t *begins, *ends;
    size_t begin_count, end_count;
};

/* Slices of one track do not overlap, though one may begin when another ends. */
int perfetto_writer_slice(struct perfetto_writer *w, const struct perfetto_event *e) KYMO_MUST_CHECK;
int perfetto_writer_instant(struct perfetto_writer *w, const struct perfetto_event *e) KYMO_MUST_CHECK;
int perfetto_writer_counter(struct perfetto_writer *w, uint64_t track, int64_t ts, double value) KYMO_MUST_CHECK;

#endif
