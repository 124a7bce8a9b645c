/*
 * What the parts of the hook share. Nothing here allocates by malloc: an application's allocator may itself be
 * interposed, and what the hook needs is of fixed size. Every function that an application's thread reaches keeps
 * errno.
 */
#ifndef KYMO_DRIVER_IFACE_HOOK_HOOK_INTERNAL_H
#define KYMO_DRIVER_IFACE_HOOK_HOOK_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "driver-iface/hook/hook_real.h"
#include "proto/hook.h"

/* NRT_STATUS, the few that matter here (facts: driver.md 4). */
#define HOOK_NRT_SUCCESS 0
#define HOOK_NRT_FAILURE 1
#define HOOK_NRT_INVALID 2
#define HOOK_NRT_UNINITIALIZED 13

static inline uint64_t hook_clock_ns(clockid_t clock)
{
    struct timespec t = {0};

    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t hook_now(void)
{
    return hook_clock_ns(CLOCK_MONOTONIC);
}

/* A descriptor that is known to be still ours: applications may close descriptors that they did not open. */
struct hook_fd {
    int fd; /* -1: none */
    dev_t dev;
    ino_t ino;
};
#define HOOK_NO_FD ((struct hook_fd){.fd = -1})

/* Moves fd out of the range that applications hand out by hand; takes it over in any case. */
struct hook_fd hook_fd_take(int fd);
bool hook_fd_is_ours(const struct hook_fd *f);
void hook_fd_close(struct hook_fd *f); /* closes it if it is still ours */

/* hook_state.c: the life of the hook in this process. */

bool hook_is_disabled(void); /* KYMO_HOOK_DISABLE=1 */

extern const uint32_t *hook_live_word;

/* The page exists and the runtime was initialised in this very process: false in a child of fork until its own
 * nrt_init, even one made behind the C library's back. */
static inline bool hook_is_live(void)
{
    return __atomic_load_n(hook_live_word, __ATOMIC_RELAXED) != 0;
}

extern struct kymo_hook_page *hook_page; /* valid while live */
extern struct hook_fd hook_page_fd;      /* -1: the page is private, there is nobody to share it with */

bool hook_state_begin(void); /* makes the page; false: no memory, stay out of the way */
void hook_state_live(bool live);
void hook_state_set(uint32_t *word, uint32_t value);

/* Nesting: what the runtime calls of itself, or the hook of the runtime, is not the application's doing. */
extern __thread uint32_t hook_depth __attribute__((tls_model("initial-exec")));

/* hook_env.c */

struct hook_buffers {
    uint32_t user, ours; /* bit per buffer */
};

struct hook_buffers hook_env_set_buffers(const struct kymo_hook_policy *p);
bool hook_env_is_on(const char *name); /* set, not empty, not 0 */
const char *hook_env_inspecting(void); /* variable that turns the vendor's inspection on; NULL: none */

/* hook_talk.c: the socket, the queue, the helper thread. */

/* Connects and waits for the policy, KYMO_HOOK_QUESTION_MS at most. True: it came in time. */
bool hook_talk_ask(uint32_t *ret_us);
void hook_talk_start(void); /* the helper thread; without it nothing more is said */
/* Queues a packet (header filled here) and wakes the helper. Takes fd, -1: none. False: the queue is full. Without a
 * connection, what will be announced anyway is not queued. */
bool hook_talk_send(uint16_t type, void *packet, uint32_t size, int fd);
void hook_talk_flush(void); /* waits for the queue, KYMO_HOOK_QUESTION_MS at most */
/* Copies the newest policy and hands over the intake directory that came with it, if one did. False: none since last
 * time. */
bool hook_talk_policy(struct kymo_hook_policy *ret, int *ret_intake);
bool hook_talk_look_at_policy(struct kymo_hook_policy *ret); /* the last one, if there was any; still to be taken */
bool hook_talk_has_peer(void);                               /* connected now */
bool hook_talk_may_come(void);                               /* there is a socket to connect to */
void hook_talk_forked(void);                                 /* in the child: forget all of it */

/* hook_model.c: loaded models and their counters. */

struct hook_model {
    const void *handle; /* NULL: free */
    struct kymo_hook_model_slot *slot;
    struct kymo_hook_loaded loaded; /* as announced */
    struct hook_fd neff;            /* the copy, passed on, that the daemon may ask for again; none: it is done with */
};

struct hook_model *hook_model_find(const void *handle); /* no lock; NULL: unknown */
void hook_model_loaded(const void *handle, const void *neff, size_t size, int32_t vnc, int32_t vnc_count,
                       const uint32_t ctx[2]);
void hook_model_unloading(const void *handle);
/* After a new connection. fd: the copy that the daemon before may not have kept, or -1; it stays the model's. */
void hook_model_announce(void (*send)(const struct kymo_hook_loaded *m, int fd));
void hook_model_unload_all(void); /* before nrt_close */
void hook_model_clear(void);      /* in the child of a fork */
/* The step model: number named, if it is loaded, else the most often executed; NULL: nothing is loaded. */
struct hook_model *hook_model_step(uint32_t named, bool *ret_several);
/* Logical cores on which something was executed, each once; how many. */
size_t hook_model_cores(uint32_t cores[KYMO_HOOK_MODELS]);
/* A model's copy went to the daemon. Takes fd: with keep it stays until hook_model_neff_done. */
void hook_model_neff_passed(uint32_t model, uint64_t bytes, int fd, bool keep);
void hook_model_neff_done(uint32_t model); /* 0: of all models */

static inline uint64_t hook_model_executions(const struct hook_model *m)
{
    return __atomic_load_n(&m->slot->executions, __ATOMIC_RELAXED) +
           __atomic_load_n(&m->slot->schedules, __ATOMIC_RELAXED);
}

/* hook_capture.c: policy, triggers, captures; all on threads of the application, at boundaries. */

/* Bits of hook_attention; 0: executions pass without a look. */
#define HOOK_ATTEND_POLICY 1u  /* a new policy */
#define HOOK_ATTEND_CAPTURE 2u /* a capture runs */
#define HOOK_ATTEND_FAILURE 4u /* on-failure is armed */
#define HOOK_ATTEND_OFF 8u     /* switched off by the policy */
#define HOOK_ATTEND_WAIT 16u   /* a trigger waits for execution hook_wait_execution of the step model */

extern uint64_t hook_wait_execution; /* atomic, as are the next three */
extern uint32_t hook_attention;
extern uint32_t hook_trigger_seen; /* our own copy: the page's can be overwritten */
extern uint32_t hook_is_async;

void hook_capture_begin(bool answered, uint32_t question_us, struct hook_buffers buffers); /* nrt_init has returned */
void hook_capture_before(struct hook_model *m);
void hook_capture_after(struct hook_model *m, int status, bool scheduled);
void hook_capture_async(void);          /* the job schedules: before the first one */
void hook_capture_end(void);            /* nrt_close comes next */
void hook_capture_policy_changed(void); /* from the helper */
void hook_capture_forked(void);
bool hook_capture_neff_limits(uint64_t *ret_max, uint64_t *ret_total); /* false: no policy has come yet */
void hook_foreign_call(enum hook_real_index i);

#endif
