#include "collector/http_wrong.h"

#include <netinet/in.h>
#include <string.h>

#define ROOM_MS ((HTTP_WRONG_BURST - 1) * (uint64_t)HTTP_WRONG_EVERY_MS)

struct http_peer http_wrong_peer(const struct sockaddr *addr)
{
    struct http_peer peer = {{0}};
    if (addr && addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, addr, sizeof in);
        peer.key[0] = 4;
        /* All of 127.0.0.0/8 is this machine, whose programs may choose among it. */
        size_t n = ntohl(in.sin_addr.s_addr) >> 24 == 127 ? 1 : 4;
        memcpy(peer.key + 1, &in.sin_addr.s_addr, n);
    } else if (addr && addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, addr, sizeof in6);
        const uint8_t *bytes = in6.sin6_addr.s6_addr;
        peer.key[0] = 6;
        memcpy(peer.key + 1, bytes, 8);
        /* ::ffff:a.b.c.d has the same 64 bits for all. */
        if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
            memcpy(peer.key + 9, bytes + 12, 4);
    }
    return peer;
}

static size_t find(const struct http_wrong *w, const struct http_peer *peer)
{
    size_t i = 0;
    while (i < w->n && memcmp(&w->entries[i].peer, peer, sizeof *peer) != 0)
        i++;
    return i;
}

unsigned http_wrong_wait(const struct http_wrong *w, const struct http_peer *peer, uint64_t now_ms)
{
    size_t i = find(w, peer);
    if (i == w->n || w->entries[i].clear_ms <= now_ms + ROOM_MS)
        return 0;
    return (unsigned)((w->entries[i].clear_ms - now_ms - ROOM_MS + 999) / 1000);
}

/* The place for one more peer. */
static size_t make_room(struct http_wrong *w)
{
    size_t least = 0;
    if (w->n < HTTP_WRONG_PEERS)
        return w->n++;
    for (size_t i = 1; i < w->n; i++)
        if (w->entries[i].clear_ms < w->entries[least].clear_ms)
            least = i;
    return least;
}

void http_wrong_note(struct http_wrong *w, const struct http_peer *peer, uint64_t now_ms)
{
    size_t i = find(w, peer);
    if (i == w->n) {
        i = make_room(w);
        w->entries[i].peer = *peer;
        w->entries[i].clear_ms = 0;
    }
    uint64_t clear = w->entries[i].clear_ms > now_ms ? w->entries[i].clear_ms : now_ms;
    w->entries[i].clear_ms = clear + HTTP_WRONG_EVERY_MS;
}
