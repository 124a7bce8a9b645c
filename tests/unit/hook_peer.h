/* Stands in for kymod towards libkymo-hook.so: listens on DIR/hook.sock, answers as it is told (also badly), keeps what
 * it hears, and passes triggers through the hook's page. */
#ifndef KYMO_TESTS_UNIT_HOOK_PEER_H
#define KYMO_TESTS_UNIT_HOOK_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/hook.h"

enum hook_peer_answer {
    HOOK_PEER_POLICY,   /* at once */
    HOOK_PEER_LATE,     /* after 200 ms */
    HOOK_PEER_NEVER,    /* says nothing */
    HOOK_PEER_CLOSE,    /* closes after HELLO */
    HOOK_PEER_GARBAGE,  /* random bytes in packets of all sizes, and closes */
    HOOK_PEER_FLOOD,    /* policies, unknown packets and descriptors without end */
    HOOK_PEER_STRANGER, /* speaks no common version */
    HOOK_PEER_FUTURE,   /* a longer policy of a later version, an unknown packet before it */
};

#define HOOK_PEER_EVENTS 256
#define HOOK_PEER_CONNECTIONS 8

struct hook_peer_event {
    unsigned connection; /* in the order of accepting, from 0 */
    bool has_fd;
    union {
        struct kymo_hook_header header;
        struct kymo_hook_hello hello;
        struct kymo_hook_state_msg state;
        struct kymo_hook_loaded loaded;
        struct kymo_hook_unloaded unloaded;
        struct kymo_hook_captured captured;
        struct kymo_hook_refused refused;
        uint8_t bytes[KYMO_HOOK_PACKET_MAX];
    } u;
};

struct hook_peer;

struct hook_peer_config {
    const char *dir; /* of hook.sock */
    const char
        *intake; /* directory that goes with the policy; NULL: none. NEFFs are stored there as neff_<model>.neff */
    enum hook_peer_answer answer;
    struct kymo_hook_policy policy;   /* header and versions are filled in */
    struct kymo_hook_trigger trigger; /* seq 0: none; else set before the answer */
};

/* A policy that allows everything and changes nothing. */
struct kymo_hook_policy hook_peer_policy(void);

struct hook_peer *hook_peer_start(const struct hook_peer_config *config); /* NULL: cannot listen */
void hook_peer_stop(struct hook_peer *p);                                 /* closes everything, removes the socket */

/* Copies the n-th packet (from 0) of that type, waiting for it. False: it did not come in that time. */
bool hook_peer_wait(struct hook_peer *p, uint16_t type, size_t n, unsigned ms, struct hook_peer_event *ret);
size_t hook_peer_count(struct hook_peer *p, uint16_t type);
size_t hook_peer_closed(struct hook_peer *p); /* connections that the other side has left */

/* Of the first connection; NULL before its HELLO. */
const struct kymo_hook_page *hook_peer_page(struct hook_peer *p);
void hook_peer_trigger(struct hook_peer *p, const struct kymo_hook_trigger *t);
void hook_peer_send_policy(struct hook_peer *p, const struct kymo_hook_policy *policy); /* to all */
void hook_peer_send_neff_done(struct hook_peer *p, uint32_t model);                     /* to all */

#endif
