#include "pipeline/spill/sort_spill.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/spill/spill.h"

#define RUN_RECORDS 65536u
#define RECORD_MAX 1024u
#define RUNS_MAX 1048576u

/* In front of each record. */
struct head {
    int64_t key;
    uint64_t order;
};

struct run {
    struct spill_reader reader;
    uint64_t end; /* index of the record behind its last */
    const uint8_t *at;
};

struct sort_spill {
    struct spill *spill;
    size_t size, whole; /* of a record; with its head */
    size_t run_records, held;
    uint8_t *buf;
    uint64_t count;
    struct run *runs; /* while merging, a heap of those that have a record */
    size_t n_runs, runs_cap, live;
    bool merging, begun;
};

int sort_spill_open(const char *dir, size_t size, size_t run, struct sort_spill **ret, struct kymo_err *err)
{
    if (!size || size > RECORD_MAX)
        return kymo_err_set(err, -EINVAL, "records of %zu bytes cannot be sorted", size);
    struct sort_spill *s = KYMO_NEW(struct sort_spill);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "no memory to sort");
    s->size = size;
    s->whole = (size + sizeof(struct head) + 7) / 8 * 8;
    s->run_records = run ? run : RUN_RECORDS;
    s->buf = kymo_calloc(s->run_records, s->whole);
    int r = s->buf ? spill_open(dir, s->whole, &s->spill, err) : kymo_err_set(err, -ENOMEM, "no memory to sort");
    if (r < 0) {
        sort_spill_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct sort_spill *sort_spill_free(struct sort_spill *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_runs; i++)
        spill_reader_done(&s->runs[i].reader);
    kymo_free(s->runs);
    s->spill = spill_free(s->spill);
    kymo_free(s->buf);
    kymo_free(s);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const struct head *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int end_run(struct sort_spill *s, struct kymo_err *err)
{
    if (!s->held)
        return 0;
    void *p = s->runs;
    int r = kymo_grow(&p, &s->runs_cap, s->n_runs + 1, RUNS_MAX, sizeof *s->runs);
    s->runs = p;
    if (r < 0)
        return kymo_err_set(err, r, "no memory to sort %llu records", (unsigned long long)s->count);
    qsort(s->buf, s->held, s->whole, compare);
    for (size_t i = 0; i < s->held; i++) {
        r = spill_append(s->spill, s->buf + i * s->whole, err);
        if (r < 0)
            return r;
    }
    s->runs[s->n_runs++] = (struct run){.end = spill_count(s->spill)};
    s->held = 0;
    return 0;
}

int sort_spill_add(struct sort_spill *s, int64_t key, const void *record, struct kymo_err *err)
{
    struct head head = {.key = key, .order = s->count};
    uint8_t *at = s->buf + s->held * s->whole;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, record, s->size);
    s->count++;
    return ++s->held == s->run_records ? end_run(s, err) : 0;
}

uint64_t sort_spill_count(const struct sort_spill *s)
{
    return s->count;
}

static int advance(struct run *run, struct kymo_err *err)
{
    const void *next = NULL;
    run->at = NULL;
    if (run->reader.next == run->end)
        return 0;
    int r = spill_reader_next(&run->reader, &next, err);
    run->at = next;
    return r < 0 ? r : 0;
}

static void sift(struct sort_spill *s, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < s->live; k++)
            if (compare(s->runs[k].at, s->runs[least].at) < 0)
                least = k;
        if (least == i)
            return;
        struct run swap = s->runs[i];
        s->runs[i] = s->runs[least];
        s->runs[least] = swap;
        i = least;
    }
}

int sort_spill_merge(struct sort_spill *s, struct kymo_err *err)
{
    int r = end_run(s, err);
    if (r == 0)
        r = spill_seal(s->spill, err);
    kymo_free(s->buf);
    s->buf = NULL;
    for (size_t i = 0; i < s->n_runs && r == 0; i++) {
        r = spill_reader_init(&s->runs[i].reader, s->spill, err);
        s->runs[i].reader.next = i ? s->runs[i - 1].end : 0;
        if (r == 0)
            r = advance(&s->runs[i], err);
    }
    s->live = s->n_runs;
    for (size_t i = s->live / 2; r == 0 && i-- > 0;)
        sift(s, i);
    s->merging = r == 0;
    return r;
}

/* The record given last is its run's, so the run moves on when the next one is asked for. */
int sort_spill_next(struct sort_spill *s, const void **ret, struct kymo_err *err)
{
    if (!s->merging || !s->live)
        return 0;
    if (s->begun) {
        int r = advance(&s->runs[0], err);
        if (r < 0)
            return r;
        if (!s->runs[0].at) {
            struct run done = s->runs[0];
            s->runs[0] = s->runs[--s->live];
            s->runs[s->live] = done;
        }
        sift(s, 0);
    }
    s->begun = true;
    if (!s->live)
        return 0;
    *ret = s->runs[0].at + sizeof(struct head);
    return 1;
}
