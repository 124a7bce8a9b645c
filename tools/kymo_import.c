/* kymo import CAPTURE_DIR: puts a capture into a store and makes its profiles. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tools/import_manifest.h"
#include "tools/store_work.h"
#include "tools/subcommands.h"

#define COPY_BYTES ((size_t)1 << 20)

struct args {
    struct store_work work;
    const char *dir, *id;
};

static const struct kymo_option rows[] = {
    STORE_WORK_ROWS(struct args, work),
    {.name = "capture-id",
     .type = KYMO_OPTION_TEXT,
     .arg = "ID",
     .offset = offsetof(struct args, id),
     .help = "of a directory without a manifest; from the session's directory or its contents by default"},
    {.name = "CAPTURE_DIR",
     .type = KYMO_OPTION_POSITIONAL,
     .offset = offsetof(struct args, dir),
     .help = "a directory with manifest.pb, or a session directory of the runtime; none: go on with what waits"},
    {0},
};

static const struct kymo_options spec = {
    .program = "kymo import",
    .about =
        "Puts a capture into a store, byte for byte, and makes its profiles in a sandbox. What an earlier run left\n"
        "unfinished goes on where it was. The capture's directory is only read.\n"
        "Exit code: 0 all profiles of the capture are ready, 1 not all of them, 2 wrong usage.",
    .rows = rows,
};

static int copy_file(struct raw_capture *c, size_t i, const char *dir, uint8_t *buf, struct kymo_err *err)
{
    const Kymo__Manifest__File *f = raw_capture_manifest(c)->files[i];
    char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, f->name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    if (raw_capture_has_file(c, i))
        return 0;
    uint64_t size = 0;
    int fd KYMO_CLOSE = kymo_file_open_regular(path, &size, err);
    if (fd < 0)
        return fd;
    if (size != f->size)
        return kymo_err_set(err, -EBADMSG, "%s: has %llu bytes, the manifest says %llu", path, (unsigned long long)size,
                            (unsigned long long)f->size);
    for (uint64_t off; (off = raw_capture_offset(c, i)) < f->size;) {
        size_t n = f->size - off < COPY_BYTES ? (size_t)(f->size - off) : COPY_BYTES;
        int r = kymo_file_pread_all(fd, buf, n, off, path, err);
        if (r == 0)
            r = raw_capture_write(c, i, off, buf, n, err);
        if (r < 0)
            return r;
    }
    return raw_capture_finish_file(c, i, err);
}

static int copy_files(struct raw_capture *c, const char *dir, struct kymo_err *err)
{
    uint8_t *buf KYMO_FREE = kymo_malloc(COPY_BYTES);
    if (!buf)
        return kymo_err_set(err, -ENOMEM, "no memory to copy with");
    for (size_t i = 0; i < raw_capture_manifest(c)->n_files; i++) {
        int r = copy_file(c, i, dir, buf, err);
        /* What an earlier run left may have been damaged since: once more from the beginning. */
        if (r == -EBADMSG && raw_capture_offset(c, i) == 0)
            r = copy_file(c, i, dir, buf, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Why a capture does not come in is said in the catalogue too, if that can still be written. */
static int receive(struct store *s, struct raw_capture *c, const char *dir, struct kymo_err *err)
{
    const Kymo__Manifest__Capture *m = raw_capture_manifest(c);
    int r = catalog_receiving(s->catalog, m, NULL, NULL, err);
    if (r == 0)
        r = copy_files(c, dir, err);
    if (r == 0)
        r = store_commit(s, c, err);
    if (r < 0) {
        int noted = catalog_receiving(s->catalog, m, NULL, err->text, NULL);
        (void)noted;
    }
    return r;
}

static int take_in(struct store *s, const struct args *a, char id[static MANIFEST_ID_MAX + 1], struct kymo_err *err)
{
    uint8_t *manifest KYMO_FREE = NULL;
    size_t n = 0;
    Kymo__Manifest__Capture *m KYMO_CLEANUP(manifest_freep) = NULL;
    struct raw_capture *c = NULL;
    int r = import_manifest(a->dir, a->id, &manifest, &n, err);
    r = r < 0 ? r : manifest_parse(manifest, n, &m, err);
    if (r < 0)
        return r;
    (void)snprintf(id, MANIFEST_ID_MAX + 1, "%s", m->capture_id);
    r = raw_store_begin(s->raw, manifest, n, &c, err);
    if (r == RAW_RECEIVE)
        r = receive(s, c, a->dir, err);
    else if (r == -ENOSPC && catalog_receiving(s->catalog, m, NULL, err->text, NULL) < 0)
        kymo_err_prefix(err, "(the catalogue cannot be written either)");
    raw_capture_free(c);
    return r < 0 ? r : 0;
}

struct verdict {
    const char *data_path;
    size_t profiles, ready, waiting;
};

static int count(void *ctx, const struct catalog_profile *p)
{
    struct verdict *v = ctx;
    v->profiles++;
    v->ready += p->state == CATALOG_READY;
    v->waiting += p->state == CATALOG_QUEUED;
    return 0;
}

static int print_and_count(void *ctx, const struct catalog_profile *p)
{
    store_work_print(((struct verdict *)ctx)->data_path, p);
    return count(ctx, p);
}

static int import(struct store *s, const struct args *a)
{
    struct kymo_err err = {0};
    char id[MANIFEST_ID_MAX + 1] = "";
    struct verdict before = {s->data_path, 0, 0, 0}, after = before;
    int r = a->dir ? take_in(s, a, id, &err) : 0;
    /* An earlier import may have done all of it. */
    if (r == 0 && a->dir)
        r = catalog_list(s->catalog, id, count, &before, &err);
    if (r < 0) {
        (void)fprintf(stderr, "kymo import: %s\n", err.text);
        return 1;
    }
    if (store_work_run(s, &a->work, "kymo import") < 0)
        return 1;
    /* What came to an end now has been printed already. */
    r = catalog_list(s->catalog, *id ? id : NULL, a->dir && !before.waiting ? print_and_count : count, &after, &err);
    if (r < 0)
        (void)fprintf(stderr, "kymo import: %s\n", err.text);
    else if (a->dir && !after.profiles)
        printf("capture %s has no profile that is not empty\n", id);
    return r < 0 || after.ready != after.profiles;
}

int kymo_import_main(int argc, char **argv)
{
    struct args args;
    int code = kymo_options_main(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct store *s = NULL;
    struct kymo_err err = {0};
    if (store_open(args.work.data_path, args.work.reserve, &s, &err) < 0) {
        (void)fprintf(stderr, "kymo import: %s\n", err.text);
        return 1;
    }
    code = import(s, &args);
    store_free(s);
    return code;
}
