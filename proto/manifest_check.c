#include "proto/manifest_check.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

static const char name_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

bool manifest_is_id(const char *id)
{
    size_t n = id ? strnlen(id, MANIFEST_ID_MAX + 1) : 0;
    return n && n <= MANIFEST_ID_MAX && *id != '.' && strspn(id, name_characters) == n;
}

static bool is_part(const char *part, size_t n)
{
    return n && !(n == 1 && part[0] == '.') && !(n == 2 && part[0] == '.' && part[1] == '.');
}

bool manifest_is_file_name(const char *name)
{
    size_t n = name ? strnlen(name, MANIFEST_NAME_MAX + 1) : 0;
    if (!n || n > MANIFEST_NAME_MAX)
        return false;
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    for (int i = 0; i < MANIFEST_NAME_PARTS_MAX; i++) {
        size_t part = strcspn(name, "/");
        if (!is_part(name, part))
            return false;
        if (!name[part])
            return true;
        name += part + 1;
    }
    return false;
}

static bool text_fits(const char *text)
{
    return !text || strnlen(text, MANIFEST_TEXT_MAX + 1) <= MANIFEST_TEXT_MAX;
}

static int check_texts(const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    const char *const texts[] = {m->job,           m->host,           m->boot_id,         m->mode,   m->trigger,
                                 m->instance_type, m->driver_version, m->runtime_version, m->writer, m->request};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!text_fits(texts[i]))
            return kymo_err_set(err, -EPROTO, "manifest: a text is longer than %d bytes", MANIFEST_TEXT_MAX);
    if (m->n_labels > MANIFEST_LABELS_MAX)
        return kymo_err_set(err, -EPROTO, "manifest: %zu labels, more than %d", m->n_labels, MANIFEST_LABELS_MAX);
    for (size_t i = 0; i < m->n_labels; i++)
        if (!text_fits(m->labels[i]->key) || !text_fits(m->labels[i]->value))
            return kymo_err_set(err, -EPROTO, "manifest: label %zu is longer than %d bytes", i, MANIFEST_TEXT_MAX);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(Kymo__Manifest__File *const *)a)->name, (*(Kymo__Manifest__File *const *)b)->name);
}

/* "a" beside "a/b" cannot both be: one is a file, the other its folder. Blanks sort before '/', so neighbours in order
 * of names are not enough; files are few. */
static bool is_folder_of(const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return !strncmp(folder, name, n) && name[n] == '/';
}

static int check_collisions(Kymo__Manifest__File *const *sorted, size_t n, struct kymo_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (i && !strcmp(sorted[i - 1]->name, sorted[i]->name))
            return kymo_err_set(err, -EPROTO, "manifest: two files are named %s", sorted[i]->name);
        for (size_t k = i + 1; k < n && !strncmp(sorted[i]->name, sorted[k]->name, strlen(sorted[i]->name)); k++)
            if (is_folder_of(sorted[i]->name, sorted[k]->name))
                return kymo_err_set(err, -EPROTO, "manifest: %s is a file and a folder", sorted[i]->name);
    }
    return 0;
}

static int check_file(const Kymo__Manifest__File *f, size_t i, struct kymo_err *err)
{
    if (!manifest_is_file_name(f->name) || !strncmp(f->name, MANIFEST_FILE "/", sizeof MANIFEST_FILE) ||
        !strcmp(f->name, MANIFEST_FILE))
        return kymo_err_set(err, -EPROTO, "manifest: file %zu has an unsafe name", i);
    if (!f->has_size || f->size > MANIFEST_SIZE_MAX)
        return kymo_err_set(err, -EPROTO, "manifest: %s: no size, or one that is not supported", f->name);
    if (!f->has_sha256 || f->sha256.len != KYMO_SHA256_SIZE)
        return kymo_err_set(err, -EPROTO, "manifest: %s: no SHA-256", f->name);
    return 0;
}

static int check_files(const Kymo__Manifest__Capture *m, struct kymo_err *err)
{
    if (m->n_files > MANIFEST_FILES_MAX)
        return kymo_err_set(err, -EPROTO, "manifest: %zu files, more than %d", m->n_files, MANIFEST_FILES_MAX);
    for (size_t i = 0; i < m->n_files; i++) {
        int r = check_file(m->files[i], i, err);
        if (r < 0)
            return r;
    }
    if (!m->n_files)
        return 0;
    Kymo__Manifest__File **sorted KYMO_FREE = KYMO_NEW_ARRAY(Kymo__Manifest__File *, m->n_files);
    if (!sorted)
        return kymo_err_set(err, -ENOMEM, "no memory for the list of files");
    memcpy(sorted, m->files, m->n_files * sizeof(Kymo__Manifest__File *));
    qsort(sorted, m->n_files, sizeof *sorted, by_name);
    return check_collisions(sorted, m->n_files, err);
}

void manifest_freep(Kymo__Manifest__Capture **m)
{
    if (*m)
        kymo__manifest__capture__free_unpacked(*m, NULL);
}

int manifest_parse(const void *data, size_t n, Kymo__Manifest__Capture **ret, struct kymo_err *err)
{
    if (n > MANIFEST_BYTES_MAX)
        return kymo_err_set(err, -EPROTO, "manifest: %zu bytes, more than %u", n, MANIFEST_BYTES_MAX);
    if (!n)
        return kymo_err_set(err, -EPROTO, "manifest: no bytes");
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = kymo__manifest__capture__unpack(NULL, n, data);
    if (!m)
        return kymo_err_set(err, -EPROTO, "manifest: the %zu bytes do not parse", n);
    if (!m->has_version || m->version != 1)
        return kymo_err_set(err, -EPROTO, "manifest: version %u, only 1 is known", m->has_version ? m->version : 0);
    /* Strings end at a NUL once they are unpacked, and of a field given twice the last one stands. */
    if (kymo__manifest__capture__get_packed_size(m) != n)
        return kymo_err_set(err, -EPROTO, "manifest: a text holds a NUL, or a field is there twice");
    if (!manifest_is_id(m->capture_id))
        return kymo_err_set(err, -EPROTO, "manifest: no capture id of at most %d characters [A-Za-z0-9._-]",
                            MANIFEST_ID_MAX);
    if (m->request && !manifest_is_id(m->request))
        return kymo_err_set(err, -EPROTO, "manifest: no request id of at most %d characters [A-Za-z0-9._-]",
                            MANIFEST_ID_MAX);
    int r = check_texts(m, err);
    if (r == 0)
        r = check_files(m, err);
    if (r == 0)
        *ret = KYMO_TAKE(m);
    return r;
}

void manifest_profile_name(const struct manifest_profile *p, char out[static MANIFEST_PROFILE_NAME_MAX + 1])
{
    char tail[160];
    const char *neff = p->neff ? p->neff : "";
    char core[16] = "system";
    if (!p->system)
        (void)snprintf(core, sizeof core, "nc%u", p->vnc);
    int n = snprintf(tail, sizeof tail, "-r%u-%.64s-%s%s%.24s", p->rank, p->id && *p->id ? p->id : "capture", core,
                     *neff ? "-" : "", neff);
    char head[2 * MANIFEST_TEXT_MAX + 2];
    (void)snprintf(head, sizeof head, "%.*s-%.*s", MANIFEST_TEXT_MAX, p->job && *p->job ? p->job : "job",
                   MANIFEST_TEXT_MAX, p->host && *p->host ? p->host : "host");
    (void)snprintf(out, MANIFEST_PROFILE_NAME_MAX + 1, "%.*s%s", MANIFEST_PROFILE_NAME_MAX - n, head, tail);
    for (char *c = out; *c; c++)
        if (!strchr(name_characters, *c) || (c == out && *c == '.'))
            *c = '_';
}

static bool is_ntff(const Kymo__Manifest__File *f)
{
    return f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NTFF;
}

static bool is_system(const Kymo__Manifest__File *f)
{
    return f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NTRACE;
}

Kymo__Manifest__File__Kind manifest_kind_by_name(const char *name)
{
    static const struct {
        const char *end;
        Kymo__Manifest__File__Kind kind;
    } kinds[] = {
        {".ntff", KYMO__MANIFEST__FILE__KIND__NTFF},
        {".neff", KYMO__MANIFEST__FILE__KIND__NEFF},
        {"ntrace.pb", KYMO__MANIFEST__FILE__KIND__NTRACE},
        {"trace_info.pb", KYMO__MANIFEST__FILE__KIND__TRACE_INFO},
        {"cpu_util.pb", KYMO__MANIFEST__FILE__KIND__CPU_UTIL},
        {"host_mem.pb", KYMO__MANIFEST__FILE__KIND__HOST_MEM},
        {"trace.json", KYMO__MANIFEST__FILE__KIND__FRAMEWORK_TRACE},
    };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t k = strlen(kinds[i].end);
        if (n >= k && !strcmp(name + n - k, kinds[i].end))
            return kinds[i].kind;
    }
    return KYMO__MANIFEST__FILE__KIND__OTHER;
}

uint32_t manifest_core_by_name(const char *name)
{
    const char *at = strstr(name, "_vnc_");
    at = at ? at + 5 : strstr(name, "_nc_") ? strstr(name, "_nc_") + 4 : "0";
    return (uint32_t)strtoul(at, NULL, 10);
}

static bool is_tables(const Kymo__Manifest__File *f)
{
    return f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__TABLES;
}

bool manifest_file_is_profile(const Kymo__Manifest__File *f)
{
    return f->size && (is_ntff(f) || is_system(f) || is_tables(f));
}

/* Sessions of one process that were captured together. */
static bool is_one_of_several(const Kymo__Manifest__Capture *m, size_t i)
{
    for (size_t k = 0; k < m->n_files; k++)
        if (k != i && is_system(m->files[k]) && m->files[k]->size)
            return true;
    return false;
}

static bool shares_core(const Kymo__Manifest__Capture *m, size_t i)
{
    for (size_t k = 0; k < m->n_files; k++)
        if (k != i && is_ntff(m->files[k]) && m->files[k]->size && m->files[k]->vnc == m->files[i]->vnc)
            return true;
    return false;
}

/* The uuid is in the profile itself; the hash is what only the manifest knows. */
static const ProtobufCBinaryData *only_neff(const Kymo__Manifest__File *f)
{
    if (f->n_neff_uuid == 1 && f->neff_uuid[0].len >= 8)
        return &f->neff_uuid[0];
    return f->n_neff_sha256 == 1 && f->neff_sha256[0].len >= 8 ? &f->neff_sha256[0] : NULL;
}

static bool same_neff(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    return a == b || (a && b && !memcmp(a->data, b->data, 8));
}

static bool shares_neff(const Kymo__Manifest__Capture *m, size_t i)
{
    for (size_t k = 0; k < m->n_files; k++)
        if (k != i && is_ntff(m->files[k]) && m->files[k]->size && m->files[k]->vnc == m->files[i]->vnc &&
            same_neff(only_neff(m->files[k]), only_neff(m->files[i])))
            return true;
    return false;
}

void manifest_file_profile_name(const Kymo__Manifest__Capture *m, size_t i,
                                char out[static MANIFEST_PROFILE_NAME_MAX + 1])
{
    const Kymo__Manifest__File *f = m->files[i];
    char neff[24] = "";
    if (is_system(f)) {
        if (is_one_of_several(m, i))
            (void)snprintf(neff, sizeof neff, "f%zu", i);
    } else if (shares_core(m, i)) {
        const ProtobufCBinaryData *one = only_neff(f);
        size_t n = 0;
        if (one)
            kymo_hash_hex(one->data, 8, neff);
        n = strlen(neff);
        if (shares_neff(m, i))
            (void)snprintf(neff + n, sizeof neff - n, "%sf%zu", n ? "-" : "", i);
    }
    const struct manifest_profile p = {
        .job = m->job,
        .host = m->host,
        .id = m->capture_id,
        .neff = neff,
        .rank = m->has_rank ? m->rank : 0,
        .vnc = f->has_vnc ? f->vnc : 0,
        .system = is_system(f),
    };
    manifest_profile_name(&p, out);
}
