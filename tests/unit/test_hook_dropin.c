/* Drop-ins: names and paths, LD_PRELOAD's list, directories that come and go, full disks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tools/hook_dropin.h"

#define HOOK "/usr/lib/kymo/libkymo-hook.so"

static char dir[] = "/tmp/kymo-test-dropin-XXXXXX";

static int setup_group(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : 1;
}

static int teardown_group(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(hook_dropin_unit_ok("train.service", ".service"));
    assert_true(hook_dropin_unit_ok("train@a\\x2fb.service", ".service"));
    assert_true(hook_dropin_unit_ok("train@.service", ".service"));
    assert_true(hook_dropin_unit_ok("-.slice", ".slice"));
    static const char *const bad[] = {"",           ".service",          "@.service",   "../a.service", "a/b.service",
                                      "a.service/", "a b.service",       "a\n.service", "a.socket",     "a.serviceX",
                                      "..service",  "a\xc3\xa4.service", "a%.service"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hook_dropin_unit_ok(bad[i], ".service"))
            fail_msg("%s was accepted", bad[i]);
    char name[300];
    memset(name, 'a', sizeof name);
    memcpy(name + 255 - 8, ".service", 9);
    assert_true(hook_dropin_unit_ok(name, ".service"));
    memcpy(name + 256 - 8, ".service", 9);
    assert_false(hook_dropin_unit_ok(name, ".service"));
    assert_true(hook_dropin_path_ok(HOOK));
    assert_false(hook_dropin_path_ok("lib/x.so"));
    assert_false(hook_dropin_path_ok("/a b.so"));
    assert_false(hook_dropin_path_ok("/a:b.so"));
    assert_false(hook_dropin_path_ok("/%i.so"));
}

static void test_preload(void **state)
{
    (void)state;
    static const struct {
        const char *list, *rest;
    } cases[] = {
        {"", ""},
        {"  : :", ""},
        {HOOK, ""},
        {"libkymo-hook.so", ""},
        {"/a.so " HOOK ":/b.so", "/a.so:/b.so"},
        {"/a.so:/x/notlibkymo-hook.so", "/a.so:/x/notlibkymo-hook.so"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kymo_buf rest KYMO_CLEANUP(kymo_buf_done);
        kymo_buf_init(&rest, 100);
        assert_int_equal(hook_dropin_preload_without(cases[i].list, &rest, NULL), 0);
        assert_string_equal((const char *)rest.data, cases[i].rest);
    }
    struct kymo_buf small KYMO_CLEANUP(kymo_buf_done);
    kymo_buf_init(&small, 4);
    assert_int_equal(hook_dropin_preload_without("/long/path.so", &small, NULL), -ENOBUFS);
    assert_true(hook_dropin_preload_has("/a.so:" HOOK, HOOK));
    assert_false(hook_dropin_preload_has("/a.so:" HOOK "x", HOOK));
}

static bool is_there(const char *path)
{
    char full[200];
    (void)snprintf(full, sizeof full, "%s/%s", dir, path);
    return access(full, F_OK) == 0;
}

static int on_unit(void *ctx, const char *unit, const char *through)
{
    char *seen = ctx;
    (void)snprintf(seen, 100, "%s|%s", unit, through);
    return 0;
}

static void test_write_and_remove(void **state)
{
    (void)state;
    char base[100], seen[100] = "";
    (void)snprintf(base, sizeof base, "%s/made/deep", dir);
    struct hook_dropin d = {.hook = HOOK, .preload = "/a\"b\\c%d.so", .through = "training.slice"};
    struct hook_dropin_change c = {0};
    struct kymo_err err = {0};
    assert_int_equal(hook_dropin_each(base, on_unit, seen, &err), 0);
    assert_int_equal(hook_dropin_write(base, "a.service", &d, &c, &err), 0);
    assert_true(c.changed);
    assert_int_equal(c.made, 3);
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    assert_int_equal(kymo_file_read_all(c.path, 10000, &data, &n, NULL), 0);
    assert_non_null(strstr((const char *)data, "\"LD_PRELOAD=/a\\\"b\\\\c%%d.so:" HOOK "\"\n"));
    assert_int_equal(hook_dropin_each(base, on_unit, seen, &err), 0);
    assert_string_equal(seen, "a.service|training.slice");
    hook_dropin_done(&c);

    /* Another value keeps the note of what was made; undoing it brings the first text back. */
    d.preload = "";
    assert_int_equal(hook_dropin_write(base, "a.service", &d, &c, &err), 0);
    assert_true(c.changed && c.existed);
    assert_int_equal(hook_dropin_undo(&c, &err), 0);
    uint8_t *again KYMO_FREE = NULL;
    assert_int_equal(kymo_file_read_all(c.path, 10000, &again, &n, NULL), 0);
    assert_string_equal((const char *)again, (const char *)data);
    hook_dropin_done(&c);
    assert_int_equal(hook_dropin_remove(base, "a.service", &err), 1);
    assert_false(is_there("made"));
    assert_int_equal(hook_dropin_remove(base, "a.service", &err), 0);
}

static void test_control_characters(void **state)
{
    (void)state;
    struct hook_dropin d = {.hook = HOOK, .preload = "/a\nExecStart=/bin/x"};
    struct hook_dropin_change c = {0};
    struct kymo_err err = {0};
    assert_int_equal(hook_dropin_write(dir, "a.service", &d, &c, &err), -EINVAL);
    assert_null(c.path);
    assert_false(is_there("a.service.d"));
}

static int full_fsync(int fd)
{
    (void)fd;
    errno = ENOSPC;
    return -1;
}

static void test_full_disk(void **state)
{
    (void)state;
    struct kymo_file_ops ops = kymo_file_ops_system;
    struct hook_dropin d = {.hook = HOOK, .preload = ""};
    struct hook_dropin_change c = {0};
    struct kymo_err err = {0};
    ops.fsync = full_fsync;
    kymo_file_set_ops(&ops);
    int r = hook_dropin_write(dir, "a.service", &d, &c, &err);
    kymo_file_set_ops(NULL);
    assert_int_equal(r, -ENOSPC);
    assert_false(is_there("a.service.d"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_preload),
        cmocka_unit_test(test_write_and_remove),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
