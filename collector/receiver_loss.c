/*
 * Losses of the device's rings go back to the host that sent the capture, from the catalogue: when a profile becomes
 * ready and when the host says hello. One profile at a time per host: after its message goes a ping, and when the pong
 * says that the daemon has read it, the catalogue notes it as told. A break in between tells it again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/receiver_impl.h"

#define LOSSES_SENT_MAX 2048 /* of one profile: more would not fit into a message */

enum what { LOOK_UP, FETCH, TOLD };

struct tell_job {
    struct store_job job; /* first */
    struct receiver *r;
    enum what what;
    char source[WIRE_NAME_MAX + 1];
    char profile[MANIFEST_PROFILE_NAME_MAX + 1]; /* FETCH: the one before, then the one found */
    char capture[MANIFEST_ID_MAX + 1];
    bool found;
    struct loss *losses;
    size_t n, cap;
};

static int add_loss(void *ctx, const struct loss *l)
{
    struct tell_job *j = ctx;
    void *p = j->losses;
    if (strcmp(l->stage, "device_ring") != 0)
        return 0;
    if (kymo_grow(&p, &j->cap, j->n + 1, LOSSES_SENT_MAX, sizeof *j->losses) < 0)
        return 1;
    j->losses = p;
    j->losses[j->n++] = *l;
    return 0;
}

/* What the catalogue cannot say now is said at the next hello. */
static bool run(struct store_job *job, struct store_thread *t)
{
    struct tell_job *j = (struct tell_job *)job;
    struct catalog *c = store_thread_store(t)->catalog;
    struct catalog_profile p;
    int told;
    switch (j->what) {
    case LOOK_UP:
        j->found = catalog_untold_source(c, j->profile, j->source, NULL) == 1;
        break;
    case FETCH:
        j->found = catalog_next_untold(c, j->source, j->profile, &p, NULL) == 1 &&
                   catalog_list_losses(c, p.name, add_loss, j, NULL) >= 0;
        if (j->found) {
            memcpy(j->profile, p.name, sizeof j->profile);
            memcpy(j->capture, p.capture, sizeof j->capture);
        }
        break;
    case TOLD:
        told = catalog_told(c, j->profile, NULL);
        j->found = told == 0;
        break;
    }
    return true;
}

static struct receiver_conn *connection_of(struct receiver *r, const char *identity)
{
    for (struct receiver_conn *c = r->first; c; c = c->next)
        if (c->greeted && !c->ending && strcmp(c->identity, identity) == 0)
            return c;
    return NULL;
}

static void job_done(struct store_job *job);

static void post(struct receiver *r, enum what what, const char *source, const char *profile)
{
    struct tell_job *j = r->stopped ? NULL : KYMO_NEW(struct tell_job);
    if (!j)
        return;
    j->job.run = run;
    j->job.done = job_done;
    j->r = r;
    j->what = what;
    (void)snprintf(j->source, sizeof j->source, "%s", source);
    (void)snprintf(j->profile, sizeof j->profile, "%s", profile);
    store_thread_post(r->config.store, &j->job);
}

void receiver_tell_host(struct receiver_conn *c)
{
    if (c->telling) {
        c->tell_again = true;
        return;
    }
    c->telling = true;
    post(c->r, FETCH, c->identity, "");
}

static void end_telling(struct receiver_conn *c)
{
    bool again = c->tell_again;
    c->telling = c->tell_again = false;
    if (again)
        receiver_tell_host(c);
}

/* All losses of one profile, and the ping whose answer says that they have arrived. */
static int send_losses(struct receiver_conn *c, const struct tell_job *j, struct kymo_err *err)
{
    Kymo__Uplink__RingLoss *rows KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__RingLoss, j->n + 1);
    Kymo__Uplink__RingLoss **list KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Uplink__RingLoss *, j->n + 1);
    if (!rows || !list)
        return kymo_err_set(err, -ENOMEM, "no memory for losses");
    union {
        const char *in;
        char *out;
    } capture = {j->capture}, profile = {j->profile};
    Kymo__Uplink__RingLosses m = KYMO__UPLINK__RING_LOSSES__INIT;
    m.capture_id = capture.out;
    m.profile = profile.out;
    m.losses = list;
    for (size_t i = 0; i < j->n; i++) {
        struct loss *l = &j->losses[i];
        Kymo__Uplink__RingLoss *row = list[m.n_losses] = &rows[m.n_losses];
        if (!*l->ring || !*l->cause)
            continue;
        kymo__uplink__ring_loss__init(row);
        row->ring = l->ring;
        l->ring[WIRE_NAME_MAX] = '\0';
        row->cause = l->cause;
        row->has_records = l->has_records;
        row->records = l->records;
        row->has_emitted = l->has_emitted;
        row->emitted = l->emitted;
        m.n_losses++;
    }
    int r = uplink_recv_losses(c->recv, &m, err);
    return r < 0 ? r : receiver_ping(c, err);
}

static void fetched(struct tell_job *j)
{
    struct receiver_conn *c = connection_of(j->r, j->source);
    struct kymo_err err = {0};
    if (!c || !c->telling)
        return;
    if (!j->found) {
        end_telling(c);
        return;
    }
    memcpy(c->told, j->profile, sizeof c->told);
    int r = send_losses(c, j, &err);
    c->told_nonce = c->nonce;
    receiver_check(c, r, &err);
}

static void job_done(struct store_job *job)
{
    struct tell_job *j = (struct tell_job *)job;
    struct receiver_conn *c;
    if (j->what == FETCH)
        fetched(j);
    else if (j->what == LOOK_UP && j->found && (c = connection_of(j->r, j->source)))
        receiver_tell_host(c);
    kymo_free(j->losses);
    kymo_free(j);
}

void receiver_look_at_pong(struct receiver_conn *c)
{
    if (!c->told_nonce || session_last_pong(uplink_recv_session(c->recv)) < c->told_nonce)
        return;
    c->told_nonce = 0;
    post(c->r, TOLD, c->identity, c->told);
    post(c->r, FETCH, c->identity, c->told);
}

void receiver_profile_ready(struct receiver *r, const char *profile)
{
    post(r, LOOK_UP, "", profile);
}
