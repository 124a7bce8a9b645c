/* Pairing against tests/vectors/pairing.jsonl, and its window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "formats/ntff/record.h"
#include "pipeline/rings/pair.h"
#include "tests/unit/vectors.h"

#define RECORDS_MAX 256

struct ring {
    struct record records[RECORDS_MAX];
    size_t n;
    struct pair_event events[RECORDS_MAX];
    enum kymo_engine engines[RECORDS_MAX];
    size_t n_events;
};

static uint64_t first_index(const struct pair_event *e)
{
    return e->has_start ? e->start_index : e->end_index;
}

/* Events of all engines, in order of their first records, as the vectors list them. */
static void collect(struct ring *ring, struct pair *pair, enum kymo_engine engine)
{
    struct pair_event e;
    while (pair_pop(pair, &e)) {
        size_t at = ring->n_events++;
        while (at > 0 && first_index(&ring->events[at - 1]) > first_index(&e)) {
            ring->events[at] = ring->events[at - 1];
            ring->engines[at] = ring->engines[at - 1];
            at--;
        }
        ring->events[at] = e;
        ring->engines[at] = engine;
    }
}

static void feed(struct pair *pair, const struct record *rec, uint64_t i, enum kymo_engine engine)
{
    if (rec->kind == RECORD_INSTRUCTION_START && rec->u.start.engine == engine)
        pair_start(pair, rec->u.start.pc, rec->ts_ps, i, rec->u.start.event_wait_cycles);
    else if (rec->kind == RECORD_INSTRUCTION_END && rec->u.end.engine == engine)
        pair_end(pair, rec->u.end.pc, rec->ts_ps, i, rec->u.end.crc_in, rec->u.end.crc_out);
}

static void run_engine(struct ring *ring, enum kymo_engine engine)
{
    struct pair pair;
    pair_init(&pair);
    for (size_t i = 0; i < ring->n; i++) {
        if (ring->records[i].sw_overflow) {
            pair_gap(&pair);
            collect(ring, &pair, engine);
        }
        feed(&pair, &ring->records[i], i, engine);
        collect(ring, &pair, engine);
        if (ring->records[i].hw_overflow) {
            pair_gap(&pair);
            collect(ring, &pair, engine);
        }
    }
    pair_finish(&pair);
    collect(ring, &pair, engine);
}

static void check_side(const json_t *side, bool has, uint64_t index, uint64_t ps)
{
    assert_int_equal(has, !json_is_null(side));
    if (!has)
        return;
    assert_int_equal(index, vectors_int(side, "index"));
    assert_int_equal(ps, (uint64_t)vectors_int(side, "ps"));
    assert_int_equal(ps / 1000, (uint64_t)vectors_int(side, "ns"));
}

static void check_events(const struct ring *ring, const json_t *expect)
{
    const json_t *events = json_object_get(expect, "events");
    assert_int_equal(ring->n_events, json_array_size(events));
    for (size_t i = 0; i < ring->n_events; i++) {
        const json_t *want = json_array_get(events, i);
        const struct pair_event *e = &ring->events[i];
        assert_int_equal(ring->engines[i], kymo_engine_find(vectors_string(want, "engine")));
        assert_int_equal(e->pc, vectors_int(want, "pc"));
        check_side(json_object_get(want, "start"), e->has_start, e->start_index, e->start_ps);
        check_side(json_object_get(want, "end"), e->has_end, e->end_index, e->end_ps);
        assert_int_equal(e->reason == PAIR_WHOLE, e->has_start && e->has_end);
    }
}

static bool has_loss(const json_t *loss, size_t gap, const char *cause)
{
    size_t i;
    const json_t *one;
    json_array_foreach(loss, i, one) if ((size_t)vectors_int(one, "gap") == gap &&
                                         !strcmp(vectors_string(one, "cause"), cause)) return true;
    return false;
}

/* Bit 29 means a loss before its record, bit 30 one behind it; a changed phase is a wrap and nothing else. */
static void check_marks(const struct ring *ring, const json_t *expect)
{
    const json_t *loss = json_object_get(expect, "loss");
    const json_t *wraps = json_object_get(expect, "wraps");
    size_t marks = 0, changes = 0;
    for (size_t i = 0; i < ring->n; i++) {
        const struct record *rec = &ring->records[i];
        marks += rec->sw_overflow + rec->hw_overflow;
        assert_true(!rec->sw_overflow || has_loss(loss, i, "software_queue_full"));
        assert_true(!rec->hw_overflow || has_loss(loss, i + 1, "hardware_input_full"));
        if (i > 0 && rec->phase != ring->records[i - 1].phase)
            assert_int_equal(json_integer_value(json_array_get(wraps, changes++)), (json_int_t)i);
    }
    assert_int_equal(marks, json_array_size(loss));
    assert_int_equal(changes, json_array_size(wraps));
}

static const char *const kind_names[] = {
    [RECORD_EXPLICIT] = "explicit",
    [RECORD_DGE_METADATA] = "dge_metadata",
    [RECORD_EVENT_SEMAPHORE] = "event_semaphore",
    [RECORD_DMA] = "dma",
    [RECORD_ERROR] = "error",
    [RECORD_TPB_ERROR] = "tpb_error",
    [RECORD_HAM] = "ham",
    [RECORD_UNKNOWN] = "unknown",
};

static void check_other(const struct ring *ring, const json_t *expect)
{
    const json_t *other = json_object_get(expect, "other");
    size_t n = 0;
    uint32_t last_start = 0;
    for (size_t i = 0; i < ring->n; i++) {
        const struct record *rec = &ring->records[i];
        if (rec->kind == RECORD_INSTRUCTION_START)
            last_start = rec->u.start.pc;
        if (rec->kind == RECORD_INSTRUCTION_START || rec->kind == RECORD_INSTRUCTION_END)
            continue;
        const json_t *want = json_array_get(other, n++);
        assert_int_equal(vectors_int(want, "index"), i);
        assert_string_equal(vectors_string(want, "kind"), kind_names[rec->kind]);
        if (rec->kind == RECORD_DGE_METADATA)
            assert_int_equal(vectors_int(want, "pc"), rec->u.dge.pc_from_last_start ? last_start : rec->u.dge.pc);
        if (rec->kind == RECORD_EXPLICIT)
            assert_int_equal(vectors_int(want, "pc"), rec->u.explicit_.pc);
    }
    assert_int_equal(n, json_array_size(other));
}

static void check_line(json_t *line, void *ctx)
{
    (void)ctx;
    static struct ring ring;
    ring.n = ring.n_events = 0;
    size_t i;
    const json_t *hex;
    json_array_foreach(json_object_get(line, "records"), i, hex)
    {
        uint8_t bytes[KYMO_RECORD_SIZE];
        assert_true(ring.n < RECORDS_MAX);
        assert_int_equal(vectors_hex(json_string_value(hex), bytes, sizeof bytes), sizeof bytes);
        record_decode(bytes, &ring.records[ring.n++]);
    }
    for (int e = 0; e < KYMO_ENGINE_MAX; e++)
        run_engine(&ring, (enum kymo_engine)e);
    const json_t *expect = json_object_get(line, "expect");
    check_events(&ring, expect);
    check_marks(&ring, expect);
    check_other(&ring, expect);
}

static void test_vectors(void **state)
{
    (void)state;
    assert_int_equal(vectors_each("tests/vectors/pairing.jsonl", check_line, NULL), 76);
}

/* A lost end must not hold back the engine for ever: the window gives the oldest up. */
static void test_window_gives_up(void **state)
{
    (void)state;
    static struct pair pair;
    pair_init(&pair);
    struct pair_event e;
    pair_start(&pair, 7, 1, 0, 0);
    uint64_t whole = 0, lost = 0;
    for (uint64_t i = 1; i <= 2 * PAIR_WINDOW; i++) {
        pair_start(&pair, 100, 10 * i, 2 * i - 1, 0);
        while (pair_pop(&pair, &e))
            e.reason == PAIR_WHOLE ? whole++ : lost++;
        pair_end(&pair, 100, 10 * i + 5, 2 * i, 0, 0);
        while (pair_pop(&pair, &e))
            e.reason == PAIR_WHOLE ? whole++ : lost++;
    }
    pair_finish(&pair);
    while (pair_pop(&pair, &e))
        e.reason == PAIR_WHOLE ? whole++ : lost++;
    assert_int_equal(lost, 1);
    assert_int_equal(whole, 2 * PAIR_WINDOW);
}

static void test_reasons(void **state)
{
    (void)state;
    static struct pair pair;
    struct pair_event e;
    pair_init(&pair);
    pair_end(&pair, 1, 10, 0, 0, 0);
    assert_true(pair_pop(&pair, &e));
    assert_string_equal(pair_reason_name(e.reason), "open_at_start");
    pair_start(&pair, 2, 20, 1, 0);
    pair_gap(&pair);
    assert_true(pair_pop(&pair, &e));
    assert_string_equal(pair_reason_name(e.reason), "lost_after");
    /* The same pc behind the gap is somebody else's end. */
    pair_end(&pair, 2, 30, 2, 0, 0);
    assert_true(pair_pop(&pair, &e));
    assert_string_equal(pair_reason_name(e.reason), "lost_before");
    pair_start(&pair, 3, 40, 3, 0);
    assert_false(pair_pop(&pair, &e));
    pair_finish(&pair);
    assert_true(pair_pop(&pair, &e));
    assert_string_equal(pair_reason_name(e.reason), "open_at_end");
    assert_false(pair_pop(&pair, &e));
}

/* An engine comes to an instruction again only when it is done with it: the end of the first one was lost unmarked. */
static void test_lost_end_in_a_loop(void **state)
{
    (void)state;
    struct pair pair;
    struct pair_event e;
    pair_init(&pair);
    pair_start(&pair, 7, 100, 0, 0);
    assert_false(pair_pop(&pair, &e));
    pair_start(&pair, 7, 200, 1, 0);
    assert_true(pair_pop(&pair, &e));
    assert_int_equal(e.reason, PAIR_LOST_AFTER);
    assert_int_equal(e.start_index, 0);
    assert_false(e.has_end);
    pair_end(&pair, 7, 250, 2, 0, 0);
    assert_true(pair_pop(&pair, &e));
    assert_int_equal(e.reason, PAIR_WHOLE);
    assert_int_equal(e.start_index, 1);
    assert_int_equal(e.end_index, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_end_in_a_loop),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_window_gives_up),
        cmocka_unit_test(test_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
