/* Sums by engine, opcode and operator, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "collector/query/rollup.h"

#define CELLS 17
enum { SUMS = 4, REALS = 15 };

static struct sql_cell text(const char *t)
{
    return (struct sql_cell){.text = t, .len = strlen(t)};
}

/* Of one operation: instructions, time, HBM bytes read (< 0: null) and FLOPs (< 0: null). */
static void add(struct rollup *r, const char *engine, int64_t pcore, const char *opcode, const char *operator,
                const int64_t v[3], double flops)
{
    struct sql_cell c[CELLS];
    struct kymo_err err = {0};
    c[0] = text(engine);
    c[1] = pcore < 0 ? (struct sql_cell){.null = true, .text = ""} : (struct sql_cell){.i = pcore, .text = ""};
    c[2] = text(opcode);
    c[3] = text(operator);
    for (size_t i = SUMS; i < CELLS; i++)
        c[i] = (struct sql_cell){.null = true, .text = ""};
    c[SUMS] = (struct sql_cell){.i = v[0], .text = ""};
    c[SUMS + 1] = (struct sql_cell){.i = v[1], .text = ""};
    if (v[2] >= 0)
        c[SUMS + 3] = (struct sql_cell){.i = v[2], .text = ""};
    if (flops >= 0)
        c[REALS] = (struct sql_cell){.f = flops, .text = ""};
    assert_int_equal(rollup_add(r, c, &err), 0);
}

static struct rollup *some(void)
{
    struct rollup *r = rollup_new();
    assert_non_null(r);
    add(r, "Vector", 0, "ADD", "a", (int64_t[]){1, 10, -1}, 0.4);
    add(r, "Tensor", 1, "MATMUL", "b", (int64_t[]){2, 20, 100}, 1000.25);
    add(r, "Tensor", 0, "MATMUL", "a", (int64_t[]){3, 5, 7}, 2000.25);
    add(r, "Tensor", -1, "MOVE", "b", (int64_t[]){4, 25, -1}, -1);
    return r;
}

static void check(const json_t *rows, const char *wanted)
{
    char told[4096] = "";
    (void)json_dumpb(rows, told, sizeof told - 1, JSON_COMPACT);
    json_error_t why;
    json_t *want = json_loads(wanted, 0, &why);
    assert_non_null(want);
    if (!json_equal(rows, want))
        fail_msg("%s instead of %s", told, wanted);
    json_decref(want);
}

/* Only some of the fields, as text. */
static json_t *picked(json_t *rows, const char *const *names, size_t n)
{
    json_t *list = json_array();
    assert_non_null(rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array();
        for (size_t k = 0; k < n; k++) {
            json_t *v = json_object_get(json_array_get(rows, i), names[k]);
            assert_non_null(v);
            (void)json_array_append(row, v);
        }
        (void)json_array_append_new(list, row);
    }
    json_decref(rows);
    return list;
}

static void check_rows(struct rollup *r, enum rollup_by by, size_t max, const char *const *names, size_t n,
                       const char *wanted)
{
    json_t *rows = picked(rollup_rows(r, by, max), names, n);
    check(rows, wanted);
    json_decref(rows);
}

static void test_engines(void **state)
{
    (void)state;
    static const char *const names[] = {"engine",  "pcore",          "instructions",
                                        "time_ns", "hbm_read_bytes", "hardware_flops"};
    struct rollup *r = some();
    check_rows(r, ROLLUP_ENGINE, 100, names, 6,
               "[[\"Tensor\",0,3,5,7,2000],[\"Vector\",0,1,10,null,0],[\"Tensor\",1,2,20,100,1000],"
               "[\"Tensor\",null,4,25,null,null]]");
    rollup_free(r);
}

static void test_opcodes_and_operators(void **state)
{
    (void)state;
    static const char *const opcode[] = {"engine", "opcode", "instructions", "time_ns"};
    static const char *const operator[] = {"operator", "time_ns", "hbm_read_bytes"};
    struct rollup *r = some();
    /* the same time: by name */
    check_rows(r, ROLLUP_OPCODE, 2, opcode, 4, "[[\"Tensor\",\"MATMUL\",5,25],[\"Tensor\",\"MOVE\",4,25]]");
    check_rows(r, ROLLUP_OPERATOR, 100, operator, 3, "[[\"b\",45,100],[\"a\",15,7]]");
    rollup_free(r);
}

static void test_all(void **state)
{
    (void)state;
    static const char *const names[] = {"instructions", "time_ns", "wait_ns", "hbm_read_bytes", "hardware_flops"};
    struct rollup *r = some(), *none = rollup_new();
    check_rows(r, ROLLUP_ALL, 1, names, 5, "[[10,60,null,107,3001]]");
    check_rows(none, ROLLUP_ALL, 1, names, 5, "[[0,null,null,null,null]]");
    check_rows(none, ROLLUP_ENGINE, 1, names, 5, "[]");
    rollup_free(r);
    rollup_free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_opcodes_and_operators),
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
