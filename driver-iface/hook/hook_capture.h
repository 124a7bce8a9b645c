/* The state of captures, and what decides whether one is allowed. Inside of the hook's lock. */
#ifndef KYMO_DRIVER_IFACE_HOOK_HOOK_CAPTURE_H
#define KYMO_DRIVER_IFACE_HOOK_HOOK_CAPTURE_H

#include <pthread.h>

#include "driver-iface/hook/hook_intake.h"
#include "driver-iface/hook/hook_internal.h"

#define HOOK_FAILURES_MAX 3u /* on-failure captures of one process */

enum hook_phase { /* the first two run nothing */
                  HOOK_PHASE_IDLE,
                  HOOK_PHASE_WAITING, /* a trigger waits for its execution */
                  HOOK_PHASE_MODEL,
                  HOOK_PHASE_CONTINUOUS,
                  HOOK_PHASE_SESSION,
};

/* Why not. */
struct hook_no {
    enum kymo_hook_reason reason;
    char text[96];
};

struct hook_capture {
    pthread_mutex_t lock;
    struct kymo_hook_policy policy;
    bool has_policy; /* atomic, as are the next two and foreign */
    uint64_t neff_max, neff_total;
    const char *foreign;    /* function that somebody else called */
    const char *inspecting; /* variable that turns the vendor's inspection on */
    char sysfs[512];        /* empty: the name is too long to be looked at */
    bool answered, stays_disarmed;
    uint32_t question_us, runtime_version[4];
    struct hook_buffers buffers;
    uint64_t started_ns;
    enum kymo_hook_mode armed;
    char fail_id[KYMO_HOOK_ID_MAX], fail_path[HOOK_PATH_MAX];
    uint32_t fail_count;

    enum hook_phase phase;
    struct kymo_hook_trigger trigger;
    enum kymo_hook_mode mode, asked;
    bool several; /* the session holds whole steps: several programs, or schedules */
    uint32_t model_id, flags;
    int status;
    uint64_t first, done, start_unix_ns, start_ns, stall_ns, stall_max_ns;
    uint64_t last_stall_ns[KYMO_HOOK_MODE_COUNT];
    char path[HOOK_PATH_MAX], file[HOOK_PATH_MAX + 64];
};

extern struct hook_capture hook_capture;

void hook_capture_read_environment(void);
/* May a capture of this mode begin now? Fills no when not. */
bool hook_capture_allowed(enum kymo_hook_mode mode, struct hook_no *no);
void hook_capture_say_state(uint32_t run_state);

#endif
