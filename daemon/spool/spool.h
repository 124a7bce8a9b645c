/*
 * The host's crash-safe spool of captures. Bytes on disk and order of durable steps: FORMAT.md.
 *
 * What holds: after spool_publish returned 0, a capture is delivered or it has a loss row, whatever crashes; after
 * spool_ack or spool_done returned 0, nobody is asked to send those bytes again; issued = pending + delivered + lost.
 * A call that failed has changed nothing that was acknowledged; its capture may still turn up after a restart, whole.
 *
 * One thread at a time; calls sync and therefore block for milliseconds (a daemon runs them on a worker). One process
 * at a time has a spool open, held by a lock. Names and counts have the maxima below and in struct spool_limits.
 */
#ifndef KYMO_DAEMON_SPOOL_SPOOL_H
#define KYMO_DAEMON_SPOOL_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

#define SPOOL_ID_MAX 64
#define SPOOL_NAME_MAX 128
#define SPOOL_FILES_MAX 64 /* of a capture, manifest.pb included */
#define SPOOL_NEFFS_MAX 64 /* that a capture refers to */
#define SPOOL_STAGED_MAX 64
#define SPOOL_MANIFEST "manifest.pb"
#define SPOOL_MANIFEST_MAX (4u << 20)

/* X(number on disk, symbol, name) */
#define SPOOL_CAUSES(X)                                                                                                \
    X(1, EVICTED, "evicted")                                                                                           \
    X(2, FULL, "full")                                                                                                 \
    X(3, STOPPED, "stopped")                                                                                           \
    X(4, TOO_LARGE, "too-large")                                                                                       \
    X(5, INTERRUPTED, "interrupted")                                                                                   \
    X(6, MISSING, "missing")                                                                                           \
    X(7, UNREADABLE, "unreadable")                                                                                     \
    X(8, FAILED, "failed")                                                                                             \
    X(9, REFUSED, "refused")                                                                                           \
    X(10, SHED, "shed")

enum spool_cause {
#define X(number, symbol, name) SPOOL_##symbol = (number),
    SPOOL_CAUSES(X)
#undef X
};
#define SPOOL_CAUSES_N 10
#define SPOOL_CAUSE_MAX 255 /* on disk: those above SPOOL_CAUSES_N are a later kymo's */
#define SPOOL_CAUSE_NAME_SIZE 16

const char *spool_cause_name(uint32_t cause); /* "?" for an unknown one */
/* The name, or "cause-N" for one of a later kymo; an id of the wire in any case. Returns ret. */
const char *spool_cause_text(uint32_t cause, char ret[static SPOOL_CAUSE_NAME_SIZE]);

enum spool_policy {
    SPOOL_DROP_OLDEST, /* the oldest captures make room */
    SPOOL_DROP_NEWEST, /* what does not fit is lost */
    SPOOL_STOP,        /* after the first that does not fit all are lost, until a quarter of the room is free again */
};

struct spool_limits {
    enum spool_policy policy;
    uint64_t bytes_max;         /* captures, pending and staged, and NEFFs */
    uint64_t capture_bytes_max; /* of one capture */
    uint32_t captures_max;      /* pending */
    uint64_t neff_bytes_max;    /* of one NEFF */
    uint32_t neffs_max;
    uint64_t floor_bytes;   /* kept free on the file system: copies that would go below do not fit */
    uint64_t reserve_bytes; /* size of the file given up when the disk is full */
    uint64_t segment_bytes; /* a journal segment is replaced beyond this, or twice its snapshot */
    uint32_t loss_rows_max;
    /*
     * Files are taken by link or copy alone, and whoever takes them keeps the originals until the capture is published
     * or dropped. What is found half put together is then no loss, since it will be taken again.
     */
    bool originals_stay;
};

extern const struct spool_limits spool_limits_default;

struct spool;
struct spool_capture; /* one being put together */

struct spool_file {
    char name[SPOOL_NAME_MAX + 1];
    uint64_t size;
    uint64_t acked; /* the collector holds so many bytes */
    uint8_t sha256[KYMO_SHA256_SIZE];
};

/* A published capture. */
struct spool_entry {
    uint64_t seq;
    uint8_t state; /* 0 for all that spool_next gives */
    char id[SPOOL_ID_MAX + 1];
    size_t nneffs, nfiles;
    uint8_t (*neffs)[KYMO_SHA256_SIZE];
    struct spool_file files[]; /* the last is the manifest */
};

struct spool_loss {
    uint64_t row;
    uint64_t first_seq, last_seq; /* the dropped range */
    uint64_t captures, bytes;
    uint64_t first_ns, last_ns; /* when they were given up, Unix time */
    uint32_t cause;
};

struct spool_amount {
    uint64_t captures, bytes;
};

struct spool_status {
    struct spool_amount issued, pending, delivered, lost;
    struct spool_amount lost_by_cause[SPOOL_CAUSES_N + 1];   /* index: cause, 0: an unknown one; not yet reported */
    struct spool_amount lost_since_open[SPOOL_CAUSES_N + 1]; /* reported or not; only grows */
    bool account_open;                                       /* counters were damaged: the equation cannot be proved */
    bool full;                                               /* the reserve is given up */
    bool stopped;                                            /* policy stop is in force */
    bool below_floor;                                        /* the file system has less free than the floor */
    uint64_t free_bytes, fs_bytes, floor_bytes;              /* of the file system; 0, 0: cannot be seen */
    uint64_t used_bytes, staged_bytes, neff_bytes;
    uint32_t neffs, loss_rows;
    uint64_t segment, next_id;   /* journal */
    uint64_t failed_syncs;       /* since opening; none was repeated */
    uint64_t replaced_segments;  /* because they were suspect */
    uint64_t damaged_bytes;      /* of journal found at start-up or in suspect segments */
    uint64_t recovered_captures; /* published by start-up since their program died before it could */
};

/*
 * Opens DIR, making it when absent, and recovers. limits NULL: defaults. -EBUSY: another process has it; -EPROTO: a
 * later version wrote it; both leave all as it is.
 */
int spool_open(const char *dir, const struct spool_limits *limits, struct spool **ret,
               struct kymo_err *err) KYMO_MUST_CHECK;
/* Returns NULL; NULL is fine. Captures not yet published are lost as interrupted at the next start. */
struct spool *spool_close(struct spool *s);
void spool_closep(struct spool **s);
void spool_get_status(const struct spool *s, struct spool_status *ret);
/*
 * Somebody who writes beside the spool found its file system full: unless there is room for the floor and the largest
 * pending capture again, what nobody needs goes, and under SPOOL_DROP_OLDEST the oldest captures.
 */
void spool_relieve(struct spool *s);
/* The reserve is made again as soon as there is room. To be called now and then. */
void spool_recheck(struct spool *s);

/*
 * Intake. spool_begin: -EEXIST when the id is known, -EINVAL for a bad one, -ENOBUFS beyond SPOOL_STAGED_MAX. The
 * handle belongs to the caller until spool_publish succeeded or spool_drop was called; both end it. Never use it after
 * spool_close.
 */
int spool_begin(struct spool *s, const char *id, struct spool_capture **ret, struct kymo_err *err) KYMO_MUST_CHECK;
enum spool_how {
    SPOOL_RENAME, /* the file is the spool's from now on; copied and unlinked when on another file system */
    SPOOL_COPY,   /* its writer may still be there; the original stays */
    SPOOL_LINK,   /* as rename, but the original stays as a second name; copied where there can be none */
};
/*
 * Takes a regular file over under a name of its own. *ret (may be NULL) gets size and SHA-256 for the manifest.
 * -ENOSPC: it does not fit and the policy freed no room; -EFBIG: the capture would be too large; after both spool_drop
 * knows the cause. On failure the original is still there.
 */
int spool_take(struct spool_capture *c, const char *path, const char *name, enum spool_how how, struct spool_file *ret,
               struct kymo_err *err) KYMO_MUST_CHECK;
/* The capture refers to a NEFF that the spool has (-ENOENT otherwise), which then stays as long as the capture. */
int spool_refer_neff(struct spool_capture *c, const uint8_t sha256[KYMO_SHA256_SIZE],
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Durable when it returns 0. *ret_seq may be NULL. On failure the handle stays: try again, or drop. */
int spool_publish(struct spool_capture *c, const void *manifest, size_t n, uint64_t *ret_seq,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* The cause that spool_drop would take for cause 0. */
uint32_t spool_drop_cause(const struct spool_capture *c);
/*
 * Gives a capture up, with a loss row: cause 0 takes that of the last failure, else SPOOL_FAILED. c is gone whatever it
 * returns; on failure the next start counts the capture.
 */
int spool_drop(struct spool_capture *c, uint32_t cause, struct kymo_err *err);

/*
 * NEFFs, one of each content. spool_add_neff copies fd (from its beginning; name is for errors) and gives its hash.
 * Unreferenced ones go, oldest first, when room is needed; a pin keeps one meanwhile (not beyond spool_close).
 */
int spool_add_neff(struct spool *s, int fd, const char *name, uint8_t ret_sha256[KYMO_SHA256_SIZE],
                   struct kymo_err *err) KYMO_MUST_CHECK;
int spool_pin_neff(struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE], bool pin,
                   struct kymo_err *err) KYMO_MUST_CHECK;
void spool_unpin_neff(struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE]); /* one that is not pinned is fine */
/* A descriptor for reading, the caller's to close, and the size. -ENOENT. */
int spool_open_neff(struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t *ret_size,
                    struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Uplink. The oldest pending capture with a sequence above after (0: the oldest of all), or NULL. Valid until the next
 * call that changes the spool.
 */
const struct spool_entry *spool_next(const struct spool *s, uint64_t after);
/*
 * What became of an id: its pending capture; -ENOENT: unknown, or no longer; -EALREADY: delivered or lost, and its
 * files are still to be removed.
 */
int spool_find_id(const struct spool *s, const char *id, const struct spool_entry **ret) KYMO_MUST_CHECK;
/* The pending capture with this sequence, or NULL (it may have been evicted meanwhile). */
const struct spool_entry *spool_find(const struct spool *s, uint64_t seq);
/*
 * Reads up to n bytes of a file; *ret_n is below n only at its end. -ENOENT: no such pending capture; -EBADMSG, -EIO:
 * the file is not what was published: spool_lose it.
 */
int spool_read(struct spool *s, uint64_t seq, size_t file, uint64_t offset, void *buf, size_t n, size_t *ret_n,
               struct kymo_err *err) KYMO_MUST_CHECK;
/* The collector holds the file up to offset. Never goes back: -EINVAL below the last or beyond the size. */
int spool_ack(struct spool *s, uint64_t seq, size_t file, uint64_t offset, struct kymo_err *err) KYMO_MUST_CHECK;
/* All files were acknowledged to their ends (-EINVAL otherwise): the capture leaves the spool. */
int spool_done(struct spool *s, uint64_t seq, struct kymo_err *err) KYMO_MUST_CHECK;
/* As spool_done, whatever was acknowledged so far: the collector has published the capture. */
int spool_stored(struct spool *s, uint64_t seq, struct kymo_err *err) KYMO_MUST_CHECK;
/* Gives a pending capture up, with a loss row. */
int spool_lose(struct spool *s, uint64_t seq, uint32_t cause, struct kymo_err *err) KYMO_MUST_CHECK;

/* The oldest loss rows, at most max; returns how many. */
size_t spool_losses(const struct spool *s, struct spool_loss *rows, size_t max);
/* A row as spool_losses gave it was handed on durably. What was added to the row since then stays. */
int spool_loss_reported(struct spool *s, const struct spool_loss *row, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
