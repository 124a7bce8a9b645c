/* The simulator's own semaphores and PSUM banks against the vectors: they are the truth that all else is held against.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "driver-iface/sim/sim_internal.h"
#include "driver-iface/sim/sim_truth_internal.h"

#define LINE_MAX_BYTES (1u << 20)
#define UPDATES_MAX 128

static void each_line(const char *path, void (*fn)(json_t *line))
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = kymo_malloc(LINE_MAX_BYTES);
    assert_non_null(text);
    unsigned n = 0;
    while (fgets(text, LINE_MAX_BYTES, f)) {
        json_t *line = json_loads(text, 0, NULL);
        assert_non_null(line);
        fn(line);
        json_decref(line);
        n++;
    }
    assert_true(n > 0);
    kymo_free(text);
    (void)fclose(f);
}

static json_int_t number(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static const char *string(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    assert_non_null(s);
    return s;
}

/* S15 or E15. */
static unsigned target_of(const char *name)
{
    unsigned long n = strtoul(name + 1, NULL, 10);
    assert_true(n < 256 && (*name == 'S' || *name == 'E'));
    return (unsigned)n + (*name == 'E' ? 256u : 0u);
}

struct word {
    const char *name;
    uint8_t mode;
};

static uint8_t mode_of(const struct word *words, const char *name)
{
    for (; words->name; words++)
        if (!strcmp(words->name, name))
            return words->mode;
    fail_msg("no mode for \"%s\"", name);
    return 0;
}

static const struct word update_words[] = {
    {"sem_inc", KYMO_UPD_INC},       {"sem_dec", KYMO_UPD_DEC},
    {"sem_add_imm", KYMO_UPD_ADD},   {"sem_sub_imm", KYMO_UPD_SUB},
    {"sem_wr_imm", KYMO_UPD_WRITE},  {"evt_set", KYMO_UPD_EVT_SET},
    {"evt_clr", KYMO_UPD_EVT_CLEAR}, {NULL, 0},
};
static const struct word wait_words[] = {
    {"sem_eq", KYMO_WAIT_EQ},
    {"sem_lt", KYMO_WAIT_LT},
    {"sem_le", KYMO_WAIT_LE},
    {"sem_gt", KYMO_WAIT_GT},
    {"sem_ge", KYMO_WAIT_GE},
    {"event_set", KYMO_WAIT_EVT_SET},
    {"event_clear", KYMO_WAIT_EVT_CLEAR},
    {"event_set_then_clear", KYMO_WAIT_EVT_SET_CLEAR},
    {"event_clear_then_set", KYMO_WAIT_EVT_CLEAR_SET},
    {NULL, 0},
};

static struct sim_pcore *pcore_new(void)
{
    struct sim_pcore *p = KYMO_NEW(struct sim_pcore);
    assert_non_null(p);
    p->history = kymo_calloc(SIM_SYNC_TARGETS, sizeof *p->history);
    assert_non_null(p->history);
    return p;
}

/* Looks at all waits that are ready and not met yet, at time t; by: the update just made, or -1. */
static void look(struct sim_pcore *p, json_t *waits, json_t *expect, bool *met, json_int_t t, json_int_t by)
{
    static const struct sim_engine_image image = {.engine = KYMO_ENGINE_TENSOR};
    for (size_t i = 0; i < json_array_size(waits); i++) {
        json_t *w = json_array_get(waits, i), *x = json_array_get(expect, i), *value = json_object_get(w, "value");
        if (met[i] || number(w, "ready") > t)
            continue;
        struct kymo_sync s = {.wait_mode = mode_of(wait_words, string(w, "cond")),
                              .wait_idx = (uint8_t)target_of(string(w, "target")),
                              .wait_value = (uint32_t)json_integer_value(value)};
        assert_int_equal(sim_sync_wait_target(&s), target_of(string(w, "target")));
        struct sim_engine e = {.image = &image};
        if (!sim_sync_met(p, &e, &s))
            continue;
        met[i] = true;
        sim_sync_take(NULL, p, &e, &s, (uint64_t)t);
        assert_int_equal(number(x, "satisfied_at"), t);
        assert_int_equal(number(x, "waited"), t - number(w, "ready"));
        if (json_object_get(x, "satisfied_by")) {
            assert_int_equal(number(x, "satisfied_by"), by);
            assert_int_equal(e.met_by[0].by, SIM_BY_INSTR);
            assert_int_equal(e.met_by[0].row, by);
        }
    }
}

/* The next moment after `after` at which a wait becomes ready, before `before`. */
static json_int_t next_ready(json_t *waits, json_int_t after, json_int_t before)
{
    json_int_t next = before;
    for (size_t i = 0; i < json_array_size(waits); i++) {
        json_int_t ready = number(json_array_get(waits, i), "ready");
        if (ready > after && ready < next)
            next = ready;
    }
    return next;
}

static void semaphore_line(json_t *line)
{
    json_t *updates = json_object_get(line, "updates"), *waits = json_object_get(line, "waits"), *v;
    json_t *expect = json_object_get(line, "expect"), *values = json_object_get(expect, "values");
    if (!updates)
        return; /* raw records: the decoder's */
    struct sim_pcore *p = pcore_new();
    const char *key;
    json_object_foreach(json_object_get(line, "initial"), key, v)
    {
        unsigned target = target_of(key);
        p->sync[target] = (uint32_t)json_integer_value(v);
        p->history[target][p->history_count[target]++] = (struct sim_update_note){.value = p->sync[target]};
    }
    bool met[UPDATES_MAX] = {false};
    json_int_t now = 0;
    for (size_t i = 0; i <= json_array_size(updates); i++) {
        json_t *u = json_array_get(updates, i);
        json_int_t t = u ? number(u, "t") : INT64_MAX;
        for (json_int_t r = next_ready(waits, now, t); r < t; r = next_ready(waits, r, t))
            look(p, waits, json_object_get(expect, "waits"), met, r, -1);
        if (!u)
            break;
        now = t;
        struct sim_source src = {.engine = SIM_SOURCE_AXI, .by = SIM_BY_INSTR, .row = (uint32_t)i};
        unsigned target = target_of(string(u, "target"));
        sim_sync_update(NULL, p, &src, mode_of(update_words, string(u, "op")), (uint8_t)target,
                        (uint32_t)json_integer_value(json_object_get(u, "imm")), (uint64_t)t);
        if (values)
            assert_int_equal(p->sync[target], json_integer_value(json_array_get(values, i)));
        look(p, waits, json_object_get(expect, "waits"), met, t, (json_int_t)i);
    }
    json_object_foreach(json_object_get(expect, "final"), key, v)
        assert_int_equal(p->sync[target_of(key)], json_integer_value(v));
    for (size_t i = 0; i < json_array_size(waits); i++)
        assert_int_equal(met[i], json_is_integer(json_object_get(json_array_get(json_object_get(expect, "waits"), i),
                                                                 "satisfied_at")));
    kymo_free(p->history);
    kymo_free(p);
}

static void test_semaphores(void **state)
{
    (void)state;
    each_line("tests/vectors/semaphores.jsonl", semaphore_line);
}

static uint8_t bank_bits(json_t *list)
{
    unsigned bits = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        bits |= 1u << json_integer_value(json_array_get(list, i));
    return (uint8_t)bits;
}

static json_t *by_order(json_t *list, json_int_t after)
{
    json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *o = json_array_get(list, i);
        if (number(o, "order") > after && (!found || number(o, "order") < number(found, "order")))
            found = o;
    }
    return found;
}

static bool has_edge(json_t *edges, const struct sim_truth_edge_row *e)
{
    for (size_t i = 0; i < json_array_size(edges); i++) {
        json_t *x = json_array_get(edges, i);
        if (number(x, "in") == e->from && number(x, "out") == e->to &&
            bank_bits(json_object_get(x, "banks")) == e->detail)
            return true;
    }
    return false;
}

enum group_change { GROUP_SAME, GROUP_OTHER, GROUP_MIXED };

/*
 * Records have no group numbers: another group whose start is not there can only show as a beginning. One that goes on
 * in one bank and was displaced in another cannot be told by flags at all.
 */
static enum group_change take_group(json_int_t groups[SIM_PSUM_BANKS], uint8_t banks, json_int_t group)
{
    unsigned other = 0;
    for (unsigned b = 0; b < SIM_PSUM_BANKS; b++) {
        if (!(banks >> b & 1))
            continue;
        other |= (groups[b] && groups[b] != group) ? 1u << b : 0;
        groups[b] = group;
    }
    return !other ? GROUP_SAME : other == banks ? GROUP_OTHER : GROUP_MIXED;
}

static unsigned psum_lines, psum_skipped;

static void psum_line(json_t *line)
{
    json_t *list = json_object_get(line, "instructions"), *edges = json_object_get(line, "edges");
    struct sim_pcore *p = KYMO_NEW_ARRAY(struct sim_pcore, 2);
    struct sim_capture *cap = KYMO_NEW(struct sim_capture);
    assert_true(p && cap);
    cap->truth = sim_truth_new(true);
    for (unsigned c = 0; c < 2; c++) {
        p[c].capture = cap;
        for (unsigned b = 0; b < SIM_PSUM_BANKS; b++)
            p[c].psum[b].row = SIM_TRUTH_NONE;
    }
    bool skip = false;
    json_int_t groups[2][SIM_PSUM_BANKS] = {{0}};
    for (json_t *o = by_order(list, INT64_MIN); o; o = by_order(list, number(o, "order"))) {
        json_t *acc = json_object_get(o, "acc");
        struct sim_op op = {.psum_read = bank_bits(json_object_get(o, "reads")),
                            .psum_write = bank_bits(json_object_get(o, "writes"))};
        if (json_is_object(acc)) {
            bool start = json_is_true(json_object_get(acc, "start"));
            enum group_change change = take_group(groups[number(o, "core")], op.psum_write, number(acc, "group"));
            skip = skip || (!start && change == GROUP_MIXED);
            op.acc = start || change != GROUP_SAME ? SIM_ACC_BEGIN : SIM_ACC_CONTINUE;
        }
        assert_true(number(o, "core") < 2);
        sim_psum_use(&p[number(o, "core")], &op, (uint32_t)number(o, "id"));
    }
    psum_lines++;
    psum_skipped += skip;
    if (!skip && cap->truth->edges.count != json_array_size(edges))
        fail_msg("line %d: %zu edges, %zu expected", (int)number(line, "id"), cap->truth->edges.count,
                 json_array_size(edges));
    for (size_t i = 0; !skip && i < cap->truth->edges.count; i++)
        if (!has_edge(edges, &cap->truth->edges.rows[i]))
            fail_msg("line %d: edge %u to %u is not expected", (int)number(line, "id"), cap->truth->edges.rows[i].from,
                     cap->truth->edges.rows[i].to);
    sim_truth_free(cap->truth);
    kymo_free(cap);
    kymo_free(p);
}

static void test_psum(void **state)
{
    (void)state;
    each_line("tests/vectors/psum_bank.jsonl", psum_line);
    assert_int_equal(psum_lines, 53);
    assert_int_equal(psum_skipped, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_semaphores), cmocka_unit_test(test_psum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
