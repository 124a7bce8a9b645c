/* Intake: captures put together in staging/ and published; NEFFs; room. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool_internal.h"

#define COPY_CHUNK (1u << 20)
#define FLUSH_EVERY (8u << 20)

/* ---- room ---- */

bool spool_evict_one(struct spool *s, struct kymo_err *err)
{
    for (size_t i = 0; i < s->state.nentries; i++) {
        const struct spool_entry *e = s->state.entries[i];
        if (e->state != SPOOL_PENDING)
            continue;
        uint64_t seq = e->seq;
        if (spool_append_lost(s, e, spool_entry_bytes(e), SPOOL_EVICTED, true, err) < 0)
            return false;
        spool_sweep(s);
        /* A capture that cannot be unlinked gives no room, and the next one would not either. */
        return !spool_state_find(&s->state, seq);
    }
    return false;
}

static bool fits(const struct spool *s, uint64_t bytes, uint64_t copied, bool capture)
{
    uint64_t free_bytes;
    if (bytes > s->limits.bytes_max || spool_used_bytes(s) > s->limits.bytes_max - bytes)
        return false;
    if (capture && s->state.pending.captures >= s->limits.captures_max)
        return false;
    if (copied == 0)
        return true;
    return kymo_file_free_bytes(s->dir, &free_bytes, NULL) == 0 && free_bytes >= s->limits.floor_bytes &&
           free_bytes - s->limits.floor_bytes >= copied;
}

bool spool_is_stopped(const struct spool *s)
{
    return s->stopped && spool_used_bytes(s) > s->limits.bytes_max / 4 * 3;
}

static bool has_free(const struct spool *s, uint64_t bytes)
{
    uint64_t free_bytes;
    return kymo_file_free_bytes(s->dir, &free_bytes, NULL) < 0 || free_bytes >= bytes;
}

void spool_relieve(struct spool *s)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < s->state.nentries; i++) {
        uint64_t bytes = spool_entry_bytes(s->state.entries[i]);
        largest = bytes > largest ? bytes : largest;
    }
    /* Each round removes something, so the rounds end. */
    while (!has_free(s, s->limits.floor_bytes + largest))
        if (!spool_evict_neff(s) && !(s->limits.policy == SPOOL_DROP_OLDEST && spool_evict_one(s, NULL)))
            return;
}

static int no_room(const struct spool *s, uint64_t bytes, struct kymo_err *err)
{
    uint64_t free_bytes;
    if (kymo_file_free_bytes(s->dir, &free_bytes, NULL) == 0 &&
        (free_bytes < bytes || free_bytes - bytes < s->limits.floor_bytes))
        return kymo_err_set(err, -ENOSPC,
                            "%s: no room for %llu bytes: %llu bytes are free on its file system, and spool-floor keeps "
                            "%llu of them",
                            s->dir, (unsigned long long)bytes, (unsigned long long)free_bytes,
                            (unsigned long long)s->limits.floor_bytes);
    return kymo_err_set(err, -ENOSPC, "%s: no room for %llu bytes: %llu of %llu are in use", s->dir,
                        (unsigned long long)bytes, (unsigned long long)spool_used_bytes(s),
                        (unsigned long long)s->limits.bytes_max);
}

int spool_make_room(struct spool *s, uint64_t bytes, uint64_t copied, bool capture, uint32_t *cause,
                    struct kymo_err *err)
{
    uint32_t ignored = 0;
    cause = cause ? cause : &ignored;
    if (spool_is_stopped(s)) {
        *cause = SPOOL_STOPPED;
        return kymo_err_set(err, -ENOSPC, "%s: the spool is stopped until a quarter of it is free", s->dir);
    }
    s->stopped = false;
    /* Each round removes something, so the rounds end. */
    while (!fits(s, bytes, copied, capture)) {
        bool freed = spool_evict_neff(s);
        if (!freed && s->limits.policy == SPOOL_DROP_OLDEST && bytes <= s->limits.bytes_max)
            freed = spool_evict_one(s, NULL);
        if (freed)
            continue;
        s->stopped = s->limits.policy == SPOOL_STOP;
        *cause = SPOOL_FULL;
        return no_room(s, bytes, err);
    }
    return 0;
}

/* ---- bytes ---- */

/* Only starts the disk early; a failure shows in the sync. */
static void start_writeback(int fd, uint64_t off, uint64_t n)
{
    (void)sync_file_range(fd, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

/* Hashes what it writes while it is at hand: reading it again would cost as much as writing it. */
static int copy_bytes(int from, const char *from_name, int to, const char *to_name, uint64_t size,
                      uint8_t sha[KYMO_SHA256_SIZE], struct kymo_err *err)
{
    uint8_t *buf KYMO_FREE = kymo_malloc(COPY_CHUNK);
    struct kymo_sha256 *hash KYMO_CLEANUP(kymo_sha256_freep) = kymo_sha256_new();
    if (!buf || !hash)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < COPY_CHUNK ? (size_t)(size - at) : COPY_CHUNK;
        int r = kymo_file_pread_all(from, buf, n, at, from_name, err);
        if (r == 0)
            r = kymo_file_pwrite_all(to, buf, n, at, to_name, err);
        if (r == 0 && kymo_sha256_add(hash, buf, n) < 0)
            r = kymo_err_set(err, -EIO, "%s: cannot be hashed", to_name);
        if (r < 0)
            return r;
        at += n;
        if (at % FLUSH_EVERY == 0)
            start_writeback(to, at - FLUSH_EVERY, FLUSH_EVERY);
    }
    return kymo_sha256_end(hash, sha) < 0 ? kymo_err_set(err, -EIO, "%s: cannot be hashed", to_name) : 0;
}

/* 1: the sync failed, so another file must be written. */
static int copy_once(struct spool *s, int from, const char *from_name, const char *to, uint64_t size,
                     uint8_t sha[KYMO_SHA256_SIZE], struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (fd < 0)
        return fd;
    int r = copy_bytes(from, from_name, fd, to, size, sha, err);
    if (r == 0 && kymo_file_sync(fd, to, err) < 0) {
        s->failed_syncs++;
        r = 1;
    }
    if (r != 0)
        (void)kymo_file_ops()->unlink(to);
    return r;
}

int spool_copy(struct spool *s, int from, const char *from_name, const char *to, uint64_t size,
               uint8_t ret_sha256[KYMO_SHA256_SIZE], struct kymo_err *err)
{
    int r = copy_once(s, from, from_name, to, size, ret_sha256, err);
    if (r == 1)
        r = copy_once(s, from, from_name, to, size, ret_sha256, err);
    return r == 1 ? kymo_err_set(err, -EIO, "%s: cannot be made durable, twice", to) : r;
}

/* ---- captures ---- */

static int make_staged(const struct spool *s, const char *id, const char *dir, struct kymo_err *err)
{
    bool mine = true;
    for (size_t i = 0; i < s->nstaged; i++)
        mine &= strcmp(s->staged[i]->entry->id, id) != 0;
    /* What an earlier try left whose end could not be written down. */
    if (mine && s->limits.originals_stay && spool_exists(dir)) {
        int r = kymo_file_remove_tree(dir, err);
        if (r < 0)
            return r;
    }
    if (kymo_file_ops()->mkdir(dir, 0700) < 0)
        return kymo_err_set(err, -errno, "%s: cannot make it: %s", dir, strerror(errno));
    return 0;
}

int spool_begin(struct spool *s, const char *id, struct spool_capture **ret, struct kymo_err *err)
{
    size_t len = strlen(id);
    if (!spool_name_ok(id, len, SPOOL_ID_MAX))
        return kymo_err_set(err, -EINVAL, "a capture id is 1 to %d of [A-Za-z0-9._-] and does not begin with a dot",
                            SPOOL_ID_MAX);
    if (s->nstaged == SPOOL_STAGED_MAX)
        return kymo_err_set(err, -ENOBUFS, "%s: %d captures are being put together already", s->dir, SPOOL_STAGED_MAX);
    if (spool_state_find_id(&s->state, id))
        return kymo_err_set(err, -EEXIST, "%s: capture %s is known already", s->dir, id);
    struct spool_capture *c = KYMO_NEW(struct spool_capture);
    if (!c)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    c->spool = s;
    c->entry = spool_entry_new(id, len, SPOOL_FILES_MAX, SPOOL_NEFFS_MAX);
    c->dir = kymo_asprintf("%s/%s", s->staging, id);
    c->target = kymo_asprintf("%s/%s", s->captures, id);
    int r = 0;
    if (!c->entry || !c->dir || !c->target)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    else if (spool_exists(c->target))
        r = kymo_err_set(err, -EEXIST, "%s: is there already", c->target);
    else
        r = make_staged(s, id, c->dir, err);
    if (r < 0) {
        spool_entry_free(c->entry);
        kymo_free(c->dir);
        kymo_free(c->target);
        kymo_free(c);
        return r;
    }
    c->entry->nfiles = c->entry->nneffs = 0;
    s->staged[s->nstaged++] = c;
    *ret = c;
    return 0;
}

static void end_capture(struct spool_capture *c)
{
    struct spool *s = c->spool;
    for (size_t i = 0; i < s->nstaged; i++)
        if (s->staged[i] == c)
            s->staged[i] = s->staged[--s->nstaged];
    s->staged_bytes -= c->bytes;
    spool_entry_free(c->entry);
    kymo_free(c->dir);
    kymo_free(c->target);
    kymo_free(c);
}

static int check_name(const struct spool_capture *c, const char *name, struct kymo_err *err)
{
    const struct spool_entry *e = c->entry;
    if (!spool_name_ok(name, strlen(name), SPOOL_NAME_MAX) || !strncmp(name, SPOOL_MANIFEST, strlen(SPOOL_MANIFEST)))
        return kymo_err_set(err, -EINVAL, "capture %s: a file cannot be named so", e->id);
    /* One place is the manifest's. */
    if (e->nfiles + 1 >= SPOOL_FILES_MAX)
        return kymo_err_set(err, -ENOBUFS, "capture %s: has %d files already", e->id, SPOOL_FILES_MAX);
    for (size_t i = 0; i < e->nfiles; i++)
        if (!strcmp(e->files[i].name, name))
            return kymo_err_set(err, -EEXIST, "capture %s: has %s already", e->id, name);
    return 0;
}

static int check_size(struct spool_capture *c, uint64_t size, struct kymo_err *err)
{
    const struct spool_limits *l = &c->spool->limits;
    if (size <= l->capture_bytes_max && c->bytes <= l->capture_bytes_max - size)
        return 0;
    c->cause = SPOOL_TOO_LARGE;
    return kymo_err_set(err, -EFBIG, "capture %s: more than %llu bytes", c->entry->id,
                        (unsigned long long)l->capture_bytes_max);
}

static int copy_in(struct spool_capture *c, int fd, const char *path, const char *to, struct spool_file *f,
                   struct kymo_err *err)
{
    struct spool *s = c->spool;
    int r = spool_make_room(s, f->size, f->size, true, &c->cause, err);
    if (r < 0)
        return r;
    while ((r = spool_copy(s, fd, path, to, f->size, f->sha256, err)) == -ENOSPC)
        if (s->limits.policy != SPOOL_DROP_OLDEST || !(spool_evict_neff(s) || spool_evict_one(s, NULL)))
            break;
    if (r == -ENOSPC) {
        c->cause = SPOOL_FULL;
        s->stopped = s->limits.policy == SPOOL_STOP;
    }
    return r;
}

static int link_file(const char *path, const char *to, struct kymo_err *err)
{
    return kymo_file_ops()->link(path, to) == 0 ? 0 : kymo_err_set(err, -errno, "%s: cannot link to %s", path, to);
}

/* 1: must be copied instead. */
static int rename_in(struct spool_capture *c, int fd, const char *path, const char *to, enum spool_how how,
                     struct spool_file *f, struct kymo_err *err)
{
    struct spool *s = c->spool;
    start_writeback(fd, 0, f->size);
    int r = spool_make_room(s, f->size, 0, true, &c->cause, err);
    if (r == 0)
        r = kymo_hash_sha256_file(path, f->sha256, err);
    if (r < 0)
        return r;
    if (kymo_file_sync(fd, path, err) < 0) {
        s->failed_syncs++;
        return 1;
    }
    r = how == SPOOL_LINK ? link_file(path, to, err) : kymo_file_rename(path, to, err);
    /* A link to somebody else's file may be forbidden where reading it is not. */
    return r == -EXDEV || (how == SPOOL_LINK && (r == -EPERM || r == -EMLINK || r == -EOPNOTSUPP)) ? 1 : r;
}

/* The original goes only after its copy has a durable name; staying behind does no harm. */
static int unlink_original(const struct spool_capture *c, const char *path, struct kymo_err *err)
{
    int r = kymo_file_sync_dir(c->dir, err);
    if (r == 0)
        (void)kymo_file_ops()->unlink(path);
    return r;
}

static int take_file(struct spool_capture *c, const char *path, const char *to, enum spool_how how,
                     struct spool_file *f, struct kymo_err *err)
{
    int fd KYMO_CLOSE = kymo_file_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, err);
    if (fd < 0)
        return fd;
    int r = kymo_file_size(fd, &f->size, path, err);
    if (r == 0)
        r = check_size(c, f->size, err);
    if (r < 0)
        return r;
    if (how == SPOOL_COPY)
        return copy_in(c, fd, path, to, f, err);
    r = rename_in(c, fd, path, to, how, f, err);
    if (r != 1)
        return r;
    r = copy_in(c, fd, path, to, f, err);
    if (r < 0 || how == SPOOL_LINK)
        return r;
    r = unlink_original(c, path, err);
    if (r < 0)
        (void)kymo_file_ops()->unlink(to);
    return r;
}

int spool_take(struct spool_capture *c, const char *path, const char *name, enum spool_how how, struct spool_file *ret,
               struct kymo_err *err)
{
    struct spool_file f = {.size = 0};
    int r = check_name(c, name, err);
    if (r < 0)
        return r;
    memcpy(f.name, name, strlen(name) + 1);
    char *to KYMO_FREE = kymo_asprintf("%s/%s", c->dir, name);
    if (!to)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    r = take_file(c, path, to, how, &f, err);
    if (r < 0)
        return r;
    c->entry->files[c->entry->nfiles++] = f;
    c->bytes += f.size;
    c->spool->staged_bytes += f.size;
    if (ret)
        *ret = f;
    return 0;
}

int spool_refer_neff(struct spool_capture *c, const uint8_t sha256[KYMO_SHA256_SIZE], struct kymo_err *err)
{
    struct spool_entry *e = c->entry;
    for (size_t i = 0; i < e->nneffs; i++)
        if (!memcmp(e->neffs[i], sha256, KYMO_SHA256_SIZE))
            return 0;
    if (spool_find_neff(c->spool, sha256) == c->spool->nneffs)
        return kymo_err_set(err, -ENOENT, "%s: no such NEFF", c->spool->neff_dir);
    if (e->nneffs == SPOOL_NEFFS_MAX)
        return kymo_err_set(err, -ENOBUFS, "capture %s: refers to %d NEFFs already", e->id, SPOOL_NEFFS_MAX);
    memcpy(e->neffs[e->nneffs++], sha256, KYMO_SHA256_SIZE);
    return 0;
}

/* From staged files to a durable directory in captures/. */
static int move_to_captures(struct spool_capture *c, const void *manifest, size_t n, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/" SPOOL_MANIFEST, c->dir);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    /* Before the manifest, which vouches for these names after a crash. */
    int r = kymo_file_sync_dir(c->dir, err);
    if (r == 0)
        r = kymo_file_write_atomic(path, manifest, n, err);
    if (r == 0)
        r = kymo_file_rename(c->dir, c->target, err);
    if (r < 0)
        return r;
    c->moved = true;
    return kymo_file_sync_dir(c->spool->captures, err);
}

static int append_published(struct spool_capture *c, const void *manifest, size_t n, struct kymo_err *err)
{
    struct spool *s = c->spool;
    struct spool_entry *e = c->entry;
    struct spool_file *f = &e->files[e->nfiles];
    *f = (struct spool_file){.name = SPOOL_MANIFEST, .size = n};
    int r = kymo_hash_sha256(manifest, n, f->sha256);
    if (r < 0)
        return kymo_err_set(err, r, "capture %s: cannot hash the manifest", e->id);
    e->seq = s->state.next_seq;
    e->nfiles++;
    r = spool_append(s, SPOOL_PUBLISHED, spool_encode_entry(e, s->payload), err);
    e->nfiles--;
    return r;
}

int spool_publish(struct spool_capture *c, const void *manifest, size_t n, uint64_t *ret_seq, struct kymo_err *err)
{
    struct spool *s = c->spool;
    if (n == 0 || n > SPOOL_MANIFEST_MAX)
        return kymo_err_set(err, -EINVAL, "capture %s: a manifest of %zu bytes", c->entry->id, n);
    if (c->moved)
        return kymo_err_set(err, -EIO, "capture %s: an earlier failure left it where it cannot be published",
                            c->entry->id);
    int r = check_size(c, n, err);
    if (r == 0)
        r = spool_make_room(s, n, n, true, &c->cause, err);
    if (r == 0)
        r = move_to_captures(c, manifest, n, err);
    if (r == 0)
        r = append_published(c, manifest, n, err);
    if (r < 0) {
        /* Back, so that another try renames afresh: a directory whose sync failed is not synced again as it is. */
        if (c->moved && kymo_file_rename(c->target, c->dir, NULL) == 0)
            c->moved = false;
        if (r == -ENOSPC && c->cause == 0)
            c->cause = SPOOL_FULL;
        return r;
    }
    if (ret_seq)
        *ret_seq = c->entry->seq;
    end_capture(c);
    return 0;
}

uint32_t spool_drop_cause(const struct spool_capture *c)
{
    return c->cause ? c->cause : SPOOL_FAILED;
}

int spool_drop(struct spool_capture *c, uint32_t cause, struct kymo_err *err)
{
    struct spool *s = c->spool;
    cause = cause ? cause : spool_drop_cause(c);
    if (cause > SPOOL_CAUSES_N)
        cause = SPOOL_FAILED;
    c->entry->seq = s->state.next_seq;
    int r = spool_append_lost(s, c->entry, c->bytes, cause, c->moved, err);
    end_capture(c);
    spool_sweep(s);
    return r;
}
