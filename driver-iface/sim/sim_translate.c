/* The runtime's rewriting of one engine's stream: preamble, main with patches, postamble (rules: sim_image.h, G). */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_op.h"

#define RUNTIME_SLOTS_MAX 8 /* of a preamble or postamble */

struct translation {
    const struct kymo_arch *arch;
    const struct sim_core_image *ci;
    unsigned nc;
    const uint8_t *src;
    uint32_t n;
    uint32_t *map; /* image slot of each compiler record, n + 1 of them */
    struct sim_engine_image *ei;
    size_t patch_cap;
    struct kymo_err *err;
};

static bool is_backward(const struct kymo_arch *arch, const uint8_t *rec)
{
    int64_t target = 0;
    return rec[0] == KYMO_OP_COMPARE_BRANCH && kymo_layout_get_int(arch, rec, KYMO_F_TARGET, &target) && target < 0;
}

static int add_patch(struct translation *t, Ntff__InstructionPatchType type, uint32_t slot)
{
    struct sim_engine_image *ei = t->ei;
    uint64_t offset = (uint64_t)slot * KYMO_INSTR_SIZE;
    struct sim_patch *last = ei->patch_count ? &ei->patches[ei->patch_count - 1] : NULL;
    if (last && last->type == type && type == NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE && last->offset == offset) {
        last->count++;
        return 0;
    }
    int r =
        kymo_grow((void **)&ei->patches, &t->patch_cap, ei->patch_count + 1, SIM_IMAGE_SLOTS_MAX, sizeof *ei->patches);
    if (r < 0)
        return kymo_err_set(t->err, r, "no memory for patches");
    ei->patches[ei->patch_count++] =
        (struct sim_patch){.type = type, .section = NTFF__IMAGE_SECTION__SECTION_MAIN, .offset = offset, .count = 1};
    return 0;
}

static void keep_head(uint8_t *rec, uint8_t opcode)
{
    uint8_t head[12];
    memcpy(head, rec, sizeof head);
    kymo_instr_init(rec, opcode);
    memcpy(rec + 2, head + 2, sizeof head - 2); /* debug mark, wait and update stay */
}

static int rewrite_trigger(struct translation *t, uint8_t *rec)
{
    char queue[33];
    uint64_t id = 0;
    if (!kymo_layout_get_chars(t->arch, rec, KYMO_F_QUEUE_NAME, queue, sizeof queue) ||
        !kymo_layout_get(t->arch, rec, KYMO_F_BLOCK_ID, &id))
        return kymo_err_set(t->err, -EPROTO, "PSEUDO_DMA_TRIGGER: the layout of %s has no queue and block",
                            t->arch->name);
    uint16_t q = 0;
    uint32_t b = 0;
    int r = sim_queue_find_block(t->ci, queue, (uint32_t)id, &q, &b, t->err);
    if (r < 0)
        return r;
    keep_head(rec, KYMO_OP_WRITE);
    r = kymo_layout_set(t->arch, rec, KYMO_F_ADDR, sim_image_doorbell(t->nc, q));
    if (r >= 0)
        r = kymo_layout_set(t->arch, rec, KYMO_F_VALUE, b);
    return r < 0 ? kymo_err_set(t->err, r, "WRITE: the layout of %s has no address and value", t->arch->name) : 0;
}

/* The operands' variables get their addresses. */
static int rewrite_direct(const struct translation *t, uint8_t *rec)
{
    static const enum kymo_field sides[] = {KYMO_F_SRC_ADDR64, KYMO_F_DST_ADDR64};
    rec[0] = KYMO_OP_DMA_DIRECT2D;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        uint64_t addr;
        if (!kymo_layout_get(t->arch, rec, sides[i], &addr))
            continue;
        int r = sim_image_resolve(t->arch, t->ci, &addr, t->err);
        if (r >= 0)
            r = kymo_layout_set(t->arch, rec, sides[i], addr);
        if (r < 0) {
            kymo_err_prefix(t->err, "PSEUDO_DMA_DIRECT2D");
            return r;
        }
    }
    return 0;
}

static int rewrite_branch(const struct translation *t, uint32_t i, uint8_t *rec)
{
    int64_t target = 0;
    if (!kymo_layout_get_int(t->arch, rec, KYMO_F_TARGET, &target))
        return 0;
    int64_t to = (int64_t)i + target;
    if (to < 0 || to > (int64_t)t->n)
        return kymo_err_set(t->err, -EPROTO, "branch by %lld leaves the stream", (long long)target);
    int64_t image = (int64_t)t->map[to] - (int64_t)t->map[i];
    return kymo_layout_set(t->arch, rec, KYMO_F_TARGET, (uint64_t)image);
}

static int rewrite_collective(const struct translation *t, uint8_t *rec)
{
    uint64_t id = 0;
    (void)kymo_layout_get(t->arch, rec, KYMO_F_ID, &id);
    size_t at = 0;
    while (at < t->ci->cc_op_count && t->ci->cc_ops[at].id != id)
        at++;
    if (at == t->ci->cc_op_count)
        return kymo_err_set(t->err, -EPROTO, "PSEUDO_TRIGGER_COLLECTIVE: collective %llu is not known",
                            (unsigned long long)id);
    keep_head(rec, KYMO_OP_WRITE);
    int r = kymo_layout_set(t->arch, rec, KYMO_F_ADDR, sim_image_cc_doorbell(t->nc, t->ci->cc_ops[at].stream));
    return r < 0 ? r : kymo_layout_set(t->arch, rec, KYMO_F_VALUE, at);
}

/* rec is the barrier's own slot; the inserted WRITE before it takes the wait, so that nobody arrives too early. */
static int rewrite_barrier(const struct translation *t, uint8_t *rec)
{
    uint64_t semaphore = 0;
    if (!kymo_layout_get(t->arch, rec, KYMO_F_DMA_SEM, &semaphore) || semaphore > 255)
        return kymo_err_set(t->err, -EPROTO, "PSEUDO_CORE_BARRIER without a semaphore");
    struct kymo_sync s = kymo_instr_sync(rec);
    uint8_t *write = rec - KYMO_INSTR_SIZE;
    kymo_instr_init(write, KYMO_OP_WRITE);
    kymo_instr_set_wait(write, s.wait_mode, s.wait_idx, s.wait_value);
    uint64_t address = t->arch->sync_base + (1 - t->nc) * t->arch->core_stride + KYMO_SYNC_INC + 4 * semaphore;
    int r = kymo_layout_set(t->arch, write, KYMO_F_ADDR, address);
    if (r >= 0)
        r = kymo_layout_set(t->arch, write, KYMO_F_VALUE, 1);
    kymo_instr_init(rec, KYMO_OP_EVENT_SEMAPHORE);
    kymo_instr_set_wait(rec, KYMO_WAIT_GE, (uint8_t)semaphore, 1);
    struct kymo_sync take = {.update_mode = KYMO_UPD_SUB | KYMO_UPD_COMPLETE, .update_idx = (uint8_t)semaphore};
    take.update_value = 1;
    kymo_instr_set_update(rec, s.update_mode, s.update_idx, 1);
    kymo_instr_set_sync2(rec, &take);
    return r;
}

/* The engine has to reach the postamble, which tells the others that it is done. */
static int rewrite_halt(const struct translation *t, uint32_t i, uint8_t *rec)
{
    keep_head(rec, KYMO_OP_COMPARE_BRANCH);
    int r = kymo_layout_set(t->arch, rec, KYMO_F_BRANCH_OP, KYMO_BR_ALWAYS);
    return r < 0 ? r : kymo_layout_set(t->arch, rec, KYMO_F_TARGET, t->map[t->n] - t->map[i]);
}

/* Rewrites the copy of record i in place. */
static int rewrite_record(struct translation *t, uint32_t i, uint8_t *rec)
{
    switch (rec[0]) {
    case KYMO_OP_PSEUDO_DMA_TRIGGER:
        return rewrite_trigger(t, rec);
    case KYMO_OP_PSEUDO_DMA_DIRECT2D:
        return rewrite_direct(t, rec);
    case KYMO_OP_HALT:
        return rewrite_halt(t, i, rec);
    case KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE:
        return rewrite_collective(t, rec);
    case KYMO_OP_PSEUDO_CORE_BARRIER:
        return rewrite_barrier(t, rec);
    case 0xC6: /* PSEUDO_LOAD_ACT_FUNC_SET */
        rec[0] = 0x23;
        return 0;
    case KYMO_OP_COMPARE_BRANCH:
        return rewrite_branch(t, i, rec);
    default:
        break;
    }
    if (rec[0] >= 0xC1 && rec[0] <= 0xDF) {
        char name[32];
        return kymo_err_set(t->err, -ENOTSUP, "%s is not simulated", kymo_opcode_name(rec[0], name, sizeof name));
    }
    return 0;
}

/* Image slots of all compiler records; returns the slot after the last. */
static uint32_t map_slots(struct translation *t, uint32_t first)
{
    uint32_t slot = first;
    for (uint32_t i = 0; i < t->n; i++) {
        const uint8_t *rec = t->src + (size_t)i * KYMO_INSTR_SIZE;
        slot += rec[0] == KYMO_OP_PSEUDO_CORE_BARRIER; /* behind what is inserted */
        t->map[i] = slot;
        if (rec[0] != KYMO_OP_PSEUDO_BRANCH_LABEL)
            slot += is_backward(t->arch, rec) ? 2 : 1;
    }
    t->map[t->n] = slot;
    return slot;
}

static int emit_main(struct translation *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const uint8_t *src = t->src + (size_t)i * KYMO_INSTR_SIZE;
        uint8_t *dst = t->ei->code + (size_t)t->map[i] * KYMO_INSTR_SIZE;
        int r = 0;
        if (src[0] == KYMO_OP_PSEUDO_BRANCH_LABEL) {
            r = add_patch(t, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE, t->map[i]);
        } else {
            memcpy(dst, src, KYMO_INSTR_SIZE);
            if (src[0] == KYMO_OP_PSEUDO_CORE_BARRIER)
                r = add_patch(t, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_INSERT, t->map[i] - 1);
            t->ei->compiler_pc[t->map[i]] = (int32_t)i;
            if (r >= 0)
                r = rewrite_record(t, i, dst);
            if (r >= 0 && memcmp(dst, src, KYMO_INSTR_SIZE) != 0)
                r = add_patch(t, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY, t->map[i]);
            if (r >= 0 && is_backward(t->arch, src)) {
                kymo_instr_init(dst + KYMO_INSTR_SIZE, KYMO_OP_NOP);
                r = add_patch(t, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_INSERT, t->map[i] + 1);
            }
        }
        if (r < 0) {
            kymo_err_prefix(t->err, "%s, compiler pc %u", kymo_engine_name(t->ei->engine), i);
            return r;
        }
    }
    return 0;
}

/* Slots written one after another into the runtime's own sections. */
struct runtime_code {
    const struct kymo_arch *arch;
    uint8_t code[RUNTIME_SLOTS_MAX][KYMO_INSTR_SIZE];
    uint32_t count;
};

static uint8_t *runtime_slot(struct runtime_code *c, uint8_t opcode)
{
    uint8_t *rec = c->code[c->count++];
    kymo_instr_init(rec, opcode);
    return rec;
}

/* A layout without the field leaves it zero, which the models read as 0. */
static void runtime_value(struct runtime_code *c, uint8_t opcode, enum kymo_field f, uint64_t value)
{
    (void)!kymo_layout_set(c->arch, runtime_slot(c, opcode), f, value);
}

/* Sync clears and announces; the others wait for it, so that no early update is lost. */
static void make_preamble(struct runtime_code *c, const struct sim_core_image *ci, enum kymo_engine engine)
{
    (void)runtime_slot(c, KYMO_OP_NOP);
    if (engine != KYMO_ENGINE_SYNC) {
        kymo_instr_set_wait(runtime_slot(c, KYMO_OP_EVENT_SEMAPHORE), KYMO_WAIT_GE, ci->start_semaphore, 1);
        return;
    }
    runtime_value(c, KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR, KYMO_F_RANGE_COUNT, 256);
    runtime_value(c, KYMO_OP_NOTIFY, KYMO_F_VALUE, 2);
    kymo_instr_set_update(runtime_slot(c, KYMO_OP_EVENT_SEMAPHORE), KYMO_UPD_INC | KYMO_UPD_COMPLETE,
                          ci->start_semaphore, 0);
}

static void make_postamble(struct runtime_code *c, const struct sim_core_image *ci, enum kymo_engine engine,
                           unsigned others)
{
    if (engine != KYMO_ENGINE_SYNC) {
        kymo_instr_set_update(runtime_slot(c, KYMO_OP_EVENT_SEMAPHORE), KYMO_UPD_INC | KYMO_UPD_COMPLETE,
                              ci->end_semaphore, 0);
        (void)runtime_slot(c, KYMO_OP_HALT);
        return;
    }
    uint8_t *rec = runtime_slot(c, KYMO_OP_EVENT_SEMAPHORE);
    kymo_instr_set_wait(rec, KYMO_WAIT_GE, ci->end_semaphore, others);
    struct kymo_sync second = {.update_mode = KYMO_UPD_DEC | KYMO_UPD_COMPLETE, .update_idx = ci->start_semaphore};
    kymo_instr_set_sync2(rec, &second);
    runtime_value(c, KYMO_OP_NOTIFY, KYMO_F_VALUE, 3);
    (void)runtime_slot(c, KYMO_OP_HALT);
}

static void set_section(struct sim_engine_image *ei, Ntff__ImageSection section, uint32_t first, uint32_t count)
{
    ei->sections[ei->section_count++] = (struct sim_section){.section = section, .first = first, .count = count};
}

static int allocate(struct sim_engine_image *ei, uint32_t count, struct kymo_err *err)
{
    ei->code = KYMO_NEW_ARRAY(uint8_t, (size_t)count * KYMO_INSTR_SIZE);
    ei->compiler_pc = KYMO_NEW_ARRAY(int32_t, count);
    ei->ops = KYMO_NEW_ARRAY(struct sim_op, count);
    if (!ei->code || !ei->compiler_pc || !ei->ops)
        return kymo_err_set(err, -ENOMEM, "no memory for an image of %u instructions", count);
    ei->count = count;
    for (uint32_t i = 0; i < count; i++)
        ei->compiler_pc[i] = -1;
    return 0;
}

int sim_translate(const struct kymo_arch *arch, const struct sim_core_image *ci, unsigned nc,
                  const struct neff_engine *neff, unsigned engines_present, struct sim_engine_image *ei,
                  struct kymo_err *err)
{
    struct runtime_code pre = {.arch = arch}, post = {.arch = arch};
    unsigned others = (unsigned)__builtin_popcount(engines_present & ~(1u << KYMO_ENGINE_SYNC));
    make_preamble(&pre, ci, ei->engine);
    make_postamble(&post, ci, ei->engine, others);
    size_t n = neff ? neff->count : 0;
    if (n > SIM_IMAGE_SLOTS_MAX - 2 * RUNTIME_SLOTS_MAX)
        return kymo_err_set(err, -EFBIG, "%s has %zu instructions, pc has 20 bits", kymo_engine_name(ei->engine), n);
    uint32_t *map KYMO_FREE = KYMO_NEW_ARRAY(uint32_t, n + 1);
    if (!map)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu instructions", n);
    ei->compiler_code = neff ? neff->code : NULL;
    struct translation t = {
        .arch = arch, .ci = ci, .nc = nc, .src = ei->compiler_code, .n = (uint32_t)n, .map = map, .ei = ei, .err = err};
    uint32_t end = map_slots(&t, pre.count);
    if (end + post.count > SIM_IMAGE_SLOTS_MAX)
        return kymo_err_set(err, -EFBIG, "%s has %u image slots, pc has 20 bits", kymo_engine_name(ei->engine),
                            end + post.count);
    int r = allocate(ei, end + post.count, err);
    if (r < 0)
        return r;
    memcpy(ei->code, pre.code, (size_t)pre.count * KYMO_INSTR_SIZE);
    memcpy(ei->code + (size_t)end * KYMO_INSTR_SIZE, post.code, (size_t)post.count * KYMO_INSTR_SIZE);
    set_section(ei, NTFF__IMAGE_SECTION__SECTION_PREAMBLE, 0, pre.count);
    set_section(ei, NTFF__IMAGE_SECTION__SECTION_MAIN, pre.count, end - pre.count);
    set_section(ei, NTFF__IMAGE_SECTION__SECTION_POSTAMBLE, end, post.count);
    r = emit_main(&t);
    for (uint32_t s = 0; r >= 0 && s < ei->count; s++)
        r = sim_op_decode(arch, ci, ei, s, nc, &ei->ops[s], err);
    return r;
}
