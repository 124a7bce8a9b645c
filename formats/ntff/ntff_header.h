/*
 * The fixed 128 bytes at the start of an NTFF file, and the places of its sections (FORMAT.md, Header). Pure functions.
 */
#ifndef KYMO_FORMATS_NTFF_NTFF_HEADER_H
#define KYMO_FORMATS_NTFF_NTFF_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/ntff/ntff_reader.h"

#define NTFF_HEADER_VERSION 1
#define NTFF_ALIGN 64 /* both blob sections begin at a multiple of it */
#define NTFF_FLAG_NO_RECORDS (1u << 0)

struct ntff_header {
    uint32_t ntff_version;
    uint64_t protobuf_size;
    uint64_t instruction_base, instruction_size;
    uint64_t notification_base, notification_size;
    uint64_t file_size;
    uint32_t protobuf_crc32c;
    uint32_t flags;
};

/*
 * Fills the bases and file_size in from the three sizes, which together stay below 2^63: each section begins at the
 * first multiple of NTFF_ALIGN behind the one before. -EFBIG beyond that.
 */
int ntff_header_lay_out(struct ntff_header *h) KYMO_MUST_CHECK;
void ntff_header_encode(const struct ntff_header *h, uint8_t bytes[NTFF_HEADER_SIZE]);
/* Does the file begin with kymo's magic? n bytes of it are at hand. */
bool ntff_header_is_ours(const uint8_t *bytes, uint64_t n);
/*
 * Decodes and checks everything that the header alone and the file's size decide. name stands in the text. -EPROTO:
 * foreign, broken, truncated or with trailing data.
 */
int ntff_header_decode(const uint8_t bytes[NTFF_HEADER_SIZE], uint64_t file_size, const char *name,
                       struct ntff_header *ret, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
