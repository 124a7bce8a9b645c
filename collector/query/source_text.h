/*
 * Source texts below a folder, by names that came with a profile and may be anything. No name leads out of the folder:
 * neither '..' nor symbolic links are followed.
 */
#ifndef KYMO_COLLECTOR_QUERY_SOURCE_TEXT_H
#define KYMO_COLLECTOR_QUERY_SOURCE_TEXT_H

#include <stddef.h>

#include "base/err.h"

#define SOURCE_TEXT_MAX (4u << 20)
#define SOURCE_PARTS_MAX 64 /* of a name */

/*
 * Opens the file that has the whole name below root, or the longest end of the name that there is one for. The
 * descriptor is the caller's. -ENOENT: there is none.
 */
int source_text_open(const char *root, const char *name, struct kymo_err *err) KYMO_MUST_CHECK;
/* Its text, as fresh memory with a NUL behind. -EFBIG; -EINVAL: it is no text. */
int source_text_read(int fd, const char *name, char **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
