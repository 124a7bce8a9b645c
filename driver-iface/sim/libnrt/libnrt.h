/*
 * Inside the simulated libnrt.so.1: one state per process, guarded by one lock (rt.lock). Public functions are in
 * nrt_abi.h; each takes the lock, checks the state, and calls the functions below with the lock held unless said
 * otherwise. The library speaks as the vendor's does: a status for the caller, one line on stderr for the reason.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_LIBNRT_LIBNRT_H
#define KYMO_DRIVER_IFACE_SIM_LIBNRT_LIBNRT_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "arch/ring.h"
#include "base/err.h"
#include "driver-iface/nq/nq.h"
#include "driver-iface/nrt/nrt_abi.h"
#include "driver-iface/sim/sim_image.h"
#include "driver-iface/sim/sim_wire.h"
#include "proto/ntff.pb-c.h"

#define LIBNRT_MODELS_MAX SIM_WIRE_MODELS_MAX
#define LIBNRT_CORES_MAX 4096u
#define LIBNRT_EXECUTIONS_MAX (1u << 20) /* in one profile's timeline */
#define LIBNRT_SYNCS_MAX 1024u
#define LIBNRT_NAME_MAX 255u
#define LIBNRT_INSTANCE_MAX 32u
#define LIBNRT_EVENT_TYPES_MAX 64u /* more than there are */

enum libnrt_state { LIBNRT_UNINITIALIZED, LIBNRT_READY, LIBNRT_CLOSED };
enum libnrt_device_profile { LIBNRT_PROFILE_NONE, LIBNRT_PROFILE_MODEL, LIBNRT_PROFILE_SESSION };

/* What inspection wants, from the environment or from a config object. */
struct nrt_inspect_config {
    bool enable, on_fail;
    enum libnrt_device_profile device_profile;
    unsigned activities; /* bits of enum libnrt_activity */
    int session_id;
    unsigned warmup; /* executions of a model before the profiled one (model mode) */
    uint64_t sys_trace_max_events;
    bool core_off[LIBNRT_CORES_MAX], type_off[LIBNRT_EVENT_TYPES_MAX]; /* left out of the system trace */
    char output_dir[PATH_MAX];
};

enum libnrt_activity {
    LIBNRT_ACTIVITY_SYSTEM,
    LIBNRT_ACTIVITY_DEVICE,
    LIBNRT_ACTIVITY_HOST_MEMORY,
    LIBNRT_ACTIVITY_CPU_UTIL,
    LIBNRT_ACTIVITY_MAX
};

struct nrt_profile_continuous_options {
    char output_dir[PATH_MAX];
};

/* Read once, at nrt_init. */
struct libnrt_env {
    struct kymo_ring_sizes sizes;
    bool dge_notifications;
    uint64_t async_inflight;       /* NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS */
    unsigned lnc;                  /* NEURON_LOGICAL_NC_CONFIG; 0: not set */
    unsigned first_vnc, vnc_count; /* NEURON_RT_VISIBLE_CORES or _NUM_CORES; count 0: all */
    double slow_factor;            /* KYMO_SIM_SLOW_FACTOR */
    uint64_t sample_ms;            /* KYMO_SIM_SAMPLE_MS: between samples of the host; 1,000 as with the vendor's */
    uint64_t job;                  /* from NEURON_RT_ROOT_COMM_ID: ranks that have the same one meet */
    uint64_t timeout_s;            /* NEURON_RT_EXEC_TIMEOUT: how long an execution waits for the other ranks */
    uint64_t fail_execution;       /* KYMO_SIM_FAIL_EXECUTION: the n-th execution of this process fails; 0: none */
};
typedef const char *libnrt_getenv(void *ctx, const char *name);
int libnrt_env_read(libnrt_getenv *get, void *ctx, struct libnrt_env *ret, struct kymo_err *err) KYMO_MUST_CHECK;
int libnrt_inspect_read(libnrt_getenv *get, void *ctx, struct nrt_inspect_config *ret,
                        struct kymo_err *err) KYMO_MUST_CHECK;
void libnrt_inspect_defaults(struct nrt_inspect_config *c);

struct nrt_model {
    struct sim_image *image; /* the same as the device built */
    uint64_t id;
    unsigned core;     /* index in rt.cores */
    unsigned instance; /* how often this NEFF was loaded on this core before */
    uint64_t executions;
    void *bytes; /* the NEFF as given, for a byte-identical copy */
    size_t size;
    uint8_t sha256[32];
    bool profiled; /* inspection in model mode took its execution */
    bool unloaded; /* the caller is done with it, a capture is not */
    unsigned rank; /* for its collectives */
};

struct libnrt_execution {
    uint64_t start_ps, end_ps, model_id;
    uint32_t status;
};

struct libnrt_sync {
    uint64_t ps, host_ns;
};

/* The profile of one logical core while it is armed. */
struct libnrt_capture {
    Ntff__CaptureMode mode;
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t n_plan;
    uint64_t offsets[KYMO_RING_PLAN_MAX];
    uint8_t *area;
    uint64_t area_bytes;
    struct libnrt_execution *executions;
    size_t n_executions, executions_cap;
    struct sim_image *images[LIBNRT_MODELS_MAX]; /* models that ran, in order of first execution; references */
    const struct nrt_model *models[LIBNRT_MODELS_MAX];
    size_t n_images;
    struct libnrt_sync syncs[LIBNRT_SYNCS_MAX];
    size_t n_syncs;
    uint64_t start_unix_ns;
    uint64_t session_id;
    Ntff__HostDmaState host_dma;
    char file[PATH_MAX]; /* nrt_profile_start's key; empty: none */
};

struct libnrt_core {
    unsigned vnc; /* of the instance */
    unsigned nd_idx, first_pcore;
    bool attached;
    struct libnrt_capture *capture;
};

struct libnrt {
    pthread_mutex_t lock;
    enum libnrt_state state;
    pid_t pid;    /* a forked child does not own the connection */
    unsigned run; /* counts nrt_init */
    int sock;
    struct libnrt_env env;
    struct sim_wire_hello hello;
    const struct kymo_arch *arch;
    struct libnrt_core *cores; /* the visible ones; an argument vnc indexes them */
    unsigned n_cores;
    struct nrt_model *models[LIBNRT_MODELS_MAX];
    uint64_t executions;
    bool async_used;

    bool inspecting, continuous;
    struct nrt_inspect_config inspect;
    char session_dir[PATH_MAX];
    uint64_t sessions;
};

extern struct libnrt rt;

/* libnrt_core.c */
NRT_STATUS libnrt_enter(void); /* takes the lock when the runtime is ready; else no lock and the status to return */
NRT_STATUS libnrt_leave(NRT_STATUS status);
void libnrt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
NRT_STATUS libnrt_status_of(int error);
struct libnrt_core *libnrt_core_of(int32_t vnc);              /* NULL: not visible */
struct nrt_model *libnrt_model_of(const nrt_model_t *handle); /* NULL: no such model */
struct nrt_model *libnrt_model_by_id(uint64_t id);
void libnrt_models_release(unsigned core); /* frees what was unloaded while a capture of this core needed it */
NRT_STATUS libnrt_attach(struct libnrt_core *core);

/* libnrt_link.c: one request and its answer. error in the answer becomes the return value, with its text. */
int libnrt_connect(int *ret_sock, struct sim_wire_hello *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void libnrt_request(struct sim_request *q, enum sim_op_code op, unsigned vnc);
int libnrt_call(const struct sim_request *q, int in_fd, struct sim_answer *a, int *ret_fd,
                struct kymo_err *err) KYMO_MUST_CHECK;

/* libnrt_execute.c */
/* tensor, offset: for the system trace; tensor 0: the copy is no read or write of one. */
NRT_STATUS libnrt_host_copy(unsigned core, bool to_device, uint64_t bytes, uint64_t tensor, uint64_t offset);
void libnrt_note_execution(struct libnrt_core *core, const struct sim_wire_result *result);

/* libnrt_async.c: fetches results of completed asynchronous executions of all cores. */
void libnrt_async_collect(void);
void libnrt_async_wait(void); /* until all are completed */
void libnrt_async_reset(void);
/* errors may be NULL. A failure that nobody tracks is told by the next call. */
NRT_STATUS libnrt_async_submit(struct nrt_model *m, nrta_error_tracker_t *errors, uint64_t *ret_sequence);
uint64_t libnrt_async_in_flight(void);
bool libnrt_is_async(void);

/* libnrt_capture.c */
int libnrt_capture_arm(struct libnrt_core *core, Ntff__CaptureMode mode, struct kymo_err *err) KYMO_MUST_CHECK;
int libnrt_capture_restart(struct libnrt_core *core, struct kymo_err *err) KYMO_MUST_CHECK;
void libnrt_capture_disarm(struct libnrt_core *core);
void libnrt_capture_sync(struct libnrt_core *core);
/* Writes path and asks for the truth under the file's name without .ntff. A capture without executions gives an empty
 * file. */
int libnrt_capture_write(struct libnrt_core *core, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;

/* libnrt_ntff.c: the message of a capture, without rings' bytes. NULL: out of memory. */
Ntff__NtffInfo *libnrt_ntff_build(const struct libnrt_core *core);

/* libnrt_inspect.c */
NRT_STATUS libnrt_inspect_start(const struct nrt_inspect_config *config);
NRT_STATUS libnrt_inspect_finish(void);
void libnrt_instance_id(char out[LIBNRT_INSTANCE_MAX]);
/* Event names, types, "hardware", "software" or "all"; false: no such thing. */
bool libnrt_inspect_enable_type(struct nrt_inspect_config *c, const char *name, bool on);
void libnrt_inspect_attached(struct libnrt_core *core); /* a core came into use */
/* Around one execution of a model: before arms, after writes. */
void libnrt_profile_before(struct nrt_model *m);
void libnrt_profile_after(struct nrt_model *m, NRT_STATUS status);
void libnrt_profile_async(void); /* an execution is being scheduled: model and continuous profiles end here */
void libnrt_profile_close(void);
int libnrt_write_neff(const struct nrt_model *m, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;
/* The decimal number that pairs a NEFF with its profiles (G): the low 48 bits of its SHA-256. */
uint64_t libnrt_neff_number(const struct nrt_model *m);

/* libnrt_signal.c: the lock must not be held by install; the handlers end the session and then do what was installed
 * before. */
void libnrt_signals_install(void);
void libnrt_signals_restore(void);

#endif
