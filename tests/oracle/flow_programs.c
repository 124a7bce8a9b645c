/*
 * Makes a NEFF of random programs for tests/oracle/test_flow.py: straight code and loops in turn, operations of all
 * engines over few buffers and banks so that they meet often, accumulations that are read half way, transfers by all
 * kinds of queues; with an odd SEED also collectives of two ranks, which core 0 triggers. The scope of every operation
 * names its segment, straight<k> or loop<k>.
 *
 *     flow_programs ARCH LNC SEED FILE
 *
 * Exit code 0 made, 1 failed, 2 wrong usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/cc.h"
#include "arch/opcode.h"
#include "driver-iface/sim/sim_model.h"

#define BUFS 6
#define VARS 3
#define COUNT 64
#define SEGMENTS 5

struct made {
    struct sim_program *p;
    uint64_t random;
    struct sim_model_queues q;
    bool collectives;
    unsigned group;
    struct sim_buf bufs[BUFS], vars[VARS];
};

static unsigned pick(struct made *m, unsigned n)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (unsigned)(m->random >> 33) % n;
}

static struct sim_operand sbuf(struct made *m)
{
    return sim_model_at(m->bufs[pick(m, BUFS)], 0, COUNT, KYMO_DT_BF16);
}

static struct sim_operand bank(struct made *m)
{
    return sim_model_at(sim_program_psum(m->p, pick(m, 3)), 0, COUNT, KYMO_DT_FP32);
}

static void copy_from_bank(struct made *m, struct sim_operand from)
{
    if (pick(m, 2))
        sim_emit_activate(m->p, KYMO_ACT_IDENTITY, from, sbuf(m));
    else
        sim_emit_unary(m->p, pick(m, 2) ? KYMO_ENGINE_VECTOR : KYMO_ENGINE_GPSIMD, KYMO_OP_COPY, KYMO_ALU_BYPASS, from,
                       sbuf(m));
}

static void multiply(struct made *m)
{
    struct sim_operand to = bank(m);
    unsigned steps = 1 + pick(m, 3);
    for (unsigned k = 0; k < steps; k++) {
        uint8_t type = pick(m, 4) ? KYMO_DT_BF16 : KYMO_DT_FP32;
        struct sim_operand w = sim_model_at(m->bufs[pick(m, BUFS)], 0, COUNT / 2, type);
        struct sim_operand x = sim_model_at(m->bufs[pick(m, BUFS)], 0, COUNT / 2, type);
        struct sim_matmul op = {.weights = w,
                                .moving = x,
                                .dst = to,
                                .rows = 128,
                                .cols = COUNT / 2,
                                .begin = k == 0 && pick(m, 5),
                                .end = k == steps - 1};
        op.dst.count = COUNT / 2;
        sim_emit_matmul(m->p, &op);
        if (!pick(m, 4))
            copy_from_bank(m, op.dst);
    }
}

static void move(struct made *m)
{
    const unsigned in[] = {m->q.in, m->q.weights, m->q.sync_dge, m->q.scalar_dge, m->q.software_dge};
    const unsigned out[] = {m->q.out, m->q.vector_out, m->q.spill, m->q.software_dge};
    bool store = pick(m, 3) == 0;
    sim_model_move(m->p, store ? out[pick(m, 4)] : in[pick(m, 5)], store, m->vars[pick(m, VARS)], 0, sbuf(m));
}

static void reduce(struct made *m)
{
    struct sim_buf in = m->vars[pick(m, VARS)], out = m->vars[pick(m, VARS)];
    sim_emit_collective(m->p,
                        &(struct sim_collective_spec){.engine = pick(m, 2) ? KYMO_ENGINE_GPSIMD : KYMO_ENGINE_SYNC,
                                                      .kind = KYMO_CC_ALL_REDUCE,
                                                      .alu = KYMO_ALU_ADD,
                                                      .group = m->group,
                                                      .stream = pick(m, 2),
                                                      .dtype = KYMO_DT_BF16,
                                                      .elements = 64 + pick(m, 4096),
                                                      .in = in,
                                                      .out = out});
}

static void operate(struct made *m)
{
    static const enum kymo_engine engines[] = {KYMO_ENGINE_VECTOR, KYMO_ENGINE_GPSIMD};
    if (m->collectives && !pick(m, 6)) {
        reduce(m);
        return;
    }
    enum kymo_engine e = engines[pick(m, 2)];
    switch (pick(m, 7)) {
    case 0:
    case 1:
        multiply(m);
        break;
    case 2:
        copy_from_bank(m, bank(m));
        break;
    case 3:
        sim_emit_unary(m->p, e, KYMO_OP_COPY, KYMO_ALU_BYPASS, sbuf(m), bank(m));
        break;
    case 4:
        sim_emit_tensor_tensor(m->p, e, KYMO_ALU_ADD, sbuf(m), sbuf(m), sbuf(m));
        break;
    case 5:
        sim_emit_activate(m->p, KYMO_ACT_RELU, sbuf(m), sbuf(m));
        break;
    default:
        move(m);
        break;
    }
}

static void build(struct made *m)
{
    m->q = sim_model_add_queues(m->p);
    if (m->collectives) {
        sim_program_world(m->p, 2);
        m->group = sim_program_replica_groups(m->p, 2);
    }
    for (unsigned i = 0; i < BUFS; i++)
        m->bufs[i] = sim_program_sbuf(m->p, COUNT * 4);
    for (unsigned i = 0; i < VARS; i++) {
        static const char *const types[VARS] = {"input", "output", "tmp-buf"};
        char name[16];
        (void)snprintf(name, sizeof name, "var%u", i);
        m->vars[i] = sim_program_var(m->p, name, types[i], 128 * COUNT * 4, "[128,128]", "bfloat16");
    }
    for (unsigned s = 0; s < SEGMENTS; s++) {
        char step[32];
        bool loop = s % 2;
        (void)snprintf(step, sizeof step, "%s%u", loop ? "loop" : "straight", s);
        sim_model_scope(m->p, "random", 0, step, "op", (int)s + 1);
        if (loop)
            sim_program_loop_begin(m->p, 1 + pick(m, 5));
        for (unsigned n = 2 + pick(m, 12); n > 0; n--)
            operate(m);
        if (loop)
            sim_program_loop_end(m->p);
    }
}

static int make(const struct kymo_arch *arch, unsigned lnc, uint64_t seed, const char *path, struct kymo_err *err)
{
    struct sim_program *programs[2] = {NULL};
    uint64_t macs = 0;
    int r = 0;
    for (unsigned c = 0; c < lnc && r == 0; c++) {
        struct made m = {.p = sim_program_new(arch, c),
                         .random = (seed + 1) * 0x9E3779B97F4A7C15u + c,
                         .collectives = seed % 2 && c == 0};
        struct sim_program_stats stats;
        programs[c] = m.p;
        if (!m.p)
            return kymo_err_set(err, -1, "out of memory");
        build(&m);
        r = sim_program_finish(m.p, &stats, err);
        macs += r == 0 ? stats.macs : 0;
    }
    const struct sim_neff_info info = {.name = "random", .seed = seed, .lnc = lnc};
    if (r == 0)
        r = sim_program_write(programs, &info, macs, path, err);
    for (unsigned c = 0; c < lnc; c++)
        (void)sim_program_free(programs[c]);
    return r;
}

int main(int argc, char **argv)
{
    const struct kymo_arch *arch = argc == 5 ? kymo_arch_find(argv[1]) : NULL;
    unsigned long lnc = argc == 5 ? strtoul(argv[2], NULL, 10) : 0;
    struct kymo_err err = {0};
    if (!arch || lnc < 1 || lnc > 2) {
        (void)fprintf(stderr, "usage: flow_programs ARCH LNC SEED FILE\n");
        return 2;
    }
    if (make(arch, (unsigned)lnc, strtoull(argv[3], NULL, 10), argv[4], &err) == 0)
        return 0;
    (void)fprintf(stderr, "flow_programs: %s\n", err.text);
    return 1;
}
