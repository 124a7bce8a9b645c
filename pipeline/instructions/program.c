#include "pipeline/instructions/program.h"

#include <errno.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/alloc.h"

#define PC_MASK (SCAN_PCS - 1)
#define ACCEPT_EQUAL 0.5    /* share of equal records below which a mapping is refused */
#define ACCEPT_SIMILAR 0.95 /* the same for records compared without their operands, which the runtime may relocate */
#define FIT 0.98 /* share of program counters that must land on a legal record: broken records are in every trace */
#define COMMON_BYTES 12 /* opcode, length, debug, wait, update, value */

static size_t index_at(uint32_t node, unsigned pcore, unsigned engine)
{
    return ((size_t)node * INPUT_CORES_MAX + pcore) * KYMO_ENGINE_MAX + engine;
}

struct program *programs_find(const struct programs *p, uint32_t node, unsigned pcore, enum kymo_engine engine)
{
    if (node >= p->nodes || pcore >= INPUT_CORES_MAX || (unsigned)engine >= KYMO_ENGINE_MAX)
        return NULL;
    uint32_t i = p->index[index_at(node, pcore, (unsigned)engine)];
    return i == UINT32_MAX ? NULL : &p->list[i];
}

static int open_one(struct programs *p, const struct input *in, uint32_t node, unsigned pcore, enum kymo_engine engine,
                    struct kymo_err *err)
{
    const struct input_node *n = &in->nodes[node];
    const Ntff__EngineInstructionInfo *info = input_engine(n, pcore, engine);
    if (!info)
        return 0;
    struct program *prog = &p->list[p->count];
    *prog = (struct program){
        .node = node,
        .pcore = pcore,
        .engine = engine,
        .base = (uint32_t)(info->start_address / KYMO_INSTR_SIZE) & PC_MASK,
    };
    int r = ntff_reader_image(in->ntff, info, &prog->image, &prog->slots, err);
    if (r < 0)
        return r;
    p->index[index_at(node, pcore, (unsigned)engine)] = (uint32_t)p->count++;
    prog->subgraph = input_subgraph(in, node, pcore);
    for (size_t i = 0; prog->subgraph && i < prog->subgraph->engine_count; i++)
        if (prog->subgraph->engines[i].engine == engine)
            prog->compiled = &prog->subgraph->engines[i];
    return 0;
}

int programs_open(struct programs *p, const struct input *in, struct kymo_err *err)
{
    size_t n = in->node_count * INPUT_CORES_MAX * KYMO_ENGINE_MAX;
    *p = (struct programs){.nodes = in->node_count};
    p->list = KYMO_NEW_ARRAY(struct program, n + 1);
    p->index = KYMO_NEW_ARRAY(uint32_t, n + 1);
    int r = p->list && p->index ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the images");
    if (r == 0)
        memset(p->index, 0xff, (n + 1) * sizeof *p->index);
    for (uint32_t node = 0; node < in->node_count && r == 0; node++)
        for (unsigned pcore = 0; pcore < in->cores && r == 0; pcore++)
            for (unsigned e = 0; e < KYMO_ENGINE_MAX && r == 0; e++)
                r = open_one(p, in, node, pcore, (enum kymo_engine)e, err);
    if (r < 0)
        programs_done(p);
    return r;
}

void programs_done(struct programs *p)
{
    for (size_t i = 0; p->list && i < p->count; i++) {
        kymo_free(p->list[i].image);
        kymo_free(p->list[i].compiler_pc);
    }
    kymo_free(p->list);
    kymo_free(p->index);
    *p = (struct programs){0};
}

static uint32_t low_slot(const struct program *p, enum program_pc_mode mode, uint32_t pc)
{
    return mode == PROGRAM_PC_ABSOLUTE ? (pc - p->base) & PC_MASK : pc & PC_MASK;
}

int64_t program_slot(const struct program *p, uint32_t pc, int64_t previous)
{
    if (p->pc_mode == PROGRAM_PC_NONE)
        return -1;
    int64_t slot = low_slot(p, p->pc_mode, pc), slots = (int64_t)p->slots;
    /* Images of more than 2^20 slots: the nearest slot with these low bits. Loops go back less far than half the range.
     */
    if (slots > SCAN_PCS && previous >= 0) {
        int64_t turns = (previous - slot + SCAN_PCS / 2) / SCAN_PCS;
        if (previous - slot + SCAN_PCS / 2 > 0)
            slot += turns * SCAN_PCS;
        if (slot >= slots)
            slot -= SCAN_PCS;
    }
    return slot < slots ? slot : -1;
}

const uint8_t *program_record(const struct program *p, size_t slot)
{
    return p->image + slot * KYMO_INSTR_SIZE;
}

const uint8_t *program_compiler_record(const struct program *p, size_t slot)
{
    if (!p->compiler_pc || p->compiler_pc[slot] < 0)
        return NULL;
    return p->compiled->code + (size_t)p->compiler_pc[slot] * KYMO_INSTR_SIZE;
}

struct score {
    uint64_t seen, fits;
};

static void score_program(const struct program *p, const struct kymo_arch *arch, const uint64_t *pcs,
                          enum program_pc_mode mode, struct score *s)
{
    for (uint32_t pc = 0; pc < SCAN_PCS; pc++) {
        if (!pcs[pc / 64]) {
            pc |= 63;
            continue;
        }
        if (!scan_pc_seen(pcs, pc))
            continue;
        s->seen++;
        uint32_t slot = low_slot(p, mode, pc);
        if (slot < p->slots && kymo_opcode_legal(arch, p->engine, program_record(p, slot)[0]))
            s->fits++;
    }
}

/* The readings differ when some program does not begin at a multiple of 2^20 slots. */
static bool readings_differ(const struct programs *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].base)
            return true;
    return false;
}

static enum program_pc_mode decide(const struct programs *p, struct score rel, struct score abs, struct warnings *w)
{
    bool rel_fits = (double)rel.fits >= FIT * (double)rel.seen, abs_fits = (double)abs.fits >= FIT * (double)abs.seen;
    if (!rel.seen || !readings_differ(p))
        return PROGRAM_PC_RELATIVE;
    if (rel_fits && (!abs_fits || rel.fits > abs.fits))
        return PROGRAM_PC_RELATIVE;
    if (abs_fits && (!rel_fits || abs.fits > rel.fits))
        return PROGRAM_PC_ABSOLUTE;
    warnings_add(w, "Program counter",
                 "%s of the two readings of the trace's program counter fits the images (relative: %llu of %llu, "
                 "absolute: %llu of %llu "
                 "land on a legal record): opcodes, operands and names are empty; keep the file and report it",
                 rel_fits ? "each" : "neither", (unsigned long long)rel.fits, (unsigned long long)rel.seen,
                 (unsigned long long)abs.fits, (unsigned long long)abs.seen);
    return PROGRAM_PC_NONE;
}

void programs_choose_pc(struct programs *p, const struct kymo_arch *arch, const struct scan *scan, struct warnings *w)
{
    struct score rel = {0}, abs = {0};
    for (size_t i = 0; i < p->count; i++) {
        const struct program *prog = &p->list[i];
        const uint64_t *pcs = scan_pcs(scan, prog->node, prog->pcore, prog->engine);
        if (!pcs)
            continue;
        score_program(prog, arch, pcs, PROGRAM_PC_RELATIVE, &rel);
        score_program(prog, arch, pcs, PROGRAM_PC_ABSOLUTE, &abs);
    }
    p->pc_mode = decide(p, rel, abs, w);
    for (size_t i = 0; i < p->count; i++)
        p->list[i].pc_mode = p->pc_mode;
}

/* One section: compiler records from `source` on, rewritten by those patches that stand inside it. */
static void walk_section(const Ntff__ImageSectionInfo *sec, const Ntff__EngineInstructionInfo *info,
                         Ntff__InstructionPatchInfo *const *patches, size_t n, size_t slots, int32_t *compiler_pc,
                         uint8_t *patched)
{
    uint64_t source = sec->compiler_first, slot = sec->first, stop = (uint64_t)sec->first + sec->count;
    if (stop > slots)
        stop = slots;
    for (size_t i = 0; i < n; i++) {
        const Ntff__InstructionPatchInfo *p = patches[i];
        uint64_t at = p->offset / KYMO_INSTR_SIZE;
        if (p->nc_engine_type != info->nc_engine_type || p->section != sec->section || at < sec->first || at > stop)
            continue;
        while (slot < at && slot < stop)
            compiler_pc[slot++] = (int32_t)source++;
        if (p->type == NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE) {
            source += p->count;
            continue;
        }
        for (uint32_t k = 0; k < p->count && slot < stop; k++, slot++) {
            patched[slot] = 1;
            if (p->type == NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY)
                compiler_pc[slot] = (int32_t)source++;
        }
    }
    while (slot < stop)
        compiler_pc[slot++] = (int32_t)source++;
}

void program_walk(const Ntff__EngineInstructionInfo *info, Ntff__InstructionPatchInfo *const *patches, size_t n_patches,
                  size_t slots, int32_t *compiler_pc, uint8_t *patched)
{
    for (size_t i = 0; i < slots; i++)
        compiler_pc[i] = -1;
    memset(patched, 0, slots);
    for (size_t i = 0; i < info->n_sections; i++) {
        const Ntff__ImageSectionInfo *sec = info->sections[i];
        if (sec->section == NTFF__IMAGE_SECTION__SECTION_MAIN || sec->section == NTFF__IMAGE_SECTION__SECTION_FUNCTION)
            walk_section(sec, info, patches, n_patches, slots, compiler_pc, patched);
    }
}

struct check {
    size_t mapped, compared, equal, similar;
};

static struct check check_map(const struct program *p, const int32_t *compiler_pc, const uint8_t *patched)
{
    struct check c = {0};
    for (size_t slot = 0; slot < p->slots; slot++) {
        if (compiler_pc[slot] < 0)
            continue;
        c.mapped++;
        if (patched[slot])
            continue;
        const uint8_t *a = program_record(p, slot),
                      *b = p->compiled->code + (size_t)compiler_pc[slot] * KYMO_INSTR_SIZE;
        c.compared++;
        c.equal += !memcmp(a, b, KYMO_INSTR_SIZE);
        c.similar += !memcmp(a, b, COMMON_BYTES);
    }
    return c;
}

/* Source indexes beyond the compiler's stream belong to nothing. */
static void drop_outside(const struct program *p, int32_t *compiler_pc)
{
    for (size_t i = 0; i < p->slots; i++)
        if (compiler_pc[i] >= 0 && (size_t)compiler_pc[i] >= p->compiled->count)
            compiler_pc[i] = -1;
}

static bool acceptable(struct check c)
{
    double n = (double)c.compared;
    return c.mapped && ((double)c.equal >= ACCEPT_EQUAL * n || (double)c.similar >= ACCEPT_SIMILAR * n);
}

static void keep(struct program *p, enum program_map map, int32_t *compiler_pc, struct check c)
{
    p->map = map;
    p->compiler_pc = compiler_pc;
    p->compared = c.compared;
    p->equal = c.equal;
}

static void explain(const struct program *p, const struct input *in, const char *what, struct check c,
                    struct warnings *w)
{
    warnings_add(w, "Compiler mapping", "%s on core %u of %s: %s (%zu of %zu records are equal)",
                 kymo_engine_name(p->engine), p->pcore, neff_path(in->nodes[p->node].neff), what, c.equal, c.compared);
}

static int map_one(struct program *p, const struct input *in, struct warnings *w, struct kymo_err *err)
{
    const struct input_node *node = &in->nodes[p->node];
    const Ntff__EngineInstructionInfo *info = input_engine(node, p->pcore, p->engine);
    const Ntff__SubgraphInfo *graph = node->graph[p->pcore];
    int32_t *map KYMO_FREE = KYMO_NEW_ARRAY(int32_t, p->slots + 1);
    uint8_t *patched KYMO_FREE = KYMO_NEW_ARRAY(uint8_t, p->slots + 1);
    if (!map || !patched)
        return kymo_err_set(err, -ENOMEM, "no memory for the compiler mapping");
    program_walk(info, graph->patch_info, graph->n_patch_info, p->slots, map, patched);
    drop_outside(p, map);
    struct check walked = check_map(p, map, patched);
    if (acceptable(walked)) {
        keep(p, PROGRAM_MAP_PATCHES, KYMO_TAKE(map), walked);
        return 0;
    }
    int r = program_align(p->image, p->slots, p->compiled->code, p->compiled->count, map, err);
    if (r < 0)
        return r;
    memset(patched, 0, p->slots);
    struct check aligned = check_map(p, map, patched);
    if (2 * aligned.equal < (p->slots < p->compiled->count ? p->slots : p->compiled->count)) {
        explain(p, in,
                "neither the list of rewrites nor the contents lead from the image to the NEFF; compiler columns are "
                "empty: "
                "give the NEFF that was loaded",
                walked, w);
        return 0;
    }
    explain(p, in,
            "the list of rewrites is absent or does not fit, so the streams were aligned by their contents; rewritten "
            "instructions have no compiler record",
            walked, w);
    keep(p, PROGRAM_MAP_ALIGNED, KYMO_TAKE(map), aligned);
    return 0;
}

int programs_map_compiler(struct programs *p, const struct input *in, struct warnings *w, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < p->count && r == 0; i++)
        if (p->list[i].compiled && p->list[i].compiled->count)
            r = map_one(&p->list[i], in, w, err);
    return r;
}
