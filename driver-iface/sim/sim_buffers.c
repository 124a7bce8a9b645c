#include "driver-iface/sim/sim_buffers.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* getenv-like source; the last of several settings counts. */
static const char *find(void *ctx, const char *name)
{
    const struct kymo_option_list *buffers = ctx;
    static const char prefix[] = "NEURON_RT_PROFILE_BUF_";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *ring = name + sizeof prefix - 1;
    for (size_t i = buffers->n; i-- > 0;) {
        size_t n = strcspn(buffers->items[i], "=");
        if (!strncmp(ring, buffers->items[i], n) && !strcmp(ring + n, "_MB"))
            return buffers->items[i] + n + 1;
    }
    return NULL;
}

static bool names_ring(const char *item, size_t n)
{
    for (unsigned r = 0; r < KYMO_RING_MAX; r++)
        if (strlen(kymo_ring_name(r)) == n && !strncmp(kymo_ring_name(r), item, n))
            return true;
    return false;
}

int sim_buffers_parse(const struct kymo_option_list *buffers, struct kymo_ring_sizes *ret, struct kymo_err *err)
{
    for (size_t i = 0; i < buffers->n; i++) {
        size_t n = strcspn(buffers->items[i], "=");
        if (!buffers->items[i][n] || !names_ring(buffers->items[i], n))
            return kymo_err_set(err, -EINVAL, "--buffer %s: not RING=MB with a ring such as DMA or H2D_DMA",
                                buffers->items[i]);
    }
    int r = kymo_ring_sizes_from_env(find, (void *)(uintptr_t)buffers, ret, err);
    if (r < 0)
        kymo_err_prefix(err, "--buffer");
    return r;
}
