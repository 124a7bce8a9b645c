/* The engine models on hand-made programs: outcomes that can be worked out by hand, and properties over random values.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/le.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_record.h"
#include "driver-iface/sim/sim_truth_internal.h"
#include "tests/unit/sim_sample.h"

#define START_PS 1000000000ull
#define RING_MAX 65536
#define TYPE(r) ((unsigned)((r).low >> 24 & 31))

struct rec {
    uint64_t low, ts;
};

/* Rings in memory; a ring takes `room` more records. */
struct memory {
    struct rec *rings[KYMO_RING_PLAN_MAX];
    size_t count[KYMO_RING_PLAN_MAX];
    size_t room[KYMO_RING_PLAN_MAX];
    bool no_marks;
};

static bool put(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE])
{
    struct memory *m = ctx;
    if (!m->room[ring] || m->count[ring] == RING_MAX)
        return false;
    m->room[ring]--;
    m->rings[ring][m->count[ring]++] = (struct rec){kymo_le64(record), kymo_le64(record + 8)};
    return true;
}

static bool mark_last(void *ctx, size_t ring)
{
    struct memory *m = ctx;
    if (m->no_marks)
        return false;
    m->rings[ring][m->count[ring] - 1].low |= SIM_MARK_LOST_AFTER;
    return true;
}

/* A device with one armed logical core, core 0. */
struct bench {
    const struct kymo_arch *arch;
    struct sim_core *core;
    struct sim_truth *truth;
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t n;
    struct memory memory;
};

static const char *no_env(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return NULL;
}

static struct bench *bench_new(enum kymo_generation gen, unsigned lnc, bool drift, uint64_t seed)
{
    struct bench *b = KYMO_NEW(struct bench);
    assert_non_null(b);
    b->arch = kymo_arch_get(gen);
    struct sim_config config = {
        .arch = b->arch, .lnc = lnc, .seed = seed, .drift = drift, .dge_notifications = true, .start_ps = START_PS};
    assert_int_equal(sim_core_new(&config, &b->core, NULL), 0);
    b->truth = sim_truth_new(true);
    struct kymo_ring_sizes sizes;
    assert_int_equal(kymo_ring_sizes_from_env(no_env, NULL, &sizes, NULL), 0);
    b->n = kymo_ring_plan(b->arch, 0, lnc, "2.31.0", &sizes, b->plan);
    for (size_t i = 0; i < b->n; i++) {
        b->memory.rings[i] = KYMO_NEW_ARRAY(struct rec, RING_MAX);
        assert_non_null(b->memory.rings[i]);
        b->memory.room[i] = SIZE_MAX;
    }
    return b;
}

static void bench_arm(struct bench *b)
{
    struct sim_ring_sink sink = {.put = put, .mark_last = mark_last, .ctx = &b->memory};
    assert_int_equal(sim_core_arm(b->core, 0, b->plan, b->n, sink, b->truth, NULL), 0);
}

static void bench_free(struct bench *b)
{
    sim_core_free(b->core);
    sim_truth_free(b->truth);
    for (size_t i = 0; i < b->n; i++)
        kymo_free(b->memory.rings[i]);
    kymo_free(b);
}

static size_t ring_of(const struct bench *b, enum kymo_ring ring, unsigned pcore, unsigned engine)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->plan[i].ring == ring && b->plan[i].pcore_idx == pcore && b->plan[i].engine_index == engine)
            return i;
    fail_msg("no ring");
    return 0;
}

static struct sim_image *image_of(const struct bench *b, const struct sample *s, unsigned lnc)
{
    struct kymo_err err = {0};
    struct sim_image *im = NULL;
    if (sim_image_build(b->arch, lnc, sample_neff(s, lnc), 7, &im, &err) < 0)
        fail_msg("%s", err.text);
    return im;
}

static struct sim_exec_result execute(struct bench *b, struct sim_image *im, bool fail)
{
    struct kymo_err err = {0};
    struct sim_exec_result result = {0};
    if (sim_core_execute(b->core, 0, im, fail, &result, &err) < 0)
        fail_msg("%s", err.text);
    return result;
}

/* Rows of one engine and slot in the truth. */
static size_t find_rows(const struct bench *b, enum kymo_engine e, uint32_t slot, const struct sim_truth_instr *ret[],
                        size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < b->truth->instructions.count && n < max; i++)
        if (b->truth->instructions.rows[i].engine == e && b->truth->instructions.rows[i].slot == slot)
            ret[n++] = &b->truth->instructions.rows[i];
    return n;
}

static uint32_t main_slot(const struct sim_image *im, enum kymo_engine e, uint32_t compiler_pc)
{
    const struct sim_engine_image *ei = &im->cores[0].engines[e];
    for (uint32_t s = 0; s < ei->count; s++)
        if (ei->compiler_pc[s] == (int32_t)compiler_pc)
            return s;
    fail_msg("compiler pc %u is not in the image", compiler_pc);
    return 0;
}

/* The one row of a compiler's instruction. */
static const struct sim_truth_instr *only_row(const struct bench *b, const struct sim_image *im, enum kymo_engine e,
                                              uint32_t compiler_pc)
{
    const struct sim_truth_instr *rows[2] = {NULL, NULL};
    assert_int_equal(find_rows(b, e, main_slot(im, e, compiler_pc), rows, 2), 1);
    return rows[0];
}

/* Vector waits for a semaphore that Scalar raises when its instruction is done. */
static void test_wait(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE), KYMO_UPD_INC | KYMO_UPD_COMPLETE, 20, 0);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_COPY), KYMO_WAIT_GE, 20, 1);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    struct sim_exec_result x = execute(b, im, false);
    assert_int_equal(x.status, 0);
    const struct sim_truth_instr *up = only_row(b, im, KYMO_ENGINE_SCALAR, 0);
    const struct sim_truth_instr *wait = only_row(b, im, KYMO_ENGINE_VECTOR, 0);
    assert_true(wait->start_ps < up->end_ps && wait->end_ps > up->end_ps);
    double cycles = (double)(up->end_ps - wait->start_ps) * b->arch->clock_ghz[KYMO_ENGINE_VECTOR] / 1000;
    assert_int_equal(wait->wait_cycles, (int)cycles);
    assert_int_equal(wait->begin_ps, up->end_ps);
    assert_int_equal(up->begin_ps, up->start_ps);
    /* The edge from the update to the wait. */
    bool found = false;
    for (size_t i = 0; i < b->truth->edges.count; i++) {
        const struct sim_truth_edge_row *e = &b->truth->edges.rows[i];
        found = found || (e->kind == SIM_EDGE_SEMAPHORE && &b->truth->instructions.rows[e->from] == up &&
                          &b->truth->instructions.rows[e->to] == wait);
    }
    assert_true(found);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

static void loop(struct sample *s, enum kymo_engine e, unsigned times)
{
    uint8_t *rec = sample_op(s, e, KYMO_OP_ALU_OP);
    sample_set(s, rec, KYMO_F_REG_DST, 3);
    sample_set(s, rec, KYMO_F_REG_A, 3);
    sample_set(s, rec, KYMO_F_ALU_OP, KYMO_ALU_ADD);
    sample_set(s, rec, KYMO_F_VALUE, 1);
    rec = sample_op(s, e, KYMO_OP_COMPARE_BRANCH);
    sample_set(s, rec, KYMO_F_REG_A, 3);
    sample_set(s, rec, KYMO_F_BRANCH_OP, KYMO_BR_LT);
    sample_set(s, rec, KYMO_F_VALUE, times);
    sample_set(s, rec, KYMO_F_TARGET, (uint64_t)-2);
}

static void test_loop(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    (void)sample_op(s, KYMO_ENGINE_GPSIMD, KYMO_OP_NOP);
    loop(s, KYMO_ENGINE_GPSIMD, 5);
    (void)sample_op(s, KYMO_ENGINE_GPSIMD, KYMO_OP_HALT);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    const struct sim_truth_instr *rows[16];
    uint32_t first = main_slot(im, KYMO_ENGINE_GPSIMD, 0);
    assert_int_equal(find_rows(b, KYMO_ENGINE_GPSIMD, first, rows, 16), 5);
    assert_true(rows[0]->crc_in != rows[1]->crc_in);
    for (unsigned i = 1; i < 5; i++)
        assert_true(rows[i]->start_ps > rows[i - 1]->end_ps);
    assert_int_equal(find_rows(b, KYMO_ENGINE_GPSIMD, first + 3, rows, 16),
                     1); /* the NOP behind the branch: when it falls through */
    /* The ring: every start has its end, of one engine in order of time. */
    size_t ring = ring_of(b, KYMO_RING_INSTRUCTION, 0, 0);
    size_t starts = 0, ends = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < b->memory.count[ring]; i++) {
        struct rec r = b->memory.rings[ring][i];
        if (TYPE(r) != 0x0C && TYPE(r) != 0x0D)
            continue;
        assert_true(r.ts > last);
        last = r.ts;
        *(TYPE(r) == 0x0C ? &starts : &ends) += 1;
    }
    assert_int_equal(starts, ends);
    assert_int_equal(b->memory.count[ring], 2 * b->truth->instructions.count);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

#define QUEUE(type, n) "\"qSyncIO0\":{\"type\":\"" type "\",\"owner\":\"sp\",\"num_queues\":" #n ",\"semaphore\":7}"
#define BLOCK(bytes)                                                                                                   \
    "{\"id\":3,\"queue\":\"qSyncIO0\",\"desc\":{\"from\":\"a\",\"from_off\":0,\"from_sizes\":[" #bytes                 \
    "],\"from_steps\":[1],"                                                                                            \
    "\"to\":\"b\",\"to_off\":0,\"to_sizes\":[" #bytes "],\"to_steps\":[1]}}"

/* 20 packets on 16 rings: 4 engines carry two; all 16 rings report, whoever waits for 16 goes on after the last packet.
 */
static void test_dma_block(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    s->queues = QUEUE("in", 16);
    s->blocks = BLOCK(81920);
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_EVENT_SEMAPHORE), KYMO_WAIT_GE, 7, 16);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    assert_int_equal(b->truth->packets.count, 20);
    assert_int_equal(b->truth->transfers.count, 1);
    const struct sim_truth_transfer *x = &b->truth->transfers.rows[0];
    assert_int_equal(x->bytes, 81920);
    assert_true(x->complete);
    uint64_t bytes = 0, end = 0;
    for (size_t i = 0; i < 20; i++) {
        const struct sim_truth_packet *p = &b->truth->packets.rows[i];
        bytes += p->bytes;
        end = p->end_ps > end ? p->end_ps : end;
    }
    assert_int_equal(bytes, 81920);
    assert_int_equal(end, x->end_ps);
    const struct sim_truth_instr *wait = only_row(b, im, KYMO_ENGINE_TENSOR, 0);
    const struct sim_truth_instr *trigger = only_row(b, im, KYMO_ENGINE_SYNC, 0);
    assert_true(wait->end_ps > end && trigger->end_ps < x->start_ps);
    assert_int_equal(trigger->trigger_transfer, 0);
    for (unsigned e = 0; e < 16; e++)
        assert_int_equal(b->memory.count[ring_of(b, KYMO_RING_DMA, 0, e)], e < 4 ? 4 : 2);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

/* One packet on a set of 16 rings: the count is 16 all the same. */
static void test_dma_small_block(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    s->queues = QUEUE("out", 16);
    s->blocks = BLOCK(64);
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_EVENT_SEMAPHORE), KYMO_WAIT_EQ, 7, 16);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    assert_int_equal(b->truth->packets.count, 1);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

static void test_dynamic(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    s->queues = QUEUE("dynamic", 4);
    uint8_t *rec = sample_op(s, KYMO_ENGINE_SYNC, KYMO_OP_PSEUDO_DMA_DIRECT2D);
    sample_set(s, rec, KYMO_F_SRC_ELEM, 512);
    sample_set(s, rec, KYMO_F_SRC_COUNT0, 1);
    sample_set(s, rec, KYMO_F_SRC_COUNT1, 10);
    sample_set(s, rec, KYMO_F_DMA_SEM, 9);
    sample_set(s, rec, KYMO_F_DMA_SEM_INC, 16);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_EVENT_SEMAPHORE), KYMO_WAIT_EQ, 9, 16);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    /* Ten rows on four engines: three each, 5120 bytes in twelve packets. */
    assert_int_equal(b->truth->packets.count, 12);
    uint64_t bytes = 0;
    for (size_t i = 0; i < 12; i++)
        bytes += b->truth->packets.rows[i].bytes;
    assert_int_equal(bytes, 5120);
    size_t ring = ring_of(b, KYMO_RING_INSTRUCTION, 0, 0), found = 0;
    for (size_t i = 1; i < b->memory.count[ring]; i++) {
        struct rec r = b->memory.rings[ring][i], before = b->memory.rings[ring][i - 1];
        if (TYPE(r) != 0x16 || (r.low >> 20 & 15) != 1)
            continue;
        found++;
        assert_int_equal(r.low >> 32 & 0xFFFF, 0x000F);
        assert_int_equal(r.low >> 48 & 0xFFF, 3);
        assert_int_equal(TYPE(before), 0x14); /* right after its start, same pc */
        assert_int_equal(before.low & 0xFFFFF, r.low & 0xFFFFF);
    }
    assert_int_equal(found, 1);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

/* The INSTRUCTION ring takes 10, loses some, takes 5, loses the rest. */
static void test_overflow(void **state)
{
    (void)state;
    for (unsigned no_marks = 0; no_marks < 2; no_marks++) {
        struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
        struct sample *s = sample_new(b->arch);
        (void)sample_op(s, KYMO_ENGINE_GPSIMD, KYMO_OP_NOP);
        loop(s, KYMO_ENGINE_GPSIMD, 20);
        bench_arm(b);
        b->memory.no_marks = no_marks;
        struct sim_image *im = image_of(b, s, 1);
        size_t ring = ring_of(b, KYMO_RING_INSTRUCTION, 0, 0);
        b->memory.room[ring] = 10;
        (void)execute(b, im, false);
        uint64_t emitted, dropped, emitted1;
        sim_core_counters(b->core, 0, ring, &emitted1, &dropped);
        assert_int_equal(emitted1, 2 * b->truth->instructions.count);
        assert_int_equal(dropped, emitted1 - 10);
        b->memory.room[ring] = 5;
        (void)execute(b, im, false);
        sim_core_counters(b->core, 0, ring, &emitted, &dropped);
        assert_int_equal(emitted, 2 * emitted1);
        assert_int_equal(dropped, emitted - 15);
        const struct rec *r = b->memory.rings[ring];
        for (unsigned i = 0; i < 15; i++) {
            assert_int_equal((r[i].low & SIM_MARK_LOST_AFTER) != 0, !no_marks && (i == 9 || i == 14));
            assert_int_equal((r[i].low & SIM_MARK_LOST_BEFORE) != 0, i == 10);
            assert_true(r[i].low & SIM_MARK_PHASE);
        }
        size_t stored = 0;
        for (size_t i = 0; i < b->truth->instructions.count; i++)
            stored += b->truth->instructions.rows[i].start_stored + b->truth->instructions.rows[i].end_stored;
        assert_int_equal(stored, 15);
        sim_image_free(im);
        sample_free(s);
        bench_free(b);
    }
}

/* A ring of four records that is drained all the time: the phase flips after every fourth. */
static void test_phase(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    (void)sample_op(s, KYMO_ENGINE_GPSIMD, KYMO_OP_NOP);
    size_t ring = ring_of(b, KYMO_RING_INSTRUCTION, 0, 0);
    b->plan[ring].bytes = 4 * KYMO_RECORD_SIZE;
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    assert_true(b->memory.count[ring] > 12);
    for (size_t i = 0; i < b->memory.count[ring]; i++)
        assert_int_equal((b->memory.rings[ring][i].low & SIM_MARK_PHASE) != 0, i / 4 % 2 == 0);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* Correcting what a clock shows gives the true time; a slow clock gives the least time at or after it that it can show.
 */
static void test_clock_property(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252ull;
    for (unsigned i = 0; i < 200000; i++) {
        struct sim_clock k = {.init = next_random(&x) >> (i % 40 + 4), .expected_inc = 1 + next_random(&x) % 0xFFFFFF};
        k.actual_inc = k.expected_inc + next_random(&x) % (1 + k.expected_inc / 50);
        if (i & 1) {
            uint64_t swap = k.actual_inc;
            k.actual_inc = k.expected_inc;
            k.expected_inc = swap;
        }
        uint64_t ps = k.init + (next_random(&x) >> (i % 30 + 20));
        uint64_t raw = sim_clock_raw(&k, ps), seen = sim_clock_corrected(&k, raw);
        if (k.actual_inc >= k.expected_inc) {
            assert_int_equal(seen, ps);
        } else {
            assert_true(seen >= ps);
            assert_true(raw == k.init || sim_clock_corrected(&k, raw - 1) < ps);
        }
        assert_true(sim_clock_raw(&k, ps + 1) >= raw);
    }
}

/* With drift the raw times differ from the truth, and the documented correction leads back. */
static void test_drift(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN1, 1, true, 5);
    struct sample *s = sample_new(b->arch);
    s->queues = QUEUE("in", 16);
    s->blocks = BLOCK(81920);
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL), KYMO_WAIT_GE, 7, 16);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    sim_core_advance(b->core, 0, START_PS + 5000000000000ull);
    (void)execute(b, im, false);
    size_t ring = ring_of(b, KYMO_RING_INSTRUCTION, 0, 0), row[KYMO_ENGINE_MAX] = {0};
    bool differ = false;
    for (size_t i = 0; i < b->memory.count[ring]; i++) {
        struct rec r = b->memory.rings[ring][i];
        unsigned e = (TYPE(r) - 4) / 4;
        struct sim_clock k;
        assert_true(sim_core_clock(b->core, KYMO_RING_INSTRUCTION, 0, e, &k));
        const struct sim_truth_instr *t = &b->truth->instructions.rows[row[e]];
        while (t->engine != e)
            t = &b->truth->instructions.rows[++row[e]];
        bool end = (TYPE(r) & 3) == 1;
        assert_int_equal(sim_clock_corrected(&k, r.ts), end ? t->end_ps : t->start_ps);
        differ = differ || r.ts != t->start_ps;
        row[e] += end;
    }
    assert_true(differ);
    /* What the host reads is Sync's clock. */
    struct sim_clock sync;
    uint64_t now = sim_core_now(b->core, 0);
    assert_true(sim_core_clock(b->core, KYMO_RING_INSTRUCTION, 0, KYMO_ENGINE_SYNC, &sync));
    assert_int_equal(sim_core_raw(b->core, 0, now), sim_clock_raw(&sync, now));
    assert_int_not_equal(sim_core_raw(b->core, 0, now), now);
    /* Updates through AXI are not scaled. */
    size_t events = ring_of(b, KYMO_RING_EVENT, 0, 0), at = 0, axi = 0;
    for (size_t i = 0; i < b->truth->syncs.count; i++, at++)
        if (b->truth->syncs.rows[i].source == SIM_SOURCE_AXI) {
            assert_int_equal(b->memory.rings[events][at].ts, b->truth->syncs.rows[i].ts_ps);
            axi++;
        }
    assert_int_equal(axi, 16);
    assert_false(sim_core_clock(b->core, KYMO_RING_EVENT, 0, 0, &(struct sim_clock){0}));
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

static void test_deadlock(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    (void)sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_COPY), KYMO_WAIT_GE, 33, 2);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_NOP), KYMO_UPD_INC, 33, 0);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    struct kymo_err err = {0};
    struct sim_exec_result x;
    for (unsigned i = 0; i < 2; i++) { /* the core stays usable */
        assert_int_equal(sim_core_execute(b->core, 0, im, false, &x, &err), -EDEADLK);
        assert_non_null(
            strstr(err.text, "Vector(nc0), image pc 3 (compiler pc 1), waits for ever: semaphore 33 has value 1"));
    }
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

static void test_fail(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 3);
    struct sample *s = sample_new(b->arch);
    (void)sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP);
    loop(s, KYMO_ENGINE_VECTOR, 100);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    struct sim_exec_result good = execute(b, im, false), bad = execute(b, im, true);
    assert_int_equal(bad.status, 1004);
    assert_true(bad.end_ps - bad.start_ps < good.end_ps - good.start_ps);
    size_t errors = ring_of(b, KYMO_RING_ERROR, 0, 0);
    assert_int_equal(b->memory.count[errors], 1);
    assert_int_equal(TYPE(b->memory.rings[errors][0]), 0x1F);
    assert_int_equal(execute(b, im, false).status, 0);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

static struct bench *run_for_compare(uint64_t seed, struct sample *s)
{
    struct bench *b = bench_new(KYMO_GEN_TRN2, 2, false, seed);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 2);
    assert_int_equal(sim_core_host_copy(b->core, 0, true, 10000, NULL), 0);
    (void)execute(b, im, false);
    sim_image_free(im);
    return b;
}

static bool same_records(const struct bench *a, const struct bench *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->memory.count[i] != b->memory.count[i] ||
            memcmp(a->memory.rings[i], b->memory.rings[i], a->memory.count[i] * sizeof(struct rec)) != 0)
            return false;
    return true;
}

static void test_determinism(void **state)
{
    (void)state;
    struct sample *s = sample_new(kymo_arch_get(KYMO_GEN_TRN2));
    s->queues = QUEUE("in", 16);
    s->blocks = BLOCK(50000);
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL), KYMO_WAIT_GE, 7, 16);
    struct bench *a = run_for_compare(9, s), *b = run_for_compare(9, s), *c = run_for_compare(10, s);
    assert_true(same_records(a, b));
    assert_false(same_records(a, c));
    /* The host copy: 10000 bytes in host pages, and the fetch of both cores' images, on engine 128. */
    size_t h2d = ring_of(a, KYMO_RING_H2D_DMA, 0, 128);
    assert_true(a->memory.count[h2d] >= 6);
    assert_int_equal(a->memory.rings[h2d][5].low & 0xFFFFFF, 10000 - 2 * 4096);
    bench_free(a);
    bench_free(b);
    bench_free(c);
    sample_free(s);
}

static void matmul(struct sample *s, unsigned bank, unsigned flags)
{
    uint8_t *rec = sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL);
    struct kymo_tensor t = {.addr = kymo_addr_psum(0, bank, 0), .dims = 3, .step = {1, 0, 0}, .count = {64, 1, 1}};
    sample_set(s, rec, KYMO_F_ROWS, 64);
    sample_set(s, rec, KYMO_F_COLS, 64);
    sample_set(s, rec, KYMO_F_IN_DTYPE, KYMO_DT_BF16);
    sample_set(s, rec, KYMO_F_OUT_DTYPE, KYMO_DT_FP32);
    sample_set(s, rec, KYMO_F_MM_FLAGS, flags);
    assert_int_equal(kymo_layout_set_tensor(s->arch, rec, KYMO_F_DST, &t), 0);
}

/* Bank 6: begin, continue, read by Vector, begin anew, continue, end. Two edges: to the reader and from it. */
static void test_psum(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    matmul(s, 6, KYMO_MM_BEGIN);
    matmul(s, 6, KYMO_MM_END);
    kymo_instr_set_update(s->code[KYMO_ENGINE_TENSOR][1], KYMO_UPD_INC | KYMO_UPD_COMPLETE, 1, 0);
    matmul(s, 6, KYMO_MM_BEGIN);
    kymo_instr_set_wait(s->code[KYMO_ENGINE_TENSOR][2], KYMO_WAIT_GE, 2, 1);
    matmul(s, 6, 0);
    matmul(s, 6, KYMO_MM_END);
    uint8_t *rec = sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_COPY);
    struct kymo_tensor t = {.addr = kymo_addr_psum(0, 6, 0), .dims = 4, .step = {1, 0, 0, 0}, .count = {64, 1, 1, 1}};
    sample_set(s, rec, KYMO_F_IN_DTYPE, KYMO_DT_FP32);
    sample_set(s, rec, KYMO_F_CHANNELS, 64);
    assert_int_equal(kymo_layout_set_tensor(s->arch, rec, KYMO_F_SRC, &t), 0);
    kymo_instr_set_wait(rec, KYMO_WAIT_GE, 1, 1);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP), KYMO_UPD_INC | KYMO_UPD_COMPLETE, 2, 0);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    const struct sim_truth_instr *second = only_row(b, im, KYMO_ENGINE_TENSOR, 1);
    const struct sim_truth_instr *third = only_row(b, im, KYMO_ENGINE_TENSOR, 2);
    const struct sim_truth_instr *reader = only_row(b, im, KYMO_ENGINE_VECTOR, 0);
    const struct sim_truth_instr *pairs[4][2];
    size_t n = 0;
    for (size_t i = 0; i < b->truth->edges.count; i++) {
        const struct sim_truth_edge_row *e = &b->truth->edges.rows[i];
        if (e->kind != SIM_EDGE_PSUM)
            continue;
        assert_true(n < 4);
        assert_int_equal(e->detail, 1 << 6);
        pairs[n][0] = &b->truth->instructions.rows[e->from];
        pairs[n++][1] = &b->truth->instructions.rows[e->to];
    }
    assert_int_equal(n, 2);
    assert_ptr_equal(pairs[0][0], second);
    assert_ptr_equal(pairs[0][1], reader);
    assert_ptr_equal(pairs[1][0], reader);
    assert_ptr_equal(pairs[1][1], third);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

/* Events: one waiter takes the event away from the other, who goes on at the second update. */
static void test_event_taken(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_NOP), KYMO_WAIT_EVT_SET_CLEAR, 4, 0);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP), KYMO_WAIT_EVT_SET_CLEAR, 4, 0);
    (void)sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE), KYMO_UPD_EVT_SET | KYMO_UPD_COMPLETE, 4,
                          0);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE), KYMO_UPD_EVT_SET | KYMO_UPD_COMPLETE, 4,
                          0);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    const struct sim_truth_instr *t = only_row(b, im, KYMO_ENGINE_TENSOR, 0);
    const struct sim_truth_instr *v = only_row(b, im, KYMO_ENGINE_VECTOR, 0);
    const struct sim_truth_instr *first = only_row(b, im, KYMO_ENGINE_SCALAR, 1);
    const struct sim_truth_instr *second = only_row(b, im, KYMO_ENGINE_SCALAR, 2);
    assert_true(t->end_ps > first->end_ps && t->end_ps < second->end_ps && v->end_ps > second->end_ps);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

/* A compiler's own range clear lets those go on that wait for 0. */
static void test_range_clear(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE), KYMO_UPD_INC, 4, 0);
    kymo_instr_set_update(sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_ACTIVATE), KYMO_UPD_INC, 5, 0);
    uint8_t *rec = sample_op(s, KYMO_ENGINE_SCALAR, KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR);
    sample_set(s, rec, KYMO_F_RANGE_FIRST, 4);
    sample_set(s, rec, KYMO_F_RANGE_COUNT, 1);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP), KYMO_WAIT_GE, 5, 1);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP), KYMO_WAIT_EQ, 4, 0);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_NOP), KYMO_WAIT_GE, 5, 1);
    bench_arm(b);
    struct sim_image *im = image_of(b, s, 1);
    (void)execute(b, im, false);
    const struct sim_truth_instr *clear = only_row(b, im, KYMO_ENGINE_SCALAR, 2);
    const struct sim_truth_instr *wait = only_row(b, im, KYMO_ENGINE_VECTOR, 1);
    assert_true(wait->wait_cycles > 0 && wait->end_ps > clear->end_ps);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

/* Programs of random operands either run, or are refused, or wait for ever; whatever they do is the same every time. */
static void random_record(struct sample *s, enum kymo_engine e, uint64_t *x)
{
    static const uint8_t ops[] = {KYMO_OP_NOP,
                                  KYMO_OP_MATMUL,
                                  KYMO_OP_COPY,
                                  KYMO_OP_MEMSET,
                                  KYMO_OP_EVENT_SEMAPHORE,
                                  KYMO_OP_MOVE,
                                  KYMO_OP_ALU_OP,
                                  KYMO_OP_WRITE,
                                  KYMO_OP_PSEUDO_DMA_DIRECT2D,
                                  KYMO_OP_NOTIFY,
                                  KYMO_OP_EVENT_SEMAPHORE_RANGE_CLEAR};
    static const uint8_t waits[] = {0, 0, 0, 1, 2, 3, 5, 6, 7, 14, 15, 0x85, 0xFE};
    static const uint8_t updates[] = {0, 3, 3, 3, 4, 5, 7, 9, 1, 2, 0x13, 0x13, 0x15, 0x99, 0x11};
    uint8_t *rec = sample_op(s, e, ops[next_random(x) % sizeof ops]);
    if (rec[0] == KYMO_OP_PSEUDO_DMA_DIRECT2D && e != KYMO_ENGINE_SYNC && next_random(x) % 8)
        rec[0] = KYMO_OP_NOP; /* only Sync has a dynamic queue */
    if (rec[0] == KYMO_OP_ALU_OP && next_random(x) % 8)
        rec[0] = KYMO_OP_MOVE; /* most operations are not known */
    for (unsigned i = 12; i < KYMO_INSTR_SIZE; i++)
        rec[i] = next_random(x) & 1 ? (uint8_t)next_random(x) & 15 : 0;
    rec[4] = waits[next_random(x) % sizeof waits];
    rec[5] = (uint8_t)(next_random(x) % 4);
    rec[6] = updates[next_random(x) % sizeof updates];
    rec[7] = (uint8_t)(next_random(x) % 4);
    rec[8] = (uint8_t)(next_random(x) % 3);
}

static void test_random_programs(void **state)
{
    (void)state;
    uint64_t x = 0x9E3779B97F4A7C15ull;
    unsigned ran = 0, stuck = 0, refused = 0;
    for (unsigned round = 0; round < 200; round++) {
        struct bench *b = bench_new(KYMO_GEN_TRN2, 1, false, round);
        struct sample *s = sample_new(b->arch);
        s->queues = QUEUE("dynamic", 4);
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            for (unsigned i = 0; i < 1 + round % 7; i++)
                random_record(s, (enum kymo_engine)e, &x);
        bench_arm(b);
        struct sim_image *im = NULL;
        struct kymo_err err = {0};
        struct sim_exec_result result;
        struct neff *neff = sample_neff(s, 1);
        if (sim_image_build(b->arch, 1, neff, 1, &im, &err) < 0) {
            assert_int_equal(err.code, -EPROTO);
            neff_free(neff);
            refused++;
        } else {
            int r = sim_core_execute(b->core, 0, im, round % 3 == 0, &result, &err);
            assert_true(r == 0 || r == -EDEADLK);
            *(r ? &stuck : &ran) += 1;
            sim_image_free(im);
        }
        sample_free(s);
        bench_free(b);
    }
    print_message("%u ran, %u waited for ever, %u refused\n", ran, stuck, refused);
    assert_true(ran > 5 && stuck > 5 && refused > 5);
}

/* Unarmed executions make no records, and arming again starts at 0. */
static void test_unarmed(void **state)
{
    (void)state;
    struct bench *b = bench_new(KYMO_GEN_TRN3, 1, false, 1);
    struct sample *s = sample_new(b->arch);
    s->queues = QUEUE("in", 16);
    s->blocks = BLOCK(50000);
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    struct sim_image *im = image_of(b, s, 1);
    struct sim_exec_result x = execute(b, im, false);
    assert_true(x.end_ps > x.start_ps && x.start_ps > START_PS);
    assert_int_equal(sim_core_emitted(b->core, 0), 0);
    bench_arm(b);
    (void)execute(b, im, false);
    uint64_t n = sim_core_emitted(b->core, 0);
    assert_true(n > 0);
    sim_core_disarm(b->core, 0);
    (void)execute(b, im, false);
    bench_arm(b);
    assert_int_equal(sim_core_emitted(b->core, 0), 0);
    sim_image_free(im);
    sample_free(s);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_dma_block),
        cmocka_unit_test(test_dma_small_block),
        cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_phase),
        cmocka_unit_test(test_clock_property),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_determinism),
        cmocka_unit_test(test_psum),
        cmocka_unit_test(test_event_taken),
        cmocka_unit_test(test_unarmed),
        cmocka_unit_test(test_range_clear),
        cmocka_unit_test(test_random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
