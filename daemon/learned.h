/*
 * What rings of a job's earlier captures lost, and how large their buffers shall be at its next start. A small file in
 * the data directory keeps it: lines of job, buffer and MB with tabs between. On the loop's thread but for the file.
 */
#ifndef KYMO_DAEMON_LEARNED_H
#define KYMO_DAEMON_LEARNED_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/config.h"

#define LEARNED_JOBS_MAX 256 /* the one longest not heard of makes room */
#define LEARNED_MB_MAX 4096  /* no buffer grows beyond */

struct learned;

/* Reads the file; absent is fine, lines that make no sense are left out. */
int learned_open(const char *path, struct learned **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct learned *learned_free(struct learned *l); /* NULL is fine; returns NULL */

/* MB of a job's buffer (index as KYMO_HOOK_BUFFER_MAP); 0: nothing was learned. */
uint64_t learned_mb(const struct learned *l, const char *job, unsigned buffer);

/*
 * A ring of a job's capture lost records to a full buffer of mb_now (0: the runtime's default): emitted and lost as the
 * pipeline counted, emitted 0: not known. Returns the buffer's new size in MB, or 0 when nothing changes; *ret_buffer
 * is its index. ring is a label of LossLedger.
 */
uint64_t learned_loss(struct learned *l, const char *job, const char *ring, uint64_t emitted, uint64_t lost,
                      const uint64_t mb_now[CONFIG_BUFFERS], unsigned *ret_buffer);

/* The file's contents, for a worker to write: fresh memory. */
int learned_format(const struct learned *l, char **ret, size_t *ret_n, struct kymo_err *err) KYMO_MUST_CHECK;

/* Name of a buffer, as in NEURON_RT_PROFILE_BUF_<name>_MB, and its size without anybody's wish. */
const char *learned_buffer_name(unsigned buffer);
uint64_t learned_default_mb(unsigned buffer);

#endif
