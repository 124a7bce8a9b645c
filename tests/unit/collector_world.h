/* The collector's receiver and store thread in a test's process, on a store in a temporary directory, with faults. */
#ifndef KYMO_TESTS_UNIT_COLLECTOR_WORLD_H
#define KYMO_TESTS_UNIT_COLLECTOR_WORLD_H

#include <stdatomic.h>

#include "collector/receiver.h"
#include "tests/unit/uplink_peer.h"

#define WORLD_PEERS 8
#define WORLD_WAIT_MS 60000 /* for what must come about, on any machine */

/* Of the raw store's files; any thread. */
extern atomic_int world_write_error, world_sync_error; /* errno of every such call; 0: none */
extern atomic_int world_sync_ms; /* how long each sync takes; one that waits sees what it becomes */

struct collector_world {
    uv_loop_t loop;
    struct net *net;
    struct receiver_config config; /* to be changed before world_open */
    struct intakes_config intakes_config;
    struct intakes *intakes;
    struct store_thread *store;
    struct receiver *receiver;
    struct uplink_peer peers[WORLD_PEERS];
    size_t n_peers;
    uv_timer_t timer;
    bool ended;
    char root[64];
};

/* What fails fails the test. prepare makes the directory and the defaults, open starts. */
void collector_world_prepare(struct collector_world *w);
void collector_world_open(struct collector_world *w);
/* Stops the collector in order; the directory and the peers stay. */
void collector_world_stop(struct collector_world *w);
void collector_world_done(struct collector_world *w);
struct uplink_peer *collector_world_peer(struct collector_world *w, const char *host, struct tls_context *tls);
/* Turns the loop until *flag is at least n, or ms have passed: then false. */
bool collector_world_run(struct collector_world *w, const size_t *flag, size_t n, unsigned ms);
void collector_world_turn(struct collector_world *w, unsigned ms);
/* Turns the loop until so many bytes of captures have come in and none waits for the store's thread. */
void collector_world_wait_bytes(struct collector_world *w, uint64_t n);
/* A capture of one NTFF of n bytes from this seed, and a NEFF unless neff is NULL. */
void collector_world_add(struct uplink_peer *p, const char *id, unsigned seed, size_t n, const void *neff,
                         size_t neff_n);
/* State and reason of a capture in the catalogue, "" when it is not there. */
const char *collector_world_state(struct collector_world *w, const char *id, char reason[static KYMO_ERR_TEXT_MAX]);
/* Aborts unless the NTFF of the capture is in the store as collector_world_add made it. */
void collector_world_check(struct collector_world *w, const char *id, unsigned seed, size_t n);

#endif
