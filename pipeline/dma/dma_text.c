#include "pipeline/dma/dma_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#define PARTITIONS_MAX 512

void dma_text_list(const int64_t *v, unsigned count, char *out, size_t n)
{
    size_t at = 0;
    out[0] = 0;
    for (unsigned i = 0; i < count && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%" PRId64, i ? ", " : "[", v[i]);
    if (count && at < n)
        (void)snprintf(out + at, n - at, "]");
}

void dma_text_offset(int64_t offset, char *out, size_t n)
{
    (void)snprintf(out, n, "[0x%" PRIx64 "]", (uint64_t)offset);
}

/* Walks the dimensions that lead to other partitions; the others stay within one. */
static void mark(const struct kymo_arch *arch, const struct neff_access *a, unsigned dims, int64_t offset, bool *seen,
                 unsigned *budget)
{
    int64_t pitch = arch->sbuf_partition_bytes;
    while (dims > 0 && (a->steps[dims - 1] < pitch || a->sizes[dims - 1] <= 1))
        dims--;
    if (!dims) {
        int64_t p = offset / pitch;
        if (p >= 0 && p < (int64_t)arch->sbuf_partitions && p < PARTITIONS_MAX)
            seen[p] = true;
        return;
    }
    for (int64_t i = 0; i < a->sizes[dims - 1] && *budget; i++, (*budget)--)
        mark(arch, a, dims - 1, offset + i * a->steps[dims - 1], seen, budget);
}

unsigned dma_text_partitions(const struct kymo_arch *arch, const struct neff_access *a, char *out, size_t n)
{
    bool seen[PARTITIONS_MAX + 1] = {false};
    unsigned budget = 65536, count = 0;
    size_t at = 0;
    out[0] = 0;
    if (!arch->sbuf_partition_bytes || !a->size_count)
        return 0;
    unsigned dims = a->size_count < a->step_count ? a->size_count : a->step_count;
    mark(arch, a, dims < NEFF_DMA_DIMS ? dims : NEFF_DMA_DIMS, a->offset, seen, &budget);
    for (unsigned p = 0; p < PARTITIONS_MAX; p++) {
        if (!seen[p])
            continue;
        unsigned last = p;
        while (seen[last + 1])
            last++;
        count += last - p + 1;
        if (at < n)
            at += (size_t)snprintf(out + at, n - at,
                                   last > p + 1 ? "%s%u-%u"
                                   : last > p   ? "%s%u,%u"
                                                : "%s%u",
                                   at ? "," : "", p, last);
        p = last;
    }
    return count;
}
