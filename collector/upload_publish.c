#include "collector/upload_publish.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/entering.h"
#include "collector/http_guard.h"
#include "collector/json_text.h"
#include "collector/upload_impl.h"
#include "collector/upload_manifest.h"

#define TURN_MS 50 /* of the store's thread, until others have theirs */

/* Goes to the store's thread and back until all files are in their places. */
struct publish {
    struct store_job job; /* first */
    struct upload *upload;
    struct http_request *request; /* until it is answered */
    struct upload_manifest manifest;
    struct entering *entering;
    bool over;
    json_t *profiles;
    int r;
    struct kymo_err err;
};

static int begin(struct publish *p, struct store *s)
{
    const struct upload *u = p->upload;
    const struct entering_plan plan = {.place = u->place,
                                       /* Where nobody needs to say who they are, it belongs to everybody. */
                                       .owner = strcmp(u->user, HTTP_USER_LOCAL) != 0 ? u->user : NULL,
                                       .manifest = p->manifest.data,
                                       .n = p->manifest.n,
                                       .parts = p->manifest.places,
                                       .bytes = u->bytes};
    int r = entering_begin(s, &plan, &p->entering, &p->err);
    return r < 0 ? r : 1;
}

static int add_profile(void *ctx, const struct catalog_profile *c)
{
    return json_array_append_new(ctx, json_text(c->name)) < 0 ? -ENOMEM : 0;
}

static int turn(struct publish *p, struct store *s)
{
    int r = entering_turn(p->entering, s, TURN_MS, &p->err);
    if (r != 0)
        return r;
    p->profiles = json_array();
    /* It is there; who cannot be told the names finds them in the list. */
    (void)!catalog_list(s->catalog, p->manifest.id, add_profile, p->profiles, NULL);
    return 0;
}

static bool publish_run(struct store_job *job, struct store_thread *t)
{
    struct publish *p = (struct publish *)job;
    struct store *s = store_thread_store(t);
    bool stops = store_thread_is_stopping(t), begun = p->entering != NULL;
    if (stops)
        p->r = kymo_err_set(&p->err, -EBUSY, "the collector is being stopped");
    else
        p->r = begun ? turn(p, s) : begin(p, s);
    p->over = p->r <= 0;
    if (!p->over)
        return true;
    /* One that is interrupted goes on at the next start. */
    if (p->r < 0 && begun && !stops && entering_undo(p->entering, s, NULL) < 0)
        kymo_err_prefix(&p->err, "(what came stays until the next start)");
    if (p->r == 0)
        store_thread_wake_work(t);
    return true;
}

static json_t *ignored_files(const struct publish *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->upload->n; i++)
        if (!p->manifest.used[i])
            (void)json_array_append_new(list, json_text(p->upload->files[i].path));
    return list;
}

static void end_failed(struct publish *p)
{
    struct upload *u = p->upload;
    u->state = p->request ? UPLOAD_RECEIVING : UPLOAD_FAILED;
    u->since_ms = uv_now(u->all->config.loop);
    memcpy(u->reason, p->err.text, sizeof u->reason);
    if (p->request)
        http_answer_err(p->request, &p->err);
    if (u->doomed)
        upload_drop(u, NULL);
}

static void publish_done(struct store_job *job)
{
    struct publish *p = (struct publish *)job;
    struct upload *u = p->upload;
    if (p->r >= 0 && p->request)
        http_answer_json(KYMO_TAKE(p->request), 202, upload_describe(u, false));
    if (!p->over && !u->all->closed) {
        store_thread_post(u->all->config.store, &p->job);
        return;
    }
    /* The store's thread may have ended: the next start goes on. */
    p->entering = entering_free(p->entering);
    if (!p->over)
        p->r = kymo_err_set(&p->err, -EBUSY, "the collector is being stopped");
    if (p->r < 0)
        end_failed(p);
    else
        upload_done(u, json_pack("{s:s, s:O, s:o}", "capture", p->manifest.id, "profiles", p->profiles, "ignored",
                                 ignored_files(p)));
    json_decref(p->profiles);
    upload_manifest_done(&p->manifest);
    kymo_free(p);
}

void upload_publish(struct upload *u, struct http_request *q)
{
    struct publish *p = KYMO_NEW(struct publish);
    struct kymo_err err = {0};
    int r = p ? upload_manifest_make(u, &p->manifest, &err) : kymo_err_set(&err, -ENOMEM, "no memory for an upload");
    if (r < 0) {
        kymo_free(p);
        http_answer_err(q, &err);
        return;
    }
    p->job.run = publish_run;
    p->job.done = publish_done;
    p->upload = u;
    p->request = q;
    u->state = UPLOAD_FINISHING;
    store_thread_post(u->all->config.store, &p->job);
}
