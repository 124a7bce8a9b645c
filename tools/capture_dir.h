/*
 * A capture directory: one with manifest.pb (in a store its NEFFs are in ../../neff, by SHA-256), or the runtime's own
 * session layout <out>/<instance>_pid_<pid>/<timestamp>/, or any directory with NTFF and NEFF files. Finds the files,
 * pairs them by SHA-256 or uuid, and names profiles <job>-<host>[-r<rank>]-<capture id>-nc<k>[-<neff>][-<hash>]. Not
 * thread-safe.
 *
 * The rank stands in the name only where a manifest tells it. The ranks of a session layout, which says none, are told
 * apart by the process and the core. k is the logical core (vnc), not Metadata.neuroncore_idx, which is the first
 * physical core. The hash is the file's: it is there when nothing else tells the file from others, that is without a
 * manifest or a session layout, with two files of one core and program, and when a part of the name was cut or had to
 * be rewritten.
 */
#ifndef KYMO_TOOLS_CAPTURE_DIR_H
#define KYMO_TOOLS_CAPTURE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CAPTURE_FILES_MAX 4096
#define CAPTURE_NAME_MAX 200
#define CAPTURE_CORE_MAX 63

struct capture_ntff {
    char *path;
    bool empty;    /* 0 bytes: a core that executed nothing */
    char *problem; /* why it cannot be read; NULL: it can */
    uint32_t vnc;
    uint64_t start_ns;      /* Unix time */
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
    char *system;   /* a file of its system trace, beside which the others are; NULL: none */
    struct capture_ntff *ntffs;
    size_t ntff_count, ntff_cap;
    struct capture_neff *neffs;
    size_t neff_count, neff_cap;
    char job[64], host[128], id[65]; /* "" where nothing says it */
    bool cut;                        /* one of them was longer */
    bool has_rank;
    unsigned rank;
};

void capture_init(struct capture *c);
void capture_done(struct capture *c);
/* Adds what the directory holds. A manifest's list of files is taken where there is one. An NTFF that cannot be read is
 * listed with its problem. */
int capture_read_dir(struct capture *c, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;
/* The first capture with a manifest in a directory of captures, to be freed; NULL: none. */
char *capture_find_inside(const char *dir);
/* One file more, named by the user: one that cannot be read is an error. */
int capture_add_ntff(struct capture *c, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
int capture_add_neff(struct capture *c, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;
/* NEFFs for one NTFF: those with its uuids, or all when none has. Returns their number; out has room for max. */
size_t capture_neffs_of(const struct capture *c, const struct capture_ntff *ntff, const char **out, size_t max);
/* [A-Za-z0-9._-], no dot in front, 1 to CAPTURE_NAME_MAX bytes. */
bool capture_name_valid(const char *name);
/* A valid name. Reads the whole file when its hash is needed. */
int capture_profile_name(const struct capture *c, const struct capture_ntff *ntff,
                         char out[static CAPTURE_NAME_MAX + 1], struct kymo_err *err) KYMO_MUST_CHECK;
/* The same for the system profile, which has "system" in the core's place. */
void capture_system_name(const struct capture *c, char out[static CAPTURE_NAME_MAX + 1]);
/* The end of that name, for a name that the user chose: nc<k>[-<neff>][-<hash>]. */
int capture_core_name(const struct capture *c, const struct capture_ntff *ntff, char out[static CAPTURE_CORE_MAX + 1],
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
