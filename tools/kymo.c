/* kymo: the command line tool. A table of subcommands and nothing else. */
#include <stddef.h>

#include "base/commands.h"
#include "tools/subcommands.h"

static const struct kymo_command commands[] = {
#define X(name, help) {#name, kymo_##name##_main, help},
    KYMO_SUBCOMMANDS(X)
#undef X
        {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    return kymo_commands_main("kymo", commands, argc, argv);
}
