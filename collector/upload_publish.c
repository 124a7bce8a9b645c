#include "collector/upload_publish.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collector/http_guard.h"
#include "collector/json_text.h"
#include "collector/upload_impl.h"
#include "collector/upload_manifest.h"

#define TURN_MS 50 /* of the store's thread, until others have theirs */

/* Goes to the store's thread and back until all files are in their places. */
struct publish {
    struct store_job job; /* first */
    struct upload *upload;
    struct http_request *request;
    struct upload_manifest manifest;
    struct raw_capture *raw;
    uint32_t next; /* file */
    bool begun, over;
    json_t *profiles;
    int r;
    struct kymo_err err;
};

static int begin(struct publish *p, struct store *s)
{
    char source[MANIFEST_TEXT_MAX + 1];
    int64_t ns;
    int r = catalog_receiving_source(s->catalog, p->manifest.id, source, &ns, &p->err);
    if (r == 1)
        return kymo_err_set(&p->err, -EEXIST, "capture %s is being received", p->manifest.id);
    if (r == 0)
        r = raw_store_begin_adopting(s->raw, p->manifest.data, p->manifest.n, p->upload->bytes, &p->raw, &p->err);
    if (r == RAW_STORED)
        return kymo_err_set(&p->err, -EEXIST, "capture %s is here already", p->manifest.id);
    p->begun = r >= 0;
    return r;
}

static int take_file(struct publish *p, uint32_t i)
{
    size_t from = p->manifest.places[i];
    if (raw_capture_has_file(p->raw, i))
        return 0;
    if (from == UPLOAD_NO_FILE)
        return kymo_err_set(&p->err, -EINVAL, "%.200s is not in the upload, and the collector does not have it",
                            raw_capture_manifest(p->raw)->files[i]->name);
    char *part KYMO_FREE = upload_part_path(p->upload, from);
    if (!part)
        return kymo_err_set(&p->err, -ENOMEM, "no memory for a path");
    int r = raw_capture_adopt(p->raw, i, part, &p->err);
    return r < 0 ? r : raw_capture_finish_file(p->raw, i, &p->err);
}

static int add_profile(void *ctx, const struct catalog_profile *c)
{
    return json_array_append_new(ctx, json_text(c->name)) < 0 ? -ENOMEM : 0;
}

static int commit(struct publish *p, struct store *s)
{
    const char *user = p->upload->user;
    int r = store_commit(s, p->raw, &p->err);
    /* Where nobody needs to say who they are, it belongs to everybody. */
    if (r == 0 && strcmp(user, HTTP_USER_LOCAL) != 0)
        r = catalog_own(s->catalog, p->manifest.id, user, &p->err);
    p->profiles = json_array();
    if (r == 0)
        r = catalog_list(s->catalog, p->manifest.id, add_profile, p->profiles, &p->err);
    return r;
}

static int turn(struct publish *p, struct store *s)
{
    uint64_t start = kymo_clock_mono_ns();
    int r = p->begun ? 0 : begin(p, s);
    size_t n = r < 0 ? 0 : raw_capture_manifest(p->raw)->n_files;
    while (r >= 0 && p->next < n) {
        if (kymo_clock_mono_ns() - start > (uint64_t)TURN_MS * 1000000)
            return 0;
        r = take_file(p, p->next++);
    }
    p->over = true;
    return r < 0 ? r : commit(p, s);
}

static bool publish_run(struct store_job *job, struct store_thread *t)
{
    struct publish *p = (struct publish *)job;
    p->r = store_thread_is_stopping(t) ? kymo_err_set(&p->err, -EBUSY, "the collector is being stopped")
                                       : turn(p, store_thread_store(t));
    p->over |= p->r < 0;
    if (!p->over)
        return true;
    p->raw = raw_capture_free(p->raw);
    /* Nobody goes on with it: its files are in their places, or it begins anew. */
    if (p->r < 0 && p->begun && raw_store_discard(store_thread_store(t)->raw, p->manifest.id, NULL) < 0)
        kymo_err_prefix(&p->err, "(what came stays until the next start)");
    if (p->r >= 0)
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

static void publish_done(struct store_job *job)
{
    struct publish *p = (struct publish *)job;
    struct upload *u = p->upload;
    if (!p->over) {
        store_thread_post(u->all->config.store, &p->job);
        return;
    }
    if (p->r < 0)
        http_answer_err(p->request, &p->err);
    else
        http_answer_json(p->request, 201,
                         json_pack("{s:s, s:O, s:o}", "capture", p->manifest.id, "profiles", p->profiles, "ignored",
                                   ignored_files(p)));
    json_decref(p->profiles);
    upload_manifest_done(&p->manifest);
    kymo_free(p);
    u->publishing = false;
    upload_drop(u);
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
    u->publishing = true;
    store_thread_post(u->all->config.store, &p->job);
}
