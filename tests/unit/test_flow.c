/* Dependencies of hand-made programs, kind by kind, with edges and costs worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "pipeline/flow/flow_cc.h"
#include "pipeline/flow/flow_core.h"
#include "pipeline/job.h"

#define EDGES 256

struct world {
    struct flow_row rows[8];
    struct flow_pred preds[8];
    uint32_t tail_loop[8];
    struct flow_static facts;
    struct flow_core *core;
    struct flow_edge edges[EDGES];
    struct flow_wait waits[EDGES];
    size_t edge_count, wait_count;
};

static int keep_edge(void *ctx, const struct flow_edge *e, struct kymo_err *err)
{
    struct world *w = ctx;
    (void)err;
    assert_true(w->edge_count < EDGES);
    w->edges[w->edge_count++] = *e;
    return 0;
}

static int keep_wait(void *ctx, const struct flow_wait *wait, struct kymo_err *err)
{
    struct world *w = ctx;
    (void)err;
    assert_true(w->wait_count < EDGES);
    w->waits[w->wait_count++] = *wait;
    return 0;
}

/* Row k is on engine k; tests add what they need. */
static struct world *make(void)
{
    struct world *w = KYMO_NEW(struct world);
    assert_non_null(w);
    for (unsigned i = 0; i < 8; i++)
        w->rows[i] = (struct flow_row){
            .tail = FLOW_NONE, .dma_semaphore = -1, .sets = 1, .engine = (uint8_t)(i % KYMO_ENGINE_MAX), .known = true};
    w->facts = (struct flow_static){.rows = w->rows, .count = 8, .preds = w->preds, .tail_loop = w->tail_loop};
    return w;
}

static void start(struct world *w)
{
    struct kymo_err err = {0};
    struct flow_sink sink = {keep_edge, keep_wait, w};
    assert_int_equal(flow_core_new(&w->facts, 0, sink, &w->core, &err), 0);
    flow_core_execution(w->core, 1);
}

static void finish(struct world *w)
{
    struct kymo_err err = {0};
    assert_int_equal(flow_core_settle(w->core, UINT64_MAX, true, &err), 0);
}

static void drop(struct world *w)
{
    flow_core_free(w->core);
    kymo_free(w);
}

static struct kymo_sync wait_ge(uint8_t semaphore, uint32_t value)
{
    return (struct kymo_sync){.wait_mode = KYMO_WAIT_GE, .wait_idx = semaphore, .wait_value = value};
}

static struct kymo_sync count_up(uint8_t semaphore)
{
    return (struct kymo_sync){.update_mode = KYMO_UPD_INC | KYMO_UPD_COMPLETE, .update_idx = semaphore};
}

/* An instruction of a row from start to end (ns), of which it waited `wait`. */
static void run_in(struct world *w, uint32_t execution, int64_t id, uint32_t row, int64_t from, int64_t to,
                   int64_t wait)
{
    struct kymo_err err = {0};
    struct flow_instruction i = {.id = id,
                                 .start = from,
                                 .end = to,
                                 .start_ps = (uint64_t)from * 1000,
                                 .end_ps = (uint64_t)to * 1000,
                                 .wait = wait,
                                 .launched = {.id = -1},
                                 .row = row,
                                 .execution = execution};
    assert_int_equal(flow_core_settle(w->core, i.start_ps, false, &err), 0);
    assert_int_equal(flow_core_instruction(w->core, &i, &err), 0);
}

static void run(struct world *w, int64_t id, uint32_t row, int64_t from, int64_t to, int64_t wait)
{
    run_in(w, 1, id, row, from, to, wait);
}

static void record(struct world *w, int64_t ns, unsigned source, uint8_t mode, uint8_t semaphore, uint32_t value,
                   const struct flow_update *writer)
{
    struct kymo_err err = {0};
    struct flow_record r = {(uint64_t)ns * 1000, value, mode, semaphore, (uint8_t)source, true};
    assert_int_equal(flow_core_record(w->core, &r, writer, &err), 0);
}

static void check_edge(const struct world *w, size_t k, enum flow_type type, int64_t in, int64_t out, int64_t gap)
{
    assert_true(k < w->edge_count);
    assert_int_equal(w->edges[k].type, type);
    assert_int_equal(w->edges[k].in_id, in);
    assert_int_equal(w->edges[k].out_id, out);
    assert_int_equal(w->edges[k].gap, gap);
}

#define COMPLETE (KYMO_UPD_INC | KYMO_UPD_COMPLETE)

static void test_semaphore_edge_and_its_cost(void **state)
{
    (void)state;
    struct world *w = make();
    w->rows[0].sync[0] = count_up(7);
    w->rows[1].sync[0] = wait_ge(7, 2);
    start(w);
    run(w, 10, 0, 0, 100, 0);
    run(w, 11, 1, 50, 400, 250); /* issued at 50, waits until 300 */
    record(w, 100, 0, COMPLETE, 7, 1, NULL);
    run(w, 12, 0, 110, 300, 0);
    record(w, 300, 0, COMPLETE, 7, 2, NULL);
    record(w, 300, 1, 0, 7, 2, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 1);
    check_edge(w, 0, FLOW_TYPE_SEMAPHORE, 12, 11, -250);
    assert_int_equal(w->wait_count, 1);
    const struct flow_wait *x = &w->waits[0];
    assert_true(x->id == 11 && x->start == 50 && x->end == 300 && x->wait == 250 && x->cost == 250);
    assert_true(x->in_id == 12 && x->in_table == FLOW_INSTRUCTION && x->target == 7 && x->update == 300 &&
                x->prior == -1);
    assert_true(x->doubt == FLOW_DOUBT_NONE && !x->saturated && !x->lower_bound);
    drop(w);
}

/* Two conditions: that of the transfer came to hold at 200, that of the instruction at 260. */
static void test_the_binding_one_of_two_waits(void **state)
{
    (void)state;
    struct world *w = make();
    w->rows[0].sync[0] = count_up(3);
    w->rows[1].sync[0] = wait_ge(3, 1);
    w->rows[1].sync[1] = wait_ge(9, 1);
    w->rows[1].sets = 2;
    start(w);
    run(w, 1, 0, 0, 260, 0);
    run(w, 2, 1, 100, 300, 160);
    record(w, 200, KYMO_ENGINE_MAX, KYMO_UPD_INC, 9, 1,
           &(struct flow_update){.id = 5, .end = 199, .writer = FLOW_WRITER_TRANSFER});
    record(w, 260, 0, COMPLETE, 3, 1, NULL);
    record(w, 260, 1, 0, 3, 1, NULL);
    record(w, 260, 1, 0, 9, 1, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 2);
    check_edge(w, 0, FLOW_TYPE_SEMAPHORE, 1, 2, -160);
    check_edge(w, 1, FLOW_TYPE_DMA_WAIT, 5, 2, -99);
    assert_int_equal(w->edges[1].in_table, FLOW_TRANSFER);
    assert_int_equal(w->wait_count, 1);
    assert_true(w->waits[0].in_id == 1 && w->waits[0].wait == 160 && w->waits[0].cost == 60 && w->waits[0].target == 3);
    drop(w);
}

/* The third update to 1 or more is not what met it: the condition had held since the first. */
static void test_the_oldest_update_since_which_it_held(void **state)
{
    (void)state;
    struct world *w = make();
    w->rows[0].sync[0] = count_up(4);
    w->rows[1].sync[0] = wait_ge(4, 1);
    start(w);
    for (int64_t k = 0; k < 3; k++) {
        run(w, k, 0, 100 * k, 100 * k + 90, 0);
        record(w, 100 * k + 90, 0, COMPLETE, 4, (uint32_t)k + 1, NULL);
    }
    run(w, 3, 1, 400, 500, 0);
    record(w, 400, 1, 0, 4, 3, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 1);
    check_edge(w, 0, FLOW_TYPE_SEMAPHORE, 0, 3, 310);
    assert_int_equal(w->wait_count, 0); /* it did not wait */
    drop(w);
}

static void test_a_condition_that_held_from_the_start_has_no_edge(void **state)
{
    (void)state;
    struct world *w = make();
    w->rows[1].sync[0] = (struct kymo_sync){.wait_mode = KYMO_WAIT_LE, .wait_idx = 4, .wait_value = 5};
    start(w);
    run(w, 1, 1, 400, 500, 0);
    record(w, 400, 1, 0, 4, 0, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 0);
    drop(w);
}

static void test_no_semaphore_edge_across_a_loss(void **state)
{
    (void)state;
    struct world *w = make();
    w->rows[0].sync[0] =
        (struct kymo_sync){.update_mode = KYMO_UPD_WRITE | KYMO_UPD_COMPLETE, .update_idx = 7, .update_value = 2};
    w->rows[1].sync[0] = wait_ge(7, 1);
    start(w);
    run(w, 1, 0, 0, 100, 0);
    record(w, 100, 0, KYMO_UPD_WRITE | KYMO_UPD_COMPLETE, 7, 2, NULL);
    flow_core_lost_records(w->core);
    run(w, 2, 1, 200, 300, 0);
    record(w, 200, 1, 0, 7, 2, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 0);
    /* One that waited behind the loss is certain: it still waited when the update came. */
    run(w, 3, 1, 400, 600, 100);
    run(w, 4, 0, 410, 500, 0);
    flow_core_lost_records(w->core);
    record(w, 500, 0, KYMO_UPD_WRITE | KYMO_UPD_COMPLETE, 7, 2, NULL);
    record(w, 500, 1, 0, 7, 2, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 1);
    check_edge(w, 0, FLOW_TYPE_SEMAPHORE, 4, 3, -100);
    drop(w);
}

/* Without records the counter tells how long it waited, and, when it is at its end, at least that. */
static void test_waits_without_records(void **state)
{
    (void)state;
    struct world *w = make();
    struct kymo_err err = {0};
    w->rows[1].sync[0] = wait_ge(7, 1);
    start(w);
    run(w, 1, 1, 0, 500, 300);
    struct flow_instruction long_one = {.id = 2,
                                        .start = 600,
                                        .end = 90000,
                                        .start_ps = 600000,
                                        .end_ps = 90000000,
                                        .wait = 46810,
                                        .launched = {.id = -1},
                                        .row = 1,
                                        .execution = 1,
                                        .saturated = true};
    assert_int_equal(flow_core_instruction(w->core, &long_one, &err), 0);
    finish(w);
    assert_int_equal(w->wait_count, 2);
    assert_true(w->waits[0].end == 300 && w->waits[0].doubt == FLOW_DOUBT_RECORDS_LOST && w->waits[0].target == 7);
    assert_true(!w->waits[0].lower_bound && w->waits[1].saturated && w->waits[1].lower_bound);
    assert_int_equal(w->waits[1].wait, 46810);
    struct flow_counts n;
    flow_core_counts(w->core, &n);
    assert_true(n.waits == 2 && n.unexplained[FLOW_DOUBT_RECORDS_LOST] == 2);
    drop(w);
}

/* An event that a wait clears must be set again for the next one. */
static void test_a_wait_that_clears_its_event(void **state)
{
    (void)state;
    struct world *w = make();
    struct kymo_err err = {0};
    w->rows[0].sync[0] = (struct kymo_sync){.update_mode = KYMO_UPD_EVT_SET | KYMO_UPD_COMPLETE, .update_idx = 2};
    w->rows[1].sync[0] = (struct kymo_sync){.wait_mode = KYMO_WAIT_EVT_SET_CLEAR, .wait_idx = 2};
    start(w);
    for (int64_t k = 0; k < 2; k++) {
        int64_t at = 1000 * k;
        run(w, 10 + k, 0, at, at + 100, 0);
        struct flow_record set = {(uint64_t)(at + 100) * 1000, 1, KYMO_UPD_EVT_SET | KYMO_UPD_COMPLETE, 2, 0, false};
        assert_int_equal(flow_core_record(w->core, &set, NULL, &err), 0);
        run(w, 20 + k, 1, at + 200, at + 300, 0);
        struct flow_record met = {(uint64_t)(at + 200) * 1000, 1, 0, 2, 1, false};
        assert_int_equal(flow_core_record(w->core, &met, NULL, &err), 0);
    }
    finish(w);
    assert_int_equal(w->edge_count, 2);
    check_edge(w, 0, FLOW_TYPE_SEMAPHORE, 10, 20, 100);
    check_edge(w, 1, FLOW_TYPE_SEMAPHORE, 11, 21, 100);
    drop(w);
}

/* Row 1 depends on row 0 (flow) and, further on in the program, on row 2 (anti). */
static void add_preds(struct world *w, uint32_t loop)
{
    w->preds[0] = (struct flow_pred){0, FLOW_TYPE_FLOW, false};
    w->preds[1] = (struct flow_pred){1, FLOW_TYPE_ANTI, true};
    w->rows[1].pred_count = 2;
    w->rows[0].tail = 0;
    w->rows[2].tail = 1;
    w->facts.tail_count = 2;
    for (unsigned i = 0; i < 3; i++)
        w->rows[i].loop = loop;
    w->tail_loop[0] = w->tail_loop[1] = loop;
}

static void test_compiler_edges_from_round_to_round(void **state)
{
    (void)state;
    struct world *w = make();
    add_preds(w, 1);
    start(w);
    run(w, 0, 0, 0, 10, 0);
    run(w, 1, 0, 20, 30, 0); /* its engine is a round ahead */
    run(w, 2, 1, 40, 50, 0);
    run(w, 3, 2, 60, 70, 0);
    run(w, 4, 1, 80, 90, 0);
    run(w, 5, 2, 95, 99, 0);
    finish(w);
    assert_int_equal(w->edge_count, 3);
    check_edge(w, 0, FLOW_TYPE_FLOW, 0, 2, 30);
    check_edge(w, 1, FLOW_TYPE_FLOW, 1, 4, 50);
    check_edge(w, 2, FLOW_TYPE_ANTI, 3, 4, 10);
    drop(w);
}

static void test_compiler_edges_end_with_the_execution_and_with_losses(void **state)
{
    (void)state;
    struct world *w = make();
    add_preds(w, 0);
    start(w);
    run(w, 0, 0, 0, 10, 0);
    run_in(w, 2, 1, 1, 20, 30, 0); /* of another execution */
    run_in(w, 2, 2, 0, 40, 50, 0);
    flow_core_lost_instructions(w->core);
    run_in(w, 2, 3, 1, 60, 70, 0);
    finish(w);
    assert_int_equal(w->edge_count, 0);
    struct flow_counts n;
    flow_core_counts(w->core, &n);
    assert_int_equal(n.compiler, 2);
    run_in(w, 3, 4, 0, 80, 90, 0);
    run_in(w, 3, 5, 1, 100, 110, 0);
    assert_int_equal(w->edge_count, 1);
    check_edge(w, 0, FLOW_TYPE_FLOW, 4, 5, 10);
    drop(w);
}

/* Whoever uses what a transfer brought depends on the transfer, too. */
static void test_users_of_a_transfer(void **state)
{
    (void)state;
    struct world *w = make();
    struct kymo_err err = {0};
    add_preds(w, 0);
    start(w);
    struct flow_instruction trigger = {
        .id = 0, .end = 10, .end_ps = 10000, .launched = {77, 900, FLOW_TRANSFER}, .row = 0, .execution = 1};
    assert_int_equal(flow_core_instruction(w->core, &trigger, &err), 0);
    run(w, 1, 1, 1000, 1100, 0);
    finish(w);
    assert_int_equal(w->edge_count, 2);
    check_edge(w, 0, FLOW_TYPE_FLOW, 0, 1, 990);
    check_edge(w, 1, FLOW_TYPE_FLOW, 77, 1, 100);
    assert_true(w->edges[0].in_table == FLOW_INSTRUCTION && w->edges[1].in_table == FLOW_TRANSFER);
    drop(w);
}

/* Its trigger waited until 50; the collective counts its semaphore up at 900, which ends another engine's wait; what
 * the compiler says of the trigger holds for the collective. */
static void test_a_collective_between_its_trigger_and_who_waits_for_it(void **state)
{
    (void)state;
    struct world *w = make();
    struct kymo_err err = {0};
    add_preds(w, 0);
    w->rows[0].sync[0] = wait_ge(2, 1);
    w->rows[1].sync[0] = wait_ge(7, 1);
    start(w);
    struct flow_instruction trigger = {.id = 0,
                                       .end = 100,
                                       .end_ps = 100000,
                                       .wait = 50,
                                       .launched = {77, 900, FLOW_COLLECTIVE},
                                       .row = 0,
                                       .execution = 1};
    assert_int_equal(flow_core_instruction(w->core, &trigger, &err), 0);
    record(w, 50, KYMO_ENGINE_MAX, KYMO_UPD_INC, 2, 1,
           &(struct flow_update){.id = 3, .end = 49, .writer = FLOW_WRITER_TRANSFER});
    record(w, 50, 0, 0, 2, 1, NULL);
    run(w, 1, 1, 200, 1000, 700);
    record(w, 900, KYMO_ENGINE_MAX, KYMO_UPD_ADD, 7, 1,
           &(struct flow_update){.id = 77, .end = 900, .writer = FLOW_WRITER_COLLECTIVE});
    record(w, 900, 1, 0, 7, 1, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 4);
    check_edge(w, 1, FLOW_TYPE_SEMAPHORE, 77, 1, -700);
    assert_int_equal(w->edges[1].in_table, FLOW_COLLECTIVE);
    check_edge(w, 2, FLOW_TYPE_FLOW, 0, 1, 100);
    check_edge(w, 3, FLOW_TYPE_FLOW, 77, 1, -700);
    assert_int_equal(w->edges[3].in_table, FLOW_COLLECTIVE);
    assert_int_equal(w->wait_count, 2);
    const struct flow_wait *x = &w->waits[1];
    assert_true(x->id == 1 && x->in_table == FLOW_COLLECTIVE && x->in_id == 77 && x->update == 900);
    assert_true(x->wait == 700 && x->cost == 700 && x->prior == 0 && x->doubt == FLOW_DOUBT_NONE);
    drop(w);
}

static struct consumer_collective collective(int64_t id, int64_t from, int64_t to, int16_t semaphore)
{
    return (struct consumer_collective){
        .id = id, .start = from, .end = to, .end_ps = (uint64_t)to * 1000, .pcore = 1, .semaphore = semaphore};
}

/* Which collective an instruction started, and whose end an update is. */
static void test_collectives_by_their_triggers_and_ends(void **state)
{
    (void)state;
    char dir[] = "/tmp/kymo-flow-XXXXXX";
    struct kymo_err err = {0};
    assert_non_null(mkdtemp(dir));
    struct job j = {.dir = dir};
    struct flow_cc *c = NULL;
    assert_int_equal(flow_cc_open(&j, &c, &err), 0);
    struct consumer_collective list[] = {collective(0, 100, 9000, 5), collective(1, 200, 300, 5),
                                         collective(2, 400, 500, -1)};
    for (size_t i = 0; i < 3; i++) { /* the last two instructions start at one time */
        list[i].has_trigger = true;
        list[i].trigger_ps = i ? 90000 : 50000;
        list[i].trigger_row = (uint32_t)(10 - i);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(flow_cc_collective(c, &list[i], &err), 0);
    assert_int_equal(flow_cc_seal(c, &err), 0);
    static const struct {
        uint64_t ps;
        uint32_t row;
        int64_t id; /* -1: none */
    } starts[] = {{40000, 10, -1}, {50000, 9, -1}, {50000, 10, 0}, {90000, 8, 2}, {90000, 9, 1}, {95000, 9, -1}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        struct instr_row row = {.start_ps = starts[i].ps, .row = starts[i].row};
        struct flow_collective got = {.id = -1};
        assert_int_equal(flow_cc_started(c, &row, &got, &err), starts[i].id >= 0);
        assert_int_equal(got.id, starts[i].id);
    }
    struct flow_found found;
    assert_int_equal(flow_cc_find(c, 1, 5, 299000, &found, &err), 1); /* its end comes just behind */
    assert_true(found.id == 1 && found.end == 300 && found.distance == 1000);
    assert_int_equal(flow_cc_find(c, 0, 5, 300000, &found, &err), 0); /* another core's */
    assert_int_equal(flow_cc_find(c, 1, 5, 300000 + FLOW_REACH_PS + 1, &found, &err), 0);
    assert_int_equal(flow_cc_find(c, 1, 5, 9000000, &found, &err), 1);
    assert_true(found.id == 0 && found.distance == 0);
    assert_false(flow_cc_lost(c, 1, 5));
    flow_cc_free(c);
    assert_int_equal(rmdir(dir), 0);
}

static void test_bank_edges_in_order_of_beginning(void **state)
{
    (void)state;
    struct world *w = make();
    w->rows[0].psum_write = 4;
    w->rows[1].psum_read = 4;
    w->rows[2].psum_write = 4;
    w->rows[1].sync[0] = wait_ge(1, 1);
    start(w);
    run(w, 0, 0, 0, 100, 0);
    run(w, 1, 1, 10, 300, 190); /* issued before row 2's, begins after it */
    run(w, 2, 2, 120, 200, 0);
    record(w, 200, KYMO_ENGINE_MAX, KYMO_UPD_INC, 1, 1, NULL);
    record(w, 200, 1, 0, 1, 1, NULL);
    finish(w);
    assert_int_equal(w->edge_count, 2);
    check_edge(w, 0, FLOW_TYPE_SAME_PSUM_BANK, 0, 2, 20);
    check_edge(w, 1, FLOW_TYPE_SAME_PSUM_BANK, 2, 1, -190);
    assert_int_equal(w->waits[0].doubt, FLOW_DOUBT_WRITER);
    drop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_semaphore_edge_and_its_cost),
        cmocka_unit_test(test_the_binding_one_of_two_waits),
        cmocka_unit_test(test_the_oldest_update_since_which_it_held),
        cmocka_unit_test(test_a_condition_that_held_from_the_start_has_no_edge),
        cmocka_unit_test(test_no_semaphore_edge_across_a_loss),
        cmocka_unit_test(test_waits_without_records),
        cmocka_unit_test(test_a_wait_that_clears_its_event),
        cmocka_unit_test(test_compiler_edges_from_round_to_round),
        cmocka_unit_test(test_compiler_edges_end_with_the_execution_and_with_losses),
        cmocka_unit_test(test_users_of_a_transfer),
        cmocka_unit_test(test_a_collective_between_its_trigger_and_who_waits_for_it),
        cmocka_unit_test(test_collectives_by_their_triggers_and_ends),
        cmocka_unit_test(test_bank_edges_in_order_of_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
