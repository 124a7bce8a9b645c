/* Event records to rows, and the replay of counters, against tests/vectors/semaphores.jsonl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/semaphores/semaphore_replay.h"
#include "pipeline/semaphores/semaphores.h"
#include "tests/unit/vectors.h"

#define NAMES 10

static const char *const operations[NAMES] = {"none",        "evt_set", "evt_clr",     "sem_inc", "sem_dec",
                                              "sem_add_imm", "",        "sem_sub_imm", "",        "sem_wr_imm"};
static const struct {
    const char *name;
    uint8_t mode;
} conditions[] = {
    {"sem_eq", KYMO_WAIT_EQ},
    {"sem_lt", KYMO_WAIT_LT},
    {"sem_le", KYMO_WAIT_LE},
    {"sem_gt", KYMO_WAIT_GT},
    {"sem_ge", KYMO_WAIT_GE},
    {"event_set", KYMO_WAIT_EVT_SET},
    {"event_clear", KYMO_WAIT_EVT_CLEAR},
    {"event_set_then_clear", KYMO_WAIT_EVT_SET_CLEAR},
    {"event_clear_then_set", KYMO_WAIT_EVT_CLEAR_SET},
};

static uint8_t update_mode(const json_t *update)
{
    for (uint8_t i = 0; i < NAMES; i++)
        if (*operations[i] && !strcmp(operations[i], vectors_string(update, "op")))
            return i;
    fail_msg("%s", vectors_string(update, "op"));
    return 0;
}

static uint8_t wait_mode(const json_t *wait)
{
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        if (!strcmp(conditions[i].name, vectors_string(wait, "cond")))
            return conditions[i].mode;
    fail_msg("%s", vectors_string(wait, "cond"));
    return 0;
}

static uint8_t number_of(const char *target)
{
    return (uint8_t)strtoul(target + 1, NULL, 10);
}

static uint32_t optional(const json_t *o, const char *key)
{
    return json_object_get(o, key) ? (uint32_t)vectors_int(o, key) : 0;
}

static void start(struct semaphore_replay *r, json_t *initial)
{
    const char *target;
    json_t *value;
    *r = (struct semaphore_replay){0};
    json_object_foreach(initial, target, value)
    {
        uint32_t *at = *target == 'S' ? r->semaphore : r->event;
        at[number_of(target)] = (uint32_t)json_integer_value(value);
    }
}

static uint32_t apply(struct semaphore_replay *r, const json_t *update)
{
    return semaphore_replay_update(r, update_mode(update), number_of(vectors_string(update, "target")),
                                   optional(update, "imm"));
}

static bool met(struct semaphore_replay *r, const json_t *wait)
{
    return semaphore_replay_wait(r, wait_mode(wait), number_of(vectors_string(wait, "target")),
                                 optional(wait, "value"));
}

static void check_met(const json_t *expect, int64_t at, int64_t update)
{
    const json_t *want = json_object_get(expect, "satisfied_at");
    if (json_is_null(want)) {
        assert_int_equal(at, -1);
        return;
    }
    assert_int_equal(at, json_integer_value(want));
    const json_t *by = json_object_get(expect, "satisfied_by");
    if (by)
        assert_int_equal(update, json_integer_value(by));
}

/* Waits that flip their event come one after the other; all others look at the same run of updates. */
static void check_replay(json_t *line)
{
    struct semaphore_replay r;
    json_t *updates = json_object_get(line, "updates"), *waits = json_object_get(line, "waits");
    json_t *expect = json_object_get(line, "expect"), *values = json_object_get(expect, "values");
    size_t n = json_array_size(updates), w = 0;
    int64_t at[64], by[64];
    bool done[64] = {false};
    assert_true(json_array_size(waits) <= 64);
    for (w = 0; w < 64; w++)
        at[w] = by[w] = -1;
    start(&r, json_object_get(line, "initial"));
    for (size_t i = 0; i <= n; i++) {
        int64_t now = i ? vectors_int(json_array_get(updates, i - 1), "t") : INT64_MIN;
        int64_t next = i < n ? vectors_int(json_array_get(updates, i), "t") : INT64_MAX;
        if (i) {
            uint32_t v = apply(&r, json_array_get(updates, i - 1));
            if (values)
                assert_int_equal(v, json_integer_value(json_array_get(values, i - 1)));
        }
        for (w = 0; w < json_array_size(waits); w++) {
            const json_t *wait = json_array_get(waits, w);
            int64_t ready = vectors_int(wait, "ready");
            if (done[w] || ready >= next || !met(&r, wait))
                continue;
            done[w] = true;
            at[w] = ready > now ? ready : now;
            by[w] = ready > now ? -1 : (int64_t)i - 1;
        }
    }
    for (w = 0; w < json_array_size(waits); w++)
        check_met(json_array_get(json_object_get(expect, "waits"), w), at[w], by[w]);
    const char *target;
    json_t *value;
    json_object_foreach(json_object_get(expect, "final"), target, value)
    {
        const uint32_t *final = *target == 'S' ? r.semaphore : r.event;
        assert_int_equal(final[number_of(target)], json_integer_value(value));
    }
}

static void check_row(const char *hex, const json_t *want)
{
    uint8_t bytes[KYMO_RECORD_SIZE];
    struct record rec;
    assert_int_equal(vectors_hex(hex, bytes, sizeof bytes), sizeof bytes);
    record_decode(bytes, &rec);
    assert_int_equal(rec.kind, RECORD_EVENT_SEMAPHORE);
    struct semaphore_row row = semaphores_row(&rec);
    const char *target = vectors_string(want, "target");
    assert_int_equal(rec.ts_ps / 1000, vectors_int(want, "timestamp_ns"));
    assert_int_equal(row.id[0], target[0]);
    assert_int_equal(strtoul(row.id + 2, NULL, 10), number_of(target));
    assert_int_equal(row.value, vectors_int(want, "value"));
    assert_string_equal(row.source, vectors_string(want, "update_source"));
    assert_int_equal(row.mode, vectors_int(want, "update_mode"));
    assert_string_equal(row.operation, vectors_string(want, "update_operation_type"));
    const char *timing = json_string_value(json_object_get(want, "update_trigger_timing"));
    assert_string_equal(row.timing ? row.timing : "", timing ? timing : "");
}

static void check_line(json_t *line, void *ctx)
{
    size_t *rows = ctx;
    json_t *records = json_object_get(line, "records");
    if (!records) {
        check_replay(line);
        return;
    }
    json_t *want = json_object_get(json_object_get(line, "expect"), "rows");
    assert_int_equal(json_array_size(want), json_array_size(records));
    for (size_t i = 0; i < json_array_size(records); i++, (*rows)++)
        check_row(json_string_value(json_array_get(records, i)), json_array_get(want, i));
}

static void test_vectors(void **state)
{
    (void)state;
    size_t rows = 0;
    assert_int_equal(vectors_each("tests/vectors/semaphores.jsonl", check_line, &rows), 28);
    assert_true(rows > 50);
}

/* A wait that is met is a row of its own: no operation, the value seen, the engine that waited. */
static void test_met_wait(void **state)
{
    (void)state;
    struct record rec = {.kind = RECORD_EVENT_SEMAPHORE};
    rec.u.sem.engine = KYMO_ENGINE_VECTOR;
    rec.u.sem.id = 20;
    rec.u.sem.is_semaphore = true;
    rec.u.sem.value = 7;
    struct semaphore_row row = semaphores_row(&rec);
    assert_string_equal(row.id, "S[20]");
    assert_string_equal(row.source, "Vector");
    assert_string_equal(row.operation, "none");
    assert_null(row.timing);
    assert_int_equal(row.value, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_met_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
