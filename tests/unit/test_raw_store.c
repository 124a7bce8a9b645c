/* The raw store: whole captures appear, or nothing, whatever fails and wherever the process ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "collector/raw_store.h"
#include "tests/unit/capture_sample.h"

#define NTFF KYMO__MANIFEST__FILE__KIND__NTFF
#define NEFF KYMO__MANIFEST__FILE__KIND__NEFF
#define STEP 100

static char root[64];
static char big[1000];

static const struct sample_file sample[] = {
    {"a.ntff", NTFF, big, sizeof big, 0},
    {"sub/deep/b.ntff", NTFF, "profile", 7, 1},
    {"p.neff", NEFF, "program", 7, 0},
    {"empty.ntff", NTFF, "", 0, 2},
};
#define FILES (sizeof sample / sizeof *sample)

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7);
    (void)snprintf(root, sizeof root, "/tmp/kymo-raw-store.XXXXXX");
    capture_sample_fail(-1, 0, 0);
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kymo_file_set_ops(NULL);
    return kymo_file_remove_tree(root, NULL);
}

static int fill(struct raw_capture *c, struct kymo_err *err)
{
    const Kymo__Manifest__Capture *m = raw_capture_manifest(c);
    int r = 0;
    for (size_t i = 0; r == 0 && i < m->n_files; i++) {
        for (uint64_t off; r == 0 && (off = raw_capture_offset(c, i)) < m->files[i]->size;) {
            size_t n = sample[i].size - off < STEP ? sample[i].size - off : STEP;
            r = raw_capture_write(c, i, off, (const char *)sample[i].data + off, n, err);
        }
        if (r == 0)
            r = raw_capture_finish_file(c, i, err);
    }
    return r;
}

static int receive(const char *id, struct kymo_err *err)
{
    struct raw_store *s;
    struct raw_capture *c = NULL;
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest(id, sample, FILES, &n);
    int r = raw_store_open(root, 0, &s, err);
    if (r < 0)
        return r;
    r = raw_store_begin(s, manifest, n, &c, err);
    if (r == RAW_RECEIVE) {
        r = fill(c, err);
        if (r == 0)
            r = raw_capture_commit(c, err);
    } else if (r == RAW_STORED) {
        r = 0;
    }
    raw_capture_free(c);
    raw_store_free(s);
    return r;
}

static const char *at(const char *name)
{
    static char path[8][512];
    static unsigned next;
    char *p = path[next++ % 8];
    (void)snprintf(p, sizeof path[0], "%s/raw/%s", root, name);
    return p;
}

static int is_there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

static void assert_contents(const char *name, const void *data, size_t n)
{
    uint8_t *have KYMO_FREE = NULL;
    size_t size;
    struct kymo_err err = {0};
    if (kymo_file_read_all(at(name), 1 << 20, &have, &size, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(size, n);
    assert_memory_equal(have, data, n);
}

static void neff_name(char out[128])
{
    uint8_t sha[KYMO_SHA256_SIZE];
    char hex[65];
    assert_int_equal(kymo_hash_sha256("program", 7, sha), 0);
    kymo_hash_hex(sha, sizeof sha, hex);
    (void)snprintf(out, 128, "neff/%s.neff", hex);
}

static void assert_published(const char *id)
{
    char name[256];
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest(id, sample, FILES, &n);
    (void)snprintf(name, sizeof name, "captures/%s/manifest.pb", id);
    assert_contents(name, manifest, n);
    for (size_t i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof name, "captures/%s/%s", id, sample[i].name);
        if (sample[i].type == NEFF)
            neff_name(name);
        assert_contents(name, sample[i].data, sample[i].size);
    }
    (void)snprintf(name, sizeof name, "captures/%s/p.neff", id);
    assert_false(is_there(name));
    (void)snprintf(name, sizeof name, "incoming/%s", id);
    assert_false(is_there(name));
}

static int count_id(void *ctx, const char *id)
{
    (void)id;
    ++*(int *)ctx;
    return 0;
}

static int stored(void)
{
    struct raw_store *s;
    int n = 0;
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_list(s, count_id, &n, NULL), 0);
    raw_store_free(s);
    return n;
}

static void publishes_whole_captures(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    if (receive("c1", &err) < 0)
        fail_msg("%s", err.text);
    assert_published("c1");
    assert_int_equal(receive("c1", &err), 0);
    assert_int_equal(receive("c2", &err), 0);
    assert_published("c2");
    assert_int_equal(stored(), 2);
}

static void keeps_each_neff_once(void **state)
{
    (void)state;
    struct raw_store *s;
    struct raw_capture *c;
    size_t n;
    assert_int_equal(receive("c1", NULL), 0);
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("c2", sample, FILES, &n);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, NULL), RAW_RECEIVE);
    assert_true(raw_capture_has_file(c, 2));
    assert_int_equal(raw_capture_offset(c, 2), 7);
    assert_false(raw_capture_has_file(c, 0));
    raw_capture_free(c);
    raw_store_free(s);
}

static void resumes_where_it_was(void **state)
{
    (void)state;
    struct raw_store *s;
    struct raw_capture *c;
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("c1", sample, FILES, &n);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, NULL), RAW_RECEIVE);
    assert_int_equal(raw_capture_write(c, 0, 0, big, 300, NULL), 0);
    assert_int_equal(raw_capture_write(c, 0, 400, big, 1, NULL), -ERANGE);
    assert_int_equal(raw_capture_write(c, 0, 900, big, 101, NULL), -EFBIG);
    assert_int_equal(raw_capture_write(c, 0, UINT64_MAX, big, 2, NULL), -EFBIG);
    assert_int_equal(raw_capture_finish_file(c, 0, NULL), -EAGAIN);
    assert_int_equal(raw_capture_commit(c, NULL), -EAGAIN);
    assert_int_equal(raw_capture_sync(c, 0, NULL), 0);
    raw_capture_free(c);
    raw_store_free(s);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, NULL), RAW_RECEIVE);
    assert_int_equal(raw_capture_offset(c, 0), 300);
    /* Some of it is sent twice. */
    assert_int_equal(raw_capture_write(c, 0, 200, big + 200, 200, NULL), 0);
    assert_int_equal(raw_capture_offset(c, 0), 400);
    assert_int_equal(fill(c, NULL), 0);
    assert_int_equal(raw_capture_commit(c, NULL), 0);
    raw_capture_free(c);
    raw_store_free(s);
    assert_published("c1");
}

static void refuses_wrong_bytes(void **state)
{
    (void)state;
    struct raw_store *s;
    struct raw_capture *c;
    struct kymo_err err = {0};
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("c1", sample, FILES, &n);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, NULL), RAW_RECEIVE);
    assert_int_equal(raw_capture_write(c, 1, 0, "profilE", 7, NULL), 0);
    assert_int_equal(raw_capture_finish_file(c, 1, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "sub/deep/b.ntff"));
    assert_int_equal(raw_capture_offset(c, 1), 0);
    assert_int_equal(fill(c, NULL), 0);
    assert_int_equal(raw_capture_commit(c, NULL), 0);
    raw_capture_free(c);
    raw_store_free(s);
    assert_published("c1");
}

static void refuses_an_id_with_another_manifest(void **state)
{
    (void)state;
    struct raw_store *s;
    struct raw_capture *c;
    size_t n;
    assert_int_equal(receive("c1", NULL), 0);
    uint8_t *other KYMO_FREE = capture_sample_manifest("c1", sample, FILES - 1, &n);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, other, n, &c, NULL), -EEXIST);
    assert_int_equal(raw_store_begin(s, "x", 1, &c, NULL), -EPROTO);
    raw_store_free(s);
    assert_published("c1");
}

static void cleans_what_nobody_can_resume(void **state)
{
    (void)state;
    assert_int_equal(receive("c1", NULL), 0);
    assert_int_equal(mkdir(at("incoming/c1"), 0777), 0);
    assert_int_equal(mkdir(at("incoming/c2"), 0777), 0);
    assert_int_equal(kymo_file_write_atomic(at("incoming/c2/part-0"), "x", 1, NULL), 0);
    assert_int_equal(stored(), 1);
    assert_false(is_there("incoming/c1"));
    assert_false(is_there("incoming/c2"));
    assert_published("c1");
}

static ssize_t reads_nothing(int fd, void *buf, size_t n, off_t off)
{
    (void)fd;
    (void)buf;
    (void)n;
    (void)off;
    errno = EIO;
    return -1;
}

/* Files that are here: they get a second name, without being read. A NEFF that is listed twice is one file. */
static void adopts_what_is_here(void **state)
{
    (void)state;
    static const struct sample_file twice[] = {
        {"a.ntff", NTFF, big, sizeof big, 0}, {"p.neff", NEFF, "program", 7, 0}, {"q.neff", NEFF, "program", 7, 0}};
    struct raw_store *s;
    struct raw_capture *c;
    uint8_t sha[2][KYMO_SHA256_SIZE];
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("c1", twice, 3, &n);
    assert_int_equal(kymo_hash_sha256(big, sizeof big, sha[0]), 0);
    assert_int_equal(kymo_hash_sha256("program", 7, sha[1]), 0);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(kymo_file_write_atomic(at("a"), big, sizeof big, NULL), 0);
    assert_int_equal(kymo_file_write_atomic(at("p"), "program", 7, NULL), 0);
    assert_int_equal(raw_store_begin_adopting(s, manifest, n, 1007, &c, NULL), RAW_RECEIVE);
    struct kymo_file_ops ops = *kymo_file_ops();
    ops.pread = reads_nothing;
    kymo_file_set_ops(&ops);
    assert_int_equal(raw_capture_adopt(c, 0, at("a"), sha[1], NULL), -EBADMSG);
    assert_int_equal(raw_capture_adopt(c, 0, at("p"), sha[0], NULL), -EBADMSG);
    assert_int_equal(raw_capture_adopt(c, 0, at("none"), sha[0], NULL), -ENOENT);
    assert_int_equal(raw_capture_adopt(c, 0, at("a"), sha[0], NULL), 0);
    assert_int_equal(raw_capture_adopt(c, 1, at("p"), sha[1], NULL), 0);
    /* Also when its file has gone. */
    assert_int_equal(unlink(at("p")), 0);
    assert_int_equal(raw_capture_adopt(c, 2, at("p"), sha[1], NULL), 0);
    assert_int_equal(raw_capture_commit(c, NULL), 0);
    raw_capture_free(c);
    raw_store_free(s);
    kymo_file_set_ops(NULL);
    assert_contents("captures/c1/a.ntff", big, sizeof big);
    assert_contents("a", big, sizeof big);
    char name[128];
    neff_name(name);
    assert_contents(name, "program", 7);
    assert_false(is_there("incoming/c1"));
}

static void keeps_a_reserve(void **state)
{
    (void)state;
    struct raw_store *s;
    struct raw_capture *c;
    struct kymo_err err = {0};
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("c1", sample, FILES, &n);
    assert_int_equal(raw_store_open(root, UINT64_MAX / 2, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "are free"));
    /* Nothing is left of what had no room; what was there before stays. */
    assert_false(is_there("incoming/c1"));
    raw_store_free(s);
    assert_int_equal(raw_store_open(root, 0, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, NULL), RAW_RECEIVE);
    assert_int_equal(raw_capture_write(c, 0, 0, big, 300, NULL), 0);
    raw_capture_free(c);
    raw_store_free(s);
    assert_int_equal(raw_store_open(root, UINT64_MAX / 2, &s, NULL), 0);
    assert_int_equal(raw_store_begin(s, manifest, n, &c, &err), -ENOSPC);
    assert_true(is_there("incoming/c1/part-0"));
    raw_store_free(s);
    assert_int_equal(receive("c1", NULL), 0);
}

/* One call fails, at each place in turn; then all is tried again without faults. */
static void fail_everywhere(int error, long times)
{
    for (long nth = 0;; nth++) {
        struct kymo_err err = {0};
        char id[64];
        (void)snprintf(id, sizeof id, "e%d-%ld-%ld", error, times, nth);
        capture_sample_fail(nth, error, times);
        int r = receive(id, &err);
        long calls = capture_sample_calls();
        capture_sample_fail(-1, 0, 0);
        if (r < 0)
            assert_true(err.text[0]);
        if (r < 0 && r != -ENOMEM)
            assert_int_equal(r, -error);
        assert_int_equal(receive(id, &err), 0);
        assert_published(id);
        /* The NEFF is received anew each time. */
        char name[128];
        neff_name(name);
        assert_int_equal(unlink(at(name)), 0);
        if (calls <= nth)
            return;
    }
}

static void survives_full_disks(void **state)
{
    (void)state;
    fail_everywhere(ENOSPC, 1);
    fail_everywhere(ENOSPC, 1000);
}

static void survives_failing_disks(void **state)
{
    (void)state;
    fail_everywhere(EIO, 1);
}

static void survives_being_killed(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        char id[64], name[128];
        (void)snprintf(id, sizeof id, "k%ld", nth);
        pid_t pid = fork();
        if (pid == 0) {
            capture_sample_fail(nth, 0, 1);
            _exit(receive(id, NULL) == 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(receive(id, NULL), 0);
        assert_published(id);
        neff_name(name);
        assert_int_equal(unlink(at(name)), 0);
        if (WEXITSTATUS(status) != 77) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(publishes_whole_captures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_each_neff_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resumes_where_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_wrong_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_an_id_with_another_manifest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cleans_what_nobody_can_resume, set_up, tear_down),
        cmocka_unit_test_setup_teardown(adopts_what_is_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_a_reserve, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_full_disks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_failing_disks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_being_killed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
