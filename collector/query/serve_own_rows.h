/* The rows of one group that a window wants, and columns at these rows. Shared by serve_own*.c; one per call. */
#ifndef KYMO_COLLECTOR_QUERY_SERVE_OWN_ROWS_H
#define KYMO_COLLECTOR_QUERY_SERVE_OWN_ROWS_H

#include "collector/query/serve_own.h"

#define SERVE_OWN_COLUMNS_MAX TABLE_FILE_COLUMNS_MAX

struct serve_own_rows {
    struct table_reader *reader;
    const struct table_file *file;
    size_t group, n;
    uint32_t *rows;
    size_t cap, caps[SERVE_OWN_COLUMNS_MAX]; /* of rows, of each column */
    int64_t *numbers[SERVE_OWN_COLUMNS_MAX];
    struct table_text *texts[SERVE_OWN_COLUMNS_MAX];
};

int serve_own_rows_open(struct serve_own_rows *r, const struct table_file *f, struct kymo_err *err) KYMO_MUST_CHECK;
void serve_own_rows_done(struct serve_own_rows *r);
/* All rows of a group; texts of the one before are gone. */
int serve_own_rows_begin(struct serve_own_rows *r, size_t group, struct kymo_err *err) KYMO_MUST_CHECK;
/* Keeps the rows whose number lies from low to high; a null does not. */
int serve_own_rows_keep(struct serve_own_rows *r, size_t column, int64_t low, int64_t high,
                        struct kymo_err *err) KYMO_MUST_CHECK;
int serve_own_rows_keep_text(struct serve_own_rows *r, size_t column, const char *text,
                             struct kymo_err *err) KYMO_MUST_CHECK;
/* Keeps the last n rows of those that are left. */
void serve_own_rows_tail(struct serve_own_rows *r, size_t n);
/* A column at the rows that are left: numbers[column] or texts[column]; or into ret. */
int serve_own_rows_numbers(struct serve_own_rows *r, size_t column, struct kymo_err *err) KYMO_MUST_CHECK;
int serve_own_rows_texts(struct serve_own_rows *r, size_t column, struct kymo_err *err) KYMO_MUST_CHECK;

int serve_own_rows_reals(struct serve_own_rows *r, size_t column, double *ret, struct kymo_err *err) KYMO_MUST_CHECK;

/* Cells of values. */
struct sql_cell serve_own_number(int64_t v);
struct sql_cell serve_own_text(const struct table_text *t);

#endif
