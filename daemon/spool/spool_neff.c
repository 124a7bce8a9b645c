/* NEFFs: one file of each content, named by its hash. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool_internal.h"

#define NEFFS_LIMIT 65536

static char *neff_path(const struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    char hex[2 * KYMO_SHA256_SIZE + 1];
    kymo_hash_hex(sha256, KYMO_SHA256_SIZE, hex);
    return kymo_asprintf("%s/%s.neff", s->neff_dir, hex);
}

static bool parse_name(const char *name, uint8_t sha256[KYMO_SHA256_SIZE])
{
    if (strlen(name) != SPOOL_NEFF_NAME_SIZE - 1 || strspn(name, "0123456789abcdef") != 64 ||
        strcmp(name + 64, ".neff") != 0)
        return false;
    for (size_t i = 0; i < KYMO_SHA256_SIZE; i++) {
        const char digits[3] = {name[2 * i], name[2 * i + 1], 0};
        sha256[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

size_t spool_find_neff(const struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    size_t i = 0;
    while (i < s->nneffs && memcmp(s->neffs[i].sha256, sha256, KYMO_SHA256_SIZE) != 0)
        i++;
    return i;
}

static int append_neff(struct spool *s, const struct spool_neff *n)
{
    int r = kymo_grow((void **)&s->neffs, &s->neffs_cap, s->nneffs + 1, NEFFS_LIMIT, sizeof *s->neffs);
    if (r < 0)
        return r;
    s->neffs[s->nneffs++] = *n;
    s->neff_bytes += n->size;
    return 0;
}

static int load_one(void *ctx, const char *name, struct kymo_err *err)
{
    struct spool *s = ctx;
    struct spool_neff n = {.pins = 0};
    struct stat st;
    char *path KYMO_FREE = kymo_asprintf("%s/%s", s->neff_dir, name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    if (!strcmp(name, "new.tmp")) {
        (void)kymo_file_ops()->unlink(path);
        return 0;
    }
    if (!parse_name(name, n.sha256) || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    n.size = (uint64_t)st.st_size;
    n.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    int r = append_neff(s, &n);
    return r < 0 ? kymo_err_set(err, r, "%s: too many NEFFs", s->neff_dir) : 0;
}

static int by_age(const void *a, const void *b)
{
    uint64_t x = ((const struct spool_neff *)a)->mtime_ns, y = ((const struct spool_neff *)b)->mtime_ns;
    return (x > y) - (x < y);
}

int spool_load_neffs(struct spool *s, struct kymo_err *err)
{
    int r = spool_each_name(s->neff_dir, load_one, s, err);
    if (r == 0 && s->nneffs > 1)
        qsort(s->neffs, s->nneffs, sizeof *s->neffs, by_age);
    return r;
}

static bool entry_refers(const struct spool_entry *e, const uint8_t *sha256)
{
    for (size_t i = 0; i < e->nneffs; i++)
        if (!memcmp(e->neffs[i], sha256, KYMO_SHA256_SIZE))
            return true;
    return false;
}

static bool is_needed(const struct spool *s, const struct spool_neff *n)
{
    bool needed = n->pins > 0;
    for (size_t i = 0; i < s->state.nentries && !needed; i++)
        needed = s->state.entries[i]->state == SPOOL_PENDING && entry_refers(s->state.entries[i], n->sha256);
    for (size_t i = 0; i < s->nstaged && !needed; i++)
        needed = entry_refers(s->staged[i]->entry, n->sha256);
    return needed;
}

bool spool_evict_neff(struct spool *s)
{
    for (size_t i = 0; i < s->nneffs; i++) {
        if (is_needed(s, &s->neffs[i]))
            continue;
        char *path KYMO_FREE = neff_path(s, s->neffs[i].sha256);
        if (!path || kymo_file_remove_tree(path, NULL) < 0)
            continue;
        s->neff_bytes -= s->neffs[i].size;
        s->nneffs--;
        memmove(s->neffs + i, s->neffs + i + 1, (s->nneffs - i) * sizeof *s->neffs);
        return true;
    }
    return false;
}

static int publish_neff(struct spool *s, const char *tmp, const struct spool_neff *n, struct kymo_err *err)
{
    char *path KYMO_FREE = neff_path(s, n->sha256);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = kymo_file_rename(tmp, path, err);
    if (r == 0)
        r = kymo_file_sync_dir(s->neff_dir, err);
    if (r == 0 && append_neff(s, n) < 0)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    if (r < 0)
        (void)kymo_file_ops()->unlink(path);
    return r;
}

int spool_add_neff(struct spool *s, int fd, const char *name, uint8_t ret_sha256[KYMO_SHA256_SIZE],
                   struct kymo_err *err)
{
    struct spool_neff n = {.pins = 0};
    int r = kymo_file_size(fd, &n.size, name, err);
    if (r < 0)
        return r;
    if (n.size > s->limits.neff_bytes_max)
        return kymo_err_set(err, -EFBIG, "%s: a NEFF of %llu bytes, more than %llu", name, (unsigned long long)n.size,
                            (unsigned long long)s->limits.neff_bytes_max);
    char *tmp KYMO_FREE = kymo_asprintf("%s/new.tmp", s->neff_dir);
    if (!tmp)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    r = spool_make_room(s, n.size, n.size, false, NULL, err);
    if (r < 0)
        return r;
    (void)kymo_file_ops()->unlink(tmp);
    r = spool_copy(s, fd, name, tmp, n.size, n.sha256, err);
    if (r < 0)
        return r;
    bool known = spool_find_neff(s, n.sha256) < s->nneffs;
    if (!known && s->nneffs >= s->limits.neffs_max && !spool_evict_neff(s))
        r = kymo_err_set(err, -ENOSPC, "%s: holds %zu NEFFs, all in use", s->neff_dir, s->nneffs);
    else if (!known)
        r = publish_neff(s, tmp, &n, err);
    if (known || r < 0)
        (void)kymo_file_ops()->unlink(tmp);
    if (r == 0)
        memcpy(ret_sha256, n.sha256, KYMO_SHA256_SIZE);
    return r;
}

int spool_pin_neff(struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE], bool pin, struct kymo_err *err)
{
    size_t i = spool_find_neff(s, sha256);
    if (i == s->nneffs)
        return kymo_err_set(err, -ENOENT, "%s: no such NEFF", s->neff_dir);
    if (pin ? s->neffs[i].pins == UINT32_MAX : s->neffs[i].pins == 0)
        return kymo_err_set(err, -ERANGE, "%s: a NEFF has %u pins", s->neff_dir, s->neffs[i].pins);
    s->neffs[i].pins += pin ? 1u : UINT32_MAX;
    return 0;
}

void spool_unpin_neff(struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE])
{
    size_t i = spool_find_neff(s, sha256);
    if (i < s->nneffs && s->neffs[i].pins > 0)
        s->neffs[i].pins--;
}

int spool_open_neff(struct spool *s, const uint8_t sha256[KYMO_SHA256_SIZE], uint64_t *ret_size, struct kymo_err *err)
{
    size_t i = spool_find_neff(s, sha256);
    if (i == s->nneffs)
        return kymo_err_set(err, -ENOENT, "%s: no such NEFF", s->neff_dir);
    char *path KYMO_FREE = neff_path(s, sha256);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int fd = kymo_file_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
    if (fd >= 0)
        *ret_size = s->neffs[i].size;
    return fd;
}
