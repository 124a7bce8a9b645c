/* A whole package from memory: opened, and everything it tells is walked. */
#include "arch/layout.h"
#include "tests/fuzz/neff_files.h"

/* Deflate makes a thousandfold of this at most: a run stays short. */
#define INPUT_MAX (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sink;

static void touch_bytes(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sink += p[i];
}

static void walk_engine(const struct neff *n, const struct neff_subgraph *sg, const struct neff_engine *e)
{
    char text[256];
    neff_touch_text(e->bin_name);
    neff_touch_text(e->json_name);
    for (size_t i = 0; i <= e->count; i++) {
        neff_touch_debug(neff_debug_of(n, sg, e->engine, i));
        if (i < e->count)
            kymo_instr_text(kymo_arch_get(KYMO_GEN_TRN2), e->code + i * KYMO_INSTR_SIZE, text, sizeof text);
    }
    for (size_t i = 0; i < e->block_count; i++) {
        const struct neff_dma_block *b = &e->blocks[i];
        neff_touch_text(b->queue);
        neff_touch_text(b->function);
        neff_touch_text(b->op);
        neff_touch_text(b->from.variable);
        neff_touch_text(b->to.dtype);
        for (unsigned k = 0; k < b->transpose_dims; k++)
            sink += (size_t)b->transpose_shape[k];
    }
}

static void walk_subgraph(const struct neff *n, const struct neff_subgraph *sg)
{
    neff_touch_text(sg->name);
    neff_touch_text(sg->definition);
    for (size_t i = 0; i < sg->queue_count; i++) {
        neff_touch_text(sg->queues[i].name);
        for (size_t k = 0; k < sg->queues[i].instance_count; k++)
            neff_touch_text(sg->queues[i].instances[k]);
    }
    for (size_t i = 0; i < sg->var_count; i++) {
        neff_touch_text(sg->vars[i].name);
        neff_touch_text(sg->vars[i].shape);
    }
    for (size_t i = 0; i < sg->engine_count; i++)
        walk_engine(n, sg, &sg->engines[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kymo_err err = {0};
    struct neff *n = NULL;
    if (size > INPUT_MAX || neff_open_memory(data, size, "input", 0, &n, &err) < 0)
        return 0;
    for (size_t i = 0; i < neff_member_count(n); i++) {
        const struct neff_member *m = neff_member(n, i);
        neff_touch_text(m->name);
        touch_bytes(m->data, m->size);
        if (neff_find_member(n, m->name) != m)
            __builtin_trap();
    }
    for (size_t i = 0; i < neff_subgraph_count(n); i++)
        walk_subgraph(n, neff_subgraph(n, i));
    for (size_t i = 0; i < neff_note_count(n); i++)
        neff_touch_text(neff_note(n, i));
    n = neff_free(n);
    return 0;
}
