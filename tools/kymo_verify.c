/* kymo verify DIR: proves the loss equation of a profile, by kymo-query. */
#include <stddef.h>

#include "base/options.h"
#include "base/sibling.h"
#include "tools/subcommands.h"

struct args {
    const char *dir;
};

static const struct kymo_option rows[] = {
    {.name = "DIR",
     .type = KYMO_OPTION_POSITIONAL,
     .required = true,
     .offset = offsetof(struct args, dir),
     .help = "directory of a profile's tables"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo verify",
    .about = "Checks per ring: emitted = rows + partial + other + unknown + lost, and that the rows are there.\n"
             "Exit code: 0 closed, 1 violated, 3 open (losses without a number) or unverifiable (no counters,\n"
             "or counters that contradict the stored records), 4 the tables cannot be read.",
    .rows = rows,
};

int kymo_verify_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    char *query_argv[] = {argv[0], "--verify", "--", (char *)(size_t)args.dir, NULL};
    return sibling_main("kymo-query", query_argv);
}
