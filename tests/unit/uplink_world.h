/* Both ends of the uplink over links in memory: a spool with captures, a store that can lose what is not durable. */
#ifndef KYMO_TESTS_UPLINK_WORLD_H
#define KYMO_TESTS_UPLINK_WORLD_H

#include "proto/uplink_recv.h"
#include "proto/uplink_send.h"

#define WORLD_CAPTURES 12
#define WORLD_ITEMS 6
#define WORLD_SIZE_MAX 40000

struct world_item {
    char name[16];
    bool neff;
    uint8_t *bytes;
    uint64_t size;
    uint8_t sha256[UPLINK_SHA256_SIZE];
};

struct world_capture {
    struct world *world;
    char id[16];
    uint32_t n_items;
    struct world_item items[WORLD_ITEMS];
    /* the daemon's side */
    bool offered;
    unsigned told; /* how often it heard that this is stored */
    uint64_t acked[WORLD_ITEMS];
    /* the collector's side */
    bool open, done;
    bool asked; /* the offer is answered later */
    uint8_t *stored[WORLD_ITEMS];
    uint64_t len[WORLD_ITEMS], durable[WORLD_ITEMS];
    unsigned published;
};

struct world {
    unsigned rnd;
    struct world_capture captures[WORLD_CAPTURES];
    size_t n;
    bool faults; /* the store refuses now and then */
    struct uplink_send *send;
    struct uplink_recv *recv;
    struct kymo_buf up, down; /* under way */
    uint64_t pending;         /* bytes the store holds and has not taken yet */
    uint64_t pending_max;
    uint64_t sent_bytes; /* that reached the store */
    unsigned refusals, requests, replies, losses;
    /* What the host lost, row by row, one batch at a time. */
    uint64_t lost, told;        /* rows that there are, and that the daemon knows to be kept */
    uint64_t batch, batch_rows; /* under way on this connection; 0: none */
    uint64_t kept, keeps;       /* rows that the store has; a batch that it keeps later, 0: none */
};

unsigned world_random(struct world *w, unsigned below);
void world_init(struct world *w, unsigned seed, size_t n_captures);
void world_done(struct world *w);
/* A daemon of version 1 in one of two connections. */
void world_connect(struct world *w, uint32_t chunk, uint32_t window, int zstd_level);
/* Bytes under way are lost, as is what the store had not made durable. */
void world_disconnect(struct world *w);
/* One step: offers, moves a piece of random size each way, lets the store work. */
void world_step(struct world *w);
bool world_is_finished(const struct world *w);
/* Aborts unless every capture was published once and equals what the spool holds. */
void world_verify(const struct world *w);

extern const struct uplink_recv_ops world_store_ops; /* ctx: the world */
extern const struct uplink_send_ops world_spool_ops;

#endif
