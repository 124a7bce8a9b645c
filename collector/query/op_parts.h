/*
 * A window as whole buckets of the tables of sums (pipeline/README.md, "Sums by stretch of time") and the pieces at its
 * two ends, in which events themselves are read. Figures of the three add up to those of the window: an event counts
 * in the piece or bucket in which it begins, and those that last into the window in the first piece. Without these
 * tables a window is one piece.
 */
#ifndef KYMO_COLLECTOR_QUERY_OP_PARTS_H
#define KYMO_COLLECTOR_QUERY_OP_PARTS_H

#include "base/buf.h"
#include "collector/query/busy.h"
#include "collector/query/op_common.h"

#define OP_PIECES_MAX 2

struct op_piece {
    int64_t from, to;
    bool first;  /* what begins before it counts here */
    bool narrow; /* it has few of the profile's events */
};

struct op_parts {
    struct op_piece pieces[OP_PIECES_MAX];
    size_t n;
    int64_t from, to; /* buckets that start there, to not among them; the same: none */
};

struct op_piece op_piece_make(const struct serve_dir *d, int64_t from, int64_t to, bool first);
/* SERVE_SUMS_MAX: of events that no table sums up. */
void op_parts_make(const struct serve_dir *d, enum serve_sums sums, const struct op_window *w, struct op_parts *ret);
/*
 * Appends a text in which $1 and $2 are the ends of a stretch of time: with its numbers, true or false for $3, and for
 * @NAME the view k.NAME or, where the stretch is narrow, what it has of this (serve_tracks.h).
 */
int op_parts_text(struct kymo_buf *b, const char *text, const struct op_piece *p);
/* The same of the buckets. */
int op_parts_sums(struct kymo_buf *b, const char *text, const struct op_parts *p);

/* Time covered, by key, over all parts of a window. */
struct op_active {
    struct busy *pieces[OP_PIECES_MAX];
};
int op_active_open(const struct op_parts *p, struct op_active *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void op_active_done(struct op_active *a);
/*
 * Events of the pieces: text selects what op_busy_read takes, with $1 and $2 for the ends of a piece. binds follow from
 * $4. ordered: as op_busy_read has it.
 */
int op_active_events(const struct serve_request *q, const struct op_parts *p, const char *text,
                     const struct sql_bind *binds, size_t n, bool ordered, struct op_active *ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Sums of the buckets, where there are some: text selects a key and ns of those that start from $1 and before $2. */
int op_active_sums(const struct serve_request *q, const struct op_parts *p, const char *text,
                   const struct sql_bind *binds, size_t n, struct op_active *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Both, with the same binds; the events in the order of their table. */
int op_active_read(const struct serve_request *q, const struct op_parts *p, const char *events, const char *sums,
                   const struct sql_bind *binds, size_t n, struct op_active *ret, struct kymo_err *err) KYMO_MUST_CHECK;
int64_t op_active_of(struct op_active *a, const char *key, size_t n);

#endif
