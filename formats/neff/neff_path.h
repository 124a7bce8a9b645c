/* Names of archive members: what may pass. Shared by the reader and the writer. */
#ifndef KYMO_FORMATS_NEFF_NEFF_PATH_H
#define KYMO_FORMATS_NEFF_NEFF_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The name without its leading "./" (any number of them). */
const char *neff_path_strip(const char *name);
/*
 * NULL when a stripped name is safe, else why it is not: empty, longer than NEFF_NAME_MAX, absolute, with a ".."
 * component or a control character. Nothing is ever unpacked here, but tools that list or copy members build on it.
 */
const char *neff_path_unsafe(const char *stripped);
/* Joins the folder of base ("sg00/def.json") and name into out; false when the result does not fit. */
bool neff_path_beside(const char *base, const char *name, char *out, size_t n);

#endif
