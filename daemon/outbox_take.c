#include "daemon/outbox_take.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "proto/manifest_check.h"

#define NEFF_NAME_SIZE (2 * KYMO_SHA256_SIZE + sizeof ".neff")

/* A file, and as the manifest has it. */
struct take_file {
    char *path, *name;
    uint8_t (*neffs)[KYMO_SHA256_SIZE];
    ProtobufCBinaryData *neff_list;
    Kymo__Manifest__File m;
    struct spool_file taken;
};

/* A NEFF that the capture refers to. */
struct take_neff {
    char name[NEFF_NAME_SIZE];
    uint8_t sha256[KYMO_SHA256_SIZE];
    uint64_t size;
};

struct outbox_take {
    char id[SPOOL_ID_MAX + 1];
    char *directory;
    enum spool_how how;
    uint32_t lost; /* not 0: only a loss row, of this cause */
    uint8_t *meta; /* packed */
    size_t meta_len;
    size_t n_files, at; /* at: files that the spool has */
    struct take_file *files;
    size_t n_neffs;
    struct take_neff neffs[SPOOL_NEFFS_MAX];
    struct spool_capture *staged;
};

struct outbox_take *outbox_take_free(struct outbox_take *t)
{
    if (!t)
        return NULL;
    for (size_t i = 0; i < t->n_files; i++) {
        kymo_free(t->files[i].path);
        kymo_free(t->files[i].name);
        kymo_free(t->files[i].neffs);
        kymo_free(t->files[i].neff_list);
    }
    kymo_free(t->files);
    kymo_free(t->directory);
    kymo_free(t->meta);
    kymo_free(t);
    return NULL;
}

static void take_freep(struct outbox_take **t)
{
    outbox_take_free(*t);
}

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "outbox: out of memory");
}

static int new_take(const char *id, const char *directory, struct outbox_take **ret, struct kymo_err *err)
{
    if (!id || !manifest_is_id(id))
        return kymo_err_set(err, -EINVAL, "outbox: \"%.80s\" is no capture id", id ? id : "");
    struct outbox_take *t KYMO_CLEANUP(take_freep) = KYMO_NEW(struct outbox_take);
    if (!t)
        return no_memory(err);
    memcpy(t->id, id, strlen(id) + 1);
    if (directory && !(t->directory = kymo_strdup(directory)))
        return no_memory(err);
    *ret = KYMO_TAKE(t);
    return 0;
}

int outbox_take_new_lost(const char *capture_id, uint32_t cause, const char *directory, struct outbox_take **ret,
                         struct kymo_err *err)
{
    if (cause < 1 || cause > SPOOL_CAUSES_N)
        return kymo_err_set(err, -EINVAL, "outbox: %u is no cause of a loss", cause);
    struct outbox_take *t;
    int r = new_take(capture_id, directory, &t, err);
    if (r < 0)
        return r;
    t->lost = cause;
    *ret = t;
    return 0;
}

static int copy_file(struct take_file *to, const struct outbox_file *from, struct kymo_err *err)
{
    if (!from->path || !from->name || strlen(from->name) > SPOOL_NAME_MAX || !manifest_is_file_name(from->name) ||
        strchr(from->name, '/') || strncmp(from->name, SPOOL_MANIFEST, strlen(SPOOL_MANIFEST)) == 0)
        return kymo_err_set(err, -EINVAL, "outbox: \"%.140s\" is no name of a capture's file",
                            from->name ? from->name : "");
    if (from->nneffs > SPOOL_NEFFS_MAX)
        return kymo_err_set(err, -EINVAL, "outbox: %s: traces %zu NEFFs, at most %d", from->name, from->nneffs,
                            SPOOL_NEFFS_MAX);
    to->path = kymo_strdup(from->path);
    to->name = kymo_strdup(from->name);
    to->neffs = kymo_calloc(from->nneffs + 1, sizeof *to->neffs);
    to->neff_list = KYMO_NEW_ARRAY(ProtobufCBinaryData, from->nneffs + 1);
    if (!to->path || !to->name || !to->neffs || !to->neff_list)
        return no_memory(err);
    if (from->nneffs > 0)
        memcpy(to->neffs, from->neffs, from->nneffs * sizeof *to->neffs);
    for (size_t i = 0; i < from->nneffs; i++)
        to->neff_list[i] = (ProtobufCBinaryData){KYMO_SHA256_SIZE, to->neffs[i]};
    kymo__manifest__file__init(&to->m);
    to->m.name = to->name;
    to->m.has_type = to->m.has_size = to->m.has_sha256 = 1;
    to->m.type = from->type;
    to->m.sha256 = (ProtobufCBinaryData){KYMO_SHA256_SIZE, to->taken.sha256};
    to->m.has_vnc = from->type == KYMO__MANIFEST__FILE__KIND__NTFF;
    to->m.vnc = from->vnc;
    to->m.neff_sha256 = to->neff_list;
    to->m.n_neff_sha256 = from->nneffs;
    return 0;
}

int outbox_take_new(const Kymo__Manifest__Capture *meta, const struct outbox_file *files, size_t n, enum spool_how how,
                    const char *directory, struct outbox_take **ret, struct kymo_err *err)
{
    if (n >= SPOOL_FILES_MAX)
        return kymo_err_set(err, -EINVAL, "outbox: a capture of %zu files, at most %d", n, SPOOL_FILES_MAX - 1);
    struct outbox_take *t KYMO_CLEANUP(take_freep) = NULL;
    int r = new_take(meta->capture_id, directory, &t, err);
    if (r < 0)
        return r;
    t->how = how == SPOOL_COPY ? SPOOL_COPY : SPOOL_LINK;
    size_t size = kymo__manifest__capture__get_packed_size(meta);
    if (size > UPLINK_MANIFEST_MAX)
        return kymo_err_set(err, -EINVAL, "outbox: %s: a manifest of %zu bytes, at most %u", t->id, size,
                            UPLINK_MANIFEST_MAX);
    t->meta = kymo_malloc(size + 1);
    t->files = KYMO_NEW_ARRAY(struct take_file, n + 1);
    if (!t->meta || !t->files)
        return no_memory(err);
    t->meta_len = kymo__manifest__capture__pack(meta, t->meta);
    for (size_t i = 0; i < n; i++) {
        t->n_files++;
        r = copy_file(&t->files[i], &files[i], err);
        if (r < 0)
            return r;
    }
    *ret = KYMO_TAKE(t);
    return 0;
}

/* ---- the steps ---- */

/* A capture of this id is in the spool: what is still of the originals must be what was taken then. */
static int compare_file(const struct take_file *f, const struct spool_entry *e, struct kymo_err *err)
{
    uint8_t sha256[KYMO_SHA256_SIZE];
    uint64_t size;
    int fd = kymo_file_open_regular(f->path, &size, err);
    if (fd == -ENOENT)
        return 0; /* the removal had begun */
    (void)kymo_file_close(fd);
    int r = fd < 0 ? fd : kymo_hash_sha256_file(f->path, sha256, err);
    for (size_t i = 0; r == 0 && i < e->nfiles; i++)
        if (!strcmp(e->files[i].name, f->name) && e->files[i].size == size &&
            !memcmp(e->files[i].sha256, sha256, sizeof sha256))
            return 0;
    return r < 0
               ? r
               : kymo_err_set(err, -EEXIST, "capture %s: is in the spool already, and with another %s", e->id, f->name);
}

static int compare(const struct outbox_take *t, const struct spool *s, struct kymo_err *err)
{
    const struct spool_entry *e;
    if (spool_find_id(s, t->id, &e) < 0)
        return 0; /* sent, and being removed */
    for (size_t i = 0; i < t->n_files; i++) {
        int r = compare_file(&t->files[i], e, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int refer_neff(struct outbox_take *t, struct spool *s, const uint8_t *sha256, struct kymo_err *err)
{
    for (size_t i = 0; i < t->n_neffs; i++)
        if (!memcmp(t->neffs[i].sha256, sha256, KYMO_SHA256_SIZE))
            return 0;
    struct take_neff n = {.size = 0};
    int fd = spool_open_neff(s, sha256, &n.size, err);
    if (fd == -ENOENT)
        return 0;
    (void)kymo_file_close(fd);
    int r = fd < 0 ? fd : spool_refer_neff(t->staged, sha256, err);
    if (r < 0)
        return r;
    memcpy(n.sha256, sha256, KYMO_SHA256_SIZE);
    kymo_hash_hex(sha256, KYMO_SHA256_SIZE, n.name);
    memcpy(n.name + 2 * KYMO_SHA256_SIZE, ".neff", sizeof ".neff");
    t->neffs[t->n_neffs++] = n;
    return 0;
}

static int take_next(struct outbox_take *t, struct spool *s, struct kymo_err *err)
{
    struct take_file *f = &t->files[t->at];
    int r = spool_take(t->staged, f->path, f->name, t->how, &f->taken, err);
    f->m.size = f->taken.size;
    for (size_t i = 0; r == 0 && i < f->m.n_neff_sha256; i++)
        r = refer_neff(t, s, f->neffs[i], err);
    t->at += r == 0;
    return r;
}

/* A manifest that the collector would refuse is found out here. */
static int publish_packed(struct outbox_take *t, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    size_t size = kymo__manifest__capture__get_packed_size(m);
    if (size > UPLINK_MANIFEST_MAX)
        return kymo_err_set(err, -EINVAL, "capture %s: a manifest of %zu bytes, at most %u", t->id, size,
                            UPLINK_MANIFEST_MAX);
    uint8_t *packed KYMO_FREE = kymo_malloc(size + 1);
    if (!packed)
        return no_memory(err);
    size = kymo__manifest__capture__pack(m, packed);
    Kymo__Manifest__Capture *checked KYMO_CLEANUP(manifest_freep) = NULL;
    int r = manifest_parse(packed, size, &checked, err);
    return r < 0 ? r : spool_publish(t->staged, packed, size, NULL, err);
}

static int publish(struct outbox_take *t, const char *writer, struct kymo_err *err)
{
    Kymo__Manifest__File neffs[SPOOL_NEFFS_MAX];
    Kymo__Manifest__File *files[SPOOL_FILES_MAX + SPOOL_NEFFS_MAX];
    Kymo__Manifest__Capture *meta = kymo__manifest__capture__unpack(NULL, t->meta_len, t->meta);
    if (!meta)
        return no_memory(err);
    Kymo__Manifest__Capture m = *meta;
    union {
        const char *in;
        char *out;
    } text = {writer};
    m.files = files;
    m.n_files = 0;
    m.has_version = 1;
    m.version = 1;
    m.writer = m.writer ? m.writer : text.out;
    for (size_t i = 0; i < t->n_files; i++)
        files[m.n_files++] = &t->files[i].m;
    for (size_t i = 0; i < t->n_neffs; i++) {
        kymo__manifest__file__init(&neffs[i]);
        neffs[i].name = t->neffs[i].name;
        neffs[i].has_type = neffs[i].has_size = neffs[i].has_sha256 = 1;
        neffs[i].type = KYMO__MANIFEST__FILE__KIND__NEFF;
        neffs[i].size = t->neffs[i].size;
        neffs[i].sha256 = (ProtobufCBinaryData){KYMO_SHA256_SIZE, t->neffs[i].sha256};
        files[m.n_files++] = &neffs[i];
    }
    int r = publish_packed(t, &m, err);
    kymo__manifest__capture__free_unpacked(meta, NULL);
    return r;
}

/* ---- the end ---- */

static int remove_originals(const struct outbox_take *t, struct kymo_err *err)
{
    if (t->directory) {
        int r = kymo_file_remove_tree(t->directory, err);
        return r < 0 ? r : kymo_file_sync_parent(t->directory, err);
    }
    for (size_t i = 0; i < t->n_files && t->how != SPOOL_COPY; i++)
        if (kymo_file_ops()->unlink(t->files[i].path) < 0 && errno != ENOENT)
            return kymo_err_set(err, -errno, "%s: cannot remove it: %s", t->files[i].path, strerror(errno));
    return 0;
}

static int finish(struct outbox_take *t, int code, uint32_t cause, const struct kymo_err *why,
                  struct outbox_take_end *ret)
{
    *ret = (struct outbox_take_end){.code = code, .cause = cause};
    if (why)
        ret->err = *why;
    struct kymo_err err = {0};
    if (remove_originals(t, &err) < 0 && code == 0)
        ret->err = err;
    return OUTBOX_TAKE_OVER;
}

static int drop(struct outbox_take *t, int code, struct kymo_err *why, struct outbox_take_end *ret,
                struct kymo_err *err)
{
    uint32_t cause = t->lost ? t->lost : spool_drop_cause(t->staged);
    int r = spool_drop(t->staged, cause, err);
    t->staged = NULL;
    t->at = t->n_neffs = 0;
    return r < 0 ? r : finish(t, code, cause, why, ret);
}

static int begin(struct outbox_take *t, struct spool *s, struct outbox_take_end *ret, struct kymo_err *err)
{
    int r = spool_begin(s, t->id, &t->staged, err);
    if (r == 0)
        return OUTBOX_TAKE_MORE;
    if (r != -EEXIST)
        return r;
    struct kymo_err why = {0};
    r = compare(t, s, &why);
    /* Another capture under the same id has no row of its own: a sequence number belongs to an id. Its files stay. */
    if (r == -EEXIST) {
        *ret = (struct outbox_take_end){.code = r, .cause = SPOOL_FAILED, .err = why};
        return OUTBOX_TAKE_OVER;
    }
    if (r < 0)
        return kymo_err_set(err, r, "%s", why.text);
    return finish(t, 0, 0, NULL, ret);
}

int outbox_take_step(struct outbox_take *t, struct spool *s, const char *writer, struct outbox_take_end *ret,
                     struct kymo_err *err)
{
    if (!t->staged && t->lost == SPOOL_FULL)
        spool_relieve(s);
    if (!t->staged)
        return begin(t, s, ret, err);
    struct kymo_err why = {0};
    if (t->lost) {
        (void)kymo_err_set(&why, -ENODATA, "capture %s: %s", t->id, spool_cause_name(t->lost));
        return drop(t, -ENODATA, &why, ret, err);
    }
    if (t->at < t->n_files) {
        int r = take_next(t, s, &why);
        return r < 0 ? drop(t, r, &why, ret, err) : OUTBOX_TAKE_MORE;
    }
    int r = publish(t, writer, &why);
    /* A sync that failed has been answered by other files: those may do. */
    if (r == -EIO)
        r = publish(t, writer, &why);
    if (r < 0)
        return drop(t, r, &why, ret, err);
    t->staged = NULL;
    return finish(t, 0, 0, NULL, ret);
}
