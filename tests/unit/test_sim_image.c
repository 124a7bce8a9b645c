/* Device images: rewriting with patches, branch targets, DMA layout, refusals. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_image.h"
#include "driver-iface/sim/sim_op.h"
#include "tests/unit/sim_sample.h"

static const struct kymo_arch *arch;

#define QUEUES                                                                                                         \
    "\"qSyncIO0\":{\"type\":\"in\",\"owner\":\"sp\",\"num_queues\":16,\"semaphore\":7},"                               \
    "\"qSyncSpill0\":{\"type\":\"data\",\"owner\":\"sp\",\"num_queues\":3},"                                           \
    "\"qSyncDynamicHW\":{\"type\":\"dynamic\",\"owner\":\"sp\",\"num_queues\":4}"
#define BLOCK(id, queue, sem, bytes)                                                                                   \
    "{\"id\":" #id ",\"queue\":\"" queue "\"," sem "\"desc\":{\"from\":\"a\",\"from_off\":0,\"from_sizes\":[" #bytes   \
    "],\"from_steps\":[1],"                                                                                            \
    "\"to\":\"b\",\"to_off\":0,\"to_sizes\":[" #bytes "],\"to_steps\":[1]}}"
#define BLOCKS BLOCK(3, "qSyncIO0", "", 65536) "," BLOCK(9, "qSyncSpill0", "\"semaphore\":11,", 10000)

static struct sim_image *build(struct sample *s, unsigned cores)
{
    struct kymo_err err = {0};
    struct sim_image *im = NULL;
    if (sim_image_build(arch, cores, sample_neff(s, cores), 1, &im, &err) < 0)
        fail_msg("%s", err.text);
    return im;
}

static void branch(struct sample *s, enum kymo_engine e, int target)
{
    uint8_t *rec = sample_op(s, e, KYMO_OP_COMPARE_BRANCH);
    sample_set(s, rec, KYMO_F_BRANCH_OP, KYMO_BR_LT);
    sample_set(s, rec, KYMO_F_VALUE, 3);
    sample_set(s, rec, KYMO_F_TARGET, (uint64_t)(int64_t)target);
}

static int64_t target_of(const struct sim_engine_image *ei, unsigned slot)
{
    int64_t t = 0;
    assert_true(kymo_layout_get_int(arch, ei->code + slot * KYMO_INSTR_SIZE, KYMO_F_TARGET, &t));
    return t;
}

/* Compiler: 0 nop, 1 label, 2 nop, 3 label, 4 label, 5 nop, 6 branch to 2, 7 nop, 8 branch over 9, 9 nop, 10 halt. */
static void test_labels_and_branches(void **state)
{
    (void)state;
    struct sample *s = sample_new(arch);
    const enum kymo_engine e = KYMO_ENGINE_VECTOR;
    (void)sample_op(s, e, KYMO_OP_NOP);
    (void)sample_op(s, e, KYMO_OP_PSEUDO_BRANCH_LABEL);
    (void)sample_op(s, e, KYMO_OP_NOP);
    (void)sample_op(s, e, KYMO_OP_PSEUDO_BRANCH_LABEL);
    (void)sample_op(s, e, KYMO_OP_PSEUDO_BRANCH_LABEL);
    (void)sample_op(s, e, KYMO_OP_NOP);
    branch(s, e, -4);
    (void)sample_op(s, e, KYMO_OP_NOP);
    branch(s, e, 2);
    (void)sample_op(s, e, KYMO_OP_NOP);
    (void)sample_op(s, e, KYMO_OP_HALT);
    struct sim_image *im = build(s, 1);
    const struct sim_engine_image *ei = &im->cores[0].engines[e];
    assert_int_equal(ei->section_count, 3);
    unsigned first = ei->sections[1].first;
    assert_int_equal(first, 2);
    assert_int_equal(ei->sections[1].count, 9);
    static const int compiler[] = {0, 2, 5, 6, -1, 7, 8, 9, 10};
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(ei->compiler_pc[first + i], compiler[i]);
    assert_int_equal(target_of(ei, first + 3), -2); /* 6 to 2: two labels lie between */
    assert_int_equal(target_of(ei, first + 6), 2);
    assert_int_equal(target_of(ei, first + 8), 1); /* halt: to the postamble */
    static const struct sim_patch want[] = {
        {NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE, NTFF__IMAGE_SECTION__SECTION_MAIN, 3 * 64, 1},
        {NTFF__INSTRUCTION_PATCH_TYPE__PATCH_DELETE, NTFF__IMAGE_SECTION__SECTION_MAIN, 4 * 64, 2},
        {NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY, NTFF__IMAGE_SECTION__SECTION_MAIN, 5 * 64, 1},
        {NTFF__INSTRUCTION_PATCH_TYPE__PATCH_INSERT, NTFF__IMAGE_SECTION__SECTION_MAIN, 6 * 64, 1},
        {NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY, NTFF__IMAGE_SECTION__SECTION_MAIN, 10 * 64, 1},
    };
    assert_int_equal(ei->patch_count, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ei->patches[i].type, want[i].type);
        assert_int_equal(ei->patches[i].offset, want[i].offset);
        assert_int_equal(ei->patches[i].count, want[i].count);
    }
    sim_image_free(im);
    sample_free(s);
}

static void test_trigger_becomes_write(void **state)
{
    (void)state;
    struct sample *s = sample_new(arch);
    s->queues = QUEUES;
    s->blocks = BLOCKS;
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncSpill0", 9);
    kymo_instr_set_wait(s->code[KYMO_ENGINE_SYNC][0], KYMO_WAIT_GE, 5, 2);
    struct sim_image *im = build(s, 1);
    const struct sim_engine_image *ei = &im->cores[0].engines[KYMO_ENGINE_SYNC];
    unsigned slot = ei->sections[1].first;
    const uint8_t *rec = ei->code + slot * KYMO_INSTR_SIZE;
    assert_int_equal(rec[0], KYMO_OP_WRITE);
    struct kymo_sync sync = kymo_instr_sync(rec);
    assert_int_equal(sync.wait_mode, KYMO_WAIT_GE);
    assert_int_equal(sync.wait_idx, 5);
    assert_int_equal(sync.wait_value, 2);
    const struct sim_op *op = &ei->ops[slot];
    assert_string_equal(im->cores[0].queues[op->queue].name, "qSyncSpill0");
    assert_int_equal(im->cores[0].queues[op->queue].blocks[op->block].id, 9);
    assert_int_equal(ei->patches[0].type, NTFF__INSTRUCTION_PATCH_TYPE__PATCH_MODIFY);
    sim_image_free(im);
    sample_free(s);
}

static void test_blocks_over_engines(void **state)
{
    (void)state;
    struct sample *s = sample_new(arch);
    s->queues = QUEUES;
    s->blocks = BLOCKS;
    (void)sample_op(s, KYMO_ENGINE_SYNC, KYMO_OP_NOP);
    struct sim_image *im = build(s, 1);
    const struct sim_queue *q = im->cores[0].queues;
    assert_int_equal(im->cores[0].queue_count, 3);
    assert_int_equal(q[0].engines, 0xFFFF);
    assert_int_equal(q[0].type, NTFF__DMA_QUEUE_TYPE__DMA_QUEUE_INPUT);
    assert_int_equal(q[0].blocks[0].packet_count, 16);
    assert_int_equal(q[0].blocks[0].semaphore, 7);
    for (unsigned e = 0; e < 16; e++)
        assert_int_equal(q[0].blocks[0].packets[e].bytes, 4096);
    /* 10000 bytes: three packets, one on each of three engines, the first byte more. */
    const struct sim_block *b = &q[1].blocks[0];
    assert_int_equal(b->packet_count, 3);
    assert_int_equal(b->semaphore, 11);
    assert_int_equal(b->packets[0].bytes, 3334);
    assert_int_equal(b->packets[1].bytes, 3333);
    assert_int_equal(__builtin_popcount(q[1].engines), 3);
    assert_true(q[1].queue_index != q[0].queue_index);
    assert_true(q[2].hardware_dynamic);
    assert_int_equal(q[1].engines & q[2].engines, 0); /* sets of one hardware queue do not overlap */
    assert_int_equal(q[1].queue_index, q[2].queue_index);
    sim_image_free(im);
    sample_free(s);
}

static void refuse(struct sample *s, int code, const char *words)
{
    struct kymo_err err = {0};
    struct sim_image *im = NULL;
    struct neff *neff = sample_neff(s, 1);
    assert_int_equal(sim_image_build(arch, 1, neff, 1, &im, &err), code);
    assert_null(im);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    neff_free(neff);
    sample_free(s);
}

static void test_refusals(void **state)
{
    (void)state;
    struct sample *s = sample_new(arch);
    sample_trigger(s, KYMO_ENGINE_SYNC, "qNowhere", 1);
    refuse(s, -ENOENT, "qNowhere");
    s = sample_new(arch);
    (void)sample_op(s, KYMO_ENGINE_TENSOR, 0xD5);
    refuse(s, -ENOTSUP, "Tensor, compiler pc 0");
    s = sample_new(arch);
    branch(s, KYMO_ENGINE_SCALAR, -1);
    refuse(s, -EPROTO, "leaves the stream");
    s = sample_new(arch);
    (void)sample_op(s, KYMO_ENGINE_GPSIMD, KYMO_OP_PSEUDO_DMA_DIRECT2D);
    refuse(s, -EPROTO, "no queue set of type dynamic");
    s = sample_new(arch);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_NOP), 0x33, 1, 1);
    refuse(s, -EPROTO, "mode not known");
}

static uint8_t *copy_of(struct sample *s, struct kymo_var_ref from, struct kymo_var_ref to)
{
    s->queues = "\"qSyncDyn\":{\"type\":\"dynamic\",\"owner\":\"sp\",\"num_queues\":4}";
    uint8_t *rec = sample_op(s, KYMO_ENGINE_SYNC, KYMO_OP_PSEUDO_DMA_DIRECT2D);
    sample_set(s, rec, KYMO_F_SRC_ELEM, 64);
    sample_set(s, rec, KYMO_F_SRC_ADDR64, kymo_addr64_of_variable(from));
    sample_set(s, rec, KYMO_F_DST_ADDR64, kymo_addr64_of_variable(to));
    return rec;
}

/* The sample has no variables: places are given by hand. */
static void test_variables(void **state)
{
    (void)state;
    const struct neff_var vars[] = {{.name = "late", .type = "output", .var_id = 2, .size = 100},
                                    {.name = "sbuf", .type = "state-buffer", .var_id = 0, .size = 1u << 24},
                                    {.name = "first", .type = "input", .var_id = 1, .size = 5000}};
    const struct neff_subgraph sg = {.vars = vars, .var_count = 3};
    struct sim_core_image ci = {.subgraph = &sg};
    struct kymo_err err = {0};
    assert_int_equal(sim_image_place_vars(arch, 1, &ci, NULL), 0);
    uint64_t addr = kymo_addr64_of_variable((struct kymo_var_ref){2, 99});
    assert_int_equal(sim_image_resolve(arch, &ci, &addr, NULL), 0);
    assert_true(addr == arch->hbm_base + 8192 + 99);
    assert_string_equal(sim_image_var_at(arch, &ci, addr), "late");
    assert_null(sim_image_var_at(arch, &ci, addr + 1));
    addr = kymo_addr64_of_variable((struct kymo_var_ref){0, 64});
    assert_int_equal(sim_image_resolve(arch, &ci, &addr, NULL), 0);
    assert_true(addr == arch->sbuf_base + arch->core_stride + 64);
    assert_string_equal(sim_image_var_at(arch, &ci, addr), "sbuf");
    assert_int_equal(sim_image_resolve(arch, &ci, &addr, NULL), 0); /* an address stays */
    assert_true(addr == arch->sbuf_base + arch->core_stride + 64);
    addr = kymo_addr64_of_variable((struct kymo_var_ref){1, 5000});
    assert_int_equal(sim_image_resolve(arch, &ci, &addr, &err), -EPROTO);
    kymo_free(ci.vars);
    struct sample *s = sample_new(arch);
    (void)copy_of(s, (struct kymo_var_ref){77, 0}, (struct kymo_var_ref){77, 0});
    refuse(s, -EPROTO, "PSEUDO_DMA_DIRECT2D: byte 0 of variable 77");
}

static void test_two_cores(void **state)
{
    (void)state;
    struct sample *s = sample_new(arch);
    (void)sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_NOP);
    struct sim_image *im = build(s, 2);
    assert_non_null(im->cores[1].engines[KYMO_ENGINE_TENSOR].code);
    assert_null(im->cores[1].engines[KYMO_ENGINE_VECTOR].code);
    assert_true(im->cores[1].engines[KYMO_ENGINE_TENSOR].start_address !=
                im->cores[0].engines[KYMO_ENGINE_TENSOR].start_address);
    Ntff__NeffNodeInfo *node = sim_image_describe(im, 2, 4, 0);
    assert_non_null(node);
    assert_int_equal(node->nd_node->n_graphs, 2);
    assert_int_equal(node->nd_node->graphs[1]->nc_idx, 5);
    assert_int_equal(node->nd_node->graphs[1]->nd_idx, 2);
    assert_int_equal(node->nd_node->graphs[0]->n_instruction_info, 2);
    ntff__neff_node_info__free_unpacked(node, NULL);
    sim_image_free(im);
    sample_free(s);
}

/* Every allocation fails once: nothing leaks (run under the address sanitizer) and nothing is returned. */
static void test_out_of_memory(void **state)
{
    (void)state;
    struct sample *s = sample_new(arch);
    s->queues = QUEUES;
    s->blocks = BLOCKS;
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    struct neff *neff = sample_neff(s, 1);
    struct sim_image *im = NULL;
    unsigned failures = 0;
    for (long n = 0; n < 1000 && !im; n++) {
        kymo_alloc_fail_after(n);
        int r = sim_image_build(arch, 1, neff, 1, &im, NULL);
        kymo_alloc_fail_after(-1);
        assert_int_equal(r, im ? 0 : -ENOMEM);
        failures += !im;
    }
    assert_non_null(im);
    assert_true(failures > 5);
    Ntff__NeffNodeInfo *node = NULL;
    for (long n = 0; n < 1000 && !node; n++) {
        kymo_alloc_fail_after(n);
        node = sim_image_describe(im, 0, 0, 0);
        kymo_alloc_fail_after(-1);
    }
    assert_non_null(node);
    ntff__neff_node_info__free_unpacked(node, NULL);
    sim_image_free(im);
    sample_free(s);
}

int main(void)
{
    arch = kymo_arch_get(KYMO_GEN_TRN2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_and_branches), cmocka_unit_test(test_trigger_becomes_write),
        cmocka_unit_test(test_blocks_over_engines), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_variables),           cmocka_unit_test(test_two_cores),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
