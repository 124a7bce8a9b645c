/*
 * The runtime behind the hook: which functions are interposed, where the real ones are, and dlsym, through which most
 * frameworks reach them. A process without a runtime never gets further than a comparison of names in dlsym.
 */
#ifndef KYMO_DRIVER_IFACE_HOOK_HOOK_REAL_H
#define KYMO_DRIVER_IFACE_HOOK_HOOK_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name): wrapped with its known signature. */
#define HOOK_WRAPPED_MAP(X)                                                                                            \
    X(nrt_init)                                                                                                        \
    X(nrt_close)                                                                                                       \
    X(nrt_load)                                                                                                        \
    X(nrt_load_collectives)                                                                                            \
    X(nrt_unload)                                                                                                      \
    X(nrt_execute)                                                                                                     \
    X(nrt_execute_repeat)                                                                                              \
    X(nrta_execute_schedule)

/* X(name, index): watched, whatever their arguments are (some signatures are not certain): noted, then jumped to. */
#define HOOK_WATCHED_MAP(X)                                                                                            \
    X(nrt_profile_start, 8)                                                                                            \
    X(nrt_profile_stop, 9)                                                                                             \
    X(nrt_profile_continuous_start, 10)                                                                                \
    X(nrt_profile_continuous_save, 11)                                                                                 \
    X(nrt_profile_continuous_stop, 12)                                                                                 \
    X(nrt_profile_session_start, 13)                                                                                   \
    X(nrt_profile_session_stop, 14)                                                                                    \
    X(nrt_inspect_begin, 15)                                                                                           \
    X(nrt_inspect_begin_with_options, 16)                                                                              \
    X(nrt_inspect_stop, 17)                                                                                            \
    X(nrt_trace_start, 18)                                                                                             \
    X(nrt_trace_stop, 19)                                                                                              \
    X(nrt_sys_trace_start, 20)                                                                                         \
    X(nrt_sys_trace_stop, 21)

enum hook_real_index {
#define X(name) HOOK_REAL_##name,
    HOOK_WRAPPED_MAP(X)
#undef X
#define X(name, index) HOOK_REAL_##name,
        HOOK_WATCHED_MAP(X)
#undef X
            HOOK_REAL_COUNT
};

/* Real address of an interposed function, looked for at the first call; NULL: there is no runtime, or it lacks it. */
void *hook_real(enum hook_real_index i);

/* Any other function of the same runtime; NULL: it lacks it. Stores the address at slot, which is a function pointer.
 */
bool hook_real_find(const char *name, void *slot);

const char *hook_real_name(enum hook_real_index i);

#endif
