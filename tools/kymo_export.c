/* kymo export DIR: hands over to kymo-export, which has the same options. */
#include "base/sibling.h"
#include "tools/subcommands.h"

int kymo_export_main(int argc, char **argv)
{
    (void)argc;
    return sibling_main("kymo-export", argv);
}
