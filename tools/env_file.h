/* Environment files of services, as EnvironmentFile= names them: does one of them set a variable? */
#ifndef KYMO_TOOLS_ENV_FILE_H
#define KYMO_TOOLS_ENV_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define ENV_FILE_BYTES_MAX (1u << 20)
#define ENV_FILE_MATCHES_MAX 64 /* files of one pattern */

/* An assignment to the variable in a file's text, with the quoting and comments of systemd.exec(5). */
bool env_file_sets(const char *text, const char *variable);
/*
 * The first file of the pattern that sets it, in fresh memory, or NULL. What is not there or cannot be read sets
 * nothing.
 */
int env_file_find(const char *pattern, const char *variable, char **ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
