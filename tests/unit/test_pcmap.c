/* From the trace's program counter to the image's slot and on to the compiler's record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/instructions/program.h"
#include "tests/unit/pipeline_fixture.h"

#define SLOTS 64

static const struct kymo_arch *arch;

/* One Vector program of TENSOR_TENSOR records, all different, at base, and the counters that a trace of it holds. */
struct trial {
    uint8_t image[SLOTS * KYMO_INSTR_SIZE];
    struct program list[1];
    uint32_t index[2 * INPUT_CORES_MAX * KYMO_ENGINE_MAX];
    struct programs programs;
    struct scan scan;
    struct warnings *warnings;
};

static void trial_open(struct trial *t, uint32_t base)
{
    memset(t, 0, sizeof *t);
    memset(t->index, 0xff, sizeof t->index);
    for (uint32_t i = 0; i < SLOTS; i++) {
        kymo_instr_init(t->image + i * KYMO_INSTR_SIZE, KYMO_OP_TENSOR_TENSOR);
        t->image[i * KYMO_INSTR_SIZE + 40] = (uint8_t)i;
    }
    t->list[0] = (struct program){.engine = KYMO_ENGINE_VECTOR, .image = t->image, .slots = SLOTS, .base = base};
    t->programs = (struct programs){.list = t->list, .count = 1, .index = t->index, .nodes = 1};
    t->scan.nodes = 1;
    t->scan.pcs = KYMO_NEW_ARRAY(uint64_t, (size_t)2 * INPUT_CORES_MAX * KYMO_ENGINE_MAX * (SCAN_PCS / 64));
    assert_non_null(t->scan.pcs);
    t->warnings = warnings_new();
}

static void trial_see(struct trial *t, uint32_t pc)
{
    uint64_t *map = (uint64_t *)(size_t)scan_pcs(&t->scan, 0, 0, KYMO_ENGINE_VECTOR);
    pc &= SCAN_PCS - 1;
    map[pc / 64] |= 1ull << (pc % 64);
}

static enum program_pc_mode trial_choose(struct trial *t)
{
    programs_choose_pc(&t->programs, arch, &t->scan, t->warnings);
    enum program_pc_mode mode = t->programs.pc_mode;
    assert_int_equal(t->list[0].pc_mode, mode);
    return mode;
}

static void trial_close(struct trial *t)
{
    kymo_free(t->scan.pcs);
    warnings_free(t->warnings);
}

static void test_relative(void **state)
{
    (void)state;
    struct trial t;
    trial_open(&t, 0x40000);
    for (uint32_t pc = 0; pc < SLOTS; pc++)
        trial_see(&t, pc);
    assert_int_equal(trial_choose(&t), PROGRAM_PC_RELATIVE);
    assert_int_equal(program_slot(&t.list[0], 5, -1), 5);
    assert_int_equal(program_slot(&t.list[0], SLOTS, -1), -1);
    trial_close(&t);
}

static void test_absolute(void **state)
{
    (void)state;
    struct trial t;
    trial_open(&t, SCAN_PCS - 10); /* the image crosses the end of the 20 bits */
    for (uint32_t i = 0; i < SLOTS; i++)
        trial_see(&t, SCAN_PCS - 10 + i);
    assert_int_equal(trial_choose(&t), PROGRAM_PC_ABSOLUTE);
    assert_int_equal(program_slot(&t.list[0], SCAN_PCS - 10, -1), 0);
    assert_int_equal(program_slot(&t.list[0], 0, -1), 10);
    assert_int_equal(warnings_count(t.warnings), 0);
    trial_close(&t);
}

static void test_refused(void **state)
{
    (void)state;
    struct trial t;
    trial_open(&t, 4); /* both readings keep every counter inside */
    for (uint32_t pc = 8; pc < 40; pc++)
        trial_see(&t, pc);
    assert_int_equal(trial_choose(&t), PROGRAM_PC_NONE);
    assert_true(fixture_warned(t.warnings, "each of the two readings"));
    assert_int_equal(program_slot(&t.list[0], 8, -1), -1);
    trial_close(&t);
    trial_open(&t, 0x40000);
    for (uint32_t pc = 0x80000; pc < 0x80040; pc++)
        trial_see(&t, pc);
    assert_int_equal(trial_choose(&t), PROGRAM_PC_NONE);
    assert_true(fixture_warned(t.warnings, "neither of the two readings"));
    trial_close(&t);
}

/* Unassigned opcodes do not decide when the other reading is no better; at base 0 the readings are one. */
static void test_base_zero(void **state)
{
    (void)state;
    struct trial t;
    trial_open(&t, 0);
    trial_see(&t, 3);
    assert_int_equal(trial_choose(&t), PROGRAM_PC_RELATIVE);
    trial_close(&t);
}

static void test_high_part(void **state)
{
    (void)state;
    struct program p = {.slots = 3 * (size_t)SCAN_PCS, .pc_mode = PROGRAM_PC_RELATIVE};
    assert_int_equal(program_slot(&p, 7, -1), 7);
    assert_int_equal(program_slot(&p, 0, SCAN_PCS - 1), SCAN_PCS);
    assert_int_equal(program_slot(&p, 5, SCAN_PCS + 3), SCAN_PCS + 5);
    assert_int_equal(program_slot(&p, SCAN_PCS - 2, SCAN_PCS + 3), SCAN_PCS - 2); /* a short jump back */
    assert_int_equal(program_slot(&p, 1, 2 * (int64_t)SCAN_PCS + 9), 2 * (int64_t)SCAN_PCS + 1);
}

static Ntff__InstructionPatchInfo patch(Ntff__InstructionPatchType type, uint64_t slot, uint32_t count)
{
    Ntff__InstructionPatchInfo p = NTFF__INSTRUCTION_PATCH_INFO__INIT;
    p.nc_engine_type = NTFF__NC_ENGINE_TYPE__ENGINE_DVE;
    p.type = type;
    p.section = NTFF__IMAGE_SECTION__SECTION_MAIN;
    p.offset = slot * KYMO_INSTR_SIZE;
    p.count = count;
    return p;
}

/* Image: 2 preamble slots, 9 of MAIN, 1 postamble. Compiler: 0 1(deleted) 2 3 4 5(deleted) 6(modified) + one inserted,
 * 7 8 ... */
static void test_walk(void **state)
{
    (void)state;
    Ntff__ImageSectionInfo pre = NTFF__IMAGE_SECTION_INFO__INIT, code = NTFF__IMAGE_SECTION_INFO__INIT;
    pre.section = NTFF__IMAGE_SECTION__SECTION_PREAMBLE;
    pre.count = 2;
    code.section = NTFF__IMAGE_SECTION__SECTION_MAIN;
    code.first = 2;
    code.count = 9;
    Ntff__ImageSectionInfo *sections[] = {&pre, &code};
    Ntff__EngineInstructionInfo info = NTFF__ENGINE_INSTRUCTION_INFO__INIT;
    info.nc_engine_type = NTFF__NC_ENGINE_TYPE__ENGINE_DVE;
    info.n_sections = 2;
    info.sections = sections;
    Ntff__InstructionPatchInfo list[] = {patch(NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE, 3, 1),
                                         patch(NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE, 6, 1),
                                         patch(NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY, 6, 1),
                                         patch(NTFF__INSTRUCTION_PATCH_TYPE__PATCH_INSERT, 7, 1)};
    Ntff__InstructionPatchInfo *patches[] = {&list[0], &list[1], &list[2], &list[3]};
    int32_t map[12];
    uint8_t patched[12];
    program_walk(&info, patches, 4, 12, map, patched);
    static const int32_t want[12] = {-1, -1, 0, 2, 3, 4, 6, -1, 7, 8, 9, -1};
    assert_memory_equal(map, want, sizeof want);
    assert_int_equal(patched[6], 1);
    assert_int_equal(patched[7], 1);
    assert_int_equal(patched[8], 0);
}

static void test_align(void **state)
{
    (void)state;
    uint8_t code[40 * KYMO_INSTR_SIZE] = {0}, image[42 * KYMO_INSTR_SIZE];
    for (unsigned i = 0; i < 40; i++)
        code[i * KYMO_INSTR_SIZE + 20] = (uint8_t)(i < 20 ? i : i % 4); /* the second half repeats itself */
    memset(image, 0xEE, sizeof image);
    memcpy(image + 2 * KYMO_INSTR_SIZE, code, 10 * KYMO_INSTR_SIZE);
    memcpy(image + 12 * KYMO_INSTR_SIZE, code + 11 * KYMO_INSTR_SIZE, 29 * KYMO_INSTR_SIZE); /* record 10 was removed */
    int32_t map[42];
    assert_int_equal(program_align(image, 42, code, 40, map, NULL), 0);
    assert_int_equal(map[0], -1);
    assert_int_equal(map[1], -1);
    for (int i = 0; i < 10; i++)
        assert_int_equal(map[2 + i], i);
    for (int i = 0; i < 29; i++)
        assert_int_equal(map[12 + i], 11 + i);
    assert_int_equal(map[41], -1);
}

int main(void)
{
    arch = kymo_arch_get(KYMO_GEN_TRN2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relative),  cmocka_unit_test(test_absolute),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_base_zero), cmocka_unit_test(test_high_part), cmocka_unit_test(test_walk),
        cmocka_unit_test(test_align),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
