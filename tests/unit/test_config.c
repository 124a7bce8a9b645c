#include "daemon/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"

static char path[] = "/tmp/kymo-test-config.XXXXXX";

static void write_file(const char *text)
{
    struct kymo_err err = {0};
    if (kymo_file_write_atomic(path, text, strlen(text), &err) < 0)
        fail_msg("%s", err.text);
}

static int load(const char *text, struct config **ret, struct kymo_err *err)
{
    char option[64];
    write_file(text);
    (void)snprintf(option, sizeof option, "--config=%s", path);
    char *argv[] = {"kymod", option, "--period", "33", NULL};
    *ret = NULL;
    *err = (struct kymo_err){0};
    return config_load(4, argv, ret, err);
}

static void test_defaults(void **state)
{
    (void)state;
    struct config *c = NULL;
    struct kymo_err err = {0};
    char *argv[] = {"kymod", NULL};
    assert_int_equal(config_load(1, argv, &c, &err), KYMO_OPTIONS_PARSED);
    assert_string_equal(c->data_dir, "/var/lib/kymo");
    assert_int_equal(c->policy.period_s, 600);
    assert_int_equal(c->policy.learn, 1);
    assert_int_equal(config_mode(&c->policy), KYMO_HOOK_MODE_MODEL);
    assert_int_equal(config_armed(&c->policy), KYMO_HOOK_MODE_NONE);
    assert_int_equal(config_spool_limits(c).bytes_max, 20ull << 30);
    assert_ptr_equal(config_policy_of(c, "a", NULL), &c->policy);
    assert_null(config_free(c));
}

/* What a section does not name is what holds for all, also what the command line says. */
static void test_sections(void **state)
{
    (void)state;
    struct config *c;
    struct kymo_err err;
    assert_int_equal(
        load("count = 4\nperiod = 5\n[job llama-*]\nmode = session\n[unit train@*]\nperiod = 7\ncount = 2\n", &c, &err),
        KYMO_OPTIONS_PARSED);
    assert_int_equal(c->policy.period_s, 33);
    const struct config_policy *p = config_policy_of(c, "llama-7b", "train@1.service");
    assert_int_equal(config_mode(p), KYMO_HOOK_MODE_SESSION);
    assert_int_equal(p->count, 4);
    assert_int_equal(p->period_s, 33);
    p = config_policy_of(c, "other", "train@1.service");
    assert_int_equal(p->period_s, 7);
    assert_int_equal(p->count, 2);
    assert_ptr_equal(config_policy_of(c, "other", ""), &c->policy);
    assert_ptr_equal(config_policy_of(c, NULL, NULL), &c->policy);
    (void)config_free(c);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"period = 1\nperiods = 2\n", ":2: periods: no such key here"},
        {"[job a]\nspool-bytes = 1G\n", ":2: spool-bytes: no such key here"},
        {"[job]\n", ":1: this section needs a pattern behind its kind"},
        {"jitter = 2\n", ":1: jitter: 2 is outside 0 to 1"},
        {"[job a]\njitter = -1\n", ":2: jitter: -1 is outside 0 to 1"},
        {"neff-bytes = 2G\nneff-total-bytes = 1G\n", "neff-total-bytes: less than neff-bytes"},
        {"\ncollector = a\n", ":2: collector: "},
        {"collector = a:1\ncollector = b:1\ncollector = c:1\n", ":3: collector: more than 2 values"},
        {"tls-cert = /x\n", "tls-ca, tls-cert and tls-key go together"},
        {"metrics = 9464\n", ":1: metrics: "},
        {"cpu-limit = -3\n", ":1: cpu-limit: -3 is no percentage"},
        {"data-dir =\n", ":1: data-dir: \"\": no path of 1 to 255 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *c;
        struct kymo_err err;
        assert_int_equal(load(cases[i].text, &c, &err), -EINVAL);
        if (!strstr(err.text, cases[i].error))
            fail_msg("\"%s\" instead of \"%s\"", err.text, cases[i].error);
        assert_null(c);
    }
}

static void test_what_counts_only_at_start(void **state)
{
    (void)state;
    struct config *a, *b;
    struct kymo_err err;
    char text[256];
    assert_int_equal(load("host = a\n", &a, &err), KYMO_OPTIONS_PARSED);
    assert_int_equal(load("host = b\nspool-bytes = 1G\ncount = 2\n", &b, &err), KYMO_OPTIONS_PARSED);
    config_fixed_changes(a, b, text, sizeof text);
    assert_string_equal(text, "spool-*, host");
    config_fixed_changes(a, a, text, sizeof text);
    assert_string_equal(text, "");
    (void)config_free(a);
    (void)config_free(b);
}

/* The page names every key with its default, and no other. */
static void test_page(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    uint8_t *page = NULL;
    size_t n, rows = 0, described = 0;
    assert_int_equal(kymo_file_read_all("daemon/CONFIG.md", 1 << 20, &page, &n, &err), 0);
    for (const struct kymo_option *row = config_spec.options->rows; row->name; row++, rows++) {
        char line[128];
        (void)snprintf(line, sizeof line, "\n| `%s` | ", row->name);
        const char *at = strstr((const char *)page, line);
        if (!at)
            fail_msg("daemon/CONFIG.md does not describe %s", row->name);
        (void)snprintf(line, sizeof line, "`%s` |", row->def ? row->def : "");
        at = strstr(at + 1, " | ") + 3;
        if (row->def && strncmp(at, line, strlen(line)) != 0)
            fail_msg("daemon/CONFIG.md: the default of %s is %s", row->name, row->def);
    }
    for (const char *at = (const char *)page; (at = strstr(at, "\n| `")); at++)
        described++;
    assert_int_equal(described, rows);
    kymo_free(page);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_sections),
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_what_counts_only_at_start),
        cmocka_unit_test(test_page),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
