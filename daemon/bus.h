/*
 * org.kymo.Daemon1 on D-Bus, for service managers, schedulers and people with busctl: status and capture, as on the
 * control socket. daemon/BUS.md describes the interface. Belongs to the loop's thread, which it never blocks: callers'
 * credentials are asked for without waiting. A bus that is not there, or goes away, is tried again for ever.
 *
 * Who may: root, the daemon's own user, and members of one group. polkit would allow finer rules, at the price of a
 * question to a third process for each call and of rules in two places; the control socket has the same group.
 */
#ifndef KYMO_DAEMON_BUS_H
#define KYMO_DAEMON_BUS_H

#include <uv.h>

#include "base/err.h"
#include "daemon/captures.h"
#include "daemon/jobs.h"
#include "daemon/outbox.h"

#define BUS_NAME "org.kymo.Daemon1"
#define BUS_PATH "/org/kymo/Daemon1"
#define BUS_REQUESTS_MAX 64 /* calls whose sender is being looked at */
#define BUS_ASKS_MAX 64     /* callers' captures that are under way */
#define BUS_RETRY_MIN_MS 1000
#define BUS_RETRY_MAX_MS 60000

enum bus_which {
    BUS_SYSTEM, /* or where DBUS_SYSTEM_BUS_ADDRESS points */
    BUS_SESSION,
};

/* jobs, captures and outbox must outlive it. */
struct bus_config {
    uv_loop_t *loop;
    enum bus_which which;
    const char *group; /* whose members may; NULL or unknown: none */
    const struct jobs *jobs;
    struct captures *captures;
    struct outbox *outbox;
    /* Connected (why NULL), or waiting to try again; told on changes alone. May be NULL. */
    void (*changed)(void *ctx, const char *why);
    void *ctx;
};

struct bus;

/* Begins to connect. Its handles do not keep the loop alive. */
int bus_new(const struct bus_config *config, struct bus **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* The loop must run once more before it is closed. NULL is fine; returns NULL. */
struct bus *bus_close(struct bus *b);

#endif
