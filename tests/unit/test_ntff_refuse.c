/* What the NTFF reader and writer refuse, each with its file, offset and cause. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/ntff/ntff_header.h"
#include "formats/ntff/ntff_index.h"
#include "formats/ntff/ntff_reader.h"
#include "formats/ntff/ntff_writer.h"
#include "formats/ntff/record.h"
#include "tests/unit/ntff_sample.h"

#define PATH_SIZE 256

static char dir[] = "/tmp/kymo-test-ntff-XXXXXX";
static char path[PATH_SIZE], other[PATH_SIZE];

static int make_dir(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/a.ntff", dir);
    (void)snprintf(other, sizeof other, "%s/b.ntff", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

#define assert_ok(call, err)                                                                                           \
    do {                                                                                                               \
        if ((call) != 0)                                                                                               \
            fail_msg("%s", (err).text);                                                                                \
    } while (0)

static void assemble_info(const uint8_t *file, const Ntff__NtffInfo *info)
{
    size_t n = ntff__ntff_info__get_packed_size(info);
    uint8_t *packed KYMO_FREE = kymo_malloc(n);
    (void)ntff__ntff_info__pack(info, packed);
    ntff_sample_assemble(other, file, packed, n);
}

static void expect_open(const char *from, int code, const char *offset, const char *cause)
{
    struct ntff_reader *r = NULL;
    struct kymo_err err = {0};
    int got = ntff_reader_open(from, &r, &err);
    if (got != code || !strstr(err.text, from) || (offset && !strstr(err.text, offset)) || !strstr(err.text, cause))
        fail_msg("%d, wanted %d with \"%s\" and \"%s\": %s", got, code, offset ? offset : "", cause, err.text);
    assert_null(r);
    assert_int_equal(err.code, code);
}

struct patch {
    size_t at;
    unsigned size; /* bytes of value */
    uint64_t value;
    bool fix_crc;
    const char *offset, *cause;
};

static void test_header_refusals(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    size_t n;
    uint8_t *good KYMO_FREE = ntff_sample_read(path, &n);
    const struct patch patches[] = {
        {0, 1, 0x7f, true, "offset 0:", "foreign header"},
        {0x08, 4, 2, true, "offset 8:", "header version 2, only 1"},
        {0x0c, 4, 9, false, "offset 124:", "header CRC32C"},
        {0x0c, 4, 9, true, "offset 128:", "the header says 9"},
        {0x10, 8, NTFF_PROTOBUF_MAX + 1ull, true, "offset 16:", "more than the limit"},
        {0x10, 8, 10, true, "offset 24:", "instruction base is"},
        {0x18, 8, 128, true, "offset 24:", "instruction base is 128"},
        {0x20, 8, UINT64_MAX, true, "offset 32:", "too large"},
        {0x28, 8, 64, true, "offset 40:", "notification base is 64"},
        {0x30, 8, 16, true, "offset 56:", "file size is"},
        {0x38, 8, n - 16, true, "offset 56:", "file size is"},
        {0x40, 4, 1, true, "offset 128:", "protobuf CRC32C is 00000001"},
        {0x44, 4, 2, true, "offset 68:", "unknown header flags 00000002"},
        {0x44, 4, 1, true, "offset 128:", "the header says that there are none"},
        {0x48, 1, 1, true, "offset 72:", "reserved header byte"},
        {0x7b, 1, 1, true, "offset 123:", "reserved header byte"},
    };
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        uint8_t *bytes KYMO_FREE = kymo_malloc(n);
        memcpy(bytes, good, n);
        memcpy(bytes + patches[i].at, &patches[i].value, patches[i].size);
        if (patches[i].fix_crc)
            kymo_put_le32(bytes + 0x7c, kymo_crc32c(0, bytes, 0x7c));
        ntff_sample_put(other, bytes, n);
        expect_open(other, -EPROTO, patches[i].offset, patches[i].cause);
    }
}

/* Every shorter file, and a longer one. */
static void test_every_truncation(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_SESSION);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    size_t n;
    uint8_t *good KYMO_FREE = ntff_sample_read(path, &n);
    uint8_t *longer KYMO_FREE = kymo_calloc(1, n + 1);
    memcpy(longer, good, n);
    ntff_sample_put(other, longer, n + 1);
    expect_open(other, -EPROTO, "offset 4", "1 bytes of trailing data");
    for (size_t len = n; len-- > 0;) {
        assert_int_equal(truncate(path, (off_t)len), 0);
        if (len > 0)
            expect_open(path, -EPROTO, "offset", "truncated");
        else
            expect_open(path, -ENODATA, NULL, "0 bytes");
    }
}

/* Header, protobuf and padding are covered bit by bit. */
static void test_every_bit_flip(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_IDLE);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    size_t n;
    uint8_t *bytes KYMO_FREE = ntff_sample_read(path, &n);
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDWR, 0, &err);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        uint8_t byte = bytes[bit / 8] ^ (uint8_t)(1u << bit % 8);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        expect_open(path, -EPROTO, "offset", "");
        assert_int_equal(pwrite(fd, &bytes[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    assert_ok(ntff_reader_open(path, &r, &err), err);
}

/* clang-format off: one line per way to spoil a profile */
static void bad_lnc(struct ntff_sample *s)
{
    s->info->lnc_size = 3;
}
static void bad_lnc_zero(struct ntff_sample *s)
{
    s->info->lnc_size = 0;
}
static void bad_graph_nc(struct ntff_sample *s)
{
    ntff_sample_graph(s)->nc_idx = 9;
}
static void bad_image_engine(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[0]->nc_engine_type = 5;
}
static void bad_image_both(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[1]->instructions_size = 64;
}
static void bad_image_slots(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[0]->instructions_size = 100;
}
static void bad_image_inline(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[1]->instructions.len = 63;
}
static void bad_image_huge(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[0]->instructions_size = NTFF_IMAGE_MAX + 64;
}
static void bad_image_leaves(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[2]->instructions_offset = UINT64_MAX;
}
static void bad_image_overlap(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[2]->instructions_offset = 64;
}
static void bad_section(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[0]->sections[1]->section = 4;
}
static void bad_section_range(struct ntff_sample *s)
{
    ntff_sample_graph(s)->instruction_info[0]->sections[1]->count = UINT32_MAX;
}
static void bad_patch_type(struct ntff_sample *s)
{
    ntff_sample_graph(s)->patch_info[1]->type = 3;
}
static void bad_patch_engine(struct ntff_sample *s)
{
    ntff_sample_graph(s)->patch_info[1]->nc_engine_type = -1;
}
static void bad_patch_offset(struct ntff_sample *s)
{
    ntff_sample_graph(s)->patch_info[2]->offset = 65;
}
static void bad_ring_kind(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[3]->ring = 10;
}
static void bad_ring_kind_sign(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[3]->ring = INT32_MIN;
}
static void bad_ring_type(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[4]->trace_type = 1;
}
static void bad_ring_block(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[4]->block_type = 0;
}
static void bad_ring_engine(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[4]->engine_index = 256;
}
static void bad_ring_nc(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[0]->nc_idx = 1;
}
static void bad_ring_size(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[0]->size = 24;
}
static void bad_ring_leaves(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[9]->size += 16;
}
static void bad_ring_wraps(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[9]->size = UINT64_MAX - 15;
}
static void bad_ring_overlap(struct ntff_sample *s)
{
    ntff_sample_graph(s)->traces[9]->offset = 0;
}
/* clang-format on */

static void bad_timeline(struct ntff_sample *s)
{
    Ntff__ExecutionInfo *x = KYMO_NEW(Ntff__ExecutionInfo);
    ntff__execution_info__init(x);
    x->neff_node = 1;
    s->info->execution_timeline = kymo_malloc(sizeof(void *));
    s->info->execution_timeline[0] = x;
    s->info->n_execution_timeline = 1;
}

static const struct {
    void (*spoil)(struct ntff_sample *s);
    bool writer; /* not one of those fields that the writer fills in */
    const char *place, *cause;
} spoilers[] = {
    {bad_lnc, true, "ntff_info.lnc_size", "3, neither 1 nor 2"},
    {bad_lnc_zero, true, "ntff_info.lnc_size", "0, neither 1 nor 2"},
    {bad_timeline, true, "ntff_info.execution_timeline", "NEFF node 1 of 1"},
    {bad_graph_nc, true, "neff_nodes[0].nd_node.graphs[0]", "nc_idx 9 is outside the logical core (2 to 2)"},
    {bad_image_engine, true, "graphs[0].instruction_info[0]", "unknown engine 5"},
    {bad_image_both, false, "instruction_info[1]", "both inline and in a blob"},
    {bad_image_slots, false, "instruction_info[0]", "image of 100 bytes, no multiple of 64"},
    {bad_image_inline, true, "instruction_info[1]", "image of 63 bytes, no multiple of 64"},
    {bad_image_huge, false, "instruction_info[0]", "more than the limit of 1073741824"},
    {bad_image_leaves, false, "instruction_info[2]", "leave the section of 576 bytes"},
    {bad_image_overlap, false, "instruction_info[2]", "192 bytes at 64 overlap the blob before, which ends at 384"},
    {bad_section, true, "instruction_info[0]", "sections[1]: unknown section 4"},
    {bad_section_range, true, "instruction_info[0]", "sections[1]: slots 1 to 4294967296 of an image of 6"},
    {bad_patch_type, true, "graphs[0]", "patch_info[1]: unknown engine 0, type 3 or section 2"},
    {bad_patch_engine, true, "graphs[0]", "patch_info[1]: unknown engine -1"},
    {bad_patch_offset, true, "graphs[0]", "patch_info[2]: offset 65 is no slot"},
    {bad_ring_kind, true, "traces[3]", "unknown ring kind 10"},
    {bad_ring_kind_sign, true, "traces[3]", "unknown ring kind -2147483648"},
    {bad_ring_type, true, "traces[4]", "ring kind 4 with trace_type 1 and block_type 1, not 4 and 1"},
    {bad_ring_block, true, "traces[4]", "ring kind 4 with trace_type 4 and block_type 0, not 4 and 1"},
    {bad_ring_engine, true, "traces[4]", "engine_index 256, more than the limit of 255"},
    {bad_ring_nc, true, "traces[0]", "nc_idx 1 is outside the logical core"},
    {bad_ring_size, false, "traces[0]", "24 bytes of records, no multiple of 16"},
    {bad_ring_leaves, false, "traces[9]", "368 bytes at 2112 leave the section of 2464 bytes"},
    {bad_ring_wraps, false, "traces[9]", "leave the section"},
    {bad_ring_overlap, false, "traces[9]", "overlap the blob before"},
};

static void expect_nothing_left(void)
{
    char tmp[PATH_SIZE + 8];
    (void)snprintf(tmp, sizeof tmp, "%s.tmp", path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(tmp, F_OK), 0);
}

static void test_content_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spoilers / sizeof *spoilers; i++) {
        struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
        struct kymo_err err = {0};
        assert_ok(ntff_sample_write(s, path, &err), err);
        size_t n;
        uint8_t *file KYMO_FREE = ntff_sample_read(path, &n);
        spoilers[i].spoil(s);
        assemble_info(file, s->info);
        expect_open(other, -EPROTO, "offset 128:", spoilers[i].place);
        expect_open(other, -EPROTO, "offset 128:", spoilers[i].cause);
        if (!spoilers[i].writer)
            continue;
        assert_int_equal(unlink(path), 0);
        assert_int_equal(ntff_sample_write(s, path, &err), -EINVAL);
        assert_int_equal(err.code, -EINVAL);
        assert_non_null(strstr(err.text, spoilers[i].cause));
        assert_non_null(strstr(err.text, path));
        expect_nothing_left();
    }
}

/* Broken wire data: the offset is that of the broken place, not of the message. */
static void test_protobuf_refusals(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_IDLE);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    size_t n;
    uint8_t *file KYMO_FREE = ntff_sample_read(path, &n);
    const struct {
        const char *bytes;
        size_t n;
        const char *offset, *cause;
    } rows[] = {
        {"\x42\x05\x01", 3, "offset 128:", "a length runs past the end"},
        {"\xc8\x3f\x01\x80", 4, "offset 131:", "a tag is cut off"},
        {"\xc8\x3f\x80", 3, "offset 128:", "a value is cut off"},
        {"\x42\x03\xc0\x3e\x80", 5, "offset 130:", "a value is cut off"},
        {"\x40\x01", 2, "offset 128:", "another wire type than the schema's"},
        {"\x42\x04\xc2\x3e\x01\x00", 6, "offset 130:", "another wire type than the schema's"},
        {"\x43\x44", 2, "offset 128:", "a group"},
        {"\xc8\x3f\x07\x00\x00", 5, "offset 131:", "a field number is out of range"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ntff_sample_assemble(other, file, rows[i].bytes, rows[i].n);
        expect_open(other, -EPROTO, rows[i].offset, rows[i].cause);
    }
}

/* Two bytes of message may become a hundred of memory: the cap answers before the machine does. */
static void test_unpack_cap(void **state)
{
    (void)state;
    enum { EMPTY = 1 << 20, HEADS = 32 };
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_IDLE);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    size_t n;
    uint8_t *file KYMO_FREE = ntff_sample_read(path, &n);
    /* neff_nodes > nd_node > graphs > dma_queue_usage > empty desc_block_info. */
    uint8_t *bomb KYMO_FREE = kymo_malloc(HEADS + 2 * (size_t)EMPTY);
    const uint32_t tags[] = {1011u << 3 | 2, 4u << 3 | 2, 1u << 3 | 2, 7u << 3 | 2};
    const size_t head_sizes[] = {6, 5, 5, 5};
    size_t at = 0, rest = 21;
    for (size_t i = 0; i < 4; i++) {
        if (tags[i] >= 0x80)
            bomb[at++] = (uint8_t)(tags[i] & 0x7f) | 0x80;
        bomb[at++] = (uint8_t)(tags[i] >= 0x80 ? tags[i] >> 7 : tags[i]);
        rest -= head_sizes[i];
        uint32_t len = (uint32_t)(rest + 2 * EMPTY);
        for (int k = 0; k < 4; k++, len >>= 7)
            bomb[at++] = (uint8_t)((len & 0x7f) | (k < 3 ? 0x80 : 0));
    }
    for (size_t i = 0; i < EMPTY; i++) {
        bomb[at++] = 5 << 3 | 2;
        bomb[at++] = 0;
    }
    ntff_sample_assemble(other, file, bomb, at);
    expect_open(other, -ENOMEM, "offset 128:", "of memory");
}

static void test_too_many_rings(void **state)
{
    (void)state;
    Ntff__NtffInfo info = NTFF__NTFF_INFO__INIT;
    info.ntff_version = NTFF_VERSION;
    info.lnc_size = 2;
    enum { N = 2 * 256 * 3 };
    Ntff__TraceInfo *traces KYMO_FREE = KYMO_NEW_ARRAY(Ntff__TraceInfo, N);
    Ntff__TraceInfo **list KYMO_FREE = KYMO_NEW_ARRAY(Ntff__TraceInfo *, N);
    static const struct {
        int ring, trace, block;
    } kinds[] = {{0, 0, 0}, {1, 1, 0}, {2, 2, 0}};
    for (uint32_t i = 0; i < N; i++) {
        ntff__trace_info__init(&traces[i]);
        traces[i].ring = kinds[i / 512].ring;
        traces[i].trace_type = kinds[i / 512].trace;
        traces[i].block_type = kinds[i / 512].block;
        traces[i].nc_idx = i / 256 % 2;
        traces[i].engine_index = i % 256;
        list[i] = &traces[i];
    }
    info.session_notifications = list;
    info.n_session_notifications = NTFF_RINGS_MAX;
    struct kymo_err err = {0};
    assert_ok(ntff_writer_write(path, &info, NULL, 0, NULL, 0, &err), err);
    assert_int_equal(unlink(path), 0);
    info.n_session_notifications = NTFF_RINGS_MAX + 1;
    assert_int_equal(ntff_writer_write(path, &info, NULL, 0, NULL, 0, &err), -EINVAL);
    assert_non_null(strstr(err.text, "session_notifications[1024]: more than 1024 rings"));
    expect_nothing_left();
}

/* Pieces of one ring, each of one record. No file is needed: the index sees the header's numbers alone. */
static void test_too_many_pieces(void **state)
{
    (void)state;
    const size_t n = (size_t)NTFF_PIECES_MAX + 1;
    Ntff__TraceInfo *traces KYMO_FREE = KYMO_NEW_ARRAY(Ntff__TraceInfo, n);
    Ntff__TraceInfo **list KYMO_FREE = KYMO_NEW_ARRAY(Ntff__TraceInfo *, n);
    for (size_t i = 0; i < n; i++) {
        ntff__trace_info__init(&traces[i]);
        traces[i].offset = KYMO_RECORD_SIZE * i;
        traces[i].size = KYMO_RECORD_SIZE;
        list[i] = &traces[i];
    }
    Ntff__NtffInfo info = NTFF__NTFF_INFO__INIT;
    info.lnc_size = 1;
    info.session_notifications = list;
    info.n_session_notifications = n - 1;
    const struct ntff_header h = {.notification_size = KYMO_RECORD_SIZE * n};
    struct ntff_index ix = {0};
    struct kymo_err err = {0};
    assert_ok(ntff_index_build(&info, &h, "pieces", &ix, &err), err);
    assert_int_equal(ix.n, 1);
    assert_int_equal(ix.rings[0].n, NTFF_PIECES_MAX);
    assert_int_equal(ix.records, NTFF_PIECES_MAX);
    ntff_index_done(&ix);
    info.n_session_notifications = n;
    assert_int_equal(ntff_index_build(&info, &h, "pieces", &ix, &err), -EPROTO);
    assert_string_equal(
        err.text, "pieces: offset 128: ntff_info.session_notifications[1048576]: more than 1048576 pieces of rings");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_refusals),   cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_bit_flip),    cmocka_unit_test(test_content_refusals),
        cmocka_unit_test(test_protobuf_refusals), cmocka_unit_test(test_unpack_cap),
        cmocka_unit_test(test_too_many_rings),    cmocka_unit_test(test_too_many_pieces),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
