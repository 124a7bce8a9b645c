/*
 * Finds a Neuron runtime at run time: dlopen, then one pointer per function of nrt_abi.h. A runtime that lacks a
 * function still loads; the pointer is NULL and nrt_loader_why says so, so that a feature degrades with a reason. The
 * table is constant once open and may be shared by threads. The library stays mapped until nrt_loader_free, which must
 * not run while a call is in flight.
 */
#ifndef KYMO_DRIVER_IFACE_NRT_NRT_LOADER_H
#define KYMO_DRIVER_IFACE_NRT_NRT_LOADER_H

#include "base/err.h"
#include "driver-iface/nrt/nrt_abi.h"

#define NRT_LOADER_DEFAULT "libnrt.so.1"

struct nrt_api {
#define X(ret, name, args, class) ret(*name) args;
    NRT_FUNCTION_MAP(X)
#undef X
};

struct nrt_loader;

/* path NULL: KYMO_LIBNRT from the environment, else NRT_LOADER_DEFAULT. -ENOENT with the linker's text when it cannot
 * be loaded. */
int nrt_loader_open(const char *path, struct nrt_loader **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The runtime that is already in this process, as a preloaded library finds it; -ENOENT when there is none. */
int nrt_loader_open_loaded(struct nrt_loader **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct nrt_loader *nrt_loader_free(struct nrt_loader *l);
void nrt_loader_freep(struct nrt_loader **l);

const struct nrt_api *nrt_loader_api(const struct nrt_loader *l);
size_t nrt_loader_missing(const struct nrt_loader *l); /* how many functions this runtime lacks */
/* NULL when the function is there; else the reason. An unknown name is "not in kymo's list". Valid as long as l. */
const char *nrt_loader_why(const struct nrt_loader *l, const char *function);

/* NRT_SUCCESS ...; "unknown status" for a number that no fact names. */
const char *nrt_status_name(NRT_STATUS status);

#endif
