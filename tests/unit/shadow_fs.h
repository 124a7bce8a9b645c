/*
 * A file system with a memory of what was synced: a table for base/file.h that works on a real directory, fails chosen
 * operations, cuts the power at one, and then lays out what a disk might hold. Process-wide; tests only.
 *
 * A file survives as it was when it was last synced; a name as its directory was when that was last synced.
 */
#ifndef KYMO_TESTS_SHADOW_FS_H
#define KYMO_TESTS_SHADOW_FS_H

#include <stdbool.h>
#include <stdint.h>

enum shadow_survival {
    SHADOW_SYNCED, /* nothing but what was synced */
    SHADOW_ALL,    /* everything: the process died, not the machine */
    SHADOW_SOME,   /* of each unsynced name, and of each file's unsynced bytes, chance decides */
};

/* What is below root now counts as synced. Operations that change something are counted from 1. */
void shadow_start(const char *root);
void shadow_stop(void); /* back to the system's table */
long shadow_operations(void);
/* Operation `at` fails with cause (0: a write is short by half, the next one goes on). Negative at: never. */
void shadow_fail(long at, int cause);
/* Operation `at` and all later ones fail and change nothing. Negative: never. */
void shadow_cut_power(long at);
/* Free space that statvfs tells; UINT64_MAX: the truth. */
void shadow_set_free(uint64_t bytes);
/* Lays out what survived as the new directory `to`. After shadow_stop. */
void shadow_lay_out(const char *to, enum shadow_survival survival, uint64_t seed);

#endif
