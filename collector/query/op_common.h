/* What several operations ask for. */
#ifndef KYMO_COLLECTOR_QUERY_OP_COMMON_H
#define KYMO_COLLECTOR_QUERY_OP_COMMON_H

#include "base/buf.h"
#include "collector/query/busy.h"
#include "collector/query/packed.h"
#include "collector/query/serve_request.h"
#include "collector/query/serve_waits.h"

#define OP_WIDTH_MAX 16384
#define OP_TIME_MAX (INT64_MAX / 4)

struct op_window {
    int64_t from, to, width;
};

/* from < to, and width where it is wanted. */
int op_window_read(const struct serve_request *q, bool width, struct op_window *ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * SQL over events, $1 and $2 being the window's ends, of which the second is not in it: which events are in the window,
 * the part of an event that is, where an instruction's wait ends, and the part without and of the wait.
 */
#define OP_INSIDE "start_ts < $2 AND end_ts >= $1 AND (end_ts > $1 OR start_ts >= $1)"
#define OP_PART "(least(end_ts, $2) - greatest(start_ts, $1))"
#define OP_BEGIN "least(end_ts, start_ts + " SERVE_WAITED ")"
#define OP_BUSY "greatest(least(end_ts, $2) - greatest(" OP_BEGIN ", $1), 0)"
#define OP_WAIT "greatest(least(" OP_BEGIN ", $2) - greatest(start_ts, $1), 0)"
/* Of what an instruction does evenly while it is busy: how much of it falls in the window, 0 to 1. */
#define OP_SHARE                                                                                                       \
    "CASE WHEN end_ts > " OP_BEGIN " THEN " OP_BUSY " / (end_ts - " OP_BEGIN ")::DOUBLE ELSE (start_ts >= $1)::INT "   \
    "END"

/*
 * text selects a key, an event's start, the begin of what counts of it, and its end. ordered: in the order of a table
 * of kymo's own. A text with IN and six values or more is a join to DuckDB, which knows no order.
 */
int op_busy_read(const struct serve_request *q, const char *text, const struct sql_bind *binds, size_t n, bool ordered,
                 struct busy *ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* True: there is a file of this table. */
bool op_has_table(const struct serve_request *q, const char *table);
/* -ENOMSG: there is one that cannot be read, and err says why. */
int op_check_table(const struct serve_request *q, const char *table, struct kymo_err *err) KYMO_MUST_CHECK;

#define OP_PAGE_MAX 1000000000
#define OP_PAGE_SIZE_MAX 1000

struct op_page {
    int64_t page, size;
};

/* page and size, by default 0 and the given one. */
int op_page_read(const struct serve_request *q, int64_t size, struct op_page *ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;

/* A table of events with a key, as /events/{table}/{id} names it; NULL: there is none. kind: whose track shows it. */
struct op_table {
    const char *name, *flow; /* flow: as Flow.in_table has it; NULL: no edges */
    enum serve_kind kind;
};
int op_event_read(const struct serve_request *q, const struct op_table **ret_table, int64_t *ret_id,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* The track of a kind with this label; NULL: none. */
const struct serve_track *op_track_labelled(const struct serve_dir *d, enum serve_kind kind, const char *label,
                                            size_t n);

/* Where events are, track by track, in an answer of "marks". Start with all but dir and packed zero; set kind and a
 * NULL track before each statement. */
struct op_marks {
    const struct serve_dir *dir;
    struct packed *packed;
    enum serve_kind kind; /* that is being read */
    const struct serve_track *track;
    size_t number; /* of track in the answer */
};
/* A row for sql_run, ctx: op_marks: label of the track, start, end, how many it stands for; rows of one track come
 * together. */
int op_marks_keep(void *ctx, const struct sql_cell *c, struct kymo_err *err);

/* Between the parts of the id of an operator's row (op_operators.c). In a request's address no control character may
 * stand. */
#define OP_ROW_SEPARATOR '|'
/* An id, or a part of one, with %XX as the characters they stand for and separators as tabs; NULL: no memory. */
char *op_row_unescaped(const char *text, size_t n);

/* The first of an array of rows, which is taken; null when it is empty. */
json_t *op_first(json_t *rows);

#endif
