#include "pipeline/spill/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/spill/spill.h"

#define RUN_RECORDS 131072u
#define RUNS_MAX 65536u

struct run {
    struct spill *spill;
    struct spill_reader reader;
    uint8_t *at; /* its next record */
};

struct sorted {
    const char *dir;
    size_t size;
    uint8_t *held;
    size_t count, next; /* next: of held, when nothing was spilled */
    struct run *runs;
    size_t run_count, run_cap;
    struct run **heap; /* runs that have a record, least first */
    size_t heap_count;
    uint8_t *out;
};

/* qsort hands the comparison no size. */
static _Thread_local size_t comparing;

static int order(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (x != y)
        return x < y ? -1 : 1;
    return memcmp((const uint8_t *)a + sizeof x, (const uint8_t *)b + sizeof x, comparing - sizeof x);
}

int sorted_open(const char *dir, size_t size, struct sorted **ret, struct kymo_err *err)
{
    struct sorted *s = KYMO_NEW(struct sorted);
    if (s) {
        s->held = kymo_calloc(RUN_RECORDS, size);
        s->out = kymo_malloc(size);
    }
    if (!s || !s->held || !s->out) {
        sorted_free(s);
        return kymo_err_set(err, -ENOMEM, "no memory to sort records");
    }
    s->dir = dir;
    s->size = size;
    *ret = s;
    return 0;
}

struct sorted *sorted_free(struct sorted *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->run_count; i++) {
        spill_reader_done(&s->runs[i].reader);
        spill_free(s->runs[i].spill);
        kymo_free(s->runs[i].at);
    }
    kymo_free(s->runs);
    kymo_free(s->heap);
    kymo_free(s->held);
    kymo_free(s->out);
    kymo_free(s);
    return NULL;
}

static void sort_held(struct sorted *s)
{
    comparing = s->size;
    if (s->count)
        qsort(s->held, s->count, s->size, order);
}

static int write_run(struct sorted *s, struct kymo_err *err)
{
    void *p = s->runs;
    int r = kymo_grow(&p, &s->run_cap, s->run_count + 1, RUNS_MAX, sizeof *s->runs);
    s->runs = p;
    if (r < 0)
        return kymo_err_set(err, r, "too many records to sort");
    struct run *run = &s->runs[s->run_count];
    *run = (struct run){0};
    r = spill_open(s->dir, s->size, &run->spill, err);
    if (r < 0)
        return r;
    s->run_count++;
    run->at = kymo_malloc(s->size);
    if (!run->at)
        return kymo_err_set(err, -ENOMEM, "no memory to sort records");
    sort_held(s);
    for (size_t i = 0; i < s->count && r == 0; i++)
        r = spill_append(run->spill, s->held + i * s->size, err);
    s->count = 0;
    return r < 0 ? r : spill_seal(run->spill, err);
}

int sorted_add(struct sorted *s, const void *record, struct kymo_err *err)
{
    int r = s->count == RUN_RECORDS ? write_run(s, err) : 0;
    if (r == 0)
        memcpy(s->held + s->count++ * s->size, record, s->size);
    return r;
}

/* 1: the run has a record more. */
static int advance(struct sorted *s, struct run *run, struct kymo_err *err)
{
    const void *next;
    int r = spill_reader_next(&run->reader, &next, err);
    if (r > 0)
        memcpy(run->at, next, s->size);
    return r;
}

static void sink(struct sorted *s, size_t i)
{
    for (;;) {
        size_t least = i, left = 2 * i + 1;
        for (size_t k = left; k < left + 2 && k < s->heap_count; k++)
            if (order(s->heap[k]->at, s->heap[least]->at) < 0)
                least = k;
        if (least == i)
            return;
        struct run *moved = s->heap[i];
        s->heap[i] = s->heap[least];
        s->heap[least] = moved;
        i = least;
    }
}

int sorted_seal(struct sorted *s, struct kymo_err *err)
{
    if (!s->run_count) {
        sort_held(s);
        return 0;
    }
    int r = s->count ? write_run(s, err) : 0;
    kymo_free(s->held);
    s->held = NULL;
    s->heap = r < 0 ? NULL : KYMO_NEW_ARRAY(struct run *, s->run_count);
    if (r == 0 && !s->heap)
        r = kymo_err_set(err, -ENOMEM, "no memory to sort records");
    for (size_t i = 0; i < s->run_count && r >= 0; i++) {
        r = spill_reader_init(&s->runs[i].reader, s->runs[i].spill, err);
        r = r < 0 ? r : advance(s, &s->runs[i], err);
        if (r > 0)
            s->heap[s->heap_count++] = &s->runs[i];
    }
    comparing = s->size;
    for (size_t i = s->heap_count; i-- > 0 && r >= 0;)
        sink(s, i);
    return r < 0 ? r : 0;
}

int sorted_next(struct sorted *s, const void **ret, struct kymo_err *err)
{
    *ret = s->out;
    if (!s->run_count) {
        if (s->next == s->count)
            return 0;
        memcpy(s->out, s->held + s->next++ * s->size, s->size);
        return 1;
    }
    if (!s->heap_count)
        return 0;
    struct run *least = s->heap[0];
    memcpy(s->out, least->at, s->size);
    int r = advance(s, least, err);
    if (r < 0)
        return r;
    if (!r)
        s->heap[0] = s->heap[--s->heap_count];
    comparing = s->size;
    sink(s, 0);
    return 1;
}
