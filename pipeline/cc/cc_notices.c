#include "pipeline/cc/cc_notices.h"

#include <errno.h>

#include "arch/cc.h"
#include "formats/ntff/notice.h"
#include "pipeline/rings/ring_io.h"

struct walk {
    struct job *j;
    const struct scan_ring *ring;
    struct spill *to;
    struct cc_notice open;
    size_t hint;
    bool is_open, seen_start, pending_gap, lost;
};

bool cc_notice_is(const struct record *rec)
{
    return rec->kind == RECORD_EXPLICIT && (rec->u.explicit_.extended_hint == RECORD_STATUS_CC_START ||
                                            rec->u.explicit_.extended_hint == RECORD_STATUS_CC_END);
}

static int give_up(struct walk *w, enum pair_reason reason, struct kymo_err *err)
{
    if (!w->is_open)
        return 0;
    w->is_open = false;
    w->open.reason = (uint8_t)reason;
    return spill_append(w->to, &w->open, err);
}

static struct cc_notice make(struct walk *w, const struct record *rec, uint32_t ring)
{
    uint64_t ps = timebase_correct(w->ring->clocks.by_type[rec->type], rec->ts_ps);
    bool end = rec->u.explicit_.extended_hint == RECORD_STATUS_CC_END;
    uint32_t pc = rec->u.explicit_.pc;
    return (struct cc_notice){
        .start_ps = end ? 0 : ps,
        .end_ps = end ? ps : 0,
        .sequence = (uint64_t)(pc & ((1u << KYMO_CC_PC_BITS) - 1)) << 16 | rec->u.explicit_.soft_reset,
        .place = kymo_cc_pc_op(pc),
        .node = timeline_node(&w->j->timeline, ps, &w->hint),
        .ring = ring,
        .has_start = !end,
        .has_end = end,
    };
}

static int take(struct walk *w, const struct record *rec, uint32_t ring, struct kymo_err *err)
{
    struct cc_notice n = make(w, rec, ring);
    bool same = w->is_open && w->open.place == n.place && w->open.sequence == n.sequence;
    if (n.has_end && same) {
        w->is_open = false;
        w->open.end_ps = n.end_ps;
        w->open.has_end = true;
        return spill_append(w->to, &w->open, err);
    }
    int r = give_up(w, PAIR_LOST_AFTER, err);
    if (r < 0)
        return r;
    if (n.has_start) {
        w->open = n;
        w->is_open = w->seen_start = true;
        return 0;
    }
    n.reason = w->seen_start || w->lost ? PAIR_LOST_BEFORE : PAIR_OPEN_AT_START;
    return spill_append(w->to, &n, err);
}

int cc_notices_collect(struct job *j, size_t ring, struct spill *to, struct kymo_err *err)
{
    struct walk w = {.j = j, .ring = &j->scan.rings[ring], .to = to};
    struct ring_io io;
    ring_io_init(&io, j->in->ntff, ring, &w.ring->times);
    const uint8_t *bytes;
    size_t n = 0;
    int r = 0;
    for (uint64_t chunk = 0; r == 0; chunk++) {
        r = ring_io_chunk(&io, chunk, &bytes, &n, err);
        if (r < 0 || !n)
            break;
        for (size_t i = 0; i < n && r == 0; i++) {
            const uint8_t *at = bytes + i * KYMO_RECORD_SIZE;
            struct record rec;
            w.lost |= w.pending_gap || ring_io_lost_before(at);
            w.pending_gap = ring_io_lost_after(at);
            record_decode(at, &rec);
            if (cc_notice_is(&rec))
                r = take(&w, &rec, (uint32_t)ring, err);
            else if (rec.kind == RECORD_EXPLICIT && !notice_is_error(&rec))
                j->ledger.rings[ring].other[RECORD_EXPLICIT]++;
        }
    }
    ring_io_done(&io);
    uint64_t lost = 0;
    bool dropped = ledger_lost(w.ring, &lost) && lost;
    if (r == 0)
        r = give_up(&w, w.pending_gap || dropped ? PAIR_LOST_AFTER : PAIR_OPEN_AT_END, err);
    return r < 0 ? r : spill_seal(to, err);
}
