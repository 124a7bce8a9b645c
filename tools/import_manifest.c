#include "tools/import_manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "proto/manifest_check.h"
#include "tools/capture_dir.h"

#define NEFFS_OF_FILE_MAX 64

struct entry {
    char *name;
    uint8_t sha256[KYMO_SHA256_SIZE];
    ProtobufCBinaryData uuids[NEFFS_OF_FILE_MAX], shas[NEFFS_OF_FILE_MAX];
    Kymo__Manifest__File file;
};

struct import {
    const char *dir;
    struct capture capture;
    struct entry *entries;
    Kymo__Manifest__File **files;
    size_t n, cap;
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the manifest");
}

static void import_done(struct import *im)
{
    for (size_t i = 0; i < im->n; i++)
        kymo_free(im->entries[i].name);
    kymo_free(im->entries);
    kymo_free(im->files);
    capture_done(&im->capture);
}

static int add_name(struct import *im, const char *name, struct kymo_err *err)
{
    struct stat st;
    char *path KYMO_FREE = kymo_asprintf("%s/%s", im->dir, name);
    if (!path)
        return no_memory(err);
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || !manifest_is_file_name(name))
        return 0;
    void *p = im->entries;
    int r = kymo_grow(&p, &im->cap, im->n + 1, MANIFEST_FILES_MAX, sizeof *im->entries);
    im->entries = p;
    if (r == -ENOBUFS)
        return kymo_err_set(err, -E2BIG, "%s: more than %d files", im->dir, MANIFEST_FILES_MAX);
    char *copy = r < 0 ? NULL : kymo_strdup(name);
    if (!copy)
        return no_memory(err);
    struct entry *e = &im->entries[im->n++];
    *e = (struct entry){.name = copy, .file = KYMO__MANIFEST__FILE__INIT};
    e->file.has_type = e->file.has_size = e->file.has_sha256 = 1;
    e->file.type = manifest_kind_by_name(name);
    e->file.size = (uint64_t)st.st_size;
    return kymo_hash_sha256_file(path, e->sha256, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int list_files(struct import *im, struct kymo_err *err)
{
    DIR *d = opendir(im->dir);
    if (!d)
        return kymo_err_set(err, -errno, "%s: cannot be listed: %s", im->dir, strerror(errno));
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(d));)
        r = add_name(im, e->d_name, err);
    (void)closedir(d);
    if (r < 0)
        return r;
    if (!im->n)
        return kymo_err_set(err, -ENOENT, "%s holds no files", im->dir);
    qsort(im->entries, im->n, sizeof *im->entries, by_name);
    im->files = KYMO_NEW_ARRAY(Kymo__Manifest__File *, im->n);
    return im->files ? 0 : no_memory(err);
}

static const struct capture_ntff *profile_of(const struct import *im, const char *name)
{
    for (size_t i = 0; i < im->capture.ntff_count; i++) {
        const char *slash = strrchr(im->capture.ntffs[i].path, '/');
        if (slash && !strcmp(slash + 1, name))
            return &im->capture.ntffs[i];
    }
    return NULL;
}

static bool is_zero(const uint8_t *p, size_t n)
{
    while (n && !p[n - 1])
        n--;
    return n == 0;
}

/* With the entries in their final places, since the manifest points into them. */
static void fill_file(struct import *im, size_t i)
{
    struct entry *e = &im->entries[i];
    const struct capture_ntff *p = profile_of(im, e->name);
    im->files[i] = &e->file;
    e->file.name = e->name;
    e->file.sha256 = (ProtobufCBinaryData){.len = sizeof e->sha256, .data = e->sha256};
    if (e->file.type != KYMO__MANIFEST__FILE__KIND__NTFF)
        return;
    e->file.has_vnc = 1;
    e->file.vnc = p && !p->problem && !p->empty ? p->vnc : manifest_core_by_name(e->name);
    e->file.neff_uuid = e->uuids;
    e->file.neff_sha256 = e->shas;
    for (size_t k = 0; p && k < p->neff_count && k < NEFFS_OF_FILE_MAX; k++) {
        e->uuids[e->file.n_neff_uuid++] = (ProtobufCBinaryData){.len = 16, .data = p->uuids[k]};
        if (!is_zero(p->sha256s[k], 32))
            e->shas[e->file.n_neff_sha256++] = (ProtobufCBinaryData){.len = 32, .data = p->sha256s[k]};
    }
}

/* <first 16 digits of the SHA-256 of the files' hashes>, where nothing else names the capture. */
static int make_id(const struct import *im, const char *given, char out[static MANIFEST_ID_MAX + 1],
                   struct kymo_err *err)
{
    uint8_t sha[KYMO_SHA256_SIZE];
    const char *id = given ? given : im->capture.id;
    if (manifest_is_id(id)) {
        (void)snprintf(out, MANIFEST_ID_MAX + 1, "%s", id);
        return 0;
    }
    if (given)
        return kymo_err_set(err, -EINVAL, "\"%.80s\" is no capture id: at most %d characters [A-Za-z0-9._-]", given,
                            MANIFEST_ID_MAX);
    uint8_t *all KYMO_FREE = kymo_calloc(im->n, sizeof sha);
    if (!all)
        return no_memory(err);
    for (size_t i = 0; i < im->n; i++)
        memcpy(all + i * sizeof sha, im->entries[i].sha256, sizeof sha);
    int r = kymo_hash_sha256(all, im->n * sizeof sha, sha);
    if (r < 0)
        return kymo_err_set(err, r, "no SHA-256: %s", strerror(-r));
    kymo_hash_hex(sha, 8, out);
    return 0;
}

static const char *host_of(const struct import *im)
{
    if (*im->capture.host)
        return im->capture.host;
    for (size_t i = 0; i < im->capture.ntff_count; i++)
        if (*im->capture.ntffs[i].host)
            return im->capture.ntffs[i].host;
    return NULL;
}

static int pack(struct import *im, const char *given_id, uint8_t **ret, size_t *ret_size, struct kymo_err *err)
{
    Kymo__Manifest__Capture m = KYMO__MANIFEST__CAPTURE__INIT;
    char id[MANIFEST_ID_MAX + 1];
    int r = make_id(im, given_id, id, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < im->n; i++)
        fill_file(im, i);
    m.has_version = 1;
    m.version = 1;
    m.capture_id = id;
    m.host = (char *)(size_t)host_of(im);
    m.mode = (char *)(size_t) "session";
    m.trigger = (char *)(size_t) "import";
    m.writer = (char *)(size_t) "kymo import " KYMO_VERSION;
    m.n_files = im->n;
    m.files = im->files;
    size_t n = kymo__manifest__capture__get_packed_size(&m);
    uint8_t *data = kymo_malloc(n);
    if (!data)
        return no_memory(err);
    *ret_size = kymo__manifest__capture__pack(&m, data);
    *ret = data;
    return 0;
}

static int make_manifest(const char *dir, const char *id, uint8_t **ret, size_t *ret_size, struct kymo_err *err)
{
    struct import im = {.dir = dir};
    capture_init(&im.capture);
    int r = capture_read_dir(&im.capture, dir, err);
    if (r == 0)
        r = list_files(&im, err);
    if (r == 0)
        r = pack(&im, id, ret, ret_size, err);
    import_done(&im);
    return r;
}

int import_manifest(const char *dir, const char *id, uint8_t **ret, size_t *ret_size, struct kymo_err *err)
{
    struct stat st;
    char *path KYMO_FREE = kymo_asprintf("%s/" MANIFEST_FILE, dir);
    if (!path)
        return no_memory(err);
    if (lstat(path, &st) < 0)
        return make_manifest(dir, id, ret, ret_size, err);
    if (id)
        return kymo_err_set(err, -EINVAL, "%s names the capture already", path);
    return kymo_file_read_all(path, MANIFEST_BYTES_MAX, ret, ret_size, err);
}
