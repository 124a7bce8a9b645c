/*
 * Subcommands of kymo-sim: one file sim_cmd_<name>.c each, one row here, its source in CMakeLists.txt. main gets argv
 * with argv[0] = the subcommand's name and returns the exit code: 0 done, 1 failed (one line on stderr says why), 2
 * wrong usage.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_SUBCOMMANDS_H
#define KYMO_DRIVER_IFACE_SIM_SIM_SUBCOMMANDS_H

/* X(name, help) */
#define KYMO_SIM_SUBCOMMANDS(X)                                                                                        \
    X(neff, "make a NEFF of a stated shape")                                                                           \
    X(ntff, "run NEFFs on a simulated device and write the profile")                                                   \
    X(run, "run a training job on simulated devices and capture it")                                                   \
    X(device, "hold simulated devices that ranks attach to")                                                           \
    X(job, "one rank of a training job, over libnrt.so.1")

#define X(name, help) int sim_cmd_##name##_main(int argc, char **argv);
KYMO_SIM_SUBCOMMANDS(X)
#undef X

#endif
