#include "collector/entering.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"

#define TEXT_MAX (1u << 20) /* bytes of entering.json */

struct entering {
    char *place, *owner;
    struct raw_capture *raw;
    char id[MANIFEST_ID_MAX + 1];
    size_t *parts;
    size_t n, next; /* files of the manifest; the one whose turn it is */
};

static int no_memory(struct kymo_err *err)
{
    return kymo_err_set(err, -ENOMEM, "no memory for an upload");
}

struct entering *entering_free(struct entering *e)
{
    if (!e)
        return NULL;
    raw_capture_free(e->raw);
    kymo_free(e->place);
    kymo_free(e->owner);
    kymo_free(e->parts);
    kymo_free(e);
    return NULL;
}

static void entering_freep(struct entering **e)
{
    entering_free(*e);
}

static void json_freep(json_t **j)
{
    json_decref(*j);
}

const char *entering_capture(const struct entering *e)
{
    return e->id;
}

static char *name_in(const char *place, const char *name)
{
    return kymo_asprintf("%s/%s", place, name);
}

bool entering_has_begun(const char *place)
{
    char *path KYMO_FREE = name_in(place, "entering.json");
    return !path || access(path, F_OK) == 0;
}

static int forget(const char *place, struct kymo_err *err)
{
    char *path KYMO_FREE = name_in(place, "entering.json");
    if (!path)
        return no_memory(err);
    return kymo_file_ops()->unlink(path) < 0 && errno != ENOENT
               ? kymo_err_set(err, -errno, "%s: cannot be removed: %s", path, strerror(errno))
               : 0;
}

static int append(const char *data, size_t n, void *ctx)
{
    return kymo_buf_append(ctx, data, n);
}

/* The names of the directories that lead to it must be as durable as what is in them. */
static int write_down(const struct entering_plan *plan, size_t n_files, struct kymo_err *err)
{
    char *pb KYMO_FREE = name_in(plan->place, "entering.pb");
    char *path KYMO_FREE = name_in(plan->place, "entering.json");
    json_t *list = json_array();
    for (size_t i = 0; i < n_files; i++)
        (void)json_array_append_new(list,
                                    json_integer(plan->parts[i] == ENTERING_NO_PART ? -1 : (json_int_t)plan->parts[i]));
    json_t *o KYMO_CLEANUP(json_freep) =
        json_pack("{s:i, s:s?, s:o}", "version", 1, "owner", plan->owner, "parts", list);
    struct kymo_buf text;
    kymo_buf_init(&text, TEXT_MAX);
    bool whole =
        pb && path && o && json_array_size(list) == n_files && json_dump_callback(o, append, &text, JSON_COMPACT) == 0;
    int r = whole ? kymo_file_write_atomic(pb, plan->manifest, plan->n, err) : no_memory(err);
    if (r == 0)
        r = kymo_file_sync_parent(plan->place, err);
    if (r == 0)
        r = kymo_file_write_atomic(path, text.data, text.len, err);
    kymo_buf_done(&text);
    return r;
}

static int check_free(const struct store *s, const char *id, struct kymo_err *err)
{
    char source[MANIFEST_TEXT_MAX + 1];
    int64_t ns;
    char *published KYMO_FREE = raw_store_manifest_path(s->raw, id);
    int r = published ? catalog_receiving_source(s->catalog, id, source, &ns, err) : no_memory(err);
    if (r == 1)
        return kymo_err_set(err, -EEXIST, "capture %s is being received", id);
    if (r == 0 && access(published, F_OK) == 0)
        return kymo_err_set(err, -EEXIST, "capture %s is here already", id);
    return r;
}

static int copy_plan(struct entering *e, const struct entering_plan *plan, struct kymo_err *err)
{
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    int r = manifest_parse(plan->manifest, plan->n, &m, err);
    if (r < 0)
        return r;
    (void)snprintf(e->id, sizeof e->id, "%s", m->capture_id);
    e->n = m->n_files;
    e->place = kymo_strdup(plan->place);
    e->owner = plan->owner ? kymo_strdup(plan->owner) : NULL;
    e->parts = KYMO_NEW_ARRAY(size_t, e->n + 1);
    if (!e->place || !e->parts || (plan->owner && !e->owner))
        return no_memory(err);
    memcpy(e->parts, plan->parts, e->n * sizeof *e->parts);
    return 0;
}

int entering_begin(struct store *s, const struct entering_plan *plan, struct entering **ret, struct kymo_err *err)
{
    struct entering *e KYMO_CLEANUP(entering_freep) = KYMO_NEW(struct entering);
    int r = e ? copy_plan(e, plan, err) : no_memory(err);
    if (r == 0)
        r = check_free(s, e->id, err);
    if (r == 0)
        r = write_down(plan, e->n, err);
    if (r == 0)
        r = raw_store_begin_adopting(s->raw, plan->manifest, plan->n, plan->bytes, &e->raw, err);
    if (r == RAW_STORED)
        r = kymo_err_set(err, -EEXIST, "capture %s is here already", e->id);
    if (r < 0) {
        (void)!forget(plan->place, NULL);
        return r;
    }
    *ret = KYMO_TAKE(e);
    return 0;
}

static int take_file(struct entering *e, size_t i, struct kymo_err *err)
{
    const Kymo__Manifest__File *f = raw_capture_manifest(e->raw)->files[i];
    if (raw_capture_has_file(e->raw, i))
        return 0;
    if (e->parts[i] == ENTERING_NO_PART) {
        /* Another name of it in the same manifest may have brought it. */
        int r = raw_capture_finish_file(e->raw, i, err);
        return r == -EAGAIN ? kymo_err_set(err, -EINVAL,
                                           "%.200s is not in the upload, and the collector does not have it", f->name)
                            : r;
    }
    char *part KYMO_FREE = kymo_asprintf("%s/part-%zu", e->place, e->parts[i]);
    return part ? raw_capture_adopt(e->raw, i, part, f->sha256.data, err) : no_memory(err);
}

int entering_turn(struct entering *e, struct store *s, unsigned ms, struct kymo_err *err)
{
    uint64_t start = kymo_clock_mono_ns();
    while (e->next < e->n) {
        int r = take_file(e, e->next, err);
        if (r < 0)
            return r;
        e->next++;
        if (kymo_clock_mono_ns() - start > (uint64_t)ms * 1000000)
            return 1;
    }
    int r = store_commit_of(s, e->raw, e->owner, err);
    if (r < 0)
        return r;
    /* It is there, whatever becomes of this: the next start would find that it is. */
    (void)!forget(e->place, NULL);
    return 0;
}

/* It may have been published when the disk failed: then that goes, too, unless the catalogue has it. */
int entering_undo(struct entering *e, struct store *s, struct kymo_err *err)
{
    e->raw = raw_capture_free(e->raw);
    int known = catalog_has_capture(s->catalog, e->id, err);
    int r = known < 0 ? known : raw_store_discard(s->raw, e->id, err);
    if (r == 0 && !known)
        r = raw_store_remove(s->raw, e->id, err);
    return r < 0 ? r : forget(e->place, err);
}

static int read_plan(const char *place, struct entering_plan *plan, size_t **ret_parts, json_t **ret_json,
                     uint8_t **ret_manifest, struct kymo_err *err)
{
    char *pb KYMO_FREE = name_in(place, "entering.pb");
    char *path KYMO_FREE = name_in(place, "entering.json");
    uint8_t *text KYMO_FREE = NULL;
    size_t n = 0;
    int r = pb && path ? kymo_file_read_all(path, TEXT_MAX, &text, &n, err) : no_memory(err);
    if (r == 0)
        r = kymo_file_read_all(pb, MANIFEST_BYTES_MAX, ret_manifest, &plan->n, err);
    if (r < 0)
        return r;
    *ret_json = json_loadb((const char *)text, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *owner = json_object_get(*ret_json, "owner"), *list = json_object_get(*ret_json, "parts");
    if (json_integer_value(json_object_get(*ret_json, "version")) != 1 || !json_is_array(list) ||
        json_array_size(list) > MANIFEST_FILES_MAX || !(json_is_string(owner) || json_is_null(owner)))
        return kymo_err_set(err, -EINVAL, "%s: is damaged", path);
    size_t count = json_array_size(list);
    *ret_parts = KYMO_NEW_ARRAY(size_t, MANIFEST_FILES_MAX + 1);
    if (!*ret_parts)
        return no_memory(err);
    for (size_t i = 0; i <= MANIFEST_FILES_MAX; i++) {
        json_int_t part = i < count ? json_integer_value(json_array_get(list, i)) : -1;
        (*ret_parts)[i] = part < 0 ? ENTERING_NO_PART : (size_t)part;
    }
    plan->place = place;
    plan->owner = json_string_value(owner);
    plan->manifest = *ret_manifest;
    plan->parts = *ret_parts;
    plan->bytes = UINT64_MAX; /* all of it is here */
    return 0;
}

/* The capture is published, and the catalogue may not know. */
static int add_published(struct store *s, const struct entering *e, const struct entering_plan *plan,
                         struct kymo_err *err)
{
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    int r = manifest_parse(plan->manifest, plan->n, &m, err);
    return r < 0 ? r : catalog_received_of(s->catalog, m, e->owner, err);
}

static int go_on(struct store *s, const char *place, struct kymo_err *err)
{
    struct entering *e KYMO_CLEANUP(entering_freep) = KYMO_NEW(struct entering);
    struct entering_plan plan = {0};
    size_t *parts KYMO_FREE = NULL;
    uint8_t *manifest KYMO_FREE = NULL;
    json_t *json KYMO_CLEANUP(json_freep) = NULL;
    int r = e ? read_plan(place, &plan, &parts, &json, &manifest, err) : no_memory(err);
    if (r == 0)
        r = copy_plan(e, &plan, err);
    if (r < 0)
        return r;
    r = raw_store_begin_adopting(s->raw, plan.manifest, plan.n, plan.bytes, &e->raw, err);
    if (r == RAW_STORED)
        return add_published(s, e, &plan, err);
    while (r >= 0 && (r = entering_turn(e, s, 1000, err)) == 1)
        continue;
    /* Its files, or its name, are gone: nothing will make it whole. */
    if (r == -ENOENT || r == -EBADMSG || r == -EINVAL)
        (void)!entering_undo(e, s, NULL);
    return r;
}

/* What passes, and is to be tried again. */
static bool is_passing(int r)
{
    return r == -ENOSPC || r == -EDQUOT || r == -ENOMEM || r == -EIO || r == -EROFS || r == -EBUSY || r == -EMFILE ||
           r == -ENFILE;
}

/* It was acknowledged: whoever keeps the store may still make something of its files. */
static int set_aside(struct store *s, const char *place, struct kymo_err *err)
{
    char *root KYMO_FREE = kymo_asprintf("%s/" ENTERING_DAMAGED, s->data_path);
    char *to KYMO_FREE = root ? name_in(root, strrchr(place, '/') + 1) : NULL;
    int r = to ? kymo_file_mkdirs(root, err) : no_memory(err);
    if (r == 0)
        r = kymo_file_rename(place, to, err);
    s->set_aside += r == 0;
    return r;
}

static int recover_one(struct store *s, const char *place, struct kymo_err *err)
{
    if (!entering_has_begun(place))
        return 0;
    int r = go_on(s, place, err);
    if (r < 0)
        return is_passing(r) ? 0 : set_aside(s, place, err);
    return kymo_file_remove_tree(place, err);
}

int entering_recover(struct store *s, struct kymo_err *err)
{
    char *root KYMO_FREE = kymo_asprintf("%s/" ENTERING_UPLOADS, s->data_path);
    DIR *dir = root ? opendir(root) : NULL;
    int r = 0;
    if (!root)
        return no_memory(err);
    if (!dir)
        return errno == ENOENT ? 0 : kymo_err_set(err, -errno, "%s: cannot be listed: %s", root, strerror(errno));
    for (const struct dirent *d; r == 0 && (d = readdir(dir));) {
        char *place KYMO_FREE = d->d_name[0] == '.' ? NULL : name_in(root, d->d_name);
        if (place)
            r = recover_one(s, place, err);
    }
    (void)closedir(dir);
    return r;
}
