/*
 * A crowd of hosts on one collector, all in one process and on one loop: each has a name, a connection and captures of
 * its own, which share the bytes of one NTFF and one NEFF. For tests; what must not fail aborts.
 */
#ifndef KYMO_TESTS_SCALE_HOSTS_H
#define KYMO_TESTS_SCALE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/net_dialer.h"
#include "proto/uplink_send.h"

#define HOSTS_NAME_MAX 64

enum hosts_kind {
    HOSTS_PLAIN,
    HOSTS_BREAKING, /* its connection ends in the middle of a file, several times */
    HOSTS_SLOW,     /* SLOW_BYTES a tick */
    HOSTS_GARBAGE,  /* sends noise instead of frames */
    HOSTS_HUGE,     /* a header that promises 4 GiB */
    HOSTS_LIAR,     /* other bytes than the manifest says */
    HOSTS_MUTE,     /* connects and says nothing */
    HOSTS_THIEF,    /* offers a capture of somebody else's name */
    HOSTS_KINDS,
};
#define HOSTS_HOSTILE HOSTS_GARBAGE /* this one and those behind it */

struct hosts_file {
    uint8_t *data;
    size_t n;
    uint8_t sha256[KYMO_SHA256_SIZE];
};

struct hosts;
struct hosts_host;

struct hosts_capture {
    struct hosts_host *host;
    char id[WIRE_ID_MAX + 1];
    uint8_t *manifest;
    size_t manifest_n;
    bool offered, stored, begun; /* begun: on this connection */
};

struct hosts_host {
    struct hosts *all;
    enum hosts_kind kind;
    char name[HOSTS_NAME_MAX];
    struct net_dialer *dialer;
    struct net_conn *conn;
    struct uplink_send *send;
    struct hosts_capture *captures;
    size_t n;
    bool ready, was_ready, want_break, refused; /* refused: offers nothing until the next tick */
    unsigned breaks_left;
    uint64_t read, break_at; /* bytes of files that were given out; where the next break comes */
    uint64_t budget;         /* slow: may be sent until the next tick */
};

struct hosts_config {
    const char *address;     /* of the collector */
    const char *prefix;      /* of the captures' ids */
    struct tls_context *tls; /* of all; NULL: plain */
    size_t hosts, captures;
    unsigned breaking, slow, hostile; /* of a thousand */
    struct hosts_file ntff, neff;
};

struct hosts_counts {
    size_t honest, connected;       /* hosts; connected: that were welcomed once */
    size_t wanted, stored;          /* captures of honest hosts */
    size_t breaks, resumed;         /* resumed: files that went on where the collector had them */
    size_t again;                   /* captures of honest hosts that were refused for now, and offered again */
    size_t turned_away;             /* hostile connections and captures */
    size_t hostile_stored, doubled; /* what must not be */
    uint64_t bytes;                 /* of NTFFs stored, of honest hosts */
    size_t nhosts[HOSTS_KINDS];
};

struct hosts {
    struct hosts_config config;
    uv_loop_t loop;
    struct net *net;
    uv_timer_t timer;
    struct hosts_host *hosts;
    bool sending;
    struct hosts_counts counts;
};

/* Starts to connect them all. */
void hosts_open(struct hosts *h, const struct hosts_config *config);
/* Runs the loop until all honest hosts are connected, or for so many seconds. */
void hosts_connect(struct hosts *h, unsigned seconds);
/* Runs the loop until a byte comes on the descriptor, or its end: everybody is idle meanwhile. */
void hosts_idle(struct hosts *h, int fd);
/* Everybody sends, until all of the honest is stored, or for so many seconds. */
void hosts_send(struct hosts *h, unsigned seconds);
void hosts_close(struct hosts *h);

#endif
