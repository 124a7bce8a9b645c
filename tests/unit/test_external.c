/* The external processor's command: words, quotes, placeholders, environment, version of its schema. */
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

#include "base/file.h"
#include "collector/external.h"

static const char *const neffs[] = {"/n/1.neff", "/n/2.neff"};
static const struct external_job job = {
    .name = "prof",
    .capture = "cap",
    .ntff = "/raw/a b.ntff",
    .manifest = "/raw/manifest.pb",
    .output = "/out",
    .neffs = neffs,
    .neff_count = 2,
};

/* Words joined by "|". */
static void assert_words(const char *command, const char *expected)
{
    struct external x = {.command = command};
    struct kymo_err err = {0};
    char **argv = NULL, joined[1024] = "";
    size_t n = 0;
    if (external_argv(&x, &job, &argv, &err) < 0)
        fail_msg("%s: %s", command, err.text);
    for (size_t i = 0; argv[i]; i++)
        n += (size_t)snprintf(joined + n, sizeof joined - n, "%s%s", i ? "|" : "", argv[i]);
    assert_string_equal(joined, expected);
    external_strings_free(&argv);
}

static void splits_and_fills_in(void **state)
{
    (void)state;
    assert_words("tool", "tool");
    assert_words("  tool\t-v  x ", "tool|-v|x");
    assert_words("tool \"a b\" c\" \"d \"\"", "tool|a b|c d|");
    assert_words("tool -s {ntff} --out={output}/x {name}-{capture}", "tool|-s|/raw/a b.ntff|--out=/out/x|prof-cap");
    assert_words("tool {neffs} {neff} {manifest}", "tool|/n/1.neff|/n/2.neff|/n/1.neff|/raw/manifest.pb");
    /* What a value holds is no placeholder, no word and no quote. */
    assert_words("tool x{ y", "tool|x{|y");
}

static void refuse(const char *command, const char *why)
{
    struct external x = {.command = command};
    struct kymo_err err = {0};
    assert_int_equal(external_check(&x, &err), -EINVAL);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void refuses_bad_commands(void **state)
{
    (void)state;
    char many[512] = "", longer[5000];
    for (unsigned i = 0; i <= EXTERNAL_WORDS_MAX; i++)
        (void)snprintf(many + 2 * i, sizeof many - 2 * i, "x ");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    refuse("", "empty");
    refuse("  \t", "empty");
    refuse("tool \"x", "quote is not closed");
    refuse("tool {other}", "no placeholder {other}");
    refuse("tool x{}", "no placeholder {}");
    refuse("sh {ntff", "not closed: {ntff");
    refuse("/nope {ntff}", "/nope: No such file");
    refuse("no-such-program {ntff}", "no such program in PATH");
    refuse("./tool", "absolute path");
    refuse(many, "more than 64 words");
    refuse(longer, "longer than");
    refuse("{neffs}", "no program");
}

static void names_the_processor(void **state)
{
    (void)state;
    char name[8];
    external_name(&(struct external){.command = " /usr/bin/neuron x"}, name, sizeof name);
    assert_string_equal(name, "neuron");
    external_name(&(struct external){.command = "neuron-explorer view"}, name, sizeof name);
    assert_string_equal(name, "neuron-");
}

static void gives_an_environment(void **state)
{
    (void)state;
    char **env = NULL;
    unsigned found = 0;
    assert_int_equal(external_env(&job, "/home", &env, NULL), 0);
    static const char *const wanted[] = {"HOME=/home",       "TMPDIR=/home",        "KYMO_NTFF=/raw/a b.ntff",
                                         "KYMO_OUTPUT=/out", "KYMO_NEFF=/n/1.neff", "KYMO_PROFILE=prof",
                                         "KYMO_CAPTURE=cap", "KYMO_PROGRESS_FD=3",  "LANG=C.UTF-8"};
    for (size_t i = 0; env[i]; i++)
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
            found |= !strcmp(env[i], wanted[k]) ? 1u << k : 0;
    assert_int_equal(found, (1u << sizeof wanted / sizeof *wanted) - 1);
    external_strings_free(&env);
}

static void tells_the_version(void **state)
{
    (void)state;
    char dir[] = "/tmp/kymo-external.XXXXXX", path[64], version[64];
    struct external x = {.command = "tool"};
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/schema_version", dir);
    external_schema_version(&x, dir, version, sizeof version);
    assert_string_equal(version, "unknown");
    x.schema_version = "7.4.0";
    external_schema_version(&x, dir, version, sizeof version);
    assert_string_equal(version, "7.4.0");
    assert_int_equal(kymo_file_write_atomic(path, "2.33.1\nmore", 11, NULL), 0);
    external_schema_version(&x, dir, version, sizeof version);
    assert_string_equal(version, "2.33.1");
    assert_int_equal(kymo_file_write_atomic(path, "<script>", 8, NULL), 0);
    external_schema_version(&x, dir, version, sizeof version);
    assert_string_equal(version, "7.4.0");
    assert_int_equal(kymo_file_remove_tree(dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_and_fills_in), cmocka_unit_test(refuses_bad_commands),
        cmocka_unit_test(names_the_processor), cmocka_unit_test(gives_an_environment),
        cmocka_unit_test(tells_the_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
