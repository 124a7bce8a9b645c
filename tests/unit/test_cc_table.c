/* The table of collectives from hand-made messages: what is known, what is not, and more than records can name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "arch/cc.h"
#include "base/alloc.h"
#include "pipeline/cc/cc_table.h"

struct sample {
    struct input in;
    struct input_node nodes[2];
    Ntff__SubgraphInfo graph;
    Ntff__CollectivesOpInfo info;
    Ntff__CollectivesCommInfo comm, *comms[1];
    Ntff__CollectivesStreamInfo streams[3], *stream_list[3];
    Ntff__CollectivesOp **ops;
};

static void open_sample(struct sample *s, size_t count)
{
    static uint64_t cores[] = {4, 5};
    *s = (struct sample){.graph = NTFF__SUBGRAPH_INFO__INIT,
                         .info = NTFF__COLLECTIVES_OP_INFO__INIT,
                         .comm = NTFF__COLLECTIVES_COMM_INFO__INIT};
    s->in = (struct input){.arch = kymo_arch_find("trn2"), .cores = 1, .nodes = s->nodes, .node_count = 2};
    s->nodes[1].graph[0] = &s->graph; /* node 0 has no collectives */
    s->graph.cc_op_info = &s->info;
    s->comm.id = 3;
    s->comm.rank_n = 4;
    s->comm.rank = 1;
    s->comm.global_rank_oneof_case = NTFF__COLLECTIVES_COMM_INFO__GLOBAL_RANK_ONEOF_GLOBAL_RANK;
    s->comm.global_rank = 5;
    s->comms[0] = &s->comm;
    s->graph.comm_info = s->comms;
    s->graph.n_comm_info = 1;
    for (unsigned i = 0; i < 3; i++) {
        s->streams[i] = (Ntff__CollectivesStreamInfo)NTFF__COLLECTIVES_STREAM_INFO__INIT;
        s->streams[i].stream_index = i == 2 ? 0 : i; /* a number twice */
        s->streams[i].cc_core_id = cores;
        s->streams[i].n_cc_core_id = 2;
        s->stream_list[i] = &s->streams[i];
    }
    s->graph.stream_info = s->stream_list;
    s->graph.n_stream_info = 3;
    s->ops = KYMO_NEW_ARRAY(Ntff__CollectivesOp *, count);
    for (size_t i = 0; i < count; i++) {
        s->ops[i] = KYMO_NEW(Ntff__CollectivesOp);
        *s->ops[i] = (Ntff__CollectivesOp)NTFF__COLLECTIVES_OP__INIT;
        s->ops[i]->op_id = 10 + i;
    }
    s->info.ops = s->ops;
    s->info.n_ops = count;
}

static void close_sample(struct sample *s)
{
    for (size_t i = 0; i < s->info.n_ops; i++)
        kymo_free(s->ops[i]);
    kymo_free(s->ops);
}

static void test_what_is_known(void **state)
{
    (void)state;
    struct sample s;
    struct cc_table t;
    struct kymo_err err = {0};
    open_sample(&s, 2);
    s.ops[0]->type = KYMO_CC_ALL_GATHER;
    s.ops[0]->num_elements = 1000;
    s.ops[0]->data_type = 6; /* bf16 */
    s.ops[0]->comm_id = 3;
    s.ops[0]->stream_index = 1;
    assert_int_equal(cc_table_open(&t, &s.in, &err), 0);
    assert_int_equal(t.count, 2);
    assert_int_equal(cc_table_at(&t, 0, 0), CC_NONE);
    assert_int_equal(cc_table_at(&t, 1, 0), 0);
    assert_int_equal(cc_table_at(&t, 1, 2), CC_NONE);
    assert_int_equal(cc_table_find(&t, 1, 11), 1);
    assert_int_equal(cc_table_find(&t, 0, 11), CC_NONE);
    assert_int_equal(cc_table_at(&t, INPUT_NODES_MAX, 0), CC_NONE);
    const struct cc_op *op = &t.ops[0];
    assert_string_equal(op->operation, "AllGather");
    assert_string_equal(op->algorithm, "Ring"); /* by its number, for want of a name */
    assert_string_equal(op->dtype_name, "bf16");
    assert_int_equal(op->input_size, 2000);
    assert_int_equal(op->output_size, 8000);
    assert_int_equal(op->stream_id, 1 * CC_STREAMS_PER_NODE + 1);
    assert_int_equal(op->rank, 5);
    assert_int_equal(op->ranks, 4);
    assert_int_equal(op->engine, -1);
    assert_int_equal(op->semaphore, -1);
    assert_int_equal(op->pcore, 0);
    assert_null(op->replica_group);
    assert_int_equal(t.stream_count, 2);
    assert_int_equal(t.streams[1].stream_index, 1);
    cc_table_done(&t);
    close_sample(&s);
}

static void test_numbers_that_nobody_knows(void **state)
{
    (void)state;
    struct sample s;
    struct cc_table t;
    struct kymo_err err = {0};
    open_sample(&s, 2);
    s.ops[0]->type = 77;
    s.ops[0]->algorithm = UINT64_MAX;
    s.ops[0]->data_type = 250;
    s.ops[0]->num_elements = UINT64_MAX;
    s.ops[0]->comm_id = UINT64_MAX;
    s.ops[1]->num_elements = UINT64_MAX / 2;
    s.ops[1]->data_type = 10;
    s.ops[1]->comm_id = 3;
    s.comm.global_rank = UINT64_MAX;
    assert_int_equal(cc_table_open(&t, &s.in, &err), 0);
    assert_string_equal(t.ops[0].operation, "Operation(77)");
    assert_string_equal(t.ops[0].algorithm, "Algorithm(9999)");
    assert_string_equal(t.ops[0].dtype_name, "Type(250)");
    assert_int_equal(t.ops[0].layout, -1);
    assert_int_equal(t.ops[0].ranks, -1);
    assert_int_equal(t.ops[0].input_size, -1);
    assert_int_equal(t.ops[1].input_size, -1); /* bytes beyond 63 bits */
    assert_int_equal(t.ops[1].rank, -1);
    cc_table_done(&t);
    close_sample(&s);
}

static void test_more_than_records_can_name(void **state)
{
    (void)state;
    struct sample s;
    struct cc_table t;
    struct kymo_err err = {0};
    open_sample(&s, KYMO_CC_OPS_MAX + 500);
    assert_int_equal(cc_table_open(&t, &s.in, &err), 0);
    assert_int_equal(t.count, KYMO_CC_OPS_MAX);
    assert_int_equal(cc_table_at(&t, 1, KYMO_CC_OPS_MAX), CC_NONE);
    cc_table_done(&t);
    close_sample(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_known),
        cmocka_unit_test(test_numbers_that_nobody_knows),
        cmocka_unit_test(test_more_than_records_can_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
