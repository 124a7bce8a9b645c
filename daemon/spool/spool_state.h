/*
 * What a spool knows, in memory: entries, loss rows, counters; and the records that change it. No I/O. A record is
 * first decoded against the state (which may fail), then made durable, then committed (which cannot fail).
 */
#ifndef KYMO_DAEMON_SPOOL_SPOOL_STATE_H
#define KYMO_DAEMON_SPOOL_SPOOL_STATE_H

#include "daemon/spool/journal.h"
#include "daemon/spool/spool.h"

#define SPOOL_CAPTURES_LIMIT 65536 /* what limits may ask for, and what a snapshot may hold */
#define SPOOL_ROWS_LIMIT 65536

enum spool_record {
    SPOOL_SNAPSHOT = 1,
    SPOOL_ENTRY,
    SPOOL_PUBLISHED,
    SPOOL_ACKED,
    SPOOL_DELIVERED,
    SPOOL_LOST,
    SPOOL_ROW,
    SPOOL_REPORTED,
};

enum spool_entry_state { SPOOL_PENDING, SPOOL_REMOVE_CAPTURE, SPOOL_REMOVE_STAGED };

struct spool_state {
    struct spool_entry **entries; /* by rising sequence */
    size_t nentries, entries_cap;
    struct spool_loss *rows; /* by rising number */
    size_t nrows, rows_cap;
    uint64_t next_seq, next_row;
    struct spool_amount issued, delivered, lost, pending;
    struct spool_amount lost_by_cause[SPOOL_CAUSES_N + 1]; /* counted since spool_open; not on disk */
    uint64_t removing_bytes;                               /* still on disk though not pending */
    bool account_open;
    /* While a snapshot is read: what is still to come. */
    uint32_t entries_due, rows_due;
    bool has_snapshot;
};

void spool_state_init(struct spool_state *st);
void spool_state_done(struct spool_state *st);

/* A decoded record; committing or freeing takes entry. */
struct spool_change {
    enum spool_record type;
    struct spool_entry *entry;
    struct spool_loss row;
    struct spool_amount amount; /* SPOOL_REPORTED */
    uint64_t seq, offset, bytes, time_ns;
    uint32_t file, cause, place;
    const uint8_t *snapshot;
};

/*
 * -EBADMSG with *cause: the payload is malformed or does not fit the state, which is untouched but for room made.
 * -ENOMEM. After 0 the commit of this change, and no other before it, cannot fail.
 */
int spool_change_decode(struct spool_state *st, uint16_t type, const uint8_t *payload, size_t len, uint64_t time_ns,
                        struct spool_change *ret, const char **cause) KYMO_MUST_CHECK;
void spool_change_free(struct spool_change *c);
void spool_change_commit(struct spool_state *st, struct spool_change *c);

/* The payloads of records; out has JOURNAL_PAYLOAD_MAX bytes; each returns the length. */
size_t spool_encode_snapshot(const struct spool_state *st, uint8_t *out);
size_t spool_encode_entry(const struct spool_entry *e, uint8_t *out);
size_t spool_encode_acked(uint64_t seq, uint32_t file, uint64_t offset, uint8_t *out);
size_t spool_encode_delivered(uint64_t seq, uint8_t *out);
size_t spool_encode_lost(const struct spool_entry *e, uint64_t bytes, uint64_t row, uint32_t cause, uint32_t place,
                         uint8_t *out);
size_t spool_encode_row(const struct spool_loss *row, uint8_t *out);
size_t spool_encode_reported(const struct spool_loss *row, uint8_t *out);

/* The row that a loss of this sequence and cause goes to: one that exists, or next_row. */
uint64_t spool_state_row_for(const struct spool_state *st, uint64_t seq, uint32_t cause, uint32_t rows_max);

struct spool_entry *spool_state_find(const struct spool_state *st, uint64_t seq);
struct spool_entry *spool_state_find_id(const struct spool_state *st, const char *id); /* any state */
/* Its files are gone for good. */
void spool_state_forget(struct spool_state *st, uint64_t seq);
/* issued = pending + delivered + lost, unless the account is open. */
bool spool_state_closes(const struct spool_state *st);

struct spool_entry *spool_entry_new(const char *id, size_t id_len, size_t nfiles, size_t nneffs);
void spool_entry_free(struct spool_entry *e);
void spool_entry_freep(struct spool_entry **e);
uint64_t spool_entry_bytes(const struct spool_entry *e);
/* In arrays by cause: 0 for one that a later kymo wrote. */
uint32_t spool_cause_index(uint32_t cause);
bool spool_name_ok(const char *name, size_t len, size_t max);

#endif
