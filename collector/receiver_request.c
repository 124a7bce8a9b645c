/* Capture requests of receiver.h: one goes to some hosts, each answers or is given up. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/receiver_impl.h"

#define TIMEOUT_MS 30000
#define WAITING 1 /* code of an answer that has not come; errors are negative */

struct slot {
    const struct receiver_conn *conn; /* NULL: gone */
    struct receiver_answer answer;
};

struct pending {
    struct pending *next;
    uint64_t id, until_ms;
    receiver_answered *answered;
    void *ctx;
    size_t n, waiting;
    struct slot slots[];
};

static void pending_free(struct pending *p)
{
    for (size_t i = 0; i < p->n; i++)
        kymo_free(p->slots[i].answer.ids);
    kymo_free(p);
}

static void unlink_pending(struct receiver *r, const struct pending *p)
{
    struct pending **at = &r->pending;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    r->n_pending--;
}

static void finish(struct receiver *r, struct pending *p)
{
    unlink_pending(r, p);
    struct receiver_answer *answers KYMO_FREE = KYMO_NEW_ARRAY(struct receiver_answer, p->n + 1);
    for (size_t i = 0; answers && i < p->n; i++)
        answers[i] = p->slots[i].answer;
    p->answered(p->ctx, p->id, answers, answers ? p->n : 0);
    pending_free(p);
}

static void settle(struct pending *p, struct slot *s, int code, const char *text)
{
    s->answer.code = code;
    (void)snprintf(s->answer.text, sizeof s->answer.text, "%s", text);
    p->waiting--;
}

static struct slot *find(struct receiver *r, uint64_t id, const struct receiver_conn *c, struct pending **ret)
{
    for (struct pending *p = r->pending; p; p = p->next)
        for (size_t i = 0; p->id == id && i < p->n; i++)
            if (p->slots[i].conn == c && p->slots[i].answer.code == WAITING) {
                *ret = p;
                return &p->slots[i];
            }
    return NULL;
}

void receiver_on_reply(void *ctx, const Kymo__Uplink__CaptureReply *reply)
{
    struct receiver_conn *c = ctx;
    struct pending *p;
    struct slot *s = find(c->r, reply->request_id, c, &p);
    if (!s)
        return;
    struct receiver_answer *a = &s->answer;
    a->ids = kymo_calloc(reply->n_capture_ids + 1, sizeof *a->ids);
    for (size_t i = 0; a->ids && i < reply->n_capture_ids; i++)
        if (wire_is_id(reply->capture_ids[i]))
            memcpy(a->ids[a->n_ids++], reply->capture_ids[i], strlen(reply->capture_ids[i]) + 1);
    settle(p, s, 0, "");
    if (!p->waiting)
        finish(c->r, p);
}

void receiver_on_refused(void *ctx, uint64_t request_id, int why, const char *text)
{
    struct receiver_conn *c = ctx;
    struct pending *p;
    struct slot *s = find(c->r, request_id, c, &p);
    if (!s)
        return;
    s->answer.why = why;
    settle(p, s, -ECONNREFUSED, *text ? text : "refused without a reason");
    if (!p->waiting)
        finish(c->r, p);
}

static void give_up(struct pending *p, const struct receiver_conn *c, int code, const char *text)
{
    for (size_t i = 0; i < p->n; i++) {
        struct slot *s = &p->slots[i];
        if (c && s->conn != c)
            continue;
        if (s->answer.code == WAITING)
            settle(p, s, code, text);
        s->conn = NULL;
    }
}

void receiver_request_tick(struct receiver *r)
{
    uint64_t now = receiver_now_ms(r);
    for (struct pending *p = r->pending, *next; p; p = next) {
        next = p->next;
        if (now >= p->until_ms)
            give_up(p, NULL, -ETIMEDOUT, "no answer in time");
        if (!p->waiting)
            finish(r, p);
    }
}

/* What is settled here is told at the next tick: the caller may be in the middle of something. */
void receiver_request_gone(struct receiver *r, const struct receiver_conn *c)
{
    for (struct pending *p = r->pending; p; p = p->next)
        give_up(p, c, -EPIPE, "the connection has ended");
}

void receiver_request_end(struct receiver *r)
{
    while (r->pending) {
        give_up(r->pending, NULL, -EPIPE, "the collector is being stopped");
        finish(r, r->pending);
    }
}

void receiver_cancel(struct receiver *r, uint64_t id)
{
    for (struct pending *p = r->pending; p; p = p->next) {
        if (p->id != id)
            continue;
        unlink_pending(r, p);
        pending_free(p);
        return;
    }
}

static bool is_wanted(const struct receiver_conn *c, const struct receiver_request *q)
{
    if (!c->greeted || c->ending)
        return false;
    if (q->host && strcmp(c->identity, q->host) != 0 && strcmp(c->host, q->host) != 0)
        return false;
    /* A host that has come twice is asked once, on its newest connection, which stands first. */
    for (const struct receiver_conn *d = c->r->first; d != c; d = d->next)
        if (d->greeted && !d->ending && strcmp(d->identity, c->identity) == 0)
            return false;
    return true;
}

static void fill(Kymo__Uplink__CaptureRequest *m, const struct receiver_request *q, uint64_t id)
{
    union {
        const char *in;
        char *out;
    } job = {q->job}, mode = {q->mode};
    union {
        const uint32_t *in;
        uint32_t *out;
    } cores = {q->cores};
    kymo__uplink__capture_request__init(m);
    m->has_request_id = 1;
    m->request_id = id;
    m->job = job.out;
    m->mode = mode.out;
    m->cores = cores.out;
    m->n_cores = q->n_cores;
    m->has_step = q->has_step;
    m->step = q->step;
    m->has_ranks_one_in = q->ranks_one_in != 0;
    m->ranks_one_in = q->ranks_one_in;
}

static int ask(struct receiver_conn *c, struct pending *p, const Kymo__Uplink__CaptureRequest *m)
{
    struct kymo_err err = {0};
    struct slot *s = &p->slots[p->n++];
    s->conn = c;
    s->answer.code = WAITING;
    (void)snprintf(s->answer.identity, sizeof s->answer.identity, "%s", c->identity);
    p->waiting++;
    int r = uplink_recv_request(c->recv, m, &err);
    if (r < 0)
        settle(p, s, r, err.text);
    else
        receiver_pump(c);
    return r;
}

int receiver_request(struct receiver *r, const struct receiver_request *q, receiver_answered *answered, void *ctx,
                     uint64_t *ret_id, struct kymo_err *err)
{
    Kymo__Uplink__CaptureRequest m;
    fill(&m, q, r->last_request + 1);
    int code = wire_check(&uplink_protocol, &m.base, err);
    if (code < 0)
        return kymo_err_set(err, -EINVAL, "%s", err ? err->text : "");
    if (r->n_pending == RECEIVER_REQUESTS_MAX)
        return kymo_err_set(err, -EBUSY, "%d capture requests are under way", RECEIVER_REQUESTS_MAX);
    size_t n = 0;
    for (const struct receiver_conn *c = r->first; c && !r->stopped; c = c->next)
        n += is_wanted(c, q);
    if (n == 0)
        return q->host ? kymo_err_set(err, -ENOENT, "host %.200s is not connected", q->host)
                       : kymo_err_set(err, -ENOENT, "no host is connected");
    struct pending *p = kymo_calloc(1, sizeof *p + n * sizeof p->slots[0]);
    if (!p)
        return kymo_err_set(err, -ENOMEM, "no memory for a capture request");
    p->id = ++r->last_request;
    p->until_ms = receiver_now_ms(r) + (q->timeout_ms ? q->timeout_ms : TIMEOUT_MS);
    p->answered = answered;
    p->ctx = ctx;
    p->next = r->pending;
    r->pending = p;
    r->n_pending++;
    for (struct receiver_conn *c = r->first; c && p->n < n; c = c->next)
        if (is_wanted(c, q))
            (void)ask(c, p, &m);
    *ret_id = p->id;
    return 0;
}
