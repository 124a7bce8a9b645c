/*
 * Small profiles for tests, golden files and fuzz corpora: built in memory, the same bytes in every run. An allocation
 * that fails here aborts: samples are made before failures are injected.
 */
#ifndef KYMO_TESTS_UNIT_NTFF_SAMPLE_H
#define KYMO_TESTS_UNIT_NTFF_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/ntff/ntff_writer.h"

enum ntff_sample_kind {
    NTFF_SAMPLE_MODEL,   /* one NEFF, LNC=1: every ring kind, every record kind, a loss, inline and blob images, patches
                          */
    NTFF_SAMPLE_SESSION, /* two NEFFs, LNC=2: session rings, two of them in pieces, a timeline */
    NTFF_SAMPLE_IDLE,    /* rings that stored nothing, no image */
    NTFF_SAMPLE_UNKNOWN, /* as IDLE, with fields that the schema does not have, of every wire type and at several depths
                          */
    NTFF_SAMPLE_MAX,
};

#define NTFF_SAMPLE_SOURCES_MAX 64

struct ntff_sample {
    Ntff__NtffInfo *info;
    struct ntff_image_source images[NTFF_SAMPLE_SOURCES_MAX];
    size_t n_images;
    struct ntff_ring_source rings[NTFF_SAMPLE_SOURCES_MAX];
    size_t n_rings;
    void *blobs[2 * NTFF_SAMPLE_SOURCES_MAX];
    size_t n_blobs;
};

struct ntff_sample *ntff_sample_new(enum ntff_sample_kind kind);
void ntff_sample_freep(struct ntff_sample **s);
const char *ntff_sample_name(enum ntff_sample_kind kind); /* model, session, idle */
/* Appends a field that m's schema does not have; bytes as on the wire, without the tag. */
void ntff_sample_add_unknown(ProtobufCMessage *m, uint32_t number, ProtobufCWireType wire, const void *data, size_t n);
Ntff__SubgraphInfo *ntff_sample_graph(struct ntff_sample *s); /* the first one */
int ntff_sample_write(struct ntff_sample *s, const char *path, struct kymo_err *err);

/*
 * A file as the vendor's might look by the facts: 128 bytes that mean nothing but one length, a message with their
 * numbers, blobs. One field contradicts the facts on purpose.
 */
void ntff_sample_write_foreign(const char *path);

/* Whole files; anything that fails aborts. The result is the caller's (kymo_free). */
uint8_t *ntff_sample_read(const char *path, size_t *ret_n);
void ntff_sample_put(const char *path, const void *data, size_t n);
/* Writes file (all bytes of a sound one) with another protobuf, laid out anew around the same blob sections: no check
 * is made. */
void ntff_sample_assemble(const char *path, const uint8_t *file, const void *protobuf, size_t n);

#endif
