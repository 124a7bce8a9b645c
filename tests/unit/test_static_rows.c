/* Static rows of a simulated capture: opcode, compiler side, triggers, debug names, and what happens when they are
 * missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "arch/opcode.h"
#include "base/alloc.h"
#include "pipeline/instructions/statics.h"
#include "tests/unit/pipeline_fixture.h"

static struct fixture fx;

struct set {
    struct warnings *warnings;
    struct input *in;
    struct timebase timebase;
    struct timeline timeline;
    struct scan scan;
    struct programs programs;
    struct dma_queues queues;
    struct statics statics;
};

#define MUST(x)                                                                                                        \
    do {                                                                                                               \
        if ((x) < 0)                                                                                                   \
            fail_msg("%s: %s", #x, err.text);                                                                          \
    } while (0)

/* spoil: called between reading the images and using them. */
static void set_open(struct set *s, const char *neff, void (*spoil)(struct set *s))
{
    struct kymo_err err = {0};
    memset(s, 0, sizeof *s);
    s->warnings = warnings_new();
    MUST(input_open(fx.ntff, &neff, neff != NULL, NULL, s->warnings, &s->in, &err));
    timebase_init(&s->timebase, s->in);
    MUST(timeline_init(&s->timeline, s->in, &s->timebase, &err));
    MUST(scan_run(&s->scan, s->in, &s->timebase, &s->timeline, NULL, NULL, &err));
    MUST(programs_open(&s->programs, s->in, &err));
    programs_choose_pc(&s->programs, s->in->arch, &s->scan, s->warnings);
    if (spoil)
        spoil(s);
    MUST(programs_map_compiler(&s->programs, s->in, s->warnings, &err));
    MUST(dma_queues_open(&s->queues, s->in, &err));
    MUST(statics_open(&s->statics, s->in, &s->programs, &s->queues, &s->scan, s->warnings, &err));
}

static void set_close(struct set *s)
{
    statics_done(&s->statics);
    dma_queues_done(&s->queues);
    programs_done(&s->programs);
    scan_done(&s->scan);
    timeline_done(&s->timeline);
    input_free(s->in);
    warnings_free(s->warnings);
}

static size_t count(const struct set *s, int engine, int opcode)
{
    size_t n = 0;
    for (size_t i = 0; i < s->statics.count; i++)
        n += s->statics.rows[i].known && s->statics.rows[i].engine == engine && s->statics.rows[i].opcode == opcode;
    return n;
}

static void test_sound(void **state)
{
    (void)state;
    struct set s;
    set_open(&s, fx.neff, NULL);
    size_t triggers = 0, compiled = 0, named = 0;
    for (size_t i = 0; i < s.statics.count; i++) {
        const struct static_row *row = &s.statics.rows[i];
        struct static_facts f;
        assert_true(row->known);
        statics_facts(&s.statics, row, &f);
        compiled += f.compiler != NULL;
        named += f.debug && f.debug->layer && f.debug->hlo_name && f.debug->bir_name;
        if (row->trigger != STATICS_TRIGGER_BLOCK)
            continue;
        triggers++;
        assert_int_equal(row->opcode, KYMO_OP_WRITE);
        assert_int_equal(f.compiler[0], KYMO_OP_PSEUDO_DMA_TRIGGER);
        assert_non_null(f.block);
        assert_int_equal(f.dma_read, f.block->neff->bytes);
        assert_true(f.block->packets > 0);
    }
    assert_true(triggers > 10);
    assert_true(compiled > s.statics.count / 2);
    assert_true(named > s.statics.count / 2);
    assert_true(count(&s, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL) > 0);
    for (size_t i = 0; i < s.programs.count; i++) {
        const struct program *p = &s.programs.list[i];
        assert_int_equal(p->map, PROGRAM_MAP_PATCHES);
        assert_int_equal(p->equal, p->compared);
    }
    set_close(&s);
}

static void test_without_neff(void **state)
{
    (void)state;
    struct set with, without;
    set_open(&with, fx.neff, NULL);
    set_open(&without, NULL, NULL);
    assert_int_equal(with.statics.count, without.statics.count);
    for (size_t i = 0; i < without.statics.count; i++) {
        struct static_facts f;
        statics_facts(&without.statics, &without.statics.rows[i], &f);
        assert_int_equal(with.statics.rows[i].opcode, without.statics.rows[i].opcode);
        assert_null(f.compiler);
        assert_null(f.debug);
        assert_int_not_equal(without.statics.rows[i].trigger, STATICS_TRIGGER_BLOCK);
    }
    set_close(&with);
    set_close(&without);
}

static struct program *vector_program(struct set *s)
{
    struct program *p = programs_find(&s->programs, 0, 0, KYMO_ENGINE_VECTOR);
    assert_non_null(p);
    return p;
}

static void unknown_opcode(struct set *s)
{
    struct program *p = vector_program(s);
    for (size_t i = 0; i < p->slots; i++)
        if (program_record(p, i)[0] == KYMO_OP_TENSOR_TENSOR) {
            p->image[i * KYMO_INSTR_SIZE] = 0xEE;
            return;
        }
    fail();
}

static void test_unknown_opcode(void **state)
{
    (void)state;
    struct set s;
    assert_null(kymo_opcode_get(0xEE));
    set_open(&s, fx.neff, unknown_opcode);
    assert_int_equal(count(&s, KYMO_ENGINE_VECTOR, 0xEE), 1);
    assert_true(fixture_warned(s.warnings, "opcode 0xEE on Vector has no name"));
    set_close(&s);
}

/* Without its list of rewrites a program is aligned by its contents; with foreign contents it is not mapped at all. */
static void drop_sections(struct set *s)
{
    Ntff__EngineInstructionInfo *info =
        (Ntff__EngineInstructionInfo *)(size_t)input_engine(&s->in->nodes[0], 0, KYMO_ENGINE_VECTOR);
    for (size_t i = 0; i < info->n_sections; i++)
        info->sections[i]->section = NTFF__IMAGE_SECTION__SECTION_PREAMBLE;
}

static void test_aligned(void **state)
{
    (void)state;
    struct set s, sound;
    set_open(&s, fx.neff, drop_sections);
    set_open(&sound, fx.neff, NULL);
    const struct program *p = vector_program(&s), *q = vector_program(&sound);
    size_t same = 0;
    for (size_t i = 0; p->compiler_pc && i < p->slots; i++)
        same += p->compiler_pc[i] >= 0 && p->compiler_pc[i] == q->compiler_pc[i];
    /* Nothing is left to compare in the walk, so that an empty walk is not mistaken for a sound one. */
    assert_int_equal(p->map, PROGRAM_MAP_ALIGNED);
    assert_true(2 * same > q->compared);
    set_close(&s);
    set_close(&sound);
}

static void foreign_contents(struct set *s)
{
    struct program *p = vector_program(s);
    for (size_t i = 0; i < p->slots; i++) {
        p->image[i * KYMO_INSTR_SIZE + 5] ^= 0x5A;
        p->image[i * KYMO_INSTR_SIZE + 50] ^= 0x5A;
    }
}

static void test_foreign_contents(void **state)
{
    (void)state;
    struct set s;
    set_open(&s, fx.neff, foreign_contents);
    assert_int_equal(vector_program(&s)->map, PROGRAM_MAP_NONE);
    assert_true(fixture_warned(s.warnings, "Vector on core 0"));
    set_close(&s);
}

static int setup(void **state)
{
    (void)state;
    fixture_open(&fx, "Trn2", "trn2.48xlarge");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_close(&fx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),   cmocka_unit_test(test_without_neff),     cmocka_unit_test(test_unknown_opcode),
        cmocka_unit_test(test_aligned), cmocka_unit_test(test_foreign_contents),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
