#include "collector/query/fleet_cache.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"

#define DAYS_MAX 1024 /* kept; beyond it all are read again */
#define MEMORY (512u << 20)
#define THREADS 1 /* with two, small files take twice the CPU, most of it to wait for each other */
#define LOCK_MS 50
#define YIELD_NS 1000000 /* a lock goes to who waits for it only if who has had it sleeps a little */
#define DEAD_MIN 1024    /* deleted rows from which on a new table is made of the others, ... */
#define EXCHANGES_MAX 4  /* ... and directories after which a question lets no other come in between */

enum state { NEW, READ, UNREADABLE };

struct day {
    int64_t day;
    uint64_t mark; /* of its directories when they were listed; 0: they are to be listed again */
    struct fleet_parts parts;
    uint8_t *states; /* enum state of each part */
};

static struct {
    pthread_mutex_t lock;
    unsigned waiting; /* for the lock */
    char *path;
    dev_t device;
    ino_t inode;
    struct query_db *db; /* NULL: nothing is kept */
    struct day days[DAYS_MAX];
    size_t n;
    size_t rows, dead; /* parts in the table; deleted from it */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct question {
    const char *dir;
    int64_t from, to;  /* with a day on either side: the other ranks of a request may be of it */
    uint64_t until_ns; /* 0: all */
    unsigned exchanges;
    struct fleet_cache_told *told;
    int (*ask)(struct serve_request *q, void *ctx, struct kymo_err *err);
    void *ctx;
};

/* With the lock held, all of these. */

static void day_done(struct day *d)
{
    fleet_parts_done(&d->parts);
    kymo_free(d->states);
    *d = (struct day){0};
}

static void forget(void)
{
    cache.db = query_db_free(cache.db);
    kymo_free(cache.path);
    cache.path = NULL;
    for (size_t i = 0; i < cache.n; i++)
        day_done(&cache.days[i]);
    cache.n = cache.rows = cache.dead = 0;
}

static int make_tables(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    (void)ctx;
    return fleet_rows_create(serve_sql_of(q), err);
}

/* The directory may have been exchanged since: then what is kept is of another. */
static int open_cache(struct serve_request *q, struct question *c, struct kymo_err *err)
{
    const struct query_limits limits = {.memory_bytes = MEMORY, .threads = THREADS, .read_once = true};
    struct stat st;
    if (stat(c->dir, &st) < 0)
        return kymo_err_set(err, -ENOENT, "there are no tables of a fleet here yet");
    if (cache.db && cache.path && !strcmp(cache.path, c->dir) && st.st_dev == cache.device && st.st_ino == cache.inode)
        return 0;
    forget();
    c->exchanges++;
    cache.device = st.st_dev;
    cache.inode = st.st_ino;
    cache.path = kymo_strdup(c->dir);
    if (!cache.path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    int r = query_db_open_places(&c->dir, 1, &limits, &cache.db, err);
    if (r == 0 && query_db_place(cache.db, 0) < 0)
        r = kymo_err_set(err, -ENOENT, "there are no tables of a fleet here yet");
    if (r == 0)
        r = serve_visit_db(q, cache.db, make_tables, NULL, err);
    if (r < 0)
        forget();
    return r;
}

/* The place of a day among those that are kept; a new one is to be listed. */
static struct day *day_of(int64_t day)
{
    for (size_t i = 0; i < cache.n; i++)
        if (cache.days[i].day == day)
            return &cache.days[i];
    struct day *d = &cache.days[cache.n++];
    *d = (struct day){.day = day};
    return d;
}

/* Rows of parts that went or are others now. */
static int delete_rows(struct serve_request *q, const struct day *d, const bool *stays, struct kymo_err *err)
{
    const struct fleet_part *gone[FLEET_CHUNK];
    size_t n = 0;
    int r = 0;
    for (size_t i = 0; i < d->parts.n && r == 0; i++) {
        if (stays[i] || d->states[i] != READ)
            continue;
        gone[n++] = &d->parts.list[i];
        cache.dead++;
        cache.rows -= cache.rows > 0;
        if (n == FLEET_CHUNK) {
            r = fleet_rows_delete(serve_sql_of(q), gone, n, err);
            n = 0;
        }
    }
    return r < 0 ? r : fleet_rows_delete(serve_sql_of(q), gone, n, err);
}

/* Both lists are sorted. What is the same in both keeps its state. */
static void compare(const struct day *d, const struct fleet_parts *now, uint8_t *states, bool *stays)
{
    for (size_t i = 0, k = 0; i < d->parts.n && k < now->n;) {
        int order = strcmp(d->parts.list[i].key, now->list[k].key);
        if (order == 0 && d->parts.list[i].stamp == now->list[k].stamp) {
            states[k] = d->states[i];
            stays[i] = true;
        }
        i += order <= 0;
        k += order >= 0;
    }
}

/* An error leaves rows that no list has, so that all is forgotten then (fleet_cache_ask). */
static int list_day(struct serve_request *q, struct day *d, struct kymo_err *err)
{
    struct fleet_parts now = {0};
    int r = fleet_files_list(query_db_place(cache.db, 0), d->day, &now, err);
    if (r < 0)
        return r;
    uint8_t *states KYMO_FREE = KYMO_NEW_ARRAY(uint8_t, now.n + 1);
    bool *stays KYMO_FREE = KYMO_NEW_ARRAY(bool, d->parts.n + 1);
    if (!states || !stays)
        r = kymo_err_set(err, -ENOMEM, "no memory for the profiles of a day");
    if (r == 0) {
        compare(d, &now, states, stays);
        r = delete_rows(q, d, stays, err);
    }
    if (r < 0) {
        fleet_parts_done(&now);
        return r;
    }
    fleet_parts_done(&d->parts);
    kymo_free(d->states);
    d->parts = now;
    d->states = KYMO_TAKE(states);
    return 0;
}

/* Lists what has changed, and counts what is to be read. */
static int look(struct serve_request *q, const struct question *c, struct kymo_err *err)
{
    int fd = query_db_place(cache.db, 0), r = 0;
    c->told->left = c->told->of = c->told->unreadable = 0;
    for (int64_t day = c->from; day <= c->to && r == 0; day++) {
        bool calm = true;
        uint64_t mark = fleet_files_mark(fd, day, &calm);
        struct day *d = day_of(day);
        if (d->mark != mark) {
            d->mark = 0;
            r = list_day(q, d, err);
            /* Of a day that is being written to, all is compared next time. */
            if (r == 0 && calm)
                d->mark = mark;
        }
        for (size_t i = 0; i < d->parts.n; i++) {
            c->told->left += d->states[i] == NEW;
            c->told->unreadable += d->states[i] == UNREADABLE;
        }
        c->told->of += d->parts.n;
    }
    if (r == 0 && cache.dead >= DEAD_MIN && cache.dead > cache.rows) {
        r = fleet_rows_renew(serve_sql_of(q), err);
        cache.dead = 0;
    }
    return r;
}

/* Parts of a day. What cannot be read with others is read by itself; what cannot even so costs its own row. */
static int read_parts(struct serve_request *q, struct day *d, const size_t *places, size_t n, struct kymo_err *err)
{
    const struct fleet_part *parts[FLEET_CHUNK];
    struct kymo_err why = {0};
    for (size_t i = 0; i < n; i++)
        parts[i] = &d->parts.list[places[i]];
    int r = fleet_rows_read(serve_sql_of(q), query_db_place(cache.db, 0), parts, n, &why);
    if (r == -ECANCELED || r == -ENOMEM)
        return kymo_err_set(err, r, "%s", why.text);
    if (r < 0 && n > 1) {
        r = read_parts(q, d, places, n / 2, err);
        return r < 0 ? r : read_parts(q, d, places + n / 2, n - n / 2, err);
    }
    for (size_t i = 0; i < n; i++)
        d->states[places[i]] = r < 0 ? UNREADABLE : READ;
    cache.rows += r < 0 ? 0 : n;
    return 0;
}

/* Some of the newest day that has parts to read. */
static int read_some(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    const struct question *c = ctx;
    for (int64_t day = c->to; day >= c->from; day--) {
        struct day *d = day_of(day);
        size_t places[FLEET_CHUNK], n = 0, most = FLEET_CHUNK;
        for (size_t i = 0; i < d->parts.n && n < most; i++) {
            const struct fleet_part *part = &d->parts.list[i];
            if (d->states[i] != NEW || (n && part->whole != d->parts.list[places[0]].whole))
                continue;
            places[n++] = i;
            most = part->whole ? FLEET_CHUNK : FLEET_CHUNK / 4;
        }
        if (n) {
            c->told->files += n;
            return read_parts(q, d, places, n, err);
        }
    }
    return 0;
}

static int look_and_maybe_ask(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    const struct question *c = ctx;
    int r = look(q, c, err);
    if (r < 0)
        return r;
    bool late = c->until_ns && c->told->files && kymo_clock_mono_ns() >= c->until_ns;
    if (c->told->left && !late)
        return read_some(q, ctx, err);
    r = c->ask(q, c->ctx, err);
    return r < 0 ? r : 1;
}

/* Whoever has gone waits no longer. */
static int take_lock(const struct serve_request *q, struct kymo_err *err)
{
    int r;
    (void)__atomic_add_fetch(&cache.waiting, 1, __ATOMIC_RELAXED);
    do {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOCK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        r = pthread_mutex_timedlock(&cache.lock, &until);
    } while (r != 0 && !*serve_sql_of(q)->stop);
    (void)__atomic_sub_fetch(&cache.waiting, 1, __ATOMIC_RELAXED);
    return r == 0 ? 0 : kymo_err_set(err, -ECANCELED, "nobody wants the answer any more");
}

/* Between two chunks; what others did in between is looked at anew. */
static int yield(const struct serve_request *q, const struct question *c, struct kymo_err *err)
{
    const struct timespec little = {.tv_nsec = YIELD_NS};
    if (c->exchanges > EXCHANGES_MAX || __atomic_load_n(&cache.waiting, __ATOMIC_RELAXED) == 0)
        return 0;
    (void)pthread_mutex_unlock(&cache.lock);
    (void)nanosleep(&little, NULL);
    return take_lock(q, err);
}

/* 1: answered; the lock is held then, and unless *ret_locked is false. */
static int answer(struct serve_request *q, struct question *c, bool *ret_locked, struct kymo_err *err)
{
    int r = 0;
    while (r == 0) {
        if (cache.n + (size_t)(c->to - c->from + 1) > DAYS_MAX)
            forget();
        r = open_cache(q, c, err);
        if (r == 0)
            r = serve_visit_db(q, cache.db, look_and_maybe_ask, c, err);
        if (r == 0 && (r = yield(q, c, err)) < 0)
            *ret_locked = false;
    }
    return r;
}

int fleet_cache_ask(struct serve_request *q, const char *dir, int64_t from, int64_t to, int64_t wait_ms,
                    struct fleet_cache_told *ret, int (*ask)(struct serve_request *q, void *ctx, struct kymo_err *err),
                    void *ctx, struct kymo_err *err)
{
    struct question c = {.dir = dir, .from = from - 1, .to = to + 1, .told = ret, .ask = ask, .ctx = ctx};
    bool locked = true;
    if (wait_ms >= 0)
        c.until_ns = kymo_clock_mono_ns() + (uint64_t)wait_ms * 1000000;
    int r = take_lock(q, err);
    if (r < 0)
        return r;
    r = answer(q, &c, &locked, err);
    if (!locked)
        return r;
    /* Without room for more, what is held may be in the way; a question that took too long goes on from it. */
    if (r < 0 && r != -ECANCELED && r != -ETIMEDOUT)
        forget();
    if (r > 0)
        ret->any = fleet_files_days(query_db_place(cache.db, 0), &ret->first, &ret->last);
    (void)pthread_mutex_unlock(&cache.lock);
    return r < 0 ? r : 0;
}
