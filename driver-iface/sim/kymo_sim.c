/* kymo-sim: the simulated device's command line. A table of subcommands and nothing else. */
#include <stdio.h>
#include <string.h>

#include "driver-iface/sim/sim_subcommands.h"

struct subcommand {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *help;
};

static const struct subcommand subcommands[] = {
#define X(name, help) {#name, sim_cmd_##name##_main, help},
    KYMO_SIM_SUBCOMMANDS(X)
#undef X
        {NULL, NULL, NULL},
};

static void print_usage(FILE *out)
{
    (void)fprintf(out, "usage: kymo-sim COMMAND [ARGUMENTS]\n       kymo-sim COMMAND --help\n\ncommands:\n");
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
        printf("kymo-sim %s\n", KYMO_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return 0;
    }
    for (const struct subcommand *s = subcommands; s->name; s++)
        if (!strcmp(argv[1], s->name))
            return s->main(argc - 1, argv + 1);
    (void)fprintf(stderr, "kymo-sim: no command \"%s\"; see kymo-sim --help\n", argv[1]);
    return 2;
}
