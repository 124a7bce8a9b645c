#include "collector/raw_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "collector/raw_store_impl.h"

int raw_no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the raw store");
}

struct raw_store *raw_store_free(struct raw_store *s)
{
    if (!s)
        return NULL;
    kymo_free(s->captures);
    kymo_free(s->incoming);
    kymo_free(s->neffs);
    kymo_free(s);
    return NULL;
}

static void store_freep(struct raw_store **s)
{
    raw_store_free(*s);
}

static int make_places(struct raw_store *s, const char *data_path, struct kymo_err *err)
{
    s->captures = kymo_asprintf("%s/raw/captures", data_path);
    s->incoming = kymo_asprintf("%s/raw/incoming", data_path);
    s->neffs = kymo_asprintf("%s/raw/neff", data_path);
    if (!s->captures || !s->incoming || !s->neffs)
        return raw_no_memory(err);
    int r = kymo_file_mkdirs(s->captures, err);
    if (r == 0)
        r = kymo_file_mkdirs(s->incoming, err);
    if (r == 0)
        r = kymo_file_mkdirs(s->neffs, err);
    /* The names of the three, and of raw itself, must be as durable as what will be put below them. */
    if (r == 0)
        r = kymo_file_sync_parent(s->captures, err);
    return r < 0 ? r : kymo_file_sync_dir(data_path, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(const char *path, char ***names, size_t *n, struct kymo_err *err)
{
    DIR *d = opendir(path);
    if (!d)
        return kymo_err_set(err, -errno, "%s: cannot be listed: %s", path, strerror(errno));
    size_t cap = 0;
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(d));) {
        if (!manifest_is_id(e->d_name))
            continue;
        void *p = *names;
        r = kymo_grow(&p, &cap, *n + 1, RAW_CAPTURES_MAX, sizeof **names);
        *names = p;
        if (r == 0 && !((*names)[*n] = kymo_strdup(e->d_name)))
            r = -ENOMEM;
        *n += r == 0;
    }
    (void)closedir(d);
    return r < 0 ? raw_no_memory(err) : 0;
}

static int list_ids(const char *path, int (*each)(void *ctx, const char *id), void *ctx, struct kymo_err *err)
{
    char **names = NULL;
    size_t n = 0;
    int r = read_names(path, &names, &n, err);
    if (n)
        qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = each(ctx, names[i]);
    for (size_t i = 0; i < n; i++)
        kymo_free(names[i]);
    kymo_free(names);
    return r;
}

int raw_store_list(const struct raw_store *s, int (*each)(void *ctx, const char *id), void *ctx, struct kymo_err *err)
{
    return list_ids(s->captures, each, ctx, err);
}

int raw_store_list_incoming(const struct raw_store *s, int (*each)(void *ctx, const char *id), void *ctx,
                            struct kymo_err *err)
{
    return list_ids(s->incoming, each, ctx, err);
}

bool raw_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

struct recovery {
    struct raw_store *s;
    struct kymo_err *err;
};

/* Without a manifest nobody knows what was to come; published ones need their temporary place no longer. */
static int recover_one(void *ctx, const char *id)
{
    struct recovery *rec = ctx;
    char *place KYMO_FREE = kymo_asprintf("%s/%s", rec->s->incoming, id);
    char *manifest KYMO_FREE = kymo_asprintf("%s/%s/tree/" MANIFEST_FILE, rec->s->incoming, id);
    char *published KYMO_FREE = kymo_asprintf("%s/%s", rec->s->captures, id);
    if (!place || !manifest || !published)
        return raw_no_memory(rec->err);
    if (raw_exists(manifest) && !raw_exists(published))
        return 0;
    return kymo_file_remove_tree(place, rec->err);
}

int raw_store_open(const char *data_path, uint64_t reserve, struct raw_store **ret, struct kymo_err *err)
{
    struct raw_store *s KYMO_CLEANUP(store_freep) = KYMO_NEW(struct raw_store);
    if (!s)
        return raw_no_memory(err);
    s->reserve = reserve;
    int r = make_places(s, data_path, err);
    if (r == 0)
        r = raw_store_list_incoming(s, recover_one, &(struct recovery){s, err}, err);
    if (r == 0)
        *ret = KYMO_TAKE(s);
    return r;
}

char *raw_store_neff_path(const struct raw_store *s, const uint8_t sha256[static 32])
{
    char hex[2 * KYMO_SHA256_SIZE + 1];
    kymo_hash_hex(sha256, KYMO_SHA256_SIZE, hex);
    return kymo_asprintf("%s/%s.neff", s->neffs, hex);
}

bool raw_is_neff(const Kymo__Manifest__File *f)
{
    return f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NEFF;
}

char *raw_store_file_path(const struct raw_store *s, const char *id, const Kymo__Manifest__File *f)
{
    return raw_is_neff(f) ? raw_store_neff_path(s, f->sha256.data)
                          : kymo_asprintf("%s/%s/%s", s->captures, id, f->name);
}

char *raw_store_manifest_path(const struct raw_store *s, const char *id)
{
    return kymo_asprintf("%s/%s/" MANIFEST_FILE, s->captures, id);
}

int raw_store_manifest(const struct raw_store *s, const char *id, Kymo__Manifest__Capture **ret, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    if (!manifest_is_id(id))
        return kymo_err_set(err, -EINVAL, "\"%.64s\" is no capture id", id);
    char *path KYMO_FREE = raw_store_manifest_path(s, id);
    if (!path)
        return raw_no_memory(err);
    int r = kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &n, err);
    if (r < 0)
        return r;
    r = manifest_parse(data, n, ret, err);
    if (r < 0)
        kymo_err_prefix(err, "%s", path);
    return r;
}

int raw_store_discard(struct raw_store *s, const char *id, struct kymo_err *err)
{
    if (!manifest_is_id(id))
        return kymo_err_set(err, -EINVAL, "\"%.64s\" is no capture id", id);
    char *place KYMO_FREE = kymo_asprintf("%s/%s", s->incoming, id);
    return place ? kymo_file_remove_tree(place, err) : raw_no_memory(err);
}

int raw_store_remove(struct raw_store *s, const char *id, struct kymo_err *err)
{
    if (!manifest_is_id(id))
        return kymo_err_set(err, -EINVAL, "\"%.64s\" is no capture id", id);
    char *published KYMO_FREE = kymo_asprintf("%s/%s", s->captures, id);
    char *place KYMO_FREE = kymo_asprintf("%s/%s", s->incoming, id);
    if (!published || !place)
        return raw_no_memory(err);
    if (!raw_exists(published))
        return 0;
    /* Without tree/ in it, that place is nobody's after a crash (recover_one). */
    int r = kymo_file_remove_tree(place, err);
    if (r == 0)
        r = kymo_file_rename(published, place, err);
    if (r == 0)
        r = kymo_file_sync_dir(s->captures, err);
    return r < 0 ? r : kymo_file_remove_tree(place, err);
}

int raw_store_take_away(struct raw_store *s, const char *id, const char *to, struct kymo_err *err)
{
    if (!manifest_is_id(id))
        return kymo_err_set(err, -EINVAL, "\"%.64s\" is no capture id", id);
    char *published KYMO_FREE = kymo_asprintf("%s/%s", s->captures, id);
    if (!published)
        return raw_no_memory(err);
    if (!raw_exists(published))
        return kymo_err_set(err, -ENOENT, "there is no capture %s", id);
    int r = kymo_file_rename(published, to, err);
    return r < 0 ? r : kymo_file_sync_dir(s->captures, err);
}

int raw_check_room(const struct raw_store *s, uint64_t need, struct kymo_err *err)
{
    struct statvfs v;
    if (!s->reserve)
        return 0;
    if (statvfs(s->incoming, &v) < 0)
        return kymo_err_set(err, -errno, "%s: cannot tell free space: %s", s->incoming, strerror(errno));
    uint64_t room = (uint64_t)v.f_bavail * v.f_frsize;
    if (room >= s->reserve && room - s->reserve >= need)
        return 0;
    return kymo_err_set(err, -ENOSPC, "%s: %llu bytes are free, %llu are needed besides a reserve of %llu", s->incoming,
                        (unsigned long long)room, (unsigned long long)need, (unsigned long long)s->reserve);
}
