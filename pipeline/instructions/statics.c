#include "pipeline/instructions/statics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/formulas/formulas.h"

struct statics_space {
    const struct program *program;
    uint32_t *by_slot;    /* UINT32_MAX: does not occur */
    uint32_t *outside;    /* program counters without a slot, rising */
    uint32_t outside_row; /* row of the first of them; the others follow */
    size_t outside_count;
};

static size_t space_count(const struct statics *s)
{
    return (s->nodes + 1) * INPUT_CORES_MAX * KYMO_ENGINE_MAX;
}

static struct statics_space *space_at(const struct statics *s, uint32_t node, unsigned pcore, unsigned engine)
{
    size_t n = node < s->nodes ? node : s->nodes;
    return &s->spaces[(n * INPUT_CORES_MAX + pcore) * KYMO_ENGINE_MAX + engine];
}

static int add_row(struct statics *s, struct static_row row, struct kymo_err *err)
{
    void *p = s->rows;
    int r = kymo_grow(&p, &s->cap, s->count + 1, STATICS_MAX, sizeof *s->rows);
    s->rows = p;
    if (r < 0)
        return kymo_err_set(err, r, "more than %u different instructions", STATICS_MAX);
    s->rows[s->count++] = row;
    return 0;
}

/* A PSEUDO_DMA_TRIGGER became a WRITE; its compiler record names the queue and the block. */
static int find_trigger(struct statics *s, struct static_row *row, const uint8_t *rec, const uint8_t *compiler,
                        struct kymo_err *err)
{
    const struct kymo_arch *arch = s->in->arch;
    uint32_t node = row->program->node;
    if (row->opcode == KYMO_OP_DMA_DIRECT2D) {
        row->trigger = STATICS_TRIGGER_DYNAMIC;
        row->set = dma_queues_find_dynamic(s->queues, node, row->pcore, (enum kymo_engine)row->engine);
        if (row->set == DMA_NONE)
            return 0;
        return dma_copies_add(&s->queues->copies, arch, row->program->subgraph, row->set, compiler,
                              statics_memory_at(arch, rec, KYMO_F_SRC_ADDR64),
                              statics_memory_at(arch, rec, KYMO_F_DST_ADDR64), &row->copy, err);
    }
    char queue[64];
    uint64_t block;
    if (!compiler || compiler[0] != KYMO_OP_PSEUDO_DMA_TRIGGER ||
        !kymo_layout_get_chars(arch, compiler, KYMO_F_QUEUE_NAME, queue, sizeof queue) ||
        !kymo_layout_get(arch, compiler, KYMO_F_BLOCK_ID, &block))
        return 0;
    row->trigger = STATICS_TRIGGER_BLOCK;
    row->set = dma_queues_find_set(s->queues, node, row->pcore, queue);
    if (row->set != DMA_NONE)
        row->block = dma_queues_find_block(s->queues, row->set, (uint32_t)block, "");
    return 0;
}

static int add_slot(struct statics *s, struct statics_space *space, unsigned pcore, unsigned engine, uint32_t pc,
                    size_t slot, struct kymo_err *err)
{
    const struct program *p = space->program;
    if (space->by_slot[slot] != UINT32_MAX)
        return 0;
    const uint8_t *rec = program_record(p, slot);
    const struct kymo_opcode *op = kymo_opcode_get(rec[0]);
    struct static_row row = {
        .program = p,
        .slot = (int64_t)slot,
        .pc = pc,
        .pcore = (uint8_t)pcore,
        .engine = (uint8_t)engine,
        .opcode = rec[0],
        .known = true,
        .setup = op && op->setup,
        .set = DMA_NONE,
        .block = DMA_NONE,
        .copy = DMA_NONE,
    };
    int r = find_trigger(s, &row, rec, program_compiler_record(p, slot), err);
    if (r < 0)
        return r;
    space->by_slot[slot] = (uint32_t)s->count;
    return add_row(s, row, err);
}

static int64_t low_slot(const struct statics_space *space, uint32_t pc)
{
    return space->program ? program_slot(space->program, pc, -1) : -1;
}

static int add_inside(struct statics *s, struct statics_space *space, unsigned pcore, unsigned engine,
                      const uint64_t *pcs, struct kymo_err *err)
{
    int r = 0;
    for (uint32_t pc = 0; pc < SCAN_PCS && r == 0; pc++) {
        if (!pcs[pc / 64])
            pc |= 63;
        else if (scan_pc_seen(pcs, pc)) {
            int64_t slot = low_slot(space, pc);
            /* In images of more than 2^20 slots several slots share these bits. */
            for (; slot >= 0 && (size_t)slot < space->program->slots && r == 0; slot += SCAN_PCS)
                r = add_slot(s, space, pcore, engine, pc, (size_t)slot, err);
        }
    }
    return r;
}

static int add_outside(struct statics *s, struct statics_space *space, unsigned pcore, unsigned engine,
                       const uint64_t *pcs, struct kymo_err *err)
{
    size_t n = 0;
    for (uint32_t pc = scan_next_pc(pcs, 0); pc < SCAN_PCS; pc = scan_next_pc(pcs, pc + 1))
        n += low_slot(space, pc) < 0;
    space->outside_row = (uint32_t)s->count;
    space->outside_count = n;
    if (!n)
        return 0;
    space->outside = KYMO_NEW_ARRAY(uint32_t, n);
    if (!space->outside)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu program counters", n);
    n = 0;
    for (uint32_t pc = scan_next_pc(pcs, 0); pc < SCAN_PCS; pc = scan_next_pc(pcs, pc + 1)) {
        if (low_slot(space, pc) >= 0)
            continue;
        space->outside[n++] = pc;
        struct static_row row = {.slot = -1,
                                 .pc = pc,
                                 .pcore = (uint8_t)pcore,
                                 .engine = (uint8_t)engine,
                                 .set = DMA_NONE,
                                 .block = DMA_NONE,
                                 .copy = DMA_NONE};
        int r = add_row(s, row, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int open_space(struct statics *s, const struct programs *programs, const struct scan *scan, uint32_t node,
                      unsigned pcore, unsigned engine, struct warnings *w, struct kymo_err *err)
{
    const uint64_t *pcs = scan_pcs(scan, node, pcore, (enum kymo_engine)engine);
    struct statics_space *space = space_at(s, node, pcore, engine);
    space->program = programs_find(programs, node, pcore, (enum kymo_engine)engine);
    if (space->program) {
        size_t n = space->program->slots;
        space->by_slot = KYMO_NEW_ARRAY(uint32_t, n + 1);
        if (!space->by_slot)
            return kymo_err_set(err, -ENOMEM, "no memory for %zu slots", n);
        memset(space->by_slot, 0xff, (n + 1) * sizeof *space->by_slot);
        int r = add_inside(s, space, pcore, engine, pcs, err);
        if (r < 0)
            return r;
    }
    int r = add_outside(s, space, pcore, engine, pcs, err);
    if (r == 0 && space->outside_count && (!space->program || space->program->pc_mode != PROGRAM_PC_NONE))
        warnings_add(w, "Missing image",
                     "%zu program counters of %s on core %u are in no instruction image of the NTFF: their opcodes are "
                     "empty; the capture "
                     "may lack a NEFF that ran",
                     space->outside_count, kymo_engine_name((enum kymo_engine)engine), pcore);
    return r;
}

static void warn_unknown(const struct statics *s, struct warnings *w)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct static_row *row = &s->rows[i];
        char name[32];
        if (row->known && !kymo_opcode_get(row->opcode))
            warnings_add(w, "Unknown opcode",
                         "opcode 0x%02X on %s has no name in this version: it is shown as %s; a newer kymo may know it",
                         row->opcode, kymo_engine_name((enum kymo_engine)row->engine),
                         kymo_opcode_name(row->opcode, name, sizeof name));
    }
}

int statics_open(struct statics *s, const struct input *in, const struct programs *programs, struct dma_queues *queues,
                 const struct scan *scan, struct warnings *w, struct kymo_err *err)
{
    *s = (struct statics){.in = in, .queues = queues, .nodes = in->node_count};
    s->spaces = KYMO_NEW_ARRAY(struct statics_space, space_count(s));
    int r = s->spaces ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the static rows");
    for (uint32_t node = 0; node <= s->nodes && r == 0; node++)
        for (unsigned pcore = 0; pcore < INPUT_CORES_MAX && r == 0; pcore++)
            for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
                r = open_space(s, programs, scan, node, pcore, e, w, err);
    if (r < 0) {
        statics_done(s);
        return r;
    }
    warn_unknown(s, w);
    return 0;
}

void statics_done(struct statics *s)
{
    for (size_t i = 0; s->spaces && i < space_count(s); i++) {
        kymo_free(s->spaces[i].by_slot);
        kymo_free(s->spaces[i].outside);
    }
    kymo_free(s->spaces);
    kymo_free(s->rows);
    *s = (struct statics){0};
}

static int by_pc(const void *key, const void *elem)
{
    uint32_t a = *(const uint32_t *)key, b = *(const uint32_t *)elem;
    return a < b ? -1 : a > b;
}

uint32_t statics_find(const struct statics *s, struct statics_place *place, uint32_t node, unsigned pcore,
                      enum kymo_engine engine, uint32_t pc)
{
    const struct statics_space *space = space_at(s, node, pcore, (unsigned)engine);
    if (space != place->space)
        *place = (struct statics_place){space, -1};
    int64_t slot = space->program ? program_slot(space->program, pc, place->previous) : -1;
    if (slot >= 0) {
        place->previous = slot;
        return space->by_slot[slot];
    }
    const uint32_t *at =
        space->outside_count ? bsearch(&pc, space->outside, space->outside_count, sizeof *space->outside, by_pc) : NULL;
    return at ? space->outside_row + (uint32_t)(at - space->outside) : 0;
}

static uint64_t product(const struct neff_access *a)
{
    uint64_t n = a->size_count ? 1 : 0;
    for (unsigned i = 0; i < a->size_count && i < NEFF_DMA_DIMS; i++)
        n *= (uint64_t)a->sizes[i];
    return n;
}

bool statics_is_matmul(const struct static_row *row)
{
    return row->known && row->opcode == KYMO_OP_MATMUL && row->engine == KYMO_ENGINE_TENSOR;
}

void statics_track(const struct statics *s, const struct static_row *row, char *out, size_t n)
{
    const char *engine = kymo_engine_name((enum kymo_engine)row->engine),
               *part = statics_is_matmul(row) ? "Matrix" : "";
    if (s->in->cores > 1)
        (void)snprintf(out, n, "%s%s(nc%u)", engine, part, row->pcore);
    else
        (void)snprintf(out, n, "%s%s", engine, part);
}

enum dma_memory statics_memory_at(const struct kymo_arch *arch, const uint8_t *record, enum kymo_field field)
{
    uint64_t addr, offset;
    unsigned pcore;
    if (!record || !kymo_layout_get(arch, record, field, &addr))
        return DMA_MEMORY_UNKNOWN;
    switch (kymo_arch_region(arch, addr, &pcore, &offset)) {
    case KYMO_REGION_HBM:
        return DMA_MEMORY_HBM;
    case KYMO_REGION_SBUF:
        return DMA_MEMORY_SBUF;
    default:
        return DMA_MEMORY_UNKNOWN;
    }
}

/* A copy whose descriptors are made at run time is described by its operands alone. */
static void dynamic_facts(const struct kymo_arch *arch, struct static_facts *f)
{
    f->dma_read = f->dma_write = kymo_instr_dma_bytes(arch, f->record);
    f->dma_from = statics_memory_at(arch, f->record, KYMO_F_SRC_ADDR64);
    f->dma_to = statics_memory_at(arch, f->record, KYMO_F_DST_ADDR64);
}

struct statics_traffic statics_traffic(const struct static_facts *f)
{
    const struct kymo_footprint *fp = &f->footprint;
    bool spill = f->block && f->block->spill, from_hbm = f->dma_from == DMA_MEMORY_HBM,
         to_hbm = f->dma_to == DMA_MEMORY_HBM, from_sbuf = f->dma_from == DMA_MEMORY_SBUF,
         to_sbuf = f->dma_to == DMA_MEMORY_SBUF;
    return (struct statics_traffic){
        .known = f->has_layout || f->block,
        .hbm_read = from_hbm ? f->dma_read : 0,
        .hbm_write = to_hbm ? f->dma_write : 0,
        .sbuf_read = fp->sbuf_read + (from_sbuf ? f->dma_read : 0),
        .sbuf_write = fp->sbuf_write + (to_sbuf ? f->dma_write : 0),
        .psum_read = fp->psum_read,
        .psum_write = fp->psum_write,
        .spill_save = spill && from_sbuf && to_hbm ? f->dma_write : 0,
        .spill_reload = spill && from_hbm && to_sbuf ? f->dma_read : 0,
    };
}

static void trigger_facts(const struct statics *s, const struct static_row *row, struct static_facts *f)
{
    if (row->set != DMA_NONE)
        f->set = &s->queues->sets[row->set];
    if (row->block == DMA_NONE || !s->queues->blocks[row->block].neff)
        return;
    f->block = &s->queues->blocks[row->block];
    f->dma_read = product(&f->block->neff->from);
    f->dma_write = product(&f->block->neff->to);
    f->dma_from = f->block->from;
    f->dma_to = f->block->to;
}

void statics_facts(const struct statics *s, const struct static_row *row, struct static_facts *f)
{
    const struct kymo_arch *arch = s->in->arch;
    *f = (struct static_facts){0};
    if (!row->known)
        return;
    f->record = program_record(row->program, (size_t)row->slot);
    f->compiler = program_compiler_record(row->program, (size_t)row->slot);
    if (f->compiler)
        f->debug = neff_debug_of(s->in->nodes[row->program->node].neff, row->program->subgraph,
                                 (enum kymo_engine)row->engine, (size_t)row->program->compiler_pc[row->slot]);
    const struct kymo_opcode *op = kymo_opcode_get(row->opcode);
    f->has_layout = arch->layouts->form[row->opcode] || (op && op->op_class == KYMO_OPC_CONTROL);
    f->footprint = kymo_instr_footprint(arch, f->record);
    const struct kymo_footprint *fp = &f->footprint;
    f->transpose = f->debug && f->debug->kind ? f->debug->kind == 3 : fp->transpose;
    if (fp->matmul) {
        f->tensor_elements = (uint64_t)fp->rows * fp->cols * fp->elements;
        f->raw_flops = formulas_raw_flops(fp->rows, fp->cols, fp->elements, fp->half_pass);
        f->adjusted_flops = formulas_adjusted_flops(arch, kymo_dtype_cost(fp->dtype), f->raw_flops);
    }
    if (op && op->op_class == KYMO_OPC_DMA_START)
        dynamic_facts(arch, f);
    trigger_facts(s, row, f);
}
