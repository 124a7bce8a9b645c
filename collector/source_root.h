/* Folders of source texts that options name (--framework-source-root, --nki-source-root). */
#ifndef KYMO_COLLECTOR_SOURCE_ROOT_H
#define KYMO_COLLECTOR_SOURCE_ROOT_H

#include "base/err.h"

/*
 * The absolute path of a folder, as fresh memory, whatever the process's folder becomes later; NULL for NULL. Errors
 * name the option. -ENOENT, -ENOTDIR: there is no such folder.
 */
int source_root_resolve(const char *option, const char *dir, char **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
