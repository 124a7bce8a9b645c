/* A directory that appears whole or not at all: built as <path>.tmp-<pid>, then renamed to, or exchanged with, its
 * place. */
#ifndef KYMO_PIPELINE_OUTPUT_DIR_H
#define KYMO_PIPELINE_OUTPUT_DIR_H

#include "base/err.h"

#define OUTPUT_DIR_PATH_MAX 4096

struct output_dir {
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
/* -EEXIST: path is the input or a directory above it. */
int output_dir_check_input(const char *path, const char *input, struct kymo_err *err) KYMO_MUST_CHECK;
int output_dir_publish(struct output_dir *d, struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes the work directory unless it was published. */
void output_dir_done(struct output_dir *d);

#endif
