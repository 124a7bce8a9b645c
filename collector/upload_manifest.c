#include "collector/upload_manifest.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/upload_impl.h"
#include "formats/schema/schema.h"

struct maker {
    const struct upload *u;
    struct upload_manifest *ret;
    size_t top[2]; /* bytes of the folder that all files are in, by whether they are sources */
    Kymo__Manifest__File *files, **list;
    char **names;
    size_t n;
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for the manifest");
}

void upload_manifest_done(struct upload_manifest *m)
{
    kymo_free(m->data);
    kymo_free(m->places);
    kymo_free(m->used);
    *m = (struct upload_manifest){0};
}

static void maker_done(struct maker *m)
{
    for (size_t i = 0; m->names && i < m->n; i++)
        kymo_free(m->names[i]);
    kymo_free(m->names);
    kymo_free(m->files);
    kymo_free(m->list);
}

/* A folder that was uploaded as a whole is in front of every name. */
static size_t common_folder(const struct upload *u, bool source)
{
    const char *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < u->n; i++) {
        const char *path = u->files[i].path, *slash = strchr(path, '/');
        if (u->files[i].source != source)
            continue;
        if (!slash || (first && strncmp(path, first, n) != 0))
            return 0;
        first = path;
        n = (size_t)(slash - path) + 1;
    }
    return n;
}

static const char *short_name(const struct maker *m, size_t i)
{
    const struct upload_file *f = &m->u->files[i];
    return f->path + m->top[f->source];
}

static bool is_hidden(const char *name)
{
    return *name == '.' || strstr(name, "/.");
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static size_t parquet_stem(const char *name)
{
    static const char suffix[] = ".parquet";
    const char *last = last_part(name);
    size_t n = strlen(last), k = sizeof suffix - 1;
    return n > k && !strcmp(last + n - k, suffix) ? n - k : 0;
}

/* Name.parquet or Name_<digits>.parquet of the schema. */
static bool is_known_table(const char *name)
{
    const char *last = last_part(name);
    size_t n = parquet_stem(name), digits = 0;
    while (digits < n && isdigit((unsigned char)last[n - 1 - digits]))
        digits++;
    if (digits && digits + 1 < n && last[n - 1 - digits] == '_')
        n -= digits + 1;
    for (int t = 0; n > 0 && t < KYMO_T_MAX; t++) {
        const char *known = kymo_schema_table((enum kymo_table_id)t)->name;
        if (strlen(known) == n && !strncmp(known, last, n))
            return true;
    }
    return false;
}

static bool is_same_folder(const char *a, const char *b)
{
    size_t n = (size_t)(last_part(a) - a);
    return (size_t)(last_part(b) - b) == n && !strncmp(a, b, n);
}

static struct upload_file *file_at(const struct maker *m, size_t i)
{
    return &m->u->files[i];
}

/* The next file of the manifest is file i of the upload. */
static int add(struct maker *m, size_t i, const char *name, Kymo__Manifest__File__Kind kind, struct kymo_err *err)
{
    struct upload_file *f = file_at(m, i);
    Kymo__Manifest__File *to = &m->files[m->n];
    m->names[m->n] = kymo_strdup(name);
    if (!m->names[m->n])
        return no_memory(err);
    kymo__manifest__file__init(to);
    to->name = m->names[m->n];
    to->has_type = to->has_size = to->has_sha256 = 1;
    to->type = kind;
    to->size = f->size;
    to->sha256 = (ProtobufCBinaryData){.len = sizeof f->sha256, .data = f->sha256};
    if (kind == KYMO__MANIFEST__FILE__KIND__NTFF) {
        to->has_vnc = 1;
        to->vnc = manifest_core_by_name(name);
    }
    m->list[m->n] = to;
    m->ret->places[m->n] = i;
    m->ret->used[i] = true;
    m->n++;
    return 0;
}

static int add_source(struct maker *m, size_t i, struct kymo_err *err)
{
    char *name KYMO_FREE = kymo_asprintf(UPLOAD_SOURCES "/%s", short_name(m, i));
    if (!name)
        return no_memory(err);
    if (!manifest_is_file_name(name))
        return kymo_err_set(err, -EINVAL, "%.200s: the path is too long", file_at(m, i)->path);
    return add(m, i, name, KYMO__MANIFEST__FILE__KIND__OTHER, err);
}

/* The first known table of its folder stands for them all. */
static Kymo__Manifest__File__Kind kind_of_table(struct maker *m, const char *name, uint32_t *folder)
{
    *folder = 0;
    if (!is_known_table(name))
        return KYMO__MANIFEST__FILE__KIND__OTHER;
    for (size_t k = 0; k < m->n; k++) {
        if (m->files[k].type != KYMO__MANIFEST__FILE__KIND__TABLES)
            continue;
        if (is_same_folder(m->files[k].name, name))
            return KYMO__MANIFEST__FILE__KIND__OTHER;
        ++*folder;
    }
    return KYMO__MANIFEST__FILE__KIND__TABLES;
}

static int add_plain(struct maker *m, size_t i, struct kymo_err *err)
{
    const char *name = short_name(m, i);
    uint32_t folder = 0;
    if (is_hidden(name))
        return 0;
    Kymo__Manifest__File__Kind kind =
        parquet_stem(name) ? kind_of_table(m, name, &folder) : manifest_kind_by_name(name);
    int r = add(m, i, name, kind, err);
    if (r == 0 && kind == KYMO__MANIFEST__FILE__KIND__TABLES) {
        m->files[m->n - 1].has_vnc = 1;
        m->files[m->n - 1].vnc = folder;
    }
    return r;
}

static int pack(struct maker *m, const Kymo__Manifest__Capture *c, struct kymo_err *err)
{
    m->ret->n = kymo__manifest__capture__get_packed_size(c);
    m->ret->data = kymo_malloc(m->ret->n);
    if (!m->ret->data)
        return no_memory(err);
    (void)kymo__manifest__capture__pack(c, m->ret->data);
    (void)snprintf(m->ret->id, sizeof m->ret->id, "%s", c->capture_id);
    /* Whatever follows relies on it. */
    Kymo__Manifest__Capture *check KYMO_CLEANUP(manifest_freep) = NULL;
    int r = manifest_parse(m->ret->data, m->ret->n, &check, err);
    return r == -EPROTO ? kymo_err_set(err, -EINVAL, "%s", err->text) : r;
}

static bool makes_profiles(const struct maker *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (manifest_file_is_profile(&m->files[i]))
            return true;
    return false;
}

static int make_by_names(struct maker *m, struct kymo_err *err)
{
    Kymo__Manifest__Capture c = KYMO__MANIFEST__CAPTURE__INIT;
    char name[UPLOAD_TEXT_MAX + 1], id[32];
    int r = 0;
    for (size_t i = 0; r == 0 && i < m->u->n; i++)
        r = file_at(m, i)->source ? add_source(m, i, err) : add_plain(m, i, err);
    if (r == 0 && !makes_profiles(m))
        r = kymo_err_set(err, -EINVAL,
                         "there is nothing to make a profile of: no NTFF that is not empty (*.ntff), no system trace "
                         "(ntrace.pb), no table of a profile (such as Instruction.parquet)");
    if (r < 0)
        return r;
    (void)snprintf(name, sizeof name, "%s", *m->u->name ? m->u->name : "upload");
    (void)snprintf(id, sizeof id, "%s", m->u->id);
    c.has_version = 1;
    c.version = 1;
    c.capture_id = id;
    c.job = name;
    c.host = (char *)(size_t) "upload";
    c.mode = (char *)(size_t) "session";
    c.trigger = (char *)(size_t) "upload";
    c.writer = (char *)(size_t) "kymo-collector " KYMO_VERSION;
    c.n_files = m->n;
    c.files = m->list;
    return pack(m, &c, err);
}

/* The file of the upload that the manifest means; a NEFF may have any name. */
static size_t find_listed(const struct maker *m, const Kymo__Manifest__File *f, const char *base, size_t base_n)
{
    bool neff = f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NEFF;
    for (size_t i = 0; i < m->u->n; i++) {
        const struct upload_file *u = file_at(m, i);
        /* By what differs most first: each is compared with each. */
        if (u->size != f->size || memcmp(u->sha256, f->sha256.data, sizeof u->sha256) != 0 || u->source)
            continue;
        if (neff || (!strncmp(u->path, base, base_n) && !strcmp(u->path + base_n, f->name)))
            return i;
    }
    return UPLOAD_NO_FILE;
}

static int take_listed(struct maker *m, Kymo__Manifest__Capture *c, const char *base, size_t base_n,
                       struct kymo_err *err)
{
    for (size_t k = 0; k < c->n_files; k++) {
        const Kymo__Manifest__File *f = c->files[k];
        size_t i = find_listed(m, f, base, base_n);
        if (i == UPLOAD_NO_FILE && !(f->has_type && f->type == KYMO__MANIFEST__FILE__KIND__NEFF))
            return kymo_err_set(
                err, -EINVAL,
                "manifest.pb lists %.200s with %llu bytes, and no such file is among those uploaded, or it "
                "has other contents",
                f->name, (unsigned long long)f->size);
        m->ret->places[k] = i;
        if (i != UPLOAD_NO_FILE)
            m->ret->used[i] = true;
    }
    return 0;
}

/* Source texts come in addition, behind what is listed. */
static int pack_with_sources(struct maker *m, Kymo__Manifest__Capture *c, struct kymo_err *err)
{
    size_t listed = c->n_files, total = listed + m->n;
    Kymo__Manifest__File **was = c->files, **all = KYMO_NEW_ARRAY(Kymo__Manifest__File *, total + 1);
    if (!all)
        return no_memory(err);
    for (size_t k = 0; k < total; k++)
        all[k] = k < listed ? was[k] : m->list[k - listed];
    c->files = all;
    c->n_files = total;
    int r = pack(m, c, err);
    c->files = was;
    c->n_files = listed;
    kymo_free(all);
    return r;
}

static int make_by_manifest(struct maker *m, size_t at, struct kymo_err *err)
{
    uint8_t *data KYMO_FREE = NULL;
    Kymo__Manifest__Capture *c KYMO_CLEANUP(manifest_freep) = NULL;
    char *part KYMO_FREE = upload_part_path(m->u, at);
    const char *base = file_at(m, at)->path;
    size_t n = 0;
    int r = part ? kymo_file_read_all(part, MANIFEST_BYTES_MAX, &data, &n, err) : no_memory(err);
    if (r == 0)
        r = manifest_parse(data, n, &c, err);
    if (r != 0)
        return r == -EPROTO || r == -EFBIG ? kymo_err_set(err, -EINVAL, "manifest.pb: %s", err->text) : r;
    void *places = KYMO_NEW_ARRAY(size_t, c->n_files + m->u->n + 1);
    if (!places)
        return no_memory(err);
    kymo_free(m->ret->places);
    m->ret->places = places;
    m->ret->used[at] = true;
    r = take_listed(m, c, base, (size_t)(last_part(base) - base), err);
    size_t listed = c->n_files;
    size_t *all = m->ret->places;
    m->ret->places = all + listed;
    for (size_t i = 0; r == 0 && i < m->u->n; i++)
        if (file_at(m, i)->source)
            r = add_source(m, i, err);
    m->ret->places = all;
    return r < 0 ? r : pack_with_sources(m, c, err);
}

/* The manifest that is nearest to the top; several on one level are several captures. */
static int find_manifest(const struct maker *m, size_t *ret, struct kymo_err *err)
{
    size_t best = SIZE_MAX, same = 0;
    *ret = UPLOAD_NO_FILE;
    for (size_t i = 0; i < m->u->n; i++) {
        const char *path = file_at(m, i)->path;
        size_t depth = 0;
        if (file_at(m, i)->source || strcmp(last_part(path), MANIFEST_FILE) != 0)
            continue;
        for (const char *p = path; *p; p++)
            depth += *p == '/';
        same = depth == best ? same + 1 : depth < best ? 1 : same;
        *ret = depth < best ? i : *ret;
        best = depth < best ? depth : best;
    }
    return same > 1
               ? kymo_err_set(err, -EINVAL, "there are %zu captures (manifest.pb) in it: upload one at a time", same)
               : 0;
}

int upload_manifest_make(const struct upload *u, struct upload_manifest *ret, struct kymo_err *err)
{
    struct maker m = {.u = u, .ret = ret, .top = {common_folder(u, false), common_folder(u, true)}};
    size_t at;
    *ret = (struct upload_manifest){.places = KYMO_NEW_ARRAY(size_t, u->n + 1), .used = KYMO_NEW_ARRAY(bool, u->n + 1)};
    m.files = KYMO_NEW_ARRAY(Kymo__Manifest__File, u->n + 1);
    m.list = KYMO_NEW_ARRAY(Kymo__Manifest__File *, u->n + 1);
    m.names = KYMO_NEW_ARRAY(char *, u->n + 1);
    int r = ret->places && ret->used && m.files && m.list && m.names ? find_manifest(&m, &at, err) : no_memory(err);
    if (r == 0)
        r = at == UPLOAD_NO_FILE ? make_by_names(&m, err) : make_by_manifest(&m, at, err);
    maker_done(&m);
    if (r < 0)
        upload_manifest_done(ret);
    return r;
}
