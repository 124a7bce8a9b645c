/*
 * Uploads by users of the page: files come one after another, in pieces, into <data-path>/uploads/<id>/, and enter the
 * raw store as one capture when all are here (upload_publish.h), whose profiles are made as those of any other. What is
 * broken off leaves nothing: an upload that nobody goes on with is removed, and so is what a crash left, but for what
 * was entering the store (entering.h). On the loop's thread; files are opened, written, hashed, made durable and
 * removed on libuv's threads.
 */
#ifndef KYMO_COLLECTOR_UPLOAD_H
#define KYMO_COLLECTOR_UPLOAD_H

#include "collector/http.h"
#include "collector/store_thread.h"

#define UPLOAD_OPEN_MAX 64         /* uploads at a time, of all users */
#define UPLOAD_USER_MAX 8          /* and of one */
#define UPLOAD_BUFFER (256u << 10) /* of a piece on its way to the disk */
#define UPLOAD_SYNC (64u << 20)    /* of a file, until they are made durable, so that its end needs no long time */
#define UPLOAD_SILENT_MS 2000      /* nothing has come of a piece: another connection may take it over */
#define UPLOAD_ID_BYTES 8
#define UPLOAD_TEXT_MAX 100

struct upload_config {
    uv_loop_t *loop;
    struct store_thread *store;
    const char *data_path;                /* must live as long */
    uint64_t reserve, max_bytes, idle_ms; /* max_bytes: of all uploads at a time */
};

struct uploads;

/* Removes what a crash left, by and by. max_bytes 0: that is all it does. */
int uploads_new(const struct upload_config *config, struct uploads **ret, struct kymo_err *err) KYMO_MUST_CHECK;
/* No new ones; what is under way ends by itself, before store_thread_free. NULL is fine. */
void uploads_close(struct uploads *all);
struct uploads *uploads_free(struct uploads *all); /* NULL is fine; returns NULL */

/* What the API does (api_upload.h): each answers the request, now or later. user: who asks; others' are not there. */
struct upload_want {
    const char *name; /* what the capture is to be called */
    uint64_t bytes;   /* that will come */
};
void upload_begin(struct uploads *all, const char *user, const struct upload_want *want, struct http_request *q);
void upload_list(struct uploads *all, const char *user, struct http_request *q);
void upload_show(struct uploads *all, const char *user, const char *id, struct http_request *q);
void upload_remove(struct uploads *all, const char *user, const char *id, struct http_request *q);
/* 202, when what is to become of it will survive a crash; upload_show tells how it ends. Again for one that has failed:
 * it is tried again. */
void upload_finish(struct uploads *all, const char *user, const char *id, struct http_request *q);

/* A piece of a file, which comes as the request's body (http_body.h). */
struct upload_piece {
    const char *path;
    uint64_t size, offset;
    bool source; /* source text for the page */
};
void upload_put(struct uploads *all, const char *user, const char *id, const struct upload_piece *piece,
                struct http_request *q);

#endif
