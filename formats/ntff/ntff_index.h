/*
 * The checked view of a profile's protobuf: every blob range lies in its section, every enumeration is known, and the
 * pieces of each ring are joined. Reader and writer share it, so that nothing is written that would be refused.
 */
#ifndef KYMO_FORMATS_NTFF_NTFF_INDEX_H
#define KYMO_FORMATS_NTFF_NTFF_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/ntff_reader.h"

struct ntff_piece {
    uint64_t first;  /* number of its first record in the ring */
    uint64_t offset; /* in the file */
};

struct ntff_index_ring {
    struct ntff_ring pub;
    struct ntff_piece *pieces;
    size_t n, cap;
};

struct ntff_index {
    struct ntff_index_ring *rings;
    size_t n, cap;
    uint64_t records; /* of all rings */
};

/* name stands in the text. *ret is untouched on failure. */
int ntff_index_build(const Ntff__NtffInfo *info, const struct ntff_header *header, const char *name,
                     struct ntff_index *ret, struct kymo_err *err) KYMO_MUST_CHECK;
void ntff_index_done(struct ntff_index *ix);

#endif
