/* The truth of a program: where each of its instructions comes from, as the builder has it (TRUTH.md). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "driver-iface/sim/sim_program_internal.h"

#define TRUTH_BYTES_MAX (1u << 30)

/* Several appends in a row: the first failure is kept. */
struct text {
    struct kymo_buf buf;
    int error;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (t->error == 0)
        t->error = n < 0 || (size_t)n >= sizeof line ? -ENOBUFS : kymo_buf_append(&t->buf, line, (size_t)n);
}

static const struct upper *above(const struct sim_program *p, const struct upper *u)
{
    return u && u->parent != NODE_NONE ? &p->uppers[u->parent] : NULL;
}

static void put_upper(const struct sim_program *p, struct text *t, const struct upper *u)
{
    if (u)
        put(t, "\t%lld\t%s", (long long)(u - p->uppers) + 1, u->name);
    else
        put(t, "\t\t");
}

/* Names of a scope and those around it, outermost first, slashes between; of variables with their values. */
static void put_scopes(const struct sim_program *p, struct text *t, enum sim_kernel_scope kind, uint32_t scope)
{
    const struct kernel_scopes *s = &p->kernel.scopes[kind];
    uint32_t chain[16];
    size_t n = 0;
    for (; scope && n < sizeof chain / sizeof *chain; scope = s->list[scope - 1].parent)
        chain[n++] = scope - 1;
    put(t, "\t");
    for (size_t i = n; i-- > 0;) {
        put(t, "%s%s", i + 1 < n ? "/" : "", s->list[chain[i]].name);
        if (kind == SIM_KERNEL_VARIABLE)
            put(t, "=%lld", (long long)s->list[chain[i]].value);
    }
}

static void put_kernel(const struct sim_program *p, struct text *t, uint32_t bir)
{
    const struct bir_kernel *k = &p->birs[bir].kernel;
    char name[64];
    if (!sim_program_kernel_name(p, bir, name, sizeof name)) {
        put(t, "\t\t\t\t\t");
        return;
    }
    put(t, "\t%s\t%s:%d", name, p->kernel.file, k->line);
    put_scopes(p, t, SIM_KERNEL_FRAME, k->frame);
    put_scopes(p, t, SIM_KERNEL_VARIABLE, k->variable);
    put_scopes(p, t, SIM_KERNEL_REGION, k->region);
}

static void put_instruction(const struct sim_program *p, struct text *t, enum kymo_engine e, size_t pc)
{
    uint32_t bir = p->streams[e].bir[pc];
    const struct bir *b = bir == NODE_NONE ? NULL : &p->birs[bir];
    const struct upper *penguin = b && b->penguin != NODE_NONE ? &p->uppers[b->penguin] : NULL;
    const struct upper *hlo = above(p, penguin), *framework = above(p, hlo);
    uint8_t opcode = p->streams[e].code[pc * KYMO_INSTR_SIZE];
    bool matmul = b && opcode == KYMO_OP_MATMUL;
    bool moves = b && (opcode == KYMO_OP_PSEUDO_DMA_TRIGGER || opcode == KYMO_OP_PSEUDO_DMA_DIRECT2D);
    put(t, "%u\t%s\t%zu", p->sg, kymo_engine_name(e), pc);
    if (b)
        put(t, "\t%llu\t%s%u", (unsigned long long)((uint64_t)p->sg << 48 | bir), b->kernel.line ? "inst." : "I-", bir);
    else
        put(t, "\t\t");
    put_upper(p, t, penguin);
    put_upper(p, t, hlo);
    put(t, "\t%s%s%s", hlo ? hlo->attr_key : "", hlo && *hlo->attr_key ? "=" : "", hlo ? hlo->attr_value : "");
    put_upper(p, t, framework);
    if (penguin)
        put(t, "\t%s:%d", penguin->file, penguin->line);
    else
        put(t, "\t");
    put(t, "\t%llu\t%d", (unsigned long long)(b && matmul ? b->elements : 0), b && b->kind == DEBUG_TRANSPOSE);
    put(t, "\t%llu\t%llu", (unsigned long long)(b && moves ? b->hbm_read : 0),
        (unsigned long long)(b && moves ? b->hbm_write : 0));
    if (b)
        put_kernel(p, t, bir);
    else
        put(t, "\t\t\t\t\t");
    put(t, "\n");
}

int sim_program_write_truth(struct sim_program *const *programs, unsigned n, const char *path, struct kymo_err *err)
{
    struct text t = {.error = 0};
    kymo_buf_init(&t.buf, TRUTH_BYTES_MAX);
    put(&t, "sg\tengine\tcompiler_pc\tbir_id\tbir_stem\tpenguin_id\tpenguin_name\thlo_id\thlo_name\thlo_attrs\t"
            "framework_id\tframework_name\tsource\telements\ttranspose\thbm_read\thbm_write\tkernel_instruction\t"
            "nki_source\tnki_frames\tnki_variables\tnki_regions\n");
    for (unsigned i = 0; i < n; i++)
        for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
            for (size_t pc = 0; pc < programs[i]->streams[e].count && t.error == 0; pc++)
                put_instruction(programs[i], &t, (enum kymo_engine)e, pc);
    int r = t.error < 0 ? kymo_err_set(err, t.error, "%s: the truth of the program does not fit into memory", path)
                        : kymo_file_write_atomic(path, t.buf.data, t.buf.len, err);
    kymo_buf_done(&t.buf);
    return r;
}
