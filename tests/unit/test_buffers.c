/* On-chip memory in use, by hand: cells, spans of use, samples; and cells against a byte-wise reference. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "pipeline/series/buffer_map.h"
#include "pipeline/series/buffer_samples.h"
#include "pipeline/series/buffer_use.h"

#define SBUF0 1u /* lanes */
#define SBUF32 2u

static uint64_t seed = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed % below);
}

static void test_lanes(void **state)
{
    (void)state;
    assert_int_equal(buffer_map_lanes(false, 0, 128), 0x0f);
    assert_int_equal(buffer_map_lanes(false, 0, 32), 0x01);
    assert_int_equal(buffer_map_lanes(false, 0, 33), 0x03);
    assert_int_equal(buffer_map_lanes(true, 64, 64), 0xc0);
    assert_int_equal(buffer_map_lanes(false, 1, 31), 0);
    assert_int_equal(buffer_map_lanes(false, 96, 0), 0);
}

/* 0 to 100 and 50 to 150 in lane 0, 50 to 150 in lane 1: three cells, of which the last has two pieces. */
static void test_cells_by_hand(void **state)
{
    (void)state;
    struct buffer_map m = {0};
    struct kymo_err err = {0};
    const struct buffer_range a = {0, 100, SBUF0}, b = {50, 150, SBUF0 | SBUF32}, none = {7, 7, SBUF0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(buffer_map_add(&m, a, &err), 0);
        assert_int_equal(buffer_map_add(&m, b, &err), 0);
        assert_int_equal(buffer_map_add(&m, none, &err), 0);
    }
    assert_int_equal(buffer_map_cut(&m, 100, &err), 0);
    assert_int_equal(m.granule, 1);
    assert_int_equal(m.range_count, 2);
    assert_int_equal(m.cell_count, 3);
    assert_int_equal(m.segment_count, 4);
    assert_int_equal(buffer_map_find(&m, a), 0);
    assert_int_equal(buffer_map_find(&m, b), 1);
    assert_int_equal(buffer_map_find(&m, none), UINT32_MAX);
    assert_int_equal(m.range_at[1] - m.range_at[0], 2);
    assert_int_equal(m.range_at[2] - m.range_at[1], 2);
    buffer_map_done(&m);
}

/* When lists would be too long, ranges are widened. */
static void test_cells_are_bounded(void **state)
{
    (void)state;
    struct buffer_map m = {0};
    struct kymo_err err = {0};
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t first = draw(100000);
        assert_int_equal(buffer_map_add(&m, (struct buffer_range){first, first + 1 + draw(90000), SBUF0}, &err), 0);
    }
    assert_int_equal(buffer_map_cut(&m, 20000, &err), 0);
    assert_true(m.granule > 1);
    assert_true(m.range_at[m.range_count] <= 20000);
    buffer_map_done(&m);
}

struct span {
    uint32_t cell, owner;
    int64_t since, until;
};
struct spans {
    size_t n;
    struct span at[64];
};

static int keep(void *ctx, uint32_t cell, int64_t since, int64_t until, uint32_t owner, struct kymo_err *err)
{
    struct spans *s = ctx;
    (void)err;
    assert_true(s->n < 64);
    s->at[s->n++] = (struct span){cell, owner, since, until};
    return 0;
}

static void expect(const struct span *s, int64_t since, int64_t until, uint32_t owner)
{
    assert_int_equal(s->since, since);
    assert_int_equal(s->until, until);
    assert_int_equal(s->owner, owner);
}

static void test_use_by_hand(void **state)
{
    (void)state;
    struct buffer_map m = {0};
    struct buffer_use u;
    struct spans got = {0};
    struct kymo_err err = {0};
    const struct buffer_range range = {0, 64, SBUF0};
    assert_int_equal(buffer_map_add(&m, range, &err), 0);
    assert_int_equal(buffer_map_cut(&m, 100, &err), 0);
    assert_int_equal(buffer_use_init(&u, &m, keep, &got, &err), 0);
#define ACCESS(how, begin, end, owner) assert_int_equal(buffer_use_access(&u, 0, how, begin, end, owner, &err), 0)
    ACCESS(BUFFER_READ, 5, 10, 1);   /* was there from the start */
    ACCESS(BUFFER_WRITE, 20, 25, 2); /* read twice, free at 60 */
    ACCESS(BUFFER_READ, 30, 60, 3);
    ACCESS(BUFFER_READ, 40, 50, 4);
    ACCESS(BUFFER_WRITE, 100, 110, 5); /* nobody reads it */
    ACCESS(BUFFER_WRITE, 200, 210, 6); /* added to, then read while the next write begins */
    ACCESS(BUFFER_ADD, 220, 230, 7);
    ACCESS(BUFFER_READ, 240, 300, 8);
    ACCESS(BUFFER_WRITE, 290, 320, 9); /* in use at the end */
#undef ACCESS
    assert_int_equal(buffer_use_finish(&u, &err), 0);
    assert_int_equal(got.n, 5);
    expect(&got.at[0], 0, 10, BUFFER_USE_NOBODY);
    expect(&got.at[1], 20, 60, 2);
    expect(&got.at[2], 100, 110, 5);
    expect(&got.at[3], 200, 290, 6);
    expect(&got.at[4], 290, 320, 9);
    buffer_use_done(&u);
    buffer_map_done(&m);
}

/* Bytes in use of a random program at all times, byte by byte, against cells and samples. */
enum { BYTES = 200, RANGES = 12, STEPS = 400, LAST = 4000 };

struct byte {
    int64_t since, until;
    bool used;
};

static void free_byte(struct byte *b, int64_t at_latest, int32_t *usage)
{
    int64_t until = b->until < at_latest ? b->until : at_latest;
    for (int64_t t = b->since; b->used && t < until && t < LAST; t++)
        usage[t]++;
}

static int sample(void *ctx, uint32_t cell, int64_t since, int64_t until, uint32_t owner, struct kymo_err *err)
{
    void **both = ctx;
    const struct buffer_map *m = both[0];
    (void)owner;
    (void)err;
    for (uint32_t i = m->segment_at[cell]; i < m->segment_at[cell + 1]; i++)
        buffer_samples_add(both[1], 0, since, until, m->segments[i].end - m->segments[i].first);
    return 0;
}

static void test_use_against_bytes(void **state)
{
    (void)state;
    static int32_t usage[LAST + 1];
    struct byte bytes[BYTES] = {0};
    struct buffer_map m = {0};
    struct buffer_samples s;
    struct buffer_use u;
    struct kymo_err err = {0};
    void *both[] = {&m, &s};
    struct buffer_range ranges[RANGES];
    for (unsigned i = 0; i < RANGES; i++) {
        uint32_t first = draw(BYTES - 20);
        ranges[i] = (struct buffer_range){first, first + 1 + draw(20), SBUF0};
        assert_int_equal(buffer_map_add(&m, ranges[i], &err), 0);
    }
    assert_int_equal(buffer_map_cut(&m, 10000, &err), 0);
    assert_int_equal(buffer_samples_init(&s, 1, 7, LAST, &err), 0);
    assert_int_equal(buffer_use_init(&u, &m, sample, both, &err), 0);
    for (int64_t i = 0, begin = 0; i < STEPS; i++, begin += draw(9)) {
        unsigned range = draw(RANGES);
        enum buffer_access how = (enum buffer_access)draw(3);
        int64_t end = begin + draw(60);
        assert_int_equal(buffer_use_access(&u, buffer_map_find(&m, ranges[range]), how, begin, end, (uint32_t)i, &err),
                         0);
        for (uint32_t k = ranges[range].first; k < ranges[range].end; k++) {
            struct byte *b = &bytes[k];
            if (how == BUFFER_WRITE || (how == BUFFER_ADD && !b->used)) {
                free_byte(b, begin, usage);
                *b = (struct byte){begin, end, true};
            } else {
                *b = b->used ? (struct byte){b->since, b->until > end ? b->until : end, true}
                             : (struct byte){0, end, true};
            }
        }
    }
    assert_int_equal(buffer_use_finish(&u, &err), 0);
    int32_t now = 0;
    for (unsigned k = 0; k < BYTES; k++)
        free_byte(&bytes[k], INT64_MAX, usage);
    for (size_t k = 0; k * 7 < LAST; k++) {
        now += s.changes[k];
        assert_int_equal(now, usage[k * 7]);
    }
    buffer_use_done(&u);
    buffer_samples_done(&s);
    buffer_map_done(&m);
}

static void test_samples_by_hand(void **state)
{
    (void)state;
    struct buffer_samples s;
    struct kymo_err err = {0};
    assert_int_equal(buffer_samples_init(&s, 2, 10, 95, &err), 0);
    buffer_samples_add(&s, 0, 0, 10, 4);     /* at 0 alone */
    buffer_samples_add(&s, 1, 11, 19, 8);    /* between two instants */
    buffer_samples_add(&s, 1, 20, 10000, 2); /* beyond the last */
    assert_int_equal(s.changes[0], 4);
    assert_int_equal(s.changes[1 * 2], -4);
    assert_int_equal(s.changes[1 * 2 + 1], 0);
    assert_int_equal(s.changes[2 * 2 + 1], 2);
    assert_int_equal(s.count, 11);
    assert_int_equal(s.changes[10 * 2 + 1], -2);
    buffer_samples_done(&s);
}

/* 4 rows of 100 bf16 elements each 128 apart, in 64 partitions from 32 on; accumulating into fp32. */
static void test_instruction_ranges(void **state)
{
    (void)state;
    const struct kymo_arch *arch = kymo_arch_find("Trn2");
    uint8_t rec[KYMO_INSTR_SIZE];
    struct kymo_instr_range got[KYMO_INSTR_RANGES_MAX];
    unsigned unknown = 0;
    struct kymo_tensor src = {.addr = kymo_addr_sbuf(32, 0x400), .dims = 2, .step = {1, 128}, .count = {100, 4}};
    struct kymo_tensor dst = {.addr = kymo_addr_psum(0, 3, 16), .dims = 1, .step = {1}, .count = {256}};
    kymo_instr_init(rec, KYMO_OP_MATMUL);
    assert_int_equal(kymo_layout_set_tensor(arch, rec, KYMO_F_SRC, &src), 0);
    assert_int_equal(kymo_layout_set_tensor(arch, rec, KYMO_F_DST, &dst), 0);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_IN_DTYPE, KYMO_DT_BF16), 0);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_OUT_DTYPE, KYMO_DT_FP32), 0);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_ROWS, 64), 0);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_COLS, 128), 0);
    assert_int_equal(kymo_instr_ranges(arch, rec, got, &unknown), 2);
    assert_false(got[0].write || got[0].psum);
    assert_int_equal(got[0].partition, 32);
    assert_int_equal(got[0].partitions, 64);
    assert_int_equal(got[0].first, 0x400);
    assert_int_equal(got[0].end, 0x400 + 2 * (3 * 128 + 100));
    assert_true(got[1].write && got[1].psum && got[1].adds);
    assert_int_equal(got[1].first, 3 * 2048 + 16);
    assert_int_equal(got[1].end, 3 * 2048 + 16 + 1024);
    assert_int_equal(kymo_layout_set(arch, rec, KYMO_F_MM_FLAGS, KYMO_MM_BEGIN), 0);
    assert_int_equal(kymo_instr_ranges(arch, rec, got, &unknown), 2);
    assert_false(got[1].adds);
    assert_int_equal(unknown, 0);
    src.addr |= (uint32_t)KYMO_ADDR_REGISTER << 24;
    assert_int_equal(kymo_layout_set_tensor(arch, rec, KYMO_F_SRC, &src), 0);
    assert_int_equal(kymo_instr_ranges(arch, rec, got, &unknown), 1);
    assert_int_equal(unknown, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_cells_by_hand),
        cmocka_unit_test(test_cells_are_bounded),
        cmocka_unit_test(test_use_by_hand),
        cmocka_unit_test(test_use_against_bytes),
        cmocka_unit_test(test_samples_by_hand),
        cmocka_unit_test(test_instruction_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
