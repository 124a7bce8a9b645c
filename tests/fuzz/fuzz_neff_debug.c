/* The debug layers alone. */
#include "base/alloc.h"
#include "tests/fuzz/neff_files.h"

#define INSTRUCTIONS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
    "debug_info/stack_frame_index.dbg",
    "s/debug_info_framework.dbg",
    "s/debug_info_hlo.dbg",
    "s/debug_info_penguin.dbg",
    "s/debug_info_backend.pe.dbg",
    "s/debug_info_asm.pe.dbg",
    "s/debug_info_backend.1.dbg",
    "debug_info/asm.dbg",
    "s/kernel_debug_info.json",
    "s/k.json",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t code[INSTRUCTIONS * 64];
    struct neff_engine engine = {
        .engine = KYMO_ENGINE_TENSOR, .bin_name = "s/pe.bin", .code = code, .count = INSTRUCTIONS};
    struct neff_subgraph sg = {.name = "s", .definition = "s/def.json", .engines = &engine, .engine_count = 1};
    struct neff *n KYMO_CLEANUP(neff_freep) = neff_from_files(data, size, names, sizeof names / sizeof *names);
    if (!n)
        return 0;
    n->subgraphs = &sg;
    n->subgraph_count = 1;
    struct kymo_err err = {0};
    struct neff_load l = {.n = n, .err = &err};
    if (neff_debug_load(&l) < 0)
        return 0;
    for (size_t i = 0; i < INSTRUCTIONS; i++)
        neff_touch_debug(neff_debug_of(n, &sg, KYMO_ENGINE_TENSOR, i));
    neff_touch_sources(n, neff_kernels_of(n, &sg));
    return 0;
}
