/*
 * What an instruction touches, from its operands alone. That a matmul reads as many partitions as it has rows and
 * writes as many as it has columns, and that all others use `channels` partitions on every operand, is G.
 */
#include "arch/layout.h"
#include "arch/opcode.h"

#define PSUM_BANK_BYTES 2048
#define PSUM_BYTES (8 * PSUM_BANK_BYTES)

static uint64_t get(const struct kymo_arch *arch, const uint8_t *rec, enum kymo_field f)
{
    uint64_t v = 0;
    (void)kymo_layout_get(arch, rec, f, &v);
    return v;
}

static uint64_t tensor_elements(const struct kymo_tensor *t)
{
    uint64_t n = 1;
    for (unsigned d = 0; d < t->dims; d++)
        n *= t->count[d];
    return n;
}

/* Bytes of a partition from the lowest to the highest that the steps reach, within limit. False: no elements. */
static bool tensor_reach(const struct kymo_tensor *t, uint32_t offset, uint64_t element_bits, uint32_t limit,
                         uint32_t *ret_first, uint32_t *ret_end)
{
    int64_t low = 0, high = 0;
    for (unsigned d = 0; d < t->dims; d++) {
        if (t->count[d] == 0)
            return false;
        int64_t reach = (int64_t)t->step[d] * (t->count[d] - 1);
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    int64_t bits = (int64_t)element_bits;
    int64_t first = (int64_t)offset + low * bits / 8;
    int64_t end = (int64_t)offset + ((high + 1) * bits + 7) / 8;
    first = first < 0 ? 0 : first;
    end = end > (int64_t)limit ? (int64_t)limit : end;
    *ret_first = (uint32_t)first;
    *ret_end = (uint32_t)end;
    return first < end;
}

static uint8_t tensor_banks(const struct kymo_tensor *t, uint32_t offset, uint64_t element_bits)
{
    uint8_t banks = 0;
    uint32_t first, end;
    if (!tensor_reach(t, offset, element_bits, PSUM_BYTES, &first, &end))
        return 0;
    for (uint32_t b = first / PSUM_BANK_BYTES; b <= (end - 1) / PSUM_BANK_BYTES; b++)
        banks |= (uint8_t)(1u << b);
    return banks;
}

struct operand {
    enum kymo_field field;
    uint8_t dtype;
    uint64_t partitions;
    bool write;
};

/* An address in a register or a table is not known here: such an operand adds nothing. Returns the elements per
 * partition. */
static uint64_t add_operand(const struct kymo_arch *arch, const uint8_t *rec, const struct operand *o,
                            struct kymo_footprint *fp)
{
    struct kymo_tensor t;
    if (!kymo_layout_get_tensor(arch, rec, o->field, &t))
        return 0;
    uint64_t elements = tensor_elements(&t);
    struct kymo_addr a = kymo_addr_decode(t.addr);
    if (a.mark != KYMO_ADDR_IMMEDIATE)
        return elements;
    uint64_t bits = kymo_dtype_bits(o->dtype);
    uint64_t bytes = elements * o->partitions * bits / 8;
    if (a.psum) {
        uint8_t banks = tensor_banks(&t, a.offset, bits);
        *(o->write ? &fp->psum_write : &fp->psum_read) += bytes;
        *(o->write ? &fp->psum_write_banks : &fp->psum_read_banks) |= banks;
    } else {
        *(o->write ? &fp->sbuf_write : &fp->sbuf_read) += bytes;
    }
    return elements;
}

static void matmul_flags(const struct kymo_arch *arch, const uint8_t *rec, struct kymo_footprint *fp)
{
    uint64_t flags = get(arch, rec, KYMO_F_MM_FLAGS);
    fp->matmul = true;
    fp->transpose = flags & KYMO_MM_TRANSPOSE;
    fp->acc_begin = flags & (KYMO_MM_BEGIN | KYMO_MM_GROUP_BEGIN);
    fp->acc_continue = !fp->acc_begin;
}

static bool is_matmul(const uint8_t *rec)
{
    return rec[0] == KYMO_OP_MATMUL || rec[0] == KYMO_OP_MATMUL_MX;
}

/* Sources first. */
static void operands_of(const struct kymo_arch *arch, const uint8_t *rec, struct operand ret[KYMO_INSTR_RANGES_MAX])
{
    uint8_t in = (uint8_t)get(arch, rec, KYMO_F_IN_DTYPE);
    uint8_t out = (uint8_t)get(arch, rec, KYMO_F_OUT_DTYPE);
    uint8_t in1 = (uint8_t)get(arch, rec, KYMO_F_IN1_DTYPE);
    uint64_t rows, channels = get(arch, rec, KYMO_F_CHANNELS), cols = get(arch, rec, KYMO_F_COLS);
    bool pe = kymo_layout_get(arch, rec, KYMO_F_ROWS, &rows);
    ret[0] = (struct operand){KYMO_F_SRC, in, pe ? rows : channels, false};
    ret[1] = (struct operand){KYMO_F_SRC1, in1 ? in1 : in, channels, false};
    ret[2] = (struct operand){KYMO_F_DST, out ? out : in, pe ? cols : channels, true};
}

struct kymo_footprint kymo_instr_footprint(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE])
{
    struct kymo_footprint fp = {0};
    struct operand operands[KYMO_INSTR_RANGES_MAX];
    uint8_t in = (uint8_t)get(arch, rec, KYMO_F_IN_DTYPE);
    uint64_t fp32_mode = get(arch, rec, KYMO_F_FP32_MODE);
    fp.rows = (uint32_t)get(arch, rec, KYMO_F_ROWS);
    fp.cols = (uint32_t)get(arch, rec, KYMO_F_COLS);
    fp.dtype = in ? in : (uint8_t)get(arch, rec, KYMO_F_OUT_DTYPE);
    fp.half_pass = fp32_mode == 1 || fp32_mode == 2;
    if (is_matmul(rec))
        matmul_flags(arch, rec, &fp);
    operands_of(arch, rec, operands);
    uint64_t read = add_operand(arch, rec, &operands[0], &fp);
    (void)add_operand(arch, rec, &operands[1], &fp);
    uint64_t written = add_operand(arch, rec, &operands[2], &fp);
    fp.elements = read ? read : written;
    if (fp.psum_read && fp.sbuf_write)
        fp.psum_read_sbuf_write = fp.sbuf_write;
    return fp;
}

size_t kymo_instr_ranges(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE],
                         struct kymo_instr_range ret[KYMO_INSTR_RANGES_MAX], unsigned *ret_unknown)
{
    struct operand operands[KYMO_INSTR_RANGES_MAX];
    size_t n = 0;
    bool adds = is_matmul(rec) && !(get(arch, rec, KYMO_F_MM_FLAGS) & (KYMO_MM_BEGIN | KYMO_MM_GROUP_BEGIN));
    operands_of(arch, rec, operands);
    for (size_t i = 0; i < KYMO_INSTR_RANGES_MAX; i++) {
        struct kymo_tensor t;
        if (!kymo_layout_get_tensor(arch, rec, operands[i].field, &t))
            continue;
        struct kymo_addr a = kymo_addr_decode(t.addr);
        *ret_unknown += a.mark != KYMO_ADDR_IMMEDIATE;
        struct kymo_instr_range r = {.psum = a.psum,
                                     .write = operands[i].write,
                                     .adds = operands[i].write && adds,
                                     .partition = a.partition,
                                     .partitions = (uint32_t)operands[i].partitions};
        uint32_t limit = a.psum ? arch->psum_partition_bytes : arch->sbuf_partition_bytes;
        if (a.mark == KYMO_ADDR_IMMEDIATE &&
            tensor_reach(&t, a.offset, kymo_dtype_bits(operands[i].dtype), limit, &r.first, &r.end))
            ret[n++] = r;
    }
    return n;
}

uint64_t kymo_instr_dma_bytes(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE])
{
    uint64_t c0 = get(arch, rec, KYMO_F_SRC_COUNT0), c1 = get(arch, rec, KYMO_F_SRC_COUNT1);
    return get(arch, rec, KYMO_F_SRC_ELEM) * (c0 ? c0 : 1) * (c1 ? c1 : 1);
}
