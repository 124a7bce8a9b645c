/* A file of the system trace: the first byte says which. Everything is read twice, as the pipeline does. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/systrace/systrace_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint64_t walk(struct systrace_reader *r)
{
    struct systrace_item item;
    uint64_t count = 0;
    while (systrace_next(r, &item, NULL) > 0)
        count++;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct systrace_reader *r = NULL;
    char path[64];
    if (n < 1)
        return 0;
    int fd KYMO_CLOSE = memfd_create("systrace", MFD_CLOEXEC);
    if (fd < 0 || kymo_file_pwrite_all(fd, data + 1, n - 1, 0, "input", NULL) < 0)
        return 0;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (systrace_open(path, (enum systrace_kind)(data[0] % SYSTRACE_KIND_MAX), &r, NULL) < 0)
        return 0;
    uint64_t first = walk(r);
    systrace_rewind(r);
    if (systrace_read_head(r, NULL) == 0 && !systrace_info(r) && !systrace_stats(r))
        abort();
    systrace_rewind(r);
    if (walk(r) != first)
        abort();
    systrace_free(r);
    return 0;
}
