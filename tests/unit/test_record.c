/* The record codec against every line of tests/vectors/records.jsonl, and against itself over random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "arch/layout.h"
#include "base/le.h"
#include "formats/ntff/record.h"

#define VECTORS "tests/vectors/records.jsonl"
#define VECTORS_MIN 580
#define RANDOM_RECORDS 200000
#define LINE_MAX_BYTES 4096

/* The vectors' spellings, by our engine numbers. */
static const char *const vector_engines[KYMO_ENGINE_MAX] = {"PE", "ACT", "POOL", "DVE", "SP"};
static const char *const vector_sources[KYMO_ENGINE_MAX] = {"Tensor", "Scalar", "GpSimd", "Vector", "Sync"};

static void parse_hex(const char *hex, uint8_t out[KYMO_RECORD_SIZE])
{
    assert_int_equal(strlen(hex), 2 * KYMO_RECORD_SIZE);
    for (size_t i = 0; i < KYMO_RECORD_SIZE; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
}

/* Numbers stand in the vectors as JSON integers, booleans, decimal text or hex text. */
static uint64_t json_number(const json_t *v)
{
    if (json_is_string(v))
        return strtoull(json_string_value(v), NULL, 0);
    if (json_is_boolean(v))
        return json_is_true(v) ? 1 : 0;
    assert_true(json_is_integer(v));
    return (uint64_t)json_integer_value(v);
}

static uint64_t engine_bitmap(const json_t *list, unsigned group)
{
    uint64_t map = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        uint64_t engine = json_number(json_array_get(list, i)) - 16 * group;
        assert_true(engine < 16);
        map |= 1ull << engine;
    }
    return map;
}

enum outcome { NOT_MINE, EQUAL, DIFFERENT };

static enum outcome same_number(const json_t *want, uint64_t got)
{
    return json_number(want) == got ? EQUAL : DIFFERENT;
}

static enum outcome same_text(const json_t *want, const char *got)
{
    return !strcmp(json_string_value(want), got ? got : "unknown") ? EQUAL : DIFFERENT;
}

static enum outcome check_common(const struct record *r, const uint8_t *bytes, const char *key, const json_t *v)
{
    uint8_t raw[KYMO_RECORD_SIZE];
    if (!strcmp(key, "type"))
        return same_number(v, r->type);
    if (!strcmp(key, "phase"))
        return same_number(v, r->phase);
    if (!strcmp(key, "sw_overflow"))
        return same_number(v, r->sw_overflow);
    if (!strcmp(key, "hw_overflow"))
        return same_number(v, r->hw_overflow);
    if (!strcmp(key, "ts_ps"))
        return same_number(v, r->ts_ps);
    if (!strcmp(key, "ts_ns"))
        return same_number(v, r->ts_ps / 1000);
    if (!strcmp(key, "kind"))
        return same_text(v, record_kind_name(r->kind));
    if (!strcmp(key, "raw")) {
        parse_hex(json_string_value(v), raw);
        return memcmp(raw, bytes, sizeof raw) ? DIFFERENT : EQUAL;
    }
    return NOT_MINE;
}

/* Start, end, explicit and DGE records lead with the same three values. */
static enum outcome check_leading(enum kymo_engine engine, uint32_t pc, uint8_t hint, const char *key, const json_t *v)
{
    if (!strcmp(key, "engine"))
        return same_text(v, vector_engines[engine]);
    if (!strcmp(key, "engine_index"))
        return same_number(v, (uint64_t)engine);
    if (!strcmp(key, "pc"))
        return same_number(v, pc);
    if (!strcmp(key, "hint"))
        return same_number(v, hint);
    return NOT_MINE;
}

static enum outcome check_instruction(const struct record *r, const char *key, const json_t *v)
{
    if (r->kind == RECORD_INSTRUCTION_START) {
        if (!strcmp(key, "soft_reset"))
            return same_number(v, r->u.start.soft_reset);
        if (!strcmp(key, "event_wait_cycles"))
            return same_number(v, r->u.start.event_wait_cycles);
        return check_leading(r->u.start.engine, r->u.start.pc, r->u.start.hint, key, v);
    }
    if (!strcmp(key, "crc_in"))
        return same_number(v, r->u.end.crc_in);
    if (!strcmp(key, "crc_out"))
        return same_number(v, r->u.end.crc_out);
    return check_leading(r->u.end.engine, r->u.end.pc, r->u.end.hint, key, v);
}

static enum outcome check_explicit(const struct record *r, const char *key, const json_t *v)
{
    if (r->kind == RECORD_EXPLICIT) {
        if (!strcmp(key, "soft_reset"))
            return same_number(v, r->u.explicit_.soft_reset);
        if (!strcmp(key, "extended_hint"))
            return same_number(v, r->u.explicit_.extended_hint);
        return check_leading(r->u.explicit_.engine, r->u.explicit_.pc, r->u.explicit_.hint, key, v);
    }
    if (!strcmp(key, "dma_engines"))
        return engine_bitmap(v, r->u.dge.engine_group) == r->u.dge.dma_engines ? EQUAL : DIFFERENT;
    if (!strcmp(key, "packets_per_engine"))
        return same_number(v, r->u.dge.packets_per_engine);
    if (!strcmp(key, "pc_from_last_start"))
        return same_number(v, r->u.dge.pc_from_last_start);
    if (!strcmp(key, "engine_group"))
        return same_number(v, r->u.dge.engine_group);
    return check_leading(r->u.dge.engine, r->u.dge.pc, r->u.dge.hint, key, v);
}

static enum outcome check_semaphore(const struct record *r, const char *key, const json_t *v)
{
    if (!strcmp(key, "update_source"))
        return same_text(v, r->u.sem.engine == RECORD_ENGINE_AXI ? "AXI" : vector_sources[r->u.sem.engine]);
    if (!strcmp(key, "id"))
        return same_number(v, r->u.sem.id);
    if (!strcmp(key, "is_semaphore"))
        return same_number(v, r->u.sem.is_semaphore);
    if (!strcmp(key, "double_set_or_clear"))
        return same_number(v, r->u.sem.double_set_or_clear);
    if (!strcmp(key, "update_mode"))
        return same_number(v, r->u.sem.update_mode);
    if (!strcmp(key, "value"))
        return same_number(v, r->u.sem.value);
    if (!strcmp(key, "operation"))
        return same_text(v, kymo_update_operation(r->u.sem.update_mode));
    if (!strcmp(key, "timing"))
        return same_text(v, kymo_update_timing(r->u.sem.update_mode));
    return NOT_MINE;
}

static enum outcome check_dma(const struct record *r, const char *key, const json_t *v)
{
    if (!strcmp(key, "dma_kind"))
        return same_number(v, r->u.dma.kind);
    if (!strcmp(key, "dma_name"))
        return same_text(v, record_dma_kind_name(r->u.dma.kind));
    if (!strcmp(key, "queue"))
        return same_number(v, r->u.dma.queue);
    if (!strcmp(key, "byte_count"))
        return same_number(v, r->u.dma.byte_count);
    if (!strcmp(key, "arid") || !strcmp(key, "rid"))
        return same_number(v, r->u.dma.axi_id);
    if (!strcmp(key, "address"))
        return same_number(v, r->u.dma.address);
    return NOT_MINE;
}

static enum outcome check_errors(const struct record *r, const char *key, const json_t *v)
{
    if (r->kind == RECORD_TPB_ERROR) {
        if (!strcmp(key, "error_id"))
            return same_number(v, r->u.tpb_error.id);
        if (!strcmp(key, "error_name"))
            return same_text(v, record_tpb_error_name(r->u.tpb_error.id));
        return !strcmp(key, "metadata") ? same_number(v, r->u.tpb_error.metadata) : NOT_MINE;
    }
    if (!strcmp(key, "class"))
        return same_text(v, r->u.error.warning ? "warning" : "interrupt");
    if (!strcmp(key, "group"))
        return same_number(v, r->u.error.group);
    if (!strcmp(key, "block_id"))
        return same_number(v, r->u.error.block_id);
    if (!strcmp(key, "cause") || !strcmp(key, "word"))
        return same_number(v, r->u.error.cause);
    return NOT_MINE;
}

static enum outcome check_key(const struct record *r, const uint8_t *bytes, const char *key, const json_t *v)
{
    enum outcome o = check_common(r, bytes, key, v);
    if (o != NOT_MINE)
        return o;
    switch (r->kind) {
    case RECORD_INSTRUCTION_START:
    case RECORD_INSTRUCTION_END:
        return check_instruction(r, key, v);
    case RECORD_EXPLICIT:
    case RECORD_DGE_METADATA:
        return check_explicit(r, key, v);
    case RECORD_EVENT_SEMAPHORE:
        return check_semaphore(r, key, v);
    case RECORD_DMA:
        return check_dma(r, key, v);
    case RECORD_ERROR:
    case RECORD_TPB_ERROR:
        return check_errors(r, key, v);
    default:
        return NOT_MINE;
    }
}

static size_t check_line(const char *line, unsigned number)
{
    json_error_t jerr;
    json_t *doc = json_loads(line, 0, &jerr);
    assert_non_null(doc);
    uint8_t bytes[KYMO_RECORD_SIZE];
    parse_hex(json_string_value(json_object_get(doc, "hex")), bytes);
    struct record r;
    record_decode(bytes, &r);
    const char *key;
    json_t *v;
    size_t keys = 0;
    json_object_foreach(json_object_get(doc, "expect"), key, v)
    {
        enum outcome o = check_key(&r, bytes, key, v);
        if (o != EQUAL)
            fail_msg("%s:%u: key %s %s", VECTORS, number, key, o == NOT_MINE ? "is not mapped" : "differs");
        keys++;
    }
    json_decref(doc);
    return keys;
}

static void test_vectors(void **state)
{
    (void)state;
    FILE *f = fopen(VECTORS, "re");
    assert_non_null(f);
    char line[LINE_MAX_BYTES];
    unsigned lines = 0;
    size_t keys = 0;
    while (fgets(line, sizeof line, f))
        keys += check_line(line, ++lines);
    (void)fclose(f);
    print_message("%u vector lines, %zu keys\n", lines, keys);
    assert_true(lines >= VECTORS_MIN);
}

/* xorshift64*: the same records in every run. */
static uint64_t next_random(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545f4914f6cdd1dull;
}

/* Bits of the low 24 and the high 32 that carry meaning; all others are written 0. */
static void meaningful_bits(const struct record *r, uint32_t *low, uint32_t *high)
{
    *low = 0xffffff;
    *high = 0xffffffff;
    switch (r->kind) {
    case RECORD_DGE_METADATA:
        *high = 0xcfffffff;
        return;
    case RECORD_EVENT_SEMAPHORE:
        *low = 0xff03ff;
        return;
    case RECORD_ERROR:
        *low = r->u.error.warning ? 0x03ff0f : 0x003fff;
        return;
    case RECORD_DMA:
        break;
    default:
        return;
    }
    switch (r->u.dma.kind) {
    case RECORD_DMA_AXI_REQ_A:
    case RECORD_DMA_AXI_REQ_B:
        return;
    case RECORD_DMA_AXI_RESP_A:
    case RECORD_DMA_AXI_RESP_B:
        *low = 0;
        *high = 0x1ff;
        return;
    case RECORD_DMA_APB_A:
    case RECORD_DMA_APB_B:
        *high = 0xfff;
        return;
    case RECORD_DMA_M2S_END:
    case RECORD_DMA_S2M_END:
        *high = 0xff;
        return;
    default:
        *low = 0;
        *high = 0xff;
    }
}

static void test_random_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 0x6b796d6f;
    bool seen[RECORD_KIND_MAX] = {0};
    for (unsigned i = 0; i < RANDOM_RECORDS; i++) {
        uint8_t in[KYMO_RECORD_SIZE], out[KYMO_RECORD_SIZE];
        kymo_put_le64(in, next_random(&seed));
        kymo_put_le64(in + 8, next_random(&seed));
        struct record r;
        record_decode(in, &r);
        record_encode(&r, out);
        uint32_t low, high;
        meaningful_bits(&r, &low, &high);
        assert_int_equal(kymo_le32(out), kymo_le32(in) & (low | 0xff000000));
        assert_int_equal(kymo_le32(out + 4), kymo_le32(in + 4) & high);
        assert_true(kymo_le64(out + 8) == kymo_le64(in + 8));
        seen[r.kind] = true;
    }
    for (int k = 0; k < RECORD_KIND_MAX; k++)
        assert_true(seen[k]);
}

/* Values wider than their field must not reach a neighbour. */
static void test_encode_cuts(void **state)
{
    (void)state;
    const struct record wide = {
        .kind = RECORD_INSTRUCTION_START,
        .u.start = {.engine = KYMO_ENGINE_SYNC,
                    .pc = 0xffffffff,
                    .hint = 0xff,
                    .event_wait_cycles = RECORD_WAIT_SATURATED},
    };
    uint8_t bytes[KYMO_RECORD_SIZE];
    record_encode(&wide, bytes);
    struct record r;
    record_decode(bytes, &r);
    assert_int_equal(r.kind, RECORD_INSTRUCTION_START);
    assert_int_equal(r.u.start.engine, KYMO_ENGINE_SYNC);
    assert_int_equal(r.u.start.pc, (1u << RECORD_PC_BITS) - 1);
    assert_int_equal(r.u.start.hint, 0xf);
    assert_int_equal(r.u.start.soft_reset, 0);
    assert_int_equal(r.u.start.event_wait_cycles, RECORD_WAIT_SATURATED);
    assert_false(r.phase || r.sw_overflow || r.hw_overflow);
}

static void test_dge_packet_count(void **state)
{
    (void)state;
    struct record in = {.kind = RECORD_DGE_METADATA,
                        .u.dge = {.engine = KYMO_ENGINE_GPSIMD, .pc = 5, .packets_per_engine = 4096}};
    uint8_t bytes[KYMO_RECORD_SIZE];
    record_encode(&in, bytes);
    assert_int_equal(kymo_le32(bytes + 4) >> 16 & 0xfff, 0);
    struct record out;
    record_decode(bytes, &out);
    assert_int_equal(out.kind, RECORD_DGE_METADATA);
    assert_int_equal(out.u.dge.packets_per_engine, 4096);
    assert_int_equal(out.u.dge.hint, 1);
}

static void test_names(void **state)
{
    (void)state;
    for (int k = 0; k < RECORD_KIND_MAX; k++)
        assert_non_null(record_kind_name((enum record_kind)k));
    assert_null(record_dma_kind_name(0));
    assert_null(record_dma_kind_name(7));
    assert_null(record_dma_kind_name(16));
    assert_string_equal(record_dma_kind_name(RECORD_DMA_S2M_END), "s2m_end");
    assert_string_equal(record_tpb_error_name(10), "sequencer_fatal");
    assert_null(record_tpb_error_name(11));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),     cmocka_unit_test(test_random_round_trip),
        cmocka_unit_test(test_encode_cuts), cmocka_unit_test(test_dge_packet_count),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
