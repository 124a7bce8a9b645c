/*
 * What kymo-process may still do once untrusted bytes are about to be read: files and memory, and nothing else. No new
 * privileges, no program, process, thread or network, no executable memory. For the process's life.
 */
#ifndef KYMO_PIPELINE_PROCESS_SANDBOX_H
#define KYMO_PIPELINE_PROCESS_SANDBOX_H

#include "base/err.h"

/*
 * Calls that a profile's bytes could only want for an attack end the process with SIGSYS; all others that are not
 * needed fail with EPERM, so that a newer libc that probes for something goes on without it. Builds with a sanitizer
 * get no new privileges only: their leak checker needs threads and ptrace.
 */
int process_sandbox_enter(struct kymo_err *err) KYMO_MUST_CHECK;

#endif
