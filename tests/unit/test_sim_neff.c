#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "base/file.h"
#include "driver-iface/sim/sim_model.h"
#include "tests/unit/sim_interpreter.h"

static char path[256];

static void make(const struct sim_model *model, const struct kymo_arch *arch, const struct sim_model_options *options,
                 uint64_t seed, struct sim_program_stats stats[2])
{
    struct sim_program *programs[2] = {NULL};
    struct kymo_err err = {0};
    uint64_t macs = 0;
    for (unsigned c = 0; c < options->lnc; c++) {
        struct sim_model_options o = *options;
        o.core = c;
        programs[c] = sim_program_new(arch, c);
        model->build(programs[c], &o);
        if (sim_program_finish(programs[c], &stats[c], &err) < 0)
            fail_msg("%s on %s: %s", model->name, arch->name, err.text);
        macs += stats[c].macs;
    }
    const struct sim_neff_info info = {.name = model->name, .seed = seed, .lnc = options->lnc};
    if (sim_program_write(programs, &info, macs, path, &err) < 0)
        fail_msg("%s on %s: %s", model->name, arch->name, err.text);
    for (unsigned c = 0; c < options->lnc; c++)
        (void)sim_program_free(programs[c]);
}

static struct neff *open_it(void)
{
    struct kymo_err err = {0};
    struct neff *n = NULL;
    if (neff_open(path, 0, &n, &err) < 0)
        fail_msg("%s", err.text);
    return n;
}

typedef void check_fn(const struct sim_model *model, const struct kymo_arch *arch, unsigned lnc);

static void for_all(check_fn *check)
{
    static const char *const models[] = {"mlp", "attention"};
    unsigned n = 0;
    for (size_t m = 0; m < 2; m++)
        for (int g = 0; g < KYMO_GEN_MAX; g++)
            for (unsigned lnc = 1; lnc <= 2; lnc++) {
                const struct kymo_arch *arch = kymo_arch_get((enum kymo_generation)g);
                if (kymo_arch_check_lnc(arch, lnc, NULL) < 0)
                    continue;
                check(sim_model_find(models[m]), arch, lnc);
                n++;
            }
    assert_int_equal(n, 12);
}

static const struct neff_queue *find_queue(const struct neff_subgraph *sg, const char *name)
{
    for (size_t i = 0; i < sg->queue_count; i++)
        if (!strcmp(sg->queues[i].name, name))
            return &sg->queues[i];
    return NULL;
}

static const struct neff_queue *dynamic_queue(const struct neff_subgraph *sg, enum kymo_engine e)
{
    for (size_t i = 0; i < sg->queue_count; i++)
        if (!strcmp(sg->queues[i].type, "dynamic") && kymo_engine_find(sg->queues[i].owner) == e)
            return &sg->queues[i];
    return NULL;
}

static bool has_variable(const struct neff_subgraph *sg, const char *name)
{
    for (size_t i = 0; i < sg->var_count; i++)
        if (!strcmp(sg->vars[i].name, name))
            return true;
    return false;
}

static void check_block(const struct kymo_arch *arch, const struct neff_subgraph *sg, const struct neff_engine *e,
                        const uint8_t *rec)
{
    char queue[33];
    uint64_t id;
    assert_true(kymo_layout_get_chars(arch, rec, KYMO_F_QUEUE_NAME, queue, sizeof queue));
    assert_true(kymo_layout_get(arch, rec, KYMO_F_BLOCK_ID, &id));
    const struct neff_queue *q = find_queue(sg, queue);
    assert_non_null(q);
    assert_int_equal(kymo_engine_find(q->owner), e->engine);
    unsigned found = 0;
    for (size_t i = 0; i < e->block_count; i++) {
        const struct neff_dma_block *b = &e->blocks[i];
        if (b->id != id || strcmp(b->queue, queue) != 0)
            continue;
        found++;
        assert_true(b->semaphore >= 16 && b->semaphore < 216 && b->bytes > 0);
        assert_int_equal(b->from.sizes[0] * b->from.sizes[1], b->to.sizes[0] * b->to.sizes[1]);
        assert_true(has_variable(sg, b->from.variable) && has_variable(sg, b->to.variable));
    }
    assert_int_equal(found, 1);
}

static void check_branch(const struct kymo_arch *arch, const struct neff_engine *e, size_t pc)
{
    const uint8_t *rec = e->code + pc * KYMO_INSTR_SIZE;
    int64_t target;
    uint64_t label = 0, at = 0;
    assert_true(kymo_layout_get_int(arch, rec, KYMO_F_TARGET, &target));
    assert_true(target < 0 && (int64_t)pc + target >= 0);
    const uint8_t *to = e->code + (size_t)((int64_t)pc + target) * KYMO_INSTR_SIZE;
    assert_int_equal(to[0], KYMO_OP_PSEUDO_BRANCH_LABEL);
    assert_true(kymo_layout_get(arch, rec, KYMO_F_LABEL, &label) && kymo_layout_get(arch, to, KYMO_F_LABEL, &at));
    assert_int_equal(label, at);
}

struct tally {
    unsigned opcodes[256];
    unsigned fp32_passes, fp8, transposes, debug[4], dependencies[5];
};

static void check_engine(const struct neff *n, const struct kymo_arch *arch, const struct neff_subgraph *sg,
                         const struct neff_engine *e, struct tally *t)
{
    for (size_t pc = 0; pc < e->count; pc++) {
        const uint8_t *rec = e->code + pc * KYMO_INSTR_SIZE;
        if (!kymo_opcode_legal(arch, e->engine, rec[0]))
            fail_msg("%s pc %zu: opcode 0x%02x", kymo_engine_name(e->engine), pc, rec[0]);
        t->opcodes[rec[0]]++;
        if (rec[0] == KYMO_OP_PSEUDO_DMA_TRIGGER)
            check_block(arch, sg, e, rec);
        if (rec[0] == KYMO_OP_PSEUDO_DMA_DIRECT2D)
            assert_non_null(dynamic_queue(sg, e->engine));
        if (rec[0] == KYMO_OP_COMPARE_BRANCH)
            check_branch(arch, e, pc);
        struct kymo_footprint fp = kymo_instr_footprint(arch, rec);
        t->fp32_passes += fp.matmul && fp.half_pass;
        t->fp8 += fp.matmul && kymo_dtype_cost(fp.dtype) == KYMO_COST_FP8;
        t->transposes += fp.transpose;
        const struct neff_debug *d = neff_debug_of(n, sg, e->engine, pc);
        if (!d)
            continue;
        assert_true(d->bir_name && d->hlo_name && d->layer && d->file && d->line > 0);
        assert_int_equal(d->raw_bir_id >> 48, sg->pcore_idx);
        t->debug[d->kind]++;
        if (fp.matmul)
            assert_int_equal(d->kind == 3, fp.transpose);
        for (size_t k = 0; k < d->dataflow_count; k++)
            t->dependencies[d->dataflow_kinds[k]]++;
        for (size_t k = 0; k < d->scheduling_count; k++)
            t->dependencies[d->scheduling_kinds[k]]++;
    }
}

static void check_package(const struct sim_model *model, const struct kymo_arch *arch, unsigned lnc)
{
    struct sim_program_stats stats[2];
    struct sim_model_options o = model->defaults;
    o.lnc = lnc;
    make(model, arch, &o, 1, stats);
    struct neff *n = open_it();
    for (size_t i = 0; i < neff_note_count(n); i++)
        fail_msg("%s", neff_note(n, i));
    const struct neff_header *h = neff_get_header(n);
    assert_true(neff_hash_matches(n) && neff_is_gzip(n) && neff_has_debug(n));
    assert_true(h->lnc_size == lnc && (h->uuid[6] & 0xF0) == 0x40 && (h->uuid[8] & 0xC0) == 0x80);
    assert_string_equal(neff_target(n), arch->codename);
    assert_int_equal(neff_mac_count(n), stats[0].macs + (lnc == 2 ? stats[1].macs : 0));
    assert_int_equal(neff_subgraph_count(n), lnc);
    for (unsigned c = 0; c < lnc; c++) {
        const struct neff_subgraph *sg = neff_subgraph_of_pcore(n, c);
        struct tally t = {0};
        uint64_t instructions = 0;
        assert_non_null(sg);
        assert_int_equal(sg->engine_count, KYMO_ENGINE_MAX);
        for (size_t e = 0; e < sg->engine_count; e++) {
            check_engine(n, arch, sg, &sg->engines[e], &t);
            instructions += sg->engines[e].count;
        }
        assert_int_equal(instructions, stats[c].static_instructions);
        assert_true(t.opcodes[KYMO_OP_PSEUDO_DMA_TRIGGER] && t.opcodes[KYMO_OP_PSEUDO_DMA_DIRECT2D]);
        assert_true(t.opcodes[KYMO_OP_TENSOR_TENSOR] && t.opcodes[KYMO_OP_ACTIVATE] && t.opcodes[0x9D]);
        assert_int_equal(t.opcodes[KYMO_OP_PSEUDO_BRANCH_LABEL], t.opcodes[KYMO_OP_COMPARE_BRANCH]);
        assert_true(t.fp32_passes && t.transposes && t.debug[1] && t.debug[2] && t.debug[3]);
        assert_true(t.dependencies[1] && t.dependencies[2] && t.dependencies[3] && t.dependencies[4]);
        if (!strcmp(model->name, "mlp"))
            assert_true(t.fp8 > 0);
        if (arch->hardware_dge)
            assert_true(dynamic_queue(sg, KYMO_ENGINE_SYNC) && dynamic_queue(sg, KYMO_ENGINE_SCALAR));
        else
            assert_true(!dynamic_queue(sg, KYMO_ENGINE_SYNC) && !dynamic_queue(sg, KYMO_ENGINE_SCALAR));
    }
    n = neff_free(n);
}

static void test_packages(void **state)
{
    (void)state;
    for_all(check_package);
}

/* Every schedule ends, all semaphores come back to 0, nothing races, and the builder counted what really runs. */
static void check_execution(const struct sim_model *model, const struct kymo_arch *arch, unsigned lnc)
{
    struct sim_program_stats stats[2];
    struct sim_model_options o = model->defaults;
    o.lnc = lnc;
    make(model, arch, &o, 1, stats);
    struct neff *n = open_it();
    for (unsigned c = 0; c < lnc; c++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct interpreter_result r = interpreter_run(arch, neff_subgraph_of_pcore(n, c), 2, seed);
            if (r.deadlock || r.races || r.nonzero_semaphores)
                fail_msg("%s on %s, lnc %u, core %u: %u races, %u semaphores not 0, %s", model->name, arch->name, lnc,
                         c, r.races, r.nonzero_semaphores, r.text);
            assert_int_equal(r.executed, 2 * stats[c].executed_instructions);
            assert_int_equal(r.transfers, 2 * stats[c].transfers);
            assert_true(stats[c].executed_instructions > 1000);
        }
    n = neff_free(n);
}

static void test_executions(void **state)
{
    (void)state;
    for_all(check_execution);
}

/* Sizes at and off the defaults' edges. */
static void test_shapes(void **state)
{
    (void)state;
    static const struct sim_model_options shapes[] = {
        {.layers = 1, .hidden = 128, .batch = 128, .repeat = 1, .lnc = 1},
        {.layers = 5, .hidden = 256, .batch = 512, .repeat = 2, .lnc = 2},
        {.layers = 3, .hidden = 384, .batch = 384, .repeat = 1, .lnc = 2},
        {.layers = 2, .hidden = 1024, .batch = 256, .repeat = 1, .lnc = 2},
    };
    static const char *const models[] = {"mlp", "attention"};
    const struct kymo_arch *arch = kymo_arch_find("trn2");
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            struct sim_program_stats stats[2];
            assert_int_equal(sim_model_check(&shapes[i], NULL), 0);
            make(sim_model_find(models[m]), arch, &shapes[i], 1, stats);
            struct neff *n = open_it();
            for (unsigned c = 0; c < shapes[i].lnc; c++) {
                struct interpreter_result r = interpreter_run(arch, neff_subgraph_of_pcore(n, c), 1, i + 1);
                if (r.deadlock || r.races || r.nonzero_semaphores)
                    fail_msg("%s, shape %zu, core %u: %u races, %s", models[m], i, c, r.races, r.text);
                assert_int_equal(r.executed, stats[c].executed_instructions);
            }
            n = neff_free(n);
        }
}

/* The largest shape fits every generation's SBUF, and the limits are refused with their reason. */
static void test_limits(void **state)
{
    (void)state;
    struct sim_program_stats stats[2];
    const struct sim_model_options large = {.layers = 8, .hidden = 2048, .batch = 512, .repeat = 1, .lnc = 1};
    for (int g = 0; g < KYMO_GEN_MAX; g++)
        make(sim_model_find("attention"), kymo_arch_get((enum kymo_generation)g), &large, 1, stats);
    make(sim_model_find("mlp"), kymo_arch_find("trn1"), &large, 1, stats);
    struct kymo_err err = {0};
    const struct sim_model_options good = sim_model_find("mlp")->defaults;
    struct sim_model_options bad[6];
    for (size_t i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].layers = 0;
    bad[1].layers = 65;
    bad[2].hidden = 100;
    bad[3].batch = 640;
    bad[4].repeat = 0;
    bad[5].repeat = UINT32_MAX;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(sim_model_check(&bad[i], &err), -EINVAL);
    assert_null(sim_model_find("resnet"));
}

static void test_same_bytes(void **state)
{
    (void)state;
    struct sim_program_stats stats[2];
    struct sim_model_options o = sim_model_find("mlp")->defaults;
    o.lnc = 2;
    uint8_t *data[3];
    size_t len[3];
    for (unsigned i = 0; i < 3; i++) {
        make(sim_model_find("mlp"), kymo_arch_find("trn2"), &o, i / 2, stats);
        assert_int_equal(kymo_file_read_all(path, 1u << 28, &data[i], &len[i], NULL), 0);
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(data[0], data[1], len[0]);
    /* Another seed changes the UUID in the header. */
    assert_memory_not_equal(data[0] + 0xCC, data[2] + 0xCC, 16);
    for (unsigned i = 0; i < 3; i++)
        kymo_free(data[i]);
}

/* Repeat makes a longer run of the same code. */
static void test_repeat(void **state)
{
    (void)state;
    struct sim_program_stats one[2], many[2];
    struct sim_model_options o = sim_model_find("mlp")->defaults;
    make(sim_model_find("mlp"), kymo_arch_find("trn2"), &o, 1, one);
    o.repeat = 100000;
    make(sim_model_find("mlp"), kymo_arch_find("trn2"), &o, 1, many);
    assert_int_equal(one[0].static_instructions, many[0].static_instructions);
    assert_true(many[0].executed_instructions > 95000 * one[0].executed_instructions);
    assert_true(many[0].macs == 100000 * one[0].macs);
}

/* The checker itself: with one wait in ten taken out, it must object. */
static void test_checker_sees_races(void **state)
{
    (void)state;
    struct sim_program_stats stats[2];
    make(sim_model_find("mlp"), kymo_arch_find("trn2"), &sim_model_find("mlp")->defaults, 1, stats);
    struct neff *n = open_it();
    const struct neff_subgraph *sg = neff_subgraph_of_pcore(n, 0);
    struct neff_engine engines[KYMO_ENGINE_MAX];
    uint8_t *code[KYMO_ENGINE_MAX];
    unsigned seen = 0;
    for (size_t e = 0; e < sg->engine_count; e++) {
        engines[e] = sg->engines[e];
        code[e] = kymo_malloc(engines[e].count * KYMO_INSTR_SIZE);
        memcpy(code[e], engines[e].code, engines[e].count * KYMO_INSTR_SIZE);
        engines[e].code = code[e];
        for (size_t pc = 0; pc < engines[e].count; pc++) {
            uint8_t *rec = code[e] + pc * KYMO_INSTR_SIZE;
            if (rec[4] == KYMO_WAIT_GE && rec[6] != KYMO_UPD_SUB && ++seen % 10 == 0)
                rec[4] = KYMO_WAIT_NONE;
        }
    }
    struct neff_subgraph broken = *sg;
    broken.engines = engines;
    assert_true(seen > 50);
    assert_true(interpreter_run(kymo_arch_find("trn2"), &broken, 1, 1).races > 0);
    for (size_t e = 0; e < sg->engine_count; e++)
        kymo_free(code[e]);
    n = neff_free(n);
}

static void test_builder_errors(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    struct sim_program_stats stats;
    const struct kymo_arch *arch = kymo_arch_find("trn1");
    struct sim_program *p = sim_program_new(arch, 0);
    sim_program_loop_begin(p, 2);
    sim_program_loop_begin(p, 2);
    assert_int_equal(sim_program_finish(p, &stats, &err), -EINVAL);
    assert_non_null(strstr(err.text, "nest"));
    p = sim_program_free(p);

    p = sim_program_new(arch, 0);
    struct sim_buf b = sim_program_sbuf(p, 64);
    sim_emit_fill(p, KYMO_ENGINE_TENSOR, KYMO_OP_MEMSET, 0, sim_model_at(b, 0, 4, KYMO_DT_FP32));
    assert_int_equal(sim_program_finish(p, &stats, &err), -EINVAL);
    assert_non_null(strstr(err.text, "MEMSET is not legal on Tensor of Trn1"));
    p = sim_program_free(p);

    p = sim_program_new(arch, 0);
    b = sim_program_sbuf(p, 64);
    sim_emit_fill(p, KYMO_ENGINE_VECTOR, KYMO_OP_MEMSET, 0, sim_model_at(b, 0, 17, KYMO_DT_FP32));
    assert_int_equal(sim_program_finish(p, &stats, &err), -EINVAL);
    p = sim_program_free(p);

    p = sim_program_new(arch, 0);
    (void)sim_program_sbuf(p, arch->sbuf_partition_bytes);
    (void)sim_program_sbuf(p, 1);
    assert_int_equal(sim_program_finish(p, &stats, &err), -ENOSPC);
    p = sim_program_free(p);
}

/* 0, or the error; nothing may leak or crash on the way. */
static int try_small(long fail_after)
{
    const struct sim_model_options o = {.layers = 1, .hidden = 128, .batch = 128, .repeat = 1, .lnc = 1};
    struct sim_program_stats stats;
    struct kymo_err err = {0};
    kymo_alloc_fail_after(fail_after);
    struct sim_program *p = sim_program_new(kymo_arch_find("trn2"), 0);
    int r = p ? 0 : -ENOMEM;
    if (p) {
        sim_model_find("mlp")->build(p, &o);
        r = sim_program_finish(p, &stats, &err);
    }
    const struct sim_neff_info info = {.name = "small", .lnc = 1};
    if (r == 0)
        r = sim_program_write(&p, &info, stats.macs, path, &err);
    p = sim_program_free(p);
    kymo_alloc_fail_after(-1);
    assert_true(r == 0 || r == -ENOMEM);
    return r;
}

static void test_no_memory(void **state)
{
    (void)state;
    long n = 0;
    while (n < 100000 && try_small(n) < 0)
        n++;
    print_message("%ld allocations failed in turn\n", n);
    assert_true(n > 100 && n < 100000);
}

int main(void)
{
    (void)snprintf(path, sizeof path, "/tmp/test_sim_neff.%d.neff", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_executions),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_checker_sees_races),
        cmocka_unit_test(test_builder_errors),
        cmocka_unit_test(test_no_memory),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    return kymo_file_remove_tree(path, NULL) < 0 ? 1 : r;
}
