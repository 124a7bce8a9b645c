/* A file that is written from begin to end in large pieces, synced when it is whole. Not thread-safe. */
#ifndef KYMO_TOOLS_EXPORT_EXPORT_FILE_H
#define KYMO_TOOLS_EXPORT_EXPORT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct export_file {
    char *path;
    int fd; /* -1: closed */
    uint64_t offset;
    struct kymo_buf held;
};

/* Makes or empties the file. export_file_done is due whatever the outcome. */
int export_file_open(struct export_file *f, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
int export_file_write(struct export_file *f, const void *data, size_t n, struct kymo_err *err) KYMO_MUST_CHECK;
/* Starts again at the begin of the file. */
int export_file_rewind(struct export_file *f, struct kymo_err *err) KYMO_MUST_CHECK;
int export_file_finish(struct export_file *f, struct kymo_err *err) KYMO_MUST_CHECK;
void export_file_done(struct export_file *f);

#endif
