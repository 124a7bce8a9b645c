/*
 * Subcommands of kymo: one file kymo_<name>.c each, one row here. main gets argv with argv[0] = the subcommand's name
 * and returns the exit code: 0 done, 1 failed (one line on stderr says why), 2 wrong usage.
 */
#ifndef KYMO_TOOLS_SUBCOMMANDS_H
#define KYMO_TOOLS_SUBCOMMANDS_H

/* X(name, help) */
#define KYMO_SUBCOMMANDS(X)                                                                                            \
    X(capture, "capture a step of this host's jobs now")                                                               \
    X(disable, "take the hook out of systemd units")                                                                   \
    X(enable, "put the hook into systemd units")                                                                       \
    X(export, "make CSV files, a Perfetto trace or a summary of a profile")                                            \
    X(gather, "put the profiles of many ranks on one time axis")                                                       \
    X(import, "put a capture into a store and make its profiles")                                                      \
    X(neff, "show what a compiled program file holds")                                                                 \
    X(ntff, "show what a device profile file holds")                                                                   \
    X(process, "make tables from device profiles")                                                                     \
    X(profiles, "list what a store holds")                                                                             \
    X(query, "run SQL over a profile's tables")                                                                        \
    X(reprocess, "make profiles of a store again")                                                                     \
    X(schema, "print the tables and columns of a profile, and what fills them")                                        \
    X(spool, "check, dump or repair a host's spool of captures")                                                       \
    X(status, "show this host's daemon, its jobs and its spool")                                                       \
    X(systrace, "show what a file of a system trace holds")                                                            \
    X(verify, "prove that every record of a profile is accounted for")                                                 \
    X(view, "show profiles in a web browser")

#define X(name, help) int kymo_##name##_main(int argc, char **argv);
KYMO_SUBCOMMANDS(X)
#undef X

#endif
