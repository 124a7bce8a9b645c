/* kymo gather: hands over to kymo-gather, which has the same options. */
#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_gather_main(int argc, char **argv)
{
    (void)argc;
    return sibling_main("kymo-gather", argv);
}
