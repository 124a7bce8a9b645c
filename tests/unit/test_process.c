/* kymo-process end to end on small simulated captures: sound, incomplete and broken inputs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/le.h"
#include "pipeline/input.h"
#include "pipeline/process.h"
#include "pipeline/spill/spill.h"
#include "tests/unit/pipeline_fixture.h"

static struct fixture fx;

static int run(const char *ntff, const char *neff, struct process_result *result, struct kymo_err *err)
{
    const struct process_options options = {.ntff = ntff, .neffs = &neff, .neff_count = neff != NULL, .output = fx.out};
    return process_run(&options, result, err);
}

static bool exists(const char *name)
{
    char path[160];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", fx.out, name);
    return stat(path, &st) == 0;
}

static bool out_exists(void)
{
    struct stat st;
    return stat(fx.out, &st) == 0;
}

static void remove_out(void)
{
    assert_int_equal(kymo_file_remove_tree(fx.out, NULL), 0);
}

static void test_sound(void **state)
{
    (void)state;
    static const char *const tables[] = {"Instruction",     "DmaPacket",       "DmaPacketAggregated",
                                         "HostDmaTransfer", "SemaphoreUpdate", "ActiveTime",
                                         "OpcodeSummary",   "Summary",         "ExecutionInfo",
                                         "TensorInfo",      "DmaQueuesInfo",   "Metadata",
                                         "NeffHeader",      "LossLedger",      "Warning",
                                         "SchemaFields"};
    struct process_result a, b;
    struct kymo_err err = {0};
    size_t before = fixture_count(fx.dir);
    if (run(fx.ntff, fx.neff, &a, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.parquet", tables[i]);
        if (!exists(name))
            fail_msg("%s is missing", name);
    }
    assert_int_equal(a.partials, 0);
    assert_true(a.instructions > 1000 && a.packets > 1000 && a.transfers > 100 && a.semaphores > 100 &&
                a.host_transfers > 0);
    /* Again to the same place: the directories are exchanged and nothing else stays. */
    if (run(fx.ntff, fx.neff, &b, &err) < 0)
        fail_msg("%s", err.text);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(fixture_count(fx.dir), before + 1);
}

static void test_without_neff(void **state)
{
    (void)state;
    struct process_result with, without, wrong;
    struct kymo_err err = {0};
    assert_int_equal(run(fx.ntff, fx.neff, &with, &err), 0);
    assert_int_equal(run(fx.ntff, NULL, &without, &err), 0);
    assert_int_equal(run(fx.ntff, fx.other, &wrong, &err), 0);
    assert_true(exists("NeffHeader.parquet"));
    assert_int_equal(without.instructions, with.instructions);
    assert_int_equal(without.packets, with.packets);
    assert_int_equal(wrong.packets, with.packets);
    /* Blocks are named in the NEFF; without it only dynamic DMAs can be grouped. */
    assert_true(without.transfers < with.transfers);
    assert_true(without.warnings > with.warnings);
}

static void check_match(const char *neff, const char *want)
{
    struct warnings *w = warnings_new();
    struct input *in = NULL;
    struct kymo_err err = {0};
    if (input_open(fx.ntff, &neff, neff != NULL, NULL, w, &in, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(in->node_count, 1);
    assert_int_equal(in->nodes[0].neff != NULL, want == NULL);
    if (want && !fixture_warned(w, want))
        fail_msg("no warning says \"%s\"", want);
    input_free(in);
    warnings_free(w);
}

static void test_matching(void **state)
{
    (void)state;
    check_match(fx.neff, NULL);
    check_match(NULL, "no NEFF was given for uuid");
    check_match(fx.other, "and no NEFF that was given is that one");
    check_match(fx.ntff, "it is left out");
    check_match(fx.ntff, "no readable NEFF was given for uuid");
}

static void check_refused(const void *data, size_t n, int code, const char *word)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/broken.ntff", fx.dir);
    fixture_put(path, data, n);
    remove_out();
    struct process_result result;
    struct kymo_err err = {0};
    size_t before = fixture_count(fx.dir);
    assert_int_equal(run(path, fx.neff, &result, &err), code);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
    assert_false(out_exists());
    assert_int_equal(fixture_count(fx.dir), before);
}

static void test_broken(void **state)
{
    (void)state;
    size_t n;
    uint8_t *data = fixture_read(fx.ntff, &n);
    check_refused(data, 0, -ENODATA, "");
    check_refused(data, n / 2, -EPROTO, "truncated");
    check_refused("this is no NTFF, whatever its name may say", 42, -EPROTO, "");
    uint8_t *neff = fixture_read(fx.neff, &n);
    check_refused(neff, n, -EPROTO, "foreign");
    kymo_free(neff);
    kymo_free(data);
}

/* Records with flipped bits are odd, never fatal; a flip in the header or the protobuf is refused. */
static void test_flipped(void **state)
{
    (void)state;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/flipped.ntff", fx.dir);
    size_t n;
    uint8_t *data = fixture_read(fx.ntff, &n);
    uint32_t random = 12345;
    for (unsigned round = 0; round < 12; round++) {
        uint8_t *copy = kymo_malloc(n);
        assert_non_null(copy);
        memcpy(copy, data, n);
        for (unsigned k = 0; k < 200; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = n / 8 + random % (n - n / 8);
            copy[at] ^= (uint8_t)(1u << (random >> 29));
        }
        fixture_put(path, copy, n);
        kymo_free(copy);
        struct process_result result;
        struct kymo_err err = {0};
        int r = run(path, fx.neff, &result, &err);
        if (r < 0 && r != -EPROTO)
            fail_msg("round %u: %d, %s", round, r, err.text);
    }
    kymo_free(data);
}

static int stop_at_once(void *ctx, enum process_stage stage, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return stage == *(enum process_stage *)ctx;
}

static void test_stopped(void **state)
{
    (void)state;
    for (enum process_stage stage = PROCESS_OPEN; stage < PROCESS_DONE; stage++) {
        remove_out();
        const char *neff = fx.neff;
        const struct process_options options = {.ntff = fx.ntff,
                                                .neffs = &neff,
                                                .neff_count = 1,
                                                .output = fx.out,
                                                .progress = stop_at_once,
                                                .ctx = &stage};
        struct process_result result;
        struct kymo_err err = {0};
        size_t before = fixture_count(fx.dir);
        assert_int_equal(process_run(&options, &result, &err), -ECANCELED);
        assert_false(out_exists());
        assert_int_equal(fixture_count(fx.dir), before);
    }
}

/* Want of memory at any point fails cleanly; a NEFF that could not be read for it is left out with a warning. */
static void test_no_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long countdown = 0; !done && countdown < 1000000; countdown += 1 + countdown / 3) {
        remove_out();
        struct process_result result;
        struct kymo_err err = {0};
        size_t before = fixture_count(fx.dir);
        kymo_alloc_fail_after(countdown);
        int r = run(fx.ntff, fx.neff, &result, &err);
        kymo_alloc_fail_after(-1);
        if (r < 0) {
            if (r != -ENOMEM || !*err.text)
                fail_msg("after %ld allocations: %d, %s", countdown, r, err.text);
            assert_int_equal(fixture_count(fx.dir), before);
        }
        done = r == 0 && countdown > 100000;
    }
}

static void test_split(void **state)
{
    (void)state;
    const char *neff = fx.neff;
    const struct process_options options = {
        .ntff = fx.ntff, .neffs = &neff, .neff_count = 1, .output = fx.out, .split_rows = 1000};
    struct process_result result;
    struct kymo_err err = {0};
    if (process_run(&options, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(exists("Instruction_0.parquet"));
    assert_true(exists("Instruction_1.parquet"));
    assert_false(exists("Instruction.parquet"));
}

/* With the clock turned round, every event ends before it starts: there are no rows of negative length, and both
 * records of each are in PartialEvent. */
static void test_backwards(void **state)
{
    (void)state;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/backwards.ntff", fx.dir);
    struct process_result sound, turned;
    struct kymo_err err = {0};
    assert_int_equal(run(fx.ntff, fx.neff, &sound, &err), 0);
    size_t n;
    uint8_t *data = fixture_read(fx.ntff, &n);
    for (size_t at = (size_t)kymo_le64(data + 0x28); at + 16 <= n; at += 16)
        kymo_put_le64(data + at + 8, (1ull << 62) - kymo_le64(data + at + 8));
    fixture_put(path, data, n);
    kymo_free(data);
    if (run(path, fx.neff, &turned, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(turned.instructions + turned.packets + turned.host_transfers, 0);
    assert_int_equal(turned.partials, 2 * (sound.instructions + sound.packets + sound.host_transfers));
    assert_int_equal(turned.semaphores, sound.semaphores);
    assert_int_equal(turned.warnings, sound.warnings + 1);
}

static void list_file(Kymo__Manifest__File *f, const char *name)
{
    char path[96];
    struct stat st;
    static uint8_t sha[2][32];
    unsigned at = strcmp(name, "profile.ntff") != 0;
    (void)snprintf(path, sizeof path, "%s/%s", fx.dir, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(kymo_hash_sha256_file(path, sha[at], NULL), 0);
    kymo__manifest__file__init(f);
    f->name = (char *)(size_t)name;
    f->has_type = f->has_size = f->has_sha256 = 1;
    f->type = at ? KYMO__MANIFEST__FILE__KIND__NEFF : KYMO__MANIFEST__FILE__KIND__NTFF;
    f->size = (uint64_t)st.st_size;
    f->sha256 = (ProtobufCBinaryData){.len = 32, .data = sha[at]};
}

static int open_with(const Kymo__Manifest__Capture *m, struct warnings *w, struct kymo_err *err)
{
    char path[96];
    struct input *in = NULL;
    const char *neff = fx.neff;
    (void)snprintf(path, sizeof path, "%s/manifest.pb", fx.dir);
    size_t n = kymo__manifest__capture__get_packed_size(m);
    uint8_t *data KYMO_FREE = kymo_malloc(n + 1);
    assert_non_null(data);
    (void)kymo__manifest__capture__pack(m, data);
    fixture_put(path, data, n);
    int r = input_open(fx.ntff, &neff, 1, path, w, &in, err);
    input_free(in);
    assert_int_equal(remove(path), 0);
    return r;
}

static void test_claims(void **state)
{
    (void)state;
    Kymo__Manifest__File files[2], *list[2] = {&files[0], &files[1]};
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    struct kymo_err err = {0};
    struct warnings *w = warnings_new();
    m.has_version = 1;
    m.version = 1;
    m.capture_id = (char *)(size_t) "cap";
    m.files = list;
    m.n_files = 2;
    list_file(&files[0], "profile.ntff");
    list_file(&files[1], "program.neff");
    assert_int_equal(open_with(&m, w, &err), 0);
    assert_int_equal(warnings_count(w), 0);
    files[1].sha256.data[0] ^= 1;
    assert_int_equal(open_with(&m, w, &err), 0);
    assert_true(fixture_warned(w, "program.neff: its SHA-256 is "));
    files[0].sha256.data[31] ^= 1;
    assert_int_equal(open_with(&m, w, &err), -EPROTO);
    assert_non_null(strstr(err.text, "profile.ntff: its SHA-256 is "));
    files[0].size++;
    assert_int_equal(open_with(&m, w, &err), -EPROTO);
    assert_non_null(strstr(err.text, "profile.ntff"));
    assert_non_null(strstr(err.text, "bytes, but the capture's manifest says"));
    m.version = 9;
    assert_int_equal(open_with(&m, w, &err), 0);
    assert_true(fixture_warned(w, "manifest: version 9, only 1 is known"));
    warnings_free(w);
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

static void test_full_spill(void **state)
{
    (void)state;
    struct kymo_file_ops ops = kymo_file_ops_system;
    ops.pwrite = full_disk;
    struct spill *s = NULL;
    struct kymo_err err = {0};
    uint64_t record = 1;
    kymo_file_set_ops(&ops);
    assert_int_equal(spill_open(fx.dir, sizeof record, &s, &err), 0);
    assert_int_equal(spill_append(s, &record, &err), 0);
    assert_int_equal(spill_seal(s, &err), -ENOSPC);
    kymo_file_set_ops(NULL);
    spill_free(s);
    assert_non_null(strstr(err.text, fx.dir));
}

static int setup(void **state)
{
    (void)state;
    fixture_open(&fx, "Trn2", "trn2.48xlarge");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_close(&fx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),     cmocka_unit_test(test_without_neff), cmocka_unit_test(test_matching),
        cmocka_unit_test(test_broken),    cmocka_unit_test(test_flipped),      cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_split),     cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_full_spill),
        cmocka_unit_test(test_backwards), cmocka_unit_test(test_claims),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
