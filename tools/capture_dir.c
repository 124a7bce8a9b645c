#include "tools/capture_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/neff/neff.h"
#include "formats/ntff/ntff_reader.h"
#include "formats/systrace/systrace_reader.h"
#include "proto/manifest_check.h"

void capture_init(struct capture *c)
{
    *c = (struct capture){0};
}

void capture_done(struct capture *c)
{
    for (size_t i = 0; i < c->ntff_count; i++) {
        kymo_free(c->ntffs[i].path);
        kymo_free(c->ntffs[i].problem);
        kymo_free(c->ntffs[i].uuids);
        kymo_free(c->ntffs[i].sha256s);
    }
    for (size_t i = 0; i < c->neff_count; i++)
        kymo_free(c->neffs[i].path);
    kymo_free(c->ntffs);
    kymo_free(c->neffs);
    kymo_free(c->manifest);
    kymo_free(c->system);
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
    f->start_ns = info->profile_start_time;
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

/* One damaged file must not keep the others from being read. */
static int find_ntff(struct capture *c, const char *path, struct kymo_err *err)
{
    struct kymo_err why = {0};
    int r = capture_add_ntff(c, path, &why);
    if (r == 0)
        return 0;
    if (r == -ENOMEM || !c->ntff_count || strcmp(c->ntffs[c->ntff_count - 1].path, path) != 0)
        return kymo_err_set(err, r, "%s", why.text);
    struct capture_ntff *f = &c->ntffs[c->ntff_count - 1];
    f->neff_count = 0;
    f->problem = kymo_strdup(why.text);
    return f->problem ? 0 : no_memory(err);
}

/* A NEFF that cannot be read is kept: kymo-process tells why in a warning. */
static int find_neff(struct capture *c, const char *path, struct kymo_err *err)
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
    uint64_t size;
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, NULL);
    if (fd >= 0 && kymo_file_pread_all(fd, head, sizeof head, 0, path, NULL) == 0 &&
        neff_header_parse(head, sizeof head, &header, NULL) == 0)
        memcpy(n->uuid, header.uuid, sizeof n->uuid);
    return 0;
}

int capture_add_neff(struct capture *c, const char *path, struct kymo_err *err)
{
    struct neff *neff KYMO_CLEANUP(neff_freep) = NULL;
    int r = neff_open(path, NEFF_NO_DEBUG, &neff, err);
    return r < 0 ? r : find_neff(c, path, err);
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end);
}

/* Any file of the first session stands for all of its files; a capture has one session. */
static int find_system(struct capture *c, const char *path, struct kymo_err *err)
{
    size_t n;
    bool directory;
    if (c->system || systrace_prefix(path, &n, &directory) < 0 || directory)
        return 0;
    c->system = kymo_strdup(path);
    return c->system ? 0 : no_memory(err);
}

static int add_file(struct capture *c, const char *dir, const char *name, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, name);
    if (!path)
        return no_memory(err);
    if (ends_in(name, ".ntff"))
        return find_ntff(c, path, err);
    return ends_in(name, ".neff") ? find_neff(c, path, err) : find_system(c, path, err);
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

/* A link must not lead out of the directory. A file that is not there is found out later. */
static int check_inside(const char *dir, const char *path, struct kymo_err *err)
{
    char top[PATH_MAX], real[PATH_MAX];
    if (!realpath(path, real))
        return 0;
    size_t n = realpath(dir, top) ? strlen(top) : 0;
    if (n && !strncmp(top, real, n) && (real[n] == '/' || top[n - 1] == '/'))
        return 0;
    return kymo_err_set(err, -EPROTO, "%s: a link leads out of the capture, to %s", path, real);
}

/* The store keeps NEFFs once for all captures (collector/RAW_STORE.md). NULL: this one is not there. */
static char *find_shared_neff(const char *dir, const Kymo__Manifest__File *f)
{
    char hex[2 * KYMO_SHA256_SIZE + 1], real[PATH_MAX];
    if (!f->has_sha256 || f->sha256.len != KYMO_SHA256_SIZE)
        return NULL;
    kymo_hash_hex(f->sha256.data, KYMO_SHA256_SIZE, hex);
    char *path KYMO_FREE = kymo_asprintf("%s/../../neff/%s.neff", dir, hex);
    return path && realpath(path, real) ? kymo_strdup(real) : NULL;
}

static int add_listed_neff(struct capture *c, const char *dir, const Kymo__Manifest__File *f, const char *path,
                           struct kymo_err *err)
{
    char *shared KYMO_FREE = access(path, F_OK) == 0 ? NULL : find_shared_neff(dir, f);
    return find_neff(c, shared ? shared : path, err);
}

/* What the manifest calls a file counts, not how its name ends. */
static int add_listed(struct capture *c, const char *dir, const Kymo__Manifest__File *f, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, f->name);
    if (!path)
        return no_memory(err);
    int r = check_inside(dir, path, err);
    if (r < 0)
        return r;
    if (!f->has_type || f->type == KYMO__MANIFEST__FILE__KIND__UNKNOWN)
        return add_file(c, dir, f->name, err);
    if (f->type == KYMO__MANIFEST__FILE__KIND__NTFF)
        return find_ntff(c, path, err);
    return f->type == KYMO__MANIFEST__FILE__KIND__NEFF ? add_listed_neff(c, dir, f, path, err)
                                                       : find_system(c, path, err);
}

/* True: all of it. */
static bool copy_text(char *out, size_t n, const char *text)
{
    size_t len = text ? strnlen(text, n - 1) : 0;
    memcpy(out, text ? text : "", len);
    out[len] = '\0';
    return !text || !text[len];
}

static int take_manifest(struct capture *c, const char *dir, const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    bool job = copy_text(c->job, sizeof c->job, m->job), host = copy_text(c->host, sizeof c->host, m->host);
    c->cut = !copy_text(c->id, sizeof c->id, m->capture_id) || !job || !host;
    c->has_rank = m->has_rank;
    c->rank = m->rank;
    int r = 0;
    for (size_t i = 0; i < m->n_files && r == 0; i++)
        r = add_listed(c, dir, m->files[i], err);
    return r;
}

static int read_manifest(struct capture *c, const char *dir, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    size_t n;
    int r = kymo_file_read_all(c->manifest, MANIFEST_BYTES_MAX, &data, &n, err);
    if (r < 0)
        return r;
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    r = manifest_parse(data, n, &m, err);
    if (r < 0) {
        kymo_err_prefix(err, "%s", c->manifest);
        return r;
    }
    return take_manifest(c, dir, m, err);
}

/* <instance>_pid_<pid>/<timestamp> gives host and capture id. Other directories may have any name, many of them the
 * same. */
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
    if (!pid || !last)
        return;
    c->cut = (size_t)snprintf(c->id, sizeof c->id, "%s-%s", pid + 5, stamp) >= sizeof c->id;
    *pid = '\0';
    c->cut = !copy_text(c->host, sizeof c->host, parent) || c->cut;
}

int capture_read_dir(struct capture *c, const char *dir, struct kymo_err *err)
{
    c->manifest = kymo_asprintf("%s/%s", dir, MANIFEST_FILE);
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

char *capture_find_inside(const char *dir)
{
    DIR *d = opendir(dir);
    char *first = NULL;
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *path KYMO_FREE = *e->d_name == '.' ? NULL : kymo_asprintf("%s/%s", dir, e->d_name);
        char *manifest KYMO_FREE = path ? kymo_asprintf("%s/%s", path, MANIFEST_FILE) : NULL;
        if (!manifest || access(manifest, F_OK) != 0 || (first && strcmp(first, path) < 0))
            continue;
        kymo_free(first);
        first = KYMO_TAKE(path);
    }
    if (d)
        (void)closedir(d);
    return first;
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
static bool is_other_of_core(const struct capture_ntff *a, const struct capture_ntff *b)
{
    return !b->empty && !b->problem && b->vnc == a->vnc && strcmp(base_name(a->path), base_name(b->path)) != 0;
}

static bool same_programs(const struct capture_ntff *a, const struct capture_ntff *b)
{
    return a->neff_count == b->neff_count &&
           (!a->neff_count || !memcmp(a->uuids, b->uuids, a->neff_count * sizeof *a->uuids));
}

static bool shares_core(const struct capture *c, const struct capture_ntff *ntff, bool programs_too)
{
    for (size_t i = 0; i < c->ntff_count; i++)
        if (is_other_of_core(ntff, &c->ntffs[i]) && (!programs_too || same_programs(ntff, &c->ntffs[i])))
            return true;
    return false;
}

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

bool capture_name_valid(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= CAPTURE_NAME_MAX && *name != '.' && strspn(name, NAME_BYTES) == n;
}

/* True: nothing had to be rewritten. */
static bool clean(char *text)
{
    bool same = true;
    for (char *p = text; *p; p++) {
        if (strchr(NAME_BYTES, *p) && (*p != '.' || p != text))
            continue;
        *p = '_';
        same = false;
    }
    return same;
}

static int core_name(const struct capture *c, const struct capture_ntff *ntff, bool hashed,
                     char out[static CAPTURE_CORE_MAX + 1], struct kymo_err *err)
{
    int n = snprintf(out, CAPTURE_CORE_MAX + 1, "nc%u", ntff->vnc);
    if (ntff->neff_count == 1 && shares_core(c, ntff, false)) {
        out[n++] = '-';
        kymo_hash_hex(ntff->uuids[0], 8, out + n);
        n += 16;
    }
    if (!hashed && (ntff->neff_count != 1 || !shares_core(c, ntff, true)) &&
        (ntff->neff_count == 1 || !shares_core(c, ntff, false)))
        return 0;
    uint8_t sha[KYMO_SHA256_SIZE];
    int r = kymo_hash_sha256_file(ntff->path, sha, err);
    if (r < 0)
        return r;
    out[n++] = '-';
    kymo_hash_hex(sha, 6, out + n);
    return 0;
}

int capture_core_name(const struct capture *c, const struct capture_ntff *ntff, char out[static CAPTURE_CORE_MAX + 1],
                      struct kymo_err *err)
{
    return core_name(c, ntff, false, out, err);
}

/* Without a capture's id, the time at which the profile began says most to people. */
static void start_time(const struct capture_ntff *ntff, char *out, size_t n)
{
    struct tm tm;
    time_t seconds = (time_t)(ntff->start_ns / 1000000000u);
    if (!ntff->start_ns || !gmtime_r(&seconds, &tm) || !strftime(out, n, "%Y%m%dT%H%M%SZ", &tm))
        (void)snprintf(out, n, "capture");
}

void capture_system_name(const struct capture *c, char out[static CAPTURE_NAME_MAX + 1])
{
    char id[sizeof c->id], rank[16] = "", head[CAPTURE_NAME_MAX + 1];
    const struct capture_ntff none = {0};
    const struct capture_ntff *first = c->ntff_count ? c->ntffs : &none;
    const char *host = *c->host ? c->host : *first->host ? first->host : "host";
    if (*c->id)
        memcpy(id, c->id, sizeof id);
    else
        start_time(first, id, sizeof id);
    if (c->has_rank)
        (void)snprintf(rank, sizeof rank, "-r%u", c->rank);
    (void)snprintf(head, sizeof head, "%s-%s", *c->job ? c->job : "job", host);
    int room = CAPTURE_NAME_MAX - (int)(strlen(rank) + strlen(id) + sizeof "--system");
    (void)clean(head);
    (void)clean(id);
    (void)snprintf(out, CAPTURE_NAME_MAX + 1, "%.*s%s-%s-system", room, head, rank, id);
}

int capture_profile_name(const struct capture *c, const struct capture_ntff *ntff,
                         char out[static CAPTURE_NAME_MAX + 1], struct kymo_err *err)
{
    const char *host = *c->host ? c->host : *ntff->host ? ntff->host : "host";
    char id[sizeof c->id], rank[16] = "", head[CAPTURE_NAME_MAX + 1], core[CAPTURE_CORE_MAX + 1];
    if (*c->id)
        memcpy(id, c->id, sizeof id);
    else
        start_time(ntff, id, sizeof id);
    if (c->has_rank)
        (void)snprintf(rank, sizeof rank, "-r%u", c->rank);
    (void)snprintf(head, sizeof head, "%s-%s", *c->job ? c->job : "job", host);
    /* The parts that tell profiles apart stand at the end and must not be cut. */
    int room = CAPTURE_NAME_MAX - (int)(strlen(rank) + strlen(id) + 2 + CAPTURE_CORE_MAX);
    bool whole = clean(head) && (int)strlen(head) <= room;
    whole = clean(id) && whole && *c->id && !c->cut;
    int r = core_name(c, ntff, !whole, core, err);
    if (r == 0)
        (void)snprintf(out, CAPTURE_NAME_MAX + 1, "%.*s%s-%s-%s", room, head, rank, id, core);
    return r;
}
