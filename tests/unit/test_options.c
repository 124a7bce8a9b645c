#include "base/options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

struct args {
    bool async;
    const char *output;
    const char *name;
    uint64_t ranks;
    uint64_t limit;
    double factor;
    int model;
    int mode;
    uint64_t wait;
    struct kymo_option_list neffs;
    const char *profile;
    struct kymo_option_list rest;
};

static const struct kymo_option rows[] = {
    {.name = "async", .type = KYMO_OPTION_FLAG, .offset = offsetof(struct args, async), .help = "a flag"},
    {.name = "output",
     .letter = 'o',
     .type = KYMO_OPTION_TEXT,
     .arg = "DIR",
     .required = true,
     .offset = offsetof(struct args, output),
     .help = "a text"},
    {.name = "name", .type = KYMO_OPTION_TEXT, .def = "none", .offset = offsetof(struct args, name), .help = "a text"},
    {.name = "ranks",
     .letter = 'r',
     .type = KYMO_OPTION_U64,
     .def = "4",
     .min = 1,
     .max = 64,
     .offset = offsetof(struct args, ranks),
     .help = "a number"},
    {.name = "limit", .type = KYMO_OPTION_SIZE, .def = "1M", .offset = offsetof(struct args, limit), .help = "a size"},
    {.name = "factor", .type = KYMO_OPTION_DOUBLE, .offset = offsetof(struct args, factor), .help = "a fraction"},
    {.name = "model",
     .type = KYMO_OPTION_CHOICE,
     .choices = "mlp|attention",
     .def = "attention",
     .offset = offsetof(struct args, model),
     .help = "a choice"},
    {.name = "mode", .type = KYMO_OPTION_CHOICE, .choices = "a|b", .offset = offsetof(struct args, mode), .help = "x"},
    {.name = "wait",
     .type = KYMO_OPTION_U64,
     .arg = "SECONDS",
     .implied = "60",
     .offset = offsetof(struct args, wait),
     .help = "a number, or none"},
    {.name = "neff", .letter = 'n', .type = KYMO_OPTION_LIST, .offset = offsetof(struct args, neffs), .help = "a list"},
    {.name = "PROFILE", .type = KYMO_OPTION_POSITIONAL, .offset = offsetof(struct args, profile), .help = "first"},
    {.name = "REST", .type = KYMO_OPTION_POSITIONALS, .offset = offsetof(struct args, rest), .help = "others"},
    {0}};

static const struct kymo_options spec = {.program = "kymo try", .about = "Tries options.", .rows = rows};

#define PARSE(args, err, ...) parse(args, err, (char *[]){"try", __VA_ARGS__, NULL})

static int parse(struct args *args, struct kymo_err *err, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(args, 0xa5, sizeof *args);
    *err = (struct kymo_err){0};
    return kymo_options_parse(&spec, argc, argv, args, err);
}

static void test_defaults(void **state)
{
    (void)state;
    struct args a;
    struct kymo_err err;
    assert_int_equal(PARSE(&a, &err, "--output", "d"), KYMO_OPTIONS_PARSED);
    assert_false(a.async);
    assert_string_equal(a.output, "d");
    assert_string_equal(a.name, "none");
    assert_int_equal(a.ranks, 4);
    assert_int_equal(a.limit, 1 << 20);
    assert_true(a.factor == 0);
    assert_int_equal(a.model, 1);
    assert_int_equal(a.mode, -1);
    assert_int_equal(a.neffs.n, 0);
    assert_null(a.profile);
    assert_int_equal(a.rest.n, 0);
}

static void test_forms(void **state)
{
    (void)state;
    struct args a;
    struct kymo_err err;
    assert_int_equal(PARSE(&a, &err, "--async", "--output=x=y", "-r", "0x10", "--limit", "5G", "--factor", "-1.5",
                           "--model", "mlp", "-n", "1", "2", "--neff=3", "p", "-", "--", "--async"),
                     KYMO_OPTIONS_PARSED);
    assert_true(a.async);
    assert_string_equal(a.output, "x=y");
    assert_int_equal(a.ranks, 16);
    assert_int_equal(a.limit, (uint64_t)5 << 30);
    assert_true(a.factor == -1.5);
    assert_int_equal(a.model, 0);
    assert_int_equal(a.neffs.n, 3);
    assert_string_equal(a.neffs.items[1], "2");
    assert_string_equal(a.neffs.items[2], "3");
    assert_string_equal(a.profile, "p");
    assert_int_equal(a.rest.n, 2);
    assert_string_equal(a.rest.items[0], "-");
    assert_string_equal(a.rest.items[1], "--async");
}

static void refused(const char *text, char **argv)
{
    struct args a;
    struct kymo_err err;
    assert_int_equal(parse(&a, &err, argv), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, text);
}

#define REFUSED(text, ...) refused(text, (char *[]){"try", __VA_ARGS__, NULL})

static void test_refusals(void **state)
{
    (void)state;
    REFUSED("--output: is missing", "--async");
    REFUSED("--output: needs a value", "--output");
    REFUSED("--output: needs a value", "--output", "--async");
    REFUSED("--async: takes no value", "--async=true");
    REFUSED("--asyn: unknown option", "--asyn");
    REFUSED("--asyncs: unknown option", "--asyncs");
    REFUSED("-x: unknown option", "-x");
    REFUSED("-rr: unknown option", "-rr", "1");
    REFUSED("--PROFILE: unknown option", "--PROFILE", "1");
    REFUSED("--ranks: 0 is outside 1 to 64", "-r", "0");
    REFUSED("--ranks: 65 is outside 1 to 64", "-r", "65");
    REFUSED("--ranks: \"-1\" is not a number", "-r", "-1");
    REFUSED("--ranks: \" 1\" is not a number", "-r", " 1");
    REFUSED("--ranks: \"\" is not a number", "-r", "");
    REFUSED("--ranks: \"1k\" is not a number", "-r", "1k");
    REFUSED("--ranks: \"99999999999999999999\" is not a number", "-r", "99999999999999999999");
    REFUSED("--limit: \"1KB\" is not a size such as 4096, 64K or 5G", "--limit", "1KB");
    REFUSED("--limit: 99999999999T is outside 0 to 18446744073709551615", "--limit", "99999999999T");
    REFUSED("--factor: \"nan\" is not a number", "--factor", "nan");
    REFUSED("--factor: \"1x\" is not a number", "--factor", "1x");
    REFUSED("--model: \"mlp|attention\" is none of mlp|attention", "--model", "mlp|attention");
    REFUSED("--model: \"\" is none of mlp|attention", "--model", "");
}

static void test_list_maximum(void **state)
{
    (void)state;
    char *argv[KYMO_OPTION_LIST_MAX + 6] = {"try", "--output", "d", "-n"};
    for (int i = 0; i < KYMO_OPTION_LIST_MAX; i++)
        argv[4 + i] = "f";
    struct args a;
    struct kymo_err err;
    assert_int_equal(parse(&a, &err, argv), KYMO_OPTIONS_PARSED);
    assert_int_equal(a.neffs.n, KYMO_OPTION_LIST_MAX);
    argv[4 + KYMO_OPTION_LIST_MAX] = "f";
    refused("--neff: more than 256 values", argv);
}

static void test_unexpected_argument(void **state)
{
    (void)state;
    static const struct kymo_option none[] = {{0}};
    static const struct kymo_options bare = {.program = "kymo bare", .rows = none};
    struct kymo_err err = {0};
    int unused;
    assert_int_equal(kymo_options_parse(&bare, 2, (char *[]){"bare", "x", NULL}, &unused, &err), -EINVAL);
    assert_string_equal(err.text, "\"x\": unexpected argument");
}

static void test_implied(void **state)
{
    (void)state;
    struct args a;
    struct kymo_err err;
    assert_int_equal(PARSE(&a, &err, "-o", "d"), KYMO_OPTIONS_PARSED);
    assert_int_equal(a.wait, 0);
    assert_int_equal(PARSE(&a, &err, "-o", "d", "--wait", "7"), KYMO_OPTIONS_PARSED);
    assert_int_equal(a.wait, 60);
    assert_string_equal(a.profile, "7");
    assert_int_equal(PARSE(&a, &err, "-o", "d", "--wait=7"), KYMO_OPTIONS_PARSED);
    assert_int_equal(a.wait, 7);
    assert_int_equal(PARSE(&a, &err, "-o", "d", "--wait="), -EINVAL);
}

static void test_outcomes(void **state)
{
    (void)state;
    struct args a;
    struct kymo_err err;
    assert_int_equal(PARSE(&a, &err, "--help"), KYMO_OPTIONS_HELP);
    assert_int_equal(PARSE(&a, &err, "-h"), KYMO_OPTIONS_HELP);
    assert_int_equal(PARSE(&a, &err, "--version"), KYMO_OPTIONS_VERSION);
    assert_int_equal(kymo_options_main(&spec, 3, (char *[]){"try", "--output", "d", NULL}, &a), -1);
    assert_int_equal(kymo_options_main(&spec, 2, (char *[]){"try", "--version", NULL}, &a), 0);
    assert_int_equal(kymo_options_main(&spec, 2, (char *[]){"try", "--nothing", NULL}, &a), 2);
}

static void test_help_names_every_row(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    kymo_options_help(&spec, out);
    assert_int_equal(fclose(out), 0);
    for (const struct kymo_option *row = rows; row->name; row++)
        assert_non_null(strstr(text, row->name));
    assert_non_null(strstr(text, "usage: kymo try [OPTIONS] --output DIR [PROFILE] [REST...]\n"));
    assert_non_null(strstr(text, "-r, --ranks VALUE"));
    assert_non_null(strstr(text, "--model mlp|attention"));
    assert_non_null(strstr(text, "a number (default 4)"));
    assert_non_null(strstr(text, "--wait[=SECONDS] "));
    kymo_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_list_maximum),
        cmocka_unit_test(test_unexpected_argument),
        cmocka_unit_test(test_implied),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_help_names_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
