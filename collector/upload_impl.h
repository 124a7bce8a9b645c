/* What the files of uploads share. */
#ifndef KYMO_COLLECTOR_UPLOAD_IMPL_H
#define KYMO_COLLECTOR_UPLOAD_IMPL_H

#include "base/hash.h"
#include "collector/upload.h"
#include "proto/manifest_check.h"

struct upload_file {
    char *path; /* as the user's folder has it */
    uint64_t size, have;
    bool source, whole, busy; /* busy: a piece is on its way */
    int fd;                   /* while it is not whole */
    struct kymo_sha256 *sha;  /* of what is here, likewise */
    uint8_t sha256[KYMO_SHA256_SIZE];
};

struct upload {
    struct upload *next;
    struct uploads *all;
    char id[2 * UPLOAD_ID_BYTES + 1], user[MANIFEST_TEXT_MAX + 1], name[UPLOAD_TEXT_MAX + 1];
    char *place; /* its directory */
    uint64_t bytes, declared;
    struct upload_file *files;
    size_t n, cap;
    unsigned busy; /* pieces on their way */
    bool publishing, doomed;
    uint64_t since_ms; /* when something last happened */
};

struct uploads {
    struct upload_config config;
    struct upload *first;
    char *place;
    uv_timer_t timer;
    bool closed;
    unsigned users; /* itself, its timer, jobs */
};

struct upload *upload_find(const struct uploads *all, const char *user, const char *id);
char *upload_part_path(const struct upload *u, size_t i);
/* Removes it with its directory, now or when nobody is at work on it any more. */
void upload_drop(struct upload *u);
void uploads_release(struct uploads *all);

#endif
