/*
 * Reads an NTFF file (FORMAT.md). Opening checks header, protobuf and every range; record bytes are read on demand, so
 * a file of any size costs only its protobuf in memory. A reader may be shared by threads once open: reads use pread.
 */
#ifndef KYMO_FORMATS_NTFF_NTFF_READER_H
#define KYMO_FORMATS_NTFF_NTFF_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/ntff.pb-c.h"

#define NTFF_MAGIC "\x89KYMONTF"
#define NTFF_HEADER_SIZE 128
#define NTFF_VERSION 7
#define NTFF_PROTOBUF_MAX (256u << 20)
#define NTFF_IMAGE_MAX (1ull << 30)
#define NTFF_RINGS_MAX 1024
#define NTFF_PIECES_MAX (1u << 20) /* of all rings, empty ones too */
#define NTFF_ENGINE_INDEX_MAX 255
#define NTFF_UNPACKED_MAX                                                                                              \
    (1ull << 30) /* memory of the unpacked protobuf; see ntff_reader.c for the cap of small ones */

struct ntff_reader;
struct ntff_header;

/*
 * -ENODATA: the file has 0 bytes (a core that executed nothing). -EPROTO: foreign or broken; text has offset and cause.
 * -ENOMEM: the unpacked protobuf needs more memory than the limit or than there is.
 */
int ntff_reader_open(const char *path, struct ntff_reader **ret, struct kymo_err *err) KYMO_MUST_CHECK;
struct ntff_reader *ntff_reader_free(struct ntff_reader *r);
void ntff_reader_freep(struct ntff_reader **r);

const char *ntff_reader_path(const struct ntff_reader *r);
const Ntff__NtffInfo *ntff_reader_info(const struct ntff_reader *r); /* lives as long as r */

/*
 * All rings of the profile, session and per-core ones alike, pieces joined: one entry per (ring, nc, engine), in order
 * of their first pieces in the file. An open reader holds: kind < KYMO_RING_MAX, pcore_idx is 0 or 1, engine_index <=
 * NTFF_ENGINE_INDEX_MAX.
 */
struct ntff_ring {
    Ntff__RingKind kind;
    uint32_t nc_idx, pcore_idx, engine_index;
    uint64_t records; /* stored */
    uint64_t buffer_size;
    int has_counters;        /* both are there, and emitted = dropped + records */
    int counters_contradict; /* both are there, but do not fit the stored records: then has_counters is 0 */
    uint64_t emitted, dropped;
};
size_t ntff_reader_ring_count(const struct ntff_reader *r);
const struct ntff_ring *ntff_reader_ring(const struct ntff_reader *r, size_t i);
/* Reads records [first, first + n) of ring i into buf (16 * n bytes). -ERANGE: the ring has fewer. Allocates nothing.
 */
int ntff_reader_records(const struct ntff_reader *r, size_t i, uint64_t first, size_t n, uint8_t *buf,
                        struct kymo_err *err) KYMO_MUST_CHECK;
/* Offset in the file of a ring's record, for messages. */
uint64_t ntff_reader_record_offset(const struct ntff_reader *r, size_t i, uint64_t index);

/* Copies the image (inline or blob) of an info of this reader into fresh memory (kymo_free); *ret_slots of 64 bytes. */
int ntff_reader_image(const struct ntff_reader *r, const Ntff__EngineInstructionInfo *info, uint8_t **ret,
                      size_t *ret_slots, struct kymo_err *err) KYMO_MUST_CHECK;

/* The header's numbers: struct ntff_header of ntff_header.h. */
const struct ntff_header *ntff_reader_header(const struct ntff_reader *r);
/* Bytes of the file, for copying sections unchanged. */
int ntff_reader_bytes(const struct ntff_reader *r, uint64_t offset, size_t n, void *buf,
                      struct kymo_err *err) KYMO_MUST_CHECK;

#endif
