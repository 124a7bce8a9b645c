#include "collector/query/busy.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

#define BUCKETS 4096u

struct span {
    int64_t begin, end;
};

struct key {
    char *name;
    size_t len;
    struct key *next;       /* in its bucket */
    int64_t covered, reach; /* ns so far, and up to where */
    struct span *held;      /* a heap, the least begin first */
    size_t n, cap;
};

struct busy {
    int64_t from, to;
    size_t keys;
    struct key *buckets[BUCKETS];
    struct key *last; /* that was asked for */
};

struct busy *busy_new(int64_t from, int64_t to)
{
    struct busy *b = KYMO_NEW(struct busy);
    if (b) {
        b->from = from;
        b->to = to;
    }
    return b;
}

struct busy *busy_free(struct busy *b)
{
    for (size_t i = 0; b && i < BUCKETS; i++)
        for (struct key *k = b->buckets[i], *next; k; k = next) {
            next = k->next;
            kymo_free(k->held);
            kymo_free(k->name);
            kymo_free(k);
        }
    kymo_free(b);
    return NULL;
}

void busy_freep(struct busy **b)
{
    *b = busy_free(*b);
}

static bool is_key(const struct key *k, const char *name, size_t n)
{
    return k->len == n && !memcmp(k->name, name, n);
}

static struct key *find(struct busy *b, const char *name, size_t n, struct key ***ret_bucket)
{
    uint32_t hash = 2166136261u;
    if (b->last && is_key(b->last, name, n))
        return b->last;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    *ret_bucket = &b->buckets[hash % BUCKETS];
    for (struct key *k = **ret_bucket; k; k = k->next)
        if (is_key(k, name, n))
            return b->last = k;
    return NULL;
}

static int add_key(struct busy *b, const char *name, size_t n, struct key **bucket, struct key **ret,
                   struct kymo_err *err)
{
    if (b->keys == BUSY_KEYS_MAX)
        return kymo_err_set(err, -E2BIG, "more than %u names", BUSY_KEYS_MAX);
    struct key *k = KYMO_NEW(struct key);
    char *copy = KYMO_NEW_ARRAY(char, n + 1);
    if (!k || !copy) {
        kymo_free(k);
        kymo_free(copy);
        return kymo_err_set(err, -ENOMEM, "no memory for names");
    }
    memcpy(copy, name, n);
    *k = (struct key){.name = copy, .len = n, .next = *bucket, .reach = b->from};
    *bucket = b->last = *ret = k;
    b->keys++;
    return 0;
}

static void take(struct key *k, struct span s)
{
    if (s.end <= k->reach)
        return;
    k->covered += s.end - (s.begin > k->reach ? s.begin : k->reach);
    k->reach = s.end;
}

static int hold(struct key *k, struct span s, struct kymo_err *err)
{
    void *list = k->held;
    int r = kymo_grow(&list, &k->cap, k->n + 1, BUSY_HELD_MAX, sizeof *k->held);
    k->held = list;
    if (r < 0)
        return kymo_err_set(err, r == -ENOBUFS ? -E2BIG : r, "more than %u events wait at once", BUSY_HELD_MAX);
    size_t i = k->n++;
    for (; i > 0 && k->held[(i - 1) / 2].begin > s.begin; i = (i - 1) / 2)
        k->held[i] = k->held[(i - 1) / 2];
    k->held[i] = s;
    return 0;
}

static struct span pop(struct key *k)
{
    struct span top = k->held[0], last = k->held[--k->n];
    size_t i = 0;
    for (size_t child = 1; child < k->n; child = 2 * i + 1) {
        child += child + 1 < k->n && k->held[child + 1].begin < k->held[child].begin;
        if (k->held[child].begin >= last.begin)
            break;
        k->held[i] = k->held[child];
        i = child;
    }
    if (k->n)
        k->held[i] = last;
    return top;
}

int busy_add(struct busy *b, const char *key, size_t n, int64_t start, int64_t begin, int64_t end, struct kymo_err *err)
{
    struct span s = {begin > b->from ? begin : b->from, end < b->to ? end : b->to};
    struct key **bucket = NULL, *k = find(b, key, n, &bucket);
    int r = k ? 0 : add_key(b, key, n, bucket, &k, err);
    if (r < 0)
        return r;
    while (k->n && k->held[0].begin <= start)
        take(k, pop(k));
    if (s.begin >= s.end)
        return 0;
    if (s.begin > start)
        return hold(k, s, err);
    take(k, s);
    return 0;
}

int busy_add_sum(struct busy *b, const char *key, size_t n, int64_t ns, struct kymo_err *err)
{
    struct key **bucket = NULL, *k = find(b, key, n, &bucket);
    int r = k ? 0 : add_key(b, key, n, bucket, &k, err);
    if (r == 0)
        k->covered += ns;
    return r;
}

int64_t busy_of(struct busy *b, const char *key, size_t n)
{
    struct key **bucket, *k = find(b, key, n, &bucket);
    while (k && k->n)
        take(k, pop(k));
    return k ? k->covered : 0;
}
