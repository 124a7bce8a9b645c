/* A directory that appears whole or not at all: built as <path>.tmp-<pid>, then renamed to, or exchanged with, its
 * place. */
#ifndef KYMO_PIPELINE_OUTPUT_DIR_H
#define KYMO_PIPELINE_OUTPUT_DIR_H

#include "base/err.h"

#define OUTPUT_DIR_PATH_MAX 4096

/* What a place may hold for it to be replaced: files of this ending and of these names, one of the names among them. */
struct output_content {
    const char *ending;   /* ".parquet" */
    const char *names[2]; /* the second may be NULL */
    const char *file;     /* what such a file is called in messages: "table" */
    const char *whole;    /* what such a directory is: "profile" */
};
extern const struct output_content output_tables;

struct output_dir {
    const struct output_content *content;
    char path[OUTPUT_DIR_PATH_MAX];
    char work[OUTPUT_DIR_PATH_MAX]; /* "": nothing to remove */
    int lock;                       /* on the work directory; -1: none */
};

/*
 * Makes the parent directories and the empty work directory, and removes work directories of this place whose processes
 * are gone. -ENOTDIR, -EEXIST: the place holds something else than a profile (tables alone, Metadata or SchemaFields
 * among them) or an empty directory, and will not be replaced.
 */
int output_dir_open(struct output_dir *d, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for other files than tables. */
int output_dir_open_for(struct output_dir *d, const char *path, const struct output_content *content,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* -EEXIST: path is the input or a directory above it. */
int output_dir_check_input(const char *path, const char *input, struct kymo_err *err) KYMO_MUST_CHECK;
int output_dir_publish(struct output_dir *d, struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes the work directory unless it was published. */
void output_dir_done(struct output_dir *d);

#endif
