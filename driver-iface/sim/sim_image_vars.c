/* Where the simulated runtime puts a program's variables (G), and what lies at an address. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "driver-iface/sim/sim_image.h"

#define PAGE 4096u

static int by_id(const void *a, const void *b)
{
    const struct sim_var *x = a, *y = b;
    return x->neff->var_id < y->neff->var_id ? -1 : x->neff->var_id > y->neff->var_id;
}

static bool on_chip(const struct sim_var *v)
{
    return v->neff->type && !strcmp(v->neff->type, "state-buffer");
}

int sim_image_place_vars(const struct kymo_arch *arch, unsigned nc, struct sim_core_image *ci, struct kymo_err *err)
{
    const struct neff_subgraph *sg = ci->subgraph;
    ci->vars = KYMO_NEW_ARRAY(struct sim_var, sg->var_count + 1);
    if (!ci->vars)
        return kymo_err_set(err, -ENOMEM, "no memory for %zu variables", sg->var_count);
    for (size_t i = 0; i < sg->var_count; i++)
        if (sg->vars[i].var_id >= 0)
            ci->vars[ci->var_count++].neff = &sg->vars[i];
    if (ci->var_count)
        qsort(ci->vars, ci->var_count, sizeof *ci->vars, by_id);
    uint64_t next = arch->hbm_base;
    for (size_t i = 0; i < ci->var_count; i++) {
        struct sim_var *v = &ci->vars[i];
        v->address = on_chip(v) ? arch->sbuf_base + nc * arch->core_stride : next;
        if (!on_chip(v))
            next += (v->neff->size + PAGE - 1) / PAGE * PAGE;
    }
    return 0;
}

/* Bytes from its address on that are the variable's; the state buffer's partitions lie apart, over the whole window. */
static uint64_t reach(const struct kymo_arch *arch, const struct sim_var *v)
{
    return on_chip(v) ? arch->sbuf_window : v->neff->size;
}

int sim_image_resolve(const struct kymo_arch *arch, const struct sim_core_image *ci, uint64_t *addr,
                      struct kymo_err *err)
{
    struct kymo_var_ref ref;
    if (!kymo_addr64_variable(*addr, &ref))
        return 0;
    struct neff_var wanted = {.var_id = ref.var_id};
    const struct sim_var key = {.neff = &wanted};
    const struct sim_var *v = ci->var_count ? bsearch(&key, ci->vars, ci->var_count, sizeof *ci->vars, by_id) : NULL;
    if (!v || ref.offset >= reach(arch, v))
        return kymo_err_set(err, -EPROTO, "byte %u of variable %u, which the NEFF does not have", ref.offset,
                            ref.var_id);
    *addr = v->address + ref.offset;
    return 0;
}

const char *sim_image_var_at(const struct kymo_arch *arch, const struct sim_core_image *ci, uint64_t addr)
{
    for (size_t i = 0; i < ci->var_count; i++)
        if (addr >= ci->vars[i].address && addr - ci->vars[i].address < reach(arch, &ci->vars[i]))
            return ci->vars[i].neff->name;
    return NULL;
}
