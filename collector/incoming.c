#include "collector/incoming.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#define ENTRIES_MAX (1u << 20)
#define TURN_MS 5000    /* at most between two looks for what is too old */
#define AT_ONCE_MAX 256 /* that are forgotten in one call: removing takes time */

struct entry {
    char id[MANIFEST_ID_MAX + 1], source[MANIFEST_TEXT_MAX + 1];
    uint64_t bytes;
    int64_t last_ns; /* since the Unix epoch: the last offer or byte */
    unsigned holds;
};

struct incoming {
    struct raw_store *raw;
    struct catalog *catalog;
    struct incoming_config config;
    struct entry *entries;
    size_t n, cap;
    uint64_t turned_ns;
};

static int64_t now_ns(void)
{
    return (int64_t)kymo_clock_real_ns();
}

/* A clock that was set back makes nothing older. */
static uint64_t idle_ms(const struct entry *e, int64_t now)
{
    return now > e->last_ns ? (uint64_t)(now - e->last_ns) / 1000000 : 0;
}

static struct entry *find(struct incoming *in, const char *id)
{
    for (size_t i = 0; i < in->n; i++)
        if (strcmp(in->entries[i].id, id) == 0)
            return &in->entries[i];
    return NULL;
}

static struct entry *add(struct incoming *in, const char *id, const char *source, struct kymo_err *err)
{
    void *p = in->entries;
    int r = kymo_grow(&p, &in->cap, in->n + 1, ENTRIES_MAX, sizeof *in->entries);
    in->entries = p;
    if (r < 0) {
        (void)kymo_err_set(err, r, "no memory for a capture");
        return NULL;
    }
    struct entry *e = &in->entries[in->n++];
    *e = (struct entry){.bytes = INCOMING_CAPTURE_BYTES, .last_ns = now_ns()};
    (void)snprintf(e->id, sizeof e->id, "%s", id);
    (void)snprintf(e->source, sizeof e->source, "%s", source);
    return e;
}

static void drop(struct incoming *in, struct entry *e)
{
    *e = in->entries[--in->n];
}

/* What is on the disk. false: there is nothing, and the catalogue knows nothing of it. */
static bool look(struct incoming *in, struct entry *e, int64_t *ret_last_ns)
{
    struct raw_usage u = {0};
    int64_t noted_ns = 0;
    int found = raw_store_incoming_usage(in->raw, e->id, &u, NULL);
    int known = catalog_receiving_source(in->catalog, e->id, e->source, &noted_ns, NULL);
    e->bytes = INCOMING_CAPTURE_BYTES + u.bytes;
    *ret_last_ns = u.changed_ns > noted_ns ? u.changed_ns : noted_ns;
    return found != -ENOENT || known != 0;
}

struct scan {
    struct incoming *in;
    struct kymo_err *err;
};

static int add_found(void *ctx, const char *id)
{
    const struct scan *s = ctx;
    int64_t last = 0;
    struct entry *e = add(s->in, id, "", s->err);
    if (!e)
        return -ENOMEM;
    (void)look(s->in, e, &last);
    if (last && last < e->last_ns)
        e->last_ns = last;
    return 0;
}

int incoming_new(struct raw_store *raw, struct catalog *catalog, struct incoming **ret, struct kymo_err *err)
{
    struct incoming *in = KYMO_NEW(struct incoming);
    if (!in)
        return kymo_err_set(err, -ENOMEM, "no memory for the store");
    in->raw = raw;
    in->catalog = catalog;
    in->config.limits.still_ms = INCOMING_STILL_MS;
    struct scan s = {in, err};
    int r = raw_store_list_incoming(raw, add_found, &s, err);
    if (r < 0)
        incoming_free(in);
    else
        *ret = in;
    return r;
}

struct incoming *incoming_free(struct incoming *in)
{
    if (in)
        kymo_free(in->entries);
    kymo_free(in);
    return NULL;
}

void incoming_configure(struct incoming *in, const struct incoming_config *config)
{
    in->config = *config;
    if (!in->config.limits.still_ms)
        in->config.limits.still_ms = INCOMING_STILL_MS;
}

/* The raw store first: a catalogue that still knows it is brought in order by the next turn, or at the next start. What
 * cannot be removed stays and is tried again. */
static int forget(struct incoming *in, struct entry *e, enum incoming_cause cause, struct kymo_err *err)
{
    int r = raw_store_discard(in->raw, e->id, err);
    if (r == 0)
        r = catalog_forget(in->catalog, e->id, err);
    if (r < 0)
        return r;
    const struct entry gone = *e;
    drop(in, e);
    const struct incoming_forgotten f = {gone.id, gone.source, gone.bytes, idle_ms(&gone, now_ns()), cause};
    if (in->config.forgot)
        in->config.forgot(in->config.ctx, &f);
    return 0;
}

/* Of a source, or all with NULL. */
static uint64_t sum(const struct incoming *in, const char *source)
{
    uint64_t n = 0;
    for (size_t i = 0; i < in->n; i++)
        if (!source || strcmp(in->entries[i].source, source) == 0)
            n += in->entries[i].bytes;
    return n;
}

static bool may_go(const struct entry *e, const char *source, uint64_t ms, int64_t now)
{
    return e->holds == 0 && idle_ms(e, now) >= ms && (!source || strcmp(e->source, source) == 0);
}

/* Of those that have been idle for so long. */
static struct entry *oldest(struct incoming *in, const char *source, uint64_t ms, int64_t now)
{
    struct entry *found = NULL;
    for (size_t i = 0; i < in->n; i++) {
        struct entry *e = &in->entries[i];
        if (may_go(e, source, ms, now) && (!found || e->last_ns < found->last_ns))
            found = e;
    }
    return found;
}

/* Frees so many bytes, oldest first; nothing when there are not so many. */
static int free_room(struct incoming *in, const char *source, uint64_t wanted)
{
    int64_t now = now_ns();
    uint64_t have = 0, freed = 0, ms = in->config.limits.still_ms;
    for (size_t i = 0; i < in->n; i++)
        if (may_go(&in->entries[i], source, ms, now))
            have += in->entries[i].bytes;
    if (have < wanted)
        return -ENOSPC;
    for (unsigned n = 0; freed < wanted && n < AT_ONCE_MAX; n++) {
        struct entry *e = oldest(in, source, ms, now);
        uint64_t bytes = e ? e->bytes : 0;
        if (!e || forget(in, e, INCOMING_ROOM, NULL) < 0)
            return -ENOSPC;
        freed += bytes;
    }
    return freed < wanted ? -ENOSPC : 0;
}

int incoming_hold(struct incoming *in, const char *id, const char *source, struct kymo_err *err)
{
    struct entry *e = find(in, id);
    if (!e && in->n >= INCOMING_CAPTURES_MAX && free_room(in, NULL, 1) < 0)
        return kymo_err_set(err, -ENOSPC, "capture %s: %zu captures are being received; it must come later", id, in->n);
    if (!e)
        e = add(in, id, source, err);
    if (!e)
        return -ENOMEM;
    e->holds++;
    e->last_ns = now_ns();
    (void)snprintf(e->source, sizeof e->source, "%s", source);
    return 0;
}

/* Of max bytes, e takes bytes, and others what they have. */
static int fit(struct incoming *in, const struct entry *e, const char *source, uint64_t bytes, uint64_t max)
{
    uint64_t others = sum(in, source) - e->bytes;
    if (!max || (others <= max && bytes <= max - others))
        return 0;
    return bytes > max ? -EFBIG : free_room(in, source, others - (max - bytes));
}

static int say_no(const struct entry *e, int code, int r, const char *key, uint64_t bytes, uint64_t max,
                  struct kymo_err *err)
{
    return kymo_err_set(err, code, "capture %s: %llu bytes %s %s = %llu%s", e->id, (unsigned long long)bytes,
                        r == -EFBIG ? "are more than" : "do not fit besides others into", key, (unsigned long long)max,
                        r == -EFBIG ? "" : "; it must come later");
}

int incoming_admit(struct incoming *in, const char *id, uint64_t bytes, struct kymo_err *err)
{
    const struct incoming_limits *l = &in->config.limits;
    const struct entry *e = find(in, id);
    if (!e)
        return kymo_err_set(err, -EINVAL, "capture %s was not offered", id);
    /* Forgetting moves entries about. */
    const struct entry self = *e;
    bytes += INCOMING_CAPTURE_BYTES;
    int r = fit(in, &self, self.source, bytes, l->max_host_bytes);
    if (r < 0)
        return say_no(&self, -EBUSY, r, "incoming-max-per-host", bytes, l->max_host_bytes, err);
    r = fit(in, &self, NULL, bytes, l->max_bytes);
    if (r < 0)
        return say_no(&self, -ENOSPC, r, "incoming-max", bytes, l->max_bytes, err);
    find(in, id)->bytes = bytes;
    return 0;
}

void incoming_release(struct incoming *in, const char *id)
{
    struct entry *e = find(in, id);
    int64_t last;
    if (!e || e->holds == 0 || --e->holds > 0)
        return;
    e->last_ns = now_ns();
    if (!look(in, e, &last))
        drop(in, e);
}

int incoming_turn(struct incoming *in, struct kymo_err *err)
{
    uint64_t mono = kymo_clock_mono_ns(), age = in->config.limits.max_age_ms;
    int64_t now = now_ns();
    if (!age || mono - in->turned_ns < (age / 4 < TURN_MS ? age / 4 : TURN_MS) * 1000000)
        return 0;
    in->turned_ns = mono;
    /* One that cannot be removed ends it for now. */
    for (unsigned n = 0; n < AT_ONCE_MAX; n++) {
        struct entry *e = oldest(in, NULL, age, now);
        int r = e ? forget(in, e, INCOMING_AGE, err) : 0;
        if (!e || r < 0)
            return r;
    }
    return 0;
}

void incoming_figures(const struct incoming *in, struct incoming_figures *ret)
{
    ret->captures = in->n;
    ret->bytes = sum(in, NULL);
}
