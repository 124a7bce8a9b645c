#include "driver-iface/nrt/nrt_loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
#define X(ret, name, args, class) INDEX_##name,
    NRT_FUNCTION_MAP(X)
#undef X
        FUNCTION_COUNT,
};

static const char *const function_names[FUNCTION_COUNT] = {
#define X(ret, name, args, class) #name,
    NRT_FUNCTION_MAP(X)
#undef X
};

struct nrt_loader {
    void *handle;
    struct nrt_api api;
    bool present[FUNCTION_COUNT];
    size_t missing;
};

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that their representations agree. */
static bool lookup(void *handle, const char *name, void *slot)
{
    void *found = dlsym(handle, name);

    memcpy(slot, &found, sizeof found);
    return found != NULL;
}

static void fill(struct nrt_loader *l)
{
#define X(ret, name, args, class) l->present[INDEX_##name] = lookup(l->handle, #name, &l->api.name);
    NRT_FUNCTION_MAP(X)
#undef X
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (!l->present[i])
            l->missing++;
}

static const char *dl_text(void)
{
    const char *text = dlerror();

    return text ? text : "no text from the dynamic linker";
}

static int open_flags(const char *path, int flags, struct nrt_loader **ret, struct kymo_err *err)
{
    struct nrt_loader *l = KYMO_NEW(struct nrt_loader);

    if (!l)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for the loader", path);
    l->handle = dlopen(path, flags);
    if (!l->handle) {
        kymo_free(l);
        return kymo_err_set(err, -ENOENT, "%s: %s", path, dl_text());
    }
    fill(l);
    if (!l->present[INDEX_nrt_init] || !l->present[INDEX_nrt_execute]) {
        nrt_loader_free(l);
        return kymo_err_set(err, -ENOENT, "%s: has no nrt_init and nrt_execute: no Neuron runtime", path);
    }
    *ret = l;
    return 0;
}

int nrt_loader_open(const char *path, struct nrt_loader **ret, struct kymo_err *err)
{
    if (!path)
        path = getenv("KYMO_LIBNRT");
    return open_flags(path ? path : NRT_LOADER_DEFAULT, RTLD_NOW | RTLD_LOCAL, ret, err);
}

int nrt_loader_open_loaded(struct nrt_loader **ret, struct kymo_err *err)
{
    return open_flags(NRT_LOADER_DEFAULT, RTLD_NOW | RTLD_NOLOAD, ret, err);
}

struct nrt_loader *nrt_loader_free(struct nrt_loader *l)
{
    if (!l)
        return NULL;
    if (l->handle)
        (void)dlclose(l->handle);
    kymo_free(l);
    return NULL;
}

void nrt_loader_freep(struct nrt_loader **l)
{
    *l = nrt_loader_free(*l);
}

const struct nrt_api *nrt_loader_api(const struct nrt_loader *l)
{
    return &l->api;
}

size_t nrt_loader_missing(const struct nrt_loader *l)
{
    return l->missing;
}

const char *nrt_loader_why(const struct nrt_loader *l, const char *function)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (strcmp(function, function_names[i]) == 0)
            return l->present[i] ? NULL : "this runtime does not export the function";
    return "not in kymo's list of runtime functions";
}

const char *nrt_status_name(NRT_STATUS status)
{
    switch (status) {
#define X(name, value)                                                                                                 \
    case name:                                                                                                         \
        return #name;
        NRT_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}
