/* Which files of a directory are tables, by their names, and whether they can be such. */
#ifndef KYMO_COLLECTOR_QUERY_QUERY_FILES_H
#define KYMO_COLLECTOR_QUERY_QUERY_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define QUERY_FILES_MAX 65536

/* Name.parquet, Name_0.parquet ..., whatever the case of letters. */
struct query_file {
    char *name;        /* of the file */
    const char *table; /* the schema's name where it has the table, else part of name: n characters */
    size_t n;
    long part; /* -1: not split */
};

struct query_files {
    struct query_file *items;
    size_t n, cap;
};

/* In the order of tables and their parts. Of names that differ only by case the schema's own is taken, else the first.
 */
int query_files_list(const char *dir, struct query_files *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void query_files_done(struct query_files *f);
bool query_files_same_table(const struct query_file *a, const struct query_file *b);

/* True: a file of a table; *ret_table, of *ret_n characters, as struct query_file has it. */
bool query_files_is_table(const char *file, const char **ret_table, size_t *ret_n);
/* Fresh memory: the path of the only file of a table. NULL: there is none, or there are several. */
int query_files_only(const struct query_files *f, const char *dir, const char *table, char **ret_path,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Whether a file begins and ends as Parquet does; the text says it of the file's name. */
int query_files_check(const char *dir, const char *name, struct kymo_err *err) KYMO_MUST_CHECK;

/* Directories are read by way of their descriptors (query_db.c); this takes these names out of a text. */
void query_files_hide_places(char *text);

#endif
