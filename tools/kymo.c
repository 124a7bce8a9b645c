/* kymo: the command line tool. A table of subcommands and nothing else. */
#include <stdio.h>
#include <string.h>

#include "tools/subcommands.h"

struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *help;
};

static const struct subcommand subcommands[] = {
#define X(name, help) {#name, kymo_##name##_main, help},
    KYMO_SUBCOMMANDS(X)
#undef X
        {NULL, NULL, NULL},
};

static void print_usage(FILE *out)
{
    (void)fprintf(out, "usage: kymo COMMAND [ARGUMENTS]\n       kymo COMMAND --help\n\ncommands:\n");
    for (const struct subcommand *s = subcommands; s->name; s++)
        (void)fprintf(out, "  %-10s %s\n", s->name, s->help);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("kymo %s\n", KYMO_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return 0;
    }
    for (const struct subcommand *s = subcommands; s->name; s++)
        if (!strcmp(argv[1], s->name))
            return s->main(argc - 1, argv + 1);
    (void)fprintf(stderr, "kymo: no command \"%s\"; see kymo --help\n", argv[1]);
    return 2;
}
