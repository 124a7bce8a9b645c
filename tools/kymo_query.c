/* kymo query DIR 'SQL': hands over to kymo-query, which has the same options. */
#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_query_main(int argc, char **argv)
{
    (void)argc;
    return sibling_main("kymo-query", argv);
}
