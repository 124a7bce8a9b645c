#include "pipeline/instructions/instr_source.h"

#include <stdio.h>
#include <string.h>

#include "arch/opcode.h"
#include "pipeline/instructions/source_tables.h"

#define CHAIN_RECORDS_MAX 64
#define REGIONS_MAX 64

static void find_frames(const struct statics *s, const struct neff *neff, const struct neff_debug *d,
                        struct instr_source *ret)
{
    uint32_t base = source_tables_frame_base(s->in, neff);
    size_t n = 0;
    for (size_t i = 0; i < d->frame_count && n < sizeof ret->stack_frames - 16; i++)
        n += (size_t)snprintf(ret->stack_frames + n, sizeof ret->stack_frames - n, "%s%u", i ? ", " : "[",
                              base + d->frames[i]);
    if (n)
        (void)snprintf(ret->stack_frames + n, sizeof ret->stack_frames - n, "]");
}

/* Outermost first; regions deeper than REGIONS_MAX are left out at the outer end. */
static void find_regions(const struct neff_kernels *k, uint32_t region, struct instr_source *ret)
{
    const char *names[REGIONS_MAX] = {NULL};
    size_t depth = 0, n = 0;
    ret->nki_region = region ? k->regions[region - 1].name : NULL;
    for (; region && depth < REGIONS_MAX; region = k->regions[region - 1].parent)
        if (k->regions[region - 1].name)
            names[depth++] = k->regions[region - 1].name;
    for (size_t i = depth; i-- > 0 && n < sizeof ret->nki_path;) {
        int w = snprintf(ret->nki_path + n, sizeof ret->nki_path - n, "%s%s", n ? "/" : "", names[i]);
        n += w > 0 ? (size_t)w : 0;
    }
}

static const char *outermost_function(const struct neff_kernels *k, uint32_t frame)
{
    const char *name = NULL;
    for (; frame; frame = k->frames[frame - 1].parent)
        name = k->frames[frame - 1].name;
    return name;
}

static void find_kernel(const struct neff_kernels *k, const struct neff_debug *d, struct instr_source *ret)
{
    const struct neff_kernel_instruction *in = d->kernel;
    ret->kernel_name = d->kernel_name;
    if (in->file)
        (void)snprintf(ret->nki_location, sizeof ret->nki_location, in->line ? "%s:%d" : "%s", in->file, in->line);
    find_regions(k, in->region, ret);
    if (!ret->operator_name)
        ret->operator_name = outermost_function(k, in->frame);
}

/* Which records belong to the one before them (facts: neff.md 2.4 and 4.3, C). */
static bool continues(uint8_t opcode)
{
    return opcode == KYMO_OP_PSEUDO_EXTENSION || opcode == KYMO_OP_CUSTOM_OP_PAYLOAD;
}

static void find_chain(const struct statics *s, const struct static_row *row, const struct static_facts *f,
                       struct instr_source *ret)
{
    const struct neff_engine *e = row->program->compiled;
    size_t first = (size_t)row->program->compiler_pc[row->slot], n = 0;
    const uint8_t *code = e->code;
    if (f->compiler != code + first * KYMO_INSTR_SIZE)
        return;
    for (size_t back = 0; first > 0 && back < CHAIN_RECORDS_MAX && continues(code[first * KYMO_INSTR_SIZE]); back++)
        first--;
    if (first + 1 >= e->count || !continues(code[(first + 1) * KYMO_INSTR_SIZE]))
        return;
    for (size_t i = first; i < e->count && i < first + CHAIN_RECORDS_MAX; i++) {
        const uint8_t *rec = code + i * KYMO_INSTR_SIZE;
        char text[INSTR_SOURCE_TEXT_MAX], name[32];
        if (i > first && !continues(rec[0]))
            break;
        kymo_instr_text(s->in->arch, rec, text, sizeof text);
        int w = snprintf(ret->chain + n, sizeof ret->chain - n, "%s%s%s%s", n ? "\n" : "",
                         kymo_opcode_name(rec[0], name, sizeof name), *text ? " " : "", text);
        if (w < 0 || (size_t)w >= sizeof ret->chain - n)
            break;
        n += (size_t)w;
    }
}

void instr_source_find(const struct statics *s, const struct static_row *row, const struct static_facts *f,
                       struct instr_source *ret)
{
    ret->executed_by = ret->kernel_name = ret->hlo_attrs = ret->operator_name = ret->nki_region = NULL;
    *ret->stack_frames = *ret->nki_location = *ret->nki_path = *ret->chain = '\0';
    const struct kymo_opcode *op = row->known ? kymo_opcode_get(row->opcode) : NULL;
    if (op)
        ret->executed_by = kymo_opcode_on_sequencer(op) ? "sequencer" : "compute";
    if (f->compiler)
        find_chain(s, row, f, ret);
    const struct neff_debug *d = f->debug;
    if (!d)
        return;
    const struct neff *neff = s->in->nodes[row->program->node].neff;
    ret->hlo_attrs = d->hlo ? d->hlo->attributes : NULL;
    ret->operator_name = d->layer ? d->layer : d->hlo_name;
    find_frames(s, neff, d, ret);
    if (d->kernel)
        find_kernel(neff_kernels_of(neff, row->program->subgraph), d, ret);
}
