/* The framework's trace.json. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/systrace/trace_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct trace_json_event *e;
    struct trace_json *t = NULL;
    char path[64];
    int fd KYMO_CLOSE = memfd_create("trace", MFD_CLOEXEC);
    if (fd < 0 || kymo_file_pwrite_all(fd, data, n, 0, "input", NULL) < 0)
        return 0;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (trace_json_open(path, &t, NULL) < 0)
        return 0;
    while (trace_json_next(t, &e, NULL) > 0)
        if (strlen(e->name) > TRACE_JSON_NAME_MAX || (e->args && e->args[0] != '{') || e->offset >= n)
            abort();
    trace_json_free(t);
    return 0;
}
