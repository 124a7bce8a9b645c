/* One capture of the raw store while it is received. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "collector/raw_store_impl.h"

struct incoming_file {
    int fd; /* -1: not open */
    uint64_t have;
    bool kept; /* checked, durable and in its place */
};

struct raw_capture {
    struct raw_store *store;
    Kymo__Manifest__Capture *m;
    struct incoming_file *files;
    char *place; /* incoming/<id> */
};

struct raw_capture *raw_capture_free(struct raw_capture *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; c->files && i < c->m->n_files; i++)
        kymo_file_close(c->files[i].fd);
    kymo_free(c->files);
    kymo_free(c->place);
    manifest_freep(&c->m);
    kymo_free(c);
    return NULL;
}

static void capture_freep(struct raw_capture **c)
{
    raw_capture_free(*c);
}

const Kymo__Manifest__Capture *raw_capture_manifest(const struct raw_capture *c)
{
    return c->m;
}

uint64_t raw_capture_offset(const struct raw_capture *c, size_t i)
{
    return c->files[i].have;
}

bool raw_capture_has_file(const struct raw_capture *c, size_t i)
{
    return c->files[i].kept;
}

static char *part_path(const struct raw_capture *c, size_t i)
{
    return kymo_asprintf("%s/part-%zu", c->place, i);
}

static char *kept_path(const struct raw_capture *c, size_t i)
{
    const Kymo__Manifest__File *f = c->m->files[i];
    return raw_is_neff(f) ? raw_store_neff_path(c->store, f->sha256.data)
                          : kymo_asprintf("%s/tree/%s", c->place, f->name);
}

/* A name that is there was put there by a rename after its contents were checked and durable; the size is a cheap
 * second look. */
static int look_at_file(struct raw_capture *c, size_t i, struct kymo_err *err)
{
    struct incoming_file *f = &c->files[i];
    char *kept KYMO_FREE = kept_path(c, i);
    char *part KYMO_FREE = part_path(c, i);
    struct stat st;
    uint64_t size = c->m->files[i]->size;
    if (!kept || !part)
        return raw_no_memory(err);
    if (lstat(kept, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size) {
        f->kept = true;
        f->have = size;
    } else if (lstat(part, &st) == 0 && S_ISREG(st.st_mode)) {
        f->have = (uint64_t)st.st_size <= size ? (uint64_t)st.st_size : 0;
    }
    return 0;
}

static int look_at_files(struct raw_capture *c, uint64_t here, struct kymo_err *err)
{
    uint64_t missing = 0;
    c->files = KYMO_NEW_ARRAY(struct incoming_file, c->m->n_files + 1);
    if (!c->files)
        return raw_no_memory(err);
    for (size_t i = 0; i < c->m->n_files; i++)
        c->files[i].fd = -1;
    for (size_t i = 0; i < c->m->n_files; i++) {
        int r = look_at_file(c, i, err);
        if (r < 0)
            return r;
        missing += c->m->files[i]->size - c->files[i].have;
    }
    return raw_check_room(c->store, missing > here ? missing - here : 0, err);
}

/* 1: the manifest at path is these bytes. 0: there is none. */
static int same_manifest(const char *path, const char *id, const void *manifest, size_t n, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t have;
    if (!raw_exists(path))
        return 0;
    int r = kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &have, err);
    if (r < 0)
        return r;
    if (have != n || memcmp(data, manifest, n) != 0)
        return kymo_err_set(err, -EEXIST, "capture %s is known with another manifest", id);
    return 1;
}

/* The manifest is durable before any byte of a file: a capture that is found without one is nobody's. */
static int make_place(struct raw_capture *c, const void *manifest, size_t n, struct kymo_err *err)
{
    char *tree KYMO_FREE = kymo_asprintf("%s/tree", c->place);
    char *path KYMO_FREE = kymo_asprintf("%s/tree/" MANIFEST_FILE, c->place);
    if (!tree || !path)
        return raw_no_memory(err);
    int r = same_manifest(path, c->m->capture_id, manifest, n, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = kymo_file_mkdirs(tree, err);
    if (r == 0)
        r = kymo_file_write_atomic(path, manifest, n, err);
    if (r == 0)
        r = kymo_file_sync_dir(c->place, err);
    return r < 0 ? r : kymo_file_sync_dir(c->store->incoming, err);
}

int raw_store_begin(struct raw_store *s, const void *manifest, size_t n, struct raw_capture **ret, struct kymo_err *err)
{
    return raw_store_begin_adopting(s, manifest, n, 0, ret, err);
}

int raw_store_begin_adopting(struct raw_store *s, const void *manifest, size_t n, uint64_t here,
                             struct raw_capture **ret, struct kymo_err *err)
{
    struct raw_capture *c KYMO_CLEANUP(capture_freep) = KYMO_NEW(struct raw_capture);
    if (!c)
        return raw_no_memory(err);
    c->store = s;
    int r = manifest_parse(manifest, n, &c->m, err);
    if (r < 0)
        return r;
    c->place = kymo_asprintf("%s/%s", s->incoming, c->m->capture_id);
    char *published KYMO_FREE = raw_store_manifest_path(s, c->m->capture_id);
    if (!c->place || !published)
        return raw_no_memory(err);
    r = same_manifest(published, c->m->capture_id, manifest, n, err);
    if (r != 0)
        return r < 0 ? r : RAW_STORED;
    bool there = raw_exists(c->place);
    r = make_place(c, manifest, n, err);
    if (r == 0)
        r = look_at_files(c, here, err);
    if (r < 0) {
        /* What this call made is nobody's. What of it does not go now goes when the store is opened, or by its age. */
        if (!there)
            (void)!kymo_file_remove_tree(c->place, NULL);
        return r;
    }
    *ret = KYMO_TAKE(c);
    return RAW_RECEIVE;
}

static void add_usage(const char *path, struct raw_usage *u)
{
    struct stat st;
    if (!path || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    u->bytes += (uint64_t)st.st_size;
    u->changed_ns = changed > u->changed_ns ? changed : u->changed_ns;
}

int raw_store_incoming_usage(const struct raw_store *s, const char *id, struct raw_usage *ret, struct kymo_err *err)
{
    struct raw_capture c = {.place = kymo_asprintf("%s/%s", s->incoming, id)};
    char *place KYMO_FREE = c.place, *path KYMO_FREE = kymo_asprintf("%s/%s/tree/" MANIFEST_FILE, s->incoming, id);
    uint8_t *data KYMO_FREE = NULL;
    size_t n = 0;
    if (!place || !path)
        return raw_no_memory(err);
    if (!raw_exists(place))
        return kymo_err_set(err, -ENOENT, "capture %s is not being received", id);
    *ret = (struct raw_usage){0};
    add_usage(path, ret);
    /* Of a manifest that somebody damaged there is no more to be told. */
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    if (kymo_file_read_all(path, MANIFEST_BYTES_MAX, &data, &n, NULL) < 0 || manifest_parse(data, n, &m, NULL) < 0)
        return 0;
    c.m = m;
    for (size_t i = 0; i < m->n_files; i++) {
        char *part KYMO_FREE = part_path(&c, i);
        char *kept KYMO_FREE = raw_is_neff(m->files[i]) ? NULL : kept_path(&c, i);
        add_usage(part, ret);
        add_usage(kept, ret);
    }
    return 0;
}

uint64_t raw_store_need(const struct raw_store *s, const Kymo__Manifest__Capture *m)
{
    uint64_t need = 0;
    char *published KYMO_FREE = raw_store_manifest_path(s, m->capture_id);
    if (published && raw_exists(published))
        return 0;
    for (size_t i = 0; i < m->n_files; i++) {
        char *neff KYMO_FREE = raw_is_neff(m->files[i]) ? raw_store_neff_path(s, m->files[i]->sha256.data) : NULL;
        if (!neff || !raw_exists(neff))
            need += m->files[i]->size;
    }
    return need;
}

static int open_part(struct raw_capture *c, size_t i, struct kymo_err *err)
{
    struct incoming_file *f = &c->files[i];
    if (f->fd >= 0)
        return 0;
    char *path KYMO_FREE = part_path(c, i);
    if (!path)
        return raw_no_memory(err);
    int fd = kymo_file_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666, err);
    if (fd < 0)
        return fd;
    f->fd = fd;
    return 0;
}

/* What cannot be trusted is received again. */
static void begin_anew(struct raw_capture *c, size_t i)
{
    char *path KYMO_FREE = part_path(c, i);
    c->files[i].fd = kymo_file_close(c->files[i].fd);
    c->files[i].have = 0;
    if (path)
        (void)kymo_file_ops()->unlink(path);
}

int raw_capture_write(struct raw_capture *c, size_t i, uint64_t offset, const void *data, size_t n,
                      struct kymo_err *err)
{
    if (i >= c->m->n_files)
        return kymo_err_set(err, -EINVAL, "capture %s has no file %zu", c->m->capture_id, i);
    struct incoming_file *f = &c->files[i];
    const Kymo__Manifest__File *file = c->m->files[i];
    if (offset > file->size || n > file->size - offset)
        return kymo_err_set(err, -EFBIG, "%s/%s: %zu bytes at offset %llu are beyond its size of %llu",
                            c->m->capture_id, file->name, n, (unsigned long long)offset,
                            (unsigned long long)file->size);
    if (offset > f->have)
        return kymo_err_set(err, -ERANGE, "%s/%s: offset %llu leaves a gap behind %llu", c->m->capture_id, file->name,
                            (unsigned long long)offset, (unsigned long long)f->have);
    if (offset + n <= f->have)
        return 0;
    size_t skip = (size_t)(f->have - offset);
    int r = raw_check_room(c->store, n - skip, err);
    if (r == 0)
        r = open_part(c, i, err);
    if (r == 0)
        r = kymo_file_pwrite_all(f->fd, (const uint8_t *)data + skip, n - skip, f->have, file->name, err);
    if (r == 0)
        f->have = offset + n;
    return r;
}

int raw_capture_sync(struct raw_capture *c, size_t i, struct kymo_err *err)
{
    struct incoming_file *f = &c->files[i];
    if (f->kept || f->fd < 0)
        return 0;
    int r = kymo_file_sync(f->fd, c->m->files[i]->name, err);
    if (r < 0)
        begin_anew(c, i);
    return r;
}

static int check_hash(struct raw_capture *c, size_t i, const char *part, struct kymo_err *err)
{
    const Kymo__Manifest__File *file = c->m->files[i];
    uint8_t sha[KYMO_SHA256_SIZE];
    int r = kymo_hash_sha256_file(part, sha, err);
    if (r < 0)
        return r;
    if (!memcmp(sha, file->sha256.data, sizeof sha))
        return 0;
    begin_anew(c, i);
    return kymo_err_set(err, -EBADMSG, "%s/%s: the SHA-256 of what was received is not the manifest's",
                        c->m->capture_id, file->name);
}

static int make_folder(const struct raw_capture *c, size_t i, const char *kept, struct kymo_err *err)
{
    if (raw_is_neff(c->m->files[i]) || !strchr(c->m->files[i]->name, '/'))
        return 0;
    char *folder KYMO_FREE = kymo_strndup(kept, (size_t)(strrchr(kept, '/') - kept));
    return folder ? kymo_file_mkdirs(folder, err) : raw_no_memory(err);
}

/* The folders of a name, from the innermost to the tree: each must be durable for the name to be. */
static int sync_folders(const struct raw_capture *c, size_t i, const char *kept, struct kymo_err *err)
{
    char path[PATH_MAX];
    size_t n = strlen(kept), depth = 1;
    if (n >= sizeof path)
        return kymo_err_set(err, -ENAMETOOLONG, "%s: the path is too long", kept);
    memcpy(path, kept, n + 1);
    for (const char *p = c->m->files[i]->name; !raw_is_neff(c->m->files[i]) && (p = strchr(p, '/')); p++)
        depth++;
    for (; depth; depth--) {
        *strrchr(path, '/') = '\0';
        int r = kymo_file_sync_dir(path, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Under a name of its own first, so that a name that says "whole" is never taken away. */
static int link_into_place(struct raw_capture *c, size_t i, const char *path, const char *kept, struct kymo_err *err)
{
    char *part KYMO_FREE = part_path(c, i);
    if (!part)
        return raw_no_memory(err);
    begin_anew(c, i);
    if (kymo_file_ops()->link(path, part) < 0) {
        int cause = errno;
        if (cause != EPERM && cause != EOPNOTSUPP && cause != ENOSYS)
            return kymo_err_set(err, -cause, "%s: cannot be linked to %s: %s", path, part, strerror(cause));
        return kymo_file_rename(path, kept, err);
    }
    return kymo_file_rename(part, kept, err);
}

int raw_capture_adopt(struct raw_capture *c, size_t i, const char *path, const uint8_t sha256[static 32],
                      struct kymo_err *err)
{
    struct incoming_file *f = &c->files[i];
    const Kymo__Manifest__File *file = c->m->files[i];
    char *kept KYMO_FREE = kept_path(c, i);
    uint64_t size = 0;
    /* This NEFF may have come under another name meanwhile. */
    int r = f->kept ? 0 : look_at_file(c, i, err);
    if (r < 0 || f->kept)
        return r;
    if (!kept)
        return raw_no_memory(err);
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, err);
    if (fd < 0)
        return fd;
    if (size != file->size || memcmp(sha256, file->sha256.data, KYMO_SHA256_SIZE) != 0)
        return kymo_err_set(err, -EBADMSG, "%s is not what the manifest has as %s", path, file->name);
    r = make_folder(c, i, kept, err);
    if (r == 0)
        r = link_into_place(c, i, path, kept, err);
    if (r == 0)
        r = sync_folders(c, i, kept, err);
    if (r < 0)
        return r;
    f->have = size;
    f->kept = true;
    return 0;
}

int raw_capture_finish_file(struct raw_capture *c, size_t i, struct kymo_err *err)
{
    struct incoming_file *f = &c->files[i];
    if (f->kept)
        return 0;
    /* Another capture may have brought this NEFF meanwhile. */
    if (f->have != c->m->files[i]->size && raw_is_neff(c->m->files[i])) {
        int found = look_at_file(c, i, err);
        if (found < 0 || f->kept)
            return found;
    }
    if (f->have != c->m->files[i]->size)
        return kymo_err_set(err, -EAGAIN, "%s/%s: %llu of %llu bytes are here", c->m->capture_id, c->m->files[i]->name,
                            (unsigned long long)f->have, (unsigned long long)c->m->files[i]->size);
    char *part KYMO_FREE = part_path(c, i);
    char *kept KYMO_FREE = kept_path(c, i);
    if (!part || !kept)
        return raw_no_memory(err);
    int r = open_part(c, i, err);
    /* Durable before its name says that it is whole. */
    if (r == 0)
        r = raw_capture_sync(c, i, err);
    if (r == 0)
        r = check_hash(c, i, part, err);
    if (r == 0)
        r = make_folder(c, i, kept, err);
    if (r == 0)
        r = kymo_file_rename(part, kept, err);
    if (r == 0)
        r = sync_folders(c, i, kept, err);
    if (r < 0)
        return r;
    f->fd = kymo_file_close(f->fd);
    f->kept = true;
    return 0;
}

int raw_capture_commit(struct raw_capture *c, struct kymo_err *err)
{
    for (size_t i = 0; i < c->m->n_files; i++)
        if (!c->files[i].kept)
            return kymo_err_set(err, -EAGAIN, "capture %s: %s is not here yet", c->m->capture_id, c->m->files[i]->name);
    char *tree KYMO_FREE = kymo_asprintf("%s/tree", c->place);
    char *published KYMO_FREE = kymo_asprintf("%s/%s", c->store->captures, c->m->capture_id);
    if (!tree || !published)
        return raw_no_memory(err);
    int r = kymo_file_sync_dir(tree, err);
    if (r == 0)
        r = kymo_file_rename(tree, published, err);
    if (r == 0)
        r = kymo_file_sync_dir(c->store->captures, err);
    /* Published: what is left of the temporary place is cleaned at the next start, should it not go now. */
    if (r == 0 && kymo_file_remove_tree(c->place, NULL) < 0)
        return 0;
    return r;
}
