/*
 * The collector's end of all uplinks: a listener, a connection with its state machine (proto/uplink_recv.h) per daemon,
 * and what comes goes to the store's thread (intake.h). A peer that is slow, silent or hostile costs its own
 * connection: memory is bounded for each and for all, and what does not move is closed. All of it belongs to the loop's
 * thread.
 */
#ifndef KYMO_COLLECTOR_RECEIVER_H
#define KYMO_COLLECTOR_RECEIVER_H

#include "base/net_listener.h"
#include "collector/intake.h"

#define RECEIVER_HELLO_MS 10000
#define RECEIVER_PING_MS 15000
#define RECEIVER_DEAD_MS 60000
#define RECEIVER_CONNECTIONS 4096
#define RECEIVER_PER_HOST 16
#define RECEIVER_BYTES (256u << 20)
#define RECEIVER_REQUESTS_MAX 256   /* capture requests under way */
#define RECEIVER_PROGRESS_MIN 4096u /* bytes a second of captures: who sends so much need not answer pings in time */

struct receiver;

struct receiver_config {
    struct net *net;
    uv_loop_t *loop;
    const char *address; /* as net_listener_config, as are the next two */
    bool adopt;
    int socket;
    struct tls_context *tls; /* NULL: plain. The caller's; see receiver_set_tls */
    bool plain_anywhere;
    unsigned max_connections; /* 0: RECEIVER_CONNECTIONS */
    unsigned max_per_host;    /* of one certificate's name, with TLS; 0: RECEIVER_PER_HOST */
    uint32_t window;          /* bytes under way per connection; 0: UPLINK_RECV_WINDOW */
    uint64_t max_bytes; /* that wait for the store's thread in all; beyond it nothing is read. 0: RECEIVER_BYTES */
    uint64_t hello_ms, ping_ms, dead_ms; /* 0: those above */
    const char *host;                    /* ours, for hello; may be NULL */
    struct store_thread *store;
    struct intakes *intakes; /* made with receiver_intake_ops */
    /* Lines for the log; may be NULL. level: enum kymo_log_level. */
    void (*say)(void *ctx, int level, const char *text);
    void (*idle)(void *ctx); /* after receiver_stop: all connections are closed. May be NULL */
    void *ctx;
};

extern const struct intake_ops receiver_intake_ops;

int receiver_new(const struct receiver_config *config, struct receiver **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* Ends all connections and requests, within NET_CONN_LINGER_MS; nothing is posted to the store's thread once
 * config->idle was called. */
void receiver_stop(struct receiver *r);
/* After config->idle and when the store's thread has ended. NULL is fine; returns NULL. The loop must run once more. */
struct receiver *receiver_free(struct receiver *r);
int receiver_port(const struct receiver *r);
/* For connections from now on; the caller keeps t until the next call or the end. */
void receiver_set_tls(struct receiver *r, struct tls_context *t);

/* One daemon that has said hello. */
struct receiver_host {
    const char *identity; /* its certificate's name; plain: the host it names, else its address */
    const char *host;     /* as it calls itself */
    const char *address, *writer, *boot_id;
    uint32_t version;
    uint64_t connected_ms; /* for how long */
    size_t captures;       /* under way */
    uint64_t stored;       /* captures, on this connection */
    uint64_t received;     /* bytes of captures, likewise */
};
void receiver_hosts(const struct receiver *r, void (*each)(void *ctx, const struct receiver_host *h), void *ctx);

/* Why captures and connections are turned away. */
#define RECEIVER_CAUSES(X)                                                                                             \
    X(CONNECTION, "connection")                                                                                        \
    X(PROTOCOL, "protocol")                                                                                            \
    X(SILENT, "silent")                                                                                                \
    X(BUSY, "busy")                                                                                                    \
    X(FULL, "full")                                                                                                    \
    X(DAMAGED, "damaged")                                                                                              \
    X(INVALID, "invalid")                                                                                              \
    X(IO, "io")

enum receiver_cause {
#define X(name, text) RECEIVER_CAUSE_##name,
    RECEIVER_CAUSES(X)
#undef X
        RECEIVER_CAUSE_MAX
};
const char *receiver_cause_name(enum receiver_cause c);

struct receiver_figures {
    uint64_t hosts, open, waiting; /* now: that said hello; captures under way; bytes for the store's thread */
    uint64_t accepted, stored, known, bytes; /* ever: connections; captures; offered though stored; bytes of captures */
    uint64_t refused[RECEIVER_CAUSE_MAX];
    uint64_t incoming, incoming_bytes;      /* captures in raw/incoming and what they take */
    uint64_t forgotten[INCOMING_CAUSE_MAX]; /* ever: that nobody went on with */
    const char *trouble; /* why the last capture was not taken for want of room; NULL: the last was taken */
};
void receiver_figures(const struct receiver *r, struct receiver_figures *ret);

/* A profile is ready: its host hears what its rings lost, now or when it is there (receiver_loss.c). */
void receiver_profile_ready(struct receiver *r, const char *profile);

struct receiver_request {
    const char *host; /* identity or host name; NULL: all that are connected */
    const char *job, *mode;
    const uint32_t *cores;
    size_t n_cores;
    bool has_step;
    uint64_t step;
    uint32_t ranks_one_in; /* 0: absent */
    uint64_t timeout_ms;   /* 0: 30 s */
};

/* What one host answered. */
struct receiver_answer {
    char identity[WIRE_NAME_MAX + 1];
    int code; /* 0: started; -ETIMEDOUT, -EPIPE: it did not answer, it is gone; -ECONNREFUSED: text says why */
    int why;  /* of a refusal: Kymo__Wire__Refusal__Reason */
    char text[WIRE_TEXT_MAX + 1];
    char (*ids)[WIRE_ID_MAX + 1]; /* of the captures */
    size_t n_ids;
};

/* Once, when all have answered or the time is over. The answers hold until it returns. */
typedef void receiver_answered(void *ctx, uint64_t id, const struct receiver_answer *answers, size_t n);

/*
 * Asks daemons for a capture. *ret_id is for receiver_cancel. -ENOENT: no such host is connected. -EBUSY:
 * RECEIVER_REQUESTS_MAX are under way. -EINVAL: a bound of uplink.c, the text names it.
 */
int receiver_request(struct receiver *r, const struct receiver_request *q, receiver_answered *answered, void *ctx,
                     uint64_t *ret_id, struct kymo_err *err) KYMO_MUST_CHECK;
/* Nobody waits for the answers any more. */
void receiver_cancel(struct receiver *r, uint64_t id);

#endif
