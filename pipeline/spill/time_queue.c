#include "pipeline/spill/time_queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/spill/spill.h"

#define NONE UINT32_MAX
#define FAN 32u   /* runs of one level that become one of the next */
#define LEVELS 6u /* FAN to the LEVELS runs are more than any disk holds */
#define FIRST_CAP 256u
#define LINE 1024u /* items in the line; a power of two */
#define NEAR 32u   /* places that an item may have to go up in it */

struct run {
    struct spill *spill; /* NULL: the place is free */
    struct spill_reader reader;
    unsigned level;
};

struct time_queue {
    char *dir;
    size_t held;
    struct time_item *heap; /* holds the first item left of every run too */
    size_t n, cap;
    /* What comes near its order stands in a line, where it costs a few moves; the heap has the rest. */
    size_t line_first, line_count;
    struct time_item line[LINE];
    struct run runs[FAN * LEVELS];
};

int time_queue_open(const char *dir, size_t held, struct time_queue **ret, struct kymo_err *err)
{
    struct time_queue *q = KYMO_NEW(struct time_queue);
    if (q)
        q->dir = kymo_strdup(dir);
    if (!q || !q->dir) {
        time_queue_free(q);
        return kymo_err_set(err, -ENOMEM, "no memory for a queue");
    }
    q->held = held ? held : TIME_QUEUE_HELD;
    if (q->held < TIME_QUEUE_HELD_MIN)
        q->held = TIME_QUEUE_HELD_MIN;
    *ret = q;
    return 0;
}

static void close_run(struct run *run)
{
    if (!run->spill)
        return;
    spill_reader_done(&run->reader);
    spill_free(run->spill);
    *run = (struct run){0};
}

struct time_queue *time_queue_free(struct time_queue *q)
{
    if (!q)
        return NULL;
    for (size_t i = 0; i < FAN * LEVELS; i++)
        close_run(&q->runs[i]);
    kymo_free(q->heap);
    kymo_free(q->dir);
    kymo_free(q);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const struct time_item *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool before(const struct time_item *x, const struct time_item *y)
{
    return x->at < y->at || (x->at == y->at && x->order < y->order);
}

static void sift_up(struct time_queue *q, size_t at, const struct time_item *item)
{
    while (at && before(item, &q->heap[(at - 1) / 2])) {
        q->heap[at] = q->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    q->heap[at] = *item;
}

static void sift_down(struct time_queue *q, const struct time_item *item)
{
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < q->n; at = child) {
        if (child + 1 < q->n && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!before(&q->heap[child], item))
            break;
        q->heap[at] = q->heap[child];
    }
    q->heap[at] = *item;
}

static int put(struct time_queue *q, const struct time_item *item, struct kymo_err *err)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : FIRST_CAP;
        void *p = kymo_realloc_array(q->heap, cap, sizeof *q->heap);
        if (!p)
            return kymo_err_set(err, -ENOMEM, "no memory for a queue of %zu items", cap);
        q->heap = p;
        q->cap = cap;
    }
    sift_up(q, q->n++, item);
    return 0;
}

/* 1: *ret is the run's next item, 0: it has none and is closed. */
static int next_of(struct time_queue *q, uint32_t number, struct time_item *ret, struct kymo_err *err)
{
    const void *next;
    int r = spill_reader_next(&q->runs[number].reader, &next, err);
    if (r > 0) {
        memcpy(ret, next, sizeof *ret);
        ret->run = number;
    } else if (r == 0) {
        close_run(&q->runs[number]);
    }
    return r;
}

static uint32_t free_run(const struct time_queue *q)
{
    for (uint32_t i = 0; i < FAN * LEVELS; i++)
        if (!q->runs[i].spill)
            return i;
    return NONE;
}

/* Ends the writing of a run and puts its first item into the heap. */
static int begin_reading(struct time_queue *q, uint32_t number, struct kymo_err *err)
{
    struct time_item first;
    int r = spill_seal(q->runs[number].spill, err);
    if (r == 0)
        r = spill_reader_init(&q->runs[number].reader, q->runs[number].spill, err);
    if (r == 0)
        r = next_of(q, number, &first, err);
    return r > 0 ? put(q, &first, err) : r;
}

static int open_run(struct time_queue *q, unsigned level, uint32_t *ret, struct kymo_err *err)
{
    uint32_t number = free_run(q);
    if (number == NONE)
        return kymo_err_set(err, -E2BIG, "more events are out of order than the files of a queue hold");
    q->runs[number].level = level;
    *ret = number;
    return spill_open(q->dir, sizeof(struct time_item), &q->runs[number].spill, err);
}

static bool of_level(const struct time_queue *q, const struct time_item *item, unsigned level)
{
    return item->run != NONE && q->runs[item->run].level == level;
}

/* Takes the runs of a level together into one; heads are their first items, in no order. */
static int write_merged(struct time_queue *q, struct time_item *heads, size_t n, struct spill *to, struct kymo_err *err)
{
    int r = 0;
    while (n && r >= 0) {
        size_t least = 0;
        for (size_t i = 1; i < n; i++)
            if (before(&heads[i], &heads[least]))
                least = i;
        r = spill_append(to, &heads[least], err);
        if (r == 0)
            r = next_of(q, heads[least].run, &heads[least], err);
        if (r == 0)
            heads[least] = heads[--n];
    }
    return r < 0 ? r : 0;
}

static int merge_level(struct time_queue *q, unsigned level, struct kymo_err *err)
{
    struct time_item heads[FAN];
    size_t kept = 0, n = 0;
    uint32_t number;
    for (size_t i = 0; i < q->n; i++) {
        if (n < FAN && of_level(q, &q->heap[i], level))
            heads[n++] = q->heap[i];
        else
            q->heap[kept++] = q->heap[i];
    }
    q->n = kept;
    qsort(q->heap, q->n, sizeof *q->heap, compare);
    int r = open_run(q, level + 1 < LEVELS ? level + 1 : level, &number, err);
    if (r == 0)
        r = write_merged(q, heads, n, q->runs[number].spill, err);
    return r < 0 ? r : begin_reading(q, number, err);
}

static size_t count_level(const struct time_queue *q, unsigned level)
{
    size_t n = 0;
    for (size_t i = 0; i < FAN * LEVELS; i++)
        n += q->runs[i].spill && q->runs[i].level == level;
    return n;
}

/* The later half of the heap becomes a run; the first items of runs stay. */
static int spill_half(struct time_queue *q, struct kymo_err *err)
{
    for (unsigned level = 0; level + 1 < LEVELS; level++)
        if (count_level(q, level) == FAN) {
            int r = merge_level(q, level, err);
            if (r < 0)
                return r;
        }
    uint32_t number;
    int r = open_run(q, 0, &number, err);
    if (r < 0)
        return r;
    /* A sorted array is a heap. */
    qsort(q->heap, q->n, sizeof *q->heap, compare);
    size_t kept = q->n / 2;
    for (size_t i = kept; i < q->n && r == 0; i++) {
        if (q->heap[i].run != NONE)
            q->heap[kept++] = q->heap[i];
        else
            r = spill_append(q->runs[number].spill, &q->heap[i], err);
    }
    q->n = kept;
    return r < 0 ? r : begin_reading(q, number, err);
}

static struct time_item *in_line(struct time_queue *q, size_t at)
{
    return &q->line[(q->line_first + at) & (LINE - 1)];
}

static bool stand_in_line(struct time_queue *q, const struct time_item *item)
{
    size_t at = q->line_count, least = at > NEAR ? at - NEAR : 0;
    if (at == LINE)
        return false;
    while (at > least && before(item, in_line(q, at - 1)))
        at--;
    if (at > 0 && at == least && before(item, in_line(q, at - 1)))
        return false;
    for (size_t i = q->line_count; i > at; i--)
        *in_line(q, i) = *in_line(q, i - 1);
    *in_line(q, at) = *item;
    in_line(q, at)->run = NONE;
    q->line_count++;
    return true;
}

static bool line_is_first(const struct time_queue *q)
{
    return q->line_count && (!q->n || before(&q->line[q->line_first], &q->heap[0]));
}

int time_queue_push(struct time_queue *q, const struct time_item *item, struct kymo_err *err)
{
    if (stand_in_line(q, item))
        return 0;
    if (q->n >= q->held) {
        int r = spill_half(q, err);
        if (r < 0)
            return r;
    }
    struct time_item one = *item;
    one.run = NONE;
    return put(q, &one, err);
}

const struct time_item *time_queue_first(const struct time_queue *q)
{
    return line_is_first(q) ? &q->line[q->line_first] : q->n ? q->heap : NULL;
}

int time_queue_pop(struct time_queue *q, struct kymo_err *err)
{
    struct time_item next;
    if (line_is_first(q)) {
        q->line_first = (q->line_first + 1) & (LINE - 1);
        q->line_count--;
        return 0;
    }
    uint32_t run = q->heap[0].run;
    if (run != NONE) {
        int r = next_of(q, run, &next, err);
        if (r < 0)
            return r;
        if (r > 0) {
            sift_down(q, &next);
            return 0;
        }
    }
    next = q->heap[--q->n];
    if (q->n)
        sift_down(q, &next);
    return 0;
}

size_t time_queue_runs(const struct time_queue *q)
{
    size_t n = 0;
    for (size_t i = 0; i < FAN * LEVELS; i++)
        n += q->runs[i].spill != NULL;
    return n;
}
