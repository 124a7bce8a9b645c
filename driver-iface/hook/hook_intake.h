/* The directory that the daemon made for this process: captures are written below <id>.part, which becomes <id> when it
 * is whole. Paths go over /proc/self/fd, so that they hold in any mount namespace. */
#ifndef KYMO_DRIVER_IFACE_HOOK_HOOK_INTAKE_H
#define KYMO_DRIVER_IFACE_HOOK_HOOK_INTAKE_H

#include <stdbool.h>

#include "proto/hook.h"

#define HOOK_PATH_MAX 192

void hook_intake_set(int fd); /* takes fd; one that is no directory changes nothing */
bool hook_intake_usable(void);
/* Makes <id>.part and its path. False: it exists already, or cannot be made. */
bool hook_intake_open(const char *id, char path[HOOK_PATH_MAX]);
/* Publishes what was written; without a single file the directory goes away. False: there is no <id> now. */
bool hook_intake_publish(const char *id);
/* Its file system is full, or so nearly that this explains why a capture could not be written. *ret_free may be NULL.
 */
bool hook_intake_is_full(unsigned long long *ret_free);
void hook_intake_discard(const char *id); /* removes what is empty; files stay for the daemon */
void hook_intake_forked(void);

#endif
