/* kymo view DIR...: hands over to kymo-collector, which serves the page. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_view_main(int argc, char **argv)
{
    struct kymo_err err = {0};
    /* argv[0] stays the program's name, then the mode, then what the user gave. */
    char **args KYMO_FREE = KYMO_NEW_ARRAY(char *, (size_t)argc + 2);
    if (!args) {
        (void)fprintf(stderr, "kymo view: no memory\n");
        return 1;
    }
    static char program[] = "kymo-collector", mode[] = "view";
    args[0] = program;
    args[1] = mode;
    for (int i = 1; i < argc; i++)
        args[i + 1] = argv[i];
    if (sibling_exec("kymo-collector", args, &err) < 0)
        (void)fprintf(stderr, "kymo view: %s\n", err.text);
    return 1;
}
