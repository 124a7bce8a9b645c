/* Parts of kymo ntff inspect: our own files, and files with a foreign header. */
#ifndef KYMO_TOOLS_NTFF_INSPECT_H
#define KYMO_TOOLS_NTFF_INSPECT_H

#include <stdbool.h>

#include "base/err.h"
#include "formats/ntff/ntff_reader.h"
#include "tools/tree.h"

struct ntff_inspect {
    const char *path;
    bool records;     /* each record decoded */
    const char *ring; /* of this ring alone: label or kind; NULL: all */
};

/* Everything that the open file holds, record bytes streamed. -ENOENT: no ring of that name. */
int ntff_inspect_profile(struct tree *t, const struct ntff_reader *r, const struct ntff_inspect *opt,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* A file whose header is not ours: dumped without a schema and held against what is said of the vendor's one. */
int ntff_inspect_foreign(struct tree *t, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* Does the file begin with something else than kymo's magic? Also true of one that is too short to tell. */
int ntff_inspect_is_foreign(const char *path, bool *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
