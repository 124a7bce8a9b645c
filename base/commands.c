#include "base/commands.h"

#include <stdio.h>
#include <string.h>

static void print_usage(FILE *out, const char *program, const struct kymo_command *table)
{
    (void)fprintf(out, "usage: %s COMMAND [ARGUMENTS]\n       %s COMMAND --help\n\ncommands:\n", program, program);
    for (const struct kymo_command *c = table; c->name; c++)
        (void)fprintf(out, "  %-10s %s\n", c->name, c->help);
}

static int run(const char *program, const struct kymo_command *table, int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr, program, table);
        return 2;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("%s %s\n", program, KYMO_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        print_usage(stdout, program, table);
        return 0;
    }
    for (const struct kymo_command *c = table; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return c->main(argc - 1, argv + 1);
    (void)fprintf(stderr, "%s: no command \"%s\"; see %s --help\n", program, argv[1], program);
    return 2;
}

int kymo_commands_main(const char *program, const struct kymo_command *table, int argc, char **argv)
{
    int code = run(program, table, argc, argv);
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != 0)
        return code;
    (void)fprintf(stderr, "%s: cannot write the output\n", program);
    return 1;
}
