/*
 * What libkymo-hook.so and kymod say to each other: fixed-size structures, one per packet, over a SOCK_SEQPACKET socket
 * of one host, in the host's byte order, and the page of memory that both map. proto/HOOK.md draws the bytes and states
 * the rules. Nothing but numbers here: the hook includes this file and no other of kymo's.
 *
 * Words of the page are read and written with atomic operations, relaxed unless stated; neither side trusts what the
 * other one wrote.
 */
#ifndef KYMO_PROTO_HOOK_H
#define KYMO_PROTO_HOOK_H

#include <stddef.h>
#include <stdint.h>

#define KYMO_HOOK_SOCKET_NAME "hook.sock"
#define KYMO_HOOK_SOCKET_DIR "/run/kymo" /* unless KYMO_SOCKET names another directory */

/* Versions that this header describes. */
#define KYMO_HOOK_VERSION_MIN 1u
#define KYMO_HOOK_VERSION_MAX 1u

#define KYMO_HOOK_PACKET_MAX 4096u /* longer packets are refused */
#define KYMO_HOOK_ID_MAX 64u       /* capture id with its end: [A-Za-z0-9._-], not beginning with a dot */
#define KYMO_HOOK_QUESTION_MS 50u  /* the hook waits no longer for its first policy */

/* X(NAME, number): packets. From 64 on they go to the hook. 7, 65 and 65535 stay unused: golden files have them as
 * types that nobody knows. */
#define KYMO_HOOK_TYPE_MAP(X)                                                                                          \
    X(HELLO, 1)                                                                                                        \
    X(STATE, 2)                                                                                                        \
    X(LOADED, 3)                                                                                                       \
    X(UNLOADED, 4)                                                                                                     \
    X(CAPTURED, 5)                                                                                                     \
    X(REFUSED, 6)                                                                                                      \
    X(POLICY, 64)                                                                                                      \
    X(NEFF_DONE, 66)

/* X(NAME, number, "name in manifest.pb") */
#define KYMO_HOOK_MODE_MAP(X)                                                                                          \
    X(NONE, 0, "none")                                                                                                 \
    X(CONTINUOUS, 1, "continuous")                                                                                     \
    X(MODEL, 2, "model")                                                                                               \
    X(SESSION, 3, "session")                                                                                           \
    X(ON_FAILURE, 4, "on-failure")

/* X(NAME, number, "why") */
#define KYMO_HOOK_REASON_MAP(X)                                                                                        \
    X(NONE, 0, "nothing was refused")                                                                                  \
    X(INSPECT, 1, "the vendor's inspection is on")                                                                     \
    X(FOREIGN, 2, "somebody else calls the profiling interface")                                                       \
    X(MISSING, 3, "the runtime lacks a function")                                                                      \
    X(MEMORY, 4, "too little device memory")                                                                           \
    X(OFF, 5, "switched off by the policy")                                                                            \
    X(STALL, 6, "the last capture took longer than the limit")                                                         \
    X(BUDGET, 7, "captures took too much of the job's time")                                                           \
    X(INTAKE, 8, "no usable intake directory")                                                                         \
    X(TRIGGER, 9, "the trigger makes no sense")                                                                        \
    X(PAST, 10, "that execution is over")                                                                              \
    X(RUNTIME, 11, "the runtime refused")                                                                              \
    X(VERSION, 12, "no common version")                                                                                \
    X(CLOSED, 13, "the runtime was closed before")                                                                     \
    X(ROOM, 14, "no room on the file system of the intake directory")

enum kymo_hook_type {
#define X(name, number) KYMO_HOOK_##name = number,
    KYMO_HOOK_TYPE_MAP(X)
#undef X
};

enum kymo_hook_mode {
#define X(name, number, text) KYMO_HOOK_MODE_##name = number,
    KYMO_HOOK_MODE_MAP(X)
#undef X
        KYMO_HOOK_MODE_COUNT
};

enum kymo_hook_reason {
#define X(name, number, text) KYMO_HOOK_REASON_##name = number,
    KYMO_HOOK_REASON_MAP(X)
#undef X
        KYMO_HOOK_REASON_COUNT
};

/* NEURON_RT_PROFILE_BUF_<name>_MB, in the order of kymo_hook_policy.buffer_mb. */
#define KYMO_HOOK_BUFFER_MAP(X)                                                                                        \
    X(EVENT, 0)                                                                                                        \
    X(INSTRUCTION, 1)                                                                                                  \
    X(DMA, 2)                                                                                                          \
    X(THROTTLE, 3)                                                                                                     \
    X(CC_CORE_INSTRUCTION, 4)                                                                                          \
    X(CC_CORE_EVENT, 5)                                                                                                \
    X(H2D_DMA, 6)
#define KYMO_HOOK_BUFFERS 16u
#define KYMO_HOOK_BUFFER_LEAVE UINT32_MAX /* what the runtime does by itself */
#define KYMO_HOOK_BUFFER_MAX_MB 65536u

struct kymo_hook_header {
    uint32_t size;    /* of the packet; a reader takes the part that it knows */
    uint16_t type;    /* enum kymo_hook_type; others are skipped */
    uint16_t version; /* agreed upon; 0 in HELLO */
    uint64_t seq;     /* counts the sender's packets on this connection, from 1 */
};
_Static_assert(sizeof(struct kymo_hook_header) == 16, "part of the protocol");

#define KYMO_HOOK_HELLO_ASYNC 1u   /* the in-flight variable is set */
#define KYMO_HOOK_HELLO_INSPECT 2u /* NEURON_RT_INSPECT_ENABLE=1 */
#define KYMO_HOOK_HELLO_AGAIN 4u   /* not the first connection of this process; nothing waits for the policy */

/* First packet of a connection; carries the descriptor of the page. */
struct kymo_hook_hello {
    struct kymo_hook_header header;
    uint16_t version_min, version_max;
    uint32_t pid; /* in the sender's namespace: SO_PEERCRED is what counts */
    uint32_t flags, page_size;
    uint64_t start_unix_ns, start_mono_ns; /* of nrt_init, on the host's two clocks */
    char hook_version[32], program[64];    /* both end with a 0 */
    uint64_t reserved[5];
};
_Static_assert(sizeof(struct kymo_hook_hello) == 184, "part of the protocol");

/* After nrt_init has returned, when the armed mode changes, and after nrt_close. */
enum kymo_hook_run_state { KYMO_HOOK_RUN_STARTING, KYMO_HOOK_RUN_READY, KYMO_HOOK_RUN_CLOSED };

struct kymo_hook_state_msg {
    struct kymo_hook_header header;
    uint32_t state;              /* enum kymo_hook_run_state */
    uint32_t init_status;        /* what nrt_init returned */
    uint32_t armed;              /* enum kymo_hook_mode */
    uint32_t buffers_user;       /* bit per buffer: the user had set it, so it stays */
    uint32_t buffers_ours;       /* bit per buffer: set from the policy */
    uint32_t question_us;        /* how long nrt_init waited for the policy */
    uint32_t answered;           /* 1: the policy came in time */
    uint32_t step_model;         /* by which steps are counted, as the policy named it; 0: by the most often executed */
    uint32_t runtime_version[4]; /* nrt_get_version: major, minor, patch, maintenance, cut to 32 bits; 0: not told */
};
_Static_assert(sizeof(struct kymo_hook_state_msg) == 64, "part of the protocol");

#define KYMO_HOOK_NEFF_ATTACHED 1u /* this packet carries a sealed memfd with the bytes */
#define KYMO_HOOK_NEFF_SENT 2u     /* the bytes went over an earlier connection */
#define KYMO_HOOK_NEFF_LARGE 4u    /* beyond the limits; not copied */
#define KYMO_HOOK_NEFF_FAILED 8u   /* no memory or descriptor for a copy */
#define KYMO_HOOK_NEFF_EARLY 16u   /* loaded while there was neither daemon nor policy */

struct kymo_hook_loaded {
    struct kymo_hook_header header;
    uint32_t model;         /* number within the process, from 1, never used twice; slots of the page name it */
    int32_t vnc, vnc_count; /* as given to nrt_load */
    uint32_t flags;         /* KYMO_HOOK_NEFF_* */
    uint64_t neff_bytes;
    uint32_t ctx_device, ctx_devices; /* nrt_load_collectives; 0, 0 else */
    uint64_t unix_ns;
    uint32_t slot; /* of the page; UINT32_MAX: there was none left */
    uint32_t reserved;
};
_Static_assert(sizeof(struct kymo_hook_loaded) == 64, "part of the protocol");

struct kymo_hook_unloaded {
    struct kymo_hook_header header;
    uint32_t model, reserved;
    uint64_t executions;
};
_Static_assert(sizeof(struct kymo_hook_unloaded) == 32, "part of the protocol");

#define KYMO_HOOK_CAPTURE_FALLBACK 1u /* session, since the job is asynchronous or its step has several programs */
#define KYMO_HOOK_CAPTURE_CUT 2u      /* ended by nrt_close or by a step that failed, before it was full */
#define KYMO_HOOK_CAPTURE_LONG 4u     /* took longer than the limit on stall */

/* The directory <id> of the intake directory is complete: the hook writes into <id>.part and renames it. */
struct kymo_hook_captured {
    struct kymo_hook_header header;
    char id[KYMO_HOOK_ID_MAX];
    uint16_t mode, asked;                 /* enum kymo_hook_mode */
    uint32_t flags;                       /* KYMO_HOOK_CAPTURE_* */
    uint32_t model;                       /* the step model, or the one that failed */
    uint32_t status;                      /* NRT_STATUS of the last execution in it */
    uint64_t first_execution, executions; /* of that model, from 1 */
    uint64_t start_unix_ns, end_unix_ns;
    uint64_t stall_ns, stall_max_ns; /* what it cost the application's thread: in all, and at most at one boundary */
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct kymo_hook_captured) == 160, "part of the protocol");

struct kymo_hook_refused {
    struct kymo_hook_header header;
    char id[KYMO_HOOK_ID_MAX]; /* of the trigger; empty: arming was refused */
    uint32_t reason;           /* enum kymo_hook_reason */
    uint32_t mode;
    char text[96]; /* what exactly: a function, a variable, a number */
};
_Static_assert(sizeof(struct kymo_hook_refused) == 184, "part of the protocol");

#define KYMO_HOOK_POLICY_OFF 1u       /* kill switch: captures nothing, counts nothing */
#define KYMO_HOOK_POLICY_NEFF_DONE 2u /* this daemon says NEFF_DONE; the hook keeps its copies until then */
#define KYMO_HOOK_POLICY_SYSTEM 4u    /* sessions trace the system too; hooks before this flag do not */

/* Answer to HELLO, and again whenever it changes. May carry the descriptor of the intake directory; without one the
 * last one stays. */
struct kymo_hook_policy {
    struct kymo_hook_header header;
    uint16_t version_min, version_max;
    uint16_t version;                            /* highest common version; 0: there is none */
    uint16_t mode;                               /* armed between captures: NONE, CONTINUOUS or ON_FAILURE */
    uint32_t flags;                              /* KYMO_HOOK_POLICY_* */
    uint32_t step_model;                         /* whose executions are steps; 0, or not loaded: most often executed */
    uint64_t stall_limit_ns;                     /* at one execution boundary; 0: no captures */
    uint64_t neff_max_bytes, neff_total_bytes;   /* of one copy, and of all that the hook still has */
    uint64_t hbm_need_bytes, hbm_capacity_bytes; /* of the cores below together; need 0: not compared */
    uint32_t hbm_device, hbm_core_first, hbm_core_count, reserved1; /* physical, as in sysfs */
    uint32_t buffer_mb[KYMO_HOOK_BUFFERS];
    uint64_t reserved[4];
};
_Static_assert(sizeof(struct kymo_hook_policy) == 184, "part of the protocol");

/* The daemon needs the copy of a NEFF no more: it is on disk, or will not be kept. */
struct kymo_hook_neff_done {
    struct kymo_hook_header header;
    uint32_t model, reserved;
};
_Static_assert(sizeof(struct kymo_hook_neff_done) == 24, "part of the protocol");

/* The page: made and sealed by the hook, so that nobody can shorten it under the job. */
#define KYMO_HOOK_PAGE_MAGIC 0x4750594bu /* "KYPG" */
#define KYMO_HOOK_PAGE_LAYOUT 1u
#define KYMO_HOOK_MODELS 64u
#define KYMO_HOOK_BUCKETS 120u     /* four to an octave */
#define KYMO_HOOK_BUCKET_SHIFT 10u /* bucket 0 begins below 2^10 ns */

/* Written by the daemon: the words first, then seq with release, never the same number twice. */
struct kymo_hook_trigger {
    uint32_t seq;       /* a change is a new trigger; it replaces one that has not begun */
    uint32_t mode;      /* enum kymo_hook_mode; NONE: take back what has not begun */
    uint64_t execution; /* of the step model, from 1; 0: the next one */
    uint32_t count;     /* executions of the step model in a session, at least 1; else 1 */
    uint32_t reserved0;
    uint64_t duration_ns; /* a session ends at the first boundary after this; 0: by count alone */
    char id[KYMO_HOOK_ID_MAX];
    uint64_t reserved[4];
};
_Static_assert(sizeof(struct kymo_hook_trigger) == 128, "part of the page");

struct kymo_hook_model_slot {
    uint32_t model; /* 0: free */
    uint32_t last_status;
    uint64_t executions, failures, total_ns, max_ns;
    uint64_t last_end_mono_ns;
    uint64_t schedules; /* asynchronous: no latency is known */
    uint64_t reserved;
    uint64_t buckets[KYMO_HOOK_BUCKETS];
};
_Static_assert(sizeof(struct kymo_hook_model_slot) == 1024, "part of the page");

struct kymo_hook_page {
    uint32_t magic, layout, size, models; /* KYMO_HOOK_MODELS */
    uint32_t model_offset, model_size, buckets, bucket_shift;
    uint32_t pid, reserved0[7];
    struct kymo_hook_trigger trigger;     /* 64 */
    uint32_t trigger_seen;                /* 192: last seq that the hook took up */
    uint32_t run_state, armed, capturing; /* enum kymo_hook_run_state, two enum kymo_hook_mode */
    uint32_t reason;                      /* enum kymo_hook_reason of the last refusal */
    uint32_t is_async;
    uint64_t captures, refusals, stall_ns, stall_max_ns;
    uint64_t messages_lost; /* packets that found the hook's queue full */
    uint64_t uncounted;     /* executions of models without a slot */
    uint8_t reserved1[4096 - 264];
    struct kymo_hook_model_slot slots[KYMO_HOOK_MODELS]; /* 4096 */
};
_Static_assert(offsetof(struct kymo_hook_page, trigger) == 64, "part of the page");
_Static_assert(offsetof(struct kymo_hook_page, trigger_seen) == 192, "part of the page");
_Static_assert(offsetof(struct kymo_hook_page, captures) == 216, "part of the page");
_Static_assert(offsetof(struct kymo_hook_page, slots) == 4096, "part of the page");
_Static_assert(sizeof(struct kymo_hook_page) == 4096 + 64 * 1024, "part of the page");

/* Bucket of a latency: 0 below 2^10 ns, then four to an octave, the last one for all beyond. */
static inline uint32_t kymo_hook_bucket(uint64_t ns)
{
    uint32_t top, b;

    if (ns < 1u << KYMO_HOOK_BUCKET_SHIFT)
        return 0;
    top = 63u - (uint32_t)__builtin_clzll(ns);
    b = (top - KYMO_HOOK_BUCKET_SHIFT) * 4u + (uint32_t)(ns >> (top - 2u) & 3u) + 1u;
    return b < KYMO_HOOK_BUCKETS ? b : KYMO_HOOK_BUCKETS - 1u;
}

/* Highest version in both ranges; 0: none. */
static inline uint16_t kymo_hook_common_version(uint16_t a_min, uint16_t a_max, uint16_t b_min, uint16_t b_max)
{
    uint16_t low = a_min > b_min ? a_min : b_min, high = a_max < b_max ? a_max : b_max;

    return low <= high && a_min <= a_max && b_min <= b_max ? high : 0;
}

#endif
