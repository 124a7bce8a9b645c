/*
 * What a rank's runtime and the device process say to each other: SOCK_SEQPACKET, one fixed-size request, one
 * fixed-size answer, in turns; file descriptors ride along where the list says so. Both ends are of one build (version
 * below), so the structures are plain. Every field is checked by the receiver; a message of another size, magic or
 * version ends the connection.
 *
 * A connection is a rank. Logical cores that it attached are its own until it detaches or goes away.
 */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_WIRE_H
#define KYMO_DRIVER_IFACE_SIM_SIM_WIRE_H

#include <stdint.h>

#include "arch/ring.h"

#define SIM_WIRE_MAGIC 0x5753594bu
#define SIM_WIRE_VERSION 3u
#define SIM_WIRE_NAME_MAX 255u
#define SIM_WIRE_TEXT_MAX 320u
#define SIM_WIRE_ASYNC_MAX 256u               /* submitted executions that may wait; more: NRT_QUEUE_FULL */
#define SIM_WIRE_RESULTS_MAX 4096u            /* results of asynchronous executions that are kept to be asked for */
#define SIM_WIRE_MODELS_MAX 256u              /* per connection */
#define SIM_WIRE_RANKS_MAX 256u               /* connections at once */
#define SIM_WIRE_CPUS 8u                      /* of the simulated host */
#define SIM_WIRE_HOST_BYTES (512ull << 30)    /* its memory */
#define SIM_WIRE_RUNTIME_BYTES (64ull << 20)  /* device memory of each physical core in use (G) */
#define SIM_WIRE_DMA_RING_BYTES (32ull << 20) /* likewise */

/* X(name) */
#define SIM_OP_MAP(X)                                                                                                  \
    X(HELLO)     /* -> answer.hello */                                                                                 \
    X(ATTACH)    /* vnc, attach: takes a logical core; -EBUSY when another rank has it */                              \
    X(DETACH)    /* vnc */                                                                                             \
    X(LOAD)      /* vnc, bytes, comm, 1 fd: the NEFF as a memfd; -> model_id */                                        \
    X(UNLOAD)    /* model_id */                                                                                        \
    X(ARM)       /* vnc, sizes, mode: starts tracing -> bytes, 1 fd: the area of sim_ring_layout */                    \
    X(RESTART)   /* vnc: counters and truth begin anew, untaken records are forgotten */                               \
    X(DISARM)    /* vnc */                                                                                             \
    X(FREEZE)    /* vnc: nothing is written into its rings until THAW, RESTART or DISARM */                            \
    X(THAW)      /* vnc */                                                                                             \
    X(EXECUTE)   /* model_id, flags, idle_ps -> result */                                                              \
    X(SUBMIT)    /* as EXECUTE, but answers at once -> sequence */                                                     \
    X(POLL)      /* vnc -> sequence: the last one completed */                                                         \
    X(WAIT)      /* -> sequence: all submitted executions are completed */                                             \
    X(RESULT)    /* sequence -> result; -EAGAIN while it waits, -ENOENT when no longer kept */                         \
    X(HOST_COPY) /* vnc, bytes, flags, idle_ps */                                                                      \
    X(ADVANCE)   /* vnc, idle_ps: the core idles */                                                                    \
    X(NOW)       /* vnc -> now_ps, host_ns */                                                                          \
    X(CLOCK)     /* ring, nc_idx, engine, vnc -> clock; -ENODATA when the generation does not rescale */               \
    X(TRUTH)  /* vnc, name (the profile's path, its end if it is long): writes the truth of what was traced since */   \
              /* ARM or RESTART; -ENOTSUP without --truth */                                                           \
    X(MEMORY) /* vnc, bytes, flags: takes device memory for tensors or gives it back; -ENOMEM */                       \
    X(SYSTEM) /* begins, or with SIM_FLAG_GIVE ends, the truth of what this rank asks for; with a name writes it */    \
    X(HOST)   /* sequence: a time in Unix ns -> host_cpu, bytes: the host's state then */

enum sim_op_code {
    SIM_OP_NONE,
#define X(name) SIM_OP_##name,
    SIM_OP_MAP(X)
#undef X
        SIM_OP_MAX,
};

enum { SIM_FLAG_FAIL = 1, SIM_FLAG_TO_DEVICE = 2, SIM_FLAG_GIVE = 4 };

struct sim_wire_attach {
    double slow_factor; /* 1.0; beyond: compute is stretched */
    uint32_t dge_notifications;
    uint32_t reserved;
};

/* Whom a model's collectives are with; world 0: nobody. Ranks with the same job number meet. */
struct sim_wire_comm {
    uint64_t job;
    uint32_t rank, world;
    uint32_t timeout_ms; /* how long an execution waits for the other ranks */
    uint32_t reserved;
};

struct sim_request {
    uint32_t magic;
    uint16_t version, op;
    uint32_t vnc; /* logical core of the instance */
    uint32_t flags;
    uint64_t model_id, sequence, bytes, idle_ps;
    uint32_t ring, nc_idx, engine, mode; /* mode: enum ntff capture_mode */
    struct sim_wire_attach attach;
    struct sim_wire_comm comm;
    uint64_t sizes[KYMO_RING_MAX];
    char name[SIM_WIRE_NAME_MAX + 1];
};

struct sim_wire_hello {
    char instance[32];
    char driver_version[32];
    uint32_t lnc, vnc_count;
};

struct sim_wire_result {
    uint64_t start_ps, end_ps, model_id;
    uint32_t status; /* NRT_STATUS */
    uint32_t vnc;
};

struct sim_wire_clock {
    uint64_t init, actual_inc, expected_inc;
};

struct sim_answer {
    uint32_t magic;
    uint16_t version, op;
    int32_t error;       /* 0 or a negative errno, with text */
    uint32_t nrt_status; /* what the runtime's caller gets for it */
    uint64_t model_id, sequence, bytes, now_ps;
    uint64_t host_begin_ns, host_ns; /* before and after what was done, of requests with a vnc of the rank's */
    float host_cpu[SIM_WIRE_CPUS];   /* percent */
    struct sim_wire_result result;
    struct sim_wire_clock clock;
    struct sim_wire_hello hello;
    char text[SIM_WIRE_TEXT_MAX];
};

_Static_assert(sizeof(struct sim_request) == 440, "both ends agree");
_Static_assert(sizeof(struct sim_answer) == 544, "both ends agree");

/* "EXECUTE"; NULL for a number without a name. */
const char *sim_op_name(unsigned op);

#endif
