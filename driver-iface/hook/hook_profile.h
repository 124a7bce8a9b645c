/* The runtime's profiling interface as the hook uses it: the functions, looked up once, and each way to profile with
 * its errors as the runtime's status. A status below 0 is not the runtime's: a function is missing
 * (hook_profile_missing). */
#ifndef KYMO_DRIVER_IFACE_HOOK_HOOK_PROFILE_H
#define KYMO_DRIVER_IFACE_HOOK_HOOK_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/hook.h"

/* NULL: the runtime has all that the mode needs; else the name of the first function that it lacks. */
const char *hook_profile_missing(enum kymo_hook_mode mode);

int hook_profile_continuous_start(void);
int hook_profile_continuous_save(uint32_t core, const char *dir);
int hook_profile_continuous_stop(void);

int hook_profile_model_start(const void *model, const char *file);
int hook_profile_model_stop(const char *file);

/* Inspection of the device, by session or of the execution that fails. The handlers of SIGINT and SIGTERM, which the
 * runtime replaces, are the application's again afterwards. */
/* system: with the runtime's system trace and samples of the host. */
int hook_profile_inspect_start(enum kymo_hook_mode mode, const char *dir, bool system);
int hook_profile_inspect_stop(void);

/* Major, minor, patch, maintenance, each cut to 32 bits; zeros when the runtime does not tell. */
void hook_profile_runtime_version(uint32_t ret[4]);

#endif
