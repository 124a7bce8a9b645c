/*
 * The drop-in file that puts the hook into a unit: DIR/UNIT.d/50-kymo.conf. Its first line is kymo's mark; a file of
 * that name without the mark is somebody else's and is never touched. Further lines of comment keep what taking it out
 * needs: which slice it came through, and how many directories were made for it.
 */
#ifndef KYMO_TOOLS_HOOK_DROPIN_H
#define KYMO_TOOLS_HOOK_DROPIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define HOOK_DROPIN_FILE "50-kymo.conf"
#define HOOK_DROPIN_BYTES_MAX (64u << 10)
#define HOOK_DROPIN_UNIT_MAX 255 /* systemd's limit of a unit's name */
#define HOOK_DROPIN_PATH_MAX 4096
#define HOOK_DROPIN_LISTED_MAX 4096 /* drop-ins of one directory */

struct hook_dropin {
    const char *hook;    /* path of libkymo-hook.so */
    const char *preload; /* what the unit preloads by itself; "": nothing */
    const char *socket;  /* directory of the daemon's socket; NULL: the hook's default */
    const char *through; /* the slice that was named; NULL: the unit itself was */
};

/* A path that needs no quoting anywhere: absolute, of [A-Za-z0-9._/+-]. */
bool hook_dropin_path_ok(const char *path);
/* A name that systemd could have given a unit: its characters, a known suffix, at most 255. No path can hide in it. */
bool hook_dropin_unit_ok(const char *name, const char *suffix);

/* Entries of LD_PRELOAD's value without those that are a libkymo-hook.so, joined by ":". */
int hook_dropin_preload_without(const char *list, struct kymo_buf *ret, struct kymo_err *err) KYMO_MUST_CHECK;
bool hook_dropin_preload_has(const char *list, const char *hook);

/* One write, so that it can be undone. Zero-initialise; hook_dropin_done frees. */
struct hook_dropin_change {
    char *path; /* of the drop-in; NULL: nothing was done */
    struct kymo_buf old;
    bool existed, changed;
    unsigned made; /* directories, counted from the innermost */
};
void hook_dropin_done(struct hook_dropin_change *c);

/*
 * Makes the file what it should be; changed says whether it was not so before. -EEXIST: there is one without our mark.
 * Nothing is left behind on failure.
 */
int hook_dropin_write(const char *dir, const char *unit, const struct hook_dropin *d, struct hook_dropin_change *ret,
                      struct kymo_err *err) KYMO_MUST_CHECK;
/* As it was before the write. */
int hook_dropin_undo(struct hook_dropin_change *c, struct kymo_err *err) KYMO_MUST_CHECK;
/*
 * Takes the file out, and the directories that were made for it as far as they are empty. 1: done; 0: there is none;
 * -EEXIST: without our mark.
 */
int hook_dropin_remove(const char *dir, const char *unit, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Calls each for the units in dir that have a drop-in of ours; through: the slice that it came through, "" for none.
 * unit and through hold during the call. A dir that is not there has none.
 */
int hook_dropin_each(const char *dir, int (*each)(void *ctx, const char *unit, const char *through), void *ctx,
                     struct kymo_err *err) KYMO_MUST_CHECK;

#endif
