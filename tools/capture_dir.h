/*
 * A capture directory: one with manifest.pb, or the runtime's own session layout
 * <out>/<instance>_pid_<pid>/<timestamp>/, or any directory with NTFF and NEFF files. Finds the files, pairs them by
 * SHA-256 or uuid, and names profiles <job>-<host>-r<rank>-<capture id>-nc<k>[-<neff>]. Not thread-safe.
 */
#ifndef KYMO_TOOLS_CAPTURE_DIR_H
#define KYMO_TOOLS_CAPTURE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CAPTURE_FILES_MAX 4096
#define CAPTURE_NAME_MAX 200

struct capture_ntff {
    char *path;
    bool empty; /* 0 bytes: a core that executed nothing */
    uint32_t vnc;
    char host[128];         /* "": the file does not say */
    uint8_t (*uuids)[16];   /* of the NEFFs that it traces */
    uint8_t (*sha256s)[32]; /* zero: not in the file */
    size_t neff_count;
};

struct capture_neff {
    char *path;
    uint8_t uuid[16];
};

struct capture {
    char *manifest; /* path; NULL: none */
    struct capture_ntff *ntffs;
    size_t ntff_count, ntff_cap;
    struct capture_neff *neffs;
    size_t neff_count, neff_cap;
    char job[64], host[128], id[64]; /* "" where nothing says it */
    unsigned rank;
};

void capture_init(struct capture *c);
void capture_done(struct capture *c);
/* Adds what the directory holds. A manifest's list of files is taken where there is one. */
int capture_read_dir(struct capture *c, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;
/* One file more. An NTFF that cannot be read is an error, a NEFF that cannot be read is passed on for its message. */
int capture_add_ntff(struct capture *c, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
int capture_add_neff(struct capture *c, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* NEFFs for one NTFF: those with its uuids, or all when none has. Returns their number; out has room for max. */
size_t capture_neffs_of(const struct capture *c, const struct capture_ntff *ntff, const char **out, size_t max);
/* [A-Za-z0-9._-], at most CAPTURE_NAME_MAX bytes. */
void capture_profile_name(const struct capture *c, const struct capture_ntff *ntff,
                          char out[static CAPTURE_NAME_MAX + 1]);

#endif
