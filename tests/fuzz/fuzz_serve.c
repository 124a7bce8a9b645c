/*
 * What kymo-query --serve and its collector hear: a stream of frames, cut where the first byte says, and the questions
 * in them with the parameters that operations read.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/serve_frame.h"
#include "collector/query/serve_question.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void ask(const void *data, size_t n)
{
    static const char *const numbers[] = {"from", "to", "width", "id"};
    static const char *const choices[] = {"engine", "queue", "aggregated", NULL};
    json_t *root = NULL;
    struct serve_question q;
    if (serve_question_parse(data, n, &root, &q, NULL) < 0)
        return;
    must(q.dir[0] == '/' && q.op && json_is_object(q.params));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t v = 5;
        if (serve_question_int(&q, numbers[i], -100, 100000, false, &v, NULL) == 0)
            must(v >= -100 && v <= 100000);
    }
    int choice = 0;
    if (serve_question_choice(&q, "dma", choices, &choice, NULL) == 0)
        must(choice >= 0 && choice < 3);
    const char *tracks = serve_question_text(&q, "tracks");
    if (tracks && *tracks && !strchr(tracks, ','))
        must(serve_question_has(tracks, tracks));
    json_decref(root);
}

static void run(const uint8_t *data, size_t size)
{
    struct serve_frame f;
    long n;
    for (size_t at = 0; (n = serve_frame_parse(data + at, size - at, &f, NULL)) > 0; at += (size_t)n) {
        must((size_t)n <= size - at && f.payload + f.n == data + at + n);
        volatile uint32_t credit = serve_frame_credit(&f);
        (void)credit;
        if (f.type == SERVE_REQUEST)
            ask(f.payload, f.n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t cut = data[0] < size ? data[0] : size;
    run(data + 1, size - 1);
    run(data + 1, cut ? cut - 1 : 0);
    ask(data + 1, size - 1);
    return 0;
}
