/* SAME_PSUM_BANK by the three rules, against tests/vectors/psum_bank.jsonl, and the accumulations that flags alone
 * tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/flow/flow_psum.h"
#include "tests/unit/vectors.h"

static uint8_t bank_bits(const json_t *list)
{
    unsigned bits = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        bits |= 1u << json_integer_value(json_array_get(list, i));
    return (uint8_t)bits;
}

/* The instruction that ran next after this order; NULL: none. */
static const json_t *next_after(const json_t *list, int64_t order)
{
    const json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        if (vectors_int(o, "order") > order && (!found || vectors_int(o, "order") < vectors_int(found, "order")))
            found = o;
    }
    return found;
}

static bool expects(const json_t *edges, int64_t in, int64_t out, uint8_t banks)
{
    for (size_t i = 0; i < json_array_size(edges); i++) {
        const json_t *e = json_array_get(edges, i);
        if (vectors_int(e, "in") == in && vectors_int(e, "out") == out &&
            bank_bits(json_object_get(e, "banks")) == banks)
            return true;
    }
    return false;
}

static void check_line(json_t *line, void *ctx)
{
    (void)ctx;
    const json_t *list = json_object_get(line, "instructions"), *edges = json_object_get(line, "edges");
    struct flow_psum cores[2] = {0};
    size_t found = 0;
    for (const json_t *o = next_after(list, INT64_MIN); o; o = next_after(list, vectors_int(o, "order"))) {
        const json_t *acc = json_object_get(o, "acc");
        struct flow_psum_use use = {.id = vectors_int(o, "id"),
                                    .read = bank_bits(json_object_get(o, "reads")),
                                    .write = bank_bits(json_object_get(o, "writes"))};
        if (json_is_object(acc)) {
            use.group = (uint32_t)vectors_int(acc, "group") + 1;
            use.starts = json_is_true(json_object_get(acc, "start"));
        }
        assert_in_range(vectors_int(o, "core"), 0, 1);
        struct flow_psum_edge in[FLOW_PSUM_BANKS];
        unsigned n = flow_psum_take(&cores[vectors_int(o, "core")], &use, in);
        for (unsigned i = 0; i < n; i++, found++)
            if (!expects(edges, in[i].id, use.id, in[i].banks))
                fail_msg("line %d: edge %d to %d over banks %#x is not expected", (int)vectors_int(line, "id"),
                         (int)in[i].id, (int)use.id, in[i].banks);
    }
    if (found != json_array_size(edges))
        fail_msg("line %d: %zu edges, %zu expected", (int)vectors_int(line, "id"), found, json_array_size(edges));
}

static void test_vectors(void **state)
{
    (void)state;
    assert_int_equal(vectors_each("tests/vectors/psum_bank.jsonl", check_line, NULL), 53);
}

static unsigned take(struct flow_psum *p, int64_t id, uint8_t read, uint8_t write, struct flow_psum_edge *edges)
{
    struct flow_psum_use use = {.id = id, .end = id * 10, .read = read, .write = write};
    flow_psum_overwrite(p, write);
    return flow_psum_take(p, &use, edges);
}

static unsigned matmul(struct flow_psum *p, int64_t id, uint8_t write, bool begins, struct flow_psum_edge *edges)
{
    struct flow_psum_use use = {.id = id, .end = id * 10, .write = write, .starts = begins};
    use.group = flow_psum_group(p, write, begins);
    return flow_psum_take(p, &use, edges);
}

static void test_accumulations_from_flags(void **state)
{
    (void)state;
    struct flow_psum p = {0};
    struct flow_psum_edge e[FLOW_PSUM_BANKS];
    assert_int_equal(matmul(&p, 1, 1 << 6, true, e), 0);
    assert_int_equal(matmul(&p, 2, 1 << 6, false, e), 0); /* adds to it */
    assert_int_equal(matmul(&p, 3, 1 << 2, true, e), 0);  /* another bank */
    assert_int_equal(matmul(&p, 4, 1 << 6, false, e), 0);
    assert_int_equal(take(&p, 5, 1 << 6, 0, e), 1);
    assert_true(e[0].id == 4 && e[0].end == 40 && e[0].banks == 1 << 6);
    assert_int_equal(matmul(&p, 6, 1 << 6, false, e), 1); /* goes on after a reader: linked to the reader */
    assert_int_equal(e[0].id, 5);
    assert_int_equal(matmul(&p, 7, 1 << 6, false, e), 0);
    assert_int_equal(matmul(&p, 8, 1 << 6, true, e), 1); /* begins anew */
    assert_int_equal(e[0].id, 7);
    assert_int_equal(take(&p, 9, 0, 1 << 6, e), 1); /* overwrites */
    assert_int_equal(matmul(&p, 10, 1 << 6, false, e), 1);
    assert_int_equal(matmul(&p, 11, 1 << 6, false, e), 0); /* 10 began what 11 continues, as nobody else did */
}

static void test_one_edge_per_pair_and_forgetting(void **state)
{
    (void)state;
    struct flow_psum p = {0};
    struct flow_psum_edge e[FLOW_PSUM_BANKS];
    assert_int_equal(take(&p, 1, 0, 0x0f, e), 0);
    assert_int_equal(take(&p, 2, 0, 0x30, e), 0);
    assert_int_equal(take(&p, 3, 0xff, 0, e), 2);
    assert_true(e[0].id == 1 && e[0].banks == 0x0f && e[1].id == 2 && e[1].banks == 0x30);
    assert_int_equal(take(&p, 4, 0xff, 0, e), 0); /* two readers */
    assert_int_equal(flow_psum_forget(&p), 8);
    assert_int_equal(take(&p, 5, 0, 0xff, e), 0);
    assert_int_equal(matmul(&p, 6, 1, false, e), 1); /* what it adds to was forgotten: not the same accumulation */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_accumulations_from_flags),
        cmocka_unit_test(test_one_edge_per_pair_and_forgetting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
