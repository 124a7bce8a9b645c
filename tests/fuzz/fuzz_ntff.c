/*
 * NTFF files: opened from memory, all rings and images walked. Checksums would stop nearly every mutation at the door,
 * so each input with our magic is tried a second time with its header and checksums repaired around it. The bytes also
 * go through the schema-less dump and the table of facts.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/le.h"
#include "formats/ntff/ntff_facts.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/ntff_reader.h"
#include "formats/ntff/ntff_walk.h"
#include "formats/ntff/pb_dump.h"
#include "formats/ntff/record.h"

#define BATCH 1000
#define SECTION_MAX 65536 /* of a repaired file */
#define BYTES_WALKED_MAX (1u << 22)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file = -1;
static char path[64];

static void must(int holds)
{
    if (!holds)
        abort();
}

static void put(const uint8_t *data, size_t size, uint64_t file_size)
{
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        must(file >= 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    must(ftruncate(file, 0) == 0 && ftruncate(file, (off_t)file_size) == 0);
    must(pwrite(file, data, size, 0) == (ssize_t)size);
}

static void walk_ring(const struct ntff_reader *r, size_t i)
{
    static uint8_t buf[BATCH * KYMO_RECORD_SIZE];
    const struct ntff_ring *ring = ntff_reader_ring(r, i);
    must(ring->pcore_idx < 2 && ring->engine_index <= NTFF_ENGINE_INDEX_MAX);
    for (uint64_t at = 0; at < ring->records && at < BYTES_WALKED_MAX; at += BATCH) {
        size_t n = ring->records - at < BATCH ? (size_t)(ring->records - at) : BATCH;
        must(ntff_reader_records(r, i, at, n, buf, NULL) == 0);
        for (size_t k = 0; k < n; k++) {
            struct record rec;
            record_decode(buf + k * KYMO_RECORD_SIZE, &rec);
        }
        must(ntff_reader_record_offset(r, i, at) < ntff_reader_header(r)->file_size);
    }
}

static int walk_image(void *ctx, Ntff__EngineInstructionInfo *info, const struct ntff_place *place)
{
    (void)place;
    uint8_t *image KYMO_FREE = NULL;
    size_t slots;
    must(ntff_reader_image(ctx, info, &image, &slots, NULL) == 0);
    return 0;
}

static void open_and_walk(void)
{
    static const struct ntff_visitor visitor = {.image = walk_image};
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    struct kymo_err err = {0};
    int code = ntff_reader_open(path, &r, &err);
    must(code == 0 || (code == err.code && err.text[0]));
    if (code < 0)
        return;
    for (size_t i = 0; i < ntff_reader_ring_count(r); i++)
        walk_ring(r, i);
    must(ntff_walk(ntff_reader_info(r), &visitor, r) == 0);
}

/* The input's protobuf between a header and sections that fit it. */
static void open_repaired(const uint8_t *data, size_t size)
{
    size_t room = size - NTFF_HEADER_SIZE;
    uint64_t protobuf = kymo_le64(data + 0x10);
    struct ntff_header h = {
        .ntff_version = kymo_le32(data + 0x0c),
        .protobuf_size = protobuf < room ? protobuf : room,
        .instruction_size = kymo_le64(data + 0x20) % SECTION_MAX,
        .notification_size = kymo_le64(data + 0x30) % SECTION_MAX,
        .flags = kymo_le32(data + 0x44) & NTFF_FLAG_NO_RECORDS,
    };
    h.protobuf_crc32c = kymo_crc32c(0, data + NTFF_HEADER_SIZE, (size_t)h.protobuf_size);
    must(ntff_header_lay_out(&h) == 0);
    uint8_t header[NTFF_HEADER_SIZE];
    ntff_header_encode(&h, header);
    put(header, sizeof header, h.file_size);
    must(pwrite(file, data + NTFF_HEADER_SIZE, (size_t)h.protobuf_size, NTFF_HEADER_SIZE) == (ssize_t)h.protobuf_size);
    /* What is left of the input lands in the record section. */
    size_t rest = room - (size_t)h.protobuf_size;
    if (rest > h.notification_size)
        rest = (size_t)h.notification_size;
    must(pwrite(file, data + size - rest, rest, (off_t)h.notification_base) == (ssize_t)rest);
    open_and_walk();
}

static void on_field(void *ctx, const struct pb_field *f, enum pb_kind kind, size_t offset)
{
    must(offset < *(const size_t *)ctx && f->number > 0 && kind >= PB_KIND_NUMBER);
}

static void on_leave(void *ctx)
{
    (void)ctx;
}

static void dump(const uint8_t *data, size_t size)
{
    static const struct pb_dump_ops ops = {.field = on_field, .leave = on_leave};
    struct pb_dump d = {.ops = &ops, .ctx = &size, .top_number_max = NTFF_FACTS_TOP_NUMBER_MAX};
    const char *cause = NULL;
    size_t used = pb_dump_message(&d, data, size, &cause);
    must(used <= size && (used == size) == (cause == NULL));
    (void)ntff_facts_free(ntff_facts_check(data, used));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    put(data, size, size);
    open_and_walk();
    if (size >= NTFF_HEADER_SIZE && ntff_header_is_ours(data, size))
        open_repaired(data, size);
    dump(data, size);
    if (size > NTFF_HEADER_SIZE)
        dump(data + NTFF_HEADER_SIZE, size - NTFF_HEADER_SIZE);
    return 0;
}
