/*
 * One connection of a hook: who is at its other end, the page that both map, packets both ways. Made by the server
 * (hook_server.h), on whose loop everything happens. Nothing in here waits.
 */
#ifndef KYMO_DAEMON_HOOK_SESSION_H
#define KYMO_DAEMON_HOOK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uv.h>

#include "base/err.h"
#include "daemon/hook_packet.h"
#include "proto/hook.h"

/* A session may send so many packets at once, and so many a second in the long run; beyond that it is closed. */
#define HOOK_SESSION_BURST 1024u
#define HOOK_SESSION_PACKETS_S 64u
#define HOOK_SESSION_HELLO_MS 5000u /* without HELLO by then it is closed */

struct hook_session;

struct hook_peer_id {
    pid_t pid; /* as this host numbers it; 0: of a namespace that we do not see into */
    uid_t uid;
    gid_t gid;
    int pidfd; /* -1: the kernel gives none */
};

struct hook_session_ops {
    /* The first call: HELLO with a sound page and a common version. */
    void (*hello)(void *ctx, struct hook_session *s, const struct kymo_hook_hello *hello);
    /* Any other packet that is known. fd, -1 or a descriptor that came with it, becomes the callee's. */
    void (*packet)(void *ctx, struct hook_session *s, const union hook_packet *p, int fd);
    /* The last call, and only after hello: the page goes with it. why: "" when the peer has left. */
    void (*closed)(void *ctx, struct hook_session *s, const char *why);
    /* The session is gone altogether, greeted or not. */
    void (*gone)(void *ctx, struct hook_session *s, const char *why);
};

/* Takes fd, whatever it returns. */
int hook_session_new(uv_loop_t *loop, int fd, const struct hook_session_ops *ops, void *ctx, struct hook_session **ret,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* closed and gone are called before it returns, unless they were; the memory goes with the loop's next turn. */
void hook_session_close(struct hook_session *s, const char *why);

const struct hook_peer_id *hook_session_peer(const struct hook_session *s);
struct kymo_hook_page *hook_session_page(const struct hook_session *s); /* NULL before HELLO and after closed */
bool hook_session_is_late(const struct hook_session *s, uint64_t now_ms);
void hook_session_set_data(struct hook_session *s, void *data); /* the owner's */
void *hook_session_data(const struct hook_session *s);

/*
 * Header and versions are filled in. intake: a directory to be passed, or -1; stays the caller's. A peer that does not
 * read is closed: then negative, and s is gone.
 */
int hook_session_send_policy(struct hook_session *s, const struct kymo_hook_policy *policy, int intake);

/* The copy of a model's NEFF is needed no more. Like hook_session_send_policy. */
int hook_session_send_neff_done(struct hook_session *s, uint32_t model);

/* A trigger through the page, under a number of its own, which is returned. */
uint32_t hook_session_trigger(struct hook_session *s, const struct kymo_hook_trigger *trigger);

#endif
