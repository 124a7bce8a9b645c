/* Reader and writer of NTFF: round trips, every refusal with its words, failing memory and failing writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/ring.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/le.h"
#include "formats/ntff/ntff_reader.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
