#include "formats/ntff/ntff_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/ntff_index.h"
#include "formats/ntff/pb_wire.h"
#include "proto/pb_alloc.h"

#define SLOT_SIZE 64

/* An honest message needs about ten times its size once unpacked; the floor leaves room for small ones. */
#define UNPACKED_FLOOR (1ull << 20)
#define UNPACKED_RATIO 32

struct ntff_reader {
    char *path;
    int fd;
    struct ntff_header header;
    struct pb_alloc alloc; /* everything in info came from it */
    Ntff__NtffInfo *info;
    struct ntff_index index;
};

static struct ntff_reader *reader_new(const char *path, struct kymo_err *err)
{
    struct ntff_reader *r = KYMO_NEW(struct ntff_reader);
    char *copy = kymo_strdup(path);
    if (!r || !copy) {
        kymo_free(r);
        kymo_free(copy);
        (void)kymo_err_set(err, -ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    r->path = copy;
    r->fd = -1;
    return r;
}

struct ntff_reader *ntff_reader_free(struct ntff_reader *r)
{
    if (!r)
        return NULL;
    if (r->info)
        ntff__ntff_info__free_unpacked(r->info, &r->alloc.pb);
    ntff_index_done(&r->index);
    (void)kymo_file_close(r->fd);
    kymo_free(r->path);
    kymo_free(r);
    return NULL;
}

void ntff_reader_freep(struct ntff_reader **r)
{
    *r = ntff_reader_free(*r);
}

/* While opening, a file that ends early has changed under us: -ENODATA is kept for the file of 0 bytes. */
static int read_at_open(const struct ntff_reader *r, void *buf, size_t n, uint64_t off, struct kymo_err *err)
{
    int code = kymo_file_pread_all(r->fd, buf, n, off, r->path, err);
    if (code != -ENODATA)
        return code;
    return kymo_err_set(err, -EPROTO, "%s: offset %llu: truncated while it was read", r->path, (unsigned long long)off);
}

static int read_header(struct ntff_reader *r, uint64_t size, struct kymo_err *err)
{
    if (size == 0)
        return kymo_err_set(err, -ENODATA, "%s: 0 bytes: the core executed nothing while it was profiled", r->path);
    if (size < NTFF_HEADER_SIZE)
        return kymo_err_set(err, -EPROTO, "%s: offset %llu: truncated inside the header of %d bytes", r->path,
                            (unsigned long long)size, NTFF_HEADER_SIZE);
    uint8_t bytes[NTFF_HEADER_SIZE];
    int code = read_at_open(r, bytes, sizeof bytes, 0, err);
    return code < 0 ? code : ntff_header_decode(bytes, size, r->path, &r->header, err);
}

static int check_padding(const struct ntff_reader *r, uint64_t from, uint64_t to, struct kymo_err *err)
{
    uint8_t bytes[NTFF_ALIGN];
    size_t n = (size_t)(to - from); /* below NTFF_ALIGN: the header's places were checked */
    int code = read_at_open(r, bytes, n, from, err);
    for (size_t i = 0; code == 0 && i < n; i++)
        if (bytes[i])
            code = kymo_err_set(err, -EPROTO, "%s: offset %llu: padding is not zero", r->path,
                                (unsigned long long)from + i);
    return code;
}

/*
 * The wire walk comes first: it says where a protobuf breaks, and it holds known fields to their wire types and all
 * numbers to protobuf's range, which protobuf-c does not.
 */
static int check_protobuf(const struct ntff_reader *r, const uint8_t *data, size_t n, struct kymo_err *err)
{
    size_t at = 0;
    const char *cause = pb_find_error(&ntff__ntff_info__descriptor, data, n, &at);
    return cause ? kymo_err_set(err, -EPROTO, "%s: offset %llu: the protobuf does not parse: %s", r->path,
                                (unsigned long long)NTFF_HEADER_SIZE + at, cause)
                 : 0;
}

static int unpack_info(struct ntff_reader *r, const uint8_t *data, size_t n, struct kymo_err *err)
{
    uint64_t cap = UNPACKED_FLOOR + UNPACKED_RATIO * (uint64_t)n;
    pb_alloc_init(&r->alloc, cap < NTFF_UNPACKED_MAX ? cap : NTFF_UNPACKED_MAX);
    r->info = ntff__ntff_info__unpack(&r->alloc.pb, n, data);
    if (r->info)
        return 0;
    if (r->alloc.exceeded)
        return kymo_err_set(err, -ENOMEM,
                            "%s: offset %d: the protobuf of %zu bytes needs more than %llu bytes of memory", r->path,
                            NTFF_HEADER_SIZE, n, (unsigned long long)r->alloc.cap);
    if (r->alloc.failed)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", r->path);
    return kymo_err_set(err, -EPROTO, "%s: offset %d: the protobuf does not parse: a value does not fit its field",
                        r->path, NTFF_HEADER_SIZE);
}

static int read_info(struct ntff_reader *r, struct kymo_err *err)
{
    size_t n = (size_t)r->header.protobuf_size; /* at most NTFF_PROTOBUF_MAX */
    uint8_t *data KYMO_FREE = kymo_malloc(n);
    if (!data)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory for a protobuf of %zu bytes", r->path, n);
    int code = read_at_open(r, data, n, NTFF_HEADER_SIZE, err);
    if (code < 0)
        return code;
    uint32_t crc = kymo_crc32c(0, data, n);
    if (crc != r->header.protobuf_crc32c)
        return kymo_err_set(err, -EPROTO, "%s: offset %d: protobuf CRC32C is %08x in the header, its bytes give %08x",
                            r->path, NTFF_HEADER_SIZE, r->header.protobuf_crc32c, crc);
    code = check_protobuf(r, data, n, err);
    return code < 0 ? code : unpack_info(r, data, n, err);
}

static int open_into(struct ntff_reader *r, struct kymo_err *err)
{
    uint64_t size = 0;
    r->fd = kymo_file_open_regular(r->path, &size, err);
    if (r->fd < 0)
        return r->fd;
    int code = read_header(r, size, err);
    if (code == 0)
        code = read_info(r, err);
    const struct ntff_header *h = &r->header;
    if (code == 0)
        code = check_padding(r, NTFF_HEADER_SIZE + h->protobuf_size, h->instruction_base, err);
    if (code == 0)
        code = check_padding(r, h->instruction_base + h->instruction_size, h->notification_base, err);
    return code < 0 ? code : ntff_index_build(r->info, h, r->path, &r->index, err);
}

int ntff_reader_open(const char *path, struct ntff_reader **ret, struct kymo_err *err)
{
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = reader_new(path, err);
    if (!r)
        return -ENOMEM;
    int code = open_into(r, err);
    if (code < 0)
        return code;
    *ret = KYMO_TAKE(r);
    return 0;
}

const char *ntff_reader_path(const struct ntff_reader *r)
{
    return r->path;
}

const Ntff__NtffInfo *ntff_reader_info(const struct ntff_reader *r)
{
    return r->info;
}

const struct ntff_header *ntff_reader_header(const struct ntff_reader *r)
{
    return &r->header;
}

size_t ntff_reader_ring_count(const struct ntff_reader *r)
{
    return r->index.n;
}

const struct ntff_ring *ntff_reader_ring(const struct ntff_reader *r, size_t i)
{
    return &r->index.rings[i].pub;
}

/* The last piece that begins at or before the record. The ring has at least one. */
static size_t find_piece(const struct ntff_index_ring *ring, uint64_t index)
{
    size_t low = 0, high = ring->n;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (ring->pieces[mid].first <= index)
            low = mid;
        else
            high = mid;
    }
    return low;
}

int ntff_reader_records(const struct ntff_reader *r, size_t i, uint64_t first, size_t n, uint8_t *buf,
                        struct kymo_err *err)
{
    const struct ntff_index_ring *ring = &r->index.rings[i];
    if (first > ring->pub.records || n > ring->pub.records - first)
        return kymo_err_set(err, -ERANGE, "%s: records %llu to %llu of a ring that has %llu", r->path,
                            (unsigned long long)first, (unsigned long long)first + n,
                            (unsigned long long)ring->pub.records);
    for (size_t p = n > 0 ? find_piece(ring, first) : 0; n > 0; p++) {
        uint64_t end = p + 1 < ring->n ? ring->pieces[p + 1].first : ring->pub.records;
        size_t part = n < end - first ? n : (size_t)(end - first);
        uint64_t offset = ring->pieces[p].offset + (first - ring->pieces[p].first) * KYMO_RECORD_SIZE;
        int code = kymo_file_pread_all(r->fd, buf, part * KYMO_RECORD_SIZE, offset, r->path, err);
        if (code < 0)
            return code;
        buf += part * KYMO_RECORD_SIZE;
        first += part;
        n -= part;
    }
    return 0;
}

uint64_t ntff_reader_record_offset(const struct ntff_reader *r, size_t i, uint64_t index)
{
    const struct ntff_index_ring *ring = &r->index.rings[i];
    if (index >= ring->pub.records)
        return r->header.file_size;
    const struct ntff_piece *piece = &ring->pieces[find_piece(ring, index)];
    return piece->offset + (index - piece->first) * KYMO_RECORD_SIZE;
}

int ntff_reader_bytes(const struct ntff_reader *r, uint64_t offset, size_t n, void *buf, struct kymo_err *err)
{
    return kymo_file_pread_all(r->fd, buf, n, offset, r->path, err);
}

int ntff_reader_image(const struct ntff_reader *r, const Ntff__EngineInstructionInfo *info, uint8_t **ret,
                      size_t *ret_slots, struct kymo_err *err)
{
    bool is_inline = info->instructions.len > 0;
    size_t n = is_inline ? info->instructions.len : (size_t)info->instructions_size;
    uint8_t *image KYMO_FREE = kymo_malloc(n);
    if (!image)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory for an image of %zu bytes", r->path, n);
    if (is_inline) {
        memcpy(image, info->instructions.data, n);
    } else {
        uint64_t offset = r->header.instruction_base + info->instructions_offset;
        int code = kymo_file_pread_all(r->fd, image, n, offset, r->path, err);
        if (code < 0)
            return code;
    }
    *ret_slots = n / SLOT_SIZE;
    *ret = KYMO_TAKE(image);
    return 0;
}
