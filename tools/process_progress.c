#include "tools/process_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ull
#define BAR 20

/*
 * Shares of the time that the stages take, in the order in which they run; a stage that is not here takes none.
 * Estimates: a profile of another make-up shifts the bar, not its end.
 */
static const struct {
    const char *name;
    unsigned share;
} stages[] = {{"open", 1}, {"scan", 6}, {"dma", 42}, {"semaphores", 8}, {"instructions", 35}, {"summary", 8}};

void process_progress_init(struct process_progress *p, const char *name, size_t width, uint64_t now_ns)
{
    *p = (struct process_progress){
        .name = name, .width = width ? width : 80, .begin_ns = now_ns, .stage_begin_ns = now_ns};
}

/* Of all work, in parts of a million. */
static uint64_t fraction(const char *stage, uint64_t done, uint64_t total)
{
    uint64_t before = 0;
    size_t i = 0, n = sizeof stages / sizeof *stages;
    for (; i < n && strcmp(stages[i].name, stage) != 0; i++)
        before += stages[i].share;
    uint64_t parts = before * 10000;
    if (i < n && total)
        parts += (uint64_t)((double)(done < total ? done : total) / (double)total * stages[i].share * 10000);
    return parts;
}

static int put_rate(char *out, size_t n, uint64_t records, uint64_t ns)
{
    double rate = (double)records / ((double)ns / (double)SECOND);
    if (rate >= 1e6)
        return snprintf(out, n, ", %.1f M records/s", rate / 1e6);
    return snprintf(out, n, rate >= 1e4 ? ", %.0f k records/s" : ", %.1f k records/s", rate / 1e3);
}

static int put_left(char *out, size_t n, uint64_t elapsed_ns, uint64_t parts)
{
    uint64_t s = (uint64_t)((double)elapsed_ns / (double)SECOND * (double)(1000000 - parts) / (double)parts + 0.5);
    if (s >= 3600)
        return snprintf(out, n, ", %" PRIu64 " h %02" PRIu64 " min left", s / 3600, s / 60 % 60);
    if (s >= 60)
        return snprintf(out, n, ", %" PRIu64 " min %02" PRIu64 " s left", s / 60, s % 60);
    return snprintf(out, n, ", %" PRIu64 " s left", s);
}

size_t process_progress_line(struct process_progress *p, const char *stage, uint64_t done, uint64_t total,
                             uint64_t now_ns, char out[static PROCESS_PROGRESS_MAX])
{
    char tail[256], bar[BAR + 1];
    if (strcmp(stage, p->stage) != 0) {
        (void)snprintf(p->stage, sizeof p->stage, "%s", stage);
        p->stage_begin_ns = now_ns;
    }
    uint64_t parts = fraction(stage, done, total), full = parts * BAR / 1000000;
    for (uint64_t i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = 0;
    int n = snprintf(tail, sizeof tail, "[%s] %3" PRIu64 " %% %s", bar, parts / 10000, p->stage);
    if (done && now_ns - p->stage_begin_ns >= SECOND / 5)
        n += put_rate(tail + n, sizeof tail - (size_t)n, done, now_ns - p->stage_begin_ns);
    if (parts && now_ns - p->begin_ns >= SECOND)
        n += put_left(tail + n, sizeof tail - (size_t)n, now_ns - p->begin_ns, parts);
    /* The figures matter more than the end of a long name; a line that wraps could not be taken back. */
    size_t room = p->width - 1 < PROCESS_PROGRESS_MAX - 1 ? p->width - 1 : PROCESS_PROGRESS_MAX - 1;
    size_t name = room > (size_t)n + 2 ? room - (size_t)n - 2 : 0;
    n = name ? snprintf(out, room + 1, "%.*s: %s", (int)name, p->name, tail) : snprintf(out, room + 1, "%s", tail);
    return (size_t)n < room ? (size_t)n : room;
}
