/*
 * The daemon's second thread: owns the spool and the uplinks to the collectors, so that what syncs or waits for the
 * network stops nobody else. Orders go in through a bounded queue; answers and events come back on the loop of the
 * thread that made it. All functions here belong to that thread.
 *
 *   capture files in intake ──► outbox_take: take over, hash, manifest, publish ──► spool ──► uplink ──► collector
 */
#ifndef KYMO_DAEMON_OUTBOX_H
#define KYMO_DAEMON_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/net.h"
#include "base/tls.h"
#include "daemon/spool/spool.h"
#include "proto/manifest.pb-c.h"
#include "proto/uplink.h"

#define OUTBOX_COLLECTORS_MAX 2
#define OUTBOX_ORDERS_MAX 256 /* that wait; more are refused with -EAGAIN */

enum outbox_link { OUTBOX_LINK_OFF, OUTBOX_LINK_CONNECTING, OUTBOX_LINK_UP, OUTBOX_LINK_WAITING };

/* What happened meanwhile; called on the owner's loop, and may give orders. All but taken may be NULL. */
struct outbox_ops {
    /*
     * The end of an outbox_take: 0, durable in the spool under its capture id; or the reason, and then the capture has
     * its loss row (cause is of enum spool_cause). ticket is what outbox_take got.
     */
    void (*taken)(void *ctx, uint64_t ticket, int code, uint32_t cause, const struct kymo_err *err);
    /* The end of an outbox_add_neff. */
    void (*neff)(void *ctx, uint64_t ticket, int code, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t size,
                 const struct kymo_err *err);
    /* A collector has it: stored, durable, published there. Or it was given up (evicted, refused): why is set. */
    void (*sent)(void *ctx, const char *capture_id, const struct kymo_err *why);
    /* A collector asks for captures: to be answered by outbox_reply or outbox_refuse with this request number. */
    void (*request)(void *ctx, uint64_t request, const Kymo__Uplink__CaptureRequest *wanted);
    /* What the rings of an earlier capture lost, as the pipeline counted. */
    void (*ring_losses)(void *ctx, const Kymo__Uplink__RingLosses *losses);
    /* State of a link, or of the spool (full, stopped, broken), has changed. */
    void (*changed)(void *ctx);
};

/* All in ms; 0: the default. */
struct outbox_times {
    uint64_t tick;               /* what waits is looked at so often; 500 */
    uint64_t ping, idle;         /* asked for a sign of life, and given up without one; 15 s, 60 s */
    uint64_t standby;            /* the first collector is down for so long before the second is called; 2 s */
    uint64_t back;               /* it is up again for so long before the second is let go; 10 s */
    uint64_t dial_min, dial_max; /* between attempts to connect; 250, 60 s */
    uint64_t wait_min, wait_max; /* before a capture is offered again that was refused for now; 1 s, 60 s */
};

/* Strings are copied. */
struct outbox_config {
    const char *spool_dir;
    struct spool_limits limits;
    const char *collectors[OUTBOX_COLLECTORS_MAX]; /* host:port; NULL: none. The first that is up is used */
    struct tls_files tls;                          /* all NULL: plain */
    bool plain_anywhere;
    int zstd_level;        /* 0: never compress */
    uint64_t rate_bytes_s; /* at most so much to the network; 0: no limit */
    struct outbox_times times;
    const char *host, *boot_id, *writer;
    const struct outbox_ops *ops;
    void *ctx;
};

struct outbox;

/*
 * Opens the spool before it returns (errors are spool_open's) and starts the thread. limits.originals_stay is seen to.
 */
int outbox_start(uv_loop_t *loop, const struct outbox_config *config, struct outbox **ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Nothing is sent before this, and before the orders in front of it are carried out: at start, whoever has the intake
 * first takes again what an earlier run left there, so that what this run's spool has already is known for the same.
 */
int outbox_go(struct outbox *o, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Ends what is under way at the next durable point and joins the thread, within seconds; orders that were not begun
 * are answered with -ECANCELED before it returns. The loop must run once more before it is closed. NULL is fine.
 */
struct outbox *outbox_stop(struct outbox *o);
/* Asks the thread for a sign of life, and returns how many it gave so far: see service_watch. */
uint64_t outbox_beats(struct outbox *o);
/* Other collectors, limits of rate, TLS files: what may change while it runs. The rest of config is not looked at. */
int outbox_reconfigure(struct outbox *o, const struct outbox_config *config, struct kymo_err *err) KYMO_MUST_CHECK;

/* One file of a capture in the intake directory. */
struct outbox_file {
    const char *path;
    const char *name; /* in the capture; relative */
    Kymo__Manifest__File__Kind type;
    uint32_t vnc;  /* NTFF */
    size_t nneffs; /* NTFF: the NEFFs that it traces, which outbox_add_neff has got */
    const uint8_t (*neffs)[KYMO_SHA256_SIZE];
};

/*
 * Takes a capture over: every file by rename, or by copy while the writer may still be there; then the manifest with
 * size and hash of each, published durably. Until then the originals stay (rename is a link first), so that an
 * interrupted take-over can be begun again with the same id, also by the next kymod; one that was published already is
 * success. Afterwards, and when the capture was dropped with its loss row, the originals go: directory with all that is
 * in it, or, when it is NULL, the files unless how is copy. meta is the manifest without files (version is filled in,
 * writer when absent); its NEFFs become files named SHA-256.neff; one that the spool has no more is named by the NTFF
 * alone. All is copied before it returns. While the spool can neither take nor lose it, the order waits and the status
 * tells why. -EAGAIN: the queue is full; -EINVAL: an id or name that is none.
 */
int outbox_take(struct outbox *o, const Kymo__Manifest__Capture *meta, const struct outbox_file *files, size_t n,
                enum spool_how how, const char *directory, uint64_t *ret_ticket, struct kymo_err *err) KYMO_MUST_CHECK;
/* A NEFF as a descriptor, which becomes the outbox's whatever it returns; pinned until outbox_drop_neff. */
int outbox_add_neff(struct outbox *o, int fd, const char *name, uint64_t *ret_ticket,
                    struct kymo_err *err) KYMO_MUST_CHECK;
void outbox_drop_neff(struct outbox *o, const uint8_t sha256[KYMO_SHA256_SIZE]);
/*
 * A capture that could not be had at all (broken intake): its loss row, and the end as of outbox_take, with -ENODATA,
 * or 0 when it is in the spool after all. SPOOL_FULL: there was no room in the intake; the policy makes some where both
 * are on one file system.
 */
int outbox_lost(struct outbox *o, const char *capture_id, uint32_t cause, const char *directory, uint64_t *ret_ticket,
                struct kymo_err *err) KYMO_MUST_CHECK;

/* Answers to a collector's request; nothing happens when its connection is gone. */
void outbox_reply(struct outbox *o, uint64_t request, const char *const *capture_ids, size_t n);
void outbox_refuse(struct outbox *o, uint64_t request, int code, const char *text);

struct outbox_link_status {
    char address[NET_HOST_MAX + 8];
    enum outbox_link state;
    char reason[KYMO_ERR_TEXT_MAX]; /* why it waits */
    uint64_t retry_at_ms;           /* uv_now of the owner's loop; 0: not waiting */
    uint64_t sent_bytes, connections;
};
/* A copy of what the thread last saw; never waits for it. */
struct outbox_status {
    struct spool_status spool;
    uint64_t spool_bytes_max;
    uint64_t lag_bytes;              /* in the spool and not acknowledged */
    char trouble[KYMO_ERR_TEXT_MAX]; /* why the spool takes nothing; "": it does */
    size_t nlinks;
    struct outbox_link_status links[OUTBOX_COLLECTORS_MAX];
    uint64_t orders_waiting;
};
void outbox_get_status(struct outbox *o, struct outbox_status *ret);

#endif
