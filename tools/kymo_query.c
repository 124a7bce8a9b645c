/* kymo query DIR 'SQL': hands over to kymo-query, which has the same options. */
#include <stdio.h>

#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_query_main(int argc, char **argv)
{
    (void)argc;
    struct kymo_err err = {0};
    if (sibling_exec("kymo-query", argv, &err) < 0)
        (void)fprintf(stderr, "kymo query: %s\n", err.text);
    return 1;
}
