/* What the files of the control socket's server share. */
#ifndef KYMO_DAEMON_CONTROL_INTERNAL_H
#define KYMO_DAEMON_CONTROL_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/control.h"
#include "proto/session.h"

struct client;

/* A capture request whose end the client waits for. */
struct ask {
    struct client *client; /* NULL: free */
    struct captures_ask *ask;
    uint64_t request_id, deadline_ms;
};

enum client_state { CLIENT_OPEN, CLIENT_ENDING /* what waits is sent, then it closes */, CLIENT_CLOSED };

struct client {
    struct control *server;
    struct client *prev, *next;
    uv_poll_t poll;
    int fd;
    enum client_state state;
    int events; /* polled for */
    uid_t uid;
    pid_t pid;
    struct session *session;
    uint64_t since_ms, taken_ms; /* of the last request; when the peer last took bytes */
    uint64_t second, requests;   /* in that second */
    struct ask asks[CONTROL_ASKS_MAX];
};

/* One request of a client, or a negative errno that ends the connection. */
int control_serve(struct client *c, const struct wire_message *m, struct kymo_err *err) KYMO_MUST_CHECK;
/* Sends what waits as far as the socket takes it. */
void control_flush(struct client *c);
/* Asks whose time is over. */
void control_expire(struct client *c, uint64_t now_ms);
/* Nobody waits any more. */
void control_forget(struct client *c);
bool control_waits(const struct client *c);

/* Whether the process at the other end may; *ret_why names the rule otherwise. Fills in uid and pid. */
bool control_may(int fd, int listen_fd, uid_t *ret_uid, pid_t *ret_pid, const char **ret_why);

const struct control_config *control_config_of(const struct control *s);
uint64_t control_now_ms(void);
struct control_counts *control_counts_of(struct control *s);
void control_note(const struct control *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
