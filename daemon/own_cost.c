#include "daemon/own_cost.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#define SAMPLES (OWN_COST_WINDOW_MS / OWN_COST_EVERY_MS + 1)
#define PROC_TEXT_MAX 512
#define NS_PER_MS 1000000ull

struct own_cost {
    uv_timer_t timer;
    const struct own_cost_ops *ops;
    void *ctx;
    size_t n; /* of samples, oldest first */
    struct own_cost_sample samples[SAMPLES];
    uint64_t since_ns; /* what the present rung is judged by began then */
    struct own_cost_figures figures;
};

const char *own_cost_rung_name(enum own_cost_rung r)
{
    static const char *const names[] = {
#define X(symbol, text) text,
        OWN_COST_RUNGS(X)
#undef X
    };
    return r < OWN_COST_RUNG_COUNT ? names[r] : "?";
}

static int read_proc(const char *path, char text[static PROC_TEXT_MAX], struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY, 0, err);
    if (fd < 0)
        return fd;
    ssize_t n = kymo_file_ops()->pread(fd, text, PROC_TEXT_MAX - 1, 0);
    if (n < 0)
        return kymo_err_set(err, -errno, "%s: %s", path, strerror(errno));
    text[n] = '\0';
    return 0;
}

static uint64_t nanoseconds(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

int own_cost_measure(struct own_cost_sample *ret, struct kymo_err *err)
{
    struct own_cost_sample s = {.mono_ns = kymo_clock_mono_ns()};
    char text[PROC_TEXT_MAX];
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return kymo_err_set(err, -errno, "getrusage: %s", strerror(errno));
    s.cpu_ns = nanoseconds(&usage.ru_utime) + nanoseconds(&usage.ru_stime);
    int r = read_proc("/proc/self/statm", text, err);
    if (r < 0)
        return r;
    /* Size, then resident, in pages. */
    const char *resident = strchr(text, ' ');
    s.rss_bytes = resident ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    /* A kernel without task I/O accounting has no such file: nothing is known then, and nothing limited. */
    const char *written = read_proc("/proc/self/io", text, NULL) == 0 ? strstr(text, "\nwrite_bytes: ") : NULL;
    s.written_bytes = written ? strtoull(written + strlen("\nwrite_bytes: "), NULL, 10) : 0;
    *ret = s;
    return 0;
}

static uint64_t grown(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
    return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

static void work_out(struct own_cost *c)
{
    const struct own_cost_sample *a = &c->samples[0], *b = &c->samples[c->n - 1];
    struct own_cost_figures *f = &c->figures;
    uint64_t ns = grown(a->mono_ns, b->mono_ns);
    uint64_t written = grown(a->written_bytes, b->written_bytes), taken = grown(a->taken_bytes, b->taken_bytes);
    f->cpu_percent = ns ? 100.0 * (double)grown(a->cpu_ns, b->cpu_ns) / (double)ns : 0;
    /* A capture taken over by copying was written by us too: it counts once. */
    f->disk_bytes_s = per_second(written > taken ? written : taken, ns);
    f->net_bytes_s = per_second(grown(a->sent_bytes, b->sent_bytes), ns);
}

/* What stands out most, as a part of its limit. */
static double load(const struct own_cost_figures *f, char text[static KYMO_ERR_TEXT_MAX])
{
    const struct {
        const char *what, *unit;
        double is, limit;
    } rows[] = {
        {"CPU", "% of a core", f->cpu_percent, f->limits.cpu_percent},
        {"disk", " MB/s", (double)f->disk_bytes_s / 1e6, (double)f->limits.disk_bytes_s / 1e6},
        {"network", " MB/s", (double)f->net_bytes_s / 1e6, (double)f->limits.net_bytes_s / 1e6},
    };
    double most = 0;
    (void)snprintf(text, KYMO_ERR_TEXT_MAX, "no limit is set");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].limit <= 0 || rows[i].is / rows[i].limit < most)
            continue;
        most = rows[i].is / rows[i].limit;
        (void)snprintf(text, KYMO_ERR_TEXT_MAX, "%s at %.2f%s, limit %.2f", rows[i].what, rows[i].is, rows[i].unit,
                       rows[i].limit);
    }
    return most;
}

static void go_to(struct own_cost *c, enum own_cost_rung rung, const char *text)
{
    struct own_cost_figures *f = &c->figures;
    f->rung = rung;
    f->decisions[rung]++;
    (void)snprintf(f->why, sizeof f->why, "%s", text);
    if (c->ops->changed)
        c->ops->changed(c->ctx, rung, f->why);
}

static void judge(struct own_cost *c)
{
    char text[KYMO_ERR_TEXT_MAX];
    struct own_cost_figures *f = &c->figures;
    uint64_t now = c->samples[c->n - 1].mono_ns;
    double l = load(f, text);
    /* What was decided shows only in a window that began after it; a limit just set or lifted counts at once. */
    if (now - c->since_ns < OWN_COST_WINDOW_MS * NS_PER_MS || c->n < 2)
        return;
    if (l > 1 && f->rung + 1 < OWN_COST_RUNG_COUNT)
        go_to(c, f->rung + 1, text);
    else if (l <= 0.5 && f->rung > OWN_COST_ALL)
        go_to(c, f->rung - 1, text);
    else
        return;
    c->since_ns = now;
}

void own_cost_add(struct own_cost *c, const struct own_cost_sample *s)
{
    if (c->n == SAMPLES)
        memmove(c->samples, c->samples + 1, --c->n * sizeof c->samples[0]);
    if (c->n == 0)
        c->since_ns = s->mono_ns;
    c->samples[c->n++] = *s;
    work_out(c);
    judge(c);
}

static int measure(struct own_cost *c, struct own_cost_sample *ret, struct kymo_err *err)
{
    int r = own_cost_measure(ret, err);
    if (r == 0 && c->ops->count)
        c->ops->count(c->ctx, ret);
    return r;
}

static void on_timer(uv_timer_t *timer)
{
    struct own_cost *c = timer->data;
    struct own_cost_sample s;
    if (measure(c, &s, NULL) == 0)
        own_cost_add(c, &s);
}

int own_cost_new(uv_loop_t *loop, const struct own_cost_limits *limits, const struct own_cost_ops *ops, void *ctx,
                 struct own_cost **ret, struct kymo_err *err)
{
    struct own_cost *c = KYMO_NEW(struct own_cost);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "own cost: out of memory");
    c->ops = ops;
    c->ctx = ctx;
    c->figures.limits = *limits;
    (void)uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    struct own_cost_sample s;
    int r = measure(c, &s, err);
    if (r < 0) {
        own_cost_free(c);
        return r;
    }
    own_cost_add(c, &s);
    (void)uv_timer_start(&c->timer, on_timer, OWN_COST_EVERY_MS, OWN_COST_EVERY_MS);
    uv_unref((uv_handle_t *)&c->timer);
    *ret = c;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    kymo_free(handle->data);
}

struct own_cost *own_cost_free(struct own_cost *c)
{
    if (c)
        uv_close((uv_handle_t *)&c->timer, on_closed);
    return NULL;
}

void own_cost_set_limits(struct own_cost *c, const struct own_cost_limits *limits)
{
    c->figures.limits = *limits;
}

enum own_cost_rung own_cost_rung(const struct own_cost *c)
{
    return c->figures.rung;
}

bool own_cost_allows(const struct own_cost *c, const char *trigger, const char **ret_why)
{
    enum own_cost_rung rung = c->figures.rung;
    bool on_demand = !strcmp(trigger, "on-demand"), periodic = !strcmp(trigger, "periodic");
    if (on_demand || rung < OWN_COST_NO_PERIODIC || (rung == OWN_COST_NO_PERIODIC && !periodic))
        return true;
    if (ret_why)
        *ret_why = c->figures.why;
    return false;
}

bool own_cost_allows_turn(const struct own_cost *c, uint64_t turn, const char **ret_why)
{
    if (!own_cost_allows(c, "periodic", ret_why))
        return false;
    if (c->figures.rung != OWN_COST_LONGER || turn % OWN_COST_STRETCH == OWN_COST_STRETCH - 1)
        return true;
    if (ret_why)
        *ret_why = c->figures.why;
    return false;
}

void own_cost_shed(struct own_cost *c, uint64_t captures)
{
    c->figures.skipped[c->figures.rung] += captures;
}

void own_cost_get(struct own_cost *c, struct own_cost_figures *ret)
{
    struct own_cost_sample s;
    *ret = c->figures;
    ret->last = measure(c, &s, NULL) == 0 ? s : c->samples[c->n - 1];
}
