#include "base/ini.h"

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

struct section {
    const char *name;
    uint64_t count;
};

struct args {
    const char *config, *dir;
    uint64_t rate, ranks;
    bool armed;
    int mode;
    struct kymo_option_list collectors;
    size_t n;
    struct section sections[4];
};

static const struct kymo_option rows[] = {
    {.name = "config", .type = KYMO_OPTION_TEXT, .offset = offsetof(struct args, config)},
    {.name = "spool-dir", .type = KYMO_OPTION_TEXT, .required = true, .offset = offsetof(struct args, dir)},
    {.name = "rate", .type = KYMO_OPTION_SIZE, .def = "1M", .offset = offsetof(struct args, rate)},
    {.name = "ranks", .type = KYMO_OPTION_U64, .min = 1, .max = 8, .def = "1", .offset = offsetof(struct args, ranks)},
    {.name = "armed", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, armed)},
    {.name = "mode", .type = KYMO_OPTION_CHOICE, .choices = "a|b", .offset = offsetof(struct args, mode)},
    {.name = "collector", .letter = 'c', .type = KYMO_OPTION_LIST, .offset = offsetof(struct args, collectors)},
    {0}};
static const struct kymo_option section_rows[] = {
    {.name = "count", .type = KYMO_OPTION_U64, .offset = offsetof(struct section, count)}, {0}};

static void *begin(void *target, const char *name, struct kymo_err *err)
{
    struct args *a = target;
    if (a->n == 4 || !*name) {
        (void)kymo_err_set(err, -EINVAL, "a job needs a name");
        return NULL;
    }
    a->sections[a->n] = (struct section){.name = name, .count = 7};
    return &a->sections[a->n++];
}

static const struct kymo_options options = {.program = "try", .about = "Tries.", .rows = rows};
static const struct kymo_ini_section sections[] = {{.kind = "job", .rows = section_rows, .begin = begin}, {0}};
static const struct kymo_ini_spec spec = {.options = &options, .sections = sections};

static int read_text(const char *text, struct args *a, struct kymo_ini **ini, struct kymo_err *err)
{
    *a = (struct args){0};
    *err = (struct kymo_err){0};
    *ini = NULL;
    return kymo_ini_read(&spec, "f.conf", text, strlen(text), a, ini, err);
}

static void test_all_forms(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbf# comment\n; another\r\n\n  spool-dir = /a b \r\n\trate: 2K ; behind\narmed=true\n"
        "mode = b\ncollector = x:1\ncollector = y:2\n[ job  llama-* ] # note\n count = 3\n"
        "[job b]";
    struct args a;
    struct kymo_ini *ini;
    struct kymo_err err;
    assert_int_equal(read_text(text, &a, &ini, &err), 0);
    assert_string_equal(a.dir, "/a b");
    assert_int_equal(a.rate, 2048);
    assert_true(a.armed);
    assert_int_equal(a.mode, 1);
    assert_int_equal(a.collectors.n, 2);
    assert_string_equal(a.collectors.items[1], "y:2");
    assert_int_equal(a.n, 2);
    assert_string_equal(a.sections[0].name, "llama-*");
    assert_int_equal(a.sections[0].count, 3);
    assert_int_equal(a.sections[1].count, 7);
    assert_null(kymo_ini_free(ini));
    assert_int_equal(read_text("", &a, &ini, &err), 0);
    (void)kymo_ini_free(ini);
}

static void test_errors_name_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"rate = 1\nrat = 2\n", "f.conf:2: rat: no such key here"},
        {"config = /etc/x\n", "f.conf:1: config: no such key here"},
        {"rate = x\n", "f.conf:1: rate: \"x\" is not a number"},
        {"\n\nranks = 9\n", "f.conf:3: ranks: 9 is outside 1 to 8"},
        {"armed = yes\n", "f.conf:1: armed: \"yes\" is neither true nor false"},
        {"rate = 1\nmode = a\nrate = 2\n", "f.conf:3: rate: this key stood here before"},
        {"rate\n", "f.conf:1: neither \"key = value\" nor a section nor a comment"},
        {"[job a]\nrate = 1\n", "f.conf:2: rate: no such key here"},
        {"[job a]\ncount = 1\n[job b]\ncount = 1\ncount = 2\n", "f.conf:5: count: this key stood here before"},
        {"[job a]\n[ job a ]\n", "f.conf:2: this section stood here before"},
        {"[unit a]\n", "f.conf:1: no such section"},
        {"[job]\n", "f.conf:1: a job needs a name"},
        {"[job a\n", "f.conf:1: a section without its closing bracket"},
        {"[job a] b\n", "f.conf:1: something behind the section's closing bracket"},
        {"[job 123456789012345678901234567890123456789012345678]\n", "f.conf:1: the section's name is too long"},
        {"rate = 1\n\nspool-dir = a\x01 b\n", "f.conf:3: a control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct args a;
        struct kymo_ini *ini;
        struct kymo_err err;
        assert_int_equal(read_text(cases[i].text, &a, &ini, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].error);
        assert_null(ini);
    }
}

/* The library's own lines are 200 bytes, cut silently. */
static void test_long_lines(void **state)
{
    (void)state;
    char text[2 * KYMO_INI_LINE_MAX] = "rate = 1\nspool-dir = ";
    struct args a;
    struct kymo_ini *ini;
    struct kymo_err err;
    size_t n = strlen(text), longest = n - strlen("rate = 1\n");
    memset(text + n, 'x', KYMO_INI_LINE_MAX - longest);
    text[9 + KYMO_INI_LINE_MAX] = '\n';
    assert_int_equal(read_text(text, &a, &ini, &err), 0);
    assert_int_equal(strlen(a.dir), KYMO_INI_LINE_MAX - longest);
    (void)kymo_ini_free(ini);
    text[9 + KYMO_INI_LINE_MAX] = 'x';
    assert_int_equal(read_text(text, &a, &ini, &err), -EINVAL);
    assert_string_equal(err.text, "f.conf:2: the line is too long");
}

static void test_order(void **state)
{
    (void)state;
    char path[] = "/tmp/kymo-test-ini.XXXXXX", config[64];
    static const char text[] = "spool-dir = file\nrate = 2\nranks = 3\ncollector = f1\ncollector = f2\n";
    struct args a;
    struct kymo_ini *ini = NULL;
    struct kymo_err err = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    (void)snprintf(config, sizeof config, "--config=%s", path);
    char *argv[] = {"try", config, "--rate", "9", "-c", "c1", "-c", "c2", NULL};
    assert_int_equal(kymo_ini_load(&spec, 8, argv, &a, &ini, &err), KYMO_OPTIONS_PARSED);
    assert_string_equal(a.dir, "file");
    assert_int_equal(a.rate, 9);
    assert_int_equal(a.ranks, 3);
    assert_int_equal(a.mode, -1);
    assert_int_equal(a.collectors.n, 2);
    assert_string_equal(a.collectors.items[0], "c1");
    ini = kymo_ini_free(ini);
    assert_int_equal(kymo_ini_load(&spec, 2, argv, &a, &ini, &err), KYMO_OPTIONS_PARSED);
    assert_int_equal(a.rate, 2);
    assert_string_equal(a.collectors.items[1], "f2");
    ini = kymo_ini_free(ini);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kymo_ini_load(&spec, 2, argv, &a, &ini, &err), -ENOENT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(kymo_ini_load(&spec, 1, argv, &a, &ini, &err), -EINVAL);
    assert_string_equal(err.text, "--spool-dir: is missing");
    char *help[] = {"try", "--help", NULL};
    assert_int_equal(kymo_ini_load(&spec, 2, help, &a, &ini, &err), KYMO_OPTIONS_HELP);
    assert_null(ini);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    struct args a;
    struct kymo_ini *ini = NULL;
    struct kymo_err err;
    int r = -ENOMEM;
    for (long n = 0; r < 0 && n < 32; n++) {
        kymo_alloc_fail_after(n);
        r = read_text("rate = 1\n[job a]\ncount = 1\n", &a, &ini, &err);
        assert_true(r == 0 || r == -ENOMEM);
    }
    kymo_alloc_fail_after(-1);
    assert_int_equal(r, 0);
    (void)kymo_ini_free(ini);
}

static void test_too_much(void **state)
{
    (void)state;
    struct args a = {0};
    struct kymo_ini *ini = NULL;
    struct kymo_err err = {0};
    char *big = kymo_malloc(KYMO_INI_FILE_MAX + 1);
    memset(big, '\n', KYMO_INI_FILE_MAX + 1);
    assert_int_equal(kymo_ini_read(&spec, "f", big, KYMO_INI_FILE_MAX + 1, &a, &ini, &err), -EFBIG);
    assert_int_equal(kymo_ini_read(&spec, "f", big, KYMO_INI_FILE_MAX, &a, &ini, &err), 0);
    (void)kymo_ini_free(ini);
    kymo_free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms),       cmocka_unit_test(test_errors_name_file_and_line),
        cmocka_unit_test(test_long_lines),      cmocka_unit_test(test_order),
        cmocka_unit_test(test_memory_runs_out), cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
