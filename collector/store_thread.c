#include "collector/store_thread.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#define TURN_MS 1000 /* at least so often the work queue looks for what may be tried again */

struct list {
    struct store_job *first, **last;
};

struct store_thread {
    struct store_thread_config config;
    uv_thread_t thread;
    uv_async_t async;
    int wake; /* eventfd of the thread */
    uv_sem_t opened;
    int open_result;
    struct kymo_err open_err;
    atomic_bool stopping;
    _Atomic uint64_t beats;
    uv_mutex_t mutex;
    struct list posted, over; /* under mutex */
    bool has_ended;           /* under mutex */
    /* the thread's */
    struct store *store;
    struct work_queue *work;
    bool work_due, in_trouble;
    uint64_t turned_ns;
};

/* Something for the loop that nobody posted. */
struct note {
    struct store_job job;
    struct store_thread *thread;
    bool is_trouble, over;
    union {
        struct catalog_profile profile;
        char text[KYMO_ERR_TEXT_MAX];
    } u;
};

static void list_init(struct list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

static void list_add(struct list *l, struct store_job *j)
{
    j->next = NULL;
    *l->last = j;
    l->last = &j->next;
}

static struct store_job *take_all(struct store_thread *t, struct list *l)
{
    uv_mutex_lock(&t->mutex);
    struct store_job *first = l->first;
    list_init(l);
    uv_mutex_unlock(&t->mutex);
    return first;
}

static void wake(const struct store_thread *t)
{
    const uint64_t one = 1;
    ssize_t n;
    do
        n = write(t->wake, &one, sizeof one);
    while (n < 0 && errno == EINTR);
}

void store_thread_give_back(struct store_thread *t, struct store_job *j)
{
    uv_mutex_lock(&t->mutex);
    list_add(&t->over, j);
    uv_mutex_unlock(&t->mutex);
    (void)uv_async_send(&t->async);
}

static void note_done(struct store_job *j)
{
    struct note *n = (struct note *)j;
    const struct store_thread_config *c = &n->thread->config;
    if (n->is_trouble && c->trouble)
        c->trouble(c->ctx, n->over ? NULL : n->u.text);
    else if (!n->is_trouble && c->changed)
        c->changed(c->ctx, &n->u.profile);
    kymo_free(n);
}

/* Without memory nobody is told; what it is about stands in the catalogue. */
static struct note *new_note(struct store_thread *t)
{
    struct note *n = KYMO_NEW(struct note);
    if (n) {
        n->thread = t;
        n->job.done = note_done;
    }
    return n;
}

static void on_changed(void *ctx, const struct catalog_profile *p)
{
    struct store_thread *t = ctx;
    struct note *n = t->config.changed ? new_note(t) : NULL;
    if (!n)
        return;
    n->u.profile = *p;
    store_thread_give_back(t, &n->job);
}

static void tell_trouble(struct store_thread *t, const char *text)
{
    if (!text && !t->in_trouble)
        return;
    struct note *n = t->in_trouble && text ? NULL : new_note(t);
    t->in_trouble = text != NULL;
    if (!n)
        return;
    n->is_trouble = true;
    n->over = !text;
    if (text)
        (void)snprintf(n->u.text, sizeof n->u.text, "%s", text);
    store_thread_give_back(t, &n->job);
}

static int open_store(struct store_thread *t, struct kymo_err *err)
{
    int r = store_open(t->config.data_path, t->config.reserve, &t->store, err);
    if (r < 0 || t->config.no_work)
        return r;
    struct work_queue_config w = t->config.work;
    w.data_path = t->store->data_path;
    w.catalog = t->store->catalog;
    w.raw = t->store->raw;
    w.changed = on_changed;
    w.ctx = t;
    return work_queue_open(&w, &t->work, err);
}

static void turn_work(struct store_thread *t)
{
    uint64_t now = kymo_clock_mono_ns();
    struct pollfd p = {.fd = t->work ? work_queue_fd(t->work) : -1, .events = POLLIN};
    if (!t->work)
        return;
    bool due = now - t->turned_ns >= (uint64_t)TURN_MS * 1000000;
    if (!due && !t->in_trouble)
        due = t->work_due || work_queue_timeout_ms(t->work) == 0 || poll(&p, 1, 0) > 0;
    if (!due)
        return;
    struct kymo_err err = {0};
    t->work_due = false;
    t->turned_ns = now;
    int r = work_queue_turn(t->work, &err);
    tell_trouble(t, r < 0 ? err.text : NULL);
}

static void wait_for_something(struct store_thread *t)
{
    int ms = TURN_MS;
    if (t->work && !t->in_trouble) {
        int left = work_queue_timeout_ms(t->work);
        ms = left >= 0 && left < ms ? left : ms;
    }
    struct pollfd p[2] = {{.fd = t->wake, .events = POLLIN},
                          {.fd = t->work && !t->in_trouble ? work_queue_fd(t->work) : -1, .events = POLLIN}};
    if (poll(p, 2, ms) <= 0 || !(p[0].revents & POLLIN))
        return;
    uint64_t n;
    (void)!read(t->wake, &n, sizeof n);
}

static void run_jobs(struct store_thread *t)
{
    for (struct store_job *j = take_all(t, &t->posted), *next; j; j = next) {
        next = j->next;
        atomic_fetch_add(&t->beats, 1);
        if (!j->run || j->run(j, t))
            store_thread_give_back(t, j);
        /* A processor that has ended is not kept waiting by a long row of bytes. */
        if (!atomic_load(&t->stopping))
            turn_work(t);
    }
}

static void run_thread(void *arg)
{
    struct store_thread *t = arg;
    t->open_result = open_store(t, &t->open_err);
    bool opened = t->open_result == 0;
    uv_sem_post(&t->opened);
    t->work_due = true;
    while (opened && !atomic_load(&t->stopping)) {
        atomic_fetch_add(&t->beats, 1);
        turn_work(t);
        wait_for_something(t);
        run_jobs(t);
        if (t->config.tick)
            t->config.tick(t->config.ctx, t);
    }
    t->work = work_queue_free(t->work);
    if (opened)
        run_jobs(t);
    if (opened && t->config.tick)
        t->config.tick(t->config.ctx, t);
    t->store = store_free(t->store);
    uv_mutex_lock(&t->mutex);
    t->has_ended = true;
    uv_mutex_unlock(&t->mutex);
    (void)uv_async_send(&t->async);
}

static void on_async(uv_async_t *async)
{
    struct store_thread *t = async->data;
    for (struct store_job *j = take_all(t, &t->over), *next; j; j = next) {
        next = j->next;
        j->done(j);
    }
    uv_mutex_lock(&t->mutex);
    bool ended = t->has_ended && !t->over.first;
    uv_mutex_unlock(&t->mutex);
    if (ended && t->config.ended) {
        void (*tell)(void *) = t->config.ended;
        t->config.ended = NULL;
        tell(t->config.ctx);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct store_thread *t = handle->data;
    uv_mutex_destroy(&t->mutex);
    uv_sem_destroy(&t->opened);
    kymo_file_close(t->wake);
    kymo_free(t);
}

int store_thread_new(const struct store_thread_config *config, struct store_thread **ret, struct kymo_err *err)
{
    struct store_thread *t = KYMO_NEW(struct store_thread);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the store's thread");
    t->config = *config;
    list_init(&t->posted);
    list_init(&t->over);
    t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = t->wake < 0 ? -errno : uv_async_init(config->loop, &t->async, on_async);
    if (r < 0) {
        kymo_file_close(t->wake);
        kymo_free(t);
        return kymo_err_set(err, r, "the store's thread: %s", strerror(-r));
    }
    t->async.data = t;
    if (uv_mutex_init(&t->mutex) < 0 || uv_sem_init(&t->opened, 0) < 0)
        abort();
    r = uv_thread_create(&t->thread, run_thread, t);
    if (r < 0) {
        uv_close((uv_handle_t *)&t->async, on_closed);
        return kymo_err_set(err, r, "the store's thread: %s", uv_strerror(r));
    }
    uv_sem_wait(&t->opened);
    if (t->open_result < 0) {
        r = t->open_result;
        if (err)
            *err = t->open_err;
        store_thread_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

void store_thread_post(struct store_thread *t, struct store_job *j)
{
    uv_mutex_lock(&t->mutex);
    list_add(&t->posted, j);
    uv_mutex_unlock(&t->mutex);
    wake(t);
}

void store_thread_stop(struct store_thread *t)
{
    atomic_store(&t->stopping, true);
    wake(t);
}

struct store_thread *store_thread_free(struct store_thread *t)
{
    if (!t)
        return NULL;
    store_thread_stop(t);
    (void)uv_thread_join(&t->thread);
    on_async(&t->async);
    uv_close((uv_handle_t *)&t->async, on_closed);
    return NULL;
}

uint64_t store_thread_beats(const struct store_thread *t)
{
    return atomic_load(&t->beats);
}

struct store *store_thread_store(struct store_thread *t)
{
    return t->store;
}

struct work_queue *store_thread_work(struct store_thread *t)
{
    return t->work;
}

void store_thread_wake_work(struct store_thread *t)
{
    t->work_due = true;
}

void *store_thread_ctx(const struct store_thread *t)
{
    return t->config.ctx;
}

bool store_thread_is_stopping(const struct store_thread *t)
{
    return atomic_load(&t->stopping);
}
