/* Uploads that enter the store: whatever fails, and wherever the process ends, what was acknowledged is there at the
 * next start, with its owner, and nothing is left of anything else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/entering.h"
#include "tests/unit/capture_sample.h"
#include "tests/unit/killing_vfs.h"

#define NTFF KYMO__MANIFEST__FILE__KIND__NTFF
#define NEFF KYMO__MANIFEST__FILE__KIND__NEFF
#define OTHER KYMO__MANIFEST__FILE__KIND__OTHER

static char root[64];

/* One NEFF under two names, and once as a file like any other: one part is all three. */
static const struct sample_file sample[] = {
    {"a.ntff", NTFF, "profile", 7, 0},
    {"p.neff", NEFF, "program", 7, 0},
    {"sub/q.neff", NEFF, "program", 7, 0},
    {"sub/copy", OTHER, "program", 7, 0},
};
#define FILES (sizeof sample / sizeof *sample)
static const size_t parts[FILES] = {0, 1, 1, 1};

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/kymo-entering.XXXXXX");
    capture_sample_fail(-1, 0, 0);
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kymo_file_set_ops(NULL);
    return kymo_file_remove_tree(root, NULL);
}

static const char *at(const char *name)
{
    static char path[8][512];
    static unsigned next;
    char *p = path[next++ % 8];
    (void)snprintf(p, sizeof path[0], "%s/%s", root, name);
    return p;
}

static bool is_there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

static struct store *open_store(void)
{
    struct store *s = NULL;
    struct kymo_err err = {0};
    if (store_open(root, 0, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static void upload(void)
{
    assert_int_equal(kymo_file_mkdirs(at("uploads/u"), NULL), 0);
    assert_int_equal(kymo_file_write_atomic(at("uploads/u/part-0"), "profile", 7, NULL), 0);
    assert_int_equal(kymo_file_write_atomic(at("uploads/u/part-1"), "program", 7, NULL), 0);
}

/* ack: gets a byte when the upload is acknowledged. */
static int enter(struct store *s, const char *id, int ack, struct kymo_err *err)
{
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest(id, sample, FILES, &n);
    char *place KYMO_FREE = kymo_strdup(at("uploads/u"));
    const struct entering_plan plan = {
        .place = place, .owner = "ann", .manifest = manifest, .n = n, .parts = parts, .bytes = 14};
    struct entering *e = NULL;
    int r = entering_begin(s, &plan, &e, err);
    if (r < 0)
        return r;
    assert_string_equal(entering_capture(e), id);
    if (ack >= 0 && write(ack, "a", 1) != 1)
        fail();
    for (int turns = 0; (r = entering_turn(e, s, 0, err)) == 1; turns++)
        assert_true(turns < 100);
    if (r < 0)
        (void)!entering_undo(e, s, NULL);
    entering_free(e);
    return r;
}

static void assert_contents(const char *name, const char *text)
{
    uint8_t *have KYMO_FREE = NULL;
    size_t n = 0;
    struct kymo_err err = {0};
    if (kymo_file_read_all(at(name), 1000, &have, &n, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal((const char *)have, text);
}

static int count(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return 0;
}

static int note(void *ctx, const struct catalog_profile *p)
{
    *(struct catalog_profile *)ctx = *p;
    return 0;
}

static void assert_there(struct store *s, const char *id)
{
    char name[256];
    int incoming = 0;
    struct catalog_profile p = {.name = ""};
    assert_int_equal(catalog_list(s->catalog, id, note, &p, NULL), 0);
    assert_string_equal(p.owner, "ann");
    assert_int_equal(p.state, CATALOG_QUEUED);
    (void)snprintf(name, sizeof name, "raw/captures/%s/a.ntff", id);
    assert_contents(name, "profile");
    (void)snprintf(name, sizeof name, "raw/captures/%s/sub/copy", id);
    assert_contents(name, "program");
    (void)snprintf(name, sizeof name, "raw/captures/%s/sub/q.neff", id);
    assert_false(is_there(name));
    assert_int_equal(raw_store_list_incoming(s->raw, count, &incoming, NULL), 0);
    assert_int_equal(incoming, 0);
    assert_false(is_there("uploads/u/entering.json"));
}

static void assert_not_there(struct store *s, const char *id)
{
    char name[256];
    int incoming = 0;
    (void)snprintf(name, sizeof name, "raw/captures/%s", id);
    assert_false(is_there(name));
    assert_int_equal(catalog_has_capture(s->catalog, id, NULL), 0);
    assert_int_equal(raw_store_list_incoming(s->raw, count, &incoming, NULL), 0);
    assert_int_equal(incoming, 0);
    assert_false(is_there("uploads/u/entering.json"));
}

static void enters(void **state)
{
    (void)state;
    struct store *s = open_store();
    struct kymo_err err = {0};
    upload();
    if (enter(s, "c1", -1, &err) < 0)
        fail_msg("%s", err.text);
    assert_there(s, "c1");
    /* Its parts are there still: who removes them is the upload. */
    assert_contents("uploads/u/part-0", "profile");
    assert_int_equal(enter(s, "c1", -1, &err), -EEXIST);
    assert_non_null(strstr(err.text, "already"));
    assert_false(is_there("uploads/u/entering.json"));
    s = store_free(s);
    s = open_store();
    assert_there(s, "c1");
    store_free(s);
}

static void says_what_is_missing(void **state)
{
    (void)state;
    struct store *s = open_store();
    struct kymo_err err = {0};
    upload();
    assert_int_equal(unlink(at("uploads/u/part-1")), 0);
    assert_int_equal(enter(s, "c1", -1, &err), -ENOENT);
    assert_not_there(s, "c1");
    upload();
    assert_int_equal(enter(s, "c1", -1, &err), 0);
    store_free(s);
}

static void fail_everywhere(int cause)
{
    struct store *s = open_store();
    for (long nth = 0;; nth++) {
        char id[64];
        struct kymo_err err = {0};
        (void)snprintf(id, sizeof id, "f%d-%ld", cause, nth);
        upload();
        capture_sample_fail(nth, cause, 1);
        int r = enter(s, id, -1, &err);
        long calls = capture_sample_calls();
        capture_sample_fail(-1, 0, 0);
        assert_true(r == 0 || err.text[0]);
        /* Whatever could not be removed at once goes at the start. */
        s = store_free(s);
        s = open_store();
        if (catalog_has_capture(s->catalog, id, NULL) == 0) {
            upload();
            assert_int_equal(enter(s, id, -1, &err), 0);
        }
        assert_there(s, id);
        if (calls <= nth)
            break;
    }
    store_free(s);
}

static void survives_failing_disks(void **state)
{
    (void)state;
    fail_everywhere(ENOSPC);
    fail_everywhere(EIO);
}

/* The process ends at the nth change of files, or of the catalogue. Returns false when it came to its end. */
static bool end_at(long nth, bool catalogue)
{
    int ack[2], status = 0;
    char id[64], byte = 0;
    (void)snprintf(id, sizeof id, "k%d-%ld", catalogue, nth);
    upload();
    assert_int_equal(pipe(ack), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct store *s = open_store();
        if (catalogue)
            killing_vfs_arm(nth, false);
        else
            capture_sample_fail(nth, 0, 1);
        _exit(enter(s, id, ack[1], NULL) == 0 ? 0 : 1);
    }
    (void)close(ack[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    bool acknowledged = read(ack[0], &byte, 1) == 1, ended = WEXITSTATUS(status) == 0;
    (void)close(ack[0]);
    struct store *s = open_store();
    assert_true(ended || WEXITSTATUS(status) == (catalogue ? KILLING_VFS_CODE : 77));
    assert_true(acknowledged || !ended);
    if (acknowledged || catalog_has_capture(s->catalog, id, NULL) == 1)
        assert_there(s, id);
    else
        assert_not_there(s, id);
    store_free(s);
    return !ended;
}

static void survives_being_killed(void **state)
{
    (void)state;
    long nth = 0;
    while (end_at(nth, false))
        nth++;
    assert_true(nth > 20);
    for (nth = 0; end_at(nth, true); nth++)
        continue;
    assert_true(nth > 3);
}

/* What nobody can go on with does not keep the store from opening. */
static void sets_aside_what_is_damaged(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{}", "[1]", "{\"version\":1,\"owner\":null,\"parts\":[0,7,-5]}",
                                        "{\"version\":1,\"owner\":\"ann\",\"parts\":[0,1,1,1]}"};
    size_t n;
    uint8_t *manifest KYMO_FREE = capture_sample_manifest("c1", sample, FILES, &n);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        upload();
        assert_int_equal(kymo_file_write_atomic(at("uploads/u/entering.pb"), manifest, n, NULL), 0);
        assert_int_equal(kymo_file_write_atomic(at("uploads/u/entering.json"), texts[i], strlen(texts[i]), NULL), 0);
        if (i == 4)
            assert_int_equal(truncate(at("uploads/u/part-1"), 3), 0);
        else
            assert_int_equal(unlink(at("uploads/u/part-1")), 0);
        struct store *s = open_store();
        assert_not_there(s, "c1");
        assert_false(is_there("uploads/u"));
        assert_int_equal(s->set_aside, 1);
        assert_true(is_there("uploads-damaged/u/part-0"));
        assert_int_equal(kymo_file_remove_tree(at("uploads-damaged/u"), NULL), 0);
        store_free(s);
    }
}

int main(void)
{
    killing_vfs_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(enters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_what_is_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_failing_disks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_being_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sets_aside_what_is_damaged, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
