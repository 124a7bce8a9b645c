/*
 * The directories that jobs write captures into, on the spool's file system:
 *
 *   INTAKE/                     ours alone
 *     <pid>-<start>.d/          the process's, which gets it as a descriptor and writes <id>.part, renamed to <id>
 *     <pid>-<start>.t/<id>/     taken from it, ours: files/ is what was <id>, where nobody changes names any more, and
 *                               manifest.pb what was known of it
 *     <pid>-<start>.pb          who the process is and what it had loaded: a manifest without captured files
 *
 * All of it outlives kymod, so that the next one takes over what this one left. These functions touch disks and may
 * block: workers call them. No two at a time for the same process.
 */
#ifndef KYMO_DAEMON_INTAKE_H
#define KYMO_DAEMON_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "proto/hook.h"
#include "proto/manifest.pb-c.h"

#define INTAKE_KEY_MAX 40
#define INTAKE_PATH_MAX 768
#define INTAKE_FILES_MAX 60 /* of a capture; the spool holds 64 with the manifest */
#define INTAKE_NAME_MAX 127
#define INTAKE_DEPTH_MAX 4                 /* folders below a capture's own */
#define INTAKE_NEFF_BYTES_MAX (4ull << 30) /* copies of NEFFs in a capture, together */
#define INTAKE_FOUND_MAX 256               /* captures of one process found at once */
#define INTAKE_ENTRIES_MAX 2048            /* files and folders of one capture, or of one process, that are looked at */

/* Names a process of this boot. */
void intake_key(pid_t pid, uint64_t start, char ret[static INTAKE_KEY_MAX]);

/* Makes INTAKE itself. */
int intake_open(const char *intake, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * The directory of a process, made if need be, writable by uid. Returns a descriptor to be passed on. -EPERM: a daemon
 * without privileges serves its own user's jobs alone.
 */
int intake_make(const char *intake, const char *key, uid_t uid, gid_t gid, struct kymo_err *err) KYMO_MUST_CHECK;

/* Whole captures (<id>, and what was taken before) and unfinished ones (<id>.part) of a process. */
struct intake_found {
    char id[KYMO_HOOK_ID_MAX];
    bool is_part, is_taken; /* unfinished; moved out before */
    bool is_empty;          /* unfinished, and there is no file in it: a hook that was armed and had nothing to save */
};
/* Returns how many; 0 when there is nothing, or no directory. */
size_t intake_find(const char *intake, const char *key, struct intake_found *ret, size_t max);

/* One file of a taken capture. */
struct intake_file {
    char path[INTAKE_PATH_MAX];
    char name[INTAKE_NAME_MAX + 1]; /* below the capture, "/" as "-" */
    Kymo__Manifest__File__Kind type;
    bool has_vnc;
    uint32_t vnc;
    uint64_t pair; /* <n> of names that pair an NTFF with its NEFF; 0: none */
    uint64_t size;
    uint8_t sha256[KYMO_SHA256_SIZE]; /* of a NEFF */
};
struct intake_capture {
    char directory[INTAKE_PATH_MAX];     /* .t/<id>: to be removed when all is over */
    Kymo__Manifest__Capture *known;      /* what an earlier take wrote down; NULL: nothing */
    uint64_t start_unix_ns, end_unix_ns; /* by the files' times; 0: no files */
    uint64_t bytes;                      /* of all files, also of those left out */
    size_t nentries;                     /* files and folders */
    bool is_too_large;                   /* beyond what was allowed: nothing is listed */
    size_t nfiles, nleft_out;            /* left out: no regular files of the job's user, or too many */
    struct intake_file files[INTAKE_FILES_MAX];
};
/*
 * Moves a whole capture out of the job's reach and lists it by name. One that was moved before is just listed. known:
 * a packed manifest without files to be kept with it, for a kymod that has to begin again; NULL: nothing is known. uid:
 * whose files count. bytes_max: a capture of more, or of more than INTAKE_ENTRIES_MAX entries, is too large; no file of
 * it is read. -ENOENT: there is none; -EINVAL: it is no directory (and is removed).
 */
struct intake_taking {
    const char *id;
    uid_t uid;
    const uint8_t *known;
    size_t known_n;
    uint64_t bytes_max;
};
int intake_take(const char *intake, const char *key, const struct intake_taking *t, struct intake_capture **ret,
                struct kymo_err *err) KYMO_MUST_CHECK;
struct intake_capture *intake_capture_free(struct intake_capture *c); /* NULL is fine; returns NULL */
/* What a file's name says: type, vnc, pair. */
void intake_classify(const char *base, struct intake_file *f);

/* Removes <id>.part, or another directory of the process that is of no use. */
void intake_discard(const char *intake, const char *key, const char *id, bool is_part);
/* What a process has here on disk now, taken or not; nothing is changed. entries: at most INTAKE_ENTRIES_MAX + 1, and
 * then bytes are those so far. */
void intake_measure(const char *intake, const char *key, uint64_t *ret_bytes, size_t *ret_entries);
/* Removes all that a process has not handed over, and takes its directory away from it until intake_make. */
void intake_empty(const char *intake, const char *key);
/* Removes all of a process; whole captures that were not taken would be lost with it. */
void intake_remove(const char *intake, const char *key);

/* packed: a manifest. */
int intake_save_state(const char *intake, const char *key, const uint8_t *packed, size_t n,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* NULL: there is none, or none that can be read. Free with kymo__manifest__capture__free_unpacked. */
Kymo__Manifest__Capture *intake_load_state(const char *intake, const char *key);

/* Calls each for every process that has something here. */
struct intake_process {
    char key[INTAKE_KEY_MAX];
    pid_t pid;
    uint64_t start;
    uid_t uid; /* owner of its directory */
};
int intake_each(const char *intake, int (*each)(void *ctx, const struct intake_process *p), void *ctx,
                struct kymo_err *err) KYMO_MUST_CHECK;

#endif
