#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "arch/ring.h"

#define VECTORS "tests/vectors/buffers.jsonl"
#define LINES_MAX 10000

static const char *get_json(void *ctx, const char *name)
{
    return json_string_value(json_object_get(ctx, name));
}

struct line {
    int id;
    const struct kymo_arch *arch;
    unsigned lnc;
    const char *driver;
    struct kymo_ring_sizes sizes;
    const json_t *expect;
};

static unsigned first_core(const struct line *l, const json_t *cores)
{
    assert_int_equal(json_array_size(cores), l->lnc);
    unsigned first = (unsigned)json_integer_value(json_array_get(cores, 0));
    for (size_t i = 0; i < l->lnc; i++)
        assert_int_equal(json_integer_value(json_array_get(cores, i)), first + i);
    return first;
}

/* The engine traced for this profile, or -1; the plan must agree with the reasons. */
static int traced_engine(const struct line *l, unsigned first, unsigned *ret_reasons)
{
    unsigned engine;
    *ret_reasons = kymo_h2d_reasons(l->arch, first, l->lnc, l->driver, &l->sizes, &engine);
    struct kymo_ring_plan plan[KYMO_RING_PLAN_MAX];
    size_t n = kymo_ring_plan(l->arch, first, l->lnc, l->driver, &l->sizes, plan);
    int planned = -1;
    for (size_t i = 0; i < n; i++)
        if (plan[i].ring == KYMO_RING_H2D_DMA) {
            assert_int_equal(planned, -1);
            assert_int_equal(plan[i].bytes, l->sizes.bytes[KYMO_RING_H2D_DMA]);
            planned = (int)plan[i].engine_index;
        }
    assert_int_equal(planned, *ret_reasons ? -1 : (int)engine);
    return planned;
}

static unsigned reasons_of(const json_t *because)
{
    unsigned reasons = 0;
    size_t i;
    json_t *text;
    json_array_foreach(because, i, text)
    {
        unsigned found = 0;
        for (int s = KYMO_H2D_OFF; s <= KYMO_H2D_ODD_CORE; s++)
            if (!strcmp(json_string_value(text), kymo_h2d_reason_text((enum kymo_h2d_state)s)))
                found = 1u << s;
        assert_int_not_equal(found, 0);
        reasons |= found;
    }
    return reasons;
}

static void check_one(const struct line *l, const json_t *cores)
{
    unsigned reasons;
    int engine = traced_engine(l, first_core(l, cores), &reasons);
    bool traced = json_is_true(json_object_get(l->expect, "includes_trace"));
    assert_int_equal(engine >= 0, traced);
    json_int_t mb = json_integer_value(json_object_get(l->expect, "buffer_mb_per_engine"));
    assert_int_equal(traced ? l->sizes.bytes[KYMO_RING_H2D_DMA] >> 20 : 0, mb);
    if (traced)
        assert_int_equal(engine, json_integer_value(json_object_get(l->expect, "engine")));
    assert_int_equal(reasons, reasons_of(json_object_get(l->expect, "because")));
}

static void check_many(const struct line *l, const json_t *profiles)
{
    const json_t *includes = json_object_get(l->expect, "includes_trace");
    const json_t *engines = json_object_get(l->expect, "engines");
    assert_int_equal(json_array_size(includes), json_array_size(profiles));
    size_t traced = 0;
    uint64_t reserved = 0;
    for (size_t i = 0; i < json_array_size(profiles); i++) {
        unsigned reasons;
        int engine = traced_engine(l, first_core(l, json_array_get(profiles, i)), &reasons);
        assert_int_equal(engine >= 0, json_is_true(json_array_get(includes, i)));
        if (engine < 0)
            continue;
        assert_int_equal(engine, json_integer_value(json_array_get(engines, traced)));
        traced++;
        reserved += l->sizes.bytes[KYMO_RING_H2D_DMA] >> 20;
    }
    assert_int_equal(traced, json_array_size(engines));
    assert_int_equal(reserved, json_integer_value(json_object_get(l->expect, "reserved_mb")));
}

static void run_line(const char *text, int number)
{
    json_error_t error;
    json_t *v = json_loads(text, 0, &error);
    if (!v)
        fail_msg("%s:%d: %s", VECTORS, number, error.text);
    struct line l = {.id = (int)json_integer_value(json_object_get(v, "id")),
                     .arch = kymo_arch_find(json_string_value(json_object_get(v, "generation"))),
                     .lnc = (unsigned)json_integer_value(json_object_get(v, "lnc")),
                     .driver = json_string_value(json_object_get(v, "driver")),
                     .expect = json_object_get(v, "expect")};
    struct kymo_err err = {0};
    assert_non_null(l.arch);
    assert_non_null(l.driver);
    assert_int_equal(kymo_arch_check_lnc(l.arch, l.lnc, &err), 0);
    assert_int_equal(kymo_ring_sizes_from_env(get_json, json_object_get(v, "environment"), &l.sizes, &err), 0);
    const json_t *cores = json_object_get(v, "physical_cores"), *profiles = json_object_get(v, "profiles");
    if (cores)
        check_one(&l, cores);
    else if (profiles)
        check_many(&l, profiles);
    else
        fail_msg("%s: id %d has neither physical_cores nor profiles", VECTORS, l.id);
    json_decref(v);
}

static void test_vectors(void **state)
{
    (void)state;
    FILE *f = fopen(VECTORS, "r");
    assert_non_null(f);
    static char text[1 << 16];
    int n = 0;
    while (n < LINES_MAX && fgets(text, sizeof text, f))
        run_line(text, ++n);
    assert_true(feof(f));
    (void)fclose(f);
    print_message("%s: %d lines run\n", VECTORS, n);
    assert_int_equal(n, 166);
}

static const char *get_pair(void *ctx, const char *name)
{
    const char **pair = ctx;
    return !strcmp(pair[0], name) ? pair[1] : NULL;
}

static int sizes_with(const char *name, const char *value, struct kymo_ring_sizes *ret, struct kymo_err *err)
{
    const char *pair[] = {name, value};
    return kymo_ring_sizes_from_env(get_pair, pair, ret, err);
}

static void test_sizes(void **state)
{
    (void)state;
    struct kymo_ring_sizes s, before;
    struct kymo_err err = {0};
    assert_int_equal(sizes_with("", NULL, &s, &err), 0);
    assert_int_equal(s.bytes[KYMO_RING_INSTRUCTION], 128u << 20);
    for (int r = KYMO_RING_EVENT; r < KYMO_RING_MAX; r++)
        assert_true(s.bytes[r] == 64u << 20 && !s.set[r] && !s.rounded[r]);
    assert_int_equal(sizes_with("NEURON_RT_PROFILE_BUF_DMA_MB", "100", &s, &err), 0);
    assert_true(s.bytes[KYMO_RING_DMA] == 128u << 20 && s.set[KYMO_RING_DMA] && s.rounded[KYMO_RING_DMA]);
    assert_int_equal(sizes_with("NEURON_RT_PROFILE_BUF_H2D_DMA_MB", "0", &s, &err), 0);
    assert_true(s.bytes[KYMO_RING_H2D_DMA] == 0 && s.set[KYMO_RING_H2D_DMA]);
    before = s;
    static const char *const bad[] = {"", "-1", "1.5", "64MB", " 64", "99999999999999999999", "100000", "0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sizes_with("NEURON_RT_PROFILE_BUF_EVENT_MB", bad[i], &s, &err), -EINVAL);
        assert_non_null(strstr(err.text, "NEURON_RT_PROFILE_BUF_EVENT_MB"));
        assert_memory_equal(&s, &before, sizeof s);
    }
}

static void test_plan(void **state)
{
    (void)state;
    struct kymo_ring_sizes s;
    assert_int_equal(sizes_with("", NULL, &s, NULL), 0);
    struct kymo_ring_plan p[KYMO_RING_PLAN_MAX];
    /* Per core 5 rings and 16 DMA engines; CC-cores 6 / 2 on Trn1, 16 / 8 on Trn2, three rings each; one host-device
     * ring. */
    assert_int_equal(kymo_ring_plan(kymo_arch_find("trn1"), 1, 1, "2.31", &s, p), 21 + 9 + 1);
    assert_int_equal(p[30].engine_index, 33);
    assert_int_equal(kymo_ring_plan(kymo_arch_find("trn2"), 3, 1, "2.31", &s, p), 21 + 6);
    assert_int_equal(kymo_ring_plan(kymo_arch_find("trn2"), 6, 2, "2.31", &s, p), 42 + 12 + 1);
    assert_true(p[21].ring == KYMO_RING_INSTRUCTION && p[21].pcore_idx == 1 && p[21].nc_idx == 7);
    assert_int_equal(p[42].engine_index, 12);
    char label[64];
    kymo_ring_label(p[21 + 4 + 3].ring, 1, p[21 + 4 + 3].engine_index, label, sizeof label);
    assert_string_equal(label, "DMA-E3(nc1)");
    kymo_ring_label(KYMO_RING_INSTRUCTION, 0, 0, label, sizeof label);
    assert_string_equal(label, "INSTRUCTION(nc0)");
    kymo_ring_label(KYMO_RING_H2D_DMA, 0, 128, label, sizeof label);
    assert_string_equal(label, "H2D_DMA-E128");
    kymo_ring_label(KYMO_RING_CC_CORE_EVENT, 0, 2, label, sizeof label);
    assert_string_equal(label, "CC_CORE_EVENT-2");
}

static void test_versions(void **state)
{
    (void)state;
    assert_true(kymo_version_compare("2.9", "2.31.1") < 0);
    assert_true(kymo_version_compare("2.31.0.0", "2.31") == 0);
    assert_true(kymo_version_compare("2.31.0.1", "2.31") > 0);
    assert_true(kymo_version_compare("3", "2.100") > 0);
    assert_true(kymo_version_compare("2.31-rc1", "2.31") == 0);
    assert_true(kymo_version_compare("", "0.0") == 0);
    assert_true(kymo_version_compare("", "1") < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
