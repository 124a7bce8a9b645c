#include "pipeline/dma/dma_copies.h"

#include <errno.h>
#include <string.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"

#define COPIES_MAX (1u << 20)
#define NONE UINT32_MAX

const char *dma_memory_word(const struct neff_var *var)
{
    static const struct {
        const char *type, *word;
    } words[] = {
        {"state-buffer", "SB"}, {"input", "INPUT"},  {"output", "OUTPUT"}, {"file", "WEIGHT"},
        {"tmp-buf", "DRAM"},    {"pointer", "DRAM"}, {"virtual", "DRAM"},
    };
    for (size_t i = 0; var && var->type && i < sizeof words / sizeof *words; i++)
        if (!strcmp(var->type, words[i].type))
            return words[i].word;
    return "";
}

enum dma_memory dma_memory_of(const struct neff_var *var)
{
    const char *word = dma_memory_word(var);
    if (!*word)
        return DMA_MEMORY_UNKNOWN;
    return strcmp(word, "SB") ? DMA_MEMORY_HBM : DMA_MEMORY_SBUF;
}

static const struct neff_var *var_of(const struct neff_subgraph *sg, uint32_t id)
{
    /* Numbers are dense from 0, in the order of the file as a rule. */
    for (size_t back = 0; back < 2; back++)
        if (id >= back && id - back < sg->var_count && sg->vars[id - back].var_id == (int64_t)id)
            return &sg->vars[id - back];
    for (size_t i = 0; i < sg->var_count; i++)
        if (sg->vars[i].var_id == (int64_t)id)
            return &sg->vars[i];
    return NULL;
}

/*
 * The variable that one side names, if it can be what was executed: the compiler gives the chip's side number 0
 * whichever variable that is, so a variable in the other memory than the executed address is none.
 */
static const struct neff_var *side_of(const struct kymo_arch *arch, const struct neff_subgraph *sg,
                                      const uint8_t *compiler, enum kymo_field field, enum dma_memory *memory)
{
    uint64_t addr;
    struct kymo_var_ref ref;
    if (!kymo_layout_get(arch, compiler, field, &addr) || !kymo_addr64_variable(addr, &ref))
        return NULL;
    const struct neff_var *var = var_of(sg, ref.var_id);
    enum dma_memory of_var = dma_memory_of(var);
    if (*memory == DMA_MEMORY_UNKNOWN)
        *memory = of_var;
    return of_var == *memory ? var : NULL;
}

/* As for blocks; NULL when the side that counts names none. */
static const char *variable_of(const struct dma_copy *c)
{
    bool to_side = c->from != DMA_MEMORY_HBM && c->to == DMA_MEMORY_HBM;
    const struct neff_var *var = to_side ? c->to_var : c->from_var;
    return var ? var->name : NULL;
}

static uint32_t bucket_of(const struct dma_copy *c)
{
    uint64_t x = (uint64_t)(uintptr_t)c->from_var * 31 + (uint64_t)(uintptr_t)c->to_var;
    x = (x ^ c->set) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(x >> 32) % DMA_COPY_BUCKETS;
}

static bool same(const struct dma_copy *a, const struct dma_copy *b)
{
    return a->set == b->set && a->from_var == b->from_var && a->to_var == b->to_var && a->from == b->from &&
           a->to == b->to;
}

static int find_or_add(struct dma_copies *c, struct dma_copy copy, uint32_t *ret, struct kymo_err *err)
{
    if (!c->buckets) {
        c->buckets = KYMO_NEW_ARRAY(uint32_t, DMA_COPY_BUCKETS);
        if (!c->buckets)
            return kymo_err_set(err, -ENOMEM, "no memory for dynamic copies");
        memset(c->buckets, 0xff, DMA_COPY_BUCKETS * sizeof *c->buckets);
    }
    uint32_t *head = &c->buckets[bucket_of(&copy)];
    for (uint32_t i = *head; i != NONE; i = c->list[i].next)
        if (same(&c->list[i], &copy)) {
            *ret = i;
            return 0;
        }
    void *p = c->list;
    int r = kymo_grow(&p, &c->cap, c->count + 1, COPIES_MAX, sizeof *c->list);
    c->list = p;
    if (r < 0)
        return kymo_err_set(err, r, "more than %u pairs of variables of dynamic DMAs", COPIES_MAX);
    copy.next = *head;
    *ret = *head = (uint32_t)c->count;
    c->list[c->count++] = copy;
    return 0;
}

int dma_copies_add(struct dma_copies *c, const struct kymo_arch *arch, const struct neff_subgraph *sg, uint32_t set,
                   const uint8_t *compiler, enum dma_memory from, enum dma_memory to, uint32_t *ret,
                   struct kymo_err *err)
{
    *ret = NONE;
    if (!sg || !compiler || compiler[0] != KYMO_OP_PSEUDO_DMA_DIRECT2D)
        return 0;
    struct dma_copy copy = {.set = set, .from = from, .to = to};
    copy.from_var = side_of(arch, sg, compiler, KYMO_F_SRC_ADDR64, &copy.from);
    copy.to_var = side_of(arch, sg, compiler, KYMO_F_DST_ADDR64, &copy.to);
    copy.variable = variable_of(&copy);
    return copy.variable ? find_or_add(c, copy, ret, err) : 0;
}

void dma_copies_done(struct dma_copies *c)
{
    kymo_free(c->list);
    kymo_free(c->buckets);
    *c = (struct dma_copies){0};
}
