/*
 * The collector's HTTP API, /api/v1 and /metrics (openapi.json): routes for http.h over the catalogue, which it reads
 * through a connection of its own, and what the collector's other parts give it (struct api_source). All on the loop's
 * thread. An answer has a bounded number of rows, and looks at a bounded number for them.
 */
#ifndef KYMO_COLLECTOR_API_H
#define KYMO_COLLECTOR_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collector/http.h"

#define API_CAUSES_MAX 32
#define API_CORES_MAX 128

/* A daemon that is connected. Strings are what it said; they need not outlive the call. */
struct api_host {
    const char *name, *address, *version;
    int64_t connected_ns;     /* since the Unix epoch */
    uint64_t captures, bytes; /* received from it on this connection */
    uint64_t open;            /* captures on their way */
};

/* Since the collector's start, or now. */
struct api_figures {
    int64_t started_ns; /* since the Unix epoch */
    uint64_t hosts, hosts_accepted;
    uint64_t captures_stored, captures_known, captures_open; /* known: offered again though stored */
    uint64_t bytes_received, bytes_waiting;                  /* waiting: not taken by the store yet */
    uint64_t incoming, incoming_bytes;                       /* captures that are not complete, on the disk */
    uint64_t forgotten_age, forgotten_room;                  /* of those, given up: nobody went on with them */
    struct {
        const char *cause;
        uint64_t n;
    } refused[API_CAUSES_MAX]; /* captures and connections turned away */
    size_t n_refused;
    uint64_t profiles_ready, profiles_failed, processing_ns; /* made by this process; time that it took */
    uint64_t disk_free, disk_total;
    const char *trouble; /* why the store does not go on, such as a full disk; NULL: it does */
};

/* Profiles to be made again: one of the three. */
struct api_reprocess {
    const char *profile, *capture;
    bool failed; /* all that have failed */
};

struct api_capture_request {
    const char *job, *host, *mode; /* NULL: any job, every host, the policy's mode */
    uint64_t step;                 /* 0: the next */
    uint32_t ranks_one_in;         /* 0: as the policy says */
    size_t n_cores;                /* 0: all */
    uint32_t cores[API_CORES_MAX];
};

/* What one host answered: ids of captures, or why not. */
struct api_capture_answer {
    const char *host;
    const char *const *captures;
    size_t n_captures;
    const char *error; /* NULL: it has begun */
};

/* Of the other parts. What answers later must do so within HTTP_ANSWER_MS, once, on the loop, whatever happens. */
struct api_source {
    void (*figures)(void *ctx, struct api_figures *ret);
    void (*hosts)(void *ctx, void (*each)(void *each_ctx, const struct api_host *host), void *each_ctx);
    /* Queues profiles; api_reprocessed follows, maybe before this returns. what must not be kept. */
    void (*reprocess)(void *ctx, const struct api_reprocess *what, struct http_request *request);
    /* Asks the daemons; api_captured follows when all have answered, or have had their time. */
    void (*capture)(void *ctx, const struct api_capture_request *what, struct http_request *request);
    /* Removes a profile for good, for this user; api_removed follows. NULL: this store cannot be changed. */
    void (*remove)(void *ctx, const char *profile, const char *user, struct http_request *request);
    /* Pins one, or lets go of it; api_pinned follows. NULL likewise. */
    void (*pin)(void *ctx, const char *profile, bool pinned, struct http_request *request);
    void *ctx;
};

/* err NULL: n profiles were queued. -ENOENT, -EINVAL (its state), -EBUSY, -ENOSPC, ... */
void api_reprocessed(struct http_request *request, uint64_t n, const struct kymo_err *err);
/* err NULL: it is done. -ENOENT, -EALREADY, -EPERM, -EBUSY, ... */
void api_removed(struct http_request *request, const struct kymo_err *err);
void api_pinned(struct http_request *request, bool pinned, const struct kymo_err *err);
/* err NULL: the answers of n hosts, maybe none. */
void api_captured(struct http_request *request, const struct api_capture_answer *answers, size_t n,
                  const struct kymo_err *err);

struct api;

/* Opens the catalogue, which must exist. source is copied. */
int api_new(const char *data_path, const struct api_source *source, struct api **ret,
            struct kymo_err *err) KYMO_MUST_CHECK;
/* After http_close. NULL is fine; returns NULL. */
struct api *api_free(struct api *a);
/* For http_config: routes, with the api as their context. */
const struct http_route *api_routes(size_t *ret_n);
/* The same for http_config.body_routes. */
const struct http_route *api_body_routes(size_t *ret_n);
/* Who answers questions about tables; NULL: nobody. */
struct query_pool;
void api_set_pool(struct api *a, struct query_pool *pool);
/* What users keep; NULL: nothing. */
struct viewer_store;
void api_set_store(struct api *a, struct viewer_store *store);
/* Where uploads go; NULL: none are taken. */
struct uploads;
void api_set_uploads(struct api *a, struct uploads *uploads);
/* Folders of source texts, absolute, which must live as long; NULL: none. */
void api_set_sources(struct api *a, const char *framework_root, const char *nki_root);
/* The files of the web page; NULL: none. */
struct page_files;
void api_set_page(struct api *a, const struct page_files *page);
/* The server whose figures /metrics shows; NULL: none. */
void api_set_http(struct api *a, const struct http *h);

#endif
