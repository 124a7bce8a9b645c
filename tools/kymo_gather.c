/* kymo gather: hands over to kymo-gather, which has the same options. */
#include <stdio.h>

#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_gather_main(int argc, char **argv)
{
    (void)argc;
    struct kymo_err err = {0};
    if (sibling_exec("kymo-gather", argv, &err) < 0)
        (void)fprintf(stderr, "kymo gather: %s\n", err.text);
    return 1;
}
