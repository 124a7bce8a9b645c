#include "collector/query/serve_dirs.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

#define ENTRIES_MAX 64 /* in use or kept */
#define FAILURES_MAX 8

struct entry {
    struct serve_dir *dir; /* NULL: being opened */
    char *path;
    struct stat st;
    unsigned users;
    uint64_t used;
    bool stale; /* it was opened again without its damaged tables */
};

/* What could not be opened since a file is damaged: to find out takes as long as reading all files. */
struct failure {
    char *path;
    uint64_t stamp; /* query_damage_stamp */
    struct kymo_err why;
};

struct serve_dirs {
    struct query_limits limits;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct entry *entries[ENTRIES_MAX];
    size_t n;
    uint64_t clock;
    struct failure failures[FAILURES_MAX]; /* the latest */
    size_t next_failure;
};

struct serve_dirs *serve_dirs_new(const struct query_limits *limits)
{
    struct serve_dirs *d = KYMO_NEW(struct serve_dirs);
    if (!d)
        return NULL;
    d->limits = *limits;
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->changed, NULL);
    return d;
}

static void free_entry(struct entry *e)
{
    serve_dir_free(e->dir);
    kymo_free(e->path);
    kymo_free(e);
}

struct serve_dirs *serve_dirs_free(struct serve_dirs *d)
{
    if (!d)
        return NULL;
    for (size_t i = 0; i < d->n; i++)
        free_entry(d->entries[i]);
    for (size_t i = 0; i < FAILURES_MAX; i++)
        kymo_free(d->failures[i].path);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    kymo_free(d);
    return NULL;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void take_out(struct serve_dirs *d, size_t i)
{
    d->entries[i] = d->entries[--d->n];
}

/* The one longest unused of those that nobody uses; SIZE_MAX: all are in use. */
static size_t oldest(const struct serve_dirs *d)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i]->users == 0 && (best == SIZE_MAX || d->entries[i]->used < d->entries[best]->used))
            best = i;
    return best;
}

/* Stale ones are not wanted however few there are. */
static size_t unwanted(const struct serve_dirs *d, size_t most)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i]->users == 0 && d->entries[i]->stale)
            return i;
    return d->n > most ? oldest(d) : SIZE_MAX;
}

/* Takes out what is too much; the caller frees it, without the lock. NULL: nothing. */
static struct entry *trim(struct serve_dirs *d, size_t most)
{
    size_t i = unwanted(d, most);
    if (i == SIZE_MAX)
        return NULL;
    struct entry *e = d->entries[i];
    take_out(d, i);
    return e;
}

static struct entry *find(struct serve_dirs *d, const char *path, const struct stat *st)
{
    for (size_t i = 0; i < d->n; i++)
        if (!d->entries[i]->stale && same(&d->entries[i]->st, st) && !strcmp(d->entries[i]->path, path))
            return d->entries[i];
    return NULL;
}

/* An entry that says "being opened", in the list. NULL: see err. */
static struct entry *announce(struct serve_dirs *d, const char *path, const struct stat *st, struct kymo_err *err)
{
    if (d->n == ENTRIES_MAX) {
        (void)kymo_err_set(err, -EBUSY, "%d directories are in use at once", ENTRIES_MAX);
        return NULL;
    }
    struct entry *e = KYMO_NEW(struct entry);
    if (!e || !(e->path = kymo_strdup(path))) {
        (void)kymo_err_set(err, -ENOMEM, "no memory for a directory");
        kymo_free(e);
        return NULL;
    }
    e->st = *st;
    e->users = 1;
    d->entries[d->n++] = e;
    return e;
}

static void withdraw(struct serve_dirs *d, struct entry *e)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i] == e)
            take_out(d, i);
}

static void keep_failure(struct serve_dirs *d, const char *path, uint64_t stamp, const struct kymo_err *why)
{
    struct failure *f = &d->failures[d->next_failure];
    char *copy = why->code == -EBADMSG ? kymo_strdup(path) : NULL;
    if (!copy)
        return;
    kymo_free(f->path);
    *f = (struct failure){copy, stamp, *why};
    d->next_failure = (d->next_failure + 1) % FAILURES_MAX;
}

static const struct failure *find_failure(const struct serve_dirs *d, const char *path)
{
    for (size_t i = 0; i < FAILURES_MAX; i++)
        if (d->failures[i].path && !strcmp(d->failures[i].path, path) &&
            d->failures[i].stamp == query_damage_stamp(path))
            return &d->failures[i];
    return NULL;
}

/* With the lock held, which is given up meanwhile. before: see serve_dir_open. */
static int open_entry(struct serve_dirs *d, const char *path, const struct stat *st, const struct serve_dir *before,
                      struct serve_dir **ret, struct kymo_err *err)
{
    struct entry *e = announce(d, path, st, err), *gone = NULL;
    struct serve_dir *dir = NULL;
    if (!e)
        return err->code;
    (void)pthread_mutex_unlock(&d->lock);
    uint64_t stamp = query_damage_stamp(path);
    int r = serve_dir_open(path, &d->limits, before, &dir, err);
    (void)pthread_mutex_lock(&d->lock);
    if (r < 0) {
        withdraw(d, e);
        keep_failure(d, path, stamp, err);
    }
    e->dir = dir;
    e->used = ++d->clock;
    if (r == 0)
        gone = trim(d, SERVE_DIRS_MAX);
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    if (r < 0)
        free_entry(e);
    if (gone)
        free_entry(gone);
    (void)pthread_mutex_lock(&d->lock);
    *ret = dir;
    return r;
}

int serve_dirs_get(struct serve_dirs *d, const char *path, struct serve_dir **ret, struct kymo_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    struct kymo_err own = {0};
    int r = 0;
    (void)pthread_mutex_lock(&d->lock);
    struct entry *e;
    const struct failure *f;
    while ((e = find(d, path, &st)) && !e->dir)
        (void)pthread_cond_wait(&d->changed, &d->lock);
    /* A table that was left out may have been mended, in its place. */
    if (e && e->dir->opened_stamp && e->dir->opened_stamp != query_damage_stamp(path)) {
        e->stale = true;
        e = NULL;
    }
    if (e) {
        e->users++;
        *ret = e->dir;
    } else if ((f = find_failure(d, path))) {
        own = f->why;
        r = own.code;
    } else {
        r = open_entry(d, path, &st, NULL, ret, &own);
    }
    (void)pthread_mutex_unlock(&d->lock);
    /* A text may have lines. */
    if (r < 0 && err)
        *err = own;
    return r;
}

static struct entry *entry_of(const struct serve_dirs *d, const struct serve_dir *dir)
{
    size_t i = 0;
    while (i < d->n && d->entries[i]->dir != dir)
        i++;
    return i < d->n ? d->entries[i] : NULL;
}

/* From now on the directory is one without its damaged tables; who uses this one may go on. */
static int open_again(struct serve_dirs *d, struct serve_dir *dir)
{
    struct kymo_err why = {0};
    struct serve_dir *fresh = NULL;
    int r = 0;
    (void)pthread_mutex_lock(&d->lock);
    struct entry *e = entry_of(d, dir);
    if (e && !e->stale) {
        e->stale = true;
        r = open_entry(d, e->path, &e->st, dir, &fresh, &why);
        e->stale = r == 0; /* else it is better than nothing */
    }
    (void)pthread_mutex_unlock(&d->lock);
    if (fresh)
        serve_dirs_put(d, fresh);
    return r;
}

int serve_dirs_doubt(struct serve_dirs *d, struct serve_dir *dir, const struct query_damage_watch *watch,
                     bool *ret_again, struct kymo_err *err)
{
    bool more = false;
    int r = serve_dir_look(dir, &d->limits, watch, &more, err);
    *ret_again = r == -EBADMSG && more && open_again(d, dir) == 0;
    return r;
}

void serve_dirs_put(struct serve_dirs *d, struct serve_dir *dir)
{
    (void)pthread_mutex_lock(&d->lock);
    struct entry *e = entry_of(d, dir);
    if (e) {
        e->users--;
        e->used = ++d->clock;
    }
    struct entry *gone = trim(d, SERVE_DIRS_MAX);
    (void)pthread_mutex_unlock(&d->lock);
    if (gone)
        free_entry(gone);
}
