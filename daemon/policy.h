/*
 * What one rank is told: the operator's policy for its job, with buffers as its jobs have taught them, as far as the
 * budget of device memory allows, and what the hook is to compare with the device's memory before it arms. Pure, but
 * for what it is given.
 */
#ifndef KYMO_DAEMON_POLICY_H
#define KYMO_DAEMON_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/config.h"
#include "daemon/host.h"
#include "daemon/learned.h"
#include "daemon/process.h"
#include "proto/hook.h"

#define POLICY_NOTE_MAX 256

struct policy_inputs {
    const struct config *config;
    const struct host *host;
    const struct learned *learned; /* NULL: nothing was learned */
    const struct process *who;     /* NULL: not known yet; then nothing is armed */
};

/* note: for the log, when buffers are not what the operator wrote; else "". */
void policy_make(const struct policy_inputs *in, struct kymo_hook_policy *ret, char note[static POLICY_NOTE_MAX]);

/* Sizes that a rank with this policy has, 0: as the runtime does by itself. */
void policy_buffers(const struct kymo_hook_policy *p, uint64_t ret_mb[CONFIG_BUFFERS]);

#endif
