#include "formats/ntff/ntff_header.h"

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/le.h"

enum {
    AT_HEADER_VERSION = 0x08,
    AT_NTFF_VERSION = 0x0c,
    AT_PROTOBUF_SIZE = 0x10,
    AT_INSTRUCTION_BASE = 0x18,
    AT_INSTRUCTION_SIZE = 0x20,
    AT_NOTIFICATION_BASE = 0x28,
    AT_NOTIFICATION_SIZE = 0x30,
    AT_FILE_SIZE = 0x38,
    AT_PROTOBUF_CRC = 0x40,
    AT_FLAGS = 0x44,
    AT_ZERO = 0x48,
    AT_HEADER_CRC = 0x7c,
};

#define MAGIC_SIZE 8
#define SECTION_MAX (1ull << 61) /* three of them and their padding cannot wrap */

_Static_assert(sizeof NTFF_MAGIC - 1 == MAGIC_SIZE, "the magic has eight bytes");
_Static_assert(AT_HEADER_CRC + 4 == NTFF_HEADER_SIZE, "the header's CRC ends it");

static uint64_t align_up(uint64_t v)
{
    return (v + NTFF_ALIGN - 1) / NTFF_ALIGN * NTFF_ALIGN;
}

int ntff_header_lay_out(struct ntff_header *h)
{
    if (h->protobuf_size > SECTION_MAX || h->instruction_size > SECTION_MAX || h->notification_size > SECTION_MAX)
        return -EFBIG;
    h->instruction_base = align_up(NTFF_HEADER_SIZE + h->protobuf_size);
    h->notification_base = align_up(h->instruction_base + h->instruction_size);
    h->file_size = h->notification_base + h->notification_size;
    return 0;
}

void ntff_header_encode(const struct ntff_header *h, uint8_t bytes[NTFF_HEADER_SIZE])
{
    memset(bytes, 0, NTFF_HEADER_SIZE);
    memcpy(bytes, NTFF_MAGIC, MAGIC_SIZE);
    kymo_put_le32(bytes + AT_HEADER_VERSION, NTFF_HEADER_VERSION);
    kymo_put_le32(bytes + AT_NTFF_VERSION, h->ntff_version);
    kymo_put_le64(bytes + AT_PROTOBUF_SIZE, h->protobuf_size);
    kymo_put_le64(bytes + AT_INSTRUCTION_BASE, h->instruction_base);
    kymo_put_le64(bytes + AT_INSTRUCTION_SIZE, h->instruction_size);
    kymo_put_le64(bytes + AT_NOTIFICATION_BASE, h->notification_base);
    kymo_put_le64(bytes + AT_NOTIFICATION_SIZE, h->notification_size);
    kymo_put_le64(bytes + AT_FILE_SIZE, h->file_size);
    kymo_put_le32(bytes + AT_PROTOBUF_CRC, h->protobuf_crc32c);
    kymo_put_le32(bytes + AT_FLAGS, h->flags);
    kymo_put_le32(bytes + AT_HEADER_CRC, kymo_crc32c(0, bytes, AT_HEADER_CRC));
}

bool ntff_header_is_ours(const uint8_t *bytes, uint64_t n)
{
    return n >= MAGIC_SIZE && !memcmp(bytes, NTFF_MAGIC, MAGIC_SIZE);
}

static int refuse_magic(const uint8_t *b, const char *name, struct kymo_err *err)
{
    return kymo_err_set(
        err, -EPROTO,
        "%s: offset 0: foreign header: it begins with %02x %02x %02x %02x %02x %02x %02x %02x, not with the "
        "magic of an NTFF that kymo can read",
        name, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
}

/* What the fixed fields say about themselves. */
static int check_fixed(const uint8_t *bytes, const char *name, struct kymo_err *err)
{
    if (!ntff_header_is_ours(bytes, NTFF_HEADER_SIZE))
        return refuse_magic(bytes, name, err);
    uint32_t version = kymo_le32(bytes + AT_HEADER_VERSION);
    if (version != NTFF_HEADER_VERSION)
        return kymo_err_set(err, -EPROTO, "%s: offset %d: header version %u, only %d is known", name, AT_HEADER_VERSION,
                            version, NTFF_HEADER_VERSION);
    uint32_t stored = kymo_le32(bytes + AT_HEADER_CRC);
    uint32_t computed = kymo_crc32c(0, bytes, AT_HEADER_CRC);
    if (stored != computed)
        return kymo_err_set(err, -EPROTO, "%s: offset %d: header CRC32C is %08x, its bytes give %08x", name,
                            AT_HEADER_CRC, stored, computed);
    for (int i = AT_ZERO; i < AT_HEADER_CRC; i++)
        if (bytes[i])
            return kymo_err_set(err, -EPROTO, "%s: offset %d: reserved header byte is not zero", name, i);
    if (kymo_le32(bytes + AT_FLAGS) & ~NTFF_FLAG_NO_RECORDS)
        return kymo_err_set(err, -EPROTO, "%s: offset %d: unknown header flags %08x", name, AT_FLAGS,
                            kymo_le32(bytes + AT_FLAGS));
    return 0;
}

/* The places must be those that the sizes give, and the file must end with the last section. */
static int check_places(const struct ntff_header *h, uint64_t file_size, const char *name, struct kymo_err *err)
{
    if (h->protobuf_size > NTFF_PROTOBUF_MAX)
        return kymo_err_set(err, -EPROTO, "%s: offset %d: protobuf of %llu bytes, more than the limit of %u", name,
                            AT_PROTOBUF_SIZE, (unsigned long long)h->protobuf_size, NTFF_PROTOBUF_MAX);
    struct ntff_header want = *h;
    if (ntff_header_lay_out(&want) < 0)
        return kymo_err_set(err, -EPROTO, "%s: offset %d: sections too large for any file", name, AT_INSTRUCTION_SIZE);
    const struct {
        const char *what;
        int at;
        uint64_t got, want;
    } rows[] = {
        {"instruction base", AT_INSTRUCTION_BASE, h->instruction_base, want.instruction_base},
        {"notification base", AT_NOTIFICATION_BASE, h->notification_base, want.notification_base},
        {"file size", AT_FILE_SIZE, h->file_size, want.file_size},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].got != rows[i].want)
            return kymo_err_set(err, -EPROTO, "%s: offset %d: %s is %llu, but the sections' sizes give %llu", name,
                                rows[i].at, rows[i].what, (unsigned long long)rows[i].got,
                                (unsigned long long)rows[i].want);
    if (file_size < h->file_size)
        return kymo_err_set(err, -EPROTO, "%s: offset %llu: truncated, %llu bytes are missing", name,
                            (unsigned long long)file_size, (unsigned long long)(h->file_size - file_size));
    if (file_size > h->file_size)
        return kymo_err_set(err, -EPROTO, "%s: offset %llu: %llu bytes of trailing data", name,
                            (unsigned long long)h->file_size, (unsigned long long)(file_size - h->file_size));
    return 0;
}

int ntff_header_decode(const uint8_t bytes[NTFF_HEADER_SIZE], uint64_t file_size, const char *name,
                       struct ntff_header *ret, struct kymo_err *err)
{
    int r = check_fixed(bytes, name, err);
    if (r < 0)
        return r;
    const struct ntff_header h = {
        .ntff_version = kymo_le32(bytes + AT_NTFF_VERSION),
        .protobuf_size = kymo_le64(bytes + AT_PROTOBUF_SIZE),
        .instruction_base = kymo_le64(bytes + AT_INSTRUCTION_BASE),
        .instruction_size = kymo_le64(bytes + AT_INSTRUCTION_SIZE),
        .notification_base = kymo_le64(bytes + AT_NOTIFICATION_BASE),
        .notification_size = kymo_le64(bytes + AT_NOTIFICATION_SIZE),
        .file_size = kymo_le64(bytes + AT_FILE_SIZE),
        .protobuf_crc32c = kymo_le32(bytes + AT_PROTOBUF_CRC),
        .flags = kymo_le32(bytes + AT_FLAGS),
    };
    r = check_places(&h, file_size, name, err);
    if (r < 0)
        return r;
    *ret = h;
    return 0;
}
