/*
 * The bytes of captures as they came, below <data-path>/raw (RAW_STORE.md): files are received at offsets into a
 * temporary place, checked by size and SHA-256, made durable, and published by one rename per capture. NEFFs are kept
 * once per hash. One process at a time, which the caller sees to (collector/store.h); not thread-safe, but captures
 * that are open may be filled by different threads.
 *
 * The sender keeps a capture until raw_capture_commit has returned 0: that is the acknowledgement.
 */
#ifndef KYMO_COLLECTOR_RAW_STORE_H
#define KYMO_COLLECTOR_RAW_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/manifest_check.h"

struct raw_store;
struct raw_capture;

/*
 * Makes the directories and cleans up what a crash left: captures without a durable manifest and those already
 * published go, all others wait to be resumed. reserve: bytes of the file system that received data may not use, so
 * that the catalogue still has room to say why nothing goes on.
 */
int raw_store_open(const char *data_path, uint64_t reserve, struct raw_store **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
struct raw_store *raw_store_free(struct raw_store *s); /* captures must be closed before */

/* Calls back for each capture published, in order of ids; a non-zero return of the callback ends it and is returned. */
int raw_store_list(const struct raw_store *s, int (*each)(void *ctx, const char *id), void *ctx,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for captures that are being received. */
int raw_store_list_incoming(const struct raw_store *s, int (*each)(void *ctx, const char *id), void *ctx,
                            struct kymo_err *err) KYMO_MUST_CHECK;
/* Manifest of a published capture. -ENOENT: there is none. */
int raw_store_manifest(const struct raw_store *s, const char *id, Kymo__Manifest__Capture **ret,
                       struct kymo_err *err) KYMO_MUST_CHECK;
/* Where a published file is; the caller frees it. NULL without memory. */
char *raw_store_file_path(const struct raw_store *s, const char *id, const Kymo__Manifest__File *f);
char *raw_store_manifest_path(const struct raw_store *s, const char *id);
char *raw_store_neff_path(const struct raw_store *s, const uint8_t sha256[static 32]);

enum raw_begin {
    RAW_RECEIVE, /* *ret is open: fill what raw_capture_offset says is missing, then commit */
    RAW_STORED,  /* published already, with the same manifest: nothing to do, *ret is untouched */
};

/*
 * Takes up a capture by its manifest, new or where an earlier attempt ended. Returns enum raw_begin, -EPROTO for a bad
 * manifest, -EEXIST when the id is known with another manifest, -ENOSPC without room for what is missing.
 */
int raw_store_begin(struct raw_store *s, const void *manifest, size_t n, struct raw_capture **ret,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* As that, for files that come by raw_capture_adopt: so many bytes of them are on this disk already. */
int raw_store_begin_adopting(struct raw_store *s, const void *manifest, size_t n, uint64_t here,
                             struct raw_capture **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* What a capture that is being received takes on the disk, without NEFFs that are kept for all. */
struct raw_usage {
    uint64_t bytes;
    int64_t changed_ns; /* since the Unix epoch: when a file of it last changed */
};
/* -ENOENT: nothing is there. */
int raw_store_incoming_usage(const struct raw_store *s, const char *id, struct raw_usage *ret,
                             struct kymo_err *err) KYMO_MUST_CHECK;
/* What receiving a capture comes to at most: 0 when it is published; NEFFs that are here take nothing. */
uint64_t raw_store_need(const struct raw_store *s, const Kymo__Manifest__Capture *m);

/*
 * Removes a published capture; NEFFs stay, since others may be of them. It goes as a whole: what a crash leaves of it
 * goes at the next raw_store_open. One that is not there is fine.
 */
int raw_store_remove(struct raw_store *s, const char *id, struct kymo_err *err) KYMO_MUST_CHECK;

/* The same, but its directory is renamed to this one and is the caller's to remove. -ENOENT: there is none. */
int raw_store_take_away(struct raw_store *s, const char *id, const char *to, struct kymo_err *err) KYMO_MUST_CHECK;

/* Gives up what was received of a capture; never touches published ones. */
int raw_store_discard(struct raw_store *s, const char *id, struct kymo_err *err) KYMO_MUST_CHECK;

const Kymo__Manifest__Capture *raw_capture_manifest(const struct raw_capture *c);
/* Bytes of file i that are here: where the sender goes on. Equal to its size when the file is complete and checked, or
 * only waits for raw_capture_finish_file. */
uint64_t raw_capture_offset(const struct raw_capture *c, size_t i);
bool raw_capture_has_file(const struct raw_capture *c, size_t i); /* complete, checked and durable */

/*
 * Bytes of file i from offset on. Bytes that are here already are skipped; a gap is -ERANGE, bytes beyond the size are
 * -EFBIG. -ENOSPC: the disk is full or the reserve reached; what was received before stays and the same call may be
 * made again later.
 */
int raw_capture_write(struct raw_capture *c, size_t i, uint64_t offset, const void *data, size_t n,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* Keeps a whole file of the same file system as file i, by a link: it stays where it is, but on file systems without
 * links. The caller has seen to it that it is durable and has this hash. -EBADMSG: it is not what the manifest says. */
int raw_capture_adopt(struct raw_capture *c, size_t i, const char *path, const uint8_t sha256[static 32],
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* Makes durable what is here. A sync that fails is not tried again: the file begins anew at offset 0. */
int raw_capture_sync(struct raw_capture *c, size_t i, struct kymo_err *err) KYMO_MUST_CHECK;
/* All bytes are here: checks and keeps the file. Reads it once. -EAGAIN: bytes are missing. -EBADMSG: the hash differs,
 * the file begins anew at offset 0. */
int raw_capture_finish_file(struct raw_capture *c, size_t i, struct kymo_err *err) KYMO_MUST_CHECK;
/* All files are kept: publishes the capture. Durable on return. -EAGAIN: files are missing. */
int raw_capture_commit(struct raw_capture *c, struct kymo_err *err) KYMO_MUST_CHECK;
/* What was received and not committed stays for the next raw_store_begin. */
struct raw_capture *raw_capture_free(struct raw_capture *c);

#endif
