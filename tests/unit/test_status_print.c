/* A daemon's status as people see it: within its columns whatever the texts are. And as JSON. */
#include "tools/status_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

#define MANY 40

static char *printed(const Kymo__Control__StatusReply *s, void (*print)(const Kymo__Control__StatusReply *, FILE *))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print(s, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check_columns(const char *text)
{
    size_t columns = 0;
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        assert_true(c == '\n' || (c >= 0x20 && c != 0x7f));
        columns = c == '\n' ? 0 : columns + ((c & 0xc0) != 0x80);
        if (columns > STATUS_PRINT_COLUMNS)
            fail_msg("more than %d columns: %.120s", STATUS_PRINT_COLUMNS, at - columns + 1);
    }
}

static void test_units(void **state)
{
    (void)state;
    char a[32];
    static const struct {
        uint64_t n;
        const char *text;
    } bytes[] = {{0, "0 B"}, {999, "999 B"}, {1000, "1.00 KB"}, {45600, "45.6 KB"}, {UINT64_MAX, "18447 PB"}},
      ns[] = {{0, "0 ns"},
              {1500, "1.50 us"},
              {123456789, "123 ms"},
              {7000000000000, "7000 s"},
              {UINT64_MAX, "> 1 day"}},
      ages[] = {{119999, "119 s"}, {120000, "2 min"}, {7200000, "2 h 0 min"}, {400000000, "4 d 15 h"}};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        status_print_bytes(bytes[i].n, a, sizeof a);
        assert_string_equal(a, bytes[i].text);
    }
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
        status_print_ns(ns[i].n, a, sizeof a);
        assert_string_equal(a, ns[i].text);
    }
    for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++) {
        status_print_age(ages[i].n, a, sizeof a);
        assert_string_equal(a, ages[i].text);
    }
}

static void test_cores(void **state)
{
    (void)state;
    char a[32];
    status_print_cores(NULL, 0, a, 14);
    assert_string_equal(a, "");
    status_print_cores((const uint32_t[]){0, 1, 2, 3, 8, 10, 11}, 7, a, 14);
    assert_string_equal(a, "0-3,8,10-11");
    status_print_cores((const uint32_t[]){0, 2, 4, 6, 8, 10, 12, 14}, 8, a, 14);
    assert_string_equal(a, "0,2,4,6,8,10+");
    status_print_cores((const uint32_t[]){100000, 300000}, 2, a, 6);
    assert_string_equal(a, "+");
}

/* The widest of everything. */
struct wide {
    char text[600];
    uint32_t cores[64];
    Kymo__Control__RankStatus rank, *ranks[MANY];
    Kymo__Control__JobStatus job, *jobs[2];
    Kymo__Control__CollectorStatus link, *links[2];
    Kymo__Control__Counted counted, *list[MANY];
    Kymo__Control__OwnCost cost;
    Kymo__Control__StatusReply reply;
};

/* All numbers at their ends, all texts the same one. */
static void fill(ProtobufCMessage *m, char *text)
{
    static const protobuf_c_boolean yes = 1;
    static const uint64_t most = UINT64_MAX;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (f->label == PROTOBUF_C_LABEL_REPEATED || f->type == PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->type == PROTOBUF_C_TYPE_STRING) {
            memcpy((char *)m + f->offset, &text, sizeof text);
            continue;
        }
        memcpy((char *)m + f->quantifier_offset, &yes, sizeof yes);
        memcpy((char *)m + f->offset, f->type == PROTOBUF_C_TYPE_BOOL ? (const void *)&yes : &most,
               f->type == PROTOBUF_C_TYPE_UINT64 ? 8 : 4);
    }
}

static void make_wide(struct wide *w, const char *text)
{
    memset(w, 0, sizeof *w);
    (void)snprintf(w->text, sizeof w->text, "%s", text);
    kymo__control__rank_status__init(&w->rank);
    kymo__control__job_status__init(&w->job);
    kymo__control__collector_status__init(&w->link);
    kymo__control__counted__init(&w->counted);
    kymo__control__own_cost__init(&w->cost);
    kymo__control__status_reply__init(&w->reply);
    ProtobufCMessage *all[] = {&w->rank.base,    &w->job.base,  &w->link.base,
                               &w->counted.base, &w->cost.base, &w->reply.base};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fill(all[i], w->text);
    for (uint32_t i = 0; i < 64; i++)
        w->cores[i] = i * 1000;
    w->rank.cores = w->cores;
    w->rank.n_cores = 64;
    for (size_t i = 0; i < MANY; i++) {
        w->ranks[i] = &w->rank;
        w->list[i] = &w->counted;
    }
    w->job.ranks = w->ranks;
    w->job.n_ranks = MANY;
    w->jobs[0] = w->jobs[1] = &w->job;
    w->links[0] = w->links[1] = &w->link;
    w->reply.jobs = w->jobs;
    w->reply.collectors = w->links;
    w->reply.n_jobs = w->reply.n_collectors = 2;
    w->reply.states = w->reply.refusals = w->reply.losses = w->list;
    w->reply.n_states = w->reply.n_refusals = w->reply.n_losses = 6;
    w->reply.cost = &w->cost;
}

static void test_wide(void **state)
{
    (void)state;
    static struct wide w;
    char longest[600];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    static const char hostile[] = "\x1b[31m\n\t\xff\xc3\x28 \xe2\x82\xac";
    char umlauts[512] = "";
    for (size_t i = 0; i < 250; i++)
        memcpy(umlauts + 2 * i, "\xc3\xbc", 3);
    const char *texts[] = {"", "a", longest, hostile, umlauts};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        make_wide(&w, texts[i]);
        char *text = printed(&w.reply, status_print);
        check_columns(text);
        kymo_free(text);
    }
}

static void test_sample(void **state)
{
    (void)state;
    char version[] = "0.1.0", ok[] = "ok", job[] = "llama", ready[] = "ready", none[] = "none", why[] = "switched off";
    uint32_t cores[] = {0, 1};
    Kymo__Control__RankStatus rank = KYMO__CONTROL__RANK_STATUS__INIT, *ranks[] = {&rank};
    Kymo__Control__JobStatus j = KYMO__CONTROL__JOB_STATUS__INIT, *jobs[] = {&j};
    Kymo__Control__StatusReply s = KYMO__CONTROL__STATUS_REPLY__INIT;
    rank.has_pid = rank.has_rank = rank.has_step = rank.has_latency_p50_ns = 1;
    rank.pid = 4711;
    rank.rank = 3;
    rank.step = 77;
    rank.latency_p50_ns = 12300000;
    rank.cores = cores;
    rank.n_cores = 2;
    rank.state = ready;
    rank.mode = none;
    rank.reason = why;
    j.job = job;
    j.step = 77;
    j.ranks = ranks;
    j.n_ranks = 1;
    s.version = version;
    s.spool_state = ok;
    s.jobs = jobs;
    char *text = printed(&s, status_print);
    assert_non_null(strstr(text, "no job with the hook is running\n"));
    assert_non_null(strstr(text, "none is configured\n"));
    kymo_free(text);
    s.n_jobs = 1;
    text = printed(&s, status_print);
    assert_non_null(strstr(text, "kymod       0.1.0, up 0 s\n"));
    assert_non_null(strstr(text, "\njob llama: 1 rank, step 77\n"));
    assert_non_null(
        strstr(text, "     3     4711 ready     none              77           0     0  12.3 ms        - 0-1"));
    assert_non_null(strstr(text, "not captured: switched off\n"));
    check_columns(text);
    kymo_free(text);
    text = printed(&s, status_print_json);
    assert_non_null(strstr(text, "\"jobs\":[\n"));
    assert_non_null(strstr(text, "\"latency_p50_ns\":12300000"));
    assert_null(strstr(text, "latency_p99_ns"));
    assert_null(strstr(text, "request_id"));
    kymo_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_units), cmocka_unit_test(test_cores),
                                       cmocka_unit_test(test_wide), cmocka_unit_test(test_sample)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
