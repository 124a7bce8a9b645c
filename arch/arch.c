#include "arch/arch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "arch/arch_data.h"

static const struct kymo_arch *const archs[KYMO_GEN_MAX] = {
    [KYMO_GEN_TRN1] = &kymo_arch_trn1,
    [KYMO_GEN_INF2] = &kymo_arch_inf2,
    [KYMO_GEN_TRN2] = &kymo_arch_trn2,
    [KYMO_GEN_TRN3] = &kymo_arch_trn3,
};

#define INSTANCE(type, gen, devices, lnc) {type, KYMO_GEN_##gen, devices, lnc},
static const struct kymo_instance instances[] = {
#include "arch/instances.def"
};
#undef INSTANCE

const struct kymo_arch *kymo_arch_get(enum kymo_generation gen)
{
    return (unsigned)gen < KYMO_GEN_MAX ? archs[gen] : NULL;
}

const struct kymo_arch *kymo_arch_find(const char *name)
{
    if (!name)
        return NULL;
    for (size_t i = 0; i < KYMO_GEN_MAX; i++) {
        const struct kymo_arch *a = archs[i];
        if (!strcasecmp(name, a->name) || !strcasecmp(name, a->codename) || !strcasecmp(name, a->nc_version))
            return a;
    }
    const struct kymo_instance *instance = kymo_instance_find(name);
    return instance ? archs[instance->gen] : NULL;
}

const struct kymo_arch *kymo_arch_of_target(const char *target)
{
    char name[32];
    if (!target)
        return NULL;
    (void)snprintf(name, sizeof name, "%s%.*s", target[0] == 'v' ? "NC" : "", (int)(strcspn(target, "/") % sizeof name),
                   target);
    return kymo_arch_find(name);
}

const struct kymo_instance *kymo_instance_find(const char *type)
{
    for (size_t i = 0; type && i < sizeof instances / sizeof instances[0]; i++)
        if (!strcasecmp(type, instances[i].type))
            return &instances[i];
    return NULL;
}

const struct kymo_instance *kymo_instance_all(size_t *ret_n)
{
    *ret_n = sizeof instances / sizeof instances[0];
    return instances;
}

int kymo_arch_check_lnc(const struct kymo_arch *arch, unsigned lnc, struct kymo_err *err)
{
    if (lnc == 1 || (lnc == 2 && arch->lnc2))
        return 0;
    if (lnc == 2)
        return kymo_err_set(err, -EINVAL, "LNC=2 exists on Trn2 and Trn3 only, not on %s", arch->name);
    return kymo_err_set(err, -EINVAL, "LNC=%u does not exist; a logical core has 1 or 2 physical cores", lnc);
}

enum kymo_region kymo_arch_region(const struct kymo_arch *arch, uint64_t addr, unsigned *ret_pcore,
                                  uint64_t *ret_offset)
{
    const struct {
        enum kymo_region region;
        uint64_t base, size;
    } windows[] = {{KYMO_REGION_SBUF, arch->sbuf_base, arch->sbuf_window},
                   {KYMO_REGION_PSUM, arch->psum_base, arch->psum_window}};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        if (addr < windows[i].base)
            continue;
        uint64_t core = (addr - windows[i].base) / arch->core_stride;
        uint64_t offset = (addr - windows[i].base) % arch->core_stride;
        if (core >= arch->pcores_per_device || offset >= windows[i].size)
            continue;
        *ret_pcore = (unsigned)core;
        *ret_offset = offset;
        return windows[i].region;
    }
    *ret_pcore = 0;
    *ret_offset = addr - arch->hbm_base;
    return addr >= arch->hbm_base && addr - arch->hbm_base < arch->hbm_bytes ? KYMO_REGION_HBM : KYMO_REGION_OTHER;
}

/* One row per engine: name, lower case, key of def.json, further spellings, number in NEFF debug info. */
static const struct {
    const char *name, *lower, *neff, *more;
    unsigned debug;
} engines[KYMO_ENGINE_MAX] = {
    [KYMO_ENGINE_TENSOR] = {"Tensor", "tensor", "pe", "TensorMatrix", 1},
    [KYMO_ENGINE_SCALAR] = {"Scalar", "scalar", "act", "Activation", 2},
    [KYMO_ENGINE_GPSIMD] = {"GpSimd", "gpsimd", "pool", "Pooling", 3},
    [KYMO_ENGINE_VECTOR] = {"Vector", "vector", "dve", "DVE", 5},
    [KYMO_ENGINE_SYNC] = {"Sync", "sync", "sp", "SP", 6},
};

const char *kymo_engine_name(enum kymo_engine e)
{
    return (unsigned)e < KYMO_ENGINE_MAX ? engines[e].name : "unknown";
}

const char *kymo_engine_lower(enum kymo_engine e)
{
    return (unsigned)e < KYMO_ENGINE_MAX ? engines[e].lower : "unknown";
}

const char *kymo_engine_neff(enum kymo_engine e)
{
    return (unsigned)e < KYMO_ENGINE_MAX ? engines[e].neff : "unknown";
}

enum kymo_engine kymo_engine_find(const char *name)
{
    for (unsigned e = 0; name && e < KYMO_ENGINE_MAX; e++)
        if (!strcasecmp(name, engines[e].name) || !strcasecmp(name, engines[e].neff) ||
            !strcasecmp(name, engines[e].more))
            return (enum kymo_engine)e;
    return KYMO_ENGINE_INVALID;
}

enum kymo_engine kymo_engine_of_debug(unsigned number)
{
    for (unsigned e = 0; e < KYMO_ENGINE_MAX; e++)
        if (engines[e].debug == number)
            return (enum kymo_engine)e;
    return KYMO_ENGINE_INVALID;
}

unsigned kymo_engine_debug(enum kymo_engine e)
{
    return (unsigned)e < KYMO_ENGINE_MAX ? engines[e].debug : 0;
}

const char *kymo_memory_class_name(unsigned number)
{
    static const char *const names[KYMO_MEMORY_MAX] = {
#define MEMORY(id, number, name) [number] = name,
#include "arch/device_memory.def"
#undef MEMORY
    };
    return number < KYMO_MEMORY_MAX ? names[number] : NULL;
}
