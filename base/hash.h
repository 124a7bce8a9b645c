/* Message digests over OpenSSL: SHA-256 and, for NEFF packages of version 2, MD5. */
#ifndef KYMO_BASE_HASH_H
#define KYMO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define KYMO_SHA256_SIZE 32
#define KYMO_MD5_SIZE 16

int kymo_hash_sha256(const void *data, size_t n, uint8_t ret[KYMO_SHA256_SIZE]) KYMO_MUST_CHECK;
int kymo_hash_md5(const void *data, size_t n, uint8_t ret[KYMO_MD5_SIZE]) KYMO_MUST_CHECK;
/* Piece by piece. NULL: no memory. add and end: -EIO; end gives the digest of all that was added. */
struct kymo_sha256 *kymo_sha256_new(void);
int kymo_sha256_add(struct kymo_sha256 *s, const void *data, size_t n) KYMO_MUST_CHECK;
int kymo_sha256_end(struct kymo_sha256 *s, uint8_t ret[KYMO_SHA256_SIZE]) KYMO_MUST_CHECK;
void kymo_sha256_freep(struct kymo_sha256 **s);
/* Whole file, streamed. */
int kymo_hash_sha256_file(const char *path, uint8_t ret[KYMO_SHA256_SIZE], struct kymo_err *err) KYMO_MUST_CHECK;
/* Lower-case hex of n bytes into out (2 n + 1 bytes). */
void kymo_hash_hex(const uint8_t *data, size_t n, char *out);

#endif
