/* Decoding of instruction records for the engine models; durations are a plain model by size and clock (G). */
#include "driver-iface/sim/sim_op.h"

#include <errno.h>

#include "base/le.h"

/* FNV-1a, folded to 16 bits: stands in for the data CRC, which a simulation without data cannot know. */
static uint16_t record_hash(const uint8_t rec[KYMO_INSTR_SIZE])
{
    uint64_t h = 14695981039346656037ull;
    for (unsigned i = 0; i < KYMO_INSTR_SIZE; i++)
        h = (h ^ rec[i]) * 1099511628211ull;
    return (uint16_t)(h ^ h >> 16 ^ h >> 32 ^ h >> 48);
}

static double fixed_cycles(enum kymo_engine engine, uint8_t opcode)
{
    switch (opcode) {
    case KYMO_OP_MATMUL:
        return 64;
    case KYMO_OP_LDWEIGHTS:
        return 32;
    case KYMO_OP_WRITE:
        return 40;
    case KYMO_OP_DMA_DIRECT2D:
        return engine == KYMO_ENGINE_GPSIMD ? 1200 : 90; /* software makes its descriptors itself, about 1 us */
    case KYMO_OP_NOP:
    case KYMO_OP_MOVE:
    case KYMO_OP_ALU_OP:
    case KYMO_OP_COMPARE_BRANCH:
        return 8;
    case KYMO_OP_EVENT_SEMAPHORE:
        return 16;
    default:
        return engine == KYMO_ENGINE_GPSIMD ? 120 : 60;
    }
}

static uint32_t duration_ps(const struct kymo_arch *arch, enum kymo_engine engine, uint8_t opcode, bool compute,
                            const struct kymo_footprint *fp)
{
    double ghz = compute ? arch->clock_ghz[engine] : arch->core_clock_ghz;
    double cycles = fixed_cycles(engine, opcode);
    if (compute) {
        double per = engine == KYMO_ENGINE_GPSIMD ? 2 : 1;
        if (fp->matmul) {
            double cost = arch->cost[kymo_dtype_cost(fp->dtype)];
            per = (cost > 0 ? cost : 1) * (fp->half_pass ? 0.5 : 1);
        }
        cycles += (double)fp->elements * per;
    }
    double ps = cycles * 1000 / (ghz > 0 ? ghz : 1);
    return ps > 4e9 ? 4000000000u : (uint32_t)ps;
}

static uint32_t op_value(const struct kymo_arch *arch, const uint8_t *rec)
{
    uint64_t v = 0;
    if (!kymo_layout_get(arch, rec, KYMO_F_VALUE, &v) && !kymo_layout_get(arch, rec, KYMO_F_IMM0, &v))
        return 0;
    return (uint32_t)v;
}

static uint64_t field(const struct kymo_arch *arch, const uint8_t *rec, enum kymo_field f)
{
    uint64_t v = 0;
    return kymo_layout_get(arch, rec, f, &v) ? v : 0;
}

static int at_err(struct kymo_err *err, const struct sim_engine_image *ei, uint32_t slot, const char *what)
{
    return kymo_err_set(err, -EPROTO, "%s, image pc %u (compiler pc %d): %s", kymo_engine_name(ei->engine), slot,
                        ei->compiler_pc ? ei->compiler_pc[slot] : -1, what);
}

/* A WRITE may also ring a stream of collectives, or count on a semaphore of the pair's other core. */
static void decode_other_write(const struct kymo_arch *arch, const struct sim_core_image *ci, uint64_t addr,
                               uint64_t value, unsigned nc, struct sim_op *op)
{
    uint64_t remote = arch->sync_base + (1 - nc) * arch->core_stride + KYMO_SYNC_INC;
    if (addr >= remote && addr < remote + 4ull * arch->semaphores) {
        op->kind = SIM_OP_REMOTE_INC;
        op->fn = (uint8_t)((addr - remote) / 4);
        op->value = (uint32_t)value;
    } else if (value < ci->cc_op_count && addr == sim_image_cc_doorbell(nc, ci->cc_ops[value].stream)) {
        op->kind = SIM_OP_COLLECTIVE;
        op->block = (uint32_t)value;
    }
}

static int decode_write(const struct kymo_arch *arch, const struct sim_core_image *ci, const uint8_t *rec, unsigned nc,
                        struct sim_op *op)
{
    uint64_t addr = field(arch, rec, KYMO_F_ADDR), value = field(arch, rec, KYMO_F_VALUE);
    decode_other_write(arch, ci, addr, value, nc, op);
    op->queue = SIM_QUEUE_NONE;
    for (size_t q = 0; q < ci->queue_count; q++) {
        if (sim_image_doorbell(nc, q) != addr || value >= ci->queues[q].block_count)
            continue;
        op->queue = (uint16_t)q;
        op->block = (uint32_t)value;
    }
    return 0;
}

static uint64_t count_or_1(uint64_t n)
{
    return n ? n : 1;
}

/* Natural packets are rows of the source (one element each when it is strided inside), at most 4096 bytes of which go
 * far. */
static int decode_direct2d(const struct kymo_arch *arch, const struct sim_core_image *ci,
                           const struct sim_engine_image *ei, uint32_t slot, struct sim_op *op, struct kymo_err *err)
{
    const uint8_t *rec = ei->code + (size_t)slot * KYMO_INSTR_SIZE;
    int queue = sim_queue_dynamic(ci, ei->engine);
    if (queue < 0)
        return at_err(err, ei, slot, "DMA_DIRECT2D, but the engine owns no queue set of type dynamic");
    op->queue = (uint16_t)queue;
    uint64_t elem = count_or_1(field(arch, rec, KYMO_F_SRC_ELEM));
    uint64_t n0 = count_or_1(field(arch, rec, KYMO_F_SRC_COUNT0)), n1 = count_or_1(field(arch, rec, KYMO_F_SRC_COUNT1));
    struct sim_dynamic *d = &op->dynamic;
    d->bytes = elem * n0 * n1;
    d->semaphore = (uint8_t)field(arch, rec, KYMO_F_DMA_SEM);
    d->increment = (uint8_t)field(arch, rec, KYMO_F_DMA_SEM_INC);
    d->from = sim_image_var_at(arch, ci, field(arch, rec, KYMO_F_SRC_ADDR64));
    d->to = sim_image_var_at(arch, ci, field(arch, rec, KYMO_F_DST_ADDR64));
    int64_t step0 = 0;
    bool dense = !kymo_layout_get_int(arch, rec, KYMO_F_SRC_STEP0, &step0) || (uint64_t)step0 == elem || n0 == 1;
    uint64_t packets = dense ? n1 : n0 * n1;
    if (packets * 65536 < d->bytes)
        packets = (d->bytes + 65535) / 65536;
    uint16_t mask = ci->queues[queue].engines;
    unsigned engines = (unsigned)__builtin_popcount(mask);
    while (engines > packets) {
        mask &= (uint16_t)(mask - 1);
        engines--;
    }
    uint64_t per = (packets + engines - 1) / engines;
    if (per * engines > d->bytes)
        per = d->bytes / engines ? d->bytes / engines : 1;
    if (per > 4096)
        per = 4096;
    if (d->bytes / (per * engines) > 0xFFFFFE)
        return at_err(err, ei, slot, "DMA_DIRECT2D moves more than 4096 packets of 16 MB on each engine");
    d->engines = mask;
    d->per_engine = (uint16_t)per;
    return 0;
}

static int decode_registers(const struct kymo_arch *arch, const struct sim_engine_image *ei, uint32_t slot,
                            struct sim_op *op, struct kymo_err *err)
{
    const uint8_t *rec = ei->code + (size_t)slot * KYMO_INSTR_SIZE;
    uint64_t dst = field(arch, rec, KYMO_F_REG_DST), a = field(arch, rec, KYMO_F_REG_A);
    if (dst >= SIM_REGISTERS || a >= SIM_REGISTERS)
        return at_err(err, ei, slot, "register number out of range");
    op->reg_dst = (uint8_t)dst;
    op->reg_a = (uint8_t)a;
    op->value = op_value(arch, rec);
    if (op->kind == SIM_OP_ALU) {
        op->fn = (uint8_t)field(arch, rec, KYMO_F_ALU_OP);
        if (op->fn != KYMO_ALU_BYPASS && op->fn != KYMO_ALU_MAX && op->fn != KYMO_ALU_MIN &&
            (op->fn < KYMO_ALU_ADD || op->fn > KYMO_ALU_MULT))
            return at_err(err, ei, slot, "ALU operation on registers not known");
    }
    if (op->kind != SIM_OP_BRANCH)
        return 0;
    op->fn = (uint8_t)field(arch, rec, KYMO_F_BRANCH_OP);
    int64_t target = 0;
    if (op->fn > KYMO_BR_NE || !kymo_layout_get_int(arch, rec, KYMO_F_TARGET, &target))
        return at_err(err, ei, slot, "branch condition or target not known");
    if ((int64_t)slot + target < 0 || (int64_t)slot + target >= (int64_t)ei->count)
        return at_err(err, ei, slot, "branch out of the image");
    op->target = (int32_t)target;
    return 0;
}

/* First number in the low half, count above it; a layout without a range means all. */
static uint32_t range_of(const struct kymo_arch *arch, const uint8_t *rec)
{
    uint64_t first = 0, count = 256;
    (void)kymo_layout_get(arch, rec, KYMO_F_RANGE_FIRST, &first);
    (void)kymo_layout_get(arch, rec, KYMO_F_RANGE_COUNT, &count);
    if (first + count > 256)
        count = 256 - first;
    return (uint32_t)(first | count << 16);
}

static uint8_t kind_of(uint8_t opcode)
{
    switch (opcode) {
    case KYMO_OP_WRITE:
        return SIM_OP_WRITE;
    case KYMO_OP_DMA_DIRECT2D:
        return SIM_OP_DIRECT2D;
    case KYMO_OP_MOVE:
        return SIM_OP_MOVE;
    case KYMO_OP_ALU_OP:
        return SIM_OP_ALU;
    case KYMO_OP_COMPARE_BRANCH:
        return SIM_OP_BRANCH;
    case KYMO_OP_HALT:
        return SIM_OP_HALT;
    case KYMO_OP_NOTIFY:
        return SIM_OP_NOTIFY;
    case KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR:
        return SIM_OP_RANGE_CLEAR;
    default:
        return SIM_OP_PLAIN;
    }
}

static bool unknown_mode(const struct kymo_sync *s)
{
    uint8_t wait = s->wait_mode, update = s->update_mode & 0x6F;
    bool wait_ok = wait <= KYMO_WAIT_EVT_SET_CLEAR || wait == KYMO_WAIT_EVT_CLEAR || wait == KYMO_WAIT_EVT_CLEAR_SET ||
                   (wait > KYMO_WAIT_REGISTER && wait <= (KYMO_WAIT_REGISTER | KYMO_WAIT_GE)) ||
                   wait == KYMO_WAIT_UNORDERED;
    return !wait_ok || (update > KYMO_UPD_ADD && update != KYMO_UPD_SUB && update != KYMO_UPD_WRITE);
}

static bool register_out_of_range(const struct kymo_sync *s)
{
    bool wait =
        s->wait_mode & KYMO_WAIT_REGISTER && s->wait_mode != KYMO_WAIT_UNORDERED && s->wait_value >= SIM_REGISTERS;
    return wait || (s->update_mode & KYMO_UPD_REGISTER && s->update_value >= SIM_REGISTERS);
}

int sim_op_decode(const struct kymo_arch *arch, const struct sim_core_image *ci, const struct sim_engine_image *ei,
                  uint32_t slot, unsigned nc, struct sim_op *ret, struct kymo_err *err)
{
    const uint8_t *rec = ei->code + (size_t)slot * KYMO_INSTR_SIZE;
    const struct kymo_opcode *oc = kymo_opcode_get(rec[0]);
    struct kymo_footprint fp = kymo_instr_footprint(arch, rec);
    struct sim_op op = {.opcode = rec[0], .kind = kind_of(rec[0]), .compute = !oc || oc->op_class == KYMO_OPC_COMPUTE};
    op.sync = kymo_instr_sync(rec);
    op.has_sync2 = kymo_instr_sync2(rec, &op.sync2);
    if (register_out_of_range(&op.sync) || (op.has_sync2 && register_out_of_range(&op.sync2)))
        return at_err(err, ei, slot, "register number of a wait or update out of range");
    if (unknown_mode(&op.sync) || (op.has_sync2 && unknown_mode(&op.sync2)))
        return at_err(err, ei, slot, "wait or update mode not known");
    op.crc = record_hash(rec);
    op.duration_ps = duration_ps(arch, ei->engine, rec[0], op.compute, &fp);
    op.psum_read = fp.psum_read_banks;
    op.psum_write = fp.psum_write_banks;
    op.acc = fp.acc_begin ? SIM_ACC_BEGIN : fp.acc_continue ? SIM_ACC_CONTINUE : SIM_ACC_NONE;
    int r = 0;
    if (op.kind == SIM_OP_WRITE)
        r = decode_write(arch, ci, rec, nc, &op);
    else if (op.kind == SIM_OP_DIRECT2D)
        r = decode_direct2d(arch, ci, ei, slot, &op, err);
    else if (op.kind == SIM_OP_MOVE || op.kind == SIM_OP_ALU || op.kind == SIM_OP_BRANCH)
        r = decode_registers(arch, ei, slot, &op, err);
    else if (op.kind == SIM_OP_NOTIFY)
        op.value = op_value(arch, rec);
    else if (op.kind == SIM_OP_RANGE_CLEAR)
        op.value = range_of(arch, rec);
    if (r >= 0)
        *ret = op;
    return r;
}
