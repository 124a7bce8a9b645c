#include "tools/capture_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/neff/neff.h"
#include "formats/ntff/ntff_reader.h"
#include "proto/manifest.pb-c.h"

#define MANIFEST_NAME "manifest.pb"
#define MANIFEST_MAX (16u << 20)

void capture_init(struct capture *c)
{
    *c = (struct capture){0};
}

void capture_done(struct capture *c)
{
    for (size_t i = 0; i < c->ntff_count; i++) {
        kymo_free(c->ntffs[i].path);
        kymo_free(c->ntffs[i].uuids);
        kymo_free(c->ntffs[i].sha256s);
    }
    for (size_t i = 0; i < c->neff_count; i++)
        kymo_free(c->neffs[i].path);
    kymo_free(c->ntffs);
    kymo_free(c->neffs);
    kymo_free(c->manifest);
    capture_init(c);
}

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the list of files");
}

static int read_nodes(struct capture_ntff *f, const Ntff__NtffInfo *info, struct kymo_err *err)
{
    f->uuids = kymo_calloc(info->n_neff_nodes + 1, sizeof *f->uuids);
    f->sha256s = kymo_calloc(info->n_neff_nodes + 1, sizeof *f->sha256s);
    if (!f->uuids || !f->sha256s)
        return no_memory(err);
    for (size_t i = 0; i < info->n_neff_nodes; i++) {
        const Ntff__NeffNodeInfo *n = info->neff_nodes[i];
        if (n->neff_uuid.len == sizeof *f->uuids)
            memcpy(f->uuids[f->neff_count], n->neff_uuid.data, sizeof *f->uuids);
        if (n->neff_sha256.len == sizeof *f->sha256s)
            memcpy(f->sha256s[f->neff_count], n->neff_sha256.data, sizeof *f->sha256s);
        f->neff_count++;
    }
    return 0;
}

static int read_ntff(struct capture_ntff *f, struct kymo_err *err)
{
    struct ntff_reader *reader KYMO_CLEANUP(ntff_reader_freep) = NULL;
    int r = ntff_reader_open(f->path, &reader, err);
    f->empty = r == -ENODATA;
    if (r < 0)
        return f->empty ? 0 : r;
    const Ntff__NtffInfo *info = ntff_reader_info(reader);
    f->vnc = info->vnc;
    (void)snprintf(f->host, sizeof f->host, "%s", info->hostname ? info->hostname : "");
    return read_nodes(f, info, err);
}

int capture_add_ntff(struct capture *c, const char *path, struct kymo_err *err)
{
    void *p = c->ntffs;
    int r = kymo_grow(&p, &c->ntff_cap, c->ntff_count + 1, CAPTURE_FILES_MAX, sizeof *c->ntffs);
    c->ntffs = p;
    char *copy = r < 0 ? NULL : kymo_strdup(path);
    if (!copy)
        return no_memory(err);
    struct capture_ntff *f = &c->ntffs[c->ntff_count++];
    *f = (struct capture_ntff){.path = copy};
    return read_ntff(f, err);
}

int capture_add_neff(struct capture *c, const char *path, struct kymo_err *err)
{
    void *p = c->neffs;
    int r = kymo_grow(&p, &c->neff_cap, c->neff_count + 1, CAPTURE_FILES_MAX, sizeof *c->neffs);
    c->neffs = p;
    char *copy = r < 0 ? NULL : kymo_strdup(path);
    if (!copy)
        return no_memory(err);
    struct capture_neff *n = &c->neffs[c->neff_count++];
    *n = (struct capture_neff){.path = copy};
    uint8_t head[NEFF_HEADER_SIZE];
    struct neff_header header;
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY, 0, NULL);
    if (fd >= 0 && kymo_file_pread_all(fd, head, sizeof head, 0, path, NULL) == 0 &&
        neff_header_parse(head, sizeof head, &header, NULL) == 0)
        memcpy(n->uuid, header.uuid, sizeof n->uuid);
    return 0;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end);
}

static int add_file(struct capture *c, const char *dir, const char *name, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, name);
    if (!path)
        return no_memory(err);
    if (ends_in(name, ".ntff"))
        return capture_add_ntff(c, path, err);
    return ends_in(name, ".neff") ? capture_add_neff(c, path, err) : 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct capture_ntff *)a)->path, ((const struct capture_ntff *)b)->path);
}

static int scan_dir(struct capture *c, const char *dir, struct kymo_err *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return kymo_err_set(err, -errno, "%s: cannot be listed: %s", dir, strerror(errno));
    int r = 0;
    for (struct dirent *e; r == 0 && (e = readdir(d));)
        r = add_file(c, dir, e->d_name, err);
    (void)closedir(d);
    if (c->ntff_count)
        qsort(c->ntffs, c->ntff_count, sizeof *c->ntffs, by_path);
    return r;
}

/* A manifest's names are relative and stay inside the directory. */
static bool safe_name(const char *name)
{
    if (!name || !*name || *name == '/')
        return false;
    for (const char *p = name; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
            return false;
    return true;
}

static void copy_text(char *out, size_t n, const char *text)
{
    size_t len = text ? strnlen(text, n - 1) : 0;
    memcpy(out, text ? text : "", len);
    out[len] = '\0';
}

static int take_manifest(struct capture *c, const char *dir, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    copy_text(c->job, sizeof c->job, m->job);
    copy_text(c->host, sizeof c->host, m->host);
    copy_text(c->id, sizeof c->id, m->capture_id);
    c->rank = m->has_rank ? m->rank : 0;
    for (size_t i = 0; i < m->n_files; i++) {
        const char *name = m->files[i]->name;
        if (!safe_name(name))
            return kymo_err_set(err, -EPROTO, "%s/%s: file %zu has an unsafe name", dir, MANIFEST_NAME, i);
        int r = add_file(c, dir, name, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_manifest(struct capture *c, const char *dir, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    int r = kymo_file_read_all(c->manifest, MANIFEST_MAX, &data, &n, err);
    if (r < 0)
        return r;
    Kymo__Manifest__Capture *m = kymo__manifest__capture__unpack(NULL, n, data);
    if (!m)
        return kymo_err_set(err, -EPROTO, "%s is no manifest", c->manifest);
    r = take_manifest(c, dir, m, err);
    kymo__manifest__capture__free_unpacked(m, NULL);
    return r;
}

/* <instance>_pid_<pid>/<timestamp> gives host and capture id. */
static void name_by_path(struct capture *c, const char *dir)
{
    char real[PATH_MAX];
    if (!realpath(dir, real))
        return;
    char *last = strrchr(real, '/');
    const char *stamp = last ? last + 1 : real;
    if (last)
        *last = '\0';
    char *parent = last ? strrchr(real, '/') : NULL;
    parent = parent ? parent + 1 : real;
    char *pid = strstr(parent, "_pid_");
    if (pid && last) {
        copy_text(c->id, sizeof c->id, pid + 5);
        size_t n = strlen(c->id);
        (void)snprintf(c->id + n, sizeof c->id - n, "-%s", stamp);
        *pid = '\0';
        copy_text(c->host, sizeof c->host, parent);
    } else {
        copy_text(c->id, sizeof c->id, stamp);
    }
}

int capture_read_dir(struct capture *c, const char *dir, struct kymo_err *err)
{
    c->manifest = kymo_asprintf("%s/%s", dir, MANIFEST_NAME);
    if (!c->manifest)
        return no_memory(err);
    struct stat st;
    if (stat(c->manifest, &st) == 0)
        return read_manifest(c, dir, err);
    kymo_free(c->manifest);
    c->manifest = NULL;
    name_by_path(c, dir);
    return scan_dir(c, dir, err);
}

static bool traces(const struct capture_ntff *f, const uint8_t uuid[16])
{
    for (size_t i = 0; i < f->neff_count; i++)
        if (!memcmp(f->uuids[i], uuid, 16))
            return true;
    return false;
}

size_t capture_neffs_of(const struct capture *c, const struct capture_ntff *ntff, const char **out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < c->neff_count && n < max; i++)
        if (traces(ntff, c->neffs[i].uuid))
            out[n++] = c->neffs[i].path;
    /* With the wrong ones at hand, kymo-process tells which they are and which it wanted. */
    for (size_t i = 0; i < c->neff_count && !n && i < max; i++)
        out[i] = c->neffs[i].path;
    return n ? n : c->neff_count < max ? c->neff_count : max;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A file that was named by itself stands in the list beside its own entry from the directory. */
static bool shares_core(const struct capture *c, const struct capture_ntff *ntff)
{
    for (size_t i = 0; i < c->ntff_count; i++)
        if (!c->ntffs[i].empty && c->ntffs[i].vnc == ntff->vnc &&
            strcmp(base_name(c->ntffs[i].path), base_name(ntff->path)) != 0)
            return true;
    return false;
}

static void clean(char *text)
{
    for (char *p = text; *p; p++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
            *p = '_';
}

void capture_profile_name(const struct capture *c, const struct capture_ntff *ntff,
                          char out[static CAPTURE_NAME_MAX + 1])
{
    char neff[40] = "";
    if (ntff->neff_count == 1 && shares_core(c, ntff)) {
        neff[0] = '-';
        kymo_hash_hex(ntff->uuids[0], 8, neff + 1);
    }
    const char *host = *c->host ? c->host : *ntff->host ? ntff->host : "host";
    /* The parts that tell profiles apart stand at the end and must not be cut. */
    char tail[128];
    int n = snprintf(tail, sizeof tail, "-r%u-%s-nc%u%s", c->rank, *c->id ? c->id : "capture", ntff->vnc, neff);
    int room = CAPTURE_NAME_MAX - (n < (int)sizeof tail ? n : (int)sizeof tail - 1);
    char head[CAPTURE_NAME_MAX + 1];
    (void)snprintf(head, sizeof head, "%s-%s", *c->job ? c->job : "job", host);
    (void)snprintf(out, CAPTURE_NAME_MAX + 1, "%.*s%s", room, head, tail);
    clean(out);
}
