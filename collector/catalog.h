/*
 * The catalogue of a store, <data-path>/catalog.db (SQLite, WAL): captures and profiles with their states. It can be
 * made again from the raw store, but for times, counts and what failed. One writer, which the caller sees to
 * (collector/store.h); readers at any time. Not thread-safe.
 *
 *   received ──► queued ──► processing ──► ready
 *                  ▲ ▲          │  │         │
 *                  │ └──────────┘  └─► failed│
 *                  └────────────────────┴────┘
 *
 * received: in the raw store. queued: waits, with a reason when it has been tried and could not be. processing ->
 * queued: interrupted, or no room. ready, failed -> queued: to be made again; what was made stays until it is replaced.
 * A capture that is still coming in has the state receiving, and a reason when it cannot go on.
 */
#ifndef KYMO_COLLECTOR_CATALOG_H
#define KYMO_COLLECTOR_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collector/loss.h"
#include "proto/manifest_check.h"

#define CATALOG_SCHEMA_VERSION 8

#define CATALOG_PARENT                                                                                                 \
    "ranks:" /* before the request: what a parent has for a capture's id, and no capture can have                      \
              */
#define CATALOG_CAPTURE_MAX (MANIFEST_ID_MAX + sizeof CATALOG_PARENT - 1)

#define CATALOG_STATES(X)                                                                                              \
    X(RECEIVED, "received")                                                                                            \
    X(QUEUED, "queued")                                                                                                \
    X(PROCESSING, "processing")                                                                                        \
    X(READY, "ready")                                                                                                  \
    X(FAILED, "failed")

enum catalog_state {
#define X(name, text) CATALOG_##name,
    CATALOG_STATES(X)
#undef X
        CATALOG_STATE_MAX
};
const char *catalog_state_name(enum catalog_state s);

struct catalog;

/* One profile, with what the list shows of its capture. Times are ns since the Unix epoch, 0 where not yet. A parent
 * has no file, and its capture is none. */
struct catalog_profile {
    char name[MANIFEST_PROFILE_NAME_MAX + 1], capture[CATALOG_CAPTURE_MAX + 1];
    bool is_parent;                    /* made of the profiles of one request */
    char request[MANIFEST_ID_MAX + 1]; /* "": none */
    char file[MANIFEST_NAME_MAX + 1];  /* the NTFF in the capture */
    uint32_t file_index, vnc;          /* its place in the manifest; logical core */
    uint64_t file_size;
    char job[MANIFEST_TEXT_MAX + 1], host[MANIFEST_TEXT_MAX + 1];
    uint32_t rank;
    enum catalog_state state;
    char reason[KYMO_ERR_TEXT_MAX]; /* "": none */
    int64_t file_offset;            /* where in the file it failed; -1: not known */
    char stage[32];
    uint64_t done, total; /* progress within the stage; total 0: not known */
    uint32_t attempts;    /* since it was last queued by somebody */
    int64_t received_ns, queued_ns, started_ns, finished_ns;
    char processor[64]; /* "kymo <version>" or the name of an external one */
    char schema_version[64];
    uint64_t records, tables, bytes; /* of what is published; records 0: not known */
    char fleet[16]; /* its rows of fleet tables: "" (none yet), waiting, working, ready, failed, gone */
    char fleet_reason[KYMO_ERR_TEXT_MAX];
    int64_t captured_ns;               /* when the capture began, else when it was received */
    char owner[MANIFEST_TEXT_MAX + 1]; /* the user who uploaded its capture; "": a host sent it */
    bool pinned;                       /* is not to be removed */
};

/* What a processor made. */
struct catalog_result {
    const char *schema_version;
    uint64_t records, tables, bytes;
};

/*
 * read_only: -ENOENT when there is none. Else it is made, or brought up to this version. -ENOTSUP: made by a newer
 * kymo. -EBADMSG: no catalogue, or damaged. Other functions: -ENOSPC full disk, -EBUSY locked for 5 s, -EIO.
 */
int catalog_open(const char *path, bool read_only, struct catalog **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct catalog *catalog_free(struct catalog *c);

/* Notes a capture as receiving; changes nothing when it is received. source: who sends it, which is kept; NULL: not
 * known. reason: why it does not go on; NULL: it does. */
int catalog_receiving(struct catalog *c, const Kymo__Manifest__Capture *m, const char *source, const char *reason,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* The capture is in the raw store: adds it, its labels, and a profile in state received for each NTFF that has bytes,
 * all or nothing. Changes nothing when it was received before. */
int catalog_received(struct catalog *c, const Kymo__Manifest__Capture *m, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for the upload of a user; NULL: nobody's. */
int catalog_received_of(struct catalog *c, const Kymo__Manifest__Capture *m, const char *owner,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* Forgets a capture that is receiving. */
int catalog_forget(struct catalog *c, const char *capture, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: it is receiving; *ret_source: from whom, "" where not known, *ret_ns: since the Unix epoch, when that was last
 * noted. 0: it is not, and nothing is set. */
int catalog_receiving_source(struct catalog *c, const char *capture, char ret_source[static MANIFEST_TEXT_MAX + 1],
                             int64_t *ret_ns, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: received, 0: not. */
int catalog_has_capture(struct catalog *c, const char *capture, struct kymo_err *err) KYMO_MUST_CHECK;

/* Transitions. -ENOENT: no such profile. -EINVAL: its state has no such transition; the text names it. */
int catalog_queue(struct catalog *c, const char *profile, struct kymo_err *err) KYMO_MUST_CHECK;
/* All that are ready or failed of a capture, or, with NULL, all that have failed: how many. -ENOENT: no such capture.
 */
int catalog_queue_all(struct catalog *c, const char *capture, struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for all profiles of a capture that are received. */
int catalog_queue_received(struct catalog *c, const char *capture, struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_start(struct catalog *c, const char *profile, const char *processor, struct kymo_err *err) KYMO_MUST_CHECK;
/* Another processor goes on with a profile that is processing. */
int catalog_hand_over(struct catalog *c, const char *profile, const char *processor,
                      struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_progress(struct catalog *c, const char *profile, const char *stage, uint64_t done, uint64_t total,
                     struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_ready(struct catalog *c, const char *profile, const struct catalog_result *result,
                  struct kymo_err *err) KYMO_MUST_CHECK;
/* offset: -1 where not known. */
int catalog_fail(struct catalog *c, const char *profile, const char *reason, int64_t offset,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/* not_before_ns: when it may be tried again (ns since the Unix epoch). */
int catalog_put_back(struct catalog *c, const char *profile, const char *reason, int64_t not_before_ns,
                     struct kymo_err *err) KYMO_MUST_CHECK;
/* Its processor was killed: queued again as by catalog_put_back, or failed when this was the maxth since somebody
 * queued it. */
int catalog_killed(struct catalog *c, const char *profile, const char *reason, int64_t not_before_ns, uint32_t max,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* At start: what was received or processing when the last writer ended is queued, and what waits may be tried now. */
int catalog_recover(struct catalog *c, struct kymo_err *err) KYMO_MUST_CHECK;

/* 1: *ret is the profile that has waited longest, of those queued before this time (ns; INT64_MAX: all). 0: none. */
int catalog_next(struct catalog *c, int64_t before_ns, struct catalog_profile *ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_find(struct catalog *c, const char *profile, struct catalog_profile *ret,
                 struct kymo_err *err) KYMO_MUST_CHECK;
/* All profiles, or those of one capture, in order of receipt and name. A non-zero return of each ends it and is
 * returned. */
int catalog_list(struct catalog *c, const char *capture, int (*each)(void *ctx, const struct catalog_profile *p),
                 void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;
/* -ENOENT: no such profile. */
int catalog_pin(struct catalog *c, const char *profile, bool pinned, struct kymo_err *err) KYMO_MUST_CHECK;
/* Its capture has no other profile: 1, else 0. */
int catalog_is_alone(struct catalog *c, const char *profile, struct kymo_err *err) KYMO_MUST_CHECK;
/* Forgets a profile, whatever its state, and its capture with the last of its profiles; all or nothing. */
int catalog_remove(struct catalog *c, const char *profile, struct kymo_err *err) KYMO_MUST_CHECK;
/* Captures with their state: the least far of their profiles, failed before ready; ready without any; or "receiving".
 */
struct catalog_capture {
    char id[MANIFEST_ID_MAX + 1], state[16], reason[KYMO_ERR_TEXT_MAX];
    uint64_t files, bytes;
    char job[MANIFEST_TEXT_MAX + 1], host[MANIFEST_TEXT_MAX + 1];
    uint32_t rank;
    char mode[32], trigger[64];
    uint64_t first_execution, execution_count;
    int64_t start_ns, end_ns, received_ns; /* since the Unix epoch, 0: not known */
    char instance_type[64], driver_version[64], runtime_version[64], writer[64];
};
int catalog_list_captures(struct catalog *c, int (*each)(void *ctx, const struct catalog_capture *capture), void *ctx,
                          struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_find_capture(struct catalog *c, const char *id, struct catalog_capture *ret,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* The labels of a capture, in order. A non-zero return of each ends it and is returned. */
int catalog_list_labels(struct catalog *c, const char *capture,
                        int (*each)(void *ctx, const char *key, const char *value), void *ctx,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* How many profiles are in each state. */
int catalog_count(struct catalog *c, uint64_t ret[static CATALOG_STATE_MAX], struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Parents and rows of fleet tables (catalog_gather.c). A request of which at least two profiles are known gets a parent
 * once all its profiles are ready or failed, at least one of them ready, and nothing has come for settle_ns; or what
 * is ready by limit_ns after the first came. It is made again when a member is. The parent is a profile like others,
 * queued; how many were.
 */
int catalog_plan_parents(struct catalog *c, int64_t now_ns, int64_t settle_ns, int64_t limit_ns,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* The profiles of a request but for its parent, in order of rank and name. */
int catalog_list_members(struct catalog *c, const char *request,
                         int (*each)(void *ctx, const struct catalog_profile *p), void *ctx,
                         struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: *ret is the profile whose rows have waited longest, of those that may be tried before this time; 0: none. */
int catalog_next_fleet(struct catalog *c, int64_t before_ns, struct catalog_profile *ret,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* waiting -> working; 0 when it is not waiting, else 1. */
int catalog_fleet_start(struct catalog *c, const char *profile, struct kymo_err *err) KYMO_MUST_CHECK;
/* working -> ready, failed, or waiting until not_before_ns; nothing when the profile was made again meanwhile. */
int catalog_fleet_end(struct catalog *c, const char *profile, const char *state, const char *reason,
                      int64_t not_before_ns, struct kymo_err *err) KYMO_MUST_CHECK;
/* Its processor was killed: waiting again, or failed when this was the maxth time. */
int catalog_fleet_killed(struct catalog *c, const char *profile, const char *reason, int64_t not_before_ns,
                         uint32_t max, struct kymo_err *err) KYMO_MUST_CHECK;
/* Its tables are gone, and so are its rows. */
int catalog_fleet_gone(struct catalog *c, const char *profile, struct kymo_err *err) KYMO_MUST_CHECK;
/* Ready profiles that have rows, in order of name after the one given, at most max. */
int catalog_list_fleet(struct catalog *c, const char *after, unsigned max,
                       int (*each)(void *ctx, const struct catalog_profile *p), void *ctx,
                       struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Losses that a processor counted (catalog_loss.c). Those of the device's rings are for the host whose capture it was:
 * for the source, else the host that the manifest names. They wait until they are told, once per profile.
 */
int catalog_set_losses(struct catalog *c, const char *profile, const struct loss *losses, size_t n,
                       struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_list_losses(struct catalog *c, const char *profile, int (*each)(void *ctx, const struct loss *loss),
                        void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: *profile is a ready one of this source whose losses are not told, the first after the name `after` ("": any). */
int catalog_next_untold(struct catalog *c, const char *source, const char *after, struct catalog_profile *profile,
                        struct kymo_err *err) KYMO_MUST_CHECK;
int catalog_told(struct catalog *c, const char *profile, struct kymo_err *err) KYMO_MUST_CHECK;
/* 1: *ret is the source of a profile whose losses are to be told; 0: there is nothing to tell. */
int catalog_untold_source(struct catalog *c, const char *profile, char ret[static MANIFEST_TEXT_MAX + 1],
                          struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * What a host had to give up before it could reach us (catalog_host.c), as its spool counts. source: who tells it. A
 * row is the same as another of its source when row, first_seq and first_unix_ns are; told again it may have grown.
 * Rows of one call are added all or none; durable when it returns.
 */
struct catalog_host_loss {
    uint64_t row, first_seq, last_seq, captures, bytes;
    int64_t first_unix_ns, last_unix_ns;
    int64_t received_ns; /* given back alone */
    char cause[65];
};
int catalog_add_host_losses(struct catalog *c, const char *source, const struct catalog_host_loss *rows, size_t n,
                            struct kymo_err *err) KYMO_MUST_CHECK;
/* source NULL: all. A non-zero return of each ends it and is returned. */
int catalog_list_host_losses(struct catalog *c, const char *source,
                             int (*each)(void *ctx, const char *source, const struct catalog_host_loss *row), void *ctx,
                             struct kymo_err *err) KYMO_MUST_CHECK;

#endif
