/* Packets of a Perfetto trace, read back with the generated decoder; one packet byte for byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "formats/perfetto/perfetto_intern.h"
#include "formats/perfetto/perfetto_writer.h"
#include "proto/perfetto.pb-c.h"

static struct kymo_buf bytes;

static int take(void *ctx, const void *data, size_t n)
{
    (void)ctx;
    return kymo_buf_append(&bytes, data, n);
}

static int refuse(void *ctx, const void *data, size_t n)
{
    (void)ctx, (void)data, (void)n;
    return -ENOSPC;
}

static struct perfetto_writer *begin(void)
{
    struct perfetto_writer *w = NULL;
    kymo_buf_init(&bytes, 64u << 20);
    assert_int_equal(perfetto_writer_new(take, NULL, &w), 0);
    return w;
}

static Perfetto__Trace *end(struct perfetto_writer *w)
{
    (void)perfetto_writer_free(w);
    Perfetto__Trace *t = perfetto__trace__unpack(NULL, bytes.len, bytes.data);
    assert_non_null(t);
    kymo_buf_done(&bytes);
    return t;
}

static uint64_t track(struct perfetto_writer *w, uint64_t parent, const char *name)
{
    uint64_t id = 0;
    const struct perfetto_track t = {.parent = parent, .name = name};
    assert_int_equal(perfetto_writer_track(w, &t, &id), 0);
    return id;
}

static void test_slice(void **state)
{
    (void)state;
    struct perfetto_writer *w = begin();
    const uint64_t out[] = {7}, in[] = {8, 9};
    const struct perfetto_arg args[] = {
        {.name = "pc", .kind = PERFETTO_INT, .integer = -3},
        {.name = "operands",
         .kind = PERFETTO_TEXT,
         .text = "a\xff"
                 "b",
         .len = 3},
    };
    struct perfetto_event e = {.start = 10,
                               .end = 20,
                               .name = "MATMUL",
                               .name_len = 6,
                               .args = args,
                               .arg_count = 2,
                               .begins = out,
                               .begin_count = 1,
                               .ends = in,
                               .end_count = 2};
    e.track = track(w, track(w, 0, "NeuronCore"), "Tensor");
    assert_int_equal(perfetto_writer_slice(w, &e), 0);
    assert_int_equal(perfetto_writer_slice(w, &e), 0);
    Perfetto__Trace *t = end(w);
    assert_int_equal(t->n_packet, 6);
    assert_int_equal(t->packet[0]->sequence_flags, 1);
    assert_int_equal(t->packet[1]->sequence_flags, 2);
    assert_int_equal(t->packet[1]->track_descriptor->parent_uuid, t->packet[0]->track_descriptor->uuid);
    const Perfetto__TracePacket *first = t->packet[2], *over = t->packet[3], *again = t->packet[4];
    assert_int_equal(first->timestamp, 10);
    assert_int_equal(over->timestamp, 20);
    assert_string_equal(first->interned_data->event_names[0]->text, "MATMUL");
    assert_string_equal(first->interned_data->debug_annotation_string_values[0]->text, "a?b");
    assert_int_equal(first->track_event->debug_annotations[0]->int_value, -3);
    assert_int_equal(first->track_event->flow_ids[0], 7);
    assert_int_equal(over->track_event->type, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END);
    assert_int_equal(over->track_event->n_terminating_flow_ids, 2);
    /* What was told once is not told again. */
    assert_null(again->interned_data);
    assert_int_equal(again->track_event->name_iid, first->track_event->name_iid);
    perfetto__trace__free_unpacked(t, NULL);
}

static void test_counter_and_instant(void **state)
{
    (void)state;
    struct perfetto_writer *w = begin();
    uint64_t id = 0;
    const struct perfetto_track t = {.name = "DMA Throughput", .unit = "B/s", .rank = 4};
    assert_int_equal(perfetto_writer_track(w, &t, &id), 0);
    assert_int_equal(perfetto_writer_counter(w, id, 5, 1.5), 0);
    const struct perfetto_event e = {.track = id, .start = 6, .name = "x", .name_len = 1, .category = "c"};
    assert_int_equal(perfetto_writer_instant(w, &e), 0);
    Perfetto__Trace *trace = end(w);
    assert_string_equal(trace->packet[0]->track_descriptor->counter->unit_name, "B/s");
    assert_true(trace->packet[1]->track_event->double_counter_value > 1.4);
    assert_string_equal(trace->packet[2]->track_event->categories[0], "c");
    perfetto__trace__free_unpacked(trace, NULL);
}

/* Field numbers are Perfetto's, byte for byte. */
static void test_golden(void **state)
{
    (void)state;
    static const uint8_t golden[] = {
        0x0a, 0x11, 0x50, 0x01, 0x68, 0x01, 0xe2, 0x03, 0x07, 0x08, 0x01, 0x12, 0x01, 'T', 0x60, 0x00, 0xb8, 0x05, 0x01,
    };
    struct perfetto_writer *w = begin();
    (void)track(w, 0, "T");
    (void)perfetto_writer_free(w);
    assert_int_equal(bytes.len, sizeof golden);
    assert_memory_equal(bytes.data, golden, sizeof golden);
    kymo_buf_done(&bytes);
}

/* Texts beyond the table's room stand in the packets themselves. */
static void test_many_texts(void **state)
{
    (void)state;
    struct perfetto_intern t;
    uint64_t id, first = 0;
    bool is_new;
    char text[32];
    assert_int_equal(perfetto_intern_init(&t), 0);
    for (uint32_t i = 0; i < PERFETTO_INTERN_MAX + 10; i++) {
        int n = snprintf(text, sizeof text, "text %u", i);
        assert_int_equal(perfetto_intern_find(&t, text, (size_t)n, &id, &is_new), 0);
        assert_int_equal(id, i < PERFETTO_INTERN_MAX ? i + 1 : 0);
        assert_int_equal(is_new, i < PERFETTO_INTERN_MAX);
    }
    assert_int_equal(perfetto_intern_find(&t, "text 0", 6, &first, &is_new), 0);
    assert_int_equal(first, 1);
    assert_false(is_new);
    perfetto_intern_done(&t);
}

static void test_errors(void **state)
{
    (void)state;
    struct perfetto_writer *w = NULL;
    uint64_t id = 0;
    const struct perfetto_track t = {.name = "x"};
    assert_int_equal(perfetto_writer_new(refuse, NULL, &w), 0);
    assert_int_equal(perfetto_writer_track(w, &t, &id), -ENOSPC);
    assert_int_equal(id, 0);
    const struct perfetto_event e = {.track = 1, .name = "x", .name_len = 1, .arg_count = PERFETTO_ARGS_MAX + 1};
    assert_int_equal(perfetto_writer_slice(w, &e), -E2BIG);
    (void)perfetto_writer_free(w);
    for (long n = 0; n < 4; n++) {
        kymo_alloc_fail_after(n);
        assert_int_equal(perfetto_writer_new(refuse, NULL, &w), -ENOMEM);
    }
    kymo_alloc_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice),  cmocka_unit_test(test_counter_and_instant),
        cmocka_unit_test(test_golden), cmocka_unit_test(test_many_texts),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
