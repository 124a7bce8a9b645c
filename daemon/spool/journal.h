/*
 * The spool's journal: records in segments (FORMAT.md). Knows bytes, ids and syncs, not what records mean. One thread.
 */
#ifndef KYMO_DAEMON_SPOOL_JOURNAL_H
#define KYMO_DAEMON_SPOOL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define JOURNAL_HEADER_SIZE 40
#define JOURNAL_RECORD_HEADER_SIZE 32
#define JOURNAL_PAYLOAD_MAX 16384
#define JOURNAL_RECORD_MAX (JOURNAL_RECORD_HEADER_SIZE + JOURNAL_PAYLOAD_MAX)
#define JOURNAL_SEGMENT_MAX (256u << 20)
#define JOURNAL_NAME_SIZE 24 /* "0123456789abcdef.seg" and NUL */

struct journal_record {
    uint64_t id, time_ns;
    uint16_t type;
    uint32_t len;
    const uint8_t *payload;
};

/* Reads one segment through a window; memory does not grow with the file. */
struct journal_cursor {
    int fd;
    char *path;
    uint64_t segment, first_id, last_id;
    uint64_t size, at;
    uint8_t *window;
    uint64_t window_at;
    size_t window_len;
};

struct journal_damage {
    uint64_t offset, bytes;
    const char *cause;
    bool tail; /* nothing readable follows */
};

enum journal_found { JOURNAL_END, JOURNAL_RECORD, JOURNAL_DAMAGE };

/* -EBADMSG with file, offset and cause when the header is damaged, -EPROTO for a later version. */
int journal_cursor_open(struct journal_cursor *c, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* An enum journal_found, or a negative errno when the file cannot be read. rec points into the cursor until the next
 * call. */
int journal_cursor_next(struct journal_cursor *c, struct journal_record *rec, struct journal_damage *damage,
                        struct kymo_err *err) KYMO_MUST_CHECK;
void journal_cursor_done(struct journal_cursor *c);

/* The segment that is written to. */
struct journal {
    char *dir;
    int fd; /* -1 before the first segment */
    char *path;
    uint64_t segment, at, next_id;
    bool suspect; /* a sync failed, or a torn write could not be cut off: nothing more is appended */
    uint64_t failed_syncs;
    uint8_t *buf; /* of a segment being written */
    size_t buf_len;
};

int journal_init(struct journal *j, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;
void journal_done(struct journal *j);

/* Durable when it returns 0. After a failure either nothing is there, or suspect is set and the id is burned. */
int journal_append(struct journal *j, uint16_t type, const uint8_t *payload, size_t len, uint64_t time_ns,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * A new segment: begin, put each record of the snapshot, then commit, which makes it the one that is appended to, or
 * abort, which leaves the old one in place.
 */
struct journal_segment {
    int fd;
    char *tmp, *path;
    uint64_t segment, at, next_id;
};
int journal_begin(struct journal *j, uint64_t segment, struct journal_segment *n, struct kymo_err *err) KYMO_MUST_CHECK;
int journal_put(struct journal *j, struct journal_segment *n, uint16_t type, const uint8_t *payload, size_t len,
                uint64_t time_ns, struct kymo_err *err) KYMO_MUST_CHECK;
int journal_commit(struct journal *j, struct journal_segment *n, struct kymo_err *err) KYMO_MUST_CHECK;
void journal_abort(struct journal *j, struct journal_segment *n);

/* The number of a segment from its file name ("….seg"), 0 for any other name. */
uint64_t journal_segment_number(const char *name);
void journal_segment_name(uint64_t segment, const char *suffix, char ret[JOURNAL_NAME_SIZE]);

#endif
