/* The connecting end of the daemon's control socket, for subcommands: blocking, with deadlines. Not thread-safe. */
#ifndef KYMO_TOOLS_CONTROL_CLIENT_H
#define KYMO_TOOLS_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"
#include "proto/control.h"

/* Exit codes beside those of subcommands.h. */
enum { CONTROL_EXIT_TIMEOUT = 3, CONTROL_EXIT_NO_DAEMON = 4, CONTROL_EXIT_NOT_FOUND = 5 };

#define CONTROL_CLIENT_ROW(type_, member)                                                                              \
    {                                                                                                                  \
        .name = "socket", .type = KYMO_OPTION_TEXT, .arg = "DIR", .offset = offsetof(type_, member),                   \
        .help = "where the daemon's control.sock is (default $KYMO_SOCKET, else /run/kymo)"                            \
    }

struct control_client;

/* What the daemon says. Negative ends the conversation with that error. */
typedef int control_client_heard(void *ctx, const struct wire_message *m, struct kymo_err *err);

/*
 * Connects and greets. dir NULL: the default. -ENOENT, -ECONNREFUSED: no daemon listens there; -EACCES: not for this
 * user; the text says so for people.
 */
int control_client_open(const char *dir, control_client_heard *heard, void *ctx, struct control_client **ret,
                        struct kymo_err *err) KYMO_MUST_CHECK;
struct control_client *control_client_close(struct control_client *c); /* NULL is fine; returns NULL */
uint32_t control_client_version(const struct control_client *c);
int control_client_send(struct control_client *c, uint16_t type, const ProtobufCMessage *m,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* Talks until *done is set by heard, or for ms: -ETIMEDOUT. -EPIPE: the daemon has gone. */
int control_client_wait(struct control_client *c, const bool *done, uint64_t ms, struct kymo_err *err) KYMO_MUST_CHECK;

/* The exit code for such an error. */
int control_client_exit(int code);
/* A refusal as an error: -ENOENT, -ETIMEDOUT, -EBUSY, -EINVAL, -EACCES or -ECONNREFUSED. */
int control_client_refused(const Kymo__Wire__Refusal *r, struct kymo_err *err);

#endif
