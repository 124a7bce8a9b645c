/* Writing the files of TRUTH.md. Rows are sorted by time; edges speak in the sorted rows' numbers. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/cc.h"
#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "driver-iface/sim/sim_record.h"
#include "driver-iface/sim/sim_truth_internal.h"

#define CHUNK 65536

struct out {
    int fd;
    char *path;
    uint64_t off;
    struct kymo_buf buf;
    int error;
    struct kymo_err *err;
};

static int out_open(struct out *o, const char *dir, const char *name, struct kymo_err *err)
{
    *o = (struct out){.fd = -1, .err = err};
    kymo_buf_init(&o->buf, 4 * CHUNK);
    o->path = kymo_asprintf("%s/%s", dir, name);
    if (!o->path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    o->fd = kymo_file_open(o->path, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    return o->fd < 0 ? o->fd : 0;
}

static void out_flush(struct out *o)
{
    if (!o->error)
        o->error = kymo_file_pwrite_all(o->fd, o->buf.data, o->buf.len, o->off, o->path, o->err);
    o->off += o->buf.len;
    kymo_buf_reset(&o->buf);
}

static void put(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct out *o, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (!o->error && kymo_buf_append(&o->buf, text, len) < 0)
        o->error = kymo_err_set(o->err, -ENOMEM, "no memory to write %s", o->path);
    if (o->buf.len > CHUNK)
        out_flush(o);
}

/* Times that never came are empty. */
static void put_ps(struct out *o, uint64_t ps)
{
    if (ps)
        put(o, "\t%" PRIu64, ps);
    else
        put(o, "\t");
}

static int out_close(struct out *o)
{
    if (o->fd >= 0)
        out_flush(o);
    o->fd = kymo_file_close(o->fd);
    kymo_buf_done(&o->buf);
    kymo_free(o->path);
    o->path = NULL;
    return o->error;
}

/* A table's order by time, and each row's place in it (SIM_TRUTH_NONE: left out). */
struct order {
    struct key {
        uint64_t ps;
        uint32_t row;
    } * keys;
    uint32_t *place;
    size_t count;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->ps != y->ps)
        return x->ps < y->ps ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static void order_done(struct order *o)
{
    kymo_free(o->keys);
    kymo_free(o->place);
}

typedef uint64_t (*time_of)(const struct sim_truth *t, size_t row);

static int order_make(struct order *o, const struct sim_truth *t, size_t count, time_of when, struct kymo_err *err)
{
    o->keys = KYMO_NEW_ARRAY(struct key, count);
    o->place = KYMO_NEW_ARRAY(uint32_t, count);
    if (!o->keys || !o->place)
        return kymo_err_set(err, -ENOMEM, "no memory to sort %zu rows", count);
    for (size_t i = 0; i < count; i++) {
        uint64_t ps = when(t, i);
        o->place[i] = SIM_TRUTH_NONE;
        if (ps)
            o->keys[o->count++] = (struct key){.ps = ps, .row = (uint32_t)i};
    }
    qsort(o->keys, o->count, sizeof *o->keys, compare_keys);
    for (size_t i = 0; i < o->count; i++)
        o->place[o->keys[i].row] = (uint32_t)i;
    return 0;
}

static uint64_t time_instr(const struct sim_truth *t, size_t row)
{
    return t->instructions.rows[row].start_ps;
}
static uint64_t time_transfer(const struct sim_truth *t, size_t row)
{
    return t->transfers.rows[row].start_ps;
}
static uint64_t time_packet(const struct sim_truth *t, size_t row)
{
    return t->packets.rows[row].start_ps;
}
static uint64_t time_sync(const struct sim_truth *t, size_t row)
{
    return t->syncs.rows[row].ts_ps;
}
static uint64_t time_h2d(const struct sim_truth *t, size_t row)
{
    return t->h2d.rows[row].start_ps;
}
static uint64_t time_status(const struct sim_truth *t, size_t row)
{
    return t->status.rows[row].ts_ps;
}

static uint64_t time_throttle(const struct sim_truth *t, size_t row)
{
    return t->throttles.rows[row].start_ps;
}
static uint64_t time_error(const struct sim_truth *t, size_t row)
{
    return t->errors.rows[row].ts_ps;
}

static uint64_t time_cc_op(const struct sim_truth *t, size_t row)
{
    return t->cc_ops.rows[row].start_ps;
}
static uint64_t time_cc_instr(const struct sim_truth *t, size_t row)
{
    return t->cc_instrs.rows[row].start_ps;
}
static uint64_t time_cc_event(const struct sim_truth *t, size_t row)
{
    return t->cc_events.rows[row].ts_ps;
}

enum {
    BY_INSTR,
    BY_TRANSFER,
    BY_PACKET,
    BY_SYNC,
    BY_H2D,
    BY_STATUS,
    BY_CC_OP,
    BY_CC_INSTR,
    BY_CC_EVENT,
    BY_THROTTLE,
    BY_ERROR,
    BY_MAX
};

struct writer {
    const struct sim_truth *t;
    const struct sim_truth_ids *ids;
    const struct sim_truth_meta *meta;
    const struct sim_ring_state *rings;
    size_t n_rings;
    struct order order[BY_MAX];
};

static const char *queue_type(const struct sim_queue *q)
{
    if (q->software_dynamic || q->hardware_dynamic)
        return q->hardware_dynamic ? "hardware_dynamic" : "software_dynamic";
    switch (q->type) {
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INSTRUCTIONS:
        return "instruction";
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_WEIGHTS:
        return "data";
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INPUT:
        return "input";
    case NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_OUTPUT:
        return "output";
    default:
        return "unknown";
    }
}

static const char *text(const char *s)
{
    return s ? s : "";
}

static const struct sim_queue *queue_of(const struct writer *w, const struct sim_truth_transfer *x)
{
    return &w->t->images[x->image]->cores[x->pcore].queues[x->queue];
}

/* Bank numbers, comma between. */
static void put_banks(struct out *o, unsigned banks)
{
    for (unsigned b = 0, seen = 0; b < 8; b++)
        if (banks >> b & 1)
            put(o, seen++ ? ",%u" : "%u", b);
}

static void put_flops(struct out *o, const struct kymo_arch *arch, const uint8_t *rec)
{
    struct kymo_footprint fp = kymo_instr_footprint(arch, rec);
    double flops = 2.0 * fp.rows * fp.cols * (double)fp.elements * arch->cost[kymo_dtype_cost(fp.dtype)];
    if (fp.matmul)
        put(o, "\t%.0f\t", fp.half_pass ? flops / 2 : flops);
    else
        put(o, "\t\t");
    put_banks(o, fp.psum_read_banks);
    put(o, "\t");
    put_banks(o, fp.psum_write_banks);
}

static void put_instruction(struct out *o, const struct writer *w, const struct sim_truth_instr *r)
{
    const struct sim_image *im = w->t->images[r->image];
    const struct sim_engine_image *ei = &im->cores[r->pcore].engines[r->engine];
    const uint8_t *rec = ei->code + (size_t)r->slot * KYMO_INSTR_SIZE;
    int32_t compiler_pc = ei->compiler_pc[r->slot];
    char name[32], compiler_name[32] = "", operands[1024];
    kymo_instr_text(im->arch, rec, operands, sizeof operands);
    put(o, "%u\t%s\t%u\t", r->pcore, kymo_engine_name(ei->engine), r->slot);
    if (compiler_pc >= 0)
        put(o, "%d", compiler_pc);
    const char *compiler = compiler_pc >= 0 ? kymo_opcode_name(ei->compiler_code[(size_t)compiler_pc * KYMO_INSTR_SIZE],
                                                               compiler_name, sizeof compiler_name)
                                            : "";
    put(o, "\t%s\t%s\t%s\t%" PRIu64, kymo_opcode_name(rec[0], name, sizeof name), compiler, operands, r->start_ps);
    put_ps(o, r->end_ps);
    put(o, "\t%" PRIu64 "\t%u\t%u\t%u\t%u\t%u", r->begin_ps, r->wait_cycles, r->crc_in, r->crc_out, r->start_stored,
        r->end_stored);
    put_flops(o, im->arch, rec);
    if (r->trigger_transfer == SIM_TRUTH_NONE) {
        put(o, "\t\t\t\t%u\n", r->execution);
        return;
    }
    const struct sim_truth_transfer *x = &w->t->transfers.rows[r->trigger_transfer];
    put(o, "\t%s\t", queue_of(w, x)->name);
    if (x->block != SIM_TRUTH_NONE)
        put(o, "%u", queue_of(w, x)->blocks[x->block].id);
    put(o, "\t%u\t%u\n", x->run, r->execution);
}

static void put_packet(struct out *o, const struct writer *w, const struct sim_truth_packet *r)
{
    const struct sim_truth_transfer *x = &w->t->transfers.rows[r->transfer];
    const struct sim_queue *q = queue_of(w, x);
    const struct sim_block *b = x->block == SIM_TRUTH_NONE ? NULL : &q->blocks[x->block];
    put(o, "%u\t%u\t%u\t%s\t%s\t", x->pcore, r->engine, q->queue_index, q->name, queue_type(q));
    if (b)
        put(o, "%u", b->id);
    put(o, "\t%s\t%u\t%u\t%u\t%s\t%s\t%" PRIu64, b ? text(b->function) : "", x->run, r->packet, r->bytes, text(x->from),
        text(x->to), r->start_ps);
    put_ps(o, r->end_ps);
    put(o, "\t%u\t%u\t%u\n", r->start_stored, r->end_stored, x->execution);
}

static void put_transfer(struct out *o, const struct writer *w, const struct sim_truth_transfer *x)
{
    const struct sim_queue *q = queue_of(w, x);
    const struct sim_block *b = x->block == SIM_TRUTH_NONE ? NULL : &q->blocks[x->block];
    const struct sim_truth_instr *trigger =
        x->trigger_row < w->t->instructions.count ? &w->t->instructions.rows[x->trigger_row] : NULL;
    put(o, "%u\t%s\t", x->pcore, q->name);
    if (b)
        put(o, "%u", b->id);
    put(o, "\t%s\t%u\t%" PRIu64 "\t%u\t%" PRIu64, b ? text(b->function) : "", x->run, x->bytes, x->packets,
        x->start_ps);
    put_ps(o, x->end_ps);
    if (trigger) {
        put(o, "\t%s\t%u\t%" PRIu64, kymo_engine_name((enum kymo_engine)trigger->engine), trigger->slot,
            trigger->start_ps);
        put_ps(o, trigger->end_ps);
    } else {
        put(o, "\t\t\t\t");
    }
    put(o, "\t%u\t%u\n", x->complete, x->execution);
}

static void put_sync(struct out *o, const struct sim_truth_sync *r)
{
    const char *timing = kymo_update_timing(r->mode);
    put(o, "%u\t%s\t%u\t%u\t%u\t%u\t%s\t%s\t%" PRIu64 "\t%u\n", r->pcore,
        r->source == SIM_SOURCE_AXI ? "AXI" : kymo_engine_name((enum kymo_engine)r->source), r->id, r->is_semaphore,
        r->mode, r->value, kymo_update_operation(r->mode), text(timing), r->ts_ps, r->stored);
}

static void put_h2d(struct out *o, const struct writer *w, const struct sim_truth_h2d *r)
{
    put(o, "%u\t%u\t%u\t%u\t%s\t%s\t%u\t%" PRIu64, w->meta->nd_idx, r->nc, r->engine, r->queue,
        text(r->what->direction), r->what->traffic, r->bytes, r->start_ps);
    put_ps(o, r->end_ps);
    put(o, "\t%u\t%u\n", r->start_stored, r->end_stored);
}

static void put_trigger(struct out *o, const struct writer *w, uint32_t row)
{
    if (row >= w->t->instructions.count) {
        put(o, "\t\t\t\t");
        return;
    }
    const struct sim_truth_instr *t = &w->t->instructions.rows[row];
    put(o, "\t%s\t%u\t%" PRIu64, kymo_engine_name((enum kymo_engine)t->engine), t->slot, t->start_ps);
    put_ps(o, t->end_ps);
}

/* Ranks of every group of the layout, as nested lists. */
static void put_layout(struct out *o, const struct neff_replica_layout *layout)
{
    put(o, "\t[");
    for (size_t s = 0; s < layout->count; s++) {
        put(o, s ? ", [" : "[");
        for (size_t i = 0; i < layout->sets[s].count; i++)
            put(o, i ? ", %u" : "%u", layout->sets[s].ranks[i]);
        put(o, "]");
    }
    put(o, "]");
}

static void put_cc_op(struct out *o, const struct writer *w, const struct sim_truth_cc_op *r)
{
    const struct sim_core_image *ci = &w->t->images[r->image]->cores[r->pcore];
    const struct sim_cc_op *op = &ci->cc_ops[r->op];
    uint64_t in = 0, out = 0;
    (void)!kymo_cc_sizes(op->kind, op->elements, kymo_dtype_bits(op->dtype), r->ranks, &in, &out);
    put(o, "%u\t%u\t%u\t%" PRIu64 "\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, r->core, op->stream, op->id,
        r->sequence, text(kymo_cc_kind_name(op->kind)), text(kymo_cc_algorithm_name(r->algorithm)),
        text(kymo_dtype_name(op->dtype)), op->elements, in, out);
    put(o, "\t%u\t%u\t%u", r->ranks, r->rank, op->layout);
    put_layout(o, &ci->subgraph->replica_layouts[op->layout]);
    put(o, "\t%" PRIu64, r->start_ps);
    put_ps(o, r->end_ps);
    put(o, "\t%u\t%u", r->start_stored, r->end_stored);
    put_trigger(o, w, r->trigger_row);
    put(o, "\t%u\n", r->execution);
}

static void put_cc_instr(struct out *o, const struct writer *w, const struct sim_truth_cc_instr *r)
{
    put(o, "%u\t%u\t%s\t%u\t%" PRIu64, r->core, r->pc, text(kymo_cc_instr_name(r->instr)), r->wait_cycles, r->start_ps);
    put_ps(o, r->end_ps);
    put(o, "\t%" PRIu64 "\t%u\t%u\t", r->begin_ps, r->start_stored, r->end_stored);
    if (r->op_row < w->t->cc_ops.count)
        put(o, "%" PRIu64, w->t->cc_ops.rows[r->op_row].sequence);
    put(o, "\n");
}

static void put_throttle(struct out *o, const struct sim_truth_throttle *r)
{
    put(o, "%u\t%s\t%u\t%u\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\n", r->pcore, sim_throttle_class_name(r->id), r->k, r->n,
        r->start_ps, r->end_ps, r->execution, r->stored);
}

static void put_error(struct out *o, const struct sim_truth_error *r)
{
    put(o, "%u\t%s\t%u\t%u\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\n", r->pcore,
        sim_notice_kind_name((enum sim_notice_kind)r->kind), r->id, r->block, r->metadata, r->ts_ps, r->execution,
        r->stored);
}

static void put_row(struct out *o, const struct writer *w, int table, size_t row)
{
    const struct sim_truth *t = w->t;
    switch (table) {
    case BY_INSTR:
        put_instruction(o, w, &t->instructions.rows[row]);
        break;
    case BY_TRANSFER:
        put_transfer(o, w, &t->transfers.rows[row]);
        break;
    case BY_PACKET:
        put_packet(o, w, &t->packets.rows[row]);
        break;
    case BY_SYNC:
        put_sync(o, &t->syncs.rows[row]);
        break;
    case BY_H2D:
        put_h2d(o, w, &t->h2d.rows[row]);
        break;
    case BY_CC_OP:
        put_cc_op(o, w, &t->cc_ops.rows[row]);
        break;
    case BY_CC_INSTR:
        put_cc_instr(o, w, &t->cc_instrs.rows[row]);
        break;
    case BY_CC_EVENT:
        put_sync(o, &t->cc_events.rows[row]);
        break;
    case BY_THROTTLE:
        put_throttle(o, &t->throttles.rows[row]);
        break;
    case BY_ERROR:
        put_error(o, &t->errors.rows[row]);
        break;
    default: {
        const struct sim_truth_status_row *r = &t->status.rows[row];
        put(o, "%u\t%s\t%" PRIu64 "\t%u\t%u\t%u\n", r->pcore, r->end ? "end" : "start", r->ts_ps, r->execution,
            r->stored, r->image);
        break;
    }
    }
}

static const struct table {
    const char *file, *header;
    time_of when;
} tables[BY_MAX] = {
    [BY_INSTR] =
        {"instructions.tsv",
         "pcore_idx\tengine\tpc\tcompiler_pc\topcode\tcompiler_opcode\toperands\tstart_ps\tend_ps\tbegin_ps\twait_"
         "cycles\tcrc_"
         "in\tcrc_out\t"
         "start_stored\tend_stored\tadjusted_flops\tpsum_read_banks\tpsum_write_banks\ttrigger_queue\ttrigger_block\t"
         "trigger_run\texecution\n",
         time_instr},
    [BY_TRANSFER] = {"dma_transfers.tsv",
                     "pcore_idx\tqueue_name\tblock_id\tfunction\trun\tbytes\tpackets\tstart_ps\tend_ps\ttrigger_"
                     "engine\ttrigger_pc\t"
                     "trigger_start_ps\ttrigger_end_ps\tcomplete\texecution\n",
                     time_transfer},
    [BY_PACKET] = {"dma_packets.tsv",
                   "pcore_idx\tengine_idx\tqueue_idx\tqueue_name\tqueue_type\tblock_id\tfunction\trun\tpacket_"
                   "idx\tbytes\tvariable_from\t"
                   "variable_to\tstart_ps\tend_ps\tstart_stored\tend_stored\texecution\n",
                   time_packet},
    [BY_SYNC] = {"semaphores.tsv",
                 "pcore_idx\tsource\tid\tis_semaphore\tmode\tvalue\toperation\ttiming\tts_ps\tstored\n", time_sync},
    [BY_H2D] = {"host_dma.tsv",
                "nd_idx\tnc_idx\tengine_idx\tqueue_idx\tdirection\ttraffic\tbytes\tstart_ps\tend_ps\tstart_stored\tend_"
                "stored\n",
                time_h2d},
    [BY_STATUS] = {"status.tsv", "pcore_idx\tkind\tts_ps\texecution\tstored\tnode\n", time_status},
    [BY_CC_OP] = {"cc_ops.tsv",
                  "core_idx\tstream_index\top_id\tinvocation\toperation\talgorithm\tdtype\tnum_elements\tinput_"
                  "size\toutput_size\tranks\trank\treplica_group_id\treplica_group\tstart_ps\tend_ps\tstart_"
                  "stored\tend_stored\ttrigger_engine\ttrigger_pc\ttrigger_start_ps\ttrigger_end_ps\texecution\n",
                  time_cc_op},
    [BY_CC_INSTR] = {"cc_instructions.tsv",
                     "core_idx\tpc\tdescription\twait_cycles\tstart_ps\tend_ps\tbegin_ps\tstart_stored\tend_stored\t"
                     "invocation\n",
                     time_cc_instr},
    [BY_CC_EVENT] = {"cc_events.tsv",
                     "core_idx\tsource\tid\tis_semaphore\tmode\tvalue\toperation\ttiming\tts_ps\tstored\n",
                     time_cc_event},
    [BY_THROTTLE] = {"throttle.tsv", "pcore_idx\ttype\tk\tn\tstart_ps\tend_ps\texecution\tstored\n", time_throttle},
    [BY_ERROR] = {"errors.tsv", "pcore_idx\tkind\tid\tblock_id\tmetadata\tts_ps\texecution\tstored\n", time_error},
};

static size_t table_rows(const struct sim_truth *t, int table)
{
    const size_t counts[BY_MAX] = {[BY_INSTR] = t->instructions.count,
                                   [BY_TRANSFER] = t->transfers.count,
                                   [BY_PACKET] = t->packets.count,
                                   [BY_SYNC] = t->syncs.count,
                                   [BY_H2D] = t->h2d.count,
                                   [BY_STATUS] = t->status.count,
                                   [BY_CC_OP] = t->cc_ops.count,
                                   [BY_CC_INSTR] = t->cc_instrs.count,
                                   [BY_CC_EVENT] = t->cc_events.count,
                                   [BY_THROTTLE] = t->throttles.count,
                                   [BY_ERROR] = t->errors.count};
    return counts[table];
}

static int write_table(struct writer *w, int table, const char *dir, struct kymo_err *err)
{
    struct out o;
    int r = out_open(&o, dir, tables[table].file, err);
    if (r >= 0) {
        put(&o, "%s", tables[table].header);
        for (size_t i = 0; i < w->order[table].count && !o.error; i++)
            put_row(&o, w, table, w->order[table].keys[i].row);
    }
    int closed = out_close(&o);
    return r < 0 ? r : closed;
}

static uint32_t place_of(const struct writer *w, int table, uint32_t row)
{
    return row < table_rows(w->t, table) ? w->order[table].place[row] : SIM_TRUTH_NONE;
}

static const struct {
    const char *kind;
    int from, to;
} edge_kinds[] = {[SIM_EDGE_SEMAPHORE] = {"semaphore", BY_INSTR, BY_INSTR},
                  [SIM_EDGE_DMA_TRIGGER] = {"dma_trigger", BY_INSTR, BY_TRANSFER},
                  [SIM_EDGE_DMA_WAIT] = {"dma_wait", BY_TRANSFER, BY_INSTR},
                  [SIM_EDGE_PSUM] = {"same_psum_bank", BY_INSTR, BY_INSTR},
                  [SIM_EDGE_CC_TRIGGER] = {"cc_trigger", BY_INSTR, BY_CC_OP},
                  [SIM_EDGE_CC_WAIT] = {"cc_wait", BY_CC_OP, BY_INSTR}};

static void put_edge(struct out *o, const struct writer *w, const struct sim_truth_edge_row *r)
{
    int from_table = edge_kinds[r->kind].from, to_table = edge_kinds[r->kind].to;
    uint32_t from = place_of(w, from_table, r->from), to = place_of(w, to_table, r->to);
    if (from == SIM_TRUTH_NONE || to == SIM_TRUTH_NONE)
        return;
    put(o, "%s\t%.*s\t%u\t%.*s\t%u\t", edge_kinds[r->kind].kind, (int)strcspn(tables[from_table].file, "."),
        tables[from_table].file, from, (int)strcspn(tables[to_table].file, "."), tables[to_table].file, to);
    bool waits = r->kind == SIM_EDGE_SEMAPHORE || r->kind == SIM_EDGE_DMA_WAIT || r->kind == SIM_EDGE_CC_WAIT;
    uint32_t update = waits ? place_of(w, BY_SYNC, r->detail) : SIM_TRUTH_NONE;
    if (r->kind == SIM_EDGE_PSUM) {
        put(o, "banks=");
        put_banks(o, r->detail);
    } else if (update != SIM_TRUTH_NONE) {
        put(o, "update=%u", update);
    }
    put(o, "\n");
}

static int write_edges(struct writer *w, const char *dir, struct kymo_err *err)
{
    struct out o;
    int r = out_open(&o, dir, "edges.tsv", err);
    if (r >= 0) {
        put(&o, "kind\tfrom_table\tfrom_row\tto_table\tto_row\tdetail\n");
        for (size_t i = 0; i < w->t->edges.count && !o.error; i++)
            put_edge(&o, w, &w->t->edges.rows[i]);
    }
    int closed = out_close(&o);
    return r < 0 ? r : closed;
}

static int write_rings(struct writer *w, const char *dir, struct kymo_err *err)
{
    struct out o;
    int r = out_open(&o, dir, "rings.tsv", err);
    if (r >= 0) {
        put(&o, "ring\tpcore_idx\tnc_idx\tengine_index\tbuffer_size\temitted\tstored\tdropped\tfirst_dropped_ps\tlast_"
                "dropped_ps\n");
        for (size_t i = 0; i < w->n_rings; i++) {
            const struct sim_ring_state *s = &w->rings[i];
            put(&o, "%s\t%u\t%u\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, kymo_ring_name(s->plan.ring),
                s->plan.pcore_idx, s->plan.nc_idx, s->plan.engine_index, s->plan.bytes, s->emitted, s->stored,
                s->dropped);
            put_ps(&o, s->first_dropped_ps);
            put_ps(&o, s->last_dropped_ps);
            put(&o, "\n");
        }
    }
    int closed = out_close(&o);
    return r < 0 ? r : closed;
}

static int write_sums(struct writer *w, const char *dir, struct kymo_err *err)
{
    struct out o;
    int r = out_open(&o, dir, "sums.tsv", err);
    if (r >= 0) {
        put(&o, "name\tvalue\n");
        for (size_t i = 0; i < w->n_rings; i++) {
            const struct sim_ring_state *s = &w->rings[i];
            char label[64];
            kymo_ring_label(s->plan.ring, s->plan.pcore_idx, s->plan.engine_index, label, sizeof label);
            put(&o, "%s count\t%" PRIu64 "\n%s sum_raw_ps\t%" PRIu64 "\n", label, s->stored, label, s->sum_raw);
            put(&o, "%s xor_low\t%" PRIu64 "\n%s xor_high\t%" PRIu64 "\n", label, s->xor_low, label, s->xor_high);
        }
        const struct sim_truth_counts *n = &w->ids->counts;
        put(&o, "instructions rows\t%" PRIu64 "\ndma_packets rows\t%" PRIu64 "\ndma_packets bytes\t%" PRIu64 "\n",
            n->instructions, n->dma_packets, n->dma_bytes);
        put(&o, "dma_transfers rows\t%" PRIu64 "\nsemaphores rows\t%" PRIu64 "\nhost_dma rows\t%" PRIu64 "\n",
            n->dma_transfers, n->semaphores, n->host_dma);
        put(&o, "host_dma bytes\t%" PRIu64 "\nstatus rows\t%" PRIu64 "\n", n->host_dma_bytes, n->status);
        put(&o, "cc_ops rows\t%" PRIu64 "\ncc_instructions rows\t%" PRIu64 "\ncc_events rows\t%" PRIu64 "\n", n->cc_ops,
            n->cc_instructions, n->cc_events);
        put(&o, "throttle rows\t%" PRIu64 "\nerrors rows\t%" PRIu64 "\n", n->throttles, n->errors);
    }
    int closed = out_close(&o);
    return r < 0 ? r : closed;
}

static unsigned h2d_state(unsigned reasons)
{
    return reasons ? (unsigned)__builtin_ctz(reasons) : 0;
}

/* A path may hold what would end a field. */
static void put_path(struct out *o, const char *path)
{
    for (const char *p = path; p && *p; p++)
        put(o, "%c", (unsigned char)*p < ' ' ? '?' : *p);
    put(o, "\n");
}

static int write_profile(struct writer *w, const char *dir, struct kymo_err *err)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < w->n_rings; i++) {
        if (!w->rings[i].stored)
            continue;
        first = w->rings[i].first_ps < first ? w->rings[i].first_ps : first;
        last = w->rings[i].last_ps > last ? w->rings[i].last_ps : last;
    }
    const struct sim_truth_meta *m = w->meta;
    struct out o;
    int r = out_open(&o, dir, "profile.tsv", err);
    if (r >= 0) {
        put(&o, "key\tvalue\nntff\t%s\narch\t%s\ninstance\t%s\nlnc\t%u\n", m->ntff, w->ids->arch, m->instance,
            w->ids->lnc);
        put(&o, "nd_idx\t%u\nfirst_nc\t%u\nvnc\t%u\nmode\t%s\ndriver\t%s\n", m->nd_idx, w->ids->first_nc, m->vnc,
            m->mode, m->driver);
        put(&o, "first_ps");
        put_ps(&o, first == UINT64_MAX ? 0 : first);
        put(&o, "\nlast_ps");
        put_ps(&o, last);
        put(&o, "\ndetail\t%u\ndge_notifications\t%u\nhost_dma\t%u\n", w->t->detail, w->ids->dge_notifications,
            h2d_state(m->h2d_reasons));
        put(&o, "executions\t%" PRIu64 "\npath\t", w->ids->counts.executions);
        put_path(&o, m->path);
    }
    int closed = out_close(&o);
    return r < 0 ? r : closed;
}

/* Programs that ran, as far as the detail knows them, and the rings. */
static int write_memory(const struct writer *w, const char *dir, struct kymo_err *err)
{
    struct out o;
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    int r = out_open(&o, dir, "memory.tsv", err);
    put(&o, "pcore_idx\tnc_idx\tclass\tbytes\n");
    for (size_t i = 0; i < w->n_rings && i < KYMO_RING_PLAN_MAX; i++)
        plan[i] = w->rings[i].plan;
    for (unsigned p = 0; r >= 0 && w->t->detail && p < w->ids->lnc; p++) {
        struct sim_memory_use use = {0};
        for (size_t i = 0; i < w->t->image_count; i++)
            sim_memory_use_image(w->t->images[i], p, &use);
        sim_memory_use_rings(plan, w->n_rings < KYMO_RING_PLAN_MAX ? w->n_rings : KYMO_RING_PLAN_MAX, p, &use);
        for (unsigned k = 0; k < KYMO_MEMORY_MAX; k++)
            if (use.bytes[k])
                put(&o, "%u\t%u\t%s\t%" PRIu64 "\n", p, w->ids->first_nc + p, kymo_memory_class_name(k), use.bytes[k]);
    }
    int closed = out_close(&o);
    return r < 0 ? r : closed;
}

int sim_truth_write(const struct sim_truth *t, const struct sim_truth_ids *ids, const struct sim_ring_state *rings,
                    size_t n_rings, const struct sim_truth_meta *meta, const char *dir, struct kymo_err *err)
{
    struct writer w = {.t = t, .ids = ids, .meta = meta, .rings = rings, .n_rings = n_rings};
    int r = kymo_file_mkdirs(dir, err);
    if (r >= 0)
        r = write_profile(&w, dir, err);
    if (r >= 0)
        r = write_rings(&w, dir, err);
    if (r >= 0)
        r = write_sums(&w, dir, err);
    if (r >= 0)
        r = write_memory(&w, dir, err);
    for (int k = 0; r >= 0 && k < BY_MAX; k++)
        r = order_make(&w.order[k], t, table_rows(t, k), tables[k].when, err);
    for (int k = 0; r >= 0 && k < BY_MAX; k++)
        r = write_table(&w, k, dir, err);
    if (r >= 0)
        r = write_edges(&w, dir, err);
    for (int k = 0; k < BY_MAX; k++)
        order_done(&w.order[k]);
    return r;
}
