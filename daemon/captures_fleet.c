/* What collectors say: wishes for captures, and what the rings of earlier captures lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "daemon/captures_internal.h"
#include "daemon/policy.h"

void captures_on_request(void *ctx, uint64_t request, const Kymo__Uplink__CaptureRequest *w)
{
    struct captures *c = ctx;
    char name[32];
    /* The collector's own number; ours goes by connection. */
    (void)snprintf(name, sizeof name, "c-%llx", (unsigned long long)w->request_id);
    const struct captures_wish wish = {.trigger = "collector",
                                       .request = name,
                                       .job = w->job && *w->job ? w->job : NULL,
                                       .mode = w->mode && *w->mode ? w->mode : NULL,
                                       .ncores = w->n_cores,
                                       .cores = w->cores,
                                       .step = w->has_step ? w->step : 0,
                                       .ranks_one_in = w->has_ranks_one_in ? w->ranks_one_in : 0};
    char ids[CAPTURES_IDS_MAX][KYMO_HOOK_ID_MAX];
    const char *list[CAPTURES_IDS_MAX];
    struct kymo_err err = {0};
    const char *why = NULL;
    size_t n = 0, shed = c->cost && !own_cost_allows(c->cost, "collector", &why) ? captures_count_meant(c, &wish) : 0;
    int r;
    if (shed > 0) {
        captures_shed(c, shed);
        r = kymo_err_set(&err, -EBUSY, "%s", why ? why : "the host is over its limits");
    } else {
        r = captures_ask(c, &wish, NULL, NULL, ids, &n, NULL, &err);
    }
    if (r < 0) {
        outbox_refuse(c->outbox, request, r, err.text);
        return;
    }
    for (size_t i = 0; i < n; i++)
        list[i] = ids[i];
    outbox_reply(c->outbox, request, list, n);
}

void captures_remember(struct captures *c, const struct capture *p)
{
    struct captures_sent *s = &c->sent[c->sent_next++ % CAPTURES_SENT_MAX];
    (void)snprintf(s->id, sizeof s->id, "%s", p->id);
    (void)snprintf(s->job, sizeof s->job, "%s", p->rank->who.job);
    policy_buffers(&p->rank->policy, s->mb);
}

/* Whose capture it was; a profile's name tells the job where we do not remember. */
static struct captures_sent whose(const struct captures *c, const Kymo__Uplink__RingLosses *l)
{
    struct captures_sent s = {.id = ""};
    char mark[300];
    for (size_t i = 0; i < CAPTURES_SENT_MAX; i++)
        if (l->capture_id && *c->sent[i].id && !strcmp(c->sent[i].id, l->capture_id))
            return c->sent[i];
    (void)snprintf(mark, sizeof mark, "-%s-r", c->host->name);
    const char *at = l->profile ? strstr(l->profile, mark) : NULL;
    if (at)
        kymo_utf8_copy_plain(s.job, sizeof s.job, l->profile, (size_t)(at - l->profile));
    return s;
}

/* The file, written by a worker */

static void learned_work(uv_work_t *w)
{
    struct captures *c = w->data;
    struct kymo_err err = {0};
    if (kymo_file_write_atomic(c->learned_path, c->learned_text, c->learned_n, &err) < 0)
        kymo_log(KYMO_LOG_WARNING, "%s: what was learned is not kept", err.text);
}

static void save_learned(struct captures *c);

static void learned_done(uv_work_t *w, int status)
{
    struct captures *c = w->data;
    (void)status;
    kymo_free(c->learned_text);
    c->learned_text = NULL;
    c->learned_busy = false;
    if (c->learned_dirty && !c->stopping)
        save_learned(c);
}

static void save_learned(struct captures *c)
{
    struct kymo_err err = {0};
    c->learned_dirty = true;
    if (c->learned_busy || learned_format(c->learned, &c->learned_text, &c->learned_n, &err) < 0)
        return;
    c->learned_work.data = c;
    c->learned_dirty = false;
    c->learned_busy = uv_queue_work(c->loop, &c->learned_work, learned_work, learned_done) == 0;
}

void captures_on_ring_losses(void *ctx, const Kymo__Uplink__RingLosses *losses)
{
    struct captures *c = ctx;
    struct captures_sent s = whose(c, losses);
    bool changed = false;
    for (size_t i = 0; i < losses->n_losses; i++) {
        const Kymo__Uplink__RingLoss *l = losses->losses[i];
        uint64_t lost = l->has_records ? l->records : 1, mb;
        unsigned buffer;
        if (!l->ring || !l->cause || strcmp(l->cause, "ring_full") != 0 || lost == 0)
            continue;
        c->counts.ring_records_lost += l->has_records ? l->records : 0;
        mb = learned_loss(c->learned, s.job, l->ring, l->has_emitted ? l->emitted : 0, lost, s.mb, &buffer);
        if (mb == 0)
            continue;
        changed = true;
        kymo_log(KYMO_LOG_INFO, "job %s: ring %s lost %llu records: buffer %s will have %llu MB at its next start",
                 s.job, l->ring, (unsigned long long)lost, learned_buffer_name(buffer), (unsigned long long)mb);
    }
    if (changed)
        save_learned(c);
}
