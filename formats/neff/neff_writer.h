/*
 * Packs members into a NEFF file: header, then a (gzip) pax tar in path order, owner nobody, times 0 (neff.md 1.2).
 * Used by the simulator's program builder and by tests. Deterministic: same input, same bytes.
 */
#ifndef KYMO_FORMATS_NEFF_NEFF_WRITER_H
#define KYMO_FORMATS_NEFF_NEFF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/neff/neff.h"

struct neff_writer;

struct neff_writer *neff_writer_new(void); /* NULL: out of memory */
struct neff_writer *neff_writer_free(struct neff_writer *w);
void neff_writer_freep(struct neff_writer **w);
/* Copies. A name twice is -EEXIST; an unsafe name -EINVAL. */
int neff_writer_add(struct neff_writer *w, const char *name, const void *data, size_t n,
                    struct kymo_err *err) KYMO_MUST_CHECK;
/* Fills data_size and hash of a copy of *header (pkg_version 1: plain tar and SHA-256; 2: gzip and MD5), writes
 * atomically. */
int neff_writer_write(struct neff_writer *w, const struct neff_header *header, const char *path,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
