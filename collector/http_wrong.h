/*
 * Who sent wrong tokens lately: after HTTP_WRONG_BURST of them a peer may try one every HTTP_WRONG_EVERY_MS, right or
 * wrong. A peer is an IPv4 address, the first 64 bits of an IPv6 one, or this machine's loopback. The table has a fixed
 * size: where it is full, the peer that has the most attempts left is forgotten for a new one.
 */
#ifndef KYMO_COLLECTOR_HTTP_WRONG_H
#define KYMO_COLLECTOR_HTTP_WRONG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HTTP_WRONG_BURST 20
#define HTTP_WRONG_EVERY_MS 3000
#define HTTP_WRONG_PEERS 512

struct http_peer {
    uint8_t key[16];
};

/* All zero: nobody. */
struct http_wrong {
    struct {
        struct http_peer peer;
        uint64_t clear_ms; /* when all attempts are there again */
    } entries[HTTP_WRONG_PEERS];
    size_t n;
};

/* addr NULL, or of another family: one peer for all such. */
struct http_peer http_wrong_peer(const struct sockaddr *addr);
/* Seconds until it may try; 0: now. */
unsigned http_wrong_wait(const struct http_wrong *w, const struct http_peer *peer, uint64_t now_ms);
void http_wrong_note(struct http_wrong *w, const struct http_peer *peer, uint64_t now_ms);

#endif
