/* What a client of the control socket asks for. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "daemon/control_internal.h"

#define SECOND_MS 1000

typedef Kymo__Control__CaptureProgress Progress;
typedef Kymo__Control__CaptureRequest Request;

static int refuse(struct client *c, uint64_t request_id, int why, const char *text, struct kymo_err *err)
{
    control_counts_of(c->server)->turned_down++;
    return session_refuse(c->session, why, text, 0, request_id, err);
}

static int why_of(int code)
{
    switch (code) {
    case -ENOENT:
        return KYMO__WIRE__REFUSAL__REASON__NOT_FOUND;
    case -EBUSY:
    case -EAGAIN:
        return KYMO__WIRE__REFUSAL__REASON__BUSY;
    case -EINVAL:
        return KYMO__WIRE__REFUSAL__REASON__INVALID;
    case -EPERM:
        return KYMO__WIRE__REFUSAL__REASON__UNSUPPORTED;
    case -ENOSPC:
        return KYMO__WIRE__REFUSAL__REASON__FULL;
    default:
        return KYMO__WIRE__REFUSAL__REASON__IO;
    }
}

static int serve_status(struct client *c, const Kymo__Control__StatusRequest *q, struct kymo_err *err)
{
    struct status *s = NULL;
    int r = status_make(&control_config_of(c->server)->sources, q->job, &s, err);
    if (r < 0)
        return refuse(c, q->request_id, why_of(r), err->text, err);
    Kymo__Control__StatusReply *reply = status_message(s);
    reply->has_request_id = 1;
    reply->request_id = q->request_id;
    r = session_send(c->session, CONTROL_STATUS_REPLY, &reply->base, err);
    status_free(s);
    return r;
}

static int tell(struct client *c, uint64_t request_id, const char *id, enum captures_state now, const char *text,
                bool last, struct kymo_err *err)
{
    static const Kymo__Control__CaptureProgress__State states[] = {
        [CAPTURES_QUEUED] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__QUEUED,
        [CAPTURES_ARMED] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__ARMED,
        [CAPTURES_RUNNING] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__RUNNING,
        [CAPTURES_SAVED] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SAVED,
        [CAPTURES_SPOOLED] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED,
        [CAPTURES_SENT] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SENT,
        [CAPTURES_FAILED] = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__FAILED,
    };
    char id_copy[KYMO_HOOK_ID_MAX] = "", text_copy[WIRE_TEXT_MAX + 1] = "";
    Progress p = KYMO__CONTROL__CAPTURE_PROGRESS__INIT;
    p.has_request_id = p.has_now = p.has_last = 1;
    p.request_id = request_id;
    p.now = now < CAPTURES_STATE_COUNT ? states[now] : KYMO__CONTROL__CAPTURE_PROGRESS__STATE__UNKNOWN;
    if (now == CAPTURES_FAILED && session_version(c->session) < 2)
        p.now = KYMO__CONTROL__CAPTURE_PROGRESS__STATE__UNKNOWN;
    if (id) {
        (void)snprintf(id_copy, sizeof id_copy, "%s", id);
        p.capture_id = id_copy;
    }
    if (text && *text) {
        kymo_utf8_copy_plain(text_copy, sizeof text_copy, text, strlen(text));
        p.text = text_copy;
    }
    p.last = last;
    return session_send(c->session, CONTROL_CAPTURE_PROGRESS, &p.base, err);
}

static void on_progress(void *ctx, const char *capture_id, enum captures_state now, const char *text, bool last)
{
    struct ask *a = ctx;
    struct client *c = a->client;
    struct kymo_err err = {0};
    if (!c)
        return;
    uint64_t request_id = a->request_id;
    if (last)
        *a = (struct ask){0};
    /* Within a call of the captures nothing is unwatched: the client goes, the asks with it, from the loop. */
    if (c->state == CLIENT_OPEN && tell(c, request_id, capture_id, now, text, last, &err) < 0)
        session_fail(c->session, KYMO__WIRE__REFUSAL__REASON__IO, err.code, err.text);
    c->since_ms = control_now_ms();
    control_flush(c);
}

/* false: the request asks for what cannot be. */
static bool make_wish(const Request *q, uint32_t version, struct captures_wish *ret, const char **ret_why)
{
    *ret = (struct captures_wish){.trigger = "on-demand",
                                  .job = q->job,
                                  .pid = q->pid,
                                  .ncores = q->n_cores,
                                  .cores = q->cores,
                                  .mode = q->mode,
                                  .step = q->step};
    *ret_why = "more cores than a host has";
    if (q->n_cores > CAPTURES_CORES_MAX)
        return false;
    if (version < 2)
        return true;
    ret->count = q->count;
    ret->duration_ms = q->duration_ms;
    ret->ranks_one_in = q->ranks_one_in;
    *ret_why = "one may wait until SPOOLED or SENT";
    return !q->has_until || q->until == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SPOOLED ||
           q->until == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SENT;
}

/* Whether the end of a capture is that a collector has it. */
static bool until_sent(const struct client *c, const Request *q)
{
    if (q->has_until && session_version(c->session) > 1)
        return q->until == KYMO__CONTROL__CAPTURE_PROGRESS__STATE__SENT;
    struct outbox_status o;
    outbox_get_status(control_config_of(c->server)->sources.outbox, &o);
    return o.nlinks > 0;
}

static struct ask *free_ask(struct client *c)
{
    for (size_t i = 0; i < CONTROL_ASKS_MAX; i++)
        if (!c->asks[i].client)
            return &c->asks[i];
    return NULL;
}

static void note_wish(const struct client *c, const struct captures_wish *w, size_t n)
{
    control_note(c->server, "user %u (process %d) asks for captures of %s%s: %zu begun", (unsigned)c->uid, (int)c->pid,
                 w->job   ? "job "
                 : w->pid ? "a process"
                          : "all jobs",
                 w->job ? w->job : "", n);
}

static int tell_begun(struct client *c, const Request *q, char ids[][KYMO_HOOK_ID_MAX], size_t n, bool wait,
                      const char *others, struct kymo_err *err)
{
    int r = 0;
    bool more = *others != '\0';
    for (size_t i = 0; r == 0 && i < n; i++)
        r = tell(c, q->request_id, ids[i], CAPTURES_QUEUED, NULL, !wait && !more && i + 1 == n, err);
    if (r == 0 && more)
        r = tell(c, q->request_id, NULL, CAPTURES_STATE_COUNT, others, !wait, err);
    return r;
}

static int serve_capture(struct client *c, const Request *q, struct kymo_err *err)
{
    struct captures_wish wish;
    const char *why;
    struct ask *a = q->wait_ms ? free_ask(c) : NULL;
    if (!make_wish(q, session_version(c->session), &wish, &why))
        return refuse(c, q->request_id, KYMO__WIRE__REFUSAL__REASON__INVALID, why, err);
    if (q->wait_ms && !a)
        return refuse(c, q->request_id, KYMO__WIRE__REFUSAL__REASON__BUSY, "too many captures are waited for", err);
    wish.wait = a && until_sent(c, q);
    char(*ids)[KYMO_HOOK_ID_MAX] KYMO_FREE = kymo_calloc(CAPTURES_IDS_MAX, sizeof *ids);
    if (!ids)
        return kymo_err_set(err, -ENOMEM, "control: out of memory");
    size_t n = 0;
    struct kymo_err others = {0};
    struct captures_ask *ask = NULL;
    int r = captures_ask(control_config_of(c->server)->sources.captures, &wish, a ? on_progress : NULL, a, ids, &n,
                         a ? &ask : NULL, &others);
    if (r == 0 && n == 0)
        r = kymo_err_set(&others, -ENOENT, "no rank is meant");
    if (r < 0)
        return refuse(c, q->request_id, why_of(r), others.text, err);
    note_wish(c, &wish, n);
    if (a)
        *a = (struct ask){
            .client = c, .ask = ask, .request_id = q->request_id, .deadline_ms = control_now_ms() + q->wait_ms};
    return tell_begun(c, q, ids, n, a != NULL, others.text, err);
}

static bool too_fast(struct client *c)
{
    uint64_t second = control_now_ms() / SECOND_MS;
    if (second != c->second) {
        c->second = second;
        c->requests = 0;
    }
    return ++c->requests > CONTROL_REQUESTS_S || session_waiting(c->session) > CONTROL_OUT_MAX / 2;
}

int control_serve(struct client *c, const struct wire_message *m, struct kymo_err *err)
{
    const Kymo__Control__StatusRequest *status = (const Kymo__Control__StatusRequest *)m->pb;
    const Request *capture = (const Request *)m->pb;
    if (m->type != CONTROL_STATUS_REQUEST && m->type != CONTROL_CAPTURE_REQUEST)
        return 0; /* A refusal of what we sent: there is nothing to take back. */
    control_counts_of(c->server)->requests++;
    c->since_ms = control_now_ms();
    if (too_fast(c)) {
        uint64_t id = m->type == CONTROL_STATUS_REQUEST ? status->request_id : capture->request_id;
        return refuse(c, id, KYMO__WIRE__REFUSAL__REASON__BUSY, "too many requests at once", err);
    }
    return m->type == CONTROL_STATUS_REQUEST ? serve_status(c, status, err) : serve_capture(c, capture, err);
}

bool control_waits(const struct client *c)
{
    for (size_t i = 0; i < CONTROL_ASKS_MAX; i++)
        if (c->asks[i].client)
            return true;
    return false;
}

static void end_ask(struct client *c, struct ask *a)
{
    captures_unwatch(control_config_of(c->server)->sources.captures, a->ask);
    *a = (struct ask){0};
}

void control_expire(struct client *c, uint64_t now_ms)
{
    for (size_t i = 0; i < CONTROL_ASKS_MAX; i++) {
        struct ask *a = &c->asks[i];
        if (!a->client || now_ms < a->deadline_ms)
            continue;
        uint64_t request_id = a->request_id;
        end_ask(c, a);
        c->since_ms = now_ms;
        (void)refuse(c, request_id, KYMO__WIRE__REFUSAL__REASON__TIMEOUT,
                     "still under way; the captures go on without you", NULL);
        control_flush(c);
    }
}

void control_forget(struct client *c)
{
    for (size_t i = 0; i < CONTROL_ASKS_MAX; i++)
        if (c->asks[i].client)
            end_ask(c, &c->asks[i]);
}
