/* formats/systrace: what is written is read, and what is broken is refused with its place. */
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

#include "base/alloc.h"
#include "base/file.h"
#include "formats/systrace/systrace_facts.h"
#include "formats/systrace/systrace_reader.h"
#include "formats/systrace/systrace_writer.h"
#include "formats/systrace/trace_json.h"
#include "tests/unit/systrace_sample.h"

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/kymo-systrace.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kymo_file_remove_tree(dir, NULL);
}

static char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put_file(const char *name, const void *data, size_t n)
{
    struct kymo_err err = {0};
    assert_int_equal(kymo_file_write_atomic(path_of(name), data, n, &err), 0);
}

static void test_round_trip(void **state)
{
    struct kymo_err err = {0};
    struct systrace_reader *r = NULL;
    struct systrace_item item;
    (void)state;
    assert_int_equal(systrace_sample_write(dir, &err), 0);
    assert_int_equal(systrace_open(path_of("ntrace.pb"), SYSTRACE_KIND_NTRACE, &r, &err), 0);
    assert_null(systrace_info(r));
    assert_int_equal(systrace_read_head(r, &err), 0);
    assert_int_equal(systrace_info(r)->n_cores, 1);
    assert_int_equal(systrace_info(r)->cores[0]->dropped, 5);
    for (int round = 0; round < 2; round++) {
        int n = 0;
        while (systrace_next(r, &item, &err) > 0) {
            if (n == 2)
                assert_string_equal(item.event->attributes[1]->value, "4096");
            n++;
        }
        assert_int_equal(n, SYSTRACE_SAMPLE_EVENTS);
        assert_int_equal(systrace_next(r, &item, &err), 0);
        systrace_rewind(r);
    }
    assert_int_equal(systrace_unknown_fields(r), 0);
    systrace_free(r);
    assert_int_equal(systrace_open(path_of("host_mem.pb"), SYSTRACE_KIND_HOST_MEM, &r, &err), 0);
    assert_int_equal(systrace_next(r, &item, &err), 1);
    assert_int_equal(item.memory->bytes, 1000);
    assert_int_equal(systrace_next(r, &item, &err), 0);
    assert_int_equal(systrace_stats(r)->memory_capacity, 4000);
    systrace_free(r);
}

/* A file that breaks off gives what stands before, and says where it does. */
static void test_truncated(void **state)
{
    struct kymo_err err = {0};
    uint8_t *data = NULL;
    size_t n = 0, whole = 0;
    (void)state;
    assert_int_equal(systrace_sample_write(dir, &err), 0);
    assert_int_equal(kymo_file_read_all(path_of("ntrace.pb"), 1 << 20, &data, &n, &err), 0);
    for (size_t cut = 1; cut < n; cut++) {
        struct systrace_reader *r = NULL;
        struct systrace_item item;
        size_t events = 0;
        int code;
        put_file("cut.pb", data, cut);
        err = (struct kymo_err){0};
        assert_int_equal(systrace_open(path_of("cut.pb"), SYSTRACE_KIND_NTRACE, &r, &err), 0);
        while ((code = systrace_next(r, &item, &err)) > 0)
            events++;
        assert_true(events >= whole);
        whole = events;
        if (code < 0) {
            assert_int_equal(code, -EPROTO);
            assert_non_null(strstr(err.text, "cut.pb: offset "));
        }
        systrace_free(r);
    }
    kymo_free(data);
}

static void test_refused(void **state)
{
    static const uint8_t group[] = {0x0b}, event[] = {0xc2, 0x3e, 0x02, 0x0a, 0x7f},
                         huge[] = {0xc2, 0x3e, 0xff, 0xff, 0xff, 0x7f};
    static const struct {
        const uint8_t *data;
        size_t n;
        const char *text;
    } cases[] = {
        {group, sizeof group, "offset 0: a group or an unassigned wire type"},
        {event, sizeof event, "offset 3: no NtraceEvent: a length runs past the end"},
        {huge, sizeof huge, "offset 0: a length runs past the end"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kymo_err err = {0};
        struct systrace_reader *r = NULL;
        struct systrace_item item;
        put_file("bad.pb", cases[i].data, cases[i].n);
        assert_int_equal(systrace_open(path_of("bad.pb"), SYSTRACE_KIND_NTRACE, &r, &err), 0);
        assert_int_equal(systrace_next(r, &item, &err), -EPROTO);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_int_equal(systrace_next(r, &item, &err), 0);
        systrace_free(r);
    }
}

/* Fields of another schema are counted and kept out of the way. */
static void test_unknown(void **state)
{
    static const uint8_t foreign[] = {0x08, 0x01, 0x12, 0x03, 'a', 'b', 'c'};
    struct kymo_err err = {0};
    struct systrace_reader *r = NULL;
    (void)state;
    put_file("foreign.pb", foreign, sizeof foreign);
    assert_int_equal(systrace_open(path_of("foreign.pb"), SYSTRACE_KIND_TRACE_INFO, &r, &err), 0);
    assert_int_equal(systrace_read_head(r, &err), 0);
    assert_int_equal(systrace_unknown_fields(r), 2);
    systrace_free(r);
}

/* A field of more than a window, and files that grow by many of them. */
static void test_large(void **state)
{
    struct kymo_err err = {0};
    struct systrace_writer *w = NULL;
    struct systrace_reader *r = NULL;
    struct systrace_item item;
    Ntff__NtraceEvent e = NTFF__NTRACE_EVENT__INIT;
    char *text KYMO_FREE = kymo_calloc(1, 700001);
    (void)state;
    memset(text, 'x', 700000);
    e.hint = text;
    assert_int_equal(systrace_writer_open(path_of("big.pb"), &w, &err), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(systrace_writer_event(w, &e, &err), 0);
    memset(text, 'y', 10);
    assert_int_equal(systrace_writer_finish(w, &err), 0);
    assert_int_equal(systrace_open(path_of("big.pb"), SYSTRACE_KIND_NTRACE, &r, &err), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(systrace_next(r, &item, &err), 1);
        assert_int_equal(strlen(item.event->hint), 700000);
    }
    assert_int_equal(systrace_next(r, &item, &err), 0);
    systrace_free(r);
}

static void test_facts(void **state)
{
    (void)state;
    assert_string_equal(systrace_event_name(7), "nc_exec_running");
    assert_string_equal(systrace_event_name(30), "dmem_buf_copyin");
    assert_null(systrace_event_name(46));
    assert_int_equal(systrace_event_source(25), SYSTRACE_SOURCE_NEURON_HW);
    assert_int_equal(systrace_event_source(3), SYSTRACE_SOURCE_NEURON_RT);
    assert_int_equal(systrace_usage_find("tensors"), SYSTRACE_USAGE_TENSORS);
    assert_int_equal(systrace_usage_find("no such"), SYSTRACE_USAGE_MAX);
}

static struct trace_json *open_json(const char *text, struct kymo_err *err)
{
    struct trace_json *t = NULL;
    put_file("trace.json", text, strlen(text));
    return trace_json_open(path_of("trace.json"), &t, err) == 0 ? t : NULL;
}

static void test_json(void **state)
{
    struct kymo_err err = {0};
    const struct trace_json_event *e;
    (void)state;
    struct trace_json *t = open_json(
        "{\"x\":[{\"a\":\"]}\"}],\"traceEvents\":[{\"ph\":\"X\",\"name\":\"n\",\"ts\":1766072156592459.4829,"
        "\"dur\":0.001,\"pid\":1,\"tid\":\"7\",\"args\":{\"ts\":5,\"stream\":\"s\",\"nrt_sequence_id\":\"9\"}},"
        "{\"ph\":\"i\"}],\"baseTimeNanoseconds\":1}",
        &err);
    assert_non_null(t);
    assert_int_equal(trace_json_next(t, &e, &err), 1);
    assert_int_equal(e->phase, 'X');
    assert_int_equal(e->start_ns, 1766072156592459483); /* cut below, and one ns of base */
    assert_int_equal(e->duration_ns, 1);
    assert_int_equal(e->tid, 7);
    assert_int_equal(e->sequence, 9);
    assert_string_equal(e->stream, "s");
    assert_string_equal(e->args, "{\"ts\":5,\"stream\":\"s\",\"nrt_sequence_id\":\"9\"}");
    assert_int_equal(trace_json_next(t, &e, &err), 1);
    assert_false(e->timed);
    assert_null(e->args);
    assert_int_equal(trace_json_next(t, &e, &err), 0);
    trace_json_free(t);
    t = open_json("[{\"ts\":1e3,\"ph\":\"X\"}", &err); /* the bare array, cut off */
    assert_non_null(t);
    assert_int_equal(trace_json_next(t, &e, &err), 1);
    assert_int_equal(e->start_ns, 1000000);
    assert_int_equal(trace_json_next(t, &e, &err), -EPROTO);
    assert_non_null(strstr(err.text, "trace.json: offset 20: the file breaks off"));
    trace_json_free(t);
}

static void test_json_time_beyond_64_bits(void **state)
{
    struct kymo_err err = {0};
    const struct trace_json_event *e;
    (void)state;
    struct trace_json *t = open_json("{\"baseTimeNanoseconds\": 9223372036854775807, \"traceEvents\": ["
                                     "{\"ph\": \"X\", \"ts\": 592459.482, \"dur\": 2}]}",
                                     &err);
    assert_int_equal(trace_json_next(t, &e, &err), 1);
    assert_false(e->timed);
    assert_int_equal(trace_json_next(t, &e, &err), 0);
    trace_json_free(t);
}

static void test_json_refused(void **state)
{
    static const char *const opening[] = {"", "x", "{}", "{\"traceEvents\":3}", "{\"traceEvents\" []}", "{3:[]}"};
    static const char *const events[] = {"[3]", "[{\"a\"]", "[{\"a\":}]", "[{\"ph\":\"X\"", "[{\"name\":\"\\u0000\"}]"};
    const struct trace_json_event *e;
    (void)state;
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++) {
        struct kymo_err err = {0};
        assert_null(open_json(opening[i], &err));
        assert_int_equal(err.code, -EPROTO);
    }
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct kymo_err err = {0};
        struct trace_json *t = open_json(events[i], &err);
        assert_non_null(t);
        assert_int_equal(trace_json_next(t, &e, &err), -EPROTO);
        assert_non_null(strstr(err.text, "trace.json: offset "));
        trace_json_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_refused),
        cmocka_unit_test(test_json_time_beyond_64_bits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
