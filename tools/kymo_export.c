/* kymo export DIR: hands over to kymo-export, which has the same options. */
#include <stdio.h>

#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_export_main(int argc, char **argv)
{
    (void)argc;
    struct kymo_err err = {0};
    if (sibling_exec("kymo-export", argv, &err) < 0)
        (void)fprintf(stderr, "kymo export: %s\n", err.text);
    return 1;
}
