/* Reader and writer of NTFF: round trips, rewriting, failing memory and failing files. */
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

/* Bytes of ring i of the reader equal those of the sample's pieces of the same ring, one after the other. */
static void check_ring(const struct ntff_reader *r, size_t i, const struct ntff_sample *s)
{
    const struct ntff_ring *ring = ntff_reader_ring(r, i);
    uint8_t *got KYMO_FREE = kymo_malloc(ring->records * KYMO_RECORD_SIZE);
    struct kymo_err err = {0};
    assert_ok(ntff_reader_records(r, i, 0, ring->records, got, &err), err);
    size_t at = 0;
    for (size_t k = 0; k < s->n_rings; k++) {
        const Ntff__TraceInfo *t = s->rings[k].info;
        if (t->ring != ring->kind || t->nc_idx != ring->nc_idx || t->engine_index != ring->engine_index)
            continue;
        assert_true(at + s->rings[k].bytes.size <= ring->records * KYMO_RECORD_SIZE);
        assert_memory_equal(got + at, s->rings[k].bytes.ctx, s->rings[k].bytes.size);
        at += s->rings[k].bytes.size;
    }
    assert_int_equal(at, ring->records * KYMO_RECORD_SIZE);
    /* Any part alone reads the same, and its place in the file is where the reader says. */
    for (uint64_t first = 0; first < ring->records; first += 3) {
        uint8_t part[5 * KYMO_RECORD_SIZE], again[KYMO_RECORD_SIZE];
        size_t n = ring->records - first < 5 ? (size_t)(ring->records - first) : 5;
        assert_ok(ntff_reader_records(r, i, first, n, part, &err), err);
        assert_memory_equal(part, got + first * KYMO_RECORD_SIZE, n * KYMO_RECORD_SIZE);
        assert_ok(ntff_reader_bytes(r, ntff_reader_record_offset(r, i, first), sizeof again, again, &err), err);
        assert_memory_equal(part, again, sizeof again);
    }
}

static void check_images(const struct ntff_reader *r, const struct ntff_sample *s)
{
    const Ntff__NtffInfo *got = ntff_reader_info(r);
    assert_int_equal(got->n_neff_nodes, s->info->n_neff_nodes);
    size_t seen = 0;
    for (size_t n = 0; n < got->n_neff_nodes; n++)
        for (size_t g = 0; g < got->neff_nodes[n]->nd_node->n_graphs; g++) {
            const Ntff__SubgraphInfo *graph = got->neff_nodes[n]->nd_node->graphs[g];
            for (size_t k = 0; k < graph->n_instruction_info; k++) {
                const Ntff__EngineInstructionInfo *want =
                    s->info->neff_nodes[n]->nd_node->graphs[g]->instruction_info[k];
                uint8_t *image KYMO_FREE = NULL;
                size_t slots = 0;
                struct kymo_err err = {0};
                assert_ok(ntff_reader_image(r, graph->instruction_info[k], &image, &slots, &err), err);
                bool is_inline = want->instructions.len > 0;
                assert_int_equal(slots * 64, is_inline ? want->instructions.len : s->images[seen].bytes.size);
                assert_memory_equal(image, is_inline ? want->instructions.data : s->images[seen].bytes.ctx, slots * 64);
                seen += !is_inline;
            }
        }
    assert_int_equal(seen, s->n_images);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (int kind = 0; kind < NTFF_SAMPLE_MAX; kind++) {
        struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new((enum ntff_sample_kind)kind);
        struct kymo_err err = {0};
        assert_ok(ntff_sample_write(s, path, &err), err);
        struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
        assert_ok(ntff_reader_open(path, &r, &err), err);
        assert_string_equal(ntff_reader_path(r), path);
        assert_int_equal(ntff_reader_info(r)->ntff_version, NTFF_VERSION);
        for (size_t i = 0; i < ntff_reader_ring_count(r); i++)
            check_ring(r, i, s);
        check_images(r, s);
    }
}

static void test_counters(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    assert_ok(ntff_reader_open(path, &r, &err), err);
    for (size_t i = 0; i < ntff_reader_ring_count(r); i++) {
        const struct ntff_ring *ring = ntff_reader_ring(r, i);
        assert_int_equal(ring->has_counters,
                         ring->kind != NTFF__RING_KIND__RING_THROTTLE && ring->kind != NTFF__RING_KIND__RING_ERROR);
        assert_int_equal(ring->counters_contradict, ring->kind == NTFF__RING_KIND__RING_ERROR);
        assert_int_equal(ring->dropped,
                         ring->kind == NTFF__RING_KIND__RING_EVENT ? 25 : ring->kind == NTFF__RING_KIND__RING_ERROR);
        assert_int_equal(ring->buffer_size, 1024);
        assert_int_equal(ring->pcore_idx, 0);
    }
}

static void test_pieces(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_SESSION);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    assert_ok(ntff_reader_open(path, &r, &err), err);
    assert_int_equal(ntff_reader_ring_count(r), 5);
    const struct ntff_ring *ring = ntff_reader_ring(r, 0);
    assert_int_equal(ring->records, 30);
    assert_int_equal(ring->nc_idx, 4);
    assert_true(ring->has_counters);
    assert_int_equal(ring->emitted, 34);
    /* Record 11 begins the third piece, behind the other core's ring. */
    assert_int_equal(ntff_reader_record_offset(r, 0, 11), ntff_reader_record_offset(r, 0, 10) + 16 + 30 * 16);
    assert_int_equal(ntff_reader_record_offset(r, 0, 30), ntff_reader_header(r)->file_size);
    assert_int_equal(ntff_reader_ring(r, 1)->pcore_idx, 1);
    uint8_t record[KYMO_RECORD_SIZE];
    assert_int_equal(ntff_reader_records(r, 0, 30, 1, record, &err), -ERANGE);
    assert_int_equal(ntff_reader_records(r, 0, 29, 2, record, &err), -ERANGE);
    assert_int_equal(ntff_reader_records(r, 0, UINT64_MAX, 2, record, &err), -ERANGE);
    assert_non_null(strstr(err.text, "of a ring that has 30"));
    assert_ok(ntff_reader_records(r, 0, 30, 0, record, &err), err);
}

static void expect_nothing_left(void)
{
    char tmp[PATH_SIZE + 8];
    (void)snprintf(tmp, sizeof tmp, "%s.tmp", path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(tmp, F_OK), 0);
}

/* ---- rewriting ---- */

static void expect_unknown(const ProtobufCMessage *m, uint32_t number, ProtobufCWireType wire, const void *data,
                           size_t n)
{
    assert_int_equal(m->n_unknown_fields, 1);
    assert_int_equal(m->unknown_fields[0].tag, number);
    assert_int_equal(m->unknown_fields[0].wire_type, wire);
    assert_int_equal(m->unknown_fields[0].len, n);
    assert_memory_equal(m->unknown_fields[0].data, data, n);
}

static void test_rewrite(void **state)
{
    (void)state;
    for (int kind = 0; kind < NTFF_SAMPLE_MAX; kind++) {
        struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new((enum ntff_sample_kind)kind);
        struct kymo_err err = {0};
        assert_ok(ntff_sample_write(s, path, &err), err);
        size_t n, m;
        uint8_t *before KYMO_FREE = ntff_sample_read(path, &n);
        assert_ok(ntff_rewrite(path, other, &err), err);
        uint8_t *after KYMO_FREE = ntff_sample_read(other, &m);
        assert_int_equal(n, m);
        assert_memory_equal(before, after, n);
        /* Onto itself. */
        assert_ok(ntff_rewrite(path, path, &err), err);
        uint8_t *again KYMO_FREE = ntff_sample_read(path, &m);
        assert_memory_equal(before, again, n);
    }
}

static void test_rewrite_keeps_unknown_fields(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_UNKNOWN);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    /* A field in front, where a packer would never put it. */
    size_t n, protobuf_size;
    uint8_t *file KYMO_FREE = ntff_sample_read(path, &n);
    protobuf_size = (size_t)kymo_le64(file + 0x10);
    uint8_t *mixed KYMO_FREE = kymo_malloc(protobuf_size + 3);
    memcpy(mixed, "\xa0\x06\x05", 3); /* field 100, varint 5 */
    memcpy(mixed + 3, file + NTFF_HEADER_SIZE, protobuf_size);
    ntff_sample_assemble(other, file, mixed, protobuf_size + 3);
    assert_ok(ntff_rewrite(other, path, &err), err);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL, *old KYMO_CLEANUP(ntff_reader_freep) = NULL;
    assert_ok(ntff_reader_open(path, &r, &err), err);
    assert_ok(ntff_reader_open(other, &old, &err), err);
    const Ntff__NtffInfo *info = ntff_reader_info(r);
    const Ntff__SubgraphInfo *g = info->neff_nodes[0]->nd_node->graphs[0];
    assert_int_equal(info->base.n_unknown_fields, 2);
    assert_int_equal(info->neff_nodes[0]->base.n_unknown_fields, 2);
    assert_int_equal(info->neff_nodes[0]->base.unknown_fields[1].len, 5);
    expect_unknown(&g->base, 18, PROTOBUF_C_WIRE_TYPE_64BIT, "\0\0\0\0\0\0\xf0\x3f", 8);
    expect_unknown(&g->traces[2]->base, 5000, PROTOBUF_C_WIRE_TYPE_32BIT, "1234", 4);
    expect_unknown(&g->dma_queue_usage[0]->desc_block_info[1]->base, 6, PROTOBUF_C_WIRE_TYPE_VARINT, "\x07", 1);
    check_images(r, s);
    for (size_t i = 0; i < ntff_reader_ring_count(r); i++)
        check_ring(r, i, s);
    assert_int_equal(ntff_reader_header(r)->protobuf_size, ntff_reader_header(old)->protobuf_size);
    assert_int_equal(ntff_reader_header(r)->notification_size, ntff_reader_header(old)->notification_size);
}

/* ---- wrong use of the writer ---- */

static void test_writer_sources(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    (void)unlink(path);
    struct kymo_err err = {0};
    struct ntff_ring_source twice[2] = {s->rings[0], s->rings[0]};
    assert_int_equal(ntff_writer_write(path, s->info, NULL, 0, twice, 2, &err), -EINVAL);
    assert_non_null(strstr(err.text, "1 sources name an entry that is not in the profile"));
    Ntff__TraceInfo stranger = NTFF__TRACE_INFO__INIT;
    struct ntff_ring_source foreign = {&stranger, s->rings[0].bytes};
    assert_int_equal(ntff_writer_write(path, s->info, NULL, 0, &foreign, 1, &err), -EINVAL);
    struct ntff_ring_source huge[2] = {s->rings[0], s->rings[1]};
    huge[0].bytes.size = huge[1].bytes.size = UINT64_MAX - 15;
    assert_int_equal(ntff_writer_write(path, s->info, NULL, 0, huge, 2, &err), -EFBIG);
    Ntff__TraceInfo **traces = ntff_sample_graph(s)->traces;
    Ntff__TraceInfo *kept = traces[1];
    traces[1] = traces[0];
    assert_int_equal(ntff_writer_write(path, s->info, NULL, 0, s->rings, 1, &err), -EINVAL);
    assert_non_null(strstr(err.text, "stands twice"));
    traces[1] = kept;
    expect_nothing_left();
    /* Any order of the sources gives the same file. */
    assert_ok(ntff_sample_write(s, path, &err), err);
    for (size_t i = 0; i < s->n_rings / 2; i++) {
        struct ntff_ring_source swap = s->rings[i];
        s->rings[i] = s->rings[s->n_rings - 1 - i];
        s->rings[s->n_rings - 1 - i] = swap;
    }
    assert_ok(ntff_sample_write(s, other, &err), err);
    size_t n, m;
    uint8_t *a KYMO_FREE = ntff_sample_read(path, &n);
    uint8_t *b KYMO_FREE = ntff_sample_read(other, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
}

/* ---- failing memory ---- */

#define FAILURES_MAX 5000

static void test_open_without_memory(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    int code = -ENOMEM;
    long n = 0;
    for (; code != 0 && n < FAILURES_MAX; n++) {
        struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
        kymo_alloc_fail_after(n);
        code = ntff_reader_open(path, &r, &err);
        kymo_alloc_fail_after(-1);
        if (code != 0)
            assert_int_equal(code, -ENOMEM);
        assert_int_equal(code == 0, r != NULL);
    }
    assert_int_equal(code, 0);
    print_message("%ld allocations of an open failed one by one\n", n - 1);
    assert_true(n > 50);
}

static void test_write_without_memory(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_SESSION);
    (void)unlink(path);
    struct kymo_err err = {0};
    int code = -ENOMEM;
    long n = 0;
    for (; code != 0 && n < FAILURES_MAX; n++) {
        expect_nothing_left();
        kymo_alloc_fail_after(n);
        code = ntff_sample_write(s, path, &err);
        kymo_alloc_fail_after(-1);
        if (code != 0)
            assert_int_equal(code, -ENOMEM);
    }
    assert_int_equal(code, 0);
    (void)unlink(other);
    for (code = -ENOMEM, n = 0; code != 0 && n < FAILURES_MAX; n++) {
        kymo_alloc_fail_after(n);
        code = ntff_rewrite(path, other, &err);
        kymo_alloc_fail_after(-1);
        if (code != 0) {
            assert_int_equal(code, -ENOMEM);
            assert_int_not_equal(access(other, F_OK), 0);
        }
    }
    assert_int_equal(code, 0);
}

/* ---- failing files ---- */

static long countdown, preads;
static size_t write_limit;

static bool is_due(void)
{
    if (countdown-- != 0)
        return false;
    errno = ENOSPC;
    return true;
}

static int failing_open(const char *p, int flags, mode_t mode)
{
    return is_due() ? -1 : kymo_file_ops_system.open(p, flags, mode);
}

static ssize_t failing_pwrite(int fd, const void *buf, size_t n, off_t off)
{
    if (is_due())
        return -1;
    return kymo_file_ops_system.pwrite(fd, buf, write_limit && n > write_limit ? write_limit : n, off);
}

static int failing_fsync(int fd)
{
    return is_due() ? -1 : kymo_file_ops_system.fsync(fd);
}

static int failing_rename(const char *from, const char *to)
{
    return is_due() ? -1 : kymo_file_ops_system.rename(from, to);
}

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t off)
{
    preads++;
    return is_due() ? -1 : kymo_file_ops_system.pread(fd, buf, n, off);
}

static struct kymo_file_ops failing_ops(void)
{
    struct kymo_file_ops ops = kymo_file_ops_system;
    ops.open = failing_open;
    ops.pwrite = failing_pwrite;
    ops.fsync = failing_fsync;
    ops.rename = failing_rename;
    ops.pread = failing_pread;
    return ops;
}

static void test_failing_writes(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    const struct kymo_file_ops ops = failing_ops();
    struct kymo_err err = {0};
    (void)unlink(path);
    int code = -ENOSPC;
    long n = 0;
    write_limit = 100;
    for (; code != 0 && n < FAILURES_MAX; n++) {
        expect_nothing_left();
        countdown = n;
        kymo_file_set_ops(&ops);
        code = ntff_sample_write(s, path, &err);
        kymo_file_set_ops(NULL);
        if (code != 0) {
            assert_int_equal(code, -ENOSPC);
            assert_int_equal(err.code, -ENOSPC);
            assert_non_null(strstr(err.text, dir));
        }
    }
    assert_int_equal(code, 0);
    /* Short writes all the way: the file is whole. */
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    assert_ok(ntff_reader_open(path, &r, &err), err);
    check_images(r, s);
    print_message("%ld file operations of a write failed one by one\n", n - 1);
}

static void test_failing_reads(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_SESSION);
    const struct kymo_file_ops ops = failing_ops();
    struct kymo_err err = {0};
    assert_ok(ntff_sample_write(s, path, &err), err);
    struct ntff_reader *r KYMO_CLEANUP(ntff_reader_freep) = NULL;
    int code = -ENOSPC;
    for (long n = 0; code != 0 && n < FAILURES_MAX; n++) {
        countdown = n;
        kymo_file_set_ops(&ops);
        code = ntff_reader_open(path, &r, &err);
        kymo_file_set_ops(NULL);
        assert_int_equal(code == 0, r != NULL);
    }
    assert_int_equal(code, 0);
    /* Records come straight into the caller's buffer: one read per piece, no memory asked for. */
    uint8_t buf[30 * KYMO_RECORD_SIZE];
    countdown = -1;
    preads = 0;
    kymo_file_set_ops(&ops);
    kymo_alloc_fail_after(0);
    code = ntff_reader_records(r, 0, 0, 30, buf, &err);
    kymo_alloc_fail_after(-1);
    kymo_file_set_ops(NULL);
    assert_ok(code, err);
    assert_int_equal(preads, 2);
    countdown = 1;
    kymo_file_set_ops(&ops);
    code = ntff_reader_records(r, 0, 0, 30, buf, &err);
    kymo_file_set_ops(NULL);
    assert_int_equal(code, -ENOSPC);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(ntff_reader_records(r, 0, 0, 30, buf, &err), -ENODATA);
}

static int broken_read(void *ctx, uint64_t off, void *buf, size_t n)
{
    (void)ctx;
    (void)off;
    (void)buf;
    (void)n;
    return -EIO;
}

static void test_failing_source(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    struct kymo_err err = {0};
    (void)unlink(path);
    s->rings[3].bytes.read = broken_read;
    assert_int_equal(ntff_sample_write(s, path, &err), -EIO);
    assert_non_null(strstr(err.text, "the source of these bytes failed"));
    expect_nothing_left();
    assert_int_equal(ntff_rewrite(path, other, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_rewrite),
        cmocka_unit_test(test_rewrite_keeps_unknown_fields),
        cmocka_unit_test(test_writer_sources),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_write_without_memory),
        cmocka_unit_test(test_failing_writes),
        cmocka_unit_test(test_failing_reads),
        cmocka_unit_test(test_failing_source),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
