/* Gunzip from memory in pieces, checking each stream's CRC and length. Not thread-safe. */
#ifndef KYMO_FORMATS_NEFF_NEFF_INFLATE_H
#define KYMO_FORMATS_NEFF_NEFF_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct neff_inflate;

struct neff_inflate *neff_inflate_new(const uint8_t *data, size_t n, uint64_t max_output); /* NULL: out of memory */
struct neff_inflate *neff_inflate_free(struct neff_inflate *g);
/* Next piece, valid until the next call; *ret_n 0 at the end. -EBADMSG when the stream is damaged, -EFBIG beyond
 * max_output. */
int neff_inflate_next(struct neff_inflate *g, const uint8_t **ret, size_t *ret_n);
/* Bytes behind the last gzip stream; meaningful at the end. */
size_t neff_inflate_trailing(const struct neff_inflate *g);

#endif
