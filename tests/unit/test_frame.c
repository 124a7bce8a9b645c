#include "proto/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/le.h"

static const struct frame_limits limits = {1000, 5000};

static struct frame make(uint16_t type, const void *message, size_t n, const void *raw, size_t raw_n)
{
    return (struct frame){.type = type,
                          .message = message,
                          .message_len = (uint32_t)n,
                          .raw = raw,
                          .raw_len = (uint32_t)raw_n,
                          .plain_len = (uint32_t)raw_n};
}

static void test_drawing_of_the_page(void **state)
{
    (void)state;
    struct kymo_buf out;
    kymo_buf_init(&out, 1000);
    struct frame f = make(0x1234, "abc", 3, "hello", 5);
    assert_int_equal(frame_append(&out, &f, NULL), 0);
    const uint8_t head[16] = {8, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0x34, 0x12, 0, 1};
    assert_int_equal(out.len, FRAME_HEADER_SIZE + 8);
    assert_memory_equal(out.data, head, sizeof head);
    assert_int_equal(kymo_le32(out.data + 16), kymo_crc32c(0, head, sizeof head));
    assert_memory_equal(out.data + 20, "abchello", 8);
    kymo_buf_done(&out);
}

/* 200 frames of random sizes through random splits come out as they went in. */
static void test_any_split(void **state)
{
    (void)state;
    static uint8_t bytes[6000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    for (unsigned seed = 1; seed <= 40; seed++) {
        unsigned rnd = seed;
        struct kymo_buf stream;
        kymo_buf_init(&stream, 4u << 20);
        struct frame sent[200];
        for (int i = 0; i < 200; i++) {
            size_t m = (size_t)rand_r(&rnd) % 1001, raw = rand_r(&rnd) % 3 ? 0 : (size_t)rand_r(&rnd) % 5001;
            sent[i] = make((uint16_t)i, bytes + i, m, bytes + 100 + i, raw);
            assert_int_equal(frame_append(&stream, &sent[i], NULL), 0);
        }
        struct frame_parser *p;
        assert_int_equal(frame_parser_new(&limits, &p, NULL), 0);
        int got = 0;
        for (size_t at = 0; at < stream.len;) {
            size_t n = 1 + (size_t)rand_r(&rnd) % (seed % 2 ? 30 : 20000);
            n = n < stream.len - at ? n : stream.len - at;
            /* A copy of exactly this size lets the sanitizer see any look beyond it. */
            uint8_t *piece KYMO_FREE = kymo_malloc(n);
            memcpy(piece, stream.data + at, n);
            at += n;
            const uint8_t *data = piece;
            struct frame f;
            int r;
            while ((r = frame_parser_next(p, &data, &n, &f, NULL)) > 0) {
                assert_int_equal(f.type, sent[got].type);
                assert_int_equal(f.message_len, sent[got].message_len);
                assert_int_equal(f.raw_len, sent[got].raw_len);
                assert_memory_equal(f.message, sent[got].message, f.message_len);
                assert_memory_equal(f.raw, sent[got].raw, f.raw_len);
                got++;
            }
            assert_int_equal(r, 0);
            assert_int_equal(n, 0);
        }
        assert_int_equal(got, 200);
        frame_parser_free(p);
        kymo_buf_done(&stream);
    }
}

/* Pieces of raw bytes come as they are split, each with its message, and end where the frame ends. */
static void test_streaming(void **state)
{
    (void)state;
    static uint8_t bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 11 >> 2);
    struct kymo_buf stream;
    kymo_buf_init(&stream, 1u << 20);
    const struct frame sent[] = {make(1, "first", 5, bytes, sizeof bytes), make(2, "plain", 5, NULL, 0),
                                 make(3, "", 0, bytes, 1), make(4, "last", 4, bytes + 7, 300)};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(frame_append(&stream, &sent[i], NULL), 0);
    for (size_t piece = 1; piece <= stream.len; piece += piece < 300 ? 1 : 97) {
        struct frame_parser *p;
        assert_int_equal(frame_parser_new(&limits, &p, NULL), 0);
        frame_parser_stream(p);
        size_t i = 0, at_raw = 0;
        for (size_t at = 0; at < stream.len; at += piece) {
            const uint8_t *data = stream.data + at;
            size_t n = stream.len - at < piece ? stream.len - at : piece;
            struct frame f;
            while (frame_parser_next(p, &data, &n, &f, NULL) > 0) {
                assert_true(i < 4 && f.type == sent[i].type && f.message_len == sent[i].message_len);
                assert_memory_equal(f.message, sent[i].message, f.message_len);
                assert_int_equal(f.raw_at, at_raw);
                assert_true(f.raw_len == f.plain_len && f.raw_len <= sent[i].raw_len - at_raw);
                assert_memory_equal(f.raw, sent[i].raw + at_raw, f.raw_len);
                at_raw += f.raw_len;
                if (at_raw < sent[i].raw_len)
                    continue;
                i++;
                at_raw = 0;
            }
            assert_int_equal(n, 0);
        }
        assert_int_equal(i, 4);
        frame_parser_free(p);
    }
    kymo_buf_done(&stream);
}

static void put_header(uint8_t h[FRAME_HEADER_SIZE], uint32_t length, uint32_t message, uint32_t plain, uint8_t flags,
                       uint8_t version)
{
    memset(h, 0, FRAME_HEADER_SIZE);
    kymo_put_le32(h, length);
    kymo_put_le32(h + 4, message);
    kymo_put_le32(h + 8, plain);
    h[14] = flags;
    h[15] = version;
    kymo_put_le32(h + 16, kymo_crc32c(0, h, 16));
}

static void assert_refused(const uint8_t *h, int code, const char *text)
{
    for (size_t split = 0; split < FRAME_HEADER_SIZE; split += 7) {
        struct frame_parser *p;
        assert_int_equal(frame_parser_new(&limits, &p, NULL), 0);
        struct frame f;
        struct kymo_err err = {0};
        const uint8_t *data = h;
        size_t n = split;
        assert_int_equal(frame_parser_next(p, &data, &n, &f, &err), 0);
        data = h + split;
        n = FRAME_HEADER_SIZE - split;
        assert_int_equal(frame_parser_next(p, &data, &n, &f, &err), code);
        assert_non_null(strstr(err.text, text));
        assert_non_null(strstr(err.text, "byte 0 of the stream"));
        /* It stays refused, whatever comes. */
        n = 1;
        assert_int_equal(frame_parser_next(p, &data, &n, &f, NULL), code);
        frame_parser_free(p);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    uint8_t h[FRAME_HEADER_SIZE];
    put_header(h, 10, 10, 0, 0, 1);
    h[3] = 1;
    assert_refused(h, -EBADMSG, "checksum");
    put_header(h, 10, 10, 0, 0, 2);
    assert_refused(h, -EPROTONOSUPPORT, "layout 2");
    put_header(h, 10, 11, 0, 0, 1);
    assert_refused(h, -EBADMSG, "message of 11 bytes in a frame of 10");
    put_header(h, UINT32_MAX, UINT32_MAX, 0, 0, 1);
    assert_refused(h, -EMSGSIZE, "more than 1000");
    put_header(h, UINT32_MAX, 0, UINT32_MAX, 0, 1);
    assert_refused(h, -EMSGSIZE, "more than 5000");
    put_header(h, 10, 0, 5001, FRAME_ZSTD, 1);
    assert_refused(h, -EMSGSIZE, "5001 uncompressed");
    put_header(h, 10, 0, 9, 0, 1);
    assert_refused(h, -EINVAL, "not compressed");
    put_header(h, 10, 10, 0, FRAME_ZSTD, 1);
    assert_refused(h, -EINVAL, "without raw bytes");
    put_header(h, 10, 0, 10, 2, 1);
    assert_refused(h, -EINVAL, "unknown flags 0x02");
}

static void test_writer_refuses_what_the_reader_would(void **state)
{
    (void)state;
    struct kymo_buf out;
    kymo_buf_init(&out, 100);
    struct frame f = make(1, NULL, FRAME_MESSAGE_MAX + 1, NULL, 0);
    assert_int_equal(frame_append(&out, &f, NULL), -EMSGSIZE);
    f = make(1, NULL, 0, NULL, FRAME_RAW_MAX + 1);
    assert_int_equal(frame_append(&out, &f, NULL), -EMSGSIZE);
    f = make(1, out.data, 0, NULL, 5);
    f.plain_len = 6;
    assert_int_equal(frame_append(&out, &f, NULL), -EINVAL);
    static const uint8_t bytes[90];
    f = make(1, bytes, 81, NULL, 0);
    assert_int_equal(frame_append(&out, &f, NULL), -ENOBUFS);
    assert_int_equal(out.len, 0);
    kymo_buf_done(&out);
}

static void test_inflate(void **state)
{
    (void)state;
    static char plain[4000];
    memset(plain, 'x', sizeof plain);
    uint8_t packed[2 * 1000];
    size_t n = ZSTD_compress(packed, 1000, plain, sizeof plain, 1);
    assert_false(ZSTD_isError(n));
    struct frame f = {.flags = FRAME_ZSTD, .raw = packed, .raw_len = (uint32_t)n, .plain_len = sizeof plain};
    struct kymo_buf out;
    kymo_buf_init(&out, FRAME_RAW_MAX);
    assert_int_equal(frame_inflate(&f, &out, NULL), 0);
    assert_int_equal(out.len, sizeof plain);
    assert_memory_equal(out.data, plain, sizeof plain);
    kymo_buf_reset(&out);

    struct kymo_err err = {0};
    f.plain_len--;
    assert_int_equal(frame_inflate(&f, &out, &err), -EBADMSG);
    f.plain_len += 2;
    assert_int_equal(frame_inflate(&f, &out, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "4000 uncompressed bytes, the header says 4001"));
    f.plain_len--;
    f.raw_len--;
    assert_int_equal(frame_inflate(&f, &out, &err), -EBADMSG);
    /* Two frames one behind the other. */
    memcpy(packed + n, packed, n);
    f.raw_len = (uint32_t)(2 * n);
    f.plain_len = 2 * sizeof plain;
    assert_int_equal(frame_inflate(&f, &out, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "exactly one zstd frame"));
    memset(packed, 0xaa, sizeof packed);
    assert_int_equal(frame_inflate(&f, &out, &err), -EBADMSG);
    assert_int_equal(out.len, 0);
    kymo_buf_done(&out);
}

static void test_no_memory(void **state)
{
    (void)state;
    uint8_t h[FRAME_HEADER_SIZE];
    put_header(h, 500, 500, 0, 0, 1);
    struct frame_parser *p;
    kymo_alloc_fail_after(0);
    assert_int_equal(frame_parser_new(&limits, &p, NULL), -ENOMEM);
    assert_int_equal(frame_parser_new(&limits, &p, NULL), 0);
    kymo_alloc_fail_after(0);
    struct frame f;
    const uint8_t *data = h;
    size_t n = sizeof h;
    assert_int_equal(frame_parser_next(p, &data, &n, &f, NULL), -ENOMEM);
    kymo_alloc_fail_after(-1);
    assert_int_equal(frame_parser_next(p, &data, &n, &f, NULL), -ENOMEM);
    frame_parser_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawing_of_the_page),
        cmocka_unit_test(test_any_split),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_writer_refuses_what_the_reader_would),
        cmocka_unit_test(test_inflate),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
