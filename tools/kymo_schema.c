/* kymo schema: the tables and columns of a profile, from the schema that is built in. No profile is needed. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "tools/schema_print.h"
#include "tools/subcommands.h"

struct args {
    int format;
    bool coverage;
    struct kymo_option_list tables;
};

static const struct kymo_option rows[] = {
    {.name = "format",
     .letter = 'f',
     .type = KYMO_OPTION_CHOICE,
     .choices = "list|yaml|markdown",
     .def = "list",
     .offset = offsetof(struct args, format),
     .help = "list: a line per column; yaml: an OpenAPI document; markdown: a reference to read"},
    {.name = "coverage",
     .type = KYMO_OPTION_FLAG,
     .offset = offsetof(struct args, coverage),
     .help = "a line per column: what it is filled from, or that it is empty and why"},
    {.name = "TABLE",
     .type = KYMO_OPTION_POSITIONALS,
     .offset = offsetof(struct args, tables),
     .help = "these tables only"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo schema",
    .about = "Prints what tables and columns a profile has: the vendor's schema 7.4.0 and, marked, what kymo adds.",
    .rows = rows,
};

static bool is_chosen(const struct args *a, const char *table)
{
    bool found = !a->tables.n;
    for (size_t i = 0; i < a->tables.n && !found; i++)
        found = !strcmp(a->tables.items[i], table);
    return found;
}

static int check_tables(const struct args *a)
{
    for (size_t i = 0; i < a->tables.n; i++)
        if (!kymo_schema_find(a->tables.items[i])) {
            (void)fprintf(stderr, "kymo schema: there is no table %s; kymo schema lists them\n", a->tables.items[i]);
            return 1;
        }
    return 0;
}

int kymo_schema_main(int argc, char **argv)
{
    static const struct schema_form forms[] = {{NULL, schema_print_list},
                                               {schema_print_yaml_head, schema_print_yaml},
                                               {schema_print_markdown_head, schema_print_markdown}};
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (check_tables(&args))
        return 1;
    const struct schema_form *form = &forms[args.format];
    if (form->head && !args.coverage)
        form->head(stdout);
    for (int t = 0; t < KYMO_T_MAX; t++) {
        const struct kymo_table *table = kymo_schema_table((enum kymo_table_id)t);
        if (is_chosen(&args, table->name))
            (args.coverage ? schema_print_coverage : form->table)(stdout, table);
    }
    return 0;
}
