/* Looking at a spool without opening it, and setting it right: for `kymo spool check|dump|repair`. */
#ifndef KYMO_DAEMON_SPOOL_SPOOL_CHECK_H
#define KYMO_DAEMON_SPOOL_SPOOL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One line for people: what is wrong (or was done), with file and offset. */
typedef void spool_say(void *ctx, const char *text);

struct spool_check_result {
    size_t problems;
    bool in_use;       /* another process has it open: what is in motion may look wrong */
    bool account_open; /* as the journal says */
    uint64_t records, captures, neffs, bytes;
};

/*
 * Read-only. contents: also the SHA-256 of every file of every capture and NEFF. A negative errno only when the spool
 * cannot be looked at; problems are counted.
 */
int spool_check(const char *dir, bool contents, spool_say *say, void *ctx, struct spool_check_result *ret,
                struct kymo_err *err) KYMO_MUST_CHECK;

/* Each record of the newest segments as a line. Read-only. */
int spool_dump(const char *dir, spool_say *say, void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Makes check find nothing: moves what cannot be used to cut/, opens the spool (which recovers), gives up captures
 * whose files are not what was published. -EBUSY while it is in use. Says each thing that it does.
 */
int spool_repair(const char *dir, spool_say *say, void *ctx, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
