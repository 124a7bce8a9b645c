#include "collector/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/entering.h"

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the store");
}

struct store *store_free(struct store *s)
{
    if (!s)
        return NULL;
    incoming_free(s->incoming);
    catalog_free(s->catalog);
    raw_store_free(s->raw);
    kymo_file_close(s->lock);
    kymo_free(s->data_path);
    kymo_free(s);
    return NULL;
}

static void store_freep(struct store **s)
{
    store_free(*s);
}

/* The lock goes with the process, however that ends; the number in it is for people. */
static int lock(struct store *s, struct kymo_err *err)
{
    char text[24] = "", holder[24] = "";
    char *path KYMO_FREE = kymo_asprintf("%s/lock", s->data_path);
    if (!path)
        return no_memory(err);
    s->lock = kymo_file_open(path, O_RDWR | O_CREAT, 0666, err);
    if (s->lock < 0)
        return s->lock;
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0) {
        int cause = errno;
        (void)kymo_file_ops()->pread(s->lock, holder, sizeof holder - 1, 0);
        holder[strspn(holder, "0123456789")] = '\0';
        return cause == EWOULDBLOCK ? kymo_err_set(err, -EBUSY, "%s: process %s works on this store", s->data_path,
                                                   *holder ? holder : "of another program")
                                    : kymo_err_set(err, -cause, "%s: cannot be locked: %s", path, strerror(cause));
    }
    (void)snprintf(text, sizeof text, "%-16ld\n", (long)getpid());
    /* On a full disk the store must still open, so that it can be told about. */
    (void)kymo_file_ops()->pwrite(s->lock, text, strlen(text), 0);
    return 0;
}

struct recovery {
    struct store *s;
    struct kymo_err *err;
    char (*ids)[MANIFEST_ID_MAX + 1];
    size_t n, cap;
};

static int add_published(void *ctx, const char *id)
{
    struct recovery *rec = ctx;
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    int r = catalog_has_capture(rec->s->catalog, id, rec->err);
    if (r != 0)
        return r < 0 ? r : 0;
    /* A manifest that somebody damaged takes nothing else with it. */
    if (raw_store_manifest(rec->s->raw, id, &m, NULL) < 0 || strcmp(m->capture_id, id) != 0)
        return 0;
    r = catalog_received(rec->s->catalog, m, rec->err);
    return r == -EINVAL ? 0 : r; /* nor does one whose names other captures have */
}

static int note_receiving(void *ctx, const struct catalog_capture *capture)
{
    struct recovery *rec = ctx;
    void *p = rec->ids;
    if (strcmp(capture->state, "receiving") != 0)
        return 0;
    int r = kymo_grow(&p, &rec->cap, rec->n + 1, 1u << 20, sizeof *rec->ids);
    rec->ids = p;
    if (r < 0)
        return no_memory(rec->err);
    memcpy(rec->ids[rec->n++], capture->id, sizeof *rec->ids);
    return 0;
}

/* Those are in the list that have a place in raw/incoming no longer. */
static int forget_lost(struct recovery *rec)
{
    int r = catalog_list_captures(rec->s->catalog, note_receiving, rec, rec->err);
    for (size_t i = 0; r == 0 && i < rec->n; i++) {
        char *place KYMO_FREE = kymo_asprintf("%s/raw/incoming/%s", rec->s->data_path, rec->ids[i]);
        if (!place)
            r = no_memory(rec->err);
        else if (access(place, F_OK) < 0)
            r = catalog_forget(rec->s->catalog, rec->ids[i], rec->err);
    }
    kymo_free(rec->ids);
    return r;
}

static int recover(struct store *s, struct kymo_err *err)
{
    struct recovery rec = {.s = s, .err = err};
    /* First, since they know whose those are that are published already. */
    int r = entering_recover(s, err);
    if (r == 0)
        r = raw_store_list(s->raw, add_published, &rec, err);
    if (r == 0)
        r = forget_lost(&rec);
    return r < 0 ? r : catalog_recover(s->catalog, err);
}

static int find_data_path(struct store *s, const char *data_path, struct kymo_err *err)
{
    char real[PATH_MAX];
    int r = kymo_file_mkdirs(data_path, err);
    if (r < 0)
        return r;
    if (!realpath(data_path, real))
        return kymo_err_set(err, -errno, "%s: %s", data_path, strerror(errno));
    s->data_path = kymo_strdup(real);
    return s->data_path ? 0 : no_memory(err);
}

int store_open(const char *data_path, uint64_t reserve, struct store **ret, struct kymo_err *err)
{
    struct store *s KYMO_CLEANUP(store_freep) = KYMO_NEW(struct store);
    if (!s)
        return no_memory(err);
    s->lock = -1;
    int r = find_data_path(s, data_path, err);
    if (r == 0)
        r = lock(s, err);
    if (r == 0)
        r = raw_store_open(s->data_path, reserve, &s->raw, err);
    char *path KYMO_FREE = r < 0 ? NULL : kymo_asprintf("%s/catalog.db", s->data_path);
    if (r == 0)
        r = path ? catalog_open(path, false, &s->catalog, err) : no_memory(err);
    if (r == 0)
        r = recover(s, err);
    if (r == 0)
        r = incoming_new(s->raw, s->catalog, &s->incoming, err);
    if (r == 0)
        *ret = KYMO_TAKE(s);
    return r;
}

int store_commit(struct store *s, struct raw_capture *c, struct kymo_err *err)
{
    return store_commit_of(s, c, NULL, err);
}

int store_commit_of(struct store *s, struct raw_capture *c, const char *owner, struct kymo_err *err)
{
    const Kymo__Manifest__Capture *m = raw_capture_manifest(c);
    int r = raw_capture_commit(c, err);
    if (r == 0)
        r = catalog_received_of(s->catalog, m, owner, err);
    return r < 0 ? r : catalog_queue_received(s->catalog, m->capture_id, err);
}
