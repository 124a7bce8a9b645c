#include "pipeline/rings/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"

int ledger_init(struct ledger *l, const struct scan *scan, struct kymo_err *err)
{
    *l = (struct ledger){.count = scan->count};
    l->rings = KYMO_NEW_ARRAY(struct ledger_ring, scan->count + 1);
    return l->rings ? 0 : kymo_err_set(err, -ENOMEM, "no memory for the loss ledger");
}

void ledger_done(struct ledger *l)
{
    kymo_free(l->rings);
    kymo_free(l->losses);
    *l = (struct ledger){0};
}

static bool is_dma_ring(const struct scan_ring *r)
{
    return r->ring.kind == NTFF__RING_KIND__RING_DMA || r->ring.kind == NTFF__RING_KIND__RING_H2D_DMA;
}

/* Losses beyond the maximum stand in the table alone. */
static int keep_loss(struct ledger *l, const struct ledger_loss *loss, struct kymo_err *err)
{
    void *p = l->losses;
    if (l->loss_count == LEDGER_LOSSES_MAX)
        return 0;
    if (kymo_grow(&p, &l->loss_cap, l->loss_count + 1, LEDGER_LOSSES_MAX, sizeof *l->losses) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for the loss ledger");
    l->losses = p;
    l->losses[l->loss_count++] = *loss;
    return 0;
}

static struct ledger_loss loss_of(const char *stage, const char *ring, const char *cause)
{
    struct ledger_loss loss = {0};
    (void)snprintf(loss.stage, sizeof loss.stage, "%s", stage);
    (void)snprintf(loss.ring, sizeof loss.ring, "%s", ring);
    (void)snprintf(loss.cause, sizeof loss.cause, "%s", cause);
    return loss;
}

static int keep_ring_loss(struct ledger *l, const struct scan_ring *r, const char *label, const char *cause,
                          const uint64_t *lost, struct kymo_err *err)
{
    struct ledger_loss loss = loss_of("device_ring", label, cause);
    loss.has_records = lost != NULL;
    loss.records = lost ? *lost : 0;
    loss.has_emitted = r->ring.has_counters;
    loss.emitted = r->ring.emitted;
    return keep_loss(l, &loss, err);
}

/* What becomes of the stored records of one kind. */
struct sums {
    uint64_t stored, rows, partial, other, unknown;
};

static struct sums sums_of_dma(const struct input *in, const struct scan_ring *r, const struct ledger_ring *l)
{
    struct sums s = {.stored = r->by_kind[RECORD_DMA], .rows = l->rows[RECORD_DMA], .partial = l->partial[RECORD_DMA]};
    for (uint8_t kind = 0; kind < 16; kind++) {
        if (kind == in->arch->dma_open || kind == in->arch->dma_close)
            continue;
        if (record_dma_kind_name(kind))
            s.other += r->by_dma_kind[kind];
        else
            s.unknown += r->by_dma_kind[kind];
    }
    return s;
}

static bool in_table_of_cc(const struct scan_ring *r, enum record_kind kind)
{
    if (r->ring.kind == NTFF__RING_KIND__RING_CC_CORE_INSTRUCTION)
        return kind == RECORD_INSTRUCTION_START || kind == RECORD_INSTRUCTION_END || kind == RECORD_EXPLICIT;
    return r->ring.kind == NTFF__RING_KIND__RING_CC_CORE_EVENT && kind == RECORD_EVENT_SEMAPHORE;
}

static struct sums sums_of(const struct input *in, const struct scan_ring *r, const struct ledger_ring *l,
                           enum record_kind kind)
{
    if (kind == RECORD_DMA && is_dma_ring(r))
        return sums_of_dma(in, r, l);
    struct sums s = {.stored = r->by_kind[kind], .rows = l->rows[kind], .partial = l->partial[kind]};
    bool instruction = kind == RECORD_INSTRUCTION_START || kind == RECORD_INSTRUCTION_END;
    bool in_table =
        (instruction && r->ring.kind == NTFF__RING_KIND__RING_INSTRUCTION && r->ring.pcore_idx < in->cores) ||
        (kind == RECORD_EVENT_SEMAPHORE && r->ring.kind == NTFF__RING_KIND__RING_EVENT &&
         r->ring.pcore_idx < in->cores) ||
        in_table_of_cc(r, kind);
    bool notice = kind == RECORD_HAM || kind == RECORD_ERROR || kind == RECORD_TPB_ERROR;
    s.other = l->other[kind];
    if (kind == RECORD_UNKNOWN)
        s.unknown = s.stored;
    else if (kind == RECORD_EXPLICIT && !in_table)
        s.other = s.stored - r->customs;
    else if (!in_table && !notice)
        s.other = s.stored;
    return s;
}

static uint64_t unaccounted(struct sums s)
{
    uint64_t found = s.rows + s.partial + s.other + s.unknown;
    return found < s.stored ? s.stored - found : 0;
}

static int write_kind(struct parquet_row *row, const char *label, enum record_kind kind, struct sums s,
                      struct kymo_err *err)
{
    uint64_t lost = unaccounted(s);
    parquet_row_string(row, KYMO_LOSS_LEDGER_STAGE, "device_ring");
    parquet_row_string(row, KYMO_LOSS_LEDGER_RING, label);
    parquet_row_string(row, KYMO_LOSS_LEDGER_RECORD_KIND, record_kind_name(kind));
    parquet_row_string(row, KYMO_LOSS_LEDGER_CAUSE, lost ? "processing" : s.unknown ? "undecodable" : "");
    parquet_row_int(row, KYMO_LOSS_LEDGER_EMITTED_RECORDS, (int64_t)s.stored);
    parquet_row_int(row, KYMO_LOSS_LEDGER_ROW_RECORDS, (int64_t)s.rows);
    parquet_row_int(row, KYMO_LOSS_LEDGER_PARTIAL_RECORDS, (int64_t)s.partial);
    parquet_row_int(row, KYMO_LOSS_LEDGER_OTHER_RECORDS, (int64_t)s.other);
    parquet_row_int(row, KYMO_LOSS_LEDGER_UNKNOWN_RECORDS, (int64_t)s.unknown);
    parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_RECORDS, (int64_t)lost);
    parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_UNKNOWN, 0);
    return parquet_row_end(row, err);
}

bool ledger_lost(const struct scan_ring *r, uint64_t *ret_lost)
{
    if (!r->ring.has_counters || r->ring.emitted < r->ring.records)
        return false;
    *ret_lost = r->ring.emitted - r->ring.records;
    return true;
}

static const char *cause_of(const struct scan_ring *r, bool known, uint64_t lost)
{
    if (known && !lost)
        return "";
    if (r->ring.counters_contradict)
        return "counters_contradict";
    if (known && lost > r->ring.dropped)
        return "truncated";
    if (!known && r->hw_mark && !r->sw_mark)
        return "hardware_overflow";
    return known || r->gaps ? "ring_full" : "";
}

void ledger_span(const struct scan *scan, const struct scan_ring *r, const struct timebase *tb, int64_t *ret_from,
                 int64_t *ret_to)
{
    uint64_t last_stored = r->first_ps <= r->last_ps ? r->last_ps : scan->first_ps;
    uint64_t from = r->gaps ? r->gap_first_ps : last_stored;
    uint64_t to = r->gaps && r->gap_last_ps < last_stored ? r->gap_last_ps : scan->last_ps;
    *ret_from = timebase_ns(tb, from);
    *ret_to = timebase_ns(tb, to);
}

static void warn_ring(const struct scan_ring *r, const char *label, bool known, uint64_t lost, struct warnings *w)
{
    const struct ntff_ring *ring = &r->ring;
    char item[160];
    if (known && lost) {
        (void)snprintf(item, sizeof item, "%s lost %llu of %llu (buffer of %llu bytes)", label,
                       (unsigned long long)lost, (unsigned long long)ring->emitted,
                       (unsigned long long)ring->buffer_size);
        warnings_list(w, "Lost records", item,
                      "records were lost because the ring's buffer was full: counts and times of its tables are lower "
                      "bounds; raise its NEURON_RT_PROFILE_BUF_ size");
    } else if (ring->counters_contradict) {
        (void)snprintf(item, sizeof item, "%s: %llu emitted, %llu stored, %llu dropped", label,
                       (unsigned long long)ring->emitted, (unsigned long long)ring->records,
                       (unsigned long long)ring->dropped);
        warnings_list(w, "Unverifiable ring", item,
                      "the file's counters contradict the stored records: whether records were lost cannot be told");
    } else if (!known && r->gaps) {
        (void)snprintf(item, sizeof item, "%s at %llu places", label, (unsigned long long)r->gaps);
        warnings_list(w, "Lost records", item,
                      "records were lost; how many is not known, because the file has no counters for the ring");
    } else if (!known) {
        warnings_list(w, "Unverifiable ring", label,
                      "the file has no counters for a ring: whether records were lost cannot be told");
    }
}

static int write_kinds(struct parquet_row *row, struct ledger *l, const struct input *in, const struct scan_ring *r,
                       const struct ledger_ring *counts, const char *label, struct kymo_err *err)
{
    int e = 0;
    for (int kind = 0; kind < RECORD_KIND_MAX && e == 0; kind++) {
        if (!r->by_kind[kind])
            continue;
        struct sums s = sums_of(in, r, counts, (enum record_kind)kind);
        uint64_t lost = unaccounted(s);
        e = write_kind(row, label, (enum record_kind)kind, s, err);
        if (e == 0 && lost)
            e = keep_ring_loss(l, r, label, "processing", &lost, err);
    }
    return e;
}

static int write_ring(struct parquet_row *row, struct ledger *l, const struct input *in, const struct scan *scan,
                      size_t i, const struct timebase *tb, struct warnings *w, struct kymo_err *err)
{
    const struct scan_ring *r = &scan->rings[i];
    char label[64];
    kymo_ring_label((enum kymo_ring)r->ring.kind, r->ring.pcore_idx, r->ring.engine_index, label, sizeof label);
    int e = write_kinds(row, l, in, r, &l->rings[i], label, err);
    uint64_t lost = 0;
    bool known = ledger_lost(r, &lost);
    if (e == 0 && *cause_of(r, known, lost))
        e = keep_ring_loss(l, r, label, cause_of(r, known, lost), known ? &lost : NULL, err);
    if (e < 0)
        return e;
    parquet_row_string(row, KYMO_LOSS_LEDGER_STAGE, "device_ring");
    parquet_row_string(row, KYMO_LOSS_LEDGER_RING, label);
    parquet_row_string(row, KYMO_LOSS_LEDGER_CAUSE, cause_of(r, known, lost));
    if (known) {
        parquet_row_int(row, KYMO_LOSS_LEDGER_EMITTED_RECORDS, (int64_t)lost);
        parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_RECORDS, (int64_t)lost);
    }
    parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_UNKNOWN, !known);
    if (lost || (!known && r->gaps)) {
        int64_t from, to;
        ledger_span(scan, r, tb, &from, &to);
        parquet_row_int(row, KYMO_LOSS_LEDGER_FIRST_TS, from);
        parquet_row_int(row, KYMO_LOSS_LEDGER_LAST_TS, to);
    }
    warn_ring(r, label, known, lost, w);
    return parquet_row_end(row, err);
}

static int write_manifest(struct parquet_row *row, struct ledger *l, const Kymo__Manifest__Capture *m,
                          struct kymo_err *err)
{
    for (size_t i = 0; m && i < m->n_losses; i++) {
        const Kymo__Manifest__Loss *loss = m->losses[i];
        parquet_row_string(row, KYMO_LOSS_LEDGER_STAGE, loss->stage ? loss->stage : "");
        parquet_row_string(row, KYMO_LOSS_LEDGER_RING, loss->ring);
        parquet_row_string(row, KYMO_LOSS_LEDGER_CAUSE, loss->cause ? loss->cause : "");
        if (loss->has_records)
            parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_RECORDS, (int64_t)loss->records);
        parquet_row_int(row, KYMO_LOSS_LEDGER_LOST_UNKNOWN, !loss->has_records);
        struct ledger_loss kept =
            loss_of(loss->stage ? loss->stage : "", loss->ring ? loss->ring : "", loss->cause ? loss->cause : "");
        kept.has_records = loss->has_records;
        kept.records = loss->records;
        int r = parquet_row_end(row, err);
        if (r == 0)
            r = keep_loss(l, &kept, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int ledger_write(struct ledger *l, const struct input *in, const struct scan *scan, const struct timebase *tb,
                 const char *dir, struct warnings *w, struct kymo_err *err)
{
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_LOSS_LEDGER), NULL, &row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < scan->count && r == 0; i++)
        r = write_ring(row, l, in, scan, i, tb, w, err);
    if (r == 0)
        r = write_manifest(row, l, in->manifest, err);
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}
