/*
 * A program's configuration: the rows of its option table (options.h), set from defaults, then from a file, then from
 * the command line, each over the one before.
 *
 *   # comment                       also with ";"
 *   spool-dir = /var/spool/kymo     names of rows, without dashes; "key : value" is the same
 *   collector = a.example:3002      a row that is a list may stand several times; any other once
 *
 *   [job llama-*]                   sections with rows of their own, when the program has some: a kind, and a name
 *   mode = session
 *
 * Flags take true or false. Blanks around names, values and lines do not count; " ;" begins a comment behind a value;
 * there are no continued lines. Whatever is not understood is an error that names file and line, and nothing of a file
 * that has one is used. Not thread-safe (the parser beneath has settings of the process).
 */
#ifndef KYMO_BASE_INI_H
#define KYMO_BASE_INI_H

#include <stddef.h>

#include "base/err.h"
#include "base/options.h"

#define KYMO_INI_FILE_MAX (256u << 10) /* bytes of a file */
#define KYMO_INI_LINE_MAX 1000         /* bytes of a line */
#define KYMO_INI_NAME_MAX 48           /* bytes between the brackets of a section */
#define KYMO_INI_SECTIONS_MAX 64       /* of a file */
#define KYMO_INI_ROWS_MAX 128          /* of a table */

/* A kind of sections: "[KIND NAME]". */
struct kymo_ini_section {
    const char *kind;
    const struct kymo_option *rows;
    /*
     * One begins: gives the structure that its rows fill, with what it shall hold before. NULL: it may not be there,
     * for the reason in *err. name ("" without one) lives as long as the kymo_ini. The same section never begins twice.
     */
    void *(*begin)(void *target, const char *name, struct kymo_err *err);
};

struct kymo_ini_spec {
    /* Rows that a file sets outside sections: all but positional ones and "config", which names the file itself. */
    const struct kymo_options *options;
    const struct kymo_ini_section *sections; /* the last has no kind; NULL: there are none */
};

struct kymo_ini; /* the texts that a target points to */

/*
 * Defaults, then the file that argv's --config (or the default of that row) names, then argv; at last required rows
 * must be there. Returns an enum kymo_options_outcome, or a negative errno; target then holds no promise. *ret, set for
 * KYMO_OPTIONS_PARSED, must outlive target and is never NULL then. Called again (with another target) it reads the file
 * again: a program that reloads keeps the old pair when this fails.
 */
int kymo_ini_load(const struct kymo_ini_spec *spec, int argc, char *const *argv, void *target, struct kymo_ini **ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;

/* For main functions, as kymo_options_main: -1 = go on; else the exit code. */
int kymo_ini_main(const struct kymo_ini_spec *spec, int argc, char *const *argv, void *target,
                  struct kymo_ini **ret) KYMO_MUST_CHECK;

/* The middle part alone: a file's n bytes, called file in errors, over what target holds. */
int kymo_ini_read(const struct kymo_ini_spec *spec, const char *file, const void *data, size_t n, void *target,
                  struct kymo_ini **ret, struct kymo_err *err) KYMO_MUST_CHECK;

struct kymo_ini *kymo_ini_free(struct kymo_ini *ini); /* returns NULL; NULL is fine */

#endif
