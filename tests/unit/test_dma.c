/* DMA packets: pairing across losses, assignment to triggers, and grouping into transfers against
 * tests/vectors/dma_group.jsonl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "base/file.h"
#include "formats/ntff/ntff_writer.h"
#include "pipeline/dma/dma_assign.h"
#include "pipeline/dma/dma_stream.h"
#include "pipeline/dma/dma_transfers.h"
#include "tests/unit/vectors.h"

#define PACKETS_MAX 256
#define TRANSFERS_MAX 64

/* ---- grouping ---- */

struct grouped {
    struct dma_transfer out[TRANSFERS_MAX];
    size_t n;
    int64_t of_packet[PACKETS_MAX]; /* id */
};

static int take_transfer(void *ctx, const struct dma_transfer *t, bool complete, struct kymo_err *err)
{
    struct grouped *g = ctx;
    (void)err;
    assert_true(complete);
    assert_true(g->n < TRANSFERS_MAX);
    assert_int_equal(t->id, g->n); /* in order of the first packet */
    g->out[g->n++] = *t;
    return 0;
}

static const char *text_or_empty(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static bool same_block(const json_t *a, const json_t *b)
{
    return vectors_int(a, "pcore") == vectors_int(b, "pcore") && vectors_int(a, "block") == vectors_int(b, "block") &&
           !strcmp(vectors_string(a, "queue"), vectors_string(b, "queue")) &&
           !strcmp(text_or_empty(a, "function"), text_or_empty(b, "function"));
}

static bool same_group(const json_t *a, const json_t *b)
{
    return vectors_int(a, "pcore") == vectors_int(b, "pcore") &&
           !strcmp(vectors_string(a, "queue"), vectors_string(b, "queue"));
}

/* Group: first packet of the same queue set; entry: first packet of the same block. */
static struct dma_transfer proto_of(json_t *packets, size_t i)
{
    const json_t *p = json_array_get(packets, i);
    struct dma_transfer t = {.block = DMA_NONE, .group = UINT32_MAX, .entry = UINT64_MAX, .trigger_number = UINT32_MAX};
    for (size_t k = 0; k < json_array_size(packets); k++) {
        const json_t *o = json_array_get(packets, k);
        if (same_group(o, p) && t.group == UINT32_MAX)
            t.group = (uint32_t)k;
        if (!same_block(o, p))
            continue;
        t.entry = t.entry == UINT64_MAX ? k : t.entry;
        t.expected++;
    }
    return t;
}

static json_t *sorting;

static int by_start(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int64_t s = vectors_int(json_array_get(sorting, x), "start_ns"),
            t = vectors_int(json_array_get(sorting, y), "start_ns");
    return s != t ? (s < t ? -1 : 1) : x < y ? -1 : x > y;
}

static void group_packets(json_t *packets, struct grouped *g)
{
    struct kymo_err err = {0};
    struct dma_transfers *t;
    size_t n = json_array_size(packets), order[PACKETS_MAX] = {0};
    assert_true(n <= PACKETS_MAX);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    sorting = packets;
    qsort(order, n, sizeof *order, by_start);
    assert_int_equal(dma_transfers_new(PACKETS_MAX, take_transfer, g, &t, &err), 0);
    for (size_t i = 0; i < n; i++) {
        const json_t *p = json_array_get(packets, order[i]);
        struct dma_transfer proto = proto_of(packets, order[i]);
        int32_t index;
        assert_int_equal(dma_transfers_add(t, &proto, false, vectors_int(p, "start_ns"), vectors_int(p, "end_ns"),
                                           (uint64_t)vectors_int(p, "bytes"), &g->of_packet[order[i]], &index, &err),
                         0);
        assert_int_equal(dma_transfers_flush(t, &err), 0);
    }
    assert_int_equal(dma_transfers_finish(t, &err), 0);
    assert_int_equal(dma_transfers_forced(t), 0);
    dma_transfers_free(t);
}

static void check_line(json_t *line, void *ctx)
{
    (void)ctx;
    struct grouped g = {0};
    group_packets(json_object_get(line, "packets"), &g);
    json_t *want = json_object_get(json_object_get(line, "expect"), "transfers");
    assert_int_equal(g.n, json_array_size(want));
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *w = json_array_get(want, i), *members = json_object_get(w, "packets");
        int64_t id = g.of_packet[json_integer_value(json_array_get(members, 0))];
        for (size_t k = 0; k < json_array_size(members); k++)
            assert_int_equal(g.of_packet[json_integer_value(json_array_get(members, k))], id);
        assert_int_equal(g.out[id].start, vectors_int(w, "start_ns"));
        assert_int_equal(g.out[id].end, vectors_int(w, "end_ns"));
        assert_int_equal(g.out[id].bytes, vectors_int(w, "bytes"));
        assert_int_equal(g.out[id].whole, json_array_size(members));
    }
}

static void test_vectors(void **state)
{
    (void)state;
    assert_int_equal(vectors_each("tests/vectors/dma_group.jsonl", check_line, NULL), 36);
}

/* ---- assignment ---- */

#define PHYS 3 /* engine 0, queue 3 */

struct bench {
    char dir[32];
    struct dma_share share;
    struct dma_block blocks[2];
    struct dma_queues queues;
    struct spill *triggers;
    struct dma_assign assign;
};

static void bench_open(struct bench *b)
{
    memset(b, 0, sizeof *b);
    (void)snprintf(b->dir, sizeof b->dir, "/tmp/kymo-dma-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    b->share = (struct dma_share){PHYS, 2}; /* each block has two packets here */
    for (unsigned i = 0; i < 2; i++)
        b->blocks[i] = (struct dma_block){.id = i, .packets = 2, .shares = &b->share, .share_count = 1};
    b->queues = (struct dma_queues){.blocks = b->blocks, .block_count = 2};
    assert_int_equal(spill_open(b->dir, sizeof(struct dma_trigger), &b->triggers, NULL), 0);
}

static void bench_trigger(struct bench *b, enum dma_trigger_kind kind, uint32_t block, uint64_t ps)
{
    struct dma_trigger t = {.kind = (uint8_t)kind, .block = block, .start_ps = ps, .end_ps = ps + 10, .effect_ps = ps};
    assert_int_equal(spill_append(b->triggers, &t, NULL), 0);
}

static void bench_start(struct bench *b)
{
    assert_int_equal(spill_seal(b->triggers, NULL), 0);
    assert_int_equal(dma_assign_init(&b->assign, &b->queues, PHYS, b->triggers, NULL), 0);
}

/* Place of the packet's trigger, -1: none. idle_since 0: the queue was busy. */
static int64_t bench_packet(struct bench *b, uint64_t start, uint64_t idle_since)
{
    struct dma_event e = {.start_ps = start,
                          .end_ps = start + 5,
                          .has_start = true,
                          .has_end = true,
                          .idle = idle_since > 0,
                          .idle_since_ps = idle_since};
    struct dma_trigger t;
    uint64_t entry = 0;
    bool moved;
    int r = dma_assign_packet(&b->assign, &e, &t, &entry, &moved, NULL);
    assert_true(r >= 0);
    return r ? (int64_t)entry : -1;
}

static void bench_close(struct bench *b)
{
    dma_assign_done(&b->assign);
    spill_free(b->triggers);
    assert_int_equal(kymo_file_remove_tree(b->dir, NULL), 0);
}

static void test_follow(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    for (unsigned i = 0; i < 3; i++)
        bench_trigger(&b, DMA_TRIGGER_BLOCK, i % 2, 100 + 100 * i);
    bench_start(&b);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(bench_packet(&b, 1000 + i, 0), i / 2);
    assert_int_equal(bench_packet(&b, 2000, 0), -1); /* no trigger is left */
    assert_int_equal(b.assign.strays, 1);
    bench_close(&b);
}

static void test_resync(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    for (unsigned i = 0; i < 4; i++)
        bench_trigger(&b, DMA_TRIGGER_BLOCK, i % 2, 100 + 100 * i);
    bench_start(&b);
    assert_int_equal(bench_packet(&b, 110, 50), 0);
    dma_assign_gap(&b.assign);
    assert_int_equal(bench_packet(&b, 230, 0), -1);   /* the queue is busy: whose it is cannot be told */
    assert_int_equal(bench_packet(&b, 260, 240), -1); /* idle, but no trigger came since */
    assert_int_equal(bench_packet(&b, 310, 270), 2);  /* idle before the third trigger */
    assert_int_equal(bench_packet(&b, 320, 0), 2);
    assert_int_equal(bench_packet(&b, 410, 0), 3);
    assert_true(dma_assign_over(&b.assign, 2));
    assert_false(dma_assign_over(&b.assign, 3));
    dma_assign_end(&b.assign);
    assert_true(dma_assign_over(&b.assign, 3));
    bench_close(&b);
}

/* Triggers may be missing between the first and the last. */
static void test_lost_triggers(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    bench_trigger(&b, DMA_TRIGGER_BLOCK, 0, 100);
    bench_trigger(&b, DMA_TRIGGER_GAP, DMA_NONE, 300);
    bench_trigger(&b, DMA_TRIGGER_BLOCK, 1, 400);
    bench_start(&b);
    assert_int_equal(bench_packet(&b, 110, 50), 0);
    assert_int_equal(bench_packet(&b, 120, 0), 0);
    assert_int_equal(bench_packet(&b, 210, 130), -1);
    assert_int_equal(bench_packet(&b, 220, 215), -1);
    assert_int_equal(bench_packet(&b, 410, 330), 2);
    bench_close(&b);
}

/* A packet that ran before its trigger shows that the place is wrong. */
static void test_early(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    bench_trigger(&b, DMA_TRIGGER_BLOCK, 0, 100);
    bench_start(&b);
    assert_int_equal(bench_packet(&b, 50, 10), -1);
    assert_int_equal(bench_packet(&b, 60, 55), -1);
    assert_int_equal(bench_packet(&b, 130, 70), 0);
    bench_close(&b);
}

/* ---- one ring ---- */

#define RECORDS_MAX 64

struct ring {
    uint8_t bytes[RECORDS_MAX * KYMO_RECORD_SIZE];
    size_t n;
};

enum mark { PLAIN, LOST_BEFORE, LOST_AFTER };

static void ring_add(struct ring *r, uint8_t kind, uint8_t queue, uint64_t ps, uint32_t bytes, enum mark mark)
{
    struct record rec = {.kind = RECORD_DMA,
                         .type = 2,
                         .ts_ps = ps,
                         .sw_overflow = mark == LOST_BEFORE,
                         .hw_overflow = mark == LOST_AFTER};
    rec.u.dma.kind = kind;
    rec.u.dma.queue = queue;
    rec.u.dma.byte_count = bytes;
    record_encode(&rec, r->bytes + r->n++ * KYMO_RECORD_SIZE);
}

#define OPEN(q, ps) ring_add(&ring, RECORD_DMA_M2S_START, q, ps, 0, PLAIN)
#define CLOSE(q, ps) ring_add(&ring, RECORD_DMA_S2M_END, q, ps, (uint32_t)(ps), PLAIN)

/* Writes a profile of this one ring and gives its packets. */
static size_t ring_packets(const struct ring *ring, struct dma_event *out, size_t max)
{
    char dir[] = "/tmp/kymo-ring-XXXXXX", path[64];
    struct kymo_err err = {0};
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/a.ntff", dir);
    Ntff__TraceInfo trace = NTFF__TRACE_INFO__INIT, *traces[] = {&trace};
    trace.ring = NTFF__RING_KIND__RING_DMA;
    trace.trace_type = NTFF__NOTIFICATION_TRACE_TYPE__TRACE_TYPE_DMA;
    trace.block_type = NTFF__BLOCK_TYPE__BLOCK_TYPE_DMA;
    trace.buffer_size = 1 << 20;
    Ntff__SubgraphInfo graph = NTFF__SUBGRAPH_INFO__INIT, *graphs[] = {&graph};
    graph.n_traces = 1;
    graph.traces = traces;
    Ntff__NdNodeInfo nd = NTFF__ND_NODE_INFO__INIT;
    nd.n_graphs = 1;
    nd.graphs = graphs;
    Ntff__NeffNodeInfo node = NTFF__NEFF_NODE_INFO__INIT, *nodes[] = {&node};
    node.node_info_case = NTFF__NEFF_NODE_INFO__NODE_INFO_ND_NODE;
    node.nd_node = &nd;
    Ntff__NtffInfo info = NTFF__NTFF_INFO__INIT;
    info.ntff_version = NTFF_VERSION;
    info.arch = (char *)(size_t) "Trn2";
    info.lnc_size = 1;
    info.n_neff_nodes = 1;
    info.neff_nodes = nodes;
    struct ntff_ring_source source = {&trace, ntff_source_memory(ring->bytes, ring->n * KYMO_RECORD_SIZE)};
    if (ntff_writer_write(path, &info, NULL, 0, &source, 1, &err) < 0)
        fail_msg("%s", err.text);
    struct warnings *w = warnings_new();
    struct input *in;
    struct timebase tb;
    struct timeline tl;
    struct scan scan;
    struct dma_stream *s;
    if (input_open(path, NULL, 0, NULL, w, &in, &err) < 0)
        fail_msg("%s", err.text);
    timebase_init(&tb, in);
    assert_int_equal(timeline_init(&tl, in, &tb, &err), 0);
    assert_int_equal(scan_run(&scan, in, &tb, &tl, NULL, NULL, &err), 0);
    assert_int_equal(dma_stream_open(in, &scan, 0, &s, &err), 0);
    const struct dma_event *e;
    size_t n = 0;
    for (int r; (r = dma_stream_peek(s, &e, &err)) > 0; dma_stream_pop(s)) {
        assert_true(n < max);
        out[n++] = *e;
    }
    dma_stream_free(s);
    scan_done(&scan);
    timeline_done(&tl);
    input_free(in);
    warnings_free(w);
    assert_int_equal(kymo_file_remove_tree(dir, NULL), 0);
    return n;
}

static void test_ring_fifo(void **state)
{
    (void)state;
    struct ring ring = {0};
    struct dma_event e[8];
    OPEN(1, 10);
    OPEN(2, 11);
    OPEN(1, 12);
    CLOSE(2, 20);
    ring_add(&ring, RECORD_DMA_M2S_END, 1, 21, 0, PLAIN); /* known, no packet */
    CLOSE(1, 22);
    CLOSE(1, 23);
    OPEN(1, 30);
    CLOSE(1, 31);
    assert_int_equal(ring_packets(&ring, e, 8), 4);
    static const uint64_t starts[] = {10, 11, 12, 30}, ends[] = {22, 20, 23, 31};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(e[i].start_ps, starts[i]);
        assert_int_equal(e[i].end_ps, ends[i]);
        assert_int_equal(e[i].bytes, ends[i]);
        assert_true(e[i].has_start && e[i].has_end);
    }
    assert_true(e[3].idle);
    assert_int_equal(e[3].idle_since_ps, 23);
    assert_false(e[2].idle);
}

/* Two packets were in flight at the loss: their closings come first after it, and take no packet of the new stretch. */
static void test_ring_loss(void **state)
{
    (void)state;
    struct ring ring = {0};
    struct dma_event e[16];
    OPEN(0, 10);
    ring_add(&ring, RECORD_DMA_M2S_START, 0, 11, 0, LOST_AFTER);
    OPEN(0, 50);
    CLOSE(0, 51);
    CLOSE(0, 52);
    CLOSE(0, 53);
    OPEN(0, 60);
    CLOSE(0, 61);
    OPEN(0, 70);
    assert_int_equal(ring_packets(&ring, e, 16), 8);
    assert_true(e[0].has_start && !e[0].has_end && e[0].reason == PAIR_LOST_AFTER);
    assert_true(e[1].has_start && !e[1].has_end && e[1].reason == PAIR_LOST_AFTER);
    assert_true(e[2].gap);
    assert_true(e[3].start_ps == 50 && e[3].end_ps == 53 && !e[3].idle);
    assert_true(!e[4].has_start && e[4].end_ps == 51 && e[4].reason == PAIR_LOST_BEFORE);
    assert_true(!e[5].has_start && e[5].end_ps == 52);
    assert_true(e[6].start_ps == 60 && e[6].end_ps == 61 && e[6].idle && e[6].idle_since_ps == 53);
    assert_true(e[7].start_ps == 70 && !e[7].has_end && e[7].reason == PAIR_OPEN_AT_END);
}

/* Tracing began while a packet was in flight. */
static void test_ring_open_at_start(void **state)
{
    (void)state;
    struct ring ring = {0};
    struct dma_event e[8];
    CLOSE(5, 10);
    OPEN(5, 20);
    CLOSE(5, 21);
    assert_int_equal(ring_packets(&ring, e, 8), 2);
    assert_true(!e[0].has_start && e[0].reason == PAIR_OPEN_AT_START);
    assert_true(e[1].start_ps == 20 && e[1].end_ps == 21);
}

static uint32_t copy_between(struct dma_copies *c, const struct neff_subgraph *sg, uint64_t from, uint64_t to,
                             enum dma_memory from_memory, enum dma_memory to_memory)
{
    const struct kymo_arch *arch = kymo_arch_get(KYMO_GEN_TRN2);
    uint8_t rec[KYMO_INSTR_SIZE];
    uint32_t ret = 0;
    kymo_instr_init(rec, KYMO_OP_PSEUDO_DMA_DIRECT2D);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_SRC_ADDR64, from), 0);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_DST_ADDR64, to), 0);
    assert_int_equal(dma_copies_add(c, arch, sg, 3, rec, from_memory, to_memory, &ret, NULL), 0);
    return ret;
}

/* The tensor that a dynamic DMA names, and what names none. */
static void test_copies(void **state)
{
    (void)state;
    const struct neff_var vars[] = {{.name = "in", .type = "input", .var_id = 0, .size = 4096},
                                    {.name = "out", .type = "output", .var_id = 1, .size = 4096},
                                    {.name = "sbuf", .type = "state-buffer", .var_id = 2, .size = 4096}};
    const struct neff_subgraph sg = {.vars = vars, .var_count = 3};
    const uint64_t in = kymo_addr64_of_variable((struct kymo_var_ref){0, 64});
    const uint64_t out = kymo_addr64_of_variable((struct kymo_var_ref){1, 0});
    const uint64_t sbuf = kymo_addr64_of_variable((struct kymo_var_ref){2, 0});
    const uint64_t other = kymo_addr64_of_variable((struct kymo_var_ref){9, 0}), table = 0x2000000100000000;
    struct dma_copies c = {0};
    assert_int_equal(copy_between(&c, &sg, in, sbuf, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), 0);
    assert_string_equal(c.list[0].variable, "in");
    assert_ptr_equal(c.list[0].to_var, &vars[2]);
    assert_int_equal(copy_between(&c, &sg, sbuf, out, DMA_MEMORY_UNKNOWN, DMA_MEMORY_UNKNOWN), 1);
    assert_string_equal(c.list[1].variable, "out");
    assert_true(c.list[1].from == DMA_MEMORY_SBUF && c.list[1].to == DMA_MEMORY_HBM);
    assert_int_equal(copy_between(&c, &sg, in, sbuf, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), 0);
    /* The chip's side may have number 0 whatever variable that is. */
    assert_int_equal(copy_between(&c, &sg, in, in, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), 2);
    assert_string_equal(c.list[2].variable, "in");
    assert_null(c.list[2].to_var);
    assert_int_equal(copy_between(&c, &sg, table, sbuf, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), DMA_NONE);
    assert_int_equal(copy_between(&c, &sg, other, sbuf, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), DMA_NONE);
    assert_int_equal(copy_between(&c, &sg, 0x1000, sbuf, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), DMA_NONE);
    assert_int_equal(copy_between(&c, NULL, in, sbuf, DMA_MEMORY_HBM, DMA_MEMORY_SBUF), DMA_NONE);
    assert_int_equal(c.count, 3);
    dma_copies_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_resync),
        cmocka_unit_test(test_lost_triggers),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_ring_fifo),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_ring_loss),
        cmocka_unit_test(test_ring_open_at_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
