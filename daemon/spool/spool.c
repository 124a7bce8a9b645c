/* Opening, closing, the account, and the one way to change what a spool knows. */
#include "daemon/spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "daemon/spool/spool_internal.h"

#define NAMES_MAX (1u << 20) /* of a directory, so that listing ends */

const struct spool_limits spool_limits_default = {
    .policy = SPOOL_DROP_OLDEST,
    .bytes_max = 20ULL << 30,
    .capture_bytes_max = 10ULL << 30,
    .captures_max = 4096,
    .neff_bytes_max = 2ULL << 30,
    .neffs_max = 1024,
    .floor_bytes = 1ULL << 30,
    .reserve_bytes = 4u << 20,
    .segment_bytes = 1u << 20,
    .loss_rows_max = 1024,
};

bool spool_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

int spool_each_name(const char *path, int (*fn)(void *ctx, const char *name, struct kymo_err *err), void *ctx,
                    struct kymo_err *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return kymo_err_set(err, -errno, "%s: cannot list: %s", path, strerror(errno));
    int r = 0;
    size_t n = 0;
    for (const struct dirent *e; r == 0 && n < NAMES_MAX && (e = readdir(dir)); n++)
        if (e->d_name[0] != '.')
            r = fn(ctx, e->d_name, err);
    (void)closedir(dir);
    return r;
}

/* ---- the journal's segments ---- */

struct old_segments {
    struct spool *s;
    uint64_t bad[SPOOL_BAD_MAX]; /* the newest, smallest first */
};

static void keep_newest_bad(struct old_segments *o, uint64_t number)
{
    uint64_t out = number;
    for (size_t i = SPOOL_BAD_MAX; i-- > 0;) {
        if (o->bad[i] >= out)
            continue;
        uint64_t t = o->bad[i];
        o->bad[i] = out;
        out = t;
    }
    if (out == 0)
        return;
    char name[JOURNAL_NAME_SIZE];
    journal_segment_name(out, ".bad", name);
    char *path KYMO_FREE = kymo_asprintf("%s/%s", o->s->journal_dir, name);
    if (path)
        (void)kymo_file_ops()->unlink(path);
}

static void keep_bad(struct old_segments *o, const char *path, uint64_t number)
{
    char *bad KYMO_FREE = kymo_strdup(path);
    if (!bad)
        return;
    memcpy(bad + strlen(bad) - 4, ".bad", 4);
    if (kymo_file_rename(path, bad, NULL) == 0)
        keep_newest_bad(o, number);
}

/* A name that cannot be unlinked now is met again at the next segment. */
static int remove_old(void *ctx, const char *name, struct kymo_err *err)
{
    struct old_segments *o = ctx;
    char seg[JOURNAL_NAME_SIZE] = "";
    size_t n = strlen(name);
    (void)err;
    if (n == 20 || n == 24)
        memcpy(seg, name, 20);
    if (n == 20 && !strcmp(name + 16, ".bad")) {
        memcpy(seg + 16, ".seg", 4);
        keep_newest_bad(o, journal_segment_number(seg));
        return 0;
    }
    bool tmp = n == 24 && !strcmp(name + 20, ".tmp");
    uint64_t number = journal_segment_number(seg);
    if (number == 0 || (!tmp && (n != 20 || number >= o->s->journal.segment)))
        return 0;
    char *path KYMO_FREE = kymo_asprintf("%s/%s", o->s->journal_dir, name);
    if (!path)
        return 0;
    bool damaged = false;
    for (size_t i = 0; i < o->s->ndamaged && !tmp; i++)
        damaged |= o->s->damaged_segments[i] == number;
    if (damaged)
        keep_bad(o, path, number);
    else
        (void)kymo_file_ops()->unlink(path);
    return 0;
}

void spool_note_damaged(struct spool *s, uint64_t segment)
{
    if (s->ndamaged == SPOOL_BAD_MAX) {
        s->ndamaged--;
        memmove(s->damaged_segments, s->damaged_segments + 1, s->ndamaged * sizeof *s->damaged_segments);
    }
    s->damaged_segments[s->ndamaged++] = segment;
}

static int put_snapshot(struct spool *s, struct journal_segment *n, struct kymo_err *err)
{
    uint64_t now = kymo_clock_real_ns();
    const struct spool_state *st = &s->state;
    int r = journal_put(&s->journal, n, SPOOL_SNAPSHOT, s->scratch, spool_encode_snapshot(st, s->scratch), now, err);
    for (size_t i = 0; r == 0 && i < st->nentries; i++)
        r = journal_put(&s->journal, n, SPOOL_ENTRY, s->scratch, spool_encode_entry(st->entries[i], s->scratch), now,
                        err);
    for (size_t i = 0; r == 0 && i < st->nrows; i++)
        r = journal_put(&s->journal, n, SPOOL_ROW, s->scratch, spool_encode_row(&st->rows[i], s->scratch), now, err);
    return r;
}

static int write_segment(struct spool *s, struct kymo_err *err)
{
    struct journal_segment n;
    int r = journal_begin(&s->journal, s->journal.segment + 1, &n, err);
    if (r < 0)
        return r;
    r = put_snapshot(s, &n, err);
    if (r == 0)
        r = journal_commit(&s->journal, &n, err);
    journal_abort(&s->journal, &n);
    return r;
}

static bool give_reserve(struct spool *s)
{
    if (s->full)
        return false;
    int fd KYMO_CLOSE = kymo_file_open(s->reserve, O_WRONLY, 0, NULL);
    s->full = true;
    return fd >= 0 && kymo_file_ops()->ftruncate(fd, 0) == 0;
}

int spool_new_segment(struct spool *s, struct kymo_err *err)
{
    int r = write_segment(s, err);
    if (r == -ENOSPC && give_reserve(s))
        r = write_segment(s, err);
    if (r < 0)
        return r;
    struct old_segments old = {.s = s};
    s->snapshot_size = s->journal.at;
    (void)spool_each_name(s->journal_dir, remove_old, &old, NULL);
    return 0;
}

/* Reads a suspect segment again: what was durable must still be there. */
static bool suspect_is_damaged(struct spool *s)
{
    struct journal_cursor c;
    struct journal_record rec;
    struct journal_damage damage;
    if (!s->journal.path || journal_cursor_open(&c, s->journal.path, NULL) < 0)
        return true;
    int found;
    do
        found = journal_cursor_next(&c, &rec, &damage, NULL);
    while (found == JOURNAL_RECORD);
    uint64_t whole = found == JOURNAL_DAMAGE ? damage.offset : c.at;
    bool damaged = found < 0 || whole < s->journal.at;
    if (damaged)
        s->damaged_bytes += whole < s->journal.at ? s->journal.at - whole : 0;
    journal_cursor_done(&c);
    return damaged;
}

static int replace_suspect(struct spool *s, struct kymo_err *err)
{
    uint64_t number = s->journal.path ? journal_segment_number(strrchr(s->journal.path, '/') + 1) : 0;
    if (number && suspect_is_damaged(s))
        spool_note_damaged(s, number);
    int r = spool_new_segment(s, err);
    s->replaced_segments += r == 0;
    return r;
}

static int append_durably(struct spool *s, enum spool_record type, size_t len, uint64_t now, struct kymo_err *err)
{
    int r = s->journal.suspect ? replace_suspect(s, err) : 0;
    if (r < 0)
        return r;
    r = journal_append(&s->journal, (uint16_t)type, s->payload, len, now, err);
    if (r == -ENOSPC && !s->journal.suspect && give_reserve(s))
        r = journal_append(&s->journal, (uint16_t)type, s->payload, len, now, err);
    if (r == 0 || !s->journal.suspect)
        return r;
    r = replace_suspect(s, err);
    return r < 0 ? r : journal_append(&s->journal, (uint16_t)type, s->payload, len, now, err);
}

int spool_append(struct spool *s, enum spool_record type, size_t len, struct kymo_err *err)
{
    struct spool_change change;
    const char *cause;
    uint64_t now = kymo_clock_real_ns();
    int r = spool_change_decode(&s->state, (uint16_t)type, s->payload, len, now, &change, &cause);
    if (r < 0)
        return kymo_err_set(err, r, "%s: %s", s->dir, cause);
    r = append_durably(s, type, len, now, err);
    if (r < 0) {
        spool_change_free(&change);
        return r;
    }
    spool_change_commit(&s->state, &change);
    uint64_t due = 2 * s->snapshot_size > s->limits.segment_bytes ? 2 * s->snapshot_size : s->limits.segment_bytes;
    /* When that fails the old segment goes on, or is suspect and replaced by the next append. */
    if (s->journal.at > due)
        (void)spool_new_segment(s, NULL);
    return 0;
}

int spool_append_lost(struct spool *s, const struct spool_entry *e, uint64_t bytes, uint32_t cause, bool in_captures,
                      struct kymo_err *err)
{
    uint64_t row = spool_state_row_for(&s->state, e->seq, cause, s->limits.loss_rows_max);
    return spool_append(s, SPOOL_LOST, spool_encode_lost(e, bytes, row, cause, in_captures, s->payload), err);
}

/* ---- removing ---- */

static int remove_one(struct spool *s, const struct spool_entry *e)
{
    char *captured KYMO_FREE = kymo_asprintf("%s/%s", s->captures, e->id);
    char *staged KYMO_FREE = kymo_asprintf("%s/%s", s->staging, e->id);
    if (!captured || !staged)
        return -ENOMEM;
    int r = kymo_file_remove_tree(captured, NULL);
    if (r == 0)
        r = kymo_file_remove_tree(staged, NULL);
    /* Both: after a crash either directory may show a name that was renamed away. */
    if (r == 0)
        r = kymo_file_sync_dir(s->captures, NULL);
    if (r == 0)
        r = kymo_file_sync_dir(s->staging, NULL);
    return r;
}

void spool_sweep(struct spool *s)
{
    for (size_t i = s->state.nentries; i-- > 0;) {
        const struct spool_entry *e = s->state.entries[i];
        if (e->state == SPOOL_PENDING)
            continue;
        if (s->read_seq == e->seq) {
            s->read_fd = kymo_file_close(s->read_fd);
            s->read_seq = 0;
        }
        if (remove_one(s, e) == 0)
            spool_state_forget(&s->state, e->seq);
    }
    if (s->full)
        spool_refill_reserve(s);
    s->stopped = spool_is_stopped(s);
}

/* ---- open and close ---- */

void spool_refill_reserve(struct spool *s)
{
    static const uint8_t zeros[64u << 10];
    uint64_t free_bytes, size = 0;
    int fd KYMO_CLOSE = kymo_file_open(s->reserve, O_WRONLY | O_CREAT, 0600, NULL);
    s->full = true;
    if (fd < 0 || kymo_file_size(fd, &size, s->reserve, NULL) < 0)
        return;
    if (size < s->limits.reserve_bytes) {
        if (kymo_file_free_bytes(s->dir, &free_bytes, NULL) < 0 ||
            free_bytes < s->limits.floor_bytes + s->limits.reserve_bytes)
            return;
        for (uint64_t at = 0; at < s->limits.reserve_bytes; at += sizeof zeros) {
            uint64_t left = s->limits.reserve_bytes - at;
            size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
            if (kymo_file_pwrite_all(fd, zeros, n, at, s->reserve, NULL) < 0)
                return;
        }
        if (kymo_file_sync(fd, s->reserve, NULL) < 0)
            return;
    }
    s->full = false;
}

uint64_t spool_used_bytes(const struct spool *s)
{
    return s->state.pending.bytes + s->state.removing_bytes + s->staged_bytes + s->neff_bytes;
}

static int make_directories(struct spool *s, struct kymo_err *err)
{
    const char *const dirs[] = {s->captures, s->staging, s->journal_dir, s->neff_dir};
    int r = kymo_file_mkdirs(s->dir, err);
    for (size_t i = 0; r == 0 && i < sizeof dirs / sizeof *dirs; i++)
        if (!spool_exists(dirs[i]))
            r = kymo_file_mkdirs(dirs[i], err);
    /* Also when they were there: whoever made them may have died before its sync. */
    if (r == 0)
        r = kymo_file_sync_dir(s->dir, err);
    return r < 0 ? r : kymo_file_sync_parent(s->dir, err);
}

static int take_lock(struct spool *s, struct kymo_err *err)
{
    char *path KYMO_FREE = kymo_asprintf("%s/lock", s->dir);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    s->lock = kymo_file_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    if (s->lock < 0)
        return s->lock;
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0) {
        char holder[24] = "";
        int cause = errno;
        (void)kymo_file_ops()->pread(s->lock, holder, sizeof holder - 1, 0);
        holder[strspn(holder, "0123456789")] = '\0';
        return kymo_err_set(err, cause == EWOULDBLOCK ? -EBUSY : -cause, "%s: the spool is in use by process %s", path,
                            *holder ? holder : "of another program");
    }
    /* Only for whoever finds it locked: on a full disk the spool must open all the same. */
    char text[24];
    int n = snprintf(text, sizeof text, "%-16ld\n", (long)getpid());
    (void)kymo_file_ops()->pwrite(s->lock, text, (size_t)n, 0);
    return 0;
}

static int make_paths(struct spool *s, const char *dir)
{
    s->dir = kymo_strdup(dir);
    s->captures = kymo_asprintf("%s/captures", dir);
    s->staging = kymo_asprintf("%s/staging", dir);
    s->journal_dir = kymo_asprintf("%s/journal", dir);
    s->neff_dir = kymo_asprintf("%s/neff", dir);
    s->reserve = kymo_asprintf("%s/reserve", dir);
    return s->dir && s->captures && s->staging && s->journal_dir && s->neff_dir && s->reserve ? 0 : -ENOMEM;
}

static int check_limits(const struct spool_limits *l, struct kymo_err *err)
{
    if (l->captures_max == 0 || l->captures_max > SPOOL_CAPTURES_LIMIT)
        return kymo_err_set(err, -EINVAL, "a spool holds 1 to %d captures", SPOOL_CAPTURES_LIMIT);
    if (l->loss_rows_max == 0 || l->loss_rows_max > SPOOL_ROWS_LIMIT)
        return kymo_err_set(err, -EINVAL, "a spool holds 1 to %d loss rows", SPOOL_ROWS_LIMIT);
    if (l->bytes_max > INT64_MAX / 2 || l->capture_bytes_max > INT64_MAX / 2 || l->neff_bytes_max > INT64_MAX / 2 ||
        l->floor_bytes > INT64_MAX / 2 || l->reserve_bytes > INT64_MAX / 2 ||
        l->segment_bytes > JOURNAL_SEGMENT_MAX / 4)
        return kymo_err_set(err, -EINVAL, "a spool's limit is beyond what it can count");
    return 0;
}

int spool_open(const char *dir, const struct spool_limits *limits, struct spool **ret, struct kymo_err *err)
{
    const struct spool_limits *l = limits ? limits : &spool_limits_default;
    int r = check_limits(l, err);
    if (r < 0)
        return r;
    struct spool *s KYMO_CLEANUP(spool_closep) = KYMO_NEW(struct spool);
    if (!s)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    s->limits = *l;
    s->lock = s->read_fd = s->journal.fd = -1;
    spool_state_init(&s->state);
    if (make_paths(s, dir) < 0)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    if ((r = make_directories(s, err)) < 0 || (r = take_lock(s, err)) < 0 ||
        (r = journal_init(&s->journal, s->journal_dir, err)) < 0 || (r = spool_load_journal(s, err)) < 0)
        return r;
    memset(s->state.lost_by_cause, 0, sizeof s->state.lost_by_cause);
    spool_refill_reserve(s);
    if ((r = spool_load_neffs(s, err)) < 0 || (r = spool_recover(s, err)) < 0)
        return r;
    *ret = KYMO_TAKE(s);
    return 0;
}

static void free_capture(struct spool_capture *c)
{
    spool_entry_free(c->entry);
    kymo_free(c->dir);
    kymo_free(c->target);
    kymo_free(c);
}

struct spool *spool_close(struct spool *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->nstaged; i++)
        free_capture(s->staged[i]);
    (void)kymo_file_close(s->read_fd);
    journal_done(&s->journal);
    spool_state_done(&s->state);
    (void)kymo_file_close(s->lock);
    kymo_free(s->neffs);
    kymo_free(s->dir);
    kymo_free(s->captures);
    kymo_free(s->staging);
    kymo_free(s->journal_dir);
    kymo_free(s->neff_dir);
    kymo_free(s->reserve);
    kymo_free(s);
    return NULL;
}

void spool_closep(struct spool **s)
{
    *s = spool_close(*s);
}

void spool_recheck(struct spool *s)
{
    if (s->full)
        spool_refill_reserve(s);
}

static void see_room(const struct spool *s, struct spool_status *ret)
{
    struct statvfs fs;
    ret->floor_bytes = s->limits.floor_bytes;
    if (kymo_file_ops()->statvfs(s->dir, &fs) < 0)
        return;
    ret->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    ret->fs_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    /* Without a floor a file system is full when nothing can be written at all. */
    ret->below_floor = ret->free_bytes < ret->floor_bytes || ret->free_bytes == 0;
}

void spool_get_status(const struct spool *s, struct spool_status *ret)
{
    const struct spool_state *st = &s->state;
    *ret = (struct spool_status){
        .issued = st->issued,
        .pending = st->pending,
        .delivered = st->delivered,
        .lost = st->lost,
        .account_open = st->account_open,
        .full = s->full,
        .stopped = s->stopped,
        .used_bytes = spool_used_bytes(s),
        .staged_bytes = s->staged_bytes,
        .neff_bytes = s->neff_bytes,
        .neffs = (uint32_t)s->nneffs,
        .loss_rows = (uint32_t)st->nrows,
        .segment = s->journal.segment,
        .next_id = s->journal.next_id,
        .failed_syncs = s->failed_syncs + s->journal.failed_syncs,
        .replaced_segments = s->replaced_segments,
        .damaged_bytes = s->damaged_bytes,
        .recovered_captures = s->recovered,
    };
    see_room(s, ret);
    memcpy(ret->lost_since_open, st->lost_by_cause, sizeof ret->lost_since_open);
    for (size_t i = 0; i < st->nrows; i++) {
        struct spool_amount *by_cause = &ret->lost_by_cause[spool_cause_index(st->rows[i].cause)];
        by_cause->captures += st->rows[i].captures;
        by_cause->bytes += st->rows[i].bytes;
    }
}
