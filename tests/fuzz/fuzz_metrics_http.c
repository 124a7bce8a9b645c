/* The head of a request to the metrics endpoint: never whole before its empty line, and one of six verdicts. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/metrics_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > METRICS_HTTP_HEAD_MAX)
        return 0;
    bool head_only = true;
    int status = metrics_http_judge((const char *)data, size, &head_only);
    bool whole = memmem(data, size, "\r\n\r\n", 4) || memmem(data, size, "\n\n", 2);
    if (whole != (status != 0))
        abort();
    if (status != 0 && status != 200 && status != 400 && status != 403 && status != 404 && status != 405)
        abort();
    /* Whatever comes before the end of the head in one piece or two is the same. */
    if (size > 1 && status != 0 && metrics_http_judge((const char *)data, size - 1, &head_only) > 0 && !whole)
        abort();
    return 0;
}
