/* kymo-sim: the simulated device's command line. A table of subcommands and nothing else. */
#include <stddef.h>

#include "base/commands.h"
#include "driver-iface/sim/sim_subcommands.h"

static const struct kymo_command commands[] = {
#define X(name, help) {#name, sim_cmd_##name##_main, help},
    KYMO_SIM_SUBCOMMANDS(X)
#undef X
        {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    return kymo_commands_main("kymo-sim", commands, argc, argv);
}
