/* A program that is a table of subcommands: finds the one named by argv[1], prints usage, --help and --version. */
#ifndef KYMO_BASE_COMMANDS_H
#define KYMO_BASE_COMMANDS_H

struct kymo_command {
    const char *name;
    int (*main)(int argc, char **argv); /* argv[0] is the subcommand's name; returns the exit code */
    const char *help;
};

/* The whole main function. table ends with a row without a name. Wrong usage gives 2, output that cannot be written 1.
 */
int kymo_commands_main(const char *program, const struct kymo_command *table, int argc, char **argv);

#endif
