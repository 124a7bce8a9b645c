/* Feature bits, as data (neff.md 1.3, class C; explorer's text class A, matched by us, G). */
#include "formats/neff/neff.h"

/* X(bit, name, explorer's name or NULL) */
#define FEATURES(X)                                                                                                    \
    X(0x2, "collective offset", NULL)                                                                                  \
    X(0x4, "custom operators", NULL)                                                                                   \
    X(0x8, "coalesced collectives", "coalesced-cc")                                                                    \
    X(0x10, "queue-set instances", "queue-set-instances")                                                              \
    X(0x20, "functions (call/return)", "on-chip-functions")                                                            \
    X(0x40, "dynamic activation tables", NULL)                                                                         \
    X(0x80, "indirect copy with 32-bit semaphore wait", NULL)                                                          \
    X(0x100, "bound check", NULL)                                                                                      \
    X(0x200, "DMA descriptors of higher dimension", NULL)                                                              \
    X(0x400, "virtual (logical) core", NULL)                                                                           \
    X(0x800, "DVE performance mode", NULL)                                                                             \
    X(0x4000, "remote semaphores", NULL)                                                                               \
    X(0x2000000, "large tensor", NULL)

static const struct feature {
    uint64_t bit;
    const char *name, *explorer;
} features[] = {
#define X(bit, name, explorer) {bit, name, explorer},
    FEATURES(X)
#undef X
};

static const struct feature *find(uint64_t bit)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (features[i].bit == bit)
            return &features[i];
    return NULL;
}

const char *neff_feature_name(uint64_t bit)
{
    const struct feature *f = find(bit);
    return f ? f->name : NULL;
}

const char *neff_feature_explorer_name(uint64_t bit)
{
    const struct feature *f = find(bit);
    return f ? f->explorer : NULL;
}

bool neff_refused_by_runtime_2_31(const struct neff_header *h)
{
    return h->version_major > 2 ||
           (h->version_major == 2 && (h->feature_bits & ~(uint64_t)NEFF_FEATURES_RUNTIME_2_31) != 0);
}
