/* An extension that is linked against the runtime, as a framework's is, for a program that knows nothing of it. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "driver-iface/nrt/nrt_abi.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int plugin_run(unsigned n);
EXPORTED void *plugin_find(const char *name);

int plugin_run(unsigned n)
{
    static const char neff[] = "not a NEFF, but bytes";
    nrt_model_t *m = NULL;
    NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");

    if (status == NRT_SUCCESS)
        status = nrt_load(neff, sizeof neff, 0, 1, &m);
    for (unsigned i = 0; i < n && status == NRT_SUCCESS; i++)
        status = nrt_execute(m, NULL, NULL);
    if (m)
        (void)nrt_unload(m);
    nrt_close();
    return (int)status;
}

void *plugin_find(const char *name)
{
    void *volatile p = dlsym(RTLD_DEFAULT, name); /* not a tail call: this library must be seen as the caller */

    return p;
}
