/* The store's thread's side of intake.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "collector/intake_impl.h"

static const Kymo__Manifest__Capture *manifest_of(const struct intake *i)
{
    return i->raw ? raw_capture_manifest(i->raw) : i->parsed;
}

static bool is_neff(const Kymo__Manifest__File *f)
{
    return f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NEFF;
}

/* A file of a manifest by what an offer's item calls it: a NEFF by its hash, others by name. */
struct key {
    bool neff;
    const char *name;
    const uint8_t *sha256;
    uint32_t file;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->neff != y->neff)
        return x->neff ? 1 : -1;
    return x->neff ? memcmp(x->sha256, y->sha256, UPLINK_SHA256_SIZE) : strcmp(x->name, y->name);
}

static struct key *sorted_files(const Kymo__Manifest__Capture *m)
{
    struct key *keys = KYMO_NEW_ARRAY(struct key, m->n_files + 1);
    for (uint32_t k = 0; keys && k < m->n_files; k++)
        keys[k] = (struct key){is_neff(m->files[k]), m->files[k]->name, m->files[k]->sha256.data, k};
    if (keys)
        qsort(keys, m->n_files, sizeof *keys, compare_keys);
    return keys;
}

static int match_items(struct intake *i, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    struct key *keys KYMO_FREE = sorted_files(m);
    if (!keys)
        return kymo_err_set(err, -ENOMEM, "no memory for a capture");
    for (size_t k = 0; k < i->n_items; k++) {
        struct intake_item *item = &i->items[k];
        const struct key wanted = {item->neff, item->name, item->sha256, 0};
        const struct key *found = bsearch(&wanted, keys, m->n_files, sizeof *keys, compare_keys);
        if (!found)
            return kymo_err_set(err, -EINVAL, "capture %s: its manifest has no file for item %zu", i->id, k);
        const Kymo__Manifest__File *f = m->files[found->file];
        if (f->size != item->size || memcmp(f->sha256.data, item->sha256, UPLINK_SHA256_SIZE) != 0)
            return kymo_err_set(err, -EINVAL, "capture %s: item %zu differs from its manifest", i->id, k);
        item->file = found->file;
    }
    return 0;
}

static int parse(struct intake *i, struct kymo_err *err)
{
    int r = manifest_parse(i->manifest, i->manifest_n, &i->parsed, err);
    if (r == -EPROTO)
        return kymo_err_set(err, -EINVAL, "capture %s: %s", i->id, err->text);
    if (r < 0)
        return r;
    if (strcmp(i->parsed->capture_id, i->id) != 0)
        return kymo_err_set(err, -EINVAL, "capture %s: its manifest is of capture %s", i->id, i->parsed->capture_id);
    return match_items(i, i->parsed, err);
}

/* Of what an offer leaves out only NEFFs may be here, now or when all has come. */
static int check_all_files(const struct intake *i, struct kymo_err *err)
{
    const Kymo__Manifest__Capture *m = raw_capture_manifest(i->raw);
    bool *offered KYMO_FREE = KYMO_NEW_ARRAY(bool, m->n_files + 1);
    if (!offered)
        return kymo_err_set(err, -ENOMEM, "no memory for a capture");
    for (size_t k = 0; k < i->n_items; k++)
        offered[i->items[k].file] = true;
    for (size_t f = 0; f < m->n_files; f++)
        if (!offered[f] && !is_neff(m->files[f]) && !raw_capture_has_file(i->raw, f))
            return kymo_err_set(err, -EINVAL, "capture %s: %s is not offered", i->id, m->files[f]->name);
    return 0;
}

static const struct intake *claimed_by(const struct intakes *all, const uint8_t *sha256)
{
    for (size_t k = 0; k < all->n_claims; k++)
        if (memcmp(all->claims[k].sha256, sha256, UPLINK_SHA256_SIZE) == 0)
            return all->claims[k].by;
    return NULL;
}

/* sha256 NULL: all of this capture. */
static void unclaim(struct intakes *all, const struct intake *by, const uint8_t *sha256)
{
    for (size_t k = all->n_claims; k-- > 0;) {
        if (all->claims[k].by != by || (sha256 && memcmp(all->claims[k].sha256, sha256, UPLINK_SHA256_SIZE) != 0))
            continue;
        all->claims[k] = all->claims[--all->n_claims];
        all->claims_changed = true;
    }
}

static void claim_neffs(struct intake *i)
{
    struct intakes *all = i->all;
    size_t looked_at = 0;
    for (size_t k = 0; k < i->n_items && looked_at < INTAKE_NEFFS_LOOKED_AT; k++) {
        const struct intake_item *item = &i->items[k];
        if (!item->neff)
            continue;
        looked_at++;
        if (raw_capture_has_file(i->raw, item->file) || all->n_claims == INTAKE_CLAIMS_MAX ||
            claimed_by(all, item->sha256))
            continue;
        struct intake_claim *claim = &all->claims[all->n_claims++];
        memcpy(claim->sha256, item->sha256, sizeof claim->sha256);
        claim->by = i;
    }
    i->progress_ns = kymo_clock_mono_ns();
}

static bool must_wait(const struct intake *i)
{
    const struct intakes *all = i->all;
    uint64_t now = kymo_clock_mono_ns();
    size_t looked_at = 0;
    if (now - i->waits_since_ns >= all->config.neff_wait_ms * 1000000)
        return false;
    for (size_t k = 0; k < i->n_items && looked_at < INTAKE_NEFFS_LOOKED_AT; k++) {
        if (!i->items[k].neff)
            continue;
        looked_at++;
        const struct intake *by = claimed_by(all, i->items[k].sha256);
        if (by && now - by->progress_ns < all->config.neff_still_ms * 1000000)
            return true;
    }
    return false;
}

static void on_forgot(void *ctx, const struct incoming_forgotten *f)
{
    struct intakes *all = ctx;
    char text[512];
    (void)snprintf(text, sizeof text, "capture %s of %s is forgotten, %llu bytes: %s for %llu s", f->id,
                   *f->source ? f->source : "an unknown host", (unsigned long long)f->bytes,
                   f->cause == INCOMING_AGE ? "its host has not gone on with it"
                                            : "others need its room, its host was not here",
                   (unsigned long long)f->idle_ms / 1000);
    atomic_fetch_add(&all->forgotten[f->cause], 1);
    if (all->config.say)
        all->config.say(all->config.ctx, KYMO_LOG_WARNING, text);
}

static struct incoming *incoming_of(struct intakes *all, struct store_thread *t)
{
    struct incoming *in = store_thread_store(t)->incoming;
    const struct incoming_config config = {.limits = all->config.limits, .forgot = on_forgot, .ctx = all};
    if (!all->limited)
        incoming_configure(in, &config);
    all->limited = true;
    return in;
}

void intakes_limit(struct intakes *all, const struct incoming_limits *limits, struct store_thread *t)
{
    all->config.limits = *limits;
    all->limited = false;
    (void)incoming_of(all, t);
}

static void release(struct intake *i, struct store_thread *t)
{
    if (i->held)
        incoming_release(incoming_of(i->all, t), i->id);
    i->held = false;
}

static void turn_incoming(struct intakes *all, struct store_thread *t)
{
    struct kymo_err err = {0};
    struct incoming_figures f;
    struct incoming *in = incoming_of(all, t);
    int r = incoming_turn(in, &err);
    if (r < 0 && !all->in_trouble && all->config.say)
        all->config.say(all->config.ctx, KYMO_LOG_WARNING, err.text);
    all->in_trouble = r < 0;
    incoming_figures(in, &f);
    atomic_store(&all->captures, f.captures);
    atomic_store(&all->on_disk, f.bytes);
}

static void fail(struct intake_job *j, int code, const char *text)
{
    j->code = code;
    j->text = kymo_strdup(text);
}

/* Why a capture does not go on is shown where people look for it. Nothing more can be done when that has no room. */
static void note_reason(struct intake *i, struct store *s, const char *reason)
{
    const Kymo__Manifest__Capture *m = manifest_of(i);
    if (m && catalog_receiving(s->catalog, m, i->source, reason, NULL) < 0)
        return;
}

static bool is_of_this_host(int code)
{
    return code != -EINVAL && code != -EEXIST && code != -EBADMSG && code != -EBUSY;
}

/* Published before, but the catalogue may have had no room to say so. */
static int adopt(struct intake *i, struct store *s, struct store_thread *t, struct kymo_err *err)
{
    int known = catalog_has_capture(s->catalog, i->id, err);
    if (known != 0)
        return known < 0 ? known : 0;
    int r = catalog_received(s->catalog, i->parsed, err);
    if (r == 0)
        r = catalog_queue_received(s->catalog, i->id, err);
    store_thread_wake_work(t);
    return r;
}

static int begin(struct intake *i, struct intake_job *j, struct store_thread *t, struct kymo_err *err)
{
    struct store *s = store_thread_store(t);
    uint64_t need = raw_store_need(s->raw, i->parsed);
    int admitted = need ? incoming_admit(s->incoming, i->id, need, err) : 0;
    if (admitted < 0)
        return admitted;
    int begun = raw_store_begin(s->raw, i->manifest, i->manifest_n, &i->raw, err);
    if (begun < 0)
        return begun;
    j->code = begun;
    if (begun == RAW_STORED)
        return adopt(i, s, t, err);
    int r = check_all_files(i, err);
    if (r == 0)
        r = catalog_receiving(s->catalog, raw_capture_manifest(i->raw), i->source, NULL, err);
    if (r < 0)
        return r;
    for (size_t k = 0; k < i->n_items; k++)
        j->offsets[k] = raw_capture_offset(i->raw, i->items[k].file);
    claim_neffs(i);
    return 0;
}

static void run_begin(struct intake_job *j, struct store_thread *t)
{
    struct intake *i = j->intake;
    struct kymo_err err = {0};
    int r = begin(i, j, t, &err);
    if (r < 0) {
        if (is_of_this_host(r))
            note_reason(i, store_thread_store(t), err.text);
        i->raw = raw_capture_free(i->raw);
        i->code = r;
        release(i, t);
        fail(j, r, err.text);
    }
    manifest_freep(&i->parsed);
    i->parsed = NULL;
    kymo_free(KYMO_TAKE(i->manifest));
}

/* false: it waits for a NEFF. */
static bool run_offer(struct intake_job *j, struct store_thread *t)
{
    struct intake *i = j->intake;
    struct kymo_err err = {0};
    if (store_thread_is_stopping(t)) {
        fail(j, -EBUSY, "the collector is being stopped");
        return true;
    }
    int r = parse(i, &err);
    if (r == 0)
        r = incoming_hold(incoming_of(i->all, t), i->id, i->source, &err);
    i->held = r == 0;
    if (r < 0) {
        i->code = r;
        fail(j, r, err.text);
        return true;
    }
    i->waits_since_ns = kymo_clock_mono_ns();
    if (!must_wait(i)) {
        run_begin(j, t);
        return true;
    }
    struct intake **last = &i->all->waiting;
    while (*last)
        last = &(*last)->next_waiting;
    *last = i;
    i->offer = j;
    return false;
}

static void stop_waiting(struct intake *i, struct store_thread *t)
{
    struct intake **at = &i->all->waiting;
    while (*at != i)
        at = &(*at)->next_waiting;
    *at = i->next_waiting;
    store_thread_give_back(t, &KYMO_TAKE(i->offer)->job);
}

void intakes_tick(struct intakes *all, struct store_thread *t)
{
    uint64_t now = kymo_clock_mono_ns();
    bool stopping = store_thread_is_stopping(t);
    if (!stopping)
        turn_incoming(all, t);
    if (!all->waiting || (!all->claims_changed && !stopping && now - all->looked_ns < 250000000))
        return;
    all->claims_changed = false;
    all->looked_ns = now;
    for (struct intake *i = all->waiting, *next; i; i = next) {
        next = i->next_waiting;
        if (!stopping && must_wait(i))
            continue;
        if (stopping)
            fail(i->offer, -EBUSY, "the collector is being stopped");
        else
            run_begin(i->offer, t);
        stop_waiting(i, t);
    }
}

static int finish_file(struct intake *i, uint32_t file, struct kymo_err *err)
{
    int r = raw_capture_finish_file(i->raw, file, err);
    const Kymo__Manifest__File *f = raw_capture_manifest(i->raw)->files[file];
    /* Whether it is here now or will not be: nobody needs to wait for this capture any more. */
    if (is_neff(f))
        unclaim(i->all, i, f->sha256.data);
    return r;
}

/* Bytes become durable now and then, and when the file is complete. */
static int make_durable(struct intake *i, struct intake_job *j, struct kymo_err *err)
{
    struct intake_item *item = &i->items[j->item];
    uint64_t have = raw_capture_offset(i->raw, item->file);
    item->unsynced += j->n;
    if (have < item->size && item->unsynced < i->all->config.sync_bytes)
        return 0;
    int r = have == item->size ? finish_file(i, item->file, err) : raw_capture_sync(i->raw, item->file, err);
    if (r == 0) {
        item->unsynced = 0;
        j->durable = have;
    }
    return r;
}

static void end_failed(struct intake_job *j, struct store_thread *t, int code, const char *text)
{
    struct intake *i = j->intake;
    i->code = code;
    unclaim(i->all, i, NULL);
    if (is_of_this_host(code))
        note_reason(i, store_thread_store(t), text);
    fail(j, code, text);
}

static void run_write(struct intake_job *j, struct store_thread *t)
{
    struct intake *i = j->intake;
    struct kymo_err err = {0};
    if (!i->raw || i->code < 0 || store_thread_is_stopping(t))
        return;
    i->progress_ns = kymo_clock_mono_ns();
    int r = raw_capture_write(i->raw, i->items[j->item].file, j->offset, j->data, j->n, &err);
    if (r == 0)
        r = make_durable(i, j, &err);
    if (r < 0)
        end_failed(j, t, r, err.text);
}

static int finish_all(struct intake *i, struct kymo_err *err)
{
    size_t n = raw_capture_manifest(i->raw)->n_files;
    int r = 0;
    for (uint32_t f = 0; r == 0 && f < n; f++)
        if (!raw_capture_has_file(i->raw, f))
            r = finish_file(i, f, err);
    return r;
}

static void run_done(struct intake_job *j, struct store_thread *t)
{
    struct intake *i = j->intake;
    struct kymo_err err = {0};
    if (!i->raw || i->code < 0)
        return;
    if (store_thread_is_stopping(t)) {
        fail(j, -EBUSY, "the collector is being stopped");
        return;
    }
    int r = finish_all(i, &err);
    if (r == 0)
        r = store_commit(store_thread_store(t), i->raw, &err);
    if (r < 0) {
        /* Bytes are missing that were not offered. */
        end_failed(j, t, r == -EAGAIN ? -EINVAL : r, err.text);
        return;
    }
    i->raw = raw_capture_free(i->raw);
    unclaim(i->all, i, NULL);
    release(i, t);
    store_thread_wake_work(t);
}

static void run_end(struct intake_job *j, struct store_thread *t)
{
    struct intake *i = j->intake;
    unclaim(i->all, i, NULL);
    if (i->offer) {
        fail(i->offer, -ECANCELED, "the sender is gone");
        stop_waiting(i, t);
    }
    i->raw = raw_capture_free(i->raw);
    release(i, t);
}

bool intake_run(struct store_job *job, struct store_thread *t)
{
    struct intake_job *j = (struct intake_job *)job;
    switch (j->kind) {
    case INTAKE_OFFER:
        return run_offer(j, t);
    case INTAKE_WRITE:
        run_write(j, t);
        break;
    case INTAKE_DONE:
        run_done(j, t);
        break;
    case INTAKE_END:
        run_end(j, t);
        break;
    }
    return true;
}
