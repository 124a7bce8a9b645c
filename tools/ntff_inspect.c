#include "tools/ntff_inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/ring.h"
#include "base/alloc.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/record.h"
#include "tools/tree_pb.h"

#define BATCH 65536 /* records read at once */
#define LABEL_MAX 64
#define TYPES 32
#define DMA_KINDS 16

struct histogram {
    uint64_t types[TYPES], kinds[RECORD_KIND_MAX], dma_kinds[DMA_KINDS];
    uint64_t sw_marks, hw_marks, wraps;
    uint64_t first_ps, last_ps, min_ps, max_ps;
    uint64_t backwards; /* records older than the one before; between engines that is legal */
    uint64_t n;
    bool phase;
};

static void count_record(struct histogram *h, const struct record *r)
{
    if (h->n == 0) {
        h->first_ps = h->min_ps = h->max_ps = h->last_ps = r->ts_ps;
        h->phase = r->phase;
    }
    h->types[r->type]++;
    h->kinds[r->kind]++;
    if (r->kind == RECORD_DMA)
        h->dma_kinds[r->u.dma.kind & (DMA_KINDS - 1)]++;
    h->sw_marks += r->sw_overflow;
    h->hw_marks += r->hw_overflow;
    h->wraps += r->phase != h->phase;
    h->backwards += r->ts_ps < h->last_ps;
    h->phase = r->phase;
    h->last_ps = r->ts_ps;
    h->min_ps = r->ts_ps < h->min_ps ? r->ts_ps : h->min_ps;
    h->max_ps = r->ts_ps > h->max_ps ? r->ts_ps : h->max_ps;
    h->n++;
}

/* Calls fn with each record of ring i in order. */
static int each_record(const struct ntff_reader *r, size_t i,
                       void (*fn)(void *ctx, uint64_t index, const struct record *rec), void *ctx, struct kymo_err *err)
{
    uint64_t all = ntff_reader_ring(r, i)->records;
    uint8_t *buf KYMO_FREE = kymo_malloc((size_t)BATCH * KYMO_RECORD_SIZE);
    if (!buf)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    for (uint64_t at = 0; at < all;) {
        size_t n = all - at < BATCH ? (size_t)(all - at) : BATCH;
        int code = ntff_reader_records(r, i, at, n, buf, err);
        if (code < 0)
            return code;
        for (size_t k = 0; k < n; k++) {
            struct record rec;
            record_decode(buf + k * KYMO_RECORD_SIZE, &rec);
            fn(ctx, at + k, &rec);
        }
        at += n;
    }
    return 0;
}

static void on_count(void *ctx, uint64_t index, const struct record *rec)
{
    (void)index;
    count_record(ctx, rec);
}

static void show_counts(struct tree *t, const struct histogram *h)
{
    char key[32];
    tree_row(t, "kinds");
    for (int k = 0; k < RECORD_KIND_MAX; k++)
        if (h->kinds[k])
            tree_u64(t, record_kind_name((enum record_kind)k), h->kinds[k]);
    tree_close(t);
    tree_row(t, "types");
    for (int k = 0; k < TYPES; k++) {
        (void)snprintf(key, sizeof key, "0x%02x", k);
        if (h->types[k])
            tree_u64(t, key, h->types[k]);
    }
    tree_close(t);
    if (h->kinds[RECORD_DMA] == 0)
        return;
    tree_row(t, "dma_kinds");
    for (uint8_t k = 0; k < DMA_KINDS; k++) {
        /* The number stands first: two of them may share a name. */
        const char *name = record_dma_kind_name(k);
        (void)snprintf(key, sizeof key, "%u:%s", k, name ? name : "unassigned");
        if (h->dma_kinds[k])
            tree_u64(t, key, h->dma_kinds[k]);
    }
    tree_close(t);
}

static void show_times(struct tree *t, const struct histogram *h)
{
    tree_row(t, "time_ps");
    tree_u64(t, "first", h->first_ps);
    tree_u64(t, "last", h->last_ps);
    tree_u64(t, "min", h->min_ps);
    tree_u64(t, "max", h->max_ps);
    tree_u64(t, "backwards", h->backwards);
    tree_close(t);
    tree_row(t, "marks");
    tree_u64(t, "software_queue_full", h->sw_marks);
    tree_u64(t, "hardware_buffer_full", h->hw_marks);
    tree_u64(t, "phase_changes", h->wraps);
    tree_close(t);
}

static void show_loss(struct tree *t, const struct ntff_ring *ring)
{
    tree_u64(t, "stored", ring->records);
    if (ring->has_counters) {
        tree_u64(t, "emitted", ring->emitted);
        tree_u64(t, "dropped", ring->dropped);
    }
    tree_text(t, "equation",
              ring->has_counters          ? "emitted = stored + dropped"
              : ring->counters_contradict ? "unverifiable: the counters contradict the stored records"
                                          : "unverifiable: the ring has no counters");
}

static void show_leading(struct tree *t, enum kymo_engine engine, uint32_t pc, uint8_t hint)
{
    tree_text(t, "engine", kymo_engine_name(engine));
    tree_u64(t, "pc", pc);
    tree_u64(t, "hint", hint);
}

static void show_semaphore(struct tree *t, const struct record *r)
{
    tree_text(t, "engine",
              r->u.sem.engine == RECORD_ENGINE_AXI ? "AXI" : kymo_engine_name((enum kymo_engine)r->u.sem.engine));
    tree_text(t, "what", r->u.sem.is_semaphore ? "semaphore" : "event");
    tree_u64(t, "id", r->u.sem.id);
    tree_u64(t, "update_mode", r->u.sem.update_mode);
    tree_text(t, "operation", kymo_update_operation(r->u.sem.update_mode));
    tree_text(t, "timing", kymo_update_timing(r->u.sem.update_mode));
    tree_u64(t, "value", r->u.sem.value);
    tree_bool(t, "double", r->u.sem.double_set_or_clear);
}

static void show_dma(struct tree *t, const struct record *r)
{
    tree_text(t, "dma", record_dma_kind_name(r->u.dma.kind));
    tree_u64(t, "dma_kind", r->u.dma.kind);
    tree_u64(t, "queue", r->u.dma.queue);
    tree_u64(t, "bytes", r->u.dma.byte_count);
    tree_u64(t, "axi_id", r->u.dma.axi_id);
    tree_textf(t, "address", "0x%" PRIx64, r->u.dma.address);
}

static void show_dge(struct tree *t, const struct record *r)
{
    show_leading(t, r->u.dge.engine, r->u.dge.pc, r->u.dge.hint);
    tree_textf(t, "dma_engines", "0x%04x", r->u.dge.dma_engines);
    tree_u64(t, "engine_group", r->u.dge.engine_group);
    tree_u64(t, "packets_per_engine", r->u.dge.packets_per_engine);
    tree_bool(t, "pc_from_last_start", r->u.dge.pc_from_last_start);
}

static void show_error(struct tree *t, const struct record *r)
{
    tree_text(t, "class", r->u.error.warning ? "warning" : "interrupt");
    tree_u64(t, "group", r->u.error.group);
    tree_u64(t, "block_id", r->u.error.block_id);
    tree_textf(t, "cause", "0x%08x", r->u.error.cause);
}

static void show_body(struct tree *t, const struct record *r)
{
    switch (r->kind) {
    case RECORD_INSTRUCTION_START:
        show_leading(t, r->u.start.engine, r->u.start.pc, r->u.start.hint);
        tree_u64(t, "soft_reset", r->u.start.soft_reset);
        tree_u64(t, "event_wait_cycles", r->u.start.event_wait_cycles);
        return;
    case RECORD_INSTRUCTION_END:
        show_leading(t, r->u.end.engine, r->u.end.pc, r->u.end.hint);
        tree_textf(t, "crc_in", "0x%04x", r->u.end.crc_in);
        tree_textf(t, "crc_out", "0x%04x", r->u.end.crc_out);
        return;
    case RECORD_EXPLICIT:
        show_leading(t, r->u.explicit_.engine, r->u.explicit_.pc, r->u.explicit_.hint);
        tree_u64(t, "soft_reset", r->u.explicit_.soft_reset);
        tree_u64(t, "extended_hint", r->u.explicit_.extended_hint);
        return;
    case RECORD_DGE_METADATA:
        show_dge(t, r);
        return;
    case RECORD_EVENT_SEMAPHORE:
        show_semaphore(t, r);
        return;
    case RECORD_DMA:
        show_dma(t, r);
        return;
    case RECORD_ERROR:
        show_error(t, r);
        return;
    case RECORD_TPB_ERROR:
        tree_u64(t, "error_id", r->u.tpb_error.id);
        tree_text(t, "error", record_tpb_error_name(r->u.tpb_error.id));
        tree_textf(t, "metadata", "0x%012" PRIx64, r->u.tpb_error.metadata);
        return;
    case RECORD_HAM:
    case RECORD_UNKNOWN:
    case RECORD_KIND_MAX:
        tree_textf(t, "low", "0x%06x", r->u.raw.low);
        tree_textf(t, "high", "0x%08x", r->u.raw.high);
    }
}

struct record_printer {
    struct tree *t;
    const struct ntff_reader *reader;
    size_t ring;
};

static void on_show(void *ctx, uint64_t index, const struct record *r)
{
    const struct record_printer *p = ctx;
    tree_row(p->t, NULL);
    tree_u64(p->t, "index", index);
    tree_u64(p->t, "offset", ntff_reader_record_offset(p->reader, p->ring, index));
    tree_u64(p->t, "ts_ps", r->ts_ps);
    tree_textf(p->t, "type", "0x%02x", r->type);
    tree_text(p->t, "kind", record_kind_name(r->kind));
    show_body(p->t, r);
    tree_u64(p->t, "phase", r->phase);
    if (r->sw_overflow)
        tree_bool(p->t, "sw_overflow", true);
    if (r->hw_overflow)
        tree_bool(p->t, "hw_overflow", true);
    tree_close(p->t);
}

static int show_ring(struct tree *t, const struct ntff_reader *r, size_t i, const char *label, bool records,
                     struct kymo_err *err)
{
    const struct ntff_ring *ring = ntff_reader_ring(r, i);
    struct histogram h = {0};
    int code = each_record(r, i, on_count, &h, err);
    if (code < 0)
        return code;
    tree_object(t, NULL);
    tree_text(t, "ring", label);
    tree_u64(t, "nc_idx", ring->nc_idx);
    tree_u64(t, "engine_index", ring->engine_index);
    tree_u64(t, "buffer_size", ring->buffer_size);
    show_loss(t, ring);
    if (h.n > 0) {
        show_counts(t, &h);
        show_times(t, &h);
    }
    if (records) {
        struct record_printer p = {t, r, i};
        tree_list(t, "records");
        code = each_record(r, i, on_show, &p, err);
        tree_close(t);
    }
    tree_close(t);
    return code;
}

static bool ring_wanted(const struct ntff_inspect *opt, enum kymo_ring kind, const char *label)
{
    return !opt->ring || !strcmp(opt->ring, label) || !strcmp(opt->ring, kymo_ring_name(kind));
}

static int show_rings(struct tree *t, const struct ntff_reader *r, const struct ntff_inspect *opt, struct kymo_err *err)
{
    size_t shown = 0;
    int code = 0;
    tree_list(t, "rings");
    for (size_t i = 0; code == 0 && i < ntff_reader_ring_count(r); i++) {
        const struct ntff_ring *ring = ntff_reader_ring(r, i);
        char label[LABEL_MAX];
        kymo_ring_label((enum kymo_ring)ring->kind, ring->pcore_idx, ring->engine_index, label, sizeof label);
        if (!ring_wanted(opt, (enum kymo_ring)ring->kind, label))
            continue;
        shown++;
        code = show_ring(t, r, i, label, opt->records, err);
    }
    tree_close(t);
    if (code == 0 && opt->ring && shown == 0)
        return kymo_err_set(err, -ENOENT, "%s: no ring %s", opt->path, opt->ring);
    return code;
}

static void show_header(struct tree *t, const struct ntff_header *h)
{
    tree_object(t, "header");
    tree_u64(t, "header_version", NTFF_HEADER_VERSION);
    tree_u64(t, "ntff_version", h->ntff_version);
    tree_u64(t, "protobuf_size", h->protobuf_size);
    tree_u64(t, "instruction_base", h->instruction_base);
    tree_u64(t, "instruction_size", h->instruction_size);
    tree_u64(t, "notification_base", h->notification_base);
    tree_u64(t, "notification_size", h->notification_size);
    tree_u64(t, "file_size", h->file_size);
    tree_textf(t, "protobuf_crc32c", "0x%08x", h->protobuf_crc32c);
    tree_bool(t, "no_records", (h->flags & NTFF_FLAG_NO_RECORDS) != 0);
    tree_close(t);
}

int ntff_inspect_profile(struct tree *t, const struct ntff_reader *r, const struct ntff_inspect *opt,
                         struct kymo_err *err)
{
    show_header(t, ntff_reader_header(r));
    tree_object(t, "ntff_info");
    tree_pb_fields(t, &ntff_reader_info(r)->base);
    tree_close(t);
    return show_rings(t, r, opt, err);
}
