/* Frames between kymo-collector and kymo-query, and the questions in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "collector/query/serve_frame.h"
#include "collector/query/serve_question.h"

static void test_frames(void **state)
{
    static const enum serve_frame_type types[] = {SERVE_REQUEST, SERVE_HEAD, SERVE_DATA, SERVE_END};
    uint8_t bytes[64];
    struct serve_frame f;
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        serve_frame_head(bytes, types[i], 0x01020304, 5);
        memcpy(bytes + SERVE_FRAME_HEAD, "hello", 5);
        for (size_t n = 0; n < SERVE_FRAME_HEAD + 5; n++)
            assert_int_equal(serve_frame_parse(bytes, n, &f, NULL), 0);
        assert_int_equal(serve_frame_parse(bytes, sizeof bytes, &f, NULL), SERVE_FRAME_HEAD + 5);
        assert_int_equal(f.type, types[i]);
        assert_int_equal(f.id, 0x01020304);
        assert_int_equal(f.n, 5);
        assert_memory_equal(f.payload, "hello", 5);
    }
}

static void test_limits(void **state)
{
    static const struct {
        uint32_t type, n;
        int holds;
    } rows[] = {
        {0, 2, 0},
        {SERVE_REQUEST, SERVE_REQUEST_MAX, 1},
        {SERVE_REQUEST, SERVE_REQUEST_MAX + 1, 0},
        {SERVE_REQUEST, 1, 0},
        {SERVE_DATA, 1, 1},
        {SERVE_DATA, 0, 0},
        {SERVE_DATA, SERVE_DATA_MAX, 1},
        {SERVE_DATA, SERVE_DATA_MAX + 1, 0},
        {SERVE_CANCEL, 0, 1},
        {SERVE_CANCEL, 1, 0},
        {SERVE_CREDIT, 4, 1},
        {SERVE_CREDIT, 3, 0},
        {7, 4, 0},
        {255, 4, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t head[SERVE_FRAME_HEAD] = {0};
        struct serve_frame f;
        struct kymo_err err = {0};
        kymo_put_le32(head, rows[i].n);
        head[4] = (uint8_t)rows[i].type;
        long r = serve_frame_parse(head, sizeof head, &f, &err);
        if (rows[i].holds)
            assert_true(r == (rows[i].n ? 0 : SERVE_FRAME_HEAD));
        else
            assert_true(r == -EPROTO && *err.text);
    }
}

static void test_credit(void **state)
{
    uint8_t bytes[SERVE_FRAME_HEAD + 4];
    struct serve_frame f;
    (void)state;
    serve_frame_head(bytes, SERVE_CREDIT, 7, 4);
    kymo_put_le32(bytes + SERVE_FRAME_HEAD, 65536);
    assert_int_equal(serve_frame_parse(bytes, sizeof bytes, &f, NULL), sizeof bytes);
    assert_int_equal(serve_frame_credit(&f), 65536);
    f.type = SERVE_DATA;
    assert_int_equal(serve_frame_credit(&f), 0);
}

static int parse(const char *text, json_t **root, struct serve_question *q)
{
    return serve_question_parse(text, strlen(text), root, q, NULL);
}

static void test_questions(void **state)
{
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        "{\"dir\":\"/a\",\"op\":\"x\"}",
        "{\"dir\":\"a\",\"op\":\"x\",\"params\":{}}",
        "{\"dir\":\"/a\",\"op\":3,\"params\":{}}",
        "{\"dir\":\"/a\",\"op\":\"x\",\"params\":[]}",
        "{\"dir\":\"/a\",\"op\":\"x\",\"params\":{\"from\":1}}",
        "{\"dir\":\"/a\",\"op\":\"x\",\"params\":{},\"more\":1}",
        "{\"dir\":\"/a\",\"dir\":\"/b\",\"op\":\"x\",\"params\":{}}",
    };
    json_t *root = NULL;
    struct serve_question q;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(parse(wrong[i], &root, &q), -EINVAL);
    assert_int_equal(parse("{\"dir\":\"/a\",\"op\":\"x\",\"params\":{\"t\":\"é\"}}", &root, &q), 0);
    assert_string_equal(q.dir, "/a");
    assert_string_equal(q.op, "x");
    assert_string_equal(serve_question_text(&q, "t"), "é");
    assert_null(serve_question_text(&q, "u"));
    json_decref(root);
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
        int code;
    } rows[] = {
        {"0", 0, 0},
        {"-5", -5, 0},
        {"100", 100, 0},
        {"101", 0, -EINVAL},
        {"-6", 0, -EINVAL},
        {"", 0, -EINVAL},
        {" 1", 0, -EINVAL},
        {"+1", 0, -EINVAL},
        {"1e1", 0, -EINVAL},
        {"0x1", 0, -EINVAL},
        {"99999999999999999999999", 0, -EINVAL},
        {"-", 0, -EINVAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *params = json_pack("{s:s}", "n", rows[i].text);
        const struct serve_question q = {.params = params};
        int64_t v = 77;
        assert_int_equal(serve_question_int(&q, "n", -5, 100, true, &v, NULL), rows[i].code);
        assert_int_equal(v, rows[i].code ? 77 : rows[i].value);
        assert_int_equal(serve_question_int(&q, "m", -5, 100, false, &v, NULL), 0);
        assert_int_equal(serve_question_int(&q, "m", -5, 100, true, &v, NULL), -EINVAL);
        json_decref(params);
    }
}

static void test_lists(void **state)
{
    static const char *const names[] = {"engine", "queue", NULL};
    json_t *params = json_pack("{s:s, s:s}", "dma", "queue", "bad", "queues");
    const struct serve_question q = {.params = params};
    int choice = 0;
    (void)state;
    assert_int_equal(serve_question_choice(&q, "dma", names, &choice, NULL), 0);
    assert_int_equal(choice, 1);
    assert_int_equal(serve_question_choice(&q, "none", names, &choice, NULL), 0);
    assert_int_equal(choice, 1);
    assert_int_equal(serve_question_choice(&q, "bad", names, &choice, NULL), -EINVAL);
    json_decref(params);
    assert_true(serve_question_has("a,bc,d", "a") && serve_question_has("a,bc,d", "bc") &&
                serve_question_has("a,bc,d", "d"));
    assert_false(serve_question_has("a,bc,d", "b") || serve_question_has("a,bc,d", "c") || serve_question_has("", "a"));
    assert_false(serve_question_has(NULL, "a") || serve_question_has("a,,b", "c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),    cmocka_unit_test(test_limits),  cmocka_unit_test(test_credit),
        cmocka_unit_test(test_questions), cmocka_unit_test(test_numbers), cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
