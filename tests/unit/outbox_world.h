/*
 * An outbox in its thread, and collectors in memory behind real sockets on the test's loop: what they store, what they
 * refuse, when they cut. For tests of the outbox.
 */
#ifndef KYMO_TESTS_OUTBOX_WORLD_H
#define KYMO_TESTS_OUTBOX_WORLD_H

#include "base/net_listener.h"
#include "daemon/outbox.h"
#include "proto/uplink_recv.h"

#define WORLD_CAPTURES 512
#define WORLD_NEFFS 16
#define WORLD_CONNECTIONS 4

struct world_neff {
    uint8_t sha256[KYMO_SHA256_SIZE];
    unsigned received; /* how often it came whole */
};

struct world_stored {
    char id[WIRE_ID_MAX + 1];
    uint8_t *manifest;
    size_t manifest_len;
    size_t n_items;
    uint64_t *sizes, *have;
    uint8_t (*sha256)[KYMO_SHA256_SIZE];
    bool *neff;
    uint8_t **bytes;
    bool open;          /* on some connection */
    unsigned published; /* times */
};

struct world_collector;
struct world_peer { /* one connection */
    struct world_collector *collector;
    struct net_conn *conn;
    struct uplink_recv *recv;
    uint64_t heard;
    char host[64];
};

struct world_collector {
    struct world *world;
    struct net_listener *listener;
    int port;
    struct tls_context *tls;
    struct world_peer *peers[WORLD_CONNECTIONS];
    struct world_stored *stored[WORLD_CAPTURES];
    size_t n_stored;
    struct world_neff neffs[WORLD_NEFFS];
    size_t n_neffs;
    struct wire_range versions; /* both 0: today's */
    /* Faults. */
    uint64_t cut_at;                                /* bytes heard on a connection, then it is cut; 0: never */
    bool cut_only_once;                             /* then cut_at is 0 */
    int refuse_offers, refuse_writes, refuse_dones; /* codes; 0: none */
    unsigned refusals;                              /* how many more; UINT_MAX: always */
    bool deaf;                                      /* reads nothing */
    bool never_done;
    /* What the host lost: captures by cause, each row once. */
    struct {
        uint64_t row, first_seq, captures;
        char cause[32];
    } losses[64];
    size_t n_losses;
    bool keeps_late, keeps_never; /* the answer to losses */
    uint64_t late_batch;
    unsigned connections, offers, refused, replies, request_refusals;
    uint64_t data_bytes;
    char reply_id[WIRE_ID_MAX + 1];
};

struct world {
    uv_loop_t loop;
    struct net *net;
    char dir[64]; /* spool and intake are below it */
    char spool[96], intake[96];
    struct world_collector collectors[2];
    struct outbox *outbox;
    struct outbox_config config;
    struct outbox_ops ops;
    unsigned made, taken, failed, sent, given_up, canceled, requests, ring_losses, changes, neffs;
    uint64_t last_ticket;
    int last_code;
    uint32_t last_cause;
    struct kymo_err last_err, last_why;
    uint8_t neff[KYMO_SHA256_SIZE]; /* of the last answer */
    uint64_t neff_size;
    char sent_ids[WORLD_CAPTURES][SPOOL_ID_MAX + 1];
};

void world_init(struct world *w);
void world_done(struct world *w);
/* The collector listens (again, at the same port). */
void world_listen(struct world *w, int i);
void world_unlisten(struct world *w, int i);
/* Starts the outbox with what config says, and lets it go. */
void world_start(struct world *w);
void world_stop(struct world *w);

/* Runs the loop until the condition holds; fails the test after 20 s. */
#define world_until(w, condition)                                                                                      \
    do {                                                                                                               \
        uint64_t until_ = uv_hrtime() + 20000000000u;                                                                  \
        while (!(condition)) {                                                                                         \
            if (uv_hrtime() > until_)                                                                                  \
                fail_msg("%s: not in time", #condition);                                                               \
            world_turn(w);                                                                                             \
        }                                                                                                              \
    } while (0)
void world_turn(struct world *w);
void world_run_ms(struct world *w, uint64_t ms);

/* Makes an intake directory with two files of size bytes, and takes it over. neff: NULL or a hash. */
void world_make(struct world *w, const char *id, size_t size);
int world_take(struct world *w, const char *id, enum spool_how how, const uint8_t *neff, uint64_t *ret_ticket);
bool world_intake_exists(const struct world *w, const char *id);
void world_add_neff(struct world *w, size_t size, unsigned seed);

const struct world_stored *world_find(const struct world_collector *c, const char *id);
/* Aborts unless the collector has published it once, with the right bytes. */
void world_verify(const struct world *w, const struct world_collector *c, const char *id, size_t size);
/* Cuts its connections after so many bytes more. */
void world_cut_in(struct world_collector *c, uint64_t bytes);
/* Captures of a cause that were told. */
uint64_t world_lost(const struct world_collector *c, const char *cause);
void world_keep_late(struct world_collector *c);
void world_request(struct world_collector *c, uint64_t request_id, const char *job);

#endif
