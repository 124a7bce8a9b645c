/* The truth's files: whole, sorted, consistent with each other and with the records; and what want of memory leaves of
 * it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/le.h"
#include "driver-iface/sim/sim_core.h"
#include "driver-iface/sim/sim_truth.h"
#include "tests/unit/sim_sample.h"

#define COLUMNS_MAX 32

static const struct kymo_arch *arch;
static char dir[] = "/tmp/kymo-sim-truth-XXXXXX";

/* What came into each ring. */
struct tally {
    uint64_t count[KYMO_RING_PLAN_MAX], sum[KYMO_RING_PLAN_MAX], low[KYMO_RING_PLAN_MAX], high[KYMO_RING_PLAN_MAX];
};

static bool tally_put(void *ctx, size_t ring, const uint8_t record[KYMO_RECORD_SIZE])
{
    struct tally *t = ctx;
    t->count[ring]++;
    t->low[ring] ^= kymo_le64(record);
    t->high[ring] ^= kymo_le64(record + 8);
    t->sum[ring] += kymo_le64(record + 8);
    return true;
}

struct table {
    char *text;
    char **cells; /* rows * columns, the header first */
    size_t rows, columns;
};

static void split(struct table *t)
{
    size_t cap = 0, n = 0;
    for (char *line = t->text; *line;) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        size_t columns = 0;
        for (char *cell = line; cell; columns++) {
            char *tab = strchr(cell, '\t');
            if (tab)
                *tab++ = '\0';
            assert_int_equal(kymo_grow((void **)&t->cells, &cap, n + 1, 10000000, sizeof *t->cells), 0);
            t->cells[n++] = cell;
            cell = tab;
        }
        if (!t->rows)
            t->columns = columns;
        assert_int_equal(columns, t->columns);
        t->rows++;
        line = end + 1;
    }
}

static struct table load(const char *name)
{
    char *path = kymo_asprintf("%s/%s.tsv", dir, name);
    struct table t = {0};
    size_t n;
    assert_int_equal(kymo_file_read_all(path, 1u << 26, (uint8_t **)&t.text, &n, NULL), 0);
    kymo_free(path);
    split(&t);
    return t;
}

static void unload(struct table *t)
{
    kymo_free(t->text);
    kymo_free(t->cells);
}

static const char *cell(const struct table *t, size_t row, const char *column)
{
    for (size_t c = 0; c < t->columns; c++)
        if (!strcmp(t->cells[c], column))
            return t->cells[(row + 1) * t->columns + c];
    fail_msg("no column %s", column);
    return NULL;
}

static uint64_t number(const struct table *t, size_t row, const char *column)
{
    return strtoull(cell(t, row, column), NULL, 10);
}

static struct sample *make_sample(void)
{
    struct sample *s = sample_new(arch);
    s->queues = "\"qSyncIO0\":{\"type\":\"in\",\"owner\":\"sp\",\"num_queues\":16,\"semaphore\":7},"
                "\"qSyncDyn\":{\"type\":\"dynamic\",\"owner\":\"sp\",\"num_queues\":4}";
    s->blocks = "{\"id\":3,\"queue\":\"qSyncIO0\",\"desc\":{\"from\":\"a\",\"from_off\":0,\"from_sizes\":[65536],"
                "\"from_steps\":[1],"
                "\"to\":\"b\",\"to_off\":0,\"to_sizes\":[65536],\"to_steps\":[1]}}";
    for (unsigned i = 0; i < 3; i++) {
        sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
        kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL), KYMO_WAIT_GE, 7, 16 * (i + 1));
        kymo_instr_set_update(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_NOP), KYMO_UPD_INC | KYMO_UPD_COMPLETE, 9, 0);
        kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_COPY), KYMO_WAIT_GE, 9, i + 1);
    }
    uint8_t *rec = sample_op(s, KYMO_ENGINE_SYNC, KYMO_OP_PSEUDO_DMA_DIRECT2D);
    sample_set(s, rec, KYMO_F_SRC_ELEM, 512);
    sample_set(s, rec, KYMO_F_SRC_COUNT1, 8);
    return s;
}

static struct sim_image *make_image(void)
{
    struct sample *s = make_sample();
    struct sim_image *im = NULL;
    assert_int_equal(sim_image_build(arch, 1, sample_neff(s, 1), 1, &im, NULL), 0);
    sample_free(s);
    return im;
}

static const char *no_env(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return NULL;
}

static size_t make_plan(struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX])
{
    struct kymo_ring_sizes sizes;
    assert_int_equal(kymo_ring_sizes_from_env(no_env, NULL, &sizes, NULL), 0);
    return kymo_ring_plan(arch, 0, 1, "2.31.0", &sizes, plan);
}

static const struct sim_truth_meta meta = {
    .ntff = "x.ntff", .path = "/tmp/x.ntff", .instance = "trn2.48xlarge", .mode = "model", .driver = "2.31.0"};

static void check_sorted(const char *name, const char *column)
{
    struct table t = load(name);
    for (size_t i = 1; i + 1 < t.rows; i++)
        assert_true(number(&t, i - 1, column) <= number(&t, i, column));
    assert_true(t.rows > 1);
    unload(&t);
}

static uint64_t sum_of(const struct table *sums, const char *label, const char *what)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s %s", label, what);
    for (size_t i = 0; i + 1 < sums->rows; i++)
        if (!strcmp(cell(sums, i, "name"), name))
            return number(sums, i, "value");
    fail_msg("sums.tsv has no %s", name);
    return 0;
}

static void check_sums(const struct tally *tally, const struct kymo_ring_plan *plan, size_t n)
{
    struct table sums = load("sums");
    for (size_t i = 0; i < n; i++) {
        char label[64];
        kymo_ring_label(plan[i].ring, plan[i].pcore_idx, plan[i].engine_index, label, sizeof label);
        assert_int_equal(sum_of(&sums, label, "count"), tally->count[i]);
        assert_int_equal(sum_of(&sums, label, "sum_raw_ps"), tally->sum[i]);
        assert_int_equal(sum_of(&sums, label, "xor_low"), tally->low[i]);
        assert_int_equal(sum_of(&sums, label, "xor_high"), tally->high[i]);
    }
    static const char *const names[] = {"instructions", "dma_packets", "dma_transfers",
                                        "semaphores",   "host_dma",    "status"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        struct table t = load(names[k]);
        assert_int_equal(sum_of(&sums, names[k], "rows"), t.rows - 1);
        unload(&t);
    }
    unload(&sums);
}

/* Edges lead to rows that exist and from what is earlier to what is later; all four kinds but PSUM's are there. */
static void check_edges(void)
{
    struct table edges = load("edges"), instructions = load("instructions"), transfers = load("dma_transfers"),
                 syncs = load("semaphores");
    unsigned triggers = 0, waits = 0, semaphores = 0;
    for (size_t i = 0; i + 1 < edges.rows; i++) {
        const struct table *from = !strcmp(cell(&edges, i, "from_table"), "instructions") ? &instructions : &transfers;
        const struct table *to = !strcmp(cell(&edges, i, "to_table"), "instructions") ? &instructions : &transfers;
        size_t a = number(&edges, i, "from_row"), b = number(&edges, i, "to_row");
        assert_true(a + 1 < from->rows && b + 1 < to->rows);
        const char *kind = cell(&edges, i, "kind"), *detail = cell(&edges, i, "detail");
        triggers += !strcmp(kind, "dma_trigger");
        waits += !strcmp(kind, "dma_wait");
        semaphores += !strcmp(kind, "semaphore");
        if (!strcmp(kind, "dma_trigger")) {
            assert_true(number(from, a, "end_ps") < number(to, b, "start_ps"));
            continue;
        }
        assert_true(number(from, a, "end_ps") < number(to, b, "end_ps"));
        assert_int_equal(strncmp(detail, "update=", 7), 0);
        size_t update = strtoull(detail + 7, NULL, 10);
        assert_true(update + 1 < syncs.rows);
        assert_string_equal(cell(&syncs, update, "source"), from == &transfers ? "AXI" : cell(from, a, "engine"));
    }
    assert_int_equal(triggers, 4 * 2); /* three static, one dynamic, in two executions */
    assert_int_equal(waits, 3 * 2);
    assert_true(semaphores >= 3 * 2);
    unload(&edges);
    unload(&instructions);
    unload(&transfers);
    unload(&syncs);
}

static void test_files(void **state)
{
    (void)state;
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t n = make_plan(plan);
    struct sim_core *core = NULL;
    struct sim_config config = {.arch = arch, .lnc = 1, .seed = 4, .start_ps = 1000000};
    assert_int_equal(sim_core_new(&config, &core, NULL), 0);
    struct sim_truth *truth = sim_truth_new(true);
    struct tally *tally = KYMO_NEW(struct tally);
    assert_true(truth && tally);
    assert_int_equal(
        sim_core_arm(core, 0, plan, n, (struct sim_ring_sink){.put = tally_put, .ctx = tally}, truth, NULL), 0);
    struct sim_image *im = make_image();
    struct sim_exec_result result;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(sim_core_execute(core, 0, im, false, &result, NULL), 0);
    assert_null(sim_image_free(im)); /* the truth holds its own reference */
    struct kymo_err err = {0};
    if (sim_core_write_truth(core, 0, &meta, dir, &err) < 0)
        fail_msg("%s", err.text);
    check_sums(tally, plan, n);
    check_edges();
    check_sorted("instructions", "start_ps");
    check_sorted("dma_packets", "start_ps");
    check_sorted("dma_transfers", "start_ps");
    check_sorted("semaphores", "ts_ps");
    check_sorted("host_dma", "start_ps");
    check_sorted("status", "ts_ps");
    sim_core_free(core);
    sim_truth_free(truth);
    kymo_free(tally);
}

/* Each allocation of a run fails once. The run then fails with a reason or goes on; only the truth may lose its detail.
 */
static void test_out_of_memory(void **state)
{
    (void)state;
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t n = make_plan(plan);
    struct sim_image *im = make_image();
    struct tally *tally = KYMO_NEW(struct tally);
    struct sim_config config = {.arch = arch, .lnc = 1, .seed = 4, .start_ps = 1000000};
    assert_non_null(tally);
    unsigned failed = 0, without_detail = 0, good = 0;
    for (long k = 0; k < 1000 && !good; k++) {
        struct sim_core *core = NULL;
        struct sim_exec_result result;
        kymo_alloc_fail_after(k);
        struct sim_truth *truth = sim_truth_new(true);
        int r = truth ? sim_core_new(&config, &core, NULL) : -ENOMEM;
        if (r >= 0)
            r = sim_core_arm(core, 0, plan, n, (struct sim_ring_sink){.put = tally_put, .ctx = tally}, truth, NULL);
        if (r >= 0)
            r = sim_core_execute(core, 0, im, false, &result, NULL);
        kymo_alloc_fail_after(-1);
        assert_true(r == 0 || r == -ENOMEM || r == -ENOBUFS);
        failed += r < 0;
        without_detail += r == 0 && !sim_truth_detail(truth);
        good += r == 0 && sim_truth_detail(truth);
        sim_core_free(core);
        sim_truth_free(truth);
    }
    assert_true(failed > 3 && without_detail > 3 && good == 1);
    sim_image_free(im);
    kymo_free(tally);
}

static void test_refusals(void **state)
{
    (void)state;
    struct sim_core *core = NULL;
    struct kymo_err err = {0};
    struct sim_config config = {.arch = arch, .lnc = 2, .slow_factor = 1000};
    assert_int_equal(sim_core_new(&config, &core, &err), -EINVAL);
    config.slow_factor = 2;
    assert_int_equal(sim_core_new(&config, &core, &err), 0);
    struct kymo_ring_plan odd = {.ring = KYMO_RING_EVENT, .bytes = 100};
    struct sim_ring_sink sink = {.put = tally_put};
    assert_int_equal(sim_core_arm(core, 1, &odd, 0, sink, NULL, &err), -EINVAL); /* begins no logical core */
    assert_int_equal(sim_core_arm(core, 0, &odd, 1, sink, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "power of two"));
    assert_int_equal(sim_core_write_truth(core, 0, &meta, dir, &err), -EINVAL);
    assert_int_equal(sim_core_host_copy(core, 0, true, UINT64_MAX, &err), -EFBIG);
    struct sim_image *im = make_image();
    struct sim_exec_result result;
    assert_int_equal(sim_core_execute(core, 0, im, false, &result, &err), -EINVAL); /* made for LNC=1 */
    sim_image_free(im);
    sim_core_free(core);
}

static int setup(void **state)
{
    (void)state;
    arch = kymo_arch_get(KYMO_GEN_TRN2);
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_out_of_memory),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
