/* Collecting. Tables grow by doubling; the first one that cannot grow ends the detail of the whole capture. */
#include "base/alloc.h"
#include "driver-iface/sim/sim_truth_internal.h"

#define EDGES_MAX (8 * SIM_TRUTH_DETAIL_MAX)

struct sim_truth *sim_truth_new(bool detail)
{
    struct sim_truth *t = KYMO_NEW(struct sim_truth);
    if (t)
        t->detail = detail;
    return t;
}

static void drop_tables(struct sim_truth *t)
{
    t->detail = false;
    kymo_free(t->instructions.rows);
    kymo_free(t->transfers.rows);
    kymo_free(t->packets.rows);
    kymo_free(t->syncs.rows);
    kymo_free(t->h2d.rows);
    kymo_free(t->cc_ops.rows);
    kymo_free(t->cc_instrs.rows);
    kymo_free(t->cc_events.rows);
    kymo_free(t->status.rows);
    kymo_free(t->throttles.rows);
    kymo_free(t->errors.rows);
    kymo_free(t->edges.rows);
    for (size_t i = 0; i < t->image_count; i++)
        sim_image_free(t->images[i]);
    kymo_free(t->images);
    *t = (struct sim_truth){.execution = t->execution};
}

struct sim_truth *sim_truth_free(struct sim_truth *t)
{
    if (!t)
        return NULL;
    drop_tables(t);
    kymo_free(t);
    return NULL;
}

void sim_truth_freep(struct sim_truth **t)
{
    *t = sim_truth_free(*t);
}

bool sim_truth_detail(const struct sim_truth *t)
{
    return t && t->detail;
}

/* Room for one more row; false: there is no detail, or no longer. */
#define ROOM(t, table, max)                                                                                            \
    (sim_truth_detail(t) &&                                                                                            \
     room((t), (void **)&(t)->table.rows, &(t)->table.cap, (t)->table.count, (max), sizeof *(t)->table.rows))

static bool room(struct sim_truth *t, void **rows, size_t *cap, size_t count, size_t max, size_t size)
{
    if (count < *cap || kymo_grow(rows, cap, count + 1, max, size) == 0)
        return true;
    drop_tables(t);
    return false;
}

void sim_truth_execution(struct sim_truth *t, struct sim_image *image)
{
    if (!t)
        return;
    t->execution++;
    if (!t->detail)
        return;
    for (size_t i = 0; i < t->image_count; i++) {
        if (t->images[i] == image) {
            t->image = (uint16_t)i;
            return;
        }
    }
    if (!room(t, (void **)&t->images, &t->image_cap, t->image_count, UINT16_MAX, sizeof(struct sim_image *)))
        return;
    t->image = (uint16_t)t->image_count;
    t->images[t->image_count++] = sim_image_ref(image);
}

uint32_t sim_truth_instr_begin(struct sim_truth *t, const struct sim_truth_instr *row)
{
    if (!ROOM(t, instructions, SIM_TRUTH_DETAIL_MAX))
        return SIM_TRUTH_NONE;
    struct sim_truth_instr *r = &t->instructions.rows[t->instructions.count];
    *r = *row;
    r->image = t->image;
    r->execution = t->execution - 1;
    return (uint32_t)t->instructions.count++;
}

void sim_truth_instr_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored, uint16_t crc_in,
                         uint16_t crc_out)
{
    if (!sim_truth_detail(t) || row >= t->instructions.count)
        return;
    struct sim_truth_instr *r = &t->instructions.rows[row];
    r->end_ps = end_ps;
    r->end_stored = stored;
    r->crc_in = crc_in;
    r->crc_out = crc_out;
}

uint32_t sim_truth_transfer_begin(struct sim_truth *t, const struct sim_truth_transfer *row)
{
    if (!ROOM(t, transfers, SIM_TRUTH_DETAIL_MAX))
        return SIM_TRUTH_NONE;
    struct sim_truth_transfer *r = &t->transfers.rows[t->transfers.count];
    *r = *row;
    r->image = t->image;
    r->execution = t->execution - 1;
    uint32_t at = (uint32_t)t->transfers.count++;
    if (row->trigger_row < t->instructions.count)
        t->instructions.rows[row->trigger_row].trigger_transfer = at;
    return at;
}

void sim_truth_transfer_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool complete)
{
    if (!sim_truth_detail(t) || row >= t->transfers.count)
        return;
    struct sim_truth_transfer *r = &t->transfers.rows[row];
    r->complete = complete;
    if (r->end_ps < end_ps) /* clocks of the engines may disagree by a ps */
        r->end_ps = end_ps;
}

uint32_t sim_truth_packet_begin(struct sim_truth *t, const struct sim_truth_packet *row)
{
    if (!ROOM(t, packets, SIM_TRUTH_DETAIL_MAX))
        return SIM_TRUTH_NONE;
    struct sim_truth_transfer *x = &t->transfers.rows[row->transfer];
    if (!x->start_ps || row->start_ps < x->start_ps)
        x->start_ps = row->start_ps;
    t->packets.rows[t->packets.count] = *row;
    return (uint32_t)t->packets.count++;
}

void sim_truth_packet_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored)
{
    if (!sim_truth_detail(t) || row >= t->packets.count)
        return;
    struct sim_truth_packet *r = &t->packets.rows[row];
    r->end_ps = end_ps;
    r->end_stored = stored;
    if (t->transfers.rows[r->transfer].end_ps < end_ps)
        t->transfers.rows[r->transfer].end_ps = end_ps;
}

uint32_t sim_truth_sync(struct sim_truth *t, const struct sim_truth_sync *row)
{
    if (!ROOM(t, syncs, 4 * SIM_TRUTH_DETAIL_MAX))
        return SIM_TRUTH_NONE;
    t->syncs.rows[t->syncs.count] = *row;
    return (uint32_t)t->syncs.count++;
}

void sim_truth_h2d(struct sim_truth *t, const struct sim_truth_h2d *row)
{
    if (ROOM(t, h2d, SIM_TRUTH_DETAIL_MAX))
        t->h2d.rows[t->h2d.count++] = *row;
}

uint32_t sim_truth_cc_op_begin(struct sim_truth *t, const struct sim_truth_cc_op *row)
{
    if (!ROOM(t, cc_ops, SIM_TRUTH_DETAIL_MAX))
        return SIM_TRUTH_NONE;
    struct sim_truth_cc_op *r = &t->cc_ops.rows[t->cc_ops.count];
    *r = *row;
    r->image = t->image;
    r->execution = t->execution - 1;
    return (uint32_t)t->cc_ops.count++;
}

void sim_truth_cc_op_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored)
{
    if (!sim_truth_detail(t) || row >= t->cc_ops.count)
        return;
    t->cc_ops.rows[row].end_ps = end_ps;
    t->cc_ops.rows[row].end_stored = stored;
}

uint32_t sim_truth_cc_instr_begin(struct sim_truth *t, const struct sim_truth_cc_instr *row)
{
    if (!ROOM(t, cc_instrs, SIM_TRUTH_DETAIL_MAX))
        return SIM_TRUTH_NONE;
    t->cc_instrs.rows[t->cc_instrs.count] = *row;
    return (uint32_t)t->cc_instrs.count++;
}

void sim_truth_cc_instr_end(struct sim_truth *t, uint32_t row, uint64_t end_ps, bool stored)
{
    if (!sim_truth_detail(t) || row >= t->cc_instrs.count)
        return;
    t->cc_instrs.rows[row].end_ps = end_ps;
    t->cc_instrs.rows[row].end_stored = stored;
}

void sim_truth_cc_event(struct sim_truth *t, const struct sim_truth_sync *row)
{
    if (ROOM(t, cc_events, SIM_TRUTH_DETAIL_MAX))
        t->cc_events.rows[t->cc_events.count++] = *row;
}

void sim_truth_status(struct sim_truth *t, uint8_t pcore, bool end, bool stored, uint64_t ts_ps)
{
    if (ROOM(t, status, SIM_TRUTH_DETAIL_MAX))
        t->status.rows[t->status.count++] = (struct sim_truth_status_row){.pcore = pcore,
                                                                          .end = end,
                                                                          .stored = stored,
                                                                          .image = t->image,
                                                                          .execution = t->execution - 1,
                                                                          .ts_ps = ts_ps};
}

void sim_truth_throttle(struct sim_truth *t, const struct sim_truth_throttle *row)
{
    if (!ROOM(t, throttles, SIM_TRUTH_DETAIL_MAX))
        return;
    t->throttles.rows[t->throttles.count] = *row;
    t->throttles.rows[t->throttles.count++].execution = t->execution - 1;
}

void sim_truth_error(struct sim_truth *t, const struct sim_truth_error *row)
{
    if (!ROOM(t, errors, SIM_TRUTH_DETAIL_MAX))
        return;
    t->errors.rows[t->errors.count] = *row;
    t->errors.rows[t->errors.count++].execution = t->execution - 1;
}

void sim_truth_edge(struct sim_truth *t, enum sim_edge kind, uint32_t from, uint32_t to, uint32_t detail)
{
    if (from == SIM_TRUTH_NONE || to == SIM_TRUTH_NONE || !ROOM(t, edges, EDGES_MAX))
        return;
    /* Two instructions that meet in several banks have one edge. */
    struct sim_truth_edge_row *last = t->edges.count ? &t->edges.rows[t->edges.count - 1] : NULL;
    for (unsigned k = 0; kind == SIM_EDGE_PSUM && k < 8 && k < t->edges.count; k++) {
        struct sim_truth_edge_row *r = last - k;
        if (r->kind == SIM_EDGE_PSUM && r->from == from && r->to == to) {
            r->detail |= detail;
            return;
        }
    }
    t->edges.rows[t->edges.count++] =
        (struct sim_truth_edge_row){.kind = (uint8_t)kind, .from = from, .to = to, .detail = detail};
}
