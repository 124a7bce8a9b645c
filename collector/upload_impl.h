/* What the files of uploads share. */
#ifndef KYMO_COLLECTOR_UPLOAD_IMPL_H
#define KYMO_COLLECTOR_UPLOAD_IMPL_H

#include "base/hash.h"
#include "collector/upload.h"
#include "proto/manifest_check.h"

struct upload_put;

struct upload_file {
    char *path; /* as the user's folder has it */
    uint64_t size, have, durable;
    bool source, whole;      /* whole: durable, too */
    struct upload_put *put;  /* a piece that is on its way; NULL: none */
    struct kymo_sha256 *sha; /* of what is here, while it is not whole */
    uint8_t sha256[KYMO_SHA256_SIZE];
};

enum upload_state { UPLOAD_RECEIVING, UPLOAD_FINISHING, UPLOAD_DONE, UPLOAD_FAILED };

struct upload {
    struct upload *next;
    struct uploads *all;
    char id[2 * UPLOAD_ID_BYTES + 1], user[MANIFEST_TEXT_MAX + 1], name[UPLOAD_TEXT_MAX + 1];
    char *place; /* its directory */
    uint64_t bytes, declared;
    struct upload_file *files;
    size_t n, cap;
    unsigned busy; /* pieces on their way */
    enum upload_state state;
    bool doomed;
    uint64_t since_ms; /* when something last happened */
    json_t *outcome;   /* of one that is done: what upload_show adds */
    char reason[KYMO_ERR_TEXT_MAX];
};

struct uploads {
    struct upload_config config;
    struct upload *first;
    char *place;
    uv_timer_t timer;
    bool closed;
    unsigned users; /* itself, its timer, uploads, removals */
};

struct upload *upload_find(const struct uploads *all, const char *user, const char *id);
char *upload_part_path(const struct upload *u, size_t i);
/* Removes it with its directory, now or when nobody is at work on it any more. q: is answered when that is gone; may be
 * NULL. */
void upload_drop(struct upload *u, struct http_request *q);
/* It is in the store, and only what became of it is kept, for a while; outcome becomes its. */
void upload_done(struct upload *u, json_t *outcome);
/* Its answer to GET. */
json_t *upload_describe(const struct upload *u, bool files);
void uploads_release(struct uploads *all);

#endif
