/*
 * A capture's manifest as bytes from somebody else: unpacked and held to what the rest relies on. Pure, but for memory.
 */
#ifndef KYMO_PROTO_MANIFEST_CHECK_H
#define KYMO_PROTO_MANIFEST_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "proto/manifest.pb-c.h"

#define MANIFEST_FILE "manifest.pb"    /* its name in a capture's directory, which no file of the capture may have */
#define MANIFEST_BYTES_MAX (4u << 20)  /* packed */
#define MANIFEST_FILES_MAX 4096        /* files of a capture */
#define MANIFEST_LABELS_MAX 256        /* labels of a capture */
#define MANIFEST_TEXT_MAX 255          /* bytes of job, host, a label and the like */
#define MANIFEST_ID_MAX 64             /* bytes of a capture id */
#define MANIFEST_NAME_MAX 255          /* bytes of a file's name with its folders */
#define MANIFEST_NAME_PARTS_MAX 24     /* parts of such a name: fewer than kymo_file_remove_tree goes down */
#define MANIFEST_SIZE_MAX (1ull << 42) /* bytes of one file */
#define MANIFEST_PROFILE_NAME_MAX 200  /* bytes of a profile's name */

/* [A-Za-z0-9._-], 1 to MANIFEST_ID_MAX bytes, no dot in front. */
bool manifest_is_id(const char *id);
/* Relative, no empty, "." or ".." part, no control character, at most MANIFEST_NAME_MAX bytes and
 * MANIFEST_NAME_PARTS_MAX parts. */
bool manifest_is_file_name(const char *name);

/*
 * -EPROTO with the reason unless: it unpacks; no text holds a NUL and no field is there twice; version is 1; the id is
 * one; every file has a name of its own, a size and a SHA-256; numbers of files and labels and lengths of texts are
 * within the limits above. Free the result with kymo__manifest__capture__free_unpacked.
 */
int manifest_parse(const void *data, size_t n, Kymo__Manifest__Capture **ret, struct kymo_err *err) KYMO_MUST_CHECK;
void manifest_freep(Kymo__Manifest__Capture **m);

/*
 * <job>-<host>-r<rank>-<capture id>-nc<k>[-<neff>] of characters [A-Za-z0-9._-]; what tells profiles apart stands at
 * the end and is never cut. neff: the first 16 hex digits, or NULL. Empty parts are "job", "host" and "capture".
 */
struct manifest_profile {
    const char *job, *host, *id, *neff;
    unsigned rank, vnc;
    bool system; /* of the system, which no core has: "system" in place of nc<k> */
};
/* What a file is by its name, and the logical core that the runtime's name of an NTFF tells (0 where it does not). */
Kymo__Manifest__File__Kind manifest_kind_by_name(const char *name);
uint32_t manifest_core_by_name(const char *name);
/* Does this file make a profile: an NTFF, the events of a system trace, or ready tables, that holds something? */
bool manifest_file_is_profile(const Kymo__Manifest__File *f);
void manifest_profile_name(const struct manifest_profile *p, char out[static MANIFEST_PROFILE_NAME_MAX + 1]);

/*
 * The name of the profile of file i, which is one by the function above. Files of one core are told apart by their NEFF
 * where each names one, and by "-f<i>" where that is not enough.
 */
void manifest_file_profile_name(const Kymo__Manifest__Capture *m, size_t i,
                                char out[static MANIFEST_PROFILE_NAME_MAX + 1]);

#endif
