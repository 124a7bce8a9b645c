/*
 * Removal of folders that other users may still write to. Everything goes by descriptors and no link is followed, so
 * that nobody leads it elsewhere; folders become ours before they are emptied, so that it ends. May block.
 */
#ifndef KYMO_DAEMON_PURGE_H
#define KYMO_DAEMON_PURGE_H

/* Ours from now on: descriptors that others hold open neither make, rename nor unlink anything in it. 0 or -errno. */
int purge_lock(int fd);
/* Removes name in the folder at, which is ours, with all that is below it. What cannot be removed stays. */
void purge_entry(int at, const char *name);

#endif
