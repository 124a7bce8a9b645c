/* Environment files: the search ends, and finds what an assignment put in front says. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/env_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text KYMO_FREE = kymo_strndup((const char *)data, size);
    char *more KYMO_FREE = text ? kymo_asprintf("LD_PRELOAD=x\n%s", text) : NULL;
    if (!more)
        abort();
    volatile bool found = env_file_sets(text, "LD_PRELOAD");
    (void)found;
    if (!env_file_sets(more, "LD_PRELOAD"))
        abort();
    return 0;
}
