/* kymo-sim ntff from the command line to a file that the reader takes, with the truth beside it; and its ring store. */
#include <errno.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/le.h"
#include "driver-iface/sim/sim_spill.h"
#include "driver-iface/sim/sim_subcommands.h"
#include "formats/ntff/ntff_reader.h"
#include "tests/unit/sim_sample.h"

static char dir[] = "/tmp/kymo-sim-ntff-XXXXXX";

static char *in_dir(const char *name)
{
    char *path = kymo_asprintf("%s/%s", dir, name);
    assert_non_null(path);
    return path;
}

/* Words separated by blanks; %D is the directory. */
static int command(const char *words)
{
    char *argv[32] = {(char *)(uintptr_t) "ntff"};
    int argc = 1;
    char *copy = kymo_strdup(words), *save = NULL;
    assert_non_null(copy);
    for (char *w = strtok_r(copy, " ", &save); w && argc < 31; w = strtok_r(NULL, " ", &save)) {
        argv[argc] = *w == '%' ? in_dir(w + 2) : kymo_strdup(w);
        assert_non_null(argv[argc++]);
    }
    optind = 0; /* getopt starts anew */
    int rc = sim_cmd_ntff_main(argc, argv);
    while (argc > 1)
        kymo_free(argv[--argc]);
    kymo_free(copy);
    return rc;
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    struct sample *s = sample_new(kymo_arch_get(KYMO_GEN_TRN2));
    s->queues = "\"qSyncIO0\":{\"type\":\"in\",\"owner\":\"sp\",\"num_queues\":16,\"semaphore\":7}";
    s->blocks = "{\"id\":3,\"queue\":\"qSyncIO0\",\"desc\":{\"from\":\"a\",\"from_off\":0,\"from_sizes\":[65536],"
                "\"from_steps\":[1],"
                "\"to\":\"b\",\"to_off\":0,\"to_sizes\":[65536],\"to_steps\":[1]}}";
    sample_trigger(s, KYMO_ENGINE_SYNC, "qSyncIO0", 3);
    kymo_instr_set_wait(sample_op(s, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL), KYMO_WAIT_GE, 7, 16);
    for (unsigned i = 0; i < 500; i++)
        (void)sample_op(s, KYMO_ENGINE_VECTOR, KYMO_OP_COPY);
    for (unsigned cores = 1; cores <= 2; cores++) {
        char *path = in_dir(cores == 1 ? "one.neff" : "two.neff");
        sample_write(s, cores, path);
        kymo_free(path);
    }
    sample_free(s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static struct ntff_reader *open_profile(const char *name)
{
    char *path = in_dir(name);
    struct kymo_err err = {0};
    struct ntff_reader *r = NULL;
    if (ntff_reader_open(path, &r, &err) < 0)
        fail_msg("%s", err.text);
    kymo_free(path);
    return r;
}

/* stored records of a ring over the pieces of its truth. */
static void compare_with_truth(const struct ntff_reader *r, const char *rings_tsv)
{
    char *path = in_dir(rings_tsv), line[256];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (size_t i = 0; i < ntff_reader_ring_count(r); i++) {
        const struct ntff_ring *ring = ntff_reader_ring(r, i);
        bool found = false;
        rewind(f);
        while (fgets(line, sizeof line, f)) {
            char kind[32];
            unsigned long long pcore, nc, engine, size, emitted, stored, dropped;
            if (sscanf(line, "%31s %llu %llu %llu %llu %llu %llu %llu", kind, &pcore, &nc, &engine, &size, &emitted,
                       &stored, &dropped) != 8 ||
                strcmp(kind, kymo_ring_name((enum kymo_ring)ring->kind)) != 0 || nc != ring->nc_idx ||
                engine != ring->engine_index)
                continue;
            found = true;
            assert_true(ring->has_counters);
            assert_int_equal(ring->records, stored);
            assert_int_equal(ring->emitted, emitted);
            assert_int_equal(ring->dropped, dropped);
            assert_int_equal(ring->buffer_size, size);
        }
        assert_true(found);
    }
    (void)fclose(f);
    kymo_free(path);
}

static void hash_of(const char *name, uint8_t hash[KYMO_SHA256_SIZE])
{
    char *path = in_dir(name);
    assert_int_equal(kymo_hash_sha256_file(path, hash, NULL), 0);
    kymo_free(path);
}

static void test_profile(void **state)
{
    (void)state;
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --output %D"
                             "a.ntff --truth %D"
                             "t"),
                     0);
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --output %D"
                             "b.ntff"),
                     0);
    uint8_t a[KYMO_SHA256_SIZE], b[KYMO_SHA256_SIZE];
    hash_of("a.ntff", a);
    hash_of("b.ntff", b);
    assert_memory_equal(a, b, sizeof a);
    struct ntff_reader *r = open_profile("a.ntff");
    const Ntff__NtffInfo *info = ntff_reader_info(r);
    assert_string_equal(info->arch, "Trn2");
    assert_int_equal(info->n_neff_nodes, 1);
    assert_int_equal(info->n_execution_timeline, 1);
    assert_int_equal(info->host_dma, NTFF__HOST_DMA_STATE__HOST_DMA_TRACED);
    compare_with_truth(r, "t/a/rings.tsv");
    ntff_reader_free(r);
}

/* Two models on two cores: a session, whose rings belong to no model. */
static void test_session(void **state)
{
    (void)state;
    assert_int_equal(command("--neff %D"
                             "two.neff --neff %D"
                             "two.neff --lnc 2 --vnc 5 --executions 3 --output %D"
                             "s.ntff --truth %D"
                             "t"),
                     0);
    struct ntff_reader *r = open_profile("s.ntff");
    const Ntff__NtffInfo *info = ntff_reader_info(r);
    assert_int_equal(info->mode, NTFF__CAPTURE_MODE__MODE_SESSION);
    assert_int_equal(info->nd_idx, 1);
    assert_int_equal(info->start_nc, 2);
    assert_int_equal(info->n_neff_nodes, 2);
    assert_int_equal(info->n_execution_timeline, 3);
    assert_int_equal(info->execution_timeline[2]->neff_node, 0);
    assert_true(info->n_session_notifications > 0);
    compare_with_truth(r, "t/s/rings.tsv");
    ntff_reader_free(r);
}

/* 1 MB of INSTRUCTION ring holds 65,536 records: it fills, and its last record says that later ones were lost. */
static void test_overflow(void **state)
{
    (void)state;
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --events 150000 --buffer INSTRUCTION=1 --buffer H2D_DMA=0 --output %D"
                             "o.ntff --truth %D"
                             "t"),
                     0);
    struct ntff_reader *r = open_profile("o.ntff");
    compare_with_truth(r, "t/o/rings.tsv");
    assert_int_equal(ntff_reader_info(r)->host_dma, NTFF__HOST_DMA_STATE__HOST_DMA_OFF);
    bool seen = false;
    for (size_t i = 0; i < ntff_reader_ring_count(r); i++) {
        const struct ntff_ring *ring = ntff_reader_ring(r, i);
        assert_int_not_equal(ring->kind, KYMO_RING_H2D_DMA);
        if (ring->kind != NTFF__RING_KIND__RING_INSTRUCTION)
            continue;
        seen = true;
        assert_int_equal(ring->records, 65536);
        assert_true(ring->dropped > 0);
        uint8_t last[2][KYMO_RECORD_SIZE];
        assert_int_equal(ntff_reader_records(r, i, 65534, 2, last[0], NULL), 0);
        assert_int_equal(last[0][3] & 0x60, 0);
        assert_int_equal(last[1][3] & 0x60, 0x40);
    }
    assert_true(seen);
    ntff_reader_free(r);
}

static void test_wrong_use(void **state)
{
    (void)state;
    assert_int_equal(command("--output %D"
                             "x.ntff"),
                     2);
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 3 --output %D"
                             "x.ntff"),
                     2);
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 2 --output %D"
                             "x.ntff"),
                     1); /* one subgraph */
    assert_int_equal(command("--neff %D"
                             "two.neff --lnc 1 --output %D"
                             "x.ntff"),
                     1); /* two of them */
    assert_int_equal(command("--neff %D"
                             "none.neff --lnc 1 --output %D"
                             "x.ntff"),
                     1); /* no such file */
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --buffer NONE=1 --output %D"
                             "x.ntff"),
                     2);
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --buffer DMA=x --output %D"
                             "x.ntff"),
                     2);
    assert_int_equal(command("--neff %D"
                             "two.neff --lnc 2 --instance trn1.32xlarge --output %D"
                             "x.ntff"),
                     2);
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --instance p5.48xlarge --output %D"
                             "x.ntff"),
                     2);
    assert_int_equal(command("--neff %D"
                             "one.neff --lnc 1 --vnc 4000 --output %D"
                             "x.ntff"),
                     2);
    char *path = in_dir("x.ntff");
    assert_int_equal(access(path, F_OK), -1);
    kymo_free(path);
}

/* A ring beyond its buffer goes to a file; what comes back is what went in, marks included. */
static void test_spill(void **state)
{
    (void)state;
    char *prefix = in_dir("spill");
    const uint64_t limits[2] = {200000, 65536};
    struct sim_spill *s = NULL;
    assert_int_equal(sim_spill_new(prefix, limits, 2, &s, NULL), 0);
    struct sim_ring_sink sink = sim_spill_sink(s);
    uint8_t record[KYMO_RECORD_SIZE] = {0};
    for (uint64_t i = 0; i < 200001; i++) {
        kymo_put_le64(record + 8, i);
        assert_int_equal(sink.put(sink.ctx, 0, record), i < 200000);
        assert_int_equal(sink.put(sink.ctx, 1, record), i < 65536);
    }
    /* Ring 0 has its last record in memory, ring 1 in the file: exactly one buffer. */
    assert_true(sink.mark_last(sink.ctx, 0));
    assert_true(sink.mark_last(sink.ctx, 1));
    assert_int_equal(sim_spill_check(s, NULL), 0);
    assert_int_equal(sim_spill_size(s, 0), 200000 * KYMO_RECORD_SIZE);
    uint8_t *back = kymo_malloc(200000 * KYMO_RECORD_SIZE);
    assert_non_null(back);
    for (size_t ring = 0; ring < 2; ring++) {
        size_t bytes = (size_t)sim_spill_size(s, ring), half = bytes / 3 + 5;
        assert_int_equal(sim_spill_read(sim_spill_ring(s, ring), 0, back, half), 0);
        assert_int_equal(sim_spill_read(sim_spill_ring(s, ring), half, back + half, bytes - half), 0);
        assert_int_equal(sim_spill_read(sim_spill_ring(s, ring), bytes, back, 1), -ENODATA);
        for (size_t i = 0; i < bytes / KYMO_RECORD_SIZE; i++) {
            assert_int_equal(kymo_le64(back + i * KYMO_RECORD_SIZE + 8), i);
            assert_int_equal(back[i * KYMO_RECORD_SIZE + 3], i + 1 == bytes / KYMO_RECORD_SIZE ? 0x40 : 0);
        }
    }
    kymo_free(back);
    sim_spill_free(s);
    kymo_free(prefix);
}

static ssize_t full_disk(int fd, const void *buf, size_t n, off_t off)
{
    (void)fd;
    (void)buf;
    (void)n;
    (void)off;
    errno = ENOSPC;
    return -1;
}

static void test_spill_full_disk(void **state)
{
    (void)state;
    char *prefix = in_dir("full");
    const uint64_t limit = 1u << 20;
    struct sim_spill *s = NULL;
    assert_int_equal(sim_spill_new(prefix, &limit, 1, &s, NULL), 0);
    struct kymo_file_ops ops = kymo_file_ops_system;
    ops.pwrite = full_disk;
    kymo_file_set_ops(&ops);
    struct sim_ring_sink sink = sim_spill_sink(s);
    uint8_t record[KYMO_RECORD_SIZE] = {0};
    for (unsigned i = 0; i < 70000; i++)
        (void)sink.put(sink.ctx, 0, record);
    kymo_file_set_ops(NULL);
    struct kymo_err err = {0};
    assert_int_equal(sim_spill_check(s, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "full"));
    sim_spill_free(s);
    kymo_free(prefix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile),   cmocka_unit_test(test_session), cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_wrong_use), cmocka_unit_test(test_spill),   cmocka_unit_test(test_spill_full_disk),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
