#include "arch/layout.h"

#include <errno.h>
#include <string.h>

#include "arch/opcode.h"
#include "base/le.h"

#define ADDR_MARK_MASK 0xFCu
#define ADDR_PSUM_BIT (1u << 25)
#define ADDR_OFFSET_MASK 0x3FFFFu
#define PSUM_OFFSET_MASK 0x3FFFu
#define PSUM_BANK_SHIFT 11

bool kymo_addr64_variable(uint64_t addr, struct kymo_var_ref *ret)
{
    unsigned mark = (unsigned)(addr >> 56);
    if (!(mark & KYMO_ADDR64_VARIABLE) || mark & (KYMO_ADDR64_TABLE | KYMO_ADDR64_REGISTER))
        return false;
    *ret = (struct kymo_var_ref){.var_id = (uint32_t)(addr >> 32) & KYMO_ADDR64_VAR_MAX, .offset = (uint32_t)addr};
    return true;
}

uint64_t kymo_addr64_of_variable(struct kymo_var_ref ref)
{
    return (uint64_t)KYMO_ADDR64_VARIABLE << 56 | (uint64_t)(ref.var_id & KYMO_ADDR64_VAR_MAX) << 32 | ref.offset;
}

struct kymo_addr kymo_addr_decode(uint32_t addr)
{
    struct kymo_addr a = {.mark = (uint8_t)(addr >> 24 & ADDR_MARK_MASK),
                          .psum = (addr & ADDR_PSUM_BIT) != 0,
                          .partition = 32 * (addr >> 23 & 3),
                          .offset = addr & ADDR_OFFSET_MASK};
    if (a.psum)
        a.bank = (a.offset & PSUM_OFFSET_MASK) >> PSUM_BANK_SHIFT;
    return a;
}

uint32_t kymo_addr_sbuf(uint32_t partition, uint32_t offset)
{
    return (partition / 32 & 3) << 23 | (offset & ADDR_OFFSET_MASK);
}

uint32_t kymo_addr_psum(uint32_t partition, uint32_t bank, uint32_t offset)
{
    return ADDR_PSUM_BIT | kymo_addr_sbuf(partition, (bank << PSUM_BANK_SHIFT) + offset);
}

/* NULL when the record's form is unknown or has no such field of one of the two kinds. */
static const struct kymo_field_at *field_at(const struct kymo_arch *arch, const uint8_t *rec, enum kymo_field f,
                                            enum kymo_field_kind kind, enum kymo_field_kind other)
{
    const struct kymo_operand_form *form = arch->layouts->form[rec[0]];
    if (!form || (unsigned)f >= KYMO_F_MAX)
        return NULL;
    const struct kymo_field_at *at = &form->at[f];
    return at->kind == kind || at->kind == other ? at : NULL;
}

static uint64_t load(const uint8_t *p, unsigned width)
{
    uint64_t v = 0;
    memcpy(&v, p, width);
    return v;
}

static uint64_t low_bits(unsigned n)
{
    return n >= 64 ? UINT64_MAX : (1ull << n) - 1;
}

bool kymo_layout_get(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f, uint64_t *ret)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_UINT, KYMO_FK_INT);
    if (!at)
        return false;
    uint64_t v = load(rec + at->byte, at->width);
    *ret = at->bits ? v >> at->shift & low_bits(at->bits) : v;
    return true;
}

bool kymo_layout_get_int(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                         int64_t *ret)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_UINT, KYMO_FK_INT);
    uint64_t v;
    if (!at || !kymo_layout_get(arch, rec, f, &v))
        return false;
    unsigned bits = at->bits ? at->bits : 8u * at->width;
    if (at->kind == KYMO_FK_INT && bits < 64 && v >> (bits - 1) & 1)
        v |= ~low_bits(bits);
    *ret = (int64_t)v;
    return true;
}

bool kymo_layout_get_tensor(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                            struct kymo_tensor *ret)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_TENSOR, KYMO_FK_TENSOR);
    if (!at)
        return false;
    const uint8_t *p = rec + at->byte;
    struct kymo_tensor t = {.addr = kymo_le32(p), .dims = at->width};
    for (unsigned d = 0; d < at->width; d++) {
        t.step[d] = (int16_t)kymo_le16(p + 4 + 2 * d);
        t.count[d] = kymo_le16(p + 4 + 2 * at->width + 2 * d);
    }
    *ret = t;
    return true;
}

bool kymo_layout_get_chars(const struct kymo_arch *arch, const uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                           char *out, size_t n)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_CHARS, KYMO_FK_CHARS);
    if (!at || n == 0)
        return false;
    size_t len = strnlen((const char *)rec + at->byte, at->width);
    if (len >= n)
        len = n - 1;
    memcpy(out, rec + at->byte, len);
    out[len] = 0;
    return true;
}

int kymo_layout_set(const struct kymo_arch *arch, uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f, uint64_t value)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_UINT, KYMO_FK_INT);
    if (!at)
        return -EINVAL;
    unsigned bits = at->bits ? at->bits : 8u * at->width;
    bool fits = (value & ~low_bits(bits)) == 0;
    /* A negative value fits when all bits above the sign bit repeat it. */
    if (at->kind == KYMO_FK_INT && bits < 64)
        fits = value + (1ull << (bits - 1)) <= low_bits(bits);
    if (!fits)
        return -ERANGE;
    if (at->bits)
        value = (load(rec + at->byte, at->width) & ~(low_bits(bits) << at->shift)) | value << at->shift;
    memcpy(rec + at->byte, &value, at->width);
    return 0;
}

int kymo_layout_set_tensor(const struct kymo_arch *arch, uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f,
                           const struct kymo_tensor *t)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_TENSOR, KYMO_FK_TENSOR);
    if (!at)
        return -EINVAL;
    if (t->dims == 0 || t->dims > at->width)
        return -ERANGE;
    uint8_t *p = rec + at->byte;
    kymo_put_le32(p, t->addr);
    for (unsigned d = 0; d < at->width; d++) {
        bool given = d < t->dims;
        kymo_put_le16(p + 4 + 2 * d, given ? (uint16_t)t->step[d] : 0);
        kymo_put_le16(p + 4 + 2 * at->width + 2 * d, given ? t->count[d] : 1);
    }
    return 0;
}

int kymo_layout_set_chars(const struct kymo_arch *arch, uint8_t rec[KYMO_INSTR_SIZE], enum kymo_field f, const char *s)
{
    const struct kymo_field_at *at = field_at(arch, rec, f, KYMO_FK_CHARS, KYMO_FK_CHARS);
    if (!at)
        return -EINVAL;
    size_t len = strlen(s);
    if (len > at->width)
        return -ERANGE;
    memset(rec + at->byte, 0, at->width);
    memcpy(rec + at->byte, s, len);
    return 0;
}

void kymo_instr_init(uint8_t rec[KYMO_INSTR_SIZE], uint8_t opcode)
{
    memset(rec, 0, KYMO_INSTR_SIZE);
    rec[0] = opcode;
    rec[1] = KYMO_INSTR_WORDS;
}

struct kymo_sync kymo_instr_sync(const uint8_t rec[KYMO_INSTR_SIZE])
{
    uint32_t value = kymo_le32(rec + 8);
    return (struct kymo_sync){.wait_mode = rec[4],
                              .wait_idx = rec[5],
                              .update_mode = rec[6],
                              .update_idx = rec[7],
                              .wait_value = value,
                              .update_value = value};
}

bool kymo_instr_sync2(const uint8_t rec[KYMO_INSTR_SIZE], struct kymo_sync *ret)
{
    if (rec[0] != KYMO_OP_EVENT_SEMAPHORE)
        return false;
    *ret = (struct kymo_sync){.wait_mode = rec[0x20],
                              .wait_idx = rec[0x21],
                              .update_mode = rec[0x22],
                              .update_idx = rec[0x23],
                              .wait_value = kymo_le32(rec + 0x24),
                              .update_value = kymo_le32(rec + 0x28)};
    return true;
}

void kymo_instr_set_wait(uint8_t rec[KYMO_INSTR_SIZE], uint8_t mode, uint8_t idx, uint32_t value)
{
    rec[4] = mode;
    rec[5] = idx;
    kymo_put_le32(rec + 8, value);
}

void kymo_instr_set_update(uint8_t rec[KYMO_INSTR_SIZE], uint8_t mode, uint8_t idx, uint32_t value)
{
    rec[6] = mode;
    rec[7] = idx;
    /* Set, clear, +1 and -1 take no operand, so the one value stays the wait's. */
    uint8_t base = mode & 0x0F;
    if (base == KYMO_UPD_ADD || base == KYMO_UPD_SUB || base == KYMO_UPD_WRITE)
        kymo_put_le32(rec + 8, value);
}

void kymo_instr_set_sync2(uint8_t rec[KYMO_INSTR_SIZE], const struct kymo_sync *s)
{
    rec[0x20] = s->wait_mode;
    rec[0x21] = s->wait_idx;
    rec[0x22] = s->update_mode;
    rec[0x23] = s->update_idx;
    kymo_put_le32(rec + 0x24, s->wait_value);
    kymo_put_le32(rec + 0x28, s->update_value);
}
