/*
 * What a program and the service manager that runs it say to each other: readiness, status, watchdog, inherited
 * sockets. Without a manager (no NOTIFY_SOCKET, WATCHDOG_USEC, LISTEN_FDS in the environment) all of it does nothing.
 * Belongs to the loop's thread; make it before other threads start, since it takes variables out of the environment.
 *
 * Facts: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds_with_names(3).
 */
#ifndef KYMO_BASE_SERVICE_H
#define KYMO_BASE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"

#define SERVICE_WATCHES_MAX 4
#define SERVICE_SOCKETS_MAX 16
#define SERVICE_STATUS_MAX 256

struct service;

/*
 * Takes the inherited descriptors, and begins to ping the watchdog from a timer of the loop, at half of its time: a
 * loop that does not turn does not ping. The timer does not keep the loop alive.
 */
int service_new(uv_loop_t *loop, struct service **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Closes descriptors that nobody took. The loop must run once more before it is closed. NULL is fine; returns NULL. */
struct service *service_free(struct service *s);

/* status: one line for systemctl status; may be NULL. Repeating ready ends a reload. */
void service_ready(struct service *s, const char *status);
void service_reloading(struct service *s);
void service_stopping(struct service *s);
void service_status(struct service *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Another thread's life becomes part of this one's: beats is called before every ping, on the loop's thread, and
 * returns a counter that the other thread moves (it may poke the thread so that it does). Once the counter has stood
 * still for limit_ms there are no more pings until it moves again, and the status names the thread. name must live as
 * long. -ENOBUFS beyond SERVICE_WATCHES_MAX.
 */
typedef uint64_t service_beats(void *ctx);
int service_watch(struct service *s, const char *name, uint64_t limit_ms, service_beats *beats, void *ctx,
                  struct kymo_err *err) KYMO_MUST_CHECK;
void service_unwatch(struct service *s, const void *ctx);
bool service_has_watchdog(const struct service *s);
const char *service_hung(const struct service *s); /* name of the thread that stands still; NULL: none */

/*
 * The inherited listening socket of this name (FileDescriptorName= of the socket unit), which becomes the caller's.
 * family and type as socket(2) has them, AF_UNSPEC: any. -ENOENT: none was inherited; -EPROTOTYPE: it is of another
 * kind, and stays here.
 */
int service_take_socket(struct service *s, const char *name, int family, int type, int *ret_fd,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* Name of an inherited socket that nobody took, so that a program can say that it has no use for it; NULL: none. */
const char *service_untaken(const struct service *s);

#endif
