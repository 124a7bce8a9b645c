/* Start-up: from whatever a crash left to a spool whose account closes. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool_internal.h"

#define SEGMENTS_MAX 64

/* ---- the journal ---- */

struct numbers {
    uint64_t at[SEGMENTS_MAX]; /* highest first */
    size_t n;
    uint64_t highest;
};

static int collect_number(void *ctx, const char *name, struct kymo_err *err)
{
    struct numbers *list = ctx;
    uint64_t number = journal_segment_number(name);
    (void)err;
    if (number > list->highest)
        list->highest = number;
    if (number == 0)
        return 0;
    size_t i = list->n < SEGMENTS_MAX ? list->n++ : SEGMENTS_MAX - 1;
    if (i == SEGMENTS_MAX - 1 && list->at[i] > number)
        return 0;
    for (; i > 0 && list->at[i - 1] < number; i--)
        list->at[i] = list->at[i - 1];
    list->at[i] = number;
    return 0;
}

static int replay_record(struct spool *s, const struct journal_record *rec, bool *ret_damaged, struct kymo_err *err)
{
    struct spool_change change;
    const char *cause;
    int r = spool_change_decode(&s->state, rec->type, rec->payload, rec->len, rec->time_ns, &change, &cause);
    if (r == -ENOMEM)
        return kymo_err_set(err, r, "%s: out of memory", s->dir);
    if (r < 0) {
        s->damaged_bytes += JOURNAL_RECORD_HEADER_SIZE + rec->len;
        *ret_damaged = true;
        return 0;
    }
    spool_change_commit(&s->state, &change);
    return 0;
}

static int replay(struct spool *s, struct journal_cursor *c, bool *ret_damaged, struct kymo_err *err)
{
    struct journal_record rec;
    struct journal_damage damage;
    for (;;) {
        int found = journal_cursor_next(c, &rec, &damage, err);
        if (found < 0)
            return found;
        if (found == JOURNAL_END)
            break;
        if (found == JOURNAL_DAMAGE) {
            s->damaged_bytes += damage.bytes;
            *ret_damaged = true;
            /* A torn tail was never acknowledged; anything before it may have been. */
            s->state.account_open |= !damage.tail;
            continue;
        }
        int r = replay_record(s, &rec, ret_damaged, err);
        if (r < 0)
            return r;
    }
    if (!s->state.has_snapshot || s->state.entries_due || s->state.rows_due || !spool_state_closes(&s->state))
        s->state.account_open = true;
    s->state.entries_due = s->state.rows_due = 0;
    s->journal.next_id = c->last_id + 1;
    return 0;
}

struct presence {
    bool any;
};

static int note_presence(void *ctx, const char *name, struct kymo_err *err)
{
    (void)name;
    (void)err;
    ((struct presence *)ctx)->any = true;
    return 0;
}

/* 1: replayed. 0: cannot be used. */
static int try_segment(struct spool *s, uint64_t number, bool *ret_damaged, struct kymo_err *err)
{
    char name[JOURNAL_NAME_SIZE];
    struct journal_cursor c;
    journal_segment_name(number, ".seg", name);
    char *path KYMO_FREE = kymo_asprintf("%s/%s", s->journal_dir, name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = journal_cursor_open(&c, path, err);
    if (r == -EBADMSG) {
        *ret_damaged = true;
        s->state.account_open = true;
        return 0;
    }
    if (r < 0)
        return r;
    if (c.segment != number)
        s->state.account_open = *ret_damaged = true;
    r = replay(s, &c, ret_damaged, err);
    journal_cursor_done(&c);
    return r < 0 ? r : 1;
}

int spool_load_journal(struct spool *s, struct kymo_err *err)
{
    struct numbers list = {0};
    int r = spool_each_name(s->journal_dir, collect_number, &list, err);
    if (r < 0)
        return r;
    bool open = false;
    int used = 0;
    for (size_t i = 0; i < list.n && used == 0; i++) {
        bool damaged = false;
        used = try_segment(s, list.at[i], &damaged, err);
        if (used < 0)
            return used;
        open |= damaged && s->state.account_open;
        if (damaged)
            spool_note_damaged(s, list.at[i]);
    }
    struct presence captures = {false};
    r = spool_each_name(s->captures, note_presence, &captures, err);
    if (r < 0)
        return r;
    if (used == 0) {
        /* No record can be read, so ids go on where none can have been. */
        s->journal.next_id = list.highest ? (list.highest + 1) << 32 : 1;
        open |= captures.any;
    }
    s->state.account_open |= open;
    s->journal.segment = list.highest;
    return spool_new_segment(s, err);
}

/* ---- the directories ---- */

struct listing {
    struct spool *s;
    const char *dir;
    struct spool_entry *entry;
    bool manifest, too_many;
    uint64_t bytes;
};

static int add_file(void *ctx, const char *name, struct kymo_err *err)
{
    struct listing *l = ctx;
    struct stat st;
    char *path KYMO_FREE = kymo_asprintf("%s/%s", l->dir, name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (!strcmp(name, SPOOL_MANIFEST ".tmp")) {
        (void)kymo_file_ops()->unlink(path);
        return 0;
    }
    l->bytes += (uint64_t)st.st_size;
    if (!spool_name_ok(name, strlen(name), SPOOL_NAME_MAX) || l->entry->nfiles == SPOOL_FILES_MAX) {
        l->too_many = true;
        return 0;
    }
    struct spool_file *f = &l->entry->files[l->entry->nfiles++];
    memcpy(f->name, name, strlen(name) + 1);
    f->size = (uint64_t)st.st_size;
    l->manifest |= !strcmp(name, SPOOL_MANIFEST);
    return kymo_hash_sha256_file(path, f->sha256, err);
}

static void manifest_last(struct spool_entry *e)
{
    for (size_t i = 0; i + 1 < e->nfiles; i++) {
        if (strcmp(e->files[i].name, SPOOL_MANIFEST) != 0)
            continue;
        struct spool_file manifest = e->files[i];
        memmove(&e->files[i], &e->files[i + 1], (e->nfiles - i - 1) * sizeof *e->files);
        e->files[e->nfiles - 1] = manifest;
        return;
    }
}

/* Takes in a directory that the journal does not know; a manifest vouches for what is in it. */
static int adopt(struct spool *s, const char *id, bool staged, struct kymo_err *err)
{
    char *captured KYMO_FREE = kymo_asprintf("%s/%s", s->captures, id);
    char *dir KYMO_FREE = staged ? kymo_asprintf("%s/%s", s->staging, id) : kymo_strdup(captured ? captured : "");
    struct spool_entry *e KYMO_CLEANUP(spool_entry_freep) = spool_entry_new(id, strlen(id), SPOOL_FILES_MAX, 0);
    if (!captured || !dir || !e)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    struct listing l = {.s = s, .dir = dir, .entry = e};
    e->nfiles = 0;
    e->seq = s->state.next_seq;
    int r = spool_each_name(dir, add_file, &l, err);
    if (r == -ENOMEM)
        return r;
    if (staged && s->limits.originals_stay && (r < 0 || !l.manifest || l.too_many))
        return kymo_file_remove_tree(dir, err);
    if (r < 0 || !l.manifest || l.too_many) {
        uint32_t cause = r < 0 ? SPOOL_UNREADABLE : SPOOL_INTERRUPTED;
        r = spool_append_lost(s, e, l.bytes, cause, !staged, err);
        return r;
    }
    manifest_last(e);
    if (staged)
        r = kymo_file_rename(dir, captured, err);
    if (r == 0)
        r = kymo_file_sync_dir(s->captures, err);
    if (r == 0)
        r = spool_append(s, SPOOL_PUBLISHED, spool_encode_entry(e, s->payload), err);
    s->recovered += r == 0;
    return r;
}

static int visit_capture(void *ctx, const char *name, struct kymo_err *err)
{
    struct spool *s = ctx;
    if (!spool_name_ok(name, strlen(name), SPOOL_ID_MAX) || spool_state_find_id(&s->state, name))
        return 0;
    return adopt(s, name, false, err);
}

static int visit_staged(void *ctx, const char *name, struct kymo_err *err)
{
    struct spool *s = ctx;
    if (!spool_name_ok(name, strlen(name), SPOOL_ID_MAX))
        return 0;
    /* What the journal knows is in captures/, or on its way out: this is the shadow of a rename. */
    if (!spool_state_find_id(&s->state, name))
        return adopt(s, name, true, err);
    char *path KYMO_FREE = kymo_asprintf("%s/%s", s->staging, name);
    return path ? kymo_file_remove_tree(path, err) : kymo_err_set(err, -ENOMEM, "out of memory");
}

static int lose_missing(struct spool *s, struct kymo_err *err)
{
    for (size_t i = 0; i < s->state.nentries; i++) {
        const struct spool_entry *e = s->state.entries[i];
        char *path KYMO_FREE = kymo_asprintf("%s/%s", s->captures, e->id);
        if (!path)
            return kymo_err_set(err, -ENOMEM, "out of memory");
        if (e->state != SPOOL_PENDING || spool_exists(path))
            continue;
        int r = spool_append_lost(s, e, spool_entry_bytes(e), SPOOL_MISSING, true, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int spool_recover(struct spool *s, struct kymo_err *err)
{
    spool_sweep(s);
    int r = lose_missing(s, err);
    if (r == 0)
        r = spool_each_name(s->captures, visit_capture, s, err);
    if (r == 0)
        r = spool_each_name(s->staging, visit_staged, s, err);
    if (r < 0)
        return r;
    spool_sweep(s);
    while (s->limits.policy == SPOOL_DROP_OLDEST &&
           (spool_used_bytes(s) > s->limits.bytes_max || s->state.pending.captures > s->limits.captures_max))
        if (!spool_evict_one(s, NULL))
            break;
    return 0;
}
