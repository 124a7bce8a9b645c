/*
 * The system trace of an inspection session: what the runtime did, kept in a ring per core until the session ends. All
 * functions are called with rt.lock held and do nothing while no system trace runs. Times are the simulated host's,
 * Unix ns, but for hardware events, whose time is the device's.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_LIBNRT_LIBNRT_SYSTRACE_H
#define KYMO_DRIVER_IFACE_SIM_LIBNRT_LIBNRT_SYSTRACE_H

#include "driver-iface/sim/libnrt/libnrt.h"
#include "formats/systrace/systrace_facts.h"

#define LIBNRT_TRACE_ARGS_MAX 5u

/* Payload keys, and how their values are written. X(id, key, form): d decimal, x hex, u the word of a usage */
#define LIBNRT_TRACE_KEYS(X)                                                                                           \
    X(NONE, "", d)                                                                                                     \
    X(MODEL_ID, "model_id", d)                                                                                         \
    X(EXEC_ID, "exec_id", d)                                                                                           \
    X(CORE, "device_core_idx", d)                                                                                      \
    X(NC_TIME, "nc_timestamp_ns", d)                                                                                   \
    X(CPU_TIME, "cpu_timestamp_ns", d)                                                                                 \
    X(TENSOR, "tensor_id", d)                                                                                          \
    X(SIZE, "size", d)                                                                                                 \
    X(OFFSET, "offset", d)                                                                                             \
    X(HANDLE, "mem_handle", x)                                                                                         \
    X(REF_COUNT, "ref_count", d)                                                                                       \
    X(HBM, "hbm_idx", d)                                                                                               \
    X(USAGE, "usage_type", u)                                                                                          \
    X(ALLOCATED, "allocated_bytes", d)                                                                                 \
    X(FREED, "freed_bytes", d)                                                                                         \
    X(ADDRESS, "physical_address", x)                                                                                  \
    X(USAGE_TOTAL, "usage_type_total_bytes", d)                                                                        \
    X(TOTAL, "total_bytes", d)

enum libnrt_trace_key {
#define X(id, key, form) LIBNRT_TRACE_##id,
    LIBNRT_TRACE_KEYS(X)
#undef X
};

struct libnrt_trace_arg {
    enum libnrt_trace_key key;
    uint64_t value;
};

struct libnrt_trace_event {
    uint64_t ns, tracking, thread;
    uint64_t sequence; /* of an asynchronous request, plus 1; 0: none */
    uint32_t status;
    uint8_t type, phase; /* enum systrace_event_type; Ntff__NtraceEventPhaseType */
    struct libnrt_trace_arg args[LIBNRT_TRACE_ARGS_MAX];
};

/* A core's ring: the newest events, oldest overwritten. */
struct libnrt_trace_ring {
    struct libnrt_trace_event *events;
    size_t cap;
    uint64_t emitted, limit;
};

struct libnrt_trace_sample {
    uint64_t ns, used;
    float cpu[SIM_WIRE_CPUS];
};

struct libnrt_trace {
    bool system, cpu, memory;        /* what is recorded */
    struct libnrt_trace_ring *rings; /* by core */
    uint64_t next_tracking, start_ns, end_ns;
    struct libnrt_trace_sample *samples;
    size_t n_samples, samples_cap;
    uint64_t next_sample_ns, period_ns;
};

extern struct libnrt_trace libnrt_trace;

bool libnrt_trace_runs(void);
/* By rt.inspect. A trace that cannot begin is told of, and there is none. */
void libnrt_trace_begin(void);
void libnrt_trace_end(void);
/* libnrt_systrace_write.c: cpu_util.pb, host_mem.pb, ntrace.pb, then trace_info.pb, into rt.session_dir. */
int libnrt_trace_write(struct kymo_err *err) KYMO_MUST_CHECK;

/* Ends in LIBNRT_TRACE_NONE or at the maximum. */
#define LIBNRT_TRACE_ARGS(...) ((const struct libnrt_trace_arg[LIBNRT_TRACE_ARGS_MAX]){__VA_ARGS__})

/* A number for the events of one call on a core. */
uint64_t libnrt_trace_call(const struct libnrt_core *core);
void libnrt_trace_add(const struct libnrt_core *core, const struct libnrt_trace_event *event);
void libnrt_trace_execution(const struct libnrt_core *core, const struct nrt_model *m, const struct sim_answer *a,
                            uint64_t exec_id);
void libnrt_trace_submit(const struct libnrt_core *core, const struct nrt_model *m, const struct sim_answer *a);
void libnrt_trace_collected(const struct libnrt_core *core, const struct sim_wire_result *result, uint64_t sequence);
void libnrt_trace_load(const struct libnrt_core *core, const struct nrt_model *m, const struct sim_answer *a,
                       bool load);
/* A host copy; tensor 0: of no single tensor, a copy between two. */
void libnrt_trace_copy(const struct libnrt_core *core, bool to_device, uint64_t tensor, uint64_t offset, uint64_t bytes,
                       const struct sim_answer *a);
void libnrt_trace_tensor(const struct libnrt_core *core, uint64_t tensor, uint64_t bytes, bool alloc,
                         const struct sim_answer *a);
/* The runtime has given everything back. */
void libnrt_trace_forget(void);
/* What the device process took, or gave back, for the core at host_ns. Counted whether a trace runs or not. */
void libnrt_trace_memory(const struct libnrt_core *core, enum systrace_usage usage, bool alloc, uint64_t bytes,
                         uint64_t host_ns);

#endif
