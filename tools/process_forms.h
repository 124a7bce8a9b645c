/*
 * What kymo process makes of a capture's profiles, and where it goes. Tables go to the store (--data-path), to the
 * place that the user named, or, when only other forms are wanted, to a directory that is removed again. Other forms
 * are made from the tables by kymo-export. Not thread-safe.
 */
#ifndef KYMO_TOOLS_PROCESS_FORMS_H
#define KYMO_TOOLS_PROCESS_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"

#define PROCESS_FORMS_MAX 5

struct process_forms {
    const char *names[PROCESS_FORMS_MAX]; /* other than parquet */
    size_t count;
    bool tables; /* parquet is wanted */
    const char *output, *data_path;
    char *scratch; /* NULL: the tables are kept */
};

int process_forms_check(const char *name, struct kymo_err *err) KYMO_MUST_CHECK; /* of one word of the option */
/* -EINVAL: what is asked for does not go together; the text says why. process_forms_done is due whatever the outcome.
 */
int process_forms_init(struct process_forms *f, const struct kymo_option_list *names, const char *output,
                       const char *data_path, struct kymo_err *err) KYMO_MUST_CHECK;
/* How many results of one profile go to the place that the user named. */
size_t process_forms_results(const struct process_forms *f);
/* Where the tables of a profile go, to be freed; several: the place has more than one result. NULL: no memory, or no
 * place for scratch. */
char *process_forms_tables(struct process_forms *f, const char *name, bool several);
/* Makes the other forms of tables. Prints the place of each file. The exit code of kymo-export, or a negative errno. */
int process_forms_make(const struct process_forms *f, const char *tables, const char *name, bool several,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* Removes what was not to be kept. */
void process_forms_done(struct process_forms *f);

#endif
