/* What the spool's files share. Not for others. */
#ifndef KYMO_DAEMON_SPOOL_SPOOL_INTERNAL_H
#define KYMO_DAEMON_SPOOL_SPOOL_INTERNAL_H

#include "daemon/spool/journal.h"
#include "daemon/spool/spool.h"
#include "daemon/spool/spool_state.h"

#define SPOOL_BAD_MAX 4         /* damaged segments kept */
#define SPOOL_NEFF_NAME_SIZE 70 /* 64 hex digits, ".neff", NUL */

struct spool_neff {
    uint8_t sha256[KYMO_SHA256_SIZE];
    uint64_t size;
    uint64_t mtime_ns; /* at start-up, for the order */
    uint32_t pins;
};

struct spool {
    char *dir, *captures, *staging, *journal_dir, *neff_dir, *reserve;
    struct spool_limits limits;
    int lock;
    struct journal journal;
    struct spool_state state;
    struct spool_capture *staged[SPOOL_STAGED_MAX];
    size_t nstaged;
    uint64_t staged_bytes, neff_bytes;
    struct spool_neff *neffs; /* oldest first */
    size_t nneffs, neffs_cap;
    int read_fd; /* of the file read last */
    uint64_t read_seq;
    size_t read_file;
    uint64_t snapshot_size, damaged_bytes, replaced_segments, recovered, failed_syncs;
    uint64_t damaged_segments[SPOOL_BAD_MAX]; /* kept as .bad once they are replaced */
    size_t ndamaged;
    bool full, stopped;
    uint8_t payload[JOURNAL_PAYLOAD_MAX]; /* of the record to append */
    uint8_t scratch[JOURNAL_PAYLOAD_MAX]; /* of a snapshot's records */
};

struct spool_capture {
    struct spool *spool;
    struct spool_entry *entry; /* with room for all files and NEFFs; nfiles and nneffs count what is there */
    char *dir;                 /* below staging/ */
    char *target;              /* below captures/ */
    uint64_t bytes;
    uint32_t cause; /* of the last failure, 0: none that has a name */
    bool moved;     /* it is in captures/ though not published */
};

/* Makes the record in payload durable and commits it. */
int spool_append(struct spool *s, enum spool_record type, size_t len, struct kymo_err *err) KYMO_MUST_CHECK;
int spool_new_segment(struct spool *s, struct kymo_err *err);
/* Keeps the segment when it is replaced. */
void spool_note_damaged(struct spool *s, uint64_t segment);
/* Unlinks what is no longer pending; what fails is tried again at the next change and the next start. */
void spool_sweep(struct spool *s);
int spool_append_lost(struct spool *s, const struct spool_entry *e, uint64_t bytes, uint32_t cause, bool in_captures,
                      struct kymo_err *err) KYMO_MUST_CHECK;

/* Policy stop is in force: it was full, and a quarter of it is not free yet. */
bool spool_is_stopped(const struct spool *s);
/*
 * Room for bytes more, copied of which are not on the disk yet, and one more capture if wanted. -ENOSPC: the policy
 * found none; *cause (may be NULL) says which loss that is.
 */
int spool_make_room(struct spool *s, uint64_t bytes, uint64_t copied, bool capture, uint32_t *cause,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* One step of making room; false when there is none left. */
bool spool_evict_one(struct spool *s, struct kymo_err *err);
void spool_refill_reserve(struct spool *s);
uint64_t spool_used_bytes(const struct spool *s);

/* Copies size bytes of a file into a new one, synced; a failed sync is answered by a second new file. */
int spool_copy(struct spool *s, int from, const char *from_name, const char *to, uint64_t size,
               uint8_t ret_sha256[KYMO_SHA256_SIZE], struct kymo_err *err) KYMO_MUST_CHECK;

int spool_load_journal(struct spool *s, struct kymo_err *err) KYMO_MUST_CHECK;
int spool_recover(struct spool *s, struct kymo_err *err) KYMO_MUST_CHECK;
int spool_load_neffs(struct spool *s, struct kymo_err *err) KYMO_MUST_CHECK;
bool spool_evict_neff(struct spool *s);
/* Index, or nneffs. */
size_t spool_find_neff(const struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE]);

/* Calls fn for each name in a directory that does not begin with a dot; stops at the first failure. */
int spool_each_name(const char *dir, int (*fn)(void *ctx, const char *name, struct kymo_err *err), void *ctx,
                    struct kymo_err *err);
bool spool_exists(const char *path);

#endif
