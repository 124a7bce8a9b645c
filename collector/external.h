/*
 * An external processor: a command that makes tables from captures that kymo cannot decode. EXTERNAL.md states what it
 * gets and what it must do.
 */
#ifndef KYMO_COLLECTOR_EXTERNAL_H
#define KYMO_COLLECTOR_EXTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collector/runner.h"

#define EXTERNAL_WORDS_MAX 64
#define EXTERNAL_EXIT_LATER 75 /* EX_TEMPFAIL: put back, to be tried again */

struct external {
    const char *command;        /* words between blanks; "..." keeps blanks; placeholders in EXTERNAL.md */
    const char *schema_version; /* of its tables, unless it writes its own; NULL: "unknown" */
    struct runner_limits limits;
};

struct external_job {
    const char *name, *capture, *ntff, *manifest, *output;
    const char *const *neffs;
    size_t neff_count;
};

/* -EINVAL with the reason when the command has no words, too many, an open quote or an unknown placeholder. */
int external_check(const struct external *x, struct kymo_err *err) KYMO_MUST_CHECK;
/* The first word: what the catalogue calls the processor. */
void external_name(const struct external *x, char *out, size_t n);
/* argv for one job, ended by NULL; free with external_strings_free. */
int external_argv(const struct external *x, const struct external_job *job, char ***ret,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for its environment. */
int external_env(const struct external_job *job, const char *directory, char ***ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
void external_strings_free(char ***list);
/* The version that the processor wrote to <output>/schema_version, else the configured one. */
void external_schema_version(const struct external *x, const char *output, char *out, size_t n);

#endif
