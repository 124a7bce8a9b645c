#include "driver-iface/sim/sim_program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver-iface/sim/sim_program_internal.h"

void sim_program_fail(struct sim_program *p, int code, const char *fmt, ...)
{
    if (p->error)
        return;
    char text[KYMO_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->error = kymo_err_set(&p->err, code, "%s", text);
}

bool sim_program_grow(struct sim_program *p, void **list, size_t *cap, size_t need, size_t max, size_t size)
{
    if (p->error)
        return false;
    int r = kymo_grow(list, cap, need, max, size);
    if (r < 0)
        sim_program_fail(p, r, r == -ENOMEM ? "out of memory" : "the program is too large: more than %zu items", max);
    return r == 0;
}

struct sim_program *sim_program_new(const struct kymo_arch *arch, unsigned sg)
{
    struct sim_program *p = KYMO_NEW(struct sim_program);
    if (!p)
        return NULL;
    p->arch = arch;
    p->sg = sg;
    p->trips = 1;
    p->scope = NODE_NONE;
    for (size_t b = 0; b < sizeof p->psum_buf / sizeof p->psum_buf[0]; b++)
        p->psum_buf[b] = p->buf_count++;
    for (size_t e = 0; e < KYMO_ENGINE_MAX; e++)
        p->last_bir[e] = NODE_NONE;
    return p;
}

struct sim_program *sim_program_free(struct sim_program *p)
{
    if (!p)
        return NULL;
    for (size_t e = 0; e < KYMO_ENGINE_MAX; e++) {
        kymo_free(p->streams[e].code);
        kymo_free(p->streams[e].bir);
    }
    kymo_free(p->nodes);
    kymo_free(p->out);
    kymo_free(p->vars);
    kymo_free(p->blocks);
    kymo_free(p->uppers);
    kymo_free(p->birs);
    kymo_free(p->deps);
    for (size_t i = 0; i < SIM_KERNEL_SCOPES; i++)
        kymo_free(p->kernel.scopes[i].list);
    kymo_free(p);
    return NULL;
}

void sim_program_freep(struct sim_program **p)
{
    *p = sim_program_free(*p);
}

const struct kymo_arch *sim_program_arch(const struct sim_program *p)
{
    return p->arch;
}

static uint32_t new_buf(struct sim_program *p)
{
    if (p->buf_count >= BUFS_MAX)
        sim_program_fail(p, -E2BIG, "the program has more than %d buffers", BUFS_MAX);
    return p->error ? 0 : p->buf_count++;
}

struct sim_buf sim_program_sbuf(struct sim_program *p, uint32_t bytes_per_partition)
{
    uint32_t at = p->sbuf_used, size = (bytes_per_partition + 63) & ~63u;
    if (size > p->arch->sbuf_partition_bytes - at) {
        sim_program_fail(p, -ENOSPC, "the model needs more than the %u bytes per SBUF partition of %s",
                         p->arch->sbuf_partition_bytes, p->arch->name);
        return (struct sim_buf){0};
    }
    p->sbuf_used += size;
    return (struct sim_buf){.id = new_buf(p), .addr = kymo_addr_sbuf(0, at), .bytes = bytes_per_partition};
}

struct sim_buf sim_program_psum(struct sim_program *p, unsigned bank)
{
    bank %= p->arch->psum_banks;
    return (struct sim_buf){
        .id = p->psum_buf[bank], .addr = kymo_addr_psum(0, bank, 0), .bytes = p->arch->psum_bank_bytes};
}

struct sim_buf sim_program_var(struct sim_program *p, const char *name, const char *type, uint32_t bytes,
                               const char *shape, const char *dtype)
{
    if (!sim_program_grow(p, (void **)&p->vars, &p->var_cap, p->var_count + 1, VARS_MAX, sizeof *p->vars))
        return (struct sim_buf){0};
    struct var *v = &p->vars[p->var_count++];
    *v = (struct var){.bytes = bytes, .buf = new_buf(p)};
    (void)snprintf(v->name, sizeof v->name, "%s", name);
    (void)snprintf(v->type, sizeof v->type, "%s", type);
    (void)snprintf(v->shape, sizeof v->shape, "%s", shape);
    (void)snprintf(v->dtype, sizeof v->dtype, "%s", dtype);
    return (struct sim_buf){.id = v->buf, .bytes = bytes};
}

/* Names repeat from one scope to the next; a node of an upper layer is made once. */
static uint32_t find_upper(struct sim_program *p, enum upper_layer layer, uint32_t parent, const char *name,
                           const struct sim_scope *s)
{
    for (size_t i = p->upper_count; layer != UPPER_PENGUIN && i-- > 0;)
        if (p->uppers[i].layer == layer && p->uppers[i].parent == parent && !strcmp(p->uppers[i].name, name))
            return (uint32_t)i;
    if (!sim_program_grow(p, (void **)&p->uppers, &p->upper_cap, p->upper_count + 1, UPPER_MAX, sizeof *p->uppers))
        return NODE_NONE;
    struct upper *u = &p->uppers[p->upper_count];
    *u = (struct upper){.layer = layer, .parent = parent, .line = s->line};
    (void)snprintf(u->name, sizeof u->name, "%s", name);
    (void)snprintf(u->file, sizeof u->file, "%s", s->file);
    if (layer == UPPER_HLO && s->hlo_attr_key) {
        (void)snprintf(u->attr_key, sizeof u->attr_key, "%s", s->hlo_attr_key);
        (void)snprintf(u->attr_value, sizeof u->attr_value, "%s", s->hlo_attr_value);
    }
    return (uint32_t)p->upper_count++;
}

void sim_program_scope(struct sim_program *p, const struct sim_scope *s)
{
    uint32_t framework = find_upper(p, UPPER_FRAMEWORK, NODE_NONE, s->framework, s);
    uint32_t hlo = find_upper(p, UPPER_HLO, framework, s->hlo, s);
    p->scope = find_upper(p, UPPER_PENGUIN, hlo, s->penguin, s);
}

uint32_t sim_program_bir(struct sim_program *p, enum kymo_engine e, enum debug_kind kind)
{
    if (!sim_program_grow(p, (void **)&p->birs, &p->bir_cap, p->bir_count + 1, SIM_PROGRAM_NODES_MAX, sizeof *p->birs))
        return NODE_NONE;
    p->birs[p->bir_count] =
        (struct bir){.penguin = p->scope, .engine = e, .kind = kind, .queue = NODE_NONE, .previous = p->last_bir[e]};
    p->birs[p->bir_count].kernel = sim_program_kernel_place(p);
    p->last_bir[e] = (uint32_t)p->bir_count;
    return (uint32_t)p->bir_count++;
}

struct node *sim_program_node(struct sim_program *p, enum node_kind kind, enum kymo_engine e, uint8_t opcode)
{
    if (!sim_program_grow(p, (void **)&p->nodes, &p->node_cap, p->node_count + 1, SIM_PROGRAM_NODES_MAX,
                          sizeof *p->nodes)) {
        p->scratch = (struct node){0};
        return &p->scratch;
    }
    struct node *n = &p->nodes[p->node_count++];
    *n = (struct node){.kind = kind, .engine = e, .bir = NODE_NONE, .acquired_by = NODE_NONE};
    kymo_instr_init(n->rec, opcode);
    if (kind != NODE_LOOP_BEGIN && kind != NODE_LOOP_END && !kymo_opcode_legal(p->arch, e, opcode)) {
        char name[32];
        sim_program_fail(p, -EINVAL, "%s is not legal on %s of %s", kymo_opcode_name(opcode, name, sizeof name),
                         kymo_engine_name(e), p->arch->name);
    }
    return n;
}

void sim_program_access(struct sim_program *p, struct node *n, uint32_t buf, bool write)
{
    if (n->access_count >= NODE_ACCESS_MAX) {
        sim_program_fail(p, -EINVAL, "an instruction touches more than %d buffers", NODE_ACCESS_MAX);
        return;
    }
    n->access[n->access_count++] = (struct node_access){.buf = buf, .write = write};
}

void sim_program_set(struct sim_program *p, struct node *n, enum kymo_field f, uint64_t v)
{
    int r = kymo_layout_set(p->arch, n->rec, f, v);
    if (r < 0)
        sim_program_fail(p, r, "opcode 0x%02x of %s: field %d cannot hold %llu", n->rec[0], p->arch->name, (int)f,
                         (unsigned long long)v);
}

void sim_program_loop_begin(struct sim_program *p, uint32_t trips)
{
    if (p->in_loop || trips == 0) {
        sim_program_fail(p, -EINVAL, trips ? "loops do not nest" : "a loop needs at least one iteration");
        return;
    }
    sim_program_node(p, NODE_LOOP_BEGIN, KYMO_ENGINE_SYNC, KYMO_OP_NOP)->trips = trips;
    p->in_loop = true;
    p->trips = trips;
}

void sim_program_loop_end(struct sim_program *p)
{
    if (!p->in_loop)
        sim_program_fail(p, -EINVAL, "a loop ends that did not begin");
    (void)sim_program_node(p, NODE_LOOP_END, KYMO_ENGINE_SYNC, KYMO_OP_NOP);
    p->in_loop = false;
    p->trips = 1;
}

int sim_program_finish(struct sim_program *p, struct sim_program_stats *ret, struct kymo_err *err)
{
    if (p->in_loop)
        sim_program_fail(p, -EINVAL, "a loop has no end");
    if (p->finished)
        sim_program_fail(p, -EINVAL, "the program is finished already");
    if (!p->error)
        (void)sim_program_sync(p);
    p->finished = true;
    if (p->error)
        return kymo_err_set(err, p->error, "%s", p->err.text);
    *ret = p->stats;
    return 0;
}

const uint8_t *sim_program_code(const struct sim_program *p, enum kymo_engine e, size_t *ret_count)
{
    *ret_count = p->streams[e].count;
    return p->streams[e].code;
}
