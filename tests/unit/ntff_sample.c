#include "tests/unit/ntff_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/record.h"

#define SLOT 64
#define MS 1000000000ull /* in ps */
#define START_PS (5 * MS)

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static char *text(const char *s)
{
    return must(kymo_strdup(s));
}

/* Appends to a repeated field of a protobuf-c struct. */
static void *append(void *list, size_t *n, void *item)
{
    void **grown = must(kymo_realloc_array(list, *n + 1, sizeof *grown));
    grown[(*n)++] = item;
    return grown;
}

#define MAKE(var, type, init)                                                                                          \
    type *var = must(KYMO_NEW(type));                                                                                  \
    init(var)
#define APPEND(owner, field, item) (owner)->field = append((owner)->field, &(owner)->n_##field, (item))

static Ntff__VersionInfo *version(uint32_t major, uint32_t minor, uint32_t patch, const char *words)
{
    MAKE(v, Ntff__VersionInfo, ntff__version_info__init);
    v->major = major;
    v->minor = minor;
    v->patch = patch;
    v->text = text(words);
    return v;
}

static uint8_t *blob(struct ntff_sample *s, size_t n)
{
    uint8_t *p = must(kymo_calloc(1, n));
    if (s->n_blobs == sizeof s->blobs / sizeof *s->blobs)
        abort();
    s->blobs[s->n_blobs++] = p;
    return p;
}

static Ntff__NtffInfo *base_info(uint32_t lnc, uint32_t start_nc, Ntff__CaptureMode mode)
{
    MAKE(info, Ntff__NtffInfo, ntff__ntff_info__init);
    info->neuron_runtime_version = version(2, 31, 24, "2.31.24.0");
    info->neuron_driver_version = version(2, 31, 1, "2.31.1");
    info->neuron_collectives_version = version(2, 30, 0, "2.30.0");
    info->arch = text("Trn2");
    info->instance_type = text("trn2.48xlarge");
    info->profile_start_time = 1764374400000000000ull;
    info->pid = 4242;
    info->nd_idx = 3;
    info->start_nc = start_nc;
    info->lnc_size = lnc;
    info->vnc = 5;
    info->mode = mode;
    info->dge_notifications = 1;
    info->hostname = text("host-a");
    MAKE(sync, Ntff__ClockSync, ntff__clock_sync__init);
    sync->nc_idx = start_nc;
    sync->nc_timestamp_ps = START_PS;
    sync->cpu_timestamp_ns = 1764374400000500000ull;
    sync->error_ns = 350;
    APPEND(info, clock_syncs, sync);
    MAKE(size, Ntff__NotificationBufferSize, ntff__notification_buffer_size__init);
    size->buffer_size = 128u << 20;
    APPEND(info, notification_buffer_sizes, size);
    return info;
}

static void add_section(Ntff__EngineInstructionInfo *e, Ntff__ImageSection section, uint32_t first, uint32_t count)
{
    MAKE(s, Ntff__ImageSectionInfo, ntff__image_section_info__init);
    s->section = section;
    s->first = first;
    s->count = count;
    APPEND(e, sections, s);
}

/* An image of one preamble slot, slots - 2 of MAIN and one postamble slot; inline when it has no source. */
static void add_image(struct ntff_sample *s, Ntff__SubgraphInfo *g, Ntff__NcEngineType engine, uint32_t slots,
                      int in_line)
{
    MAKE(e, Ntff__EngineInstructionInfo, ntff__engine_instruction_info__init);
    e->nc_engine_type = engine;
    e->start_address = 0x100000 + 0x10000 * (uint64_t)engine;
    add_section(e, NTFF__IMAGE_SECTION__SECTION_PREAMBLE, 0, 1);
    add_section(e, NTFF__IMAGE_SECTION__SECTION_MAIN, 1, slots - 2);
    add_section(e, NTFF__IMAGE_SECTION__SECTION_POSTAMBLE, slots - 1, 1);
    APPEND(g, instruction_info, e);
    size_t n = (size_t)slots * SLOT;
    uint8_t *code = in_line ? must(kymo_malloc(n)) : blob(s, n);
    for (size_t i = 0; i < n; i++)
        code[i] = (uint8_t)(i * 7 + (size_t)engine);
    if (in_line)
        e->instructions = (ProtobufCBinaryData){.len = n, .data = code};
    else
        s->images[s->n_images++] = (struct ntff_image_source){e, ntff_source_memory(code, n)};
}

static void add_patch(Ntff__SubgraphInfo *g, Ntff__NcEngineType engine, Ntff__InstructionPatchType type, uint64_t slot,
                      uint32_t n)
{
    MAKE(p, Ntff__InstructionPatchInfo, ntff__instruction_patch_info__init);
    p->nc_engine_type = engine;
    p->type = type;
    p->section = NTFF__IMAGE_SECTION__SECTION_MAIN;
    p->offset = slot * SLOT;
    p->count = n;
    APPEND(g, patch_info, p);
}

static void add_queue(Ntff__SubgraphInfo *g, uint32_t engine, Ntff__DmaQueueType type, const char *name,
                      uint32_t blocks)
{
    MAKE(q, Ntff__DmaQueueUsageInfo, ntff__dma_queue_usage_info__init);
    q->engine_index = engine;
    q->queue_index = 2;
    q->queue_type = type;
    q->nc_idx = g->nc_idx;
    q->name = text(name);
    for (uint32_t i = 0; i < blocks; i++) {
        MAKE(b, Ntff__DescBlockInfo, ntff__desc_block_info__init);
        b->block_id = i;
        b->packet_count = b->m2s_desc_count = b->s2m_desc_count = 4 + i;
        if (i > 0)
            b->function_name = text("fn0");
        APPEND(q, desc_block_info, b);
    }
    APPEND(g, dma_queue_usage, q);
}

static Ntff__SubgraphInfo *add_graph(Ntff__NeffNodeInfo *node, uint32_t nc)
{
    MAKE(g, Ntff__SubgraphInfo, ntff__subgraph_info__init);
    g->name = text(node->nd_node->n_graphs ? "sg01" : "sg00");
    g->nd_idx = 3;
    g->nc_idx = nc;
    g->exec_duration = 1234567;
    MAKE(t, Ntff__NcTimestampInfo, ntff__nc_timestamp_info__init);
    MAKE(pe, Ntff__BlockTimestampInfo, ntff__block_timestamp_info__init);
    pe->init_timestamp = START_PS;
    pe->actual_timestamp_inc = pe->expected_timestamp_inc = 0x400;
    t->tpb_pe = pe;
    g->timestamp_info = t;
    APPEND(node->nd_node, graphs, g);
    return g;
}

static Ntff__NeffNodeInfo *add_node(Ntff__NtffInfo *info, const char *name, uint8_t uuid)
{
    MAKE(node, Ntff__NeffNodeInfo, ntff__neff_node_info__init);
    MAKE(nd, Ntff__NdNodeInfo, ntff__nd_node_info__init);
    node->node_info_case = NTFF__NEFF_NODE_INFO__NODE_INFO_ND_NODE;
    node->nd_node = nd;
    node->runtime_latency = 0.5;
    node->neff_name = text(name);
    node->model_id = 1000u + uuid;
    node->neff_uuid = (ProtobufCBinaryData){.len = 16, .data = must(kymo_malloc(16))};
    memset(node->neff_uuid.data, uuid, 16);
    APPEND(info, neff_nodes, node);
    return node;
}

/* One entry of a ring; records NULL: a ring that stored nothing. */
static Ntff__TraceInfo *new_trace(struct ntff_sample *s, enum kymo_ring ring, uint32_t nc, uint32_t engine,
                                  const uint8_t *records, size_t n)
{
    static const struct {
        int trace, block;
    } types[KYMO_RING_MAX] = {
#define X(id, suffix, mb, tt, bt) {tt, bt},
        KYMO_RING_MAP(X)
#undef X
    };
    MAKE(t, Ntff__TraceInfo, ntff__trace_info__init);
    t->ring = (Ntff__RingKind)ring;
    t->trace_type = (Ntff__NotificationTraceType)types[ring].trace;
    t->block_type = (Ntff__BlockType)types[ring].block;
    t->nc_idx = nc;
    t->engine_index = engine;
    t->buffer_size = 1024;
    if (records)
        s->rings[s->n_rings++] = (struct ntff_ring_source){t, ntff_source_memory(records, n * KYMO_RECORD_SIZE)};
    return t;
}

static void set_counters(Ntff__TraceInfo *t, uint64_t emitted, uint64_t dropped)
{
    t->emitted_oneof_case = NTFF__TRACE_INFO__EMITTED_ONEOF_EMITTED;
    t->emitted = emitted;
    t->dropped_oneof_case = NTFF__TRACE_INFO__DROPPED_ONEOF_DROPPED;
    t->dropped = dropped;
}

/* Start and end of n instructions of each engine. */
static uint8_t *instruction_records(struct ntff_sample *s, uint32_t n, size_t *ret_n)
{
    uint8_t *out = blob(s, (size_t)n * KYMO_ENGINE_MAX * 2 * KYMO_RECORD_SIZE);
    size_t k = 0;
    uint64_t ts = START_PS;
    for (uint32_t i = 0; i < n; i++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++) {
            const struct record start = {.kind = RECORD_INSTRUCTION_START,
                                         .ts_ps = ts += 1500,
                                         .u.start = {.engine = e, .pc = 1 + i, .event_wait_cycles = (uint16_t)(i * 3)}};
            const struct record end = {
                .kind = RECORD_INSTRUCTION_END, .ts_ps = ts + 900, .u.end = {.engine = e, .pc = 1 + i}};
            record_encode(&start, out + KYMO_RECORD_SIZE * k++);
            record_encode(&end, out + KYMO_RECORD_SIZE * k++);
        }
    *ret_n = k;
    return out;
}

/* One of each of the rarer kinds. */
static uint8_t *mixed_records(struct ntff_sample *s, size_t *ret_n)
{
    const struct record list[] = {
        {.kind = RECORD_EXPLICIT, .u.explicit_ = {.engine = KYMO_ENGINE_SYNC, .extended_hint = RECORD_STATUS_START}},
        {.kind = RECORD_DGE_METADATA,
         .u.dge = {.engine = KYMO_ENGINE_GPSIMD, .pc = 3, .dma_engines = 0x8001, .packets_per_engine = 4096}},
        {.kind = RECORD_EVENT_SEMAPHORE,
         .u.sem = {.engine = KYMO_ENGINE_VECTOR, .id = 9, .is_semaphore = true, .update_mode = 0x13, .value = 7}},
        {.kind = RECORD_EVENT_SEMAPHORE,
         .u.sem = {.engine = RECORD_ENGINE_AXI, .id = 12, .is_semaphore = true, .update_mode = 5, .value = 16}},
        {.kind = RECORD_ERROR, .u.error = {.group = 2, .block_id = 5, .cause = 0x10}},
        {.kind = RECORD_ERROR, .u.error = {.warning = true, .group = 1, .block_id = 6, .cause = 0x20}},
        {.kind = RECORD_TPB_ERROR, .u.tpb_error = {.id = 1, .metadata = 0x123456789abcull}, .sw_overflow = true},
        {.kind = RECORD_HAM, .u.raw = {.low = 0x40201, .high = 5}, .phase = true},
        {.kind = RECORD_UNKNOWN, .type = 0x1a, .u.raw = {.low = 1, .high = 2}, .hw_overflow = true, .phase = true},
        {.kind = RECORD_EXPLICIT,
         .u.explicit_ = {.engine = KYMO_ENGINE_SYNC, .extended_hint = RECORD_STATUS_END},
         .phase = true},
    };
    size_t n = sizeof list / sizeof *list;
    uint8_t *out = blob(s, n * KYMO_RECORD_SIZE);
    for (size_t i = 0; i < n; i++) {
        struct record r = list[i];
        r.ts_ps = START_PS + i * 1000;
        record_encode(&r, out + i * KYMO_RECORD_SIZE);
    }
    *ret_n = n;
    return out;
}

/* Every assigned DMA kind once, then n packets. */
static uint8_t *dma_records(struct ntff_sample *s, uint32_t n, size_t *ret_n)
{
    uint8_t *out = blob(s, (16 + 2 * (size_t)n) * KYMO_RECORD_SIZE);
    size_t k = 0;
    for (uint8_t kind = 0; kind < 16; kind++) {
        const struct record r = {
            .kind = RECORD_DMA,
            .ts_ps = START_PS + kind,
            .u.dma = {.kind = kind, .queue = 2, .byte_count = 512, .axi_id = 3, .address = 0x12345678}};
        record_encode(&r, out + KYMO_RECORD_SIZE * k++);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct record open = {.kind = RECORD_DMA,
                                    .ts_ps = START_PS + 2000 * (i + 1ull),
                                    .u.dma = {.kind = RECORD_DMA_M2S_START, .queue = 2}};
        const struct record close = {.kind = RECORD_DMA,
                                     .ts_ps = START_PS + 2000 * (i + 1ull) + 700,
                                     .u.dma = {.kind = RECORD_DMA_S2M_END, .queue = 2, .byte_count = 2048 + i}};
        record_encode(&open, out + KYMO_RECORD_SIZE * k++);
        record_encode(&close, out + KYMO_RECORD_SIZE * k++);
    }
    *ret_n = k;
    return out;
}

static void build_model(struct ntff_sample *s)
{
    s->info = base_info(1, 2, NTFF__CAPTURE_MODE__MODE_MODEL);
    Ntff__NeffNodeInfo *node = add_node(s->info, "model.neff", 0xa1);
    Ntff__SubgraphInfo *g = add_graph(node, 2);
    add_image(s, g, NTFF__NC_ENGINE_TYPE__ENGINE_PE, 6, 0);
    add_image(s, g, NTFF__NC_ENGINE_TYPE__ENGINE_ACT, 4, 1);
    add_image(s, g, NTFF__NC_ENGINE_TYPE__ENGINE_SP, 3, 0);
    add_patch(g, NTFF__NC_ENGINE_TYPE__ENGINE_PE, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_INSERT, 2, 1);
    add_patch(g, NTFF__NC_ENGINE_TYPE__ENGINE_PE, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY, 3, 1);
    add_patch(g, NTFF__NC_ENGINE_TYPE__ENGINE_PE, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE, 4, 2);
    add_queue(g, 0, NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INPUT, "qSyncIO0", 2);
    add_queue(g, 3, NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_WEIGHTS, "qWeights", 1);
    size_t n;
    const uint8_t *records = instruction_records(s, 4, &n);
    APPEND(g, traces, new_trace(s, KYMO_RING_INSTRUCTION, 2, 0, records, n));
    set_counters(g->traces[0], n, 0);
    records = mixed_records(s, &n);
    for (enum kymo_ring ring = KYMO_RING_EVENT; ring < KYMO_RING_MAX; ring++) {
        Ntff__TraceInfo *t;
        if (ring == KYMO_RING_DMA || ring == KYMO_RING_H2D_DMA) {
            size_t m;
            const uint8_t *dma = dma_records(s, 3, &m);
            t = new_trace(s, ring, 2, ring == KYMO_RING_DMA ? 3 : 129, dma, m);
            set_counters(t, m, 0);
        } else {
            t = new_trace(s, ring, 2, 0, records, n);
            /* A loss in EVENT, no counters in THROTTLE, counters that contradict in ERROR. */
            if (ring != KYMO_RING_THROTTLE)
                set_counters(t, n + (ring == KYMO_RING_EVENT ? 25 : 0),
                             ring == KYMO_RING_EVENT ? 25 : ring == KYMO_RING_ERROR);
        }
        APPEND(g, traces, t);
    }
}

static void add_execution(Ntff__NtffInfo *info, uint32_t node, uint64_t start_ps)
{
    MAKE(x, Ntff__ExecutionInfo, ntff__execution_info__init);
    x->index = (uint32_t)info->n_execution_timeline;
    x->neff_node = node;
    x->start_ps = start_ps;
    x->end_ps = start_ps + MS;
    x->model_id = info->neff_nodes[node]->model_id;
    APPEND(info, execution_timeline, x);
}

static void build_session(struct ntff_sample *s)
{
    s->info = base_info(2, 4, NTFF__CAPTURE_MODE__MODE_SESSION);
    s->info->session_id = 7;
    for (uint8_t i = 0; i < 2; i++) {
        Ntff__NeffNodeInfo *node = add_node(s->info, i ? "decode.neff" : "prefill.neff", (uint8_t)(0xb0 + i));
        for (uint32_t nc = 4; nc < 6; nc++)
            add_image(s, add_graph(node, nc), NTFF__NC_ENGINE_TYPE__ENGINE_POOL, 3 + i, 0);
    }
    add_execution(s->info, 0, START_PS);
    add_execution(s->info, 1, START_PS + 2 * MS);
    size_t n;
    const uint8_t *records = instruction_records(s, 3, &n);
    /* Core 4's ring in three pieces around core 5's, the middle one empty. */
    APPEND(s->info, session_notifications, new_trace(s, KYMO_RING_INSTRUCTION, 4, 0, records, 11));
    APPEND(s->info, session_notifications, new_trace(s, KYMO_RING_INSTRUCTION, 5, 0, records, n));
    APPEND(s->info, session_notifications, new_trace(s, KYMO_RING_INSTRUCTION, 4, 0, NULL, 0));
    APPEND(s->info, session_notifications,
           new_trace(s, KYMO_RING_INSTRUCTION, 4, 0, records + 11 * KYMO_RECORD_SIZE, n - 11));
    set_counters(s->info->session_notifications[1], n, 0);
    set_counters(s->info->session_notifications[3], n + 4, 4);
    records = dma_records(s, 5, &n);
    for (uint32_t e = 0; e < 3; e++) {
        APPEND(s->info, session_notifications, new_trace(s, KYMO_RING_DMA, 4 + e % 2, e, records, n));
        set_counters(s->info->session_notifications[4 + e], n, 0);
    }
}

static void build_idle(struct ntff_sample *s)
{
    s->info = base_info(1, 0, NTFF__CAPTURE_MODE__MODE_CONTINUOUS);
    s->info->host_dma = NTFF__HOST_DMA_STATE__HOST_DMA_OFF;
    Ntff__SubgraphInfo *g = add_graph(add_node(s->info, "idle.neff", 0xc1), 0);
    for (enum kymo_ring ring = KYMO_RING_INSTRUCTION; ring <= KYMO_RING_INFER_STATUS; ring++) {
        Ntff__TraceInfo *t = new_trace(s, ring, 0, 0, NULL, 0);
        set_counters(t, 0, 0);
        APPEND(g, traces, t);
    }
}

Ntff__SubgraphInfo *ntff_sample_graph(struct ntff_sample *s)
{
    return s->info->neff_nodes[0]->nd_node->graphs[0];
}

void ntff_sample_add_unknown(ProtobufCMessage *m, uint32_t number, ProtobufCWireType wire, const void *data, size_t n)
{
    m->unknown_fields = must(kymo_realloc_array(m->unknown_fields, m->n_unknown_fields + 1, sizeof *m->unknown_fields));
    uint8_t *copy = must(kymo_malloc(n));
    memcpy(copy, data, n);
    m->unknown_fields[m->n_unknown_fields++] = (ProtobufCMessageUnknownField){number, wire, n, copy};
}

static void build_unknown(struct ntff_sample *s)
{
    build_idle(s);
    add_queue(ntff_sample_graph(s), 1, NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_OUTPUT, "qOut", 2);
    Ntff__DmaQueueUsageInfo *queue = ntff_sample_graph(s)->dma_queue_usage[0];
    ntff_sample_add_unknown(&s->info->base, 77, PROTOBUF_C_WIRE_TYPE_VARINT, "\x96\x01", 2);
    ntff_sample_add_unknown(&s->info->neff_nodes[0]->base, 9, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, "\x03xyz", 4);
    ntff_sample_add_unknown(&s->info->neff_nodes[0]->base, 9, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                            "\x04\x08\x01\x10\x02", 5);
    ntff_sample_add_unknown(&ntff_sample_graph(s)->base, 18, PROTOBUF_C_WIRE_TYPE_64BIT, "\0\0\0\0\0\0\xf0\x3f", 8);
    ntff_sample_add_unknown(&ntff_sample_graph(s)->traces[2]->base, 5000, PROTOBUF_C_WIRE_TYPE_32BIT, "1234", 4);
    ntff_sample_add_unknown(&queue->desc_block_info[1]->base, 6, PROTOBUF_C_WIRE_TYPE_VARINT, "\x07", 1);
}

struct ntff_sample *ntff_sample_new(enum ntff_sample_kind kind)
{
    struct ntff_sample *s = must(KYMO_NEW(struct ntff_sample));
    if (kind == NTFF_SAMPLE_MODEL)
        build_model(s);
    else if (kind == NTFF_SAMPLE_SESSION)
        build_session(s);
    else if (kind == NTFF_SAMPLE_UNKNOWN)
        build_unknown(s);
    else
        build_idle(s);
    return s;
}

void ntff_sample_freep(struct ntff_sample **s)
{
    if (!*s)
        return;
    ntff__ntff_info__free_unpacked((*s)->info, NULL);
    for (size_t i = 0; i < (*s)->n_blobs; i++)
        kymo_free((*s)->blobs[i]);
    kymo_free(*s);
    *s = NULL;
}

const char *ntff_sample_name(enum ntff_sample_kind kind)
{
    static const char *const names[NTFF_SAMPLE_MAX] = {"model", "session", "idle", "unknown"};
    return names[kind];
}

int ntff_sample_write(struct ntff_sample *s, const char *path, struct kymo_err *err)
{
    return ntff_writer_write(path, s->info, s->images, s->n_images, s->rings, s->n_rings, err);
}

#define FILE_MAX (64u << 20)

uint8_t *ntff_sample_read(const char *path, size_t *ret_n)
{
    uint8_t *data;
    if (kymo_file_read_all(path, FILE_MAX, &data, ret_n, NULL) < 0)
        abort();
    return data;
}

void ntff_sample_put(const char *path, const void *data, size_t n)
{
    if (kymo_file_write_atomic(path, data, n, NULL) < 0)
        abort();
}

void ntff_sample_assemble(const char *path, const uint8_t *file, const void *protobuf, size_t n)
{
    struct ntff_header old, h;
    if (ntff_header_decode(file, kymo_le64(file + 0x38), path, &old, NULL) < 0)
        abort();
    h = old;
    h.protobuf_size = n;
    h.protobuf_crc32c = kymo_crc32c(0, protobuf, n);
    if (ntff_header_lay_out(&h) < 0)
        abort();
    uint8_t *bytes KYMO_FREE = must(kymo_calloc(1, h.file_size));
    ntff_header_encode(&h, bytes);
    memcpy(bytes + NTFF_HEADER_SIZE, protobuf, n);
    memcpy(bytes + h.instruction_base, file + old.instruction_base, h.instruction_size);
    memcpy(bytes + h.notification_base, file + old.notification_base, h.notification_size);
    ntff_sample_put(path, bytes, h.file_size);
}

static size_t put_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

void ntff_sample_write_foreign(const char *path)
{
    enum { NODES = 3, DRIVER_VERSION = 11, UNKNOWN = 13, TAIL = 256 };
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    size_t room = NTFF_HEADER_SIZE + ntff__neff_node_info__get_packed_size(s->info->neff_nodes[0]) + 64 + TAIL;
    uint8_t *file KYMO_FREE = must(kymo_calloc(1, room));
    for (size_t i = 0; i < NTFF_HEADER_SIZE; i++)
        file[i] = (uint8_t)(i * 37 + 11);
    size_t at = NTFF_HEADER_SIZE;
    at += put_varint(file + at, NODES << 3 | 2);
    at += put_varint(file + at, ntff__neff_node_info__get_packed_size(s->info->neff_nodes[0]));
    at += ntff__neff_node_info__pack(s->info->neff_nodes[0], file + at);
    at += put_varint(file + at, DRIVER_VERSION << 3); /* a varint, where the facts say a message */
    at += put_varint(file + at, 2);
    at += put_varint(file + at, UNKNOWN << 3);
    at += put_varint(file + at, 300);
    kymo_put_le64(file + 0x10, at - NTFF_HEADER_SIZE);
    for (size_t i = 0; i < TAIL; i++)
        file[at + i] = (uint8_t)(i < 16 ? 0 : i * 5);
    ntff_sample_put(path, file, at + TAIL);
}
