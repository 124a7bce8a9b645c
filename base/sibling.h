/* Programs that are installed beside the running one. */
#ifndef KYMO_BASE_SIBLING_H
#define KYMO_BASE_SIBLING_H

#include <limits.h>

#include "base/err.h"

/* Path of PROGRAM in the directory of the running executable. */
int sibling_path(const char *program, char ret[static PATH_MAX], struct kymo_err *err) KYMO_MUST_CHECK;

/* Replaces this process by it. argv[0] should be the program's name. Returns only on failure. */
int sibling_exec(const char *program, char *const *argv, struct kymo_err *err) KYMO_MUST_CHECK;
/* For a subcommand of kymo, whose name argv[0] is: the same, and on failure one line and the exit code 1. */
int sibling_main(const char *program, char *const *argv);

#endif
