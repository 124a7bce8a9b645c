/* The manifest under which a directory of files enters a store. */
#ifndef KYMO_TOOLS_IMPORT_MANIFEST_H
#define KYMO_TOOLS_IMPORT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The directory's manifest.pb as it is, when it has one; else one made of its regular files, with what their profiles
 * say. id: NULL takes the runtime's process and time from the session layout, else a hash of the files, so that the
 * same directory gives the same manifest each time. Reads every file. The caller frees *ret with kymo_free.
 */
int import_manifest(const char *dir, const char *id, uint8_t **ret, size_t *ret_size,
                    struct kymo_err *err) KYMO_MUST_CHECK;

#endif
