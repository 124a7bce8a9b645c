/* Control group paths: whatever is found consists of the characters that it may have. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "daemon/unit_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *path KYMO_FREE = kymo_strndup((const char *)data, size);
    must(path != NULL);
    struct unit_name found = {0};
    unit_name_read_path(path, &found);
    size_t n = strspn(found.container, "0123456789abcdef");
    must(found.container[n] == '\0' && (n == 0 || n == UNIT_NAME_CONTAINER));
    n = strspn(found.pod, "0123456789abcdef-");
    must(found.pod[n] == '\0' && (n == 0 || n == UNIT_NAME_POD));
    return 0;
}
