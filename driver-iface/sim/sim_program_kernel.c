/*
 * NKI kernels of a program: call frames, values of unrolled loops, regions, and for each compiler instruction where in
 * them it was made; written as sgNN/kernel_debug_info.json and one file for the kernel, whose keys are G
 * (formats/neff/FORMAT.md section 7).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "driver-iface/sim/sim_program_internal.h"
#include "formats/neff/neff_writer.h"

#define SCOPES_MAX (1u << 20)

void sim_program_kernel_open(struct sim_program *p, const char *name, const char *file)
{
    (void)snprintf(p->kernel.name, sizeof p->kernel.name, "%s", name);
    (void)snprintf(p->kernel.file, sizeof p->kernel.file, "%s", file);
    p->kernel.open = p->kernel.used = true;
}

void sim_program_kernel_close(struct sim_program *p)
{
    p->kernel.open = false;
}

void sim_program_kernel_line(struct sim_program *p, int line)
{
    p->kernel.line = line;
}

/* One scope of a name, a value and a line in another: what is entered again is the same one. */
void sim_program_enter(struct sim_program *p, enum sim_kernel_scope kind, const char *name, int64_t value, int line)
{
    struct kernel_scopes *s = &p->kernel.scopes[kind];
    if (!p->kernel.open)
        return;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].parent == s->now && s->list[i].value == value && s->list[i].line == line &&
            !strcmp(s->list[i].name, name)) {
            s->now = (uint32_t)i + 1;
            return;
        }
    if (!sim_program_grow(p, (void **)&s->list, &s->cap, s->count + 1, SCOPES_MAX, sizeof *s->list))
        return;
    struct kernel_scope *scope = &s->list[s->count++];
    *scope = (struct kernel_scope){.parent = s->now, .value = value, .line = line};
    (void)snprintf(scope->name, sizeof scope->name, "%s", name);
    s->now = (uint32_t)s->count;
}

void sim_program_leave(struct sim_program *p, enum sim_kernel_scope kind)
{
    struct kernel_scopes *s = &p->kernel.scopes[kind];
    if (p->kernel.open && s->now)
        s->now = s->list[s->now - 1].parent;
}

struct bir_kernel sim_program_kernel_place(const struct sim_program *p)
{
    const struct kernel *k = &p->kernel;
    if (!k->open)
        return (struct bir_kernel){0};
    return (struct bir_kernel){k->scopes[SIM_KERNEL_FRAME].now, k->scopes[SIM_KERNEL_VARIABLE].now,
                               k->scopes[SIM_KERNEL_REGION].now, k->line};
}

static json_t *make_scopes(const struct kernel *k, enum sim_kernel_scope kind, bool *failed)
{
    static const char *const name_keys[] = {"function", "name", "name"};
    const struct kernel_scopes *s = &k->scopes[kind];
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        json_t *o = json_pack("{s:I,s:s,s:s,s:i}", "id", (json_int_t)i + 1, name_keys[kind], s->list[i].name, "file",
                              k->file, "line", s->list[i].line);
        if (kind == SIM_KERNEL_VARIABLE)
            sim_json_put(failed, o, "value", json_integer(s->list[i].value));
        if (s->list[i].parent)
            sim_json_put(failed, o, "parent", json_integer(s->list[i].parent));
        sim_json_push(failed, list, o);
    }
    return list;
}

static json_t *make_instructions(const struct sim_program *p, bool *failed)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->bir_count; i++) {
        const struct bir_kernel *at = &p->birs[i].kernel;
        char name[64];
        if (!sim_program_kernel_name(p, i, name, sizeof name))
            continue;
        json_t *o = json_pack("{s:s,s:s,s:i}", "name", name, "file", p->kernel.file, "line", at->line);
        if (at->frame)
            sim_json_put(failed, o, "stack_frame", json_integer(at->frame));
        if (at->variable)
            sim_json_put(failed, o, "iteration_variable", json_integer(at->variable));
        if (at->region)
            sim_json_put(failed, o, "region", json_integer(at->region));
        sim_json_push(failed, list, o);
    }
    return list;
}

bool sim_program_kernel_name(const struct sim_program *p, uint32_t bir, char *out, size_t n)
{
    const struct bir *b = &p->birs[bir];
    if (!b->kernel.line || b->penguin == NODE_NONE)
        return false;
    (void)snprintf(out, n, "inst.%u:%u", bir, b->penguin + 1);
    return true;
}

int sim_program_add_kernels(const struct sim_program *p, struct neff_writer *w, struct kymo_err *err)
{
    char name[64];
    bool failed = false;
    if (!p->kernel.used)
        return 0;
    (void)snprintf(name, sizeof name, "sg%02u/kernel_debug_info.json", p->sg);
    int r = sim_program_add_json(
        w, name, json_pack("{s:[{s:s,s:s}]}", "kernels", "name", p->kernel.name, "file", "kernel_debug_info_0.json"),
        false, err);
    if (r < 0)
        return r;
    json_t *root = json_pack("{s:s}", "name", p->kernel.name);
    sim_json_put(&failed, root, "stack_frames", make_scopes(&p->kernel, SIM_KERNEL_FRAME, &failed));
    sim_json_put(&failed, root, "iteration_variables", make_scopes(&p->kernel, SIM_KERNEL_VARIABLE, &failed));
    sim_json_put(&failed, root, "regions", make_scopes(&p->kernel, SIM_KERNEL_REGION, &failed));
    sim_json_put(&failed, root, "instructions", make_instructions(p, &failed));
    (void)snprintf(name, sizeof name, "sg%02u/kernel_debug_info_0.json", p->sg);
    return sim_program_add_json(w, name, root, failed, err);
}
