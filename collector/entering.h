/*
 * An upload (upload.h) that becomes a capture of the store. Its files are whole, durable and hashed; what is to become
 * of them is written down before the first of them gets its place, so that a crash loses nothing: store_open goes on
 * where it ended. On the thread of the store.
 *
 *   <data-path>/uploads/<id>/part-<n>        the files, which get a second name in the raw store
 *   <data-path>/uploads/<id>/entering.pb     the manifest that they are to have
 *   <data-path>/uploads/<id>/entering.json   {"version": 1, "owner": TEXT or null, "parts": [n or -1 for each of its
 *                                            files]}; written last
 */
#ifndef KYMO_COLLECTOR_ENTERING_H
#define KYMO_COLLECTOR_ENTERING_H

#include "collector/store.h"

#define ENTERING_NO_PART SIZE_MAX
#define ENTERING_UPLOADS "uploads" /* below <data-path> */
#define ENTERING_DAMAGED "uploads-damaged"

struct entering;

struct entering_plan {
    const char *place, *owner; /* the upload's directory; owner NULL: nobody's */
    const void *manifest;
    size_t n;
    const size_t *parts; /* for each file of the manifest; ENTERING_NO_PART: a NEFF that is in the store */
    uint64_t bytes;      /* of all parts */
};

/* From here on it is found again. -EEXIST: a capture of this id is here, or comes from a host. Nothing is left of an
 * attempt that failed. */
int entering_begin(struct store *s, const struct entering_plan *plan, struct entering **ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;
/* Goes on for about so long. 1: there is more to do. 0: the capture is in the store and its profiles are queued. After
 * an error entering_undo may follow; files of the upload are still there, but on file systems without links. */
int entering_turn(struct entering *e, struct store *s, unsigned ms, struct kymo_err *err) KYMO_MUST_CHECK;
/* It is not to be there. */
int entering_undo(struct entering *e, struct store *s, struct kymo_err *err) KYMO_MUST_CHECK;
const char *entering_capture(const struct entering *e); /* its id */
/* What was begun and neither done nor undone is gone on with when the store is opened. NULL is fine; returns NULL. */
struct entering *entering_free(struct entering *e);

/* Brings all that were begun to their end, and removes them from uploads/. What cannot be, such as on a full disk,
 * stays for the next time; what never will be, since a file of it is damaged, goes to <data-path>/uploads-damaged/<id>,
 * and is counted in s->set_aside. Nothing removes it from there. */
int entering_recover(struct store *s, struct kymo_err *err) KYMO_MUST_CHECK;
/* This upload is to be gone on with at the next start. */
bool entering_has_begun(const char *place);

#endif
