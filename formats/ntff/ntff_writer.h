/*
 * Writes an NTFF file: the caller fills an Ntff__NtffInfo without offsets and names the bytes of each image and ring piece;
 * the writer lays them out, fills offsets and sizes in, streams the bytes, and publishes by rename.
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

struct ntff_image_source { Ntff__EngineInstructionInfo *info; struct ntff_source bytes; };
struct ntff_ring_source { Ntff__TraceInfo *info; struct ntff_source bytes; };

/*
 * Sets offset and size in every info named, packs, writes to path.tmp, syncs, renames. info is changed only in those fields.
 * On failure nothing is left at path or path.tmp.
 */
int ntff_writer_write(const char *path, Ntff__NtffInfo *info, const struct ntff_image_source *images, size_t n_images,
                      const struct ntff_ring_source *rings, size_t n_rings, struct kymo_err *err) KYMO_MUST_CHECK;

/* A source over memory. ctx of the result points to mem. */
struct ntff_source ntff_source_memory(const void *mem, size_t n);

#endif
