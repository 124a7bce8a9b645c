#include "pipeline/rings/claims.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The same file, whatever way leads to it. */
static bool is_listed_as(const char *manifest_path, const char *name, const struct stat *file)
{
    struct stat st;
    char *path KYMO_FREE =
        kymo_asprintf("%.*s%s", (int)(base_name(manifest_path) - manifest_path), manifest_path, name);
    return path && stat(path, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

static int compare(const Kymo__Manifest__File *f, const struct stat *st, const char *path, const uint8_t *sha256,
                   struct kymo_err *err)
{
    uint8_t own[KYMO_SHA256_SIZE];
    char is[2 * KYMO_SHA256_SIZE + 1], claimed[2 * KYMO_SHA256_SIZE + 1];
    if ((uint64_t)st->st_size != f->size)
        return kymo_err_set(err, -EPROTO, "%s: %lld bytes, but the capture's manifest says %llu", path,
                            (long long)st->st_size, (unsigned long long)f->size);
    int r = sha256 ? 0 : kymo_hash_sha256_file(path, own, err);
    if (r < 0)
        return r;
    sha256 = sha256 ? sha256 : own;
    if (!memcmp(sha256, f->sha256.data, KYMO_SHA256_SIZE))
        return 0;
    kymo_hash_hex(sha256, KYMO_SHA256_SIZE, is);
    kymo_hash_hex(f->sha256.data, KYMO_SHA256_SIZE, claimed);
    return kymo_err_set(err, -EPROTO, "%s: its SHA-256 is %s, but the capture's manifest says %s", path, is, claimed);
}

int claims_check(const Kymo__Manifest__Capture *m, const char *manifest_path, const char *path, const uint8_t *sha256,
                 struct kymo_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return kymo_err_set(err, -errno, "%s: cannot stat: %s", path, strerror(errno));
    for (size_t i = 0; i < m->n_files; i++)
        if (!strcmp(base_name(m->files[i]->name), base_name(path)) &&
            is_listed_as(manifest_path, m->files[i]->name, &st))
            return compare(m->files[i], &st, path, sha256, err);
    return 0;
}
