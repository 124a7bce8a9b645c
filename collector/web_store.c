#include "collector/web_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct reprocess_job {
    struct store_job job; /* first */
    struct http_request *request;
    char name[MANIFEST_PROFILE_NAME_MAX + 1]; /* of a profile or a capture */
    bool capture, failed;
    int n;
    struct kymo_err err;
};

/* One that waits will be made anyway. */
static int queue_one(struct catalog *c, const char *name, struct kymo_err *err)
{
    struct catalog_profile p;
    int r = catalog_find(c, name, &p, err);
    if (r == 0 && p.state != CATALOG_QUEUED)
        r = catalog_queue(c, name, err);
    return r < 0 ? r : 1;
}

static bool reprocess_run(struct store_job *job, struct store_thread *t)
{
    struct reprocess_job *j = (struct reprocess_job *)job;
    struct catalog *c = store_thread_store(t)->catalog;
    if (store_thread_is_stopping(t))
        j->n = kymo_err_set(&j->err, -EBUSY, "the collector is being stopped");
    else if (j->capture || j->failed)
        j->n = catalog_queue_all(c, j->failed ? NULL : j->name, &j->err);
    else
        j->n = queue_one(c, j->name, &j->err);
    store_thread_wake_work(t);
    return true;
}

static void reprocess_done(struct store_job *job)
{
    struct reprocess_job *j = (struct reprocess_job *)job;
    api_reprocessed(j->request, j->n > 0 ? (uint64_t)j->n : 0, j->n < 0 ? &j->err : NULL);
    kymo_free(j);
}

void web_store_reprocess(struct store_thread *t, const struct api_reprocess *what, struct http_request *request)
{
    struct kymo_err err = {0};
    const char *name = what->profile ? what->profile : what->capture ? what->capture : "";
    struct reprocess_job *j = KYMO_NEW(struct reprocess_job);
    if (!j || strlen(name) >= sizeof j->name) {
        (void)(j ? kymo_err_set(&err, -ENOENT, "there is no profile of such a name")
                 : kymo_err_set(&err, -ENOMEM, "no memory for the request"));
        kymo_free(j);
        api_reprocessed(request, 0, &err);
        return;
    }
    j->job.run = reprocess_run;
    j->job.done = reprocess_done;
    j->request = request;
    j->capture = what->capture != NULL;
    j->failed = what->failed;
    memcpy(j->name, name, strlen(name) + 1);
    store_thread_post(t, &j->job);
}

/* Removing and pinning. */
struct change_job {
    struct store_job job; /* first */
    struct http_request *request;
    char name[MANIFEST_PROFILE_NAME_MAX + 1], user[MANIFEST_TEXT_MAX + 1];
    bool pins, pinned; /* pins: that is what is wanted */
    int r;
    struct kymo_err err;
};

#define CLEAR_MS 50 /* of the store's thread, until others have theirs */

/* Files of a capture that was removed. Posts itself until they are gone; what a stop leaves goes at the next start. */
struct clear_job {
    struct store_job job; /* first */
    char *path;
};

static bool clear_run(struct store_job *job, struct store_thread *t)
{
    struct clear_job *j = (struct clear_job *)job;
    if (store_thread_is_stopping(t) || store_clear(j->path, CLEAR_MS, NULL) <= 0)
        return true;
    store_thread_post(t, &j->job);
    return false;
}

static void clear_done(struct store_job *job)
{
    struct clear_job *j = (struct clear_job *)job;
    kymo_free(j->path);
    kymo_free(j);
}

/* Takes path; NULL is fine. */
static void clear_later(struct store_thread *t, char *path)
{
    struct clear_job *j = path ? KYMO_NEW(struct clear_job) : NULL;
    if (!j) {
        kymo_free(path);
        return;
    }
    *j = (struct clear_job){.job = {.run = clear_run, .done = clear_done}, .path = path};
    store_thread_post(t, &j->job);
}

static bool change_run(struct store_job *job, struct store_thread *t)
{
    struct change_job *j = (struct change_job *)job;
    struct store *s = store_thread_store(t);
    char *left = NULL;
    if (store_thread_is_stopping(t))
        j->r = kymo_err_set(&j->err, -EBUSY, "the collector is being stopped");
    else if (j->pins)
        j->r = catalog_pin(s->catalog, j->name, j->pinned, &j->err);
    else
        j->r = store_remove(s, store_thread_work(t), j->name, j->user, &left, &j->err);
    clear_later(t, left);
    return true;
}

static void change_done(struct store_job *job)
{
    struct change_job *j = (struct change_job *)job;
    const struct kymo_err *err = j->r < 0 ? &j->err : NULL;
    if (j->pins)
        api_pinned(j->request, j->pinned, err);
    else
        api_removed(j->request, err);
    kymo_free(j);
}

/* NULL: answered. */
static struct change_job *new_change(const char *profile, struct http_request *request)
{
    struct change_job *j = strlen(profile) <= MANIFEST_PROFILE_NAME_MAX ? KYMO_NEW(struct change_job) : NULL;
    if (!j) {
        if (strlen(profile) > MANIFEST_PROFILE_NAME_MAX)
            http_answer_error(request, 404, "not_found", "there is no profile of such a name");
        else
            http_answer_error(request, 503, "no_memory", "no memory for the request");
        return NULL;
    }
    j->job.run = change_run;
    j->job.done = change_done;
    j->request = request;
    memcpy(j->name, profile, strlen(profile) + 1);
    return j;
}

void web_store_remove(struct store_thread *t, const char *profile, const char *user, struct http_request *request)
{
    struct change_job *j = new_change(profile, request);
    if (!j)
        return;
    (void)snprintf(j->user, sizeof j->user, "%s", user);
    store_thread_post(t, &j->job);
}

void web_store_pin(struct store_thread *t, const char *profile, bool pinned, struct http_request *request)
{
    struct change_job *j = new_change(profile, request);
    if (!j)
        return;
    j->pins = true;
    j->pinned = pinned;
    store_thread_post(t, &j->job);
}
