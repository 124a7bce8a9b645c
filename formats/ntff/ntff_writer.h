/*
 * Writes an NTFF file: the caller fills an Ntff__NtffInfo without offsets and names the bytes of each image and ring
 * piece; the writer lays them out, fills offsets and sizes in, streams the bytes, and publishes by rename.
 */
#ifndef KYMO_FORMATS_NTFF_NTFF_WRITER_H
#define KYMO_FORMATS_NTFF_NTFF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/ntff.pb-c.h"

/* Bytes to be copied; read must give exactly n bytes at off or fail with a negative errno. */
struct ntff_source {
    uint64_t size;
    int (*read)(void *ctx, uint64_t off, void *buf, size_t n);
    void *ctx;
};

struct ntff_image_source {
    Ntff__EngineInstructionInfo *info;
    struct ntff_source bytes;
};
struct ntff_ring_source {
    Ntff__TraceInfo *info;
    struct ntff_source bytes;
};

/*
 * Sets offset and size in every image and ring piece of info, packs, writes to path.tmp, syncs, renames, syncs the
 * directory. info is changed only in those fields, and in ntff_version when that is 0. Every source names an entry of
 * info, each once; an entry without a source stores nothing (an image may be inline). Order of the sources is free: the
 * file's order is that of info. What a reader would refuse is refused here (-EINVAL, with the reader's words). On
 * failure nothing is left at path or path.tmp.
 */
int ntff_writer_write(const char *path, Ntff__NtffInfo *info, const struct ntff_image_source *images, size_t n_images,
                      const struct ntff_ring_source *rings, size_t n_rings, struct kymo_err *err) KYMO_MUST_CHECK;

/* A source over memory. ctx of the result points to mem, which must stay. */
struct ntff_source ntff_source_memory(const void *mem, size_t n);

/*
 * Reads the file at from and writes it again to path with nothing changed: blobs byte by byte, the protobuf unpacked
 * and packed anew with all fields that this version does not know. from and path may be the same. Refuses what the
 * reader refuses.
 */
int ntff_rewrite(const char *from, const char *path, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
