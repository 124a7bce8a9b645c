/*
 * From the intake to the spool: a worker moves a capture out of the job's reach and lists it, its NEFFs get their
 * hashes, and the outbox takes it over. What is found without a word, after a restart or at the end of a process, goes
 * the same way.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/captures_internal.h"
#include "daemon/manifest.h"

#define NEFFS_OF_FILE_MAX SPOOL_NEFFS_MAX

/* The manifest's part that is known without the files. */
static void describe(const struct captures *c, const struct capture *p, struct manifest *b)
{
    const struct kymo_hook_captured *w = &p->word;
    union {
        const char *in;
        char *out;
    } trigger = {p->trigger}, request = {p->request},
      mode = {p->mode != KYMO_HOOK_MODE_NONE ? hook_packet_mode(p->mode) : ""};
    manifest_begin(b, p->rank, c->host, p->id);
    b->m.trigger = trigger.out;
    b->m.mode = mode.out;
    b->m.request = *p->request ? request.out : NULL;
    manifest_clock(b, KYMO__MANIFEST__HOST_CLOCK__MOMENT__BEGIN, &p->begin);
    manifest_clock(b, KYMO__MANIFEST__HOST_CLOCK__MOMENT__END, &p->end);
    if (!p->has_word)
        return;
    b->m.has_first_execution = b->m.has_execution_count = b->m.has_start_unix_ns = b->m.has_end_unix_ns = 1;
    b->m.first_execution = w->first_execution;
    b->m.execution_count = w->executions;
    b->m.start_unix_ns = w->start_unix_ns;
    b->m.end_unix_ns = w->end_unix_ns;
    manifest_number(b, "model", w->model);
    manifest_number(b, "status", w->status);
    manifest_number(b, "stall_ns", w->stall_ns);
    manifest_number(b, "stall_max_ns", w->stall_max_ns);
    if (w->flags & KYMO_HOOK_CAPTURE_FALLBACK)
        manifest_label(b, "asked_mode", "%s", hook_packet_mode(w->asked));
    if (w->flags & KYMO_HOOK_CAPTURE_CUT)
        manifest_label(b, "cut", "true");
}

/* Listing */

struct take_task {
    struct rank_task task;
    struct captures *c;
    char hook_id[KYMO_HOOK_ID_MAX];
    uint8_t *known;
    size_t n;
    uint64_t bytes_max;
    struct intake_capture *files;
    int code;
    struct kymo_err err;
};

static void take_work(struct rank_task *task)
{
    struct take_task *t = (struct take_task *)task;
    const struct rank *r = task->rank;
    const struct intake_taking what = {
        .id = t->hook_id, .uid = r->uid, .known = t->known, .known_n = t->n, .bytes_max = t->bytes_max};
    t->code = intake_take(t->c->intake, r->key, &what, &t->files, &t->err);
}

static void add_neffs(struct captures *c, struct capture *p);

static void not_taken(struct captures *c, struct capture *p, const struct take_task *t)
{
    if (t->code == -ENOENT && p->is_found) {
        captures_remove(c, p); /* a late word: a former kymod has it */
        return;
    }
    p->lost = t->code == -ENOENT ? SPOOL_MISSING : SPOOL_UNREADABLE;
    say_limited(&c->say, KYMO_LOG_WARNING, "capture %s: %s", p->id, t->err.text);
    p->is_listed = true;
    captures_give_waiting(c);
}

static void refuse_large(struct captures *c, struct capture *p)
{
    const struct intake_capture *f = p->files;
    if (f->nentries > INTAKE_ENTRIES_MAX)
        say_limited(&c->say, KYMO_LOG_WARNING, "capture %s: more than %d files", p->id, INTAKE_ENTRIES_MAX);
    else
        say_limited(&c->say, KYMO_LOG_WARNING, "capture %s: %llu bytes, spool-capture-bytes is %llu", p->id,
                    (unsigned long long)f->bytes, (unsigned long long)c->config->spool_capture_bytes);
    p->lost = SPOOL_TOO_LARGE;
    p->is_listed = true;
    captures_give_waiting(c);
}

static void take_done(struct rank_task *task, bool ran)
{
    struct take_task *t = (struct take_task *)task;
    struct captures *c = t->c;
    struct capture *p = captures_find(c, task->rank, t->hook_id);
    if (ran && p && !c->stopping && !p->is_listed) {
        if (t->code < 0) {
            not_taken(c, p, t);
        } else {
            p->files = t->files;
            t->files = NULL;
            if (p->files->is_too_large)
                refuse_large(c, p);
            else
                add_neffs(c, p);
        }
    }
    captures_kick(c);
    (void)intake_capture_free(t->files);
    kymo_free(t->known);
    kymo_free(t);
}

static int pack_known(const struct captures *c, const struct capture *p, struct take_task *t)
{
    struct manifest *b KYMO_FREE = KYMO_NEW(struct manifest);
    if (!b)
        return -ENOMEM;
    describe(c, p, b);
    b->m.has_version = 1;
    b->m.version = 1;
    t->known = kymo_malloc(kymo__manifest__capture__get_packed_size(&b->m) + 1);
    if (!t->known)
        return -ENOMEM;
    t->n = kymo__manifest__capture__pack(&b->m, t->known);
    return 0;
}

void captures_take(struct captures *c, struct capture *p)
{
    struct take_task *t = KYMO_NEW(struct take_task);
    if (!t || (p->has_word && pack_known(c, p, t) < 0)) {
        kymo_free(t);
        captures_fail(c, p, CAPTURES_NOT_SPOOLED, "no memory to take it over; the next start of kymod will");
        return;
    }
    t->c = c;
    t->bytes_max = c->config->spool_capture_bytes;
    memcpy(t->hook_id, p->hook_id, sizeof t->hook_id);
    t->task.work = take_work;
    t->task.done = take_done;
    rank_queue(p->rank, &t->task);
}

/* NEFFs */

static bool is_loaded_neff(const struct rank *r, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    for (size_t i = 0; i < r->nmodels; i++)
        if (r->models[i].has_neff && !memcmp(r->models[i].sha256, sha256, KYMO_SHA256_SIZE))
            return true;
    return false;
}

static void add_neff(struct captures *c, struct capture *p, size_t i)
{
    const struct intake_file *f = &p->files->files[i];
    struct kymo_err err = {0};
    int fd = kymo_file_open_regular(f->path, &(uint64_t){0}, &err);
    if (fd >= 0 && outbox_add_neff(c->outbox, fd, f->path, &p->neff_tickets[i], &err) == 0) {
        p->neffs_waiting++;
        return;
    }
    p->neff_tickets[i] = 0;
    say_limited(&c->say, KYMO_LOG_WARNING, "capture %s: NEFF %s is not kept: %s", p->id, f->name, err.text);
}

/* Copies of what the hook passed on when it was loaded are there already. */
static void add_neffs(struct captures *c, struct capture *p)
{
    for (size_t i = 0; i < p->files->nfiles; i++)
        if (p->files->files[i].type == KYMO__MANIFEST__FILE__KIND__NEFF &&
            !is_loaded_neff(p->rank, p->files->files[i].sha256))
            add_neff(c, p, i);
    p->is_listed = true;
    captures_give_waiting(c);
}

void captures_on_neff(void *ctx, uint64_t ticket, int code, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t size,
                      const struct kymo_err *err)
{
    struct captures *c = ctx;
    (void)size;
    if (c->stopping || jobs_neff(c->jobs, ticket, code, sha256, err)) {
        captures_give_waiting(c); /* captures of that rank wait for it */
        return;
    }
    bool claimed = false;
    for (struct capture *p = c->first; p; p = p->next)
        for (size_t i = 0; p->files && i < p->files->nfiles; i++) {
            if (p->neff_tickets[i] != ticket)
                continue;
            claimed = true;
            p->neffs_waiting--;
            if (code == 0)
                continue; /* dropped again when the capture is in the spool, which refers to it then */
            p->neff_tickets[i] = 0;
            say_limited(&c->say, KYMO_LOG_WARNING, "capture %s: a NEFF is not kept: %s", p->id, err ? err->text : "");
        }
    if (!claimed && code == 0)
        outbox_drop_neff(c->outbox, sha256); /* whoever wanted it has gone meanwhile */
    captures_give_waiting(c);
}

static void drop_neffs(struct captures *c, const struct capture *p)
{
    for (size_t i = 0; p->files && i < p->files->nfiles && c->outbox; i++)
        if (p->neff_tickets[i])
            outbox_drop_neff(c->outbox, p->files->files[i].sha256);
}

/* The NEFFs of one NTFF. */
struct neffs {
    size_t n;
    uint8_t sha256[NEFFS_OF_FILE_MAX][KYMO_SHA256_SIZE];
};

static void add_hash(struct neffs *all, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    for (size_t i = 0; i < all->n; i++)
        if (!memcmp(all->sha256[i], sha256, KYMO_SHA256_SIZE))
            return;
    if (all->n < NEFFS_OF_FILE_MAX)
        memcpy(all->sha256[all->n++], sha256, KYMO_SHA256_SIZE);
}

/* Copies beside it, by the names that the runtime gives. */
static void find_copies(const struct intake_capture *files, const struct intake_file *ntff, struct neffs *ret)
{
    for (size_t i = 0; i < files->nfiles; i++) {
        const struct intake_file *f = &files->files[i];
        if (f->type == KYMO__MANIFEST__FILE__KIND__NEFF && (!f->has_vnc || !ntff->has_vnc || f->vnc == ntff->vnc) &&
            (!ntff->pair || f->pair == ntff->pair))
            add_hash(ret, f->sha256);
    }
}

/* As the hook saw them loaded: the captured model; else those of the core; else all. */
static void find_loaded(const struct capture *p, const struct intake_file *ntff, struct neffs *ret)
{
    const struct rank *r = p->rank;
    const struct rank_model *m = p->has_word ? rank_find_model(r, p->word.model) : NULL;
    if (m && m->has_neff && p->word.mode == KYMO_HOOK_MODE_MODEL) {
        add_hash(ret, m->sha256);
        return;
    }
    for (int by_core = 1; by_core >= 0 && ret->n == 0; by_core--)
        for (size_t i = 0; i < r->nmodels; i++) {
            bool is_there = ntff->has_vnc && r->models[i].vnc >= 0 && (uint32_t)r->models[i].vnc == ntff->vnc;
            if (r->models[i].has_neff && (!by_core || is_there))
                add_hash(ret, r->models[i].sha256);
        }
}

/* Giving */

static uint32_t vnc_of(const struct capture *p, const struct intake_file *f)
{
    const struct rank_model *m = p->has_word ? rank_find_model(p->rank, p->word.model) : NULL;
    if (f->has_vnc)
        return f->vnc;
    if (p->rank->ncores > 0)
        return p->rank->cores[0];
    return m && m->vnc >= 0 ? (uint32_t)m->vnc : 0;
}

struct gift {
    struct manifest b;
    struct outbox_file files[INTAKE_FILES_MAX];
    struct neffs neffs[INTAKE_FILES_MAX];
    uint32_t vncs[INTAKE_FILES_MAX];
    size_t n;
};

static void add_vnc(struct gift *g, uint32_t vnc)
{
    for (size_t i = 0; i < g->b.m.n_vncs; i++)
        if (g->vncs[i] == vnc)
            return;
    g->vncs[g->b.m.n_vncs++] = vnc;
}

static void add_file(struct gift *g, const struct capture *p, const struct intake_file *f)
{
    struct outbox_file *to = &g->files[g->n];
    struct neffs *neffs = &g->neffs[g->n];
    if (f->type == KYMO__MANIFEST__FILE__KIND__NEFF)
        return; /* the spool keeps one of each */
    *to = (struct outbox_file){.path = f->path, .name = f->name, .type = f->type};
    g->n++;
    if (f->type != KYMO__MANIFEST__FILE__KIND__NTFF)
        return;
    to->vnc = vnc_of(p, f);
    find_copies(p->files, f, neffs);
    if (neffs->n == 0)
        find_loaded(p, f, neffs);
    to->nneffs = neffs->n;
    to->neffs = (const uint8_t(*)[KYMO_SHA256_SIZE])neffs->sha256;
    add_vnc(g, to->vnc);
}

/* What a former kymod had been told of the capture; this one was not. */
static void use_known(struct gift *g, const struct capture *p)
{
    const Kymo__Manifest__Capture *k = p->files->known;
    if (!k || p->has_word)
        return;
    Kymo__Manifest__Capture m = *k;
    m.capture_id = g->b.m.capture_id;
    m.n_vncs = g->b.m.n_vncs;
    m.vncs = g->b.m.vncs;
    m.n_files = 0;
    g->b.m = m;
}

static void fill_gift(const struct captures *c, const struct capture *p, struct gift *g)
{
    describe(c, p, &g->b);
    if (!p->has_word && p->files->nfiles > 0) {
        g->b.m.has_start_unix_ns = g->b.m.has_end_unix_ns = 1;
        g->b.m.start_unix_ns = p->files->start_unix_ns;
        g->b.m.end_unix_ns = p->files->end_unix_ns;
    }
    if (p->files->nleft_out > 0)
        manifest_number(&g->b, "files_left_out", p->files->nleft_out);
    g->b.m.vncs = g->vncs;
    for (size_t i = 0; i < p->files->nfiles; i++)
        add_file(g, p, &p->files->files[i]);
    use_known(g, p);
}

/* 0, or why the outbox does not take the order. */
static int give(struct captures *c, struct capture *p, struct kymo_err *err)
{
    const char *directory = p->files ? p->files->directory : NULL;
    if (!p->lost && (!p->files || p->files->nfiles == 0))
        p->lost = SPOOL_MISSING;
    if (p->lost)
        return outbox_lost(c->outbox, p->id, p->lost, directory, &p->ticket, err);
    struct gift *g KYMO_FREE = KYMO_NEW(struct gift);
    if (!g)
        return -EAGAIN;
    fill_gift(c, p, g);
    return outbox_take(c->outbox, &g->b.m, g->files, g->n, SPOOL_RENAME, directory, &p->ticket, err);
}

/* The hashes of what its rank has loaded may still be on their way. */
static bool waits_for_neffs(const struct capture *p)
{
    if (p->neffs_waiting > 0)
        return true;
    for (size_t i = 0; i < p->rank->nmodels; i++)
        if (p->rank->models[i].ticket)
            return true;
    return false;
}

void captures_give_waiting(struct captures *c)
{
    for (struct capture *p = c->first, *next; p && c->outbox && !c->stopping; p = next) {
        struct kymo_err err = {0};
        next = p->next;
        if (!p->is_listed || p->is_given || !p->rank || waits_for_neffs(p))
            continue;
        int r = give(c, p, &err);
        if (r == -EAGAIN)
            return;
        p->is_given = r == 0;
        if (r < 0) {
            drop_neffs(c, p);
            captures_fail(c, p, CAPTURES_NOT_SPOOLED, "%s", err.text);
            return; /* the list has changed; the tick goes on */
        }
    }
}

static uint64_t bytes_of(const struct capture *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; p->files && i < p->files->nfiles; i++)
        sum += p->files->files[i].size;
    return sum;
}

void captures_on_taken(void *ctx, uint64_t ticket, int code, uint32_t cause, const struct kymo_err *err)
{
    struct captures *c = ctx;
    struct capture *p = c->first;
    while (p && (!p->is_given || !p->rank || p->ticket != ticket))
        p = p->next;
    if (!p || c->stopping)
        return;
    drop_neffs(c, p);
    if (code < 0) {
        if (p->lost_why[0] && cause == SPOOL_FULL)
            captures_fail(c, p, CAPTURES_LOST, "lost (full): %s: %s", hook_packet_reason(KYMO_HOOK_REASON_ROOM),
                          p->lost_why);
        else
            captures_fail(c, p, CAPTURES_LOST, "lost (%s): %s", spool_cause_name(cause), err ? err->text : "");
        return;
    }
    c->counts.bytes += bytes_of(p);
    captures_remember(c, p);
    say_limited(&c->say, KYMO_LOG_INFO, "capture %s of job %s, rank %u (%s): in the spool, %llu bytes", p->id,
                p->rank->who.job, p->rank->who.rank, p->trigger, (unsigned long long)bytes_of(p));
    captures_set_state(c, p, CAPTURES_SPOOLED, "");
    if (p->ask) {
        struct rank *r = p->rank;
        p->rank = NULL;
        c->counts.under_way--;
        p->files = intake_capture_free(p->files);
        rank_release(r);
    } else {
        captures_remove(c, p);
    }
    captures_kick(c);
}

void captures_on_sent(void *ctx, const char *capture_id, const struct kymo_err *why)
{
    struct captures *c = ctx;
    struct capture *p = c->first;
    if (!why)
        c->counts.sent++;
    while (p && strcmp(p->id, capture_id) != 0)
        p = p->next;
    if (why)
        say_limited(&c->say, KYMO_LOG_WARNING, "capture %s did not get to a collector: %s", capture_id, why->text);
    if (!p || p->rank)
        return;
    if (why) {
        captures_fail(c, p, CAPTURES_NOT_SENT, "%s", why->text);
    } else {
        captures_set_state(c, p, CAPTURES_SENT, "");
        captures_remove(c, p);
    }
}

/* Looking */

struct look_task {
    struct rank_task task;
    struct captures *c;
    size_t n;
    struct intake_found found[INTAKE_FOUND_MAX];
};

struct discard_task {
    struct rank_task task;
    const char *intake;
    char id[KYMO_HOOK_ID_MAX];
    bool is_part;
};

static void discard_work(struct rank_task *task)
{
    const struct discard_task *t = (const struct discard_task *)task;
    intake_discard(t->intake, task->rank->key, t->id, t->is_part);
}

static void discard_done(struct rank_task *task, bool ran)
{
    (void)ran;
    kymo_free(task);
}

static void discard(const struct captures *c, struct rank *r, const struct intake_found *f)
{
    struct discard_task *t = KYMO_NEW(struct discard_task);
    if (!t)
        return; /* it goes with the rest of the process's */
    t->intake = c->intake;
    memcpy(t->id, f->id, sizeof t->id);
    t->is_part = f->is_part;
    t->task.work = discard_work;
    t->task.done = discard_done;
    rank_queue(r, &t->task);
}

/* What the hook tried to write does not stay either: it would take the room of the next. */
void captures_lose_room(struct captures *c, struct capture *p, const char *why)
{
    struct intake_found part = {.is_part = true};
    struct rank *r = p->rank;
    memcpy(part.id, p->hook_id, sizeof part.id);
    discard(c, r, &part);
    p->is_listed = p->is_found = true;
    p->lost = SPOOL_FULL;
    (void)snprintf(p->lost_why, sizeof p->lost_why, "%s", why);
    if (r->current == p)
        r->current = NULL;
    captures_give_waiting(c);
    captures_kick(c);
}

/* The job has begun it and did not finish: it has its loss row, and nothing more. */
static void lose(struct captures *c, struct rank *r, const struct intake_found *f)
{
    struct capture *p = captures_find(c, r, f->id);
    if (!p && !f->is_empty)
        p = captures_add_found(c, r, f->id);
    if (p && p->state < CAPTURES_SAVED) {
        p->is_listed = p->is_found = true;
        p->lost = SPOOL_INTERRUPTED;
        if (r->current == p)
            r->current = NULL;
    }
    discard(c, r, f);
}

static void take_found(struct captures *c, struct rank *r, const struct intake_found *f)
{
    struct capture *p = captures_find(c, r, f->id);
    if (p && p->state >= CAPTURES_SAVED)
        return;
    if (!p)
        p = captures_add_found(c, r, f->id);
    if (!p) {
        if (!f->is_taken)
            discard(c, r, f);
        return;
    }
    p->is_found = true;
    if (r->current == p)
        r->current = NULL;
    captures_set_state(c, p, CAPTURES_SAVED, "");
    captures_take(c, p);
}

/* Nothing comes any more for what the process was asked. */
static void fail_rest(struct captures *c, const struct rank *r)
{
    for (struct capture *p = c->first, *next; p; p = next) {
        next = p->next;
        if (p->rank == r && p->state < CAPTURES_SAVED && !p->is_listed)
            captures_fail(c, p, CAPTURES_ENDED, "the process has ended");
    }
}

static void look_work(struct rank_task *task)
{
    struct look_task *t = (struct look_task *)task;
    t->n = intake_find(t->c->intake, task->rank->key, t->found, INTAKE_FOUND_MAX);
}

static void look_done(struct rank_task *task, bool ran)
{
    struct look_task *t = (struct look_task *)task;
    struct captures *c = t->c;
    struct rank *r = task->rank;
    bool over = r->ended;
    c->starting -= !c->has_gone;
    for (size_t i = 0; i < t->n && ran && !c->stopping; i++) {
        const struct intake_found *f = &t->found[i];
        /* A hook that is still to come back has words about what is whole. */
        if (f->is_taken || (!f->is_part && (over || r->session)))
            take_found(c, r, f);
        else if (over)
            lose(c, r, f);
    }
    if (over && ran && !c->stopping) {
        fail_rest(c, r);
        captures_give_waiting(c);
        rank_cleared(r);
    }
    kymo_free(t);
    captures_kick(c);
}

void captures_look(struct captures *c, struct rank *r)
{
    struct look_task *t = KYMO_NEW(struct look_task);
    if (!t)
        return; /* the next kymod will look */
    t->c = c;
    t->task.work = look_work;
    t->task.done = look_done;
    c->starting += !c->has_gone;
    rank_queue(r, &t->task);
}

/* All that a former kymod left is ordered: only then may anything be sent. */
void captures_check_started(struct captures *c)
{
    struct kymo_err err = {0};
    if (c->has_gone || c->starting > 0 || c->stopping)
        return;
    for (const struct capture *p = c->first; p; p = p->next)
        if (p->is_found && !p->is_given && p->state < CAPTURES_SPOOLED)
            return;
    c->has_gone = outbox_go(c->outbox, &err) == 0;
}
