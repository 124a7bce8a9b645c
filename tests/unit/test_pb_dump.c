/* Protobuf without a schema: wire walk, dump, and the facts held against a sample. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "formats/ntff/ntff_facts.h"
#include "formats/ntff/pb_dump.h"
#include "proto/pb_alloc.h"
#include "tests/unit/ntff_sample.h"

static void test_wire(void **state)
{
    (void)state;
    static const uint8_t data[] = {0x08, 0x96, 0x01, 0x11, 1,   0,    0, 0, 0, 0, 0,
                                   0x80, 0x1a, 2,    'h',  'i', 0x25, 4, 3, 2, 1};
    struct pb_cursor c = {.data = data, .size = sizeof data};
    struct pb_field f;
    const char *cause = NULL;
    assert_int_equal(pb_next(&c, &f, &cause), 1);
    assert_true(f.number == 1 && f.wire == PB_VARINT && f.value == 150 && f.at == 0);
    assert_int_equal(pb_next(&c, &f, &cause), 1);
    assert_true(f.number == 2 && f.wire == PB_FIXED64 && f.value == 0x8000000000000001ull && f.at == 3);
    assert_int_equal(pb_next(&c, &f, &cause), 1);
    assert_true(f.number == 3 && f.wire == PB_LEN && f.len == 2 && !memcmp(f.data, "hi", 2));
    assert_int_equal(pb_next(&c, &f, &cause), 1);
    assert_true(f.number == 4 && f.wire == PB_FIXED32 && f.value == 0x01020304);
    assert_int_equal(pb_next(&c, &f, &cause), 0);
    assert_null(cause);
}

static void test_wire_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *cause;
    } rows[] = {
        {"\x80", 1, "tag"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "tag"},
        {"\x00\x00", 2, "number is out of range"},
        {"\x80\x80\x80\x80\x10\x00", 6, "number is out of range"},
        {"\x08", 1, "a value is cut off"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "a value is cut off"},
        {"\x09\x01\x02", 3, "a value is cut off"},
        {"\x0d\x01\x02", 3, "a value is cut off"},
        {"\x0a\x80", 2, "a length is cut off"},
        {"\x0a\x02\x01", 3, "a length runs past the end"},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "a length runs past the end"},
        {"\x0b\x0c", 2, "a group"},
        {"\x0e", 1, "unassigned wire type"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pb_cursor c = {.data = (const uint8_t *)rows[i].bytes, .size = rows[i].n};
        struct pb_field f;
        const char *cause = NULL;
        assert_int_equal(pb_next(&c, &f, &cause), -EPROTO);
        assert_non_null(strstr(cause, rows[i].cause));
        assert_int_equal(c.pos, 0);
    }
}

static void test_value(void **state)
{
    (void)state;
    struct pb_field f;
    assert_int_equal(pb_value(7, PB_LEN, (const uint8_t *)"\x02ok", 3, &f), 0);
    assert_true(f.number == 7 && f.wire == PB_LEN && f.len == 2);
    assert_int_equal(pb_value(7, PB_LEN, (const uint8_t *)"\x02okk", 4, &f), -EPROTO);
    assert_int_equal(pb_value(7, PB_VARINT, (const uint8_t *)"\x80", 1, &f), -EPROTO);
    assert_int_equal(pb_value(7, 3, (const uint8_t *)"\x80", 1, &f), -EPROTO);
}

/* ---- the dump, written down as a line ---- */

struct line {
    char text[1024];
    unsigned depth, deepest;
    size_t fields;
};

static void add(struct line *l, const char *s)
{
    (void)snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%s", s);
}

static void on_field(void *ctx, const struct pb_field *f, enum pb_kind kind, size_t offset)
{
    struct line *l = ctx;
    char part[64];
    l->fields++;
    (void)snprintf(part, sizeof part, "%u@%zu", f->number, offset);
    add(l, part);
    switch (kind) {
    case PB_KIND_NUMBER:
        (void)snprintf(part, sizeof part, "=%llu ", (unsigned long long)f->value);
        break;
    case PB_KIND_TEXT:
        (void)snprintf(part, sizeof part, "='%.*s' ", (int)f->len, (const char *)f->data);
        break;
    case PB_KIND_BYTES:
        (void)snprintf(part, sizeof part, "=b%zu ", f->len);
        break;
    case PB_KIND_MESSAGE:
        (void)snprintf(part, sizeof part, "{");
        l->depth++;
        l->deepest = l->depth > l->deepest ? l->depth : l->deepest;
        break;
    }
    add(l, part);
}

static void on_leave(void *ctx)
{
    struct line *l = ctx;
    l->depth--;
    add(l, "} ");
}

static const struct pb_dump_ops ops = {.field = on_field, .leave = on_leave};

static size_t dump(const void *bytes, size_t n, uint32_t top, struct line *l, const char **cause)
{
    struct pb_dump d = {.ops = &ops, .ctx = l, .top_number_max = top};
    *l = (struct line){0};
    size_t used = pb_dump_message(&d, bytes, n, cause);
    assert_int_equal(l->depth, 0);
    assert_int_equal(d.fields, l->fields);
    return used;
}

static void test_dump(void **state)
{
    (void)state;
    struct line l;
    const char *cause = "";
    /* number, text, nested message, bytes that are neither; UTF-8 is text, a control character is not. */
    static const char data[] = "\x08\x05\x12\x03"
                               "abc"
                               "\x1a\x04\x08\x01\x10\x02"
                               "\x22\x02\x07\xff"
                               "\x2a\x02\xc3\xa9"
                               "\x32\x00";
    assert_int_equal(dump(data, sizeof data - 1, 0, &l, &cause), sizeof data - 1);
    assert_null(cause);
    assert_string_equal(l.text, "1@0=5 2@2='abc' 3@7{1@9=1 2@11=2 } 4@13=b2 5@17='\xc3\xa9' 6@21='' ");
    /* What is behind the message is not part of it. */
    static const char tail[] = "\x08\x05\xa0\x06\x01";
    assert_int_equal(dump(tail, sizeof tail - 1, 64, &l, &cause), 2);
    assert_non_null(strstr(cause, "would not have"));
    assert_int_equal(dump("\x08\x05\x00\x00", 4, 64, &l, &cause), 2);
    assert_non_null(strstr(cause, "out of range"));
    assert_int_equal(dump("", 0, 64, &l, &cause), 0);
    assert_null(cause);
}

static void test_dump_bounds(void **state)
{
    (void)state;
    /* A message in a message, far deeper than is followed. */
    enum { DEEP = 40 };
    uint8_t nested[2 * DEEP + 2];
    for (size_t i = 0; i < DEEP; i++) {
        nested[2 * i] = 0x0a;
        nested[2 * i + 1] = (uint8_t)(sizeof nested - 2 * i - 2);
    }
    nested[2 * DEEP] = 0x08;
    nested[2 * DEEP + 1] = 0x01;
    struct line l;
    const char *cause;
    assert_int_equal(dump(nested, sizeof nested, 0, &l, &cause), sizeof nested);
    assert_int_equal(l.deepest, PB_DUMP_DEPTH_MAX);
    /* Many fields: the rest is left out, and said to be. */
    size_t n = 2 * ((size_t)PB_DUMP_FIELDS_MAX + 10);
    uint8_t *many KYMO_FREE = kymo_malloc(n);
    memset(many, 0x08, n); /* field 1, value 8 */
    assert_int_equal(dump(many, n, 0, &l, &cause), 2 * (size_t)PB_DUMP_FIELDS_MAX);
    assert_non_null(strstr(cause, "more fields than are shown"));
}

/* ---- the facts ---- */

static const struct ntff_fact *find_fact(const struct ntff_facts *f, const char *message, uint32_t number)
{
    for (size_t i = 0; i < ntff_facts_count(f); i++) {
        const struct ntff_fact *fact = ntff_facts_get(f, i);
        if (!strcmp(fact->message, message) && fact->number == number)
            return fact;
    }
    fail_msg("no fact %s.%u", message, number);
    return NULL;
}

/* A vendor-like message: our sample's first node under number 3 as neff_nodes, with one contradiction and one unknown
 * number. */
static void test_facts(void **state)
{
    (void)state;
    struct ntff_sample *s KYMO_CLEANUP(ntff_sample_freep) = ntff_sample_new(NTFF_SAMPLE_MODEL);
    size_t n = ntff__neff_node_info__get_packed_size(s->info->neff_nodes[0]);
    uint8_t *msg KYMO_FREE = kymo_malloc(n + 64);
    size_t at = 0;
    memcpy(msg, "\x42\x00\x58\x01\x68\x07\x1a", 7); /* 8: message, 11: a varint, 13: a varint, 3: the node */
    at += 7;
    assert_true(n > 127 && n < 16384);
    msg[at++] = (uint8_t)(n & 0x7f) | 0x80;
    msg[at++] = (uint8_t)(n >> 7);
    at += ntff__neff_node_info__pack(s->info->neff_nodes[0], msg + at);
    struct ntff_facts *f KYMO_CLEANUP(ntff_facts_freep) = ntff_facts_check(msg, at);
    assert_non_null(f);
    assert_int_equal(ntff_facts_nodes_number(f), 3);
    assert_int_equal(find_fact(f, "ntff_info", 8)->confirmed, 1);
    assert_int_equal(find_fact(f, "ntff_info", 11)->contradicted, 1);
    assert_int_equal(find_fact(f, "ntff_info", 11)->other_wire, PB_VARINT);
    assert_int_equal(find_fact(f, "ntff_info", 11)->other_offset, 2);
    assert_int_equal(find_fact(f, "ntff_info", 12)->confirmed, 0);
    assert_int_equal(find_fact(f, "neff_node_info", 2)->confirmed, 1);
    assert_int_equal(find_fact(f, "subgraph_info", 4)->confirmed, 3);
    assert_int_equal(find_fact(f, "engine_instruction_info", 3)->confirmed, 1);
    assert_int_equal(find_fact(f, "desc_block_info", 2)->confirmed, 3);
    assert_int_equal(find_fact(f, "block_timestamp_info", 3)->confirmed, 1);
    bool found = false;
    for (size_t i = 0; i < ntff_facts_other_count(f); i++) {
        const struct ntff_fact_other *o = ntff_facts_other(f, i);
        found = found || (!strcmp(o->message, "ntff_info") && o->number == 13 && o->wire == PB_VARINT && o->seen == 1 &&
                          o->offset == 4);
    }
    assert_true(found);
    kymo_alloc_fail_after(0);
    assert_null(ntff_facts_check(msg, at));
    kymo_alloc_fail_after(-1);
}

static void test_capped_allocator(void **state)
{
    (void)state;
    struct pb_alloc a;
    pb_alloc_init(&a, 1000);
    void *p = a.pb.alloc(a.pb.allocator_data, 400);
    void *q = a.pb.alloc(a.pb.allocator_data, 400);
    assert_non_null(p);
    assert_non_null(q);
    assert_null(a.pb.alloc(a.pb.allocator_data, 400));
    assert_true(a.exceeded && !a.failed);
    a.pb.free(a.pb.allocator_data, p);
    p = a.pb.alloc(a.pb.allocator_data, 500);
    assert_non_null(p);
    assert_null(a.pb.alloc(a.pb.allocator_data, SIZE_MAX));
    assert_null(a.pb.alloc(a.pb.allocator_data, SIZE_MAX - 8));
    a.pb.free(a.pb.allocator_data, p);
    a.pb.free(a.pb.allocator_data, q);
    a.pb.free(a.pb.allocator_data, NULL);
    assert_int_equal(a.used, 0);
    kymo_alloc_fail_after(0);
    assert_null(a.pb.alloc(a.pb.allocator_data, 1));
    kymo_alloc_fail_after(-1);
    assert_true(a.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_wire_refusals),
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_dump),
        cmocka_unit_test(test_dump_bounds),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_capped_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
