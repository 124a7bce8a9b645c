/*
 * Operands come from arch (kymo_instr_ranges). Of a transfer, the side in SBUF counts: a block's by its steps in the
 * NEFF, where a partition follows the one before it sbuf_partition_bytes later (class G, as the simulated compiler
 * writes them); a dynamic one's by the device addresses and steps of its operands.
 */
#include "pipeline/series/buffer_ranges.h"

#include "arch/layout.h"

/* A step of whole partitions goes from partition to partition, any other one stays in its partition. */
struct shape {
    uint64_t pitch; /* from one partition to the next */
    uint64_t bytes, partitions;
};

static void add_dimension(struct shape *s, int64_t step, uint64_t count)
{
    uint64_t distance = step < 0 ? (uint64_t)-step : (uint64_t)step;
    if (!count)
        return;
    if (distance >= s->pitch)
        s->partitions += distance / s->pitch * (count - 1);
    else
        s->bytes += distance * (count - 1);
}

static bool place(const struct kymo_arch *arch, const struct shape *s, uint64_t offset, struct buffer_range *ret)
{
    uint64_t partition = offset / s->pitch, byte = offset % s->pitch, end = byte + s->bytes;
    if (partition >= arch->sbuf_partitions || byte >= arch->sbuf_partition_bytes)
        return false;
    *ret = (struct buffer_range){
        .first = (uint32_t)byte,
        .end = end < arch->sbuf_partition_bytes ? (uint32_t)end : arch->sbuf_partition_bytes,
        .lanes =
            buffer_map_lanes(false, (uint32_t)partition,
                             s->partitions < arch->sbuf_partitions ? (uint32_t)s->partitions : arch->sbuf_partitions),
    };
    return true;
}

static bool block_range(const struct kymo_arch *arch, const struct neff_access *a, struct buffer_range *ret)
{
    struct shape s = {.pitch = arch->sbuf_partition_bytes, .bytes = 1, .partitions = 1};
    if (a->offset < 0)
        return false;
    for (unsigned d = 0; d < a->size_count && d < NEFF_DMA_DIMS; d++)
        add_dimension(&s, d < a->step_count ? a->steps[d] : 1, a->sizes[d] > 0 ? (uint64_t)a->sizes[d] : 0);
    return place(arch, &s, (uint64_t)a->offset, ret);
}

static uint64_t field(const struct kymo_arch *arch, const uint8_t *record, enum kymo_field f)
{
    uint64_t v = 0;
    (void)kymo_layout_get(arch, record, f, &v);
    return v;
}

static bool dynamic_range(const struct kymo_arch *arch, const uint8_t *record, bool source, struct buffer_touch *ret)
{
    uint64_t addr = field(arch, record, source ? KYMO_F_SRC_ADDR64 : KYMO_F_DST_ADDR64), offset;
    unsigned pcore;
    if (kymo_arch_region(arch, addr, &pcore, &offset) != KYMO_REGION_SBUF || pcore >= INPUT_CORES_MAX)
        return false;
    struct shape s = {.pitch = arch->sbuf_window / arch->sbuf_partitions, .partitions = 1};
    s.bytes = field(arch, record, source ? KYMO_F_SRC_ELEM : KYMO_F_DST_ELEM);
    add_dimension(&s, (int64_t)field(arch, record, source ? KYMO_F_SRC_STEP0 : KYMO_F_DST_STEP0),
                  field(arch, record, source ? KYMO_F_SRC_COUNT0 : KYMO_F_DST_COUNT0));
    add_dimension(&s, (int64_t)field(arch, record, source ? KYMO_F_SRC_STEP1 : KYMO_F_DST_STEP1),
                  field(arch, record, source ? KYMO_F_SRC_COUNT1 : KYMO_F_DST_COUNT1));
    ret->pcore = (uint8_t)pcore;
    return place(arch, &s, offset, &ret->range);
}

static bool transfer_side(const struct kymo_arch *arch, const struct static_row *row, const struct static_facts *f,
                          bool source, struct buffer_touch *ret)
{
    *ret = (struct buffer_touch){.how = source ? BUFFER_READ : BUFFER_WRITE, .pcore = row->pcore, .transfer = true};
    if (row->trigger == STATICS_TRIGGER_DYNAMIC)
        return dynamic_range(arch, f->record, source, ret);
    return f->block && (source ? f->dma_from : f->dma_to) == DMA_MEMORY_SBUF &&
           block_range(arch, source ? &f->block->neff->from : &f->block->neff->to, &ret->range);
}

static bool add_operand(const struct kymo_instr_range *o, const struct static_row *row, struct buffer_touch *ret)
{
    *ret = (struct buffer_touch){
        .range = {.first = o->first, .end = o->end, .lanes = buffer_map_lanes(o->psum, o->partition, o->partitions)},
        .how = o->write ? o->adds ? BUFFER_ADD : BUFFER_WRITE : BUFFER_READ,
        .pcore = row->pcore,
    };
    return ret->range.first < ret->range.end && ret->range.lanes;
}

size_t buffer_ranges_of(const struct kymo_arch *arch, const struct static_row *row, const struct static_facts *facts,
                        struct buffer_touch ret[BUFFER_RANGES_MAX], unsigned *ret_unknown)
{
    size_t n = 0;
    if (!facts->record)
        return 0;
    if (row->trigger != STATICS_NO_TRIGGER) {
        n += transfer_side(arch, row, facts, true, &ret[n]);
        n += transfer_side(arch, row, facts, false, &ret[n]);
        return n;
    }
    struct kymo_instr_range operands[KYMO_INSTR_RANGES_MAX];
    size_t count = kymo_instr_ranges(arch, facts->record, operands, ret_unknown);
    for (size_t i = 0; i < count; i++)
        n += add_operand(&operands[i], row, &ret[n]);
    return n;
}
