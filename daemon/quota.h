/*
 * What the processes of one user may have in the intake together. A job writes there as its user does, beside what it
 * was asked for too; so a worker measures at times, and the job that has most loses it all and is switched off: its
 * hooks capture nothing until it ends, or the operator reloads the configuration. What is open but has no name any more
 * is not seen. Belongs to the loop's thread.
 */
#ifndef KYMO_DAEMON_QUOTA_H
#define KYMO_DAEMON_QUOTA_H

#include <stdbool.h>

#include "base/err.h"

struct jobs;
struct quota;

int quota_new(struct jobs *j, struct quota **ret, struct kymo_err *err) KYMO_MUST_CHECK;
bool quota_is_busy(const struct quota *q); /* a worker measures */
/* Not while it is busy. Goes when its handle is closed; NULL is fine; returns NULL. */
struct quota *quota_free(struct quota *q);

#endif
