/* SQLite's files with faults: the process ends, or the disk is full, at the nth call that writes. Syncs do nothing. */
#ifndef KYMO_TESTS_UNIT_KILLING_VFS_H
#define KYMO_TESTS_UNIT_KILLING_VFS_H

#include <stdbool.h>

#define KILLING_VFS_CODE 78 /* exit code of a process that was ended so */

/* Becomes the process's default VFS. Call before catalogues are opened. */
void killing_vfs_install(void);
/* From the nth write on (0: the first; negative: never). full: SQLITE_FULL instead of the end. */
void killing_vfs_arm(long nth, bool full);
long killing_vfs_calls(void); /* writes since */

#endif
