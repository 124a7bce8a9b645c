#include "pipeline/cc/cc_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/cc.h"
#include "arch/layout.h"
#include "arch/opcode.h"
#include "base/alloc.h"
#include "base/buf.h"

#define OPS_MAX (INPUT_NODES_MAX * KYMO_CC_OPS_MAX)
#define STREAMS_MAX (INPUT_NODES_MAX * CC_STREAMS_PER_NODE)
#define COMMS_MAX 4096      /* of one program that are looked at */
#define TRIGGERS_MAX 65536  /* trigger instructions of one program that are looked at */
#define TEXT_MAX (1u << 20) /* bytes of one layout's text; a longer one is left out */

/* The core of a node that tells of its collectives. */
static const Ntff__SubgraphInfo *graph_of(const struct input *in, uint32_t node, unsigned *ret_pcore)
{
    for (unsigned p = 0; p < in->cores && p < INPUT_CORES_MAX; p++) {
        const Ntff__SubgraphInfo *g = in->nodes[node].graph[p];
        *ret_pcore = p;
        if (g && g->cc_op_info && g->cc_op_info->n_ops)
            return g;
    }
    return NULL;
}

static const Ntff__CollectivesCommInfo *comm_of(const Ntff__SubgraphInfo *g, uint64_t id)
{
    for (size_t i = 0; i < g->n_comm_info && i < COMMS_MAX; i++)
        if (g->comm_info[i]->id == id)
            return g->comm_info[i];
    return NULL;
}

static int append_set(struct kymo_buf *b, const struct neff_replica_set *set, bool first)
{
    char number[16];
    int r = kymo_buf_append(b, first ? "[" : ", [", first ? 1 : 3);
    for (size_t i = 0; i < set->count && r == 0; i++) {
        int n = snprintf(number, sizeof number, i ? ", %u" : "%u", set->ranks[i]);
        r = kymo_buf_append(b, number, (size_t)n);
    }
    return r < 0 ? r : kymo_buf_append(b, "]", 1);
}

/* [[0, 1], [2, 3]] */
static int make_text(struct cc_table *t, const struct neff_replica_layout *layout, const char **ret,
                     struct kymo_err *err)
{
    struct kymo_buf b;
    kymo_buf_init(&b, TEXT_MAX);
    int r = kymo_buf_append(&b, "[", 1);
    for (size_t s = 0; s < layout->count && r == 0; s++)
        r = append_set(&b, &layout->sets[s], s == 0);
    if (r == 0)
        r = kymo_buf_append(&b, "]", 2); /* and its end */
    char *copy = r == 0 ? kymo_strdup((const char *)b.data) : NULL;
    kymo_buf_done(&b);
    if (r < 0 && r != -ENOMEM)
        return 0; /* too long for a column */
    if (!copy || kymo_grow((void **)&t->texts, &t->text_cap, t->text_count + 1, OPS_MAX, sizeof *t->texts) < 0) {
        kymo_free(copy);
        return kymo_err_set(err, -ENOMEM, "no memory for the replica groups");
    }
    t->texts[t->text_count++] = copy;
    *ret = copy;
    return 0;
}

/* Ops of one layout share its text. */
static int find_text(struct cc_table *t, const struct neff_subgraph *sg, struct cc_op *op, struct kymo_err *err)
{
    if (!sg || op->layout < 0 || (uint64_t)op->layout >= sg->replica_layout_count)
        return 0;
    for (size_t i = t->first[op->node]; i < t->count; i++)
        if (t->ops[i].layout == op->layout && t->ops[i].replica_group) {
            op->replica_group = t->ops[i].replica_group;
            return 0;
        }
    return make_text(t, &sg->replica_layouts[op->layout], &op->replica_group, err);
}

static int16_t semaphore_of(const struct kymo_arch *arch, const uint8_t *rec)
{
    uint64_t id, amount;
    if (!kymo_layout_get(arch, rec, KYMO_F_DMA_SEM, &id) || !kymo_layout_get(arch, rec, KYMO_F_DMA_SEM_INC, &amount))
        return -1;
    return amount && id < 256 ? (int16_t)id : -1;
}

/* Engines and semaphores of the node's collectives, by their triggers in the compiler's streams. */
static void find_triggers(struct cc_table *t, const struct input *in, const struct neff_subgraph *sg, uint32_t node)
{
    unsigned triggers = 0;
    for (size_t e = 0; sg && e < sg->engine_count; e++)
        for (size_t i = 0; i < sg->engines[e].count && triggers < TRIGGERS_MAX; i++) {
            const uint8_t *rec = sg->engines[e].code + i * KYMO_INSTR_SIZE;
            uint64_t id;
            if (rec[0] != KYMO_OP_PSEUDO_TRIGGER_COLLECTIVE || !kymo_layout_get(in->arch, rec, KYMO_F_ID, &id))
                continue;
            uint32_t op = cc_table_find(t, node, id);
            if (op != CC_NONE) {
                t->ops[op].engine = (int8_t)sg->engines[e].engine;
                t->ops[op].semaphore = semaphore_of(in->arch, rec);
            }
            triggers++;
        }
}

static void copy_name(char *to, size_t n, const char *name, const char *what, uint64_t number)
{
    if (name)
        (void)snprintf(to, n, "%s", name);
    else
        (void)snprintf(to, n, "%s(%u)", what, number > 9999 ? 9999u : (unsigned)number);
}

static struct cc_op describe(const Ntff__SubgraphInfo *g, const Ntff__CollectivesOp *m, uint32_t node)
{
    const Ntff__CollectivesCommInfo *comm = comm_of(g, m->comm_id);
    uint64_t in, out, ranks = comm ? comm->rank_n : 0;
    struct cc_op op = {
        .node = node,
        .op_id = (int64_t)m->op_id,
        .num_elements = m->num_elements > INT64_MAX ? INT64_MAX : (int64_t)m->num_elements,
        .input_size = -1,
        .output_size = -1,
        .stream_index = m->stream_index,
        .stream_id = (int64_t)node * CC_STREAMS_PER_NODE + m->stream_index,
        .layout = m->comm_id > INT32_MAX ? -1 : (int64_t)m->comm_id,
        .rank = -1,
        .ranks = ranks > 0 && ranks <= KYMO_CC_RANKS_MAX ? (int64_t)ranks : -1,
        .kind = m->type > 255 ? 255 : (uint8_t)m->type,
        .dtype = m->data_type > 255 ? 255 : (uint8_t)m->data_type,
        .engine = -1,
        .semaphore = -1,
    };
    if (comm && comm->global_rank_oneof_case == NTFF__COLLECTIVES_COMM_INFO__GLOBAL_RANK_ONEOF_GLOBAL_RANK &&
        comm->global_rank < KYMO_CC_RANKS_MAX)
        op.rank = (int64_t)comm->global_rank;
    if (op.ranks > 0 &&
        kymo_cc_sizes(op.kind, m->num_elements, kymo_dtype_bits(op.dtype), (unsigned)op.ranks, &in, &out)) {
        op.input_size = (int64_t)in;
        op.output_size = (int64_t)out;
    }
    const char *algorithm = m->algorithm_name && *m->algorithm_name ? m->algorithm_name : NULL;
    if (!algorithm && m->algorithm < KYMO_CC_ALGORITHM_MAX)
        algorithm = kymo_cc_algorithm_name((unsigned)m->algorithm);
    copy_name(op.operation, sizeof op.operation, kymo_cc_kind_name(op.kind), "Operation", m->type);
    copy_name(op.algorithm, sizeof op.algorithm, algorithm, "Algorithm", m->algorithm);
    copy_name(op.dtype_name, sizeof op.dtype_name, kymo_dtype_name(op.dtype), "Type", m->data_type);
    return op;
}

static int add_ops(struct cc_table *t, const struct input *in, uint32_t node, const Ntff__SubgraphInfo *g,
                   unsigned pcore, struct kymo_err *err)
{
    const struct neff_subgraph *sg = input_subgraph(in, node, pcore);
    /* Records have ten bits for the number of a collective: what comes beyond cannot be meant by any. */
    for (size_t i = 0; i < g->cc_op_info->n_ops && i < KYMO_CC_OPS_MAX; i++) {
        struct cc_op op = describe(g, g->cc_op_info->ops[i], node);
        op.pcore = (uint8_t)pcore;
        int r = find_text(t, sg, &op, err);
        if (r < 0)
            return r;
        if (kymo_grow((void **)&t->ops, &t->cap, t->count + 1, OPS_MAX, sizeof *t->ops) < 0)
            return kymo_err_set(err, -ENOMEM, "no memory for %zu collectives", t->count + 1);
        t->ops[t->count++] = op;
    }
    t->first[node + 1] = (uint32_t)t->count;
    find_triggers(t, in, sg, node);
    return 0;
}

static int add_streams(struct cc_table *t, uint32_t node, const Ntff__SubgraphInfo *g, struct kymo_err *err)
{
    uint64_t seen = 0; /* the first one of a number counts */
    for (size_t i = 0; i < g->n_stream_info; i++) {
        const Ntff__CollectivesStreamInfo *m = g->stream_info[i];
        if (m->stream_index >= CC_STREAMS_PER_NODE || seen >> m->stream_index & 1)
            continue;
        seen |= 1ull << m->stream_index;
        if (kymo_grow((void **)&t->streams, &t->stream_cap, t->stream_count + 1, STREAMS_MAX, sizeof *t->streams) < 0)
            return kymo_err_set(err, -ENOMEM, "no memory for the streams of collectives");
        t->streams[t->stream_count++] = (struct cc_stream){
            .stream_id = (int64_t)node * CC_STREAMS_PER_NODE + m->stream_index,
            .stream_index = m->stream_index,
            .node = node,
            .cores = m->cc_core_id,
            .core_count = m->n_cc_core_id,
        };
    }
    return 0;
}

int cc_table_open(struct cc_table *t, const struct input *in, struct kymo_err *err)
{
    *t = (struct cc_table){0};
    int r = 0;
    for (uint32_t node = 0; node < in->node_count && node < INPUT_NODES_MAX && r == 0; node++) {
        unsigned pcore = 0;
        const Ntff__SubgraphInfo *g = graph_of(in, node, &pcore);
        t->first[node] = (uint32_t)t->count;
        if (g)
            r = add_ops(t, in, node, g, pcore, err);
        if (g && r == 0)
            r = add_streams(t, node, g, err);
        t->first[node + 1] = (uint32_t)t->count;
    }
    if (r < 0)
        cc_table_done(t);
    return r;
}

void cc_table_done(struct cc_table *t)
{
    for (size_t i = 0; i < t->text_count; i++)
        kymo_free(t->texts[i]);
    kymo_free(t->texts);
    kymo_free(t->ops);
    kymo_free(t->streams);
    *t = (struct cc_table){0};
}

uint32_t cc_table_at(const struct cc_table *t, uint32_t node, uint32_t place)
{
    if (node >= INPUT_NODES_MAX || place >= t->first[node + 1] - t->first[node])
        return CC_NONE;
    return t->first[node] + place;
}

uint32_t cc_table_find(const struct cc_table *t, uint32_t node, uint64_t op_id)
{
    for (uint32_t i = node < INPUT_NODES_MAX ? t->first[node] : 0; node < INPUT_NODES_MAX && i < t->first[node + 1];
         i++)
        if ((uint64_t)t->ops[i].op_id == op_id)
            return i;
    return CC_NONE;
}
