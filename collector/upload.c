#include "collector/upload.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/entering.h"
#include "collector/json_text.h"
#include "collector/upload_impl.h"
#include "collector/upload_publish.h"

#define SWEEP_MS 1000

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for uploads");
}

void uploads_release(struct uploads *all)
{
    if (--all->users > 0)
        return;
    kymo_free(all->place);
    kymo_free(all);
}

struct uploads *uploads_free(struct uploads *all)
{
    if (all)
        uploads_release(all);
    return NULL;
}

char *upload_part_path(const struct upload *u, size_t i)
{
    return kymo_asprintf("%s/part-%zu", u->place, i);
}

static void free_files(struct upload *u)
{
    for (size_t i = 0; i < u->n; i++) {
        kymo_free(u->files[i].path);
        kymo_sha256_freep(&u->files[i].sha);
    }
    kymo_free(u->files);
    u->files = NULL;
    u->n = u->cap = 0;
}

static void free_upload(struct upload *u)
{
    free_files(u);
    json_decref(u->outcome);
    kymo_free(u->place);
    uploads_release(u->all);
    kymo_free(u);
}

/* A directory on its way out. Big files take the disk a while. */
struct removal {
    uv_work_t work; /* first */
    struct uploads *all;
    char *place;
    struct http_request *request; /* NULL: nobody waits */
    int r;
};

static void on_remove(uv_work_t *work)
{
    struct removal *m = (struct removal *)work;
    m->r = kymo_file_remove_tree(m->place, NULL);
}

static void on_removed(uv_work_t *work, int status)
{
    struct removal *m = (struct removal *)work;
    if (m->request && (status < 0 || m->r < 0))
        http_answer_error(m->request, 500, "internal",
                          "not all of it could be removed; the rest goes at the next start");
    else if (m->request)
        http_answer_json(m->request, 200, json_pack("{s:b}", "deleted", 1));
    kymo_free(m->place);
    uploads_release(m->all);
    kymo_free(m);
}

/* What cannot go now goes at the next start. Takes place. */
static void remove_later(struct uploads *all, char *place, struct http_request *q)
{
    struct removal *m = place ? KYMO_NEW(struct removal) : NULL;
    if (m) {
        *m = (struct removal){.all = all, .place = place, .request = q};
        all->users++;
        if (uv_queue_work(all->config.loop, &m->work, on_remove, on_removed) == 0)
            return;
        all->users--;
        kymo_free(m);
    }
    kymo_free(place);
    if (q)
        http_answer_error(q, 503, "no_memory", "no memory to remove an upload; it goes at the next start");
}

void upload_drop(struct upload *u, struct http_request *q)
{
    struct upload **at = &u->all->first;
    u->doomed = true;
    if (u->busy || u->state == UPLOAD_FINISHING) {
        if (q)
            http_answer_json(q, 200, json_pack("{s:b}", "deleted", 1));
        return;
    }
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    /* One that is being stopped has no time for it: the next start has. */
    if (!u->all->closed)
        remove_later(u->all, KYMO_TAKE(u->place), q);
    free_upload(u);
}

static void forget_oldest_done(struct uploads *all)
{
    struct upload *oldest = NULL;
    unsigned n = 0;
    for (struct upload *u = all->first; u; u = u->next)
        if (u->state == UPLOAD_DONE) {
            n++;
            oldest = u;
        }
    if (n > UPLOAD_OPEN_MAX)
        upload_drop(oldest, NULL);
}

void upload_done(struct upload *u, json_t *outcome)
{
    char *place KYMO_FREE = kymo_strdup(u->place);
    u->state = UPLOAD_DONE;
    u->outcome = outcome;
    u->since_ms = uv_now(u->all->config.loop);
    free_files(u);
    if (!u->all->closed)
        remove_later(u->all, KYMO_TAKE(place), NULL);
    if (u->doomed)
        upload_drop(u, NULL);
    else
        forget_oldest_done(u->all);
}

static void on_sweep(uv_timer_t *timer)
{
    struct uploads *all = timer->data;
    uint64_t now = uv_now(all->config.loop);
    struct upload *next;
    for (struct upload *u = all->first; u; u = next) {
        next = u->next;
        if (!u->busy && u->state != UPLOAD_FINISHING && now - u->since_ms > all->config.idle_ms)
            upload_drop(u, NULL);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    uploads_release(handle->data);
}

/* What a crash left; but what the store did not manage to go on with yet (entering.h) stays. */
static void remove_left(struct uploads *all)
{
    DIR *dir = opendir(all->place);
    for (const struct dirent *d; dir && (d = readdir(dir));) {
        bool dot = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
        char *place = dot ? NULL : kymo_asprintf("%s/%s", all->place, d->d_name);
        if (place && !entering_has_begun(place))
            remove_later(all, place, NULL);
        else
            kymo_free(place);
    }
    if (dir)
        (void)closedir(dir);
}

int uploads_new(const struct upload_config *config, struct uploads **ret, struct kymo_err *err)
{
    struct uploads *all = KYMO_NEW(struct uploads);
    if (!all)
        return no_memory(err);
    all->config = *config;
    all->users = 1;
    all->place = kymo_asprintf("%s/" ENTERING_UPLOADS, config->data_path);
    int r = all->place ? kymo_file_mkdirs(all->place, err) : no_memory(err);
    if (r < 0) {
        uploads_free(all);
        return r;
    }
    (void)uv_timer_init(config->loop, &all->timer);
    all->timer.data = all;
    all->users++;
    (void)uv_timer_start(&all->timer, on_sweep, SWEEP_MS, SWEEP_MS);
    remove_left(all);
    *ret = all;
    return 0;
}

void uploads_close(struct uploads *all)
{
    struct upload *next;
    if (!all || all->closed)
        return;
    all->closed = true;
    uv_close((uv_handle_t *)&all->timer, on_timer_closed);
    for (struct upload *u = all->first; u; u = next) {
        next = u->next;
        upload_drop(u, NULL);
    }
}

struct upload *upload_find(const struct uploads *all, const char *user, const char *id)
{
    for (struct upload *u = all->first; u; u = u->next)
        if (!u->doomed && !strcmp(u->id, id) && !strcmp(u->user, user))
            return u;
    return NULL;
}

static int check_room(const struct uploads *all, const char *user, uint64_t bytes, struct kymo_err *err)
{
    uint64_t room, coming = 0, declared = 0;
    unsigned n = 0, mine = 0;
    for (const struct upload *u = all->first; u; u = u->next) {
        if (u->state == UPLOAD_DONE)
            continue;
        n++;
        mine += !strcmp(u->user, user);
        declared += u->declared;
        coming += u->declared > u->bytes ? u->declared - u->bytes : 0;
    }
    if (n >= UPLOAD_OPEN_MAX || mine >= UPLOAD_USER_MAX)
        return kymo_err_set(err, -EBUSY, "%u uploads are under way; end one first", n);
    if (bytes > all->config.max_bytes || declared > all->config.max_bytes - bytes)
        return kymo_err_set(
            err, -ENOSPC, "the upload has %llu bytes; %llu are taken at a time (upload-max), others have %llu of them",
            (unsigned long long)bytes, (unsigned long long)all->config.max_bytes, (unsigned long long)declared);
    int r = kymo_file_free_bytes(all->place, &room, err);
    if (r == 0 && (room < all->config.reserve || room - all->config.reserve < coming ||
                   room - all->config.reserve - coming < bytes))
        r = kymo_err_set(
            err, -ENOSPC,
            "the collector's disk is full: %llu bytes are free besides its reserve and other uploads, the "
            "upload has %llu",
            (unsigned long long)(room > all->config.reserve + coming ? room - all->config.reserve - coming : 0),
            (unsigned long long)bytes);
    return r;
}

static int make_id(char id[static 2 * UPLOAD_ID_BYTES + 1], struct kymo_err *err)
{
    uint8_t bytes[UPLOAD_ID_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return kymo_err_set(err, -EIO, "there is no randomness for an upload");
    kymo_hash_hex(bytes, sizeof bytes, id);
    return 0;
}

json_t *upload_describe(const struct upload *u, bool files)
{
    static const char *const states[] = {"receiving", "finishing", "done", "failed"};
    json_t *o = json_pack("{s:s, s:o, s:I, s:I, s:s}", "id", u->id, "name", json_text(u->name), "bytes",
                          (json_int_t)u->declared, "received", (json_int_t)u->bytes, "state", states[u->state]);
    json_t *list = files ? json_array() : NULL;
    for (size_t i = 0; list && i < u->n; i++) {
        const struct upload_file *f = &u->files[i];
        (void)json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "path", json_text(f->path), "size",
                                                    (json_int_t)f->size, "received", (json_int_t)f->have));
    }
    if (files)
        (void)json_object_set_new(o, "files", list);
    if (u->state == UPLOAD_DONE)
        (void)json_object_update(o, u->outcome);
    if (u->state == UPLOAD_FAILED)
        (void)json_object_set_new(o, "reason", json_text(u->reason));
    return o;
}

static int begin(struct uploads *all, const char *user, const struct upload_want *want, struct upload **ret,
                 struct kymo_err *err)
{
    int r = all->closed ? kymo_err_set(err, -EBUSY, "the collector is being stopped")
                        : check_room(all, user, want->bytes, err);
    if (r < 0)
        return r;
    struct upload *u = KYMO_NEW(struct upload);
    if (!u)
        return no_memory(err);
    u->all = all;
    all->users++;
    u->declared = want->bytes;
    u->since_ms = uv_now(all->config.loop);
    (void)snprintf(u->user, sizeof u->user, "%s", user);
    (void)snprintf(u->name, sizeof u->name, "%s", want->name);
    r = make_id(u->id, err);
    if (r == 0 && !(u->place = kymo_asprintf("%s/%s", all->place, u->id)))
        r = no_memory(err);
    if (r == 0)
        r = kymo_file_mkdirs(u->place, err);
    if (r < 0) {
        free_upload(u);
        return r;
    }
    u->next = all->first;
    all->first = u;
    *ret = u;
    return 0;
}

void upload_begin(struct uploads *all, const char *user, const struct upload_want *want, struct http_request *q)
{
    struct upload *u;
    struct kymo_err err = {0};
    if (begin(all, user, want, &u, &err) < 0)
        http_answer_err(q, &err);
    else
        http_answer_json(q, 201, upload_describe(u, false));
}

void upload_list(struct uploads *all, const char *user, struct http_request *q)
{
    json_t *list = json_array();
    for (const struct upload *u = all->first; u; u = u->next)
        if (!u->doomed && u->state != UPLOAD_DONE && !strcmp(u->user, user))
            (void)json_array_append_new(list, upload_describe(u, false));
    http_answer_json(q, 200,
                     json_pack("{s:o, s:I, s:i}", "uploads", list, "max_bytes", (json_int_t)all->config.max_bytes,
                               "max_files", MANIFEST_FILES_MAX - 1));
}

/* NULL: answered. */
static struct upload *find(const struct uploads *all, const char *user, const char *id, struct http_request *q)
{
    struct upload *u = upload_find(all, user, id);
    if (!u)
        http_answer_error(q, 404, "not_found",
                          "there is no such upload; one that nobody goes on with for %llu s is removed",
                          (unsigned long long)all->config.idle_ms / 1000);
    return u;
}

void upload_show(struct uploads *all, const char *user, const char *id, struct http_request *q)
{
    const struct upload *u = find(all, user, id, q);
    if (u)
        http_answer_json(q, 200, upload_describe(u, true));
}

void upload_remove(struct uploads *all, const char *user, const char *id, struct http_request *q)
{
    struct upload *u = find(all, user, id, q);
    if (!u)
        return;
    if (u->state == UPLOAD_FINISHING)
        http_answer_error(q, 409, "conflict", "it is here, and enters the store");
    else
        upload_drop(u, q);
}

void upload_finish(struct uploads *all, const char *user, const char *id, struct http_request *q)
{
    struct upload *u = find(all, user, id, q);
    if (!u)
        return;
    if (u->state == UPLOAD_FINISHING || u->state == UPLOAD_DONE) {
        http_answer_json(q, u->state == UPLOAD_DONE ? 200 : 202, upload_describe(u, false));
        return;
    }
    if (u->busy > 0) {
        http_answer_error(q, 409, "conflict", "a file is still coming");
        return;
    }
    for (size_t i = 0; i < u->n; i++)
        if (!u->files[i].whole) {
            http_answer_error(q, 409, "conflict", "%.200s: %llu of %llu bytes are here", u->files[i].path,
                              (unsigned long long)u->files[i].have, (unsigned long long)u->files[i].size);
            return;
        }
    upload_publish(u, q);
}
