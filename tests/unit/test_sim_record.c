/* The simulator's record encoder against the reader's decoder: written apart, they have to agree on random values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/le.h"
#include "driver-iface/sim/sim_record.h"
#include "formats/ntff/record.h"

#define ROUNDS 20000

static uint64_t state_bits = 0x2545F4914F6CDD1Dull;

static uint64_t draw(void)
{
    state_bits ^= state_bits << 13;
    state_bits ^= state_bits >> 7;
    state_bits ^= state_bits << 17;
    return state_bits;
}

static struct record decode(uint64_t low, uint32_t marks, uint64_t ts)
{
    uint8_t bytes[KYMO_RECORD_SIZE];
    struct record r;
    kymo_put_le64(bytes, low | marks);
    kymo_put_le64(bytes + 8, ts);
    record_decode(bytes, &r);
    assert_int_equal(r.ts_ps, ts);
    assert_int_equal(r.phase, (marks & SIM_MARK_PHASE) != 0);
    assert_int_equal(r.sw_overflow, (marks & SIM_MARK_LOST_BEFORE) != 0);
    assert_int_equal(r.hw_overflow, (marks & SIM_MARK_LOST_AFTER) != 0);
    return r;
}

static uint32_t draw_marks(void)
{
    return (uint32_t)draw() & (SIM_MARK_PHASE | SIM_MARK_LOST_AFTER | SIM_MARK_LOST_BEFORE);
}

static void test_instructions(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        enum kymo_engine e = (enum kymo_engine)(draw() % KYMO_ENGINE_MAX);
        uint32_t pc = (uint32_t)draw(); /* more than 20 bits: cut */
        uint16_t a = (uint16_t)draw(), b = (uint16_t)draw();
        struct record r = decode(sim_record_start(e, pc, a), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_INSTRUCTION_START);
        assert_int_equal(r.u.start.engine, e);
        assert_int_equal(r.u.start.pc, pc & 0xFFFFF);
        assert_int_equal(r.u.start.hint, 0);
        assert_int_equal(r.u.start.event_wait_cycles, a);
        r = decode(sim_record_end(e, pc, a, b), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_INSTRUCTION_END);
        assert_int_equal(r.u.end.engine, e);
        assert_int_equal(r.u.end.pc, pc & 0xFFFFF);
        assert_int_equal(r.u.end.crc_in, a);
        assert_int_equal(r.u.end.crc_out, b);
        r = decode(sim_record_explicit(e, pc, a), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_EXPLICIT);
        assert_int_equal(r.u.explicit_.engine, e);
        assert_int_equal(r.u.explicit_.extended_hint, a);
        unsigned packets = 1 + (unsigned)(draw() % 4096);
        r = decode(sim_record_dge(e, pc, a, packets), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_DGE_METADATA);
        assert_int_equal(r.u.dge.engine, e);
        assert_int_equal(r.u.dge.pc, pc & 0xFFFFF);
        assert_int_equal(r.u.dge.dma_engines, a);
        assert_int_equal(r.u.dge.packets_per_engine, packets);
        assert_false(r.u.dge.pc_from_last_start);
        assert_int_equal(r.u.dge.engine_group, 0);
    }
}

static void test_others(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int source = (int)(draw() % (KYMO_ENGINE_MAX + 1)) - 1, semaphore = (int)(draw() & 1);
        uint8_t id = (uint8_t)draw(), mode = (uint8_t)draw(), queue = (uint8_t)(draw() % 16);
        uint32_t value = (uint32_t)draw(), bytes = (uint32_t)draw() & 0xFFFFFF;
        struct record r = decode(sim_record_sync(source, id, semaphore, mode, value), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_EVENT_SEMAPHORE);
        assert_int_equal(r.u.sem.engine, source);
        assert_int_equal(r.u.sem.id, id);
        assert_int_equal(r.u.sem.is_semaphore, semaphore);
        assert_int_equal(r.u.sem.update_mode, mode);
        assert_int_equal(r.u.sem.value, value);
        r = decode(sim_record_dma_open(RECORD_DMA_M2S_START, queue), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_DMA);
        assert_int_equal(r.u.dma.kind, RECORD_DMA_M2S_START);
        assert_int_equal(r.u.dma.queue, queue);
        r = decode(sim_record_dma_close(RECORD_DMA_S2M_END, queue, bytes), draw_marks(), draw());
        assert_int_equal(r.u.dma.kind, RECORD_DMA_S2M_END);
        assert_int_equal(r.u.dma.queue, queue);
        assert_int_equal(r.u.dma.byte_count, bytes);
        uint64_t metadata = draw() >> 16;
        r = decode(sim_record_tpb_error(id, metadata), draw_marks(), draw());
        assert_int_equal(r.kind, RECORD_TPB_ERROR);
        assert_int_equal(r.u.tpb_error.id, id);
        assert_int_equal(r.u.tpb_error.metadata, metadata);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_instructions), cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
