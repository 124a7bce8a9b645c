/*
 * What a program may still do once it is about to read bytes of somebody else: files and memory, and nothing else. No
 * new privileges, no program, process, thread or network, no executable memory. For the process's life and all threads
 * that it has.
 */
#ifndef KYMO_BASE_SANDBOX_H
#define KYMO_BASE_SANDBOX_H

#include "base/err.h"

/*
 * Calls that such bytes could only want for an attack end the process with SIGSYS; all others that are not needed fail
 * with EPERM, so that a newer libc that probes for something goes on without it. Builds with a sanitizer get no new
 * privileges only: their leak checker needs threads and ptrace.
 */
int kymo_sandbox_enter(struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * For a program that reads files of others, with threads, and answers over a socket that it has: threads but no
 * programs and processes, no network, no executable memory, and no file opened for writing, made, renamed or removed.
 */
int kymo_sandbox_enter_reader(struct kymo_err *err) KYMO_MUST_CHECK;

#endif
