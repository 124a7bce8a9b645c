#include "daemon/spool/spool_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "daemon/spool/spool_internal.h"

#define LINE_MAX_BYTES 1024
#define SEGMENTS_MAX 64

struct check {
    const char *dir;
    bool contents;
    spool_say *say;
    void *ctx;
    struct spool_check_result *result;
    struct spool_state state;
    uint64_t segment; /* the newest */
    const char *kind; /* of the directory being listed */
};

__attribute__((format(printf, 2, 3))) static void say(const struct check *c, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    c->say(c->ctx, line);
}

#define problem(c, ...)                                                                                                \
    do {                                                                                                               \
        (c)->result->problems++;                                                                                       \
        say((c), __VA_ARGS__);                                                                                         \
    } while (0)

static char *below(const struct check *c, const char *kind, const char *name)
{
    return kymo_asprintf("%s/%s/%s", c->dir, kind, name);
}

static int newest(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    uint64_t number = journal_segment_number(name);
    (void)err;
    if (number > c->segment)
        c->segment = number;
    return 0;
}

static int other_journal_file(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    (void)err;
    size_t n = strlen(name);
    bool kept = n == 20 && !strcmp(name + 16, ".bad");
    if (!kept && journal_segment_number(name) != c->segment)
        problem(c, "%s/journal/%s: offset 0: left over; segment %llu replaces it", c->dir, name,
                (unsigned long long)c->segment);
    return 0;
}

static int check_record(struct check *c, const struct journal_record *rec, const char *path, uint64_t offset,
                        struct kymo_err *err)
{
    struct spool_change change;
    const char *cause;
    int r = spool_change_decode(&c->state, rec->type, rec->payload, rec->len, rec->time_ns, &change, &cause);
    if (r == -ENOMEM)
        return kymo_err_set(err, r, "out of memory");
    c->result->records++;
    if (r < 0)
        problem(c, "%s: offset %llu: record %llu: %s", path, (unsigned long long)offset, (unsigned long long)rec->id,
                cause);
    else
        spool_change_commit(&c->state, &change);
    return 0;
}

static int check_segment(struct check *c, const char *path, struct kymo_err *err)
{
    struct journal_cursor cursor;
    struct journal_record rec;
    struct journal_damage damage;
    struct kymo_err own = {0};
    int r = journal_cursor_open(&cursor, path, &own);
    if (r == -EBADMSG) {
        problem(c, "%s", own.text);
        return 0;
    }
    if (r < 0)
        return kymo_err_set(err, r, "%s", own.text);
    for (;;) {
        uint64_t offset = cursor.at;
        r = journal_cursor_next(&cursor, &rec, &damage, err);
        if (r == JOURNAL_DAMAGE)
            problem(c, "%s: offset %llu: %s; %llu bytes are not readable%s", path, (unsigned long long)damage.offset,
                    damage.cause, (unsigned long long)damage.bytes, damage.tail ? ", up to the end" : "");
        else if (r == JOURNAL_RECORD)
            r = check_record(c, &rec, path, offset, err);
        if (r <= JOURNAL_END && cursor.at >= cursor.size)
            break;
        if (r < 0)
            break;
    }
    journal_cursor_done(&cursor);
    return r < 0 ? r : 0;
}

static int check_journal(struct check *c, struct kymo_err *err)
{
    char name[JOURNAL_NAME_SIZE];
    char *dir KYMO_FREE = kymo_asprintf("%s/journal", c->dir);
    if (!dir)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = spool_each_name(dir, newest, c, err);
    if (r < 0)
        return r;
    if (c->segment == 0) {
        problem(c, "%s: no segment", dir);
        return 0;
    }
    journal_segment_name(c->segment, ".seg", name);
    char *path KYMO_FREE = kymo_asprintf("%s/%s", dir, name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    r = check_segment(c, path, err);
    if (r < 0)
        return r;
    const struct spool_state *st = &c->state;
    if (!st->has_snapshot || st->entries_due || st->rows_due)
        problem(c, "%s: offset %d: the snapshot is not whole", path, JOURNAL_HEADER_SIZE);
    else if (!st->account_open && !spool_state_closes(st))
        problem(c, "%s: offset %d: the account does not close", path, JOURNAL_HEADER_SIZE);
    c->result->account_open = st->account_open;
    return spool_each_name(dir, other_journal_file, c, err);
}

/* 1: as published. 0: not; *cause says why. */
static int file_holds(const struct spool_file *f, const char *path, bool contents, const char **cause)
{
    struct stat st;
    uint8_t sha[KYMO_SHA256_SIZE];
    *cause = "is not there";
    if (lstat(path, &st) < 0)
        return 0;
    *cause = "is no regular file";
    if (!S_ISREG(st.st_mode))
        return 0;
    *cause = "has not the size that was published";
    if ((uint64_t)st.st_size != f->size)
        return 0;
    *cause = "cannot be read";
    if (!contents)
        return 1;
    if (kymo_hash_sha256_file(path, sha, NULL) < 0)
        return 0;
    *cause = "has not the SHA-256 that was published";
    return memcmp(sha, f->sha256, sizeof sha) == 0;
}

static int check_entries(struct check *c, struct kymo_err *err)
{
    for (size_t i = 0; i < c->state.nentries; i++) {
        const struct spool_entry *e = c->state.entries[i];
        if (e->state != SPOOL_PENDING)
            continue;
        c->result->captures++;
        for (size_t f = 0; f < e->nfiles; f++) {
            const char *cause;
            char *path KYMO_FREE = kymo_asprintf("%s/captures/%s/%s", c->dir, e->id, e->files[f].name);
            if (!path)
                return kymo_err_set(err, -ENOMEM, "out of memory");
            c->result->bytes += e->files[f].size;
            if (!file_holds(&e->files[f], path, c->contents, &cause))
                problem(c, "%s: offset 0: %s", path, cause);
        }
    }
    return 0;
}

static int check_capture_name(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    (void)err;
    const struct spool_entry *e = spool_state_find_id(&c->state, name);
    if (!e)
        problem(c, "%s/%s/%s: offset 0: the journal does not know it", c->dir, c->kind, name);
    else if (e->state != SPOOL_PENDING || !strcmp(c->kind, "staging"))
        problem(c, "%s/%s/%s: offset 0: left over, not yet removed", c->dir, c->kind, name);
    return 0;
}

static int check_neff_name(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    uint8_t sha[KYMO_SHA256_SIZE];
    char hex[2 * KYMO_SHA256_SIZE + 1] = "";
    char *path KYMO_FREE = below(c, "neff", name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    c->result->neffs++;
    if (strlen(name) != SPOOL_NEFF_NAME_SIZE - 1) {
        problem(c, "%s: offset 0: left over", path);
        return 0;
    }
    if (!c->contents)
        return 0;
    if (kymo_hash_sha256_file(path, sha, NULL) == 0)
        kymo_hash_hex(sha, sizeof sha, hex);
    if (strncmp(hex, name, 64) != 0 || strcmp(name + 64, ".neff") != 0)
        problem(c, "%s: offset 0: its SHA-256 is not its name", path);
    return 0;
}

static int list(struct check *c, const char *kind, int (*fn)(void *, const char *, struct kymo_err *),
                struct kymo_err *err)
{
    char *dir KYMO_FREE = kymo_asprintf("%s/%s", c->dir, kind);
    c->kind = kind;
    return dir ? spool_each_name(dir, fn, c, err) : kymo_err_set(err, -ENOMEM, "out of memory");
}

static bool is_in_use(const char *dir)
{
    char *path KYMO_FREE = kymo_asprintf("%s/lock", dir);
    int fd KYMO_CLOSE = path ? kymo_file_open(path, O_RDONLY | O_NOFOLLOW, 0, NULL) : -1;
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int spool_check(const char *dir, bool contents, spool_say *say_fn, void *ctx, struct spool_check_result *ret,
                struct kymo_err *err)
{
    struct check c = {.dir = dir, .contents = contents, .say = say_fn, .ctx = ctx, .result = ret};
    *ret = (struct spool_check_result){.in_use = is_in_use(dir)};
    spool_state_init(&c.state);
    int r = check_journal(&c, err);
    if (r == 0)
        r = check_entries(&c, err);
    if (r == 0)
        r = list(&c, "captures", check_capture_name, err);
    if (r == 0)
        r = list(&c, "staging", check_capture_name, err);
    if (r == 0)
        r = list(&c, "neff", check_neff_name, err);
    spool_state_done(&c.state);
    return r;
}

/* ---- dump ---- */

static const char *record_name(uint16_t type)
{
    static const char *const names[] = {"?",         "SNAPSHOT", "ENTRY", "PUBLISHED", "ACKED",
                                        "DELIVERED", "LOST",     "ROW",   "REPORTED"};
    return names[type < sizeof names / sizeof *names ? type : 0];
}

static void describe(const struct spool_change *d, char *out, size_t n)
{
    char cause[SPOOL_CAUSE_NAME_SIZE];
    switch (d->type) {
    case SPOOL_SNAPSHOT:
        (void)snprintf(out, n, "a whole state follows");
        break;
    case SPOOL_ENTRY:
    case SPOOL_PUBLISHED:
        (void)snprintf(out, n, "sequence %llu, id %s, %zu files, %llu bytes, %zu NEFFs%s",
                       (unsigned long long)d->entry->seq, d->entry->id, d->entry->nfiles,
                       (unsigned long long)spool_entry_bytes(d->entry), d->entry->nneffs,
                       d->entry->state == SPOOL_PENDING ? "" : ", to be removed");
        break;
    case SPOOL_ACKED:
        (void)snprintf(out, n, "sequence %llu, file %u to offset %llu", (unsigned long long)d->seq, d->file,
                       (unsigned long long)d->offset);
        break;
    case SPOOL_DELIVERED:
        (void)snprintf(out, n, "sequence %llu", (unsigned long long)d->seq);
        break;
    case SPOOL_LOST:
        (void)snprintf(out, n, "sequence %llu, %llu bytes, %s, row %llu", (unsigned long long)d->seq,
                       (unsigned long long)d->bytes, spool_cause_text(d->cause, cause), (unsigned long long)d->row.row);
        break;
    case SPOOL_ROW:
        (void)snprintf(out, n, "row %llu, %s, sequences %llu to %llu, %llu captures, %llu bytes",
                       (unsigned long long)d->row.row, spool_cause_text(d->row.cause, cause),
                       (unsigned long long)d->row.first_seq, (unsigned long long)d->row.last_seq,
                       (unsigned long long)d->row.captures, (unsigned long long)d->row.bytes);
        break;
    case SPOOL_REPORTED:
        (void)snprintf(out, n, "row %llu, %llu captures, %llu bytes", (unsigned long long)d->row.row,
                       (unsigned long long)d->amount.captures, (unsigned long long)d->amount.bytes);
        break;
    }
}

static int dump_record(struct check *c, const struct journal_record *rec, uint64_t offset, struct kymo_err *err)
{
    struct spool_change change;
    const char *cause;
    char text[LINE_MAX_BYTES / 2];
    int r = spool_change_decode(&c->state, rec->type, rec->payload, rec->len, rec->time_ns, &change, &cause);
    if (r == -ENOMEM)
        return kymo_err_set(err, r, "out of memory");
    if (r == 0)
        describe(&change, text, sizeof text);
    else
        (void)snprintf(text, sizeof text, "refused: %s", cause);
    say(c, "%8llu  %6llu  %s: %s", (unsigned long long)offset, (unsigned long long)rec->id, record_name(rec->type),
        text);
    if (r == 0)
        spool_change_commit(&c->state, &change);
    return 0;
}

int spool_dump(const char *dir, spool_say *say_fn, void *ctx, struct kymo_err *err)
{
    struct check c = {.dir = dir, .say = say_fn, .ctx = ctx};
    struct journal_cursor cursor;
    struct journal_record rec;
    struct journal_damage damage;
    char name[JOURNAL_NAME_SIZE];
    int r = list(&c, "journal", newest, err);
    if (r < 0)
        return r;
    journal_segment_name(c.segment, ".seg", name);
    char *path KYMO_FREE = below(&c, "journal", name);
    if (!path)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    r = journal_cursor_open(&cursor, path, err);
    if (r < 0)
        return r;
    spool_state_init(&c.state);
    say(&c, "%s: segment %llu, records from %llu", path, (unsigned long long)cursor.segment,
        (unsigned long long)cursor.first_id);
    while (r >= 0 && cursor.at < cursor.size) {
        uint64_t offset = cursor.at;
        r = journal_cursor_next(&cursor, &rec, &damage, err);
        if (r == JOURNAL_RECORD)
            r = dump_record(&c, &rec, offset, err);
        else if (r == JOURNAL_DAMAGE)
            say(&c, "%8llu  ------  %llu bytes: %s", (unsigned long long)damage.offset,
                (unsigned long long)damage.bytes, damage.cause);
    }
    spool_state_done(&c.state);
    journal_cursor_done(&cursor);
    return r < 0 ? r : 0;
}

/* ---- repair ---- */

/* kind/name to cut/kind-name, or the next free cut/kind-name.N. */
static int cut_out(struct check *c, const char *kind, const char *name, const char *why, bool copy,
                   struct kymo_err *err)
{
    char *cut KYMO_FREE = kymo_asprintf("%s/cut", c->dir);
    char *from KYMO_FREE = below(c, kind, name);
    char *to = kymo_asprintf("%s/cut/%s-%s", c->dir, kind, name);
    int r = cut && from && to ? kymo_file_mkdirs(cut, err) : kymo_err_set(err, -ENOMEM, "out of memory");
    for (unsigned n = 1; r == 0 && to && spool_exists(to) && n < 10000; n++) {
        kymo_free(to);
        to = kymo_asprintf("%s/cut/%s-%s.%u", c->dir, kind, name, n);
    }
    if (r == 0 && !to)
        r = kymo_err_set(err, -ENOMEM, "out of memory");
    if (r == 0 && copy) {
        uint8_t *data KYMO_FREE = NULL;
        size_t n;
        r = kymo_file_read_all(from, JOURNAL_SEGMENT_MAX, &data, &n, err);
        if (r == 0)
            r = kymo_file_write_atomic(to, data, n, err);
    } else if (r == 0) {
        r = kymo_file_rename(from, to, err);
        if (r == 0)
            r = kymo_file_sync_dir(cut, err);
    }
    if (r == 0)
        say(c, "%s: %s; kept as %s", from, why, to);
    kymo_free(to);
    return r;
}

static int cut_staged(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    char *manifest KYMO_FREE = kymo_asprintf("%s/staging/%s/" SPOOL_MANIFEST, c->dir, name);
    if (!manifest)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    /* With a manifest it is whole, and opening publishes it. Without, opening counts it as interrupted and removes it.
     */
    if (spool_exists(manifest))
        return 0;
    char *dir KYMO_FREE = below(c, "staging", name);
    int r = cut_out(c, "staging", name, "was being put together", false, err);
    if (r == 0 && kymo_file_ops()->mkdir(dir, 0700) < 0)
        r = kymo_err_set(err, -errno, "%s: cannot make it: %s", dir, strerror(errno));
    return r;
}

static void count_only(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

/* What opening would remove: a directory that the journal does not know and no manifest vouches for. */
static int cut_unvouched(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    char *manifest KYMO_FREE = kymo_asprintf("%s/captures/%s/" SPOOL_MANIFEST, c->dir, name);
    if (!manifest)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    if (spool_state_find_id(&c->state, name) || spool_exists(manifest))
        return 0;
    return cut_out(c, "captures", name, "is no capture's", false, err);
}

static int cut_neff(void *ctx, const char *name, struct kymo_err *err)
{
    struct check *c = ctx;
    struct spool_check_result found = {0};
    struct check quiet = {.dir = c->dir, .contents = true, .say = count_only, .result = &found};
    int code = check_neff_name(&quiet, name, err);
    if (code < 0 || found.problems == 0)
        return code;
    return cut_out(c, "neff", name, "is not the NEFF that it is named after", false, err);
}

/* A damaged journal is copied before opening replaces it. */
static int cut_before_opening(struct check *c, struct kymo_err *err)
{
    char name[JOURNAL_NAME_SIZE];
    struct spool_check_result found = {0};
    struct check quiet = {.dir = c->dir, .say = count_only, .result = &found};
    spool_state_init(&quiet.state);
    int r = check_journal(&quiet, err);
    if (r == 0 && found.problems > 0 && quiet.segment > 0) {
        journal_segment_name(quiet.segment, ".seg", name);
        r = cut_out(c, "journal", name, "is damaged and will be replaced", true, err);
    }
    quiet.say = c->say;
    quiet.ctx = c->ctx;
    if (r == 0)
        r = list(&quiet, "captures", cut_unvouched, err);
    spool_state_done(&quiet.state);
    if (r == 0)
        r = list(c, "staging", cut_staged, err);
    return r < 0 ? r : list(c, "neff", cut_neff, err);
}

static int repair_entry(struct check *c, struct spool *s, const struct spool_entry *e, struct kymo_err *err)
{
    for (size_t f = 0; f < e->nfiles; f++) {
        const char *cause;
        char why[LINE_MAX_BYTES / 2];
        char *path KYMO_FREE = kymo_asprintf("%s/captures/%s/%s", c->dir, e->id, e->files[f].name);
        if (!path)
            return kymo_err_set(err, -ENOMEM, "out of memory");
        if (file_holds(&e->files[f], path, true, &cause))
            continue;
        (void)snprintf(why, sizeof why, "%s %s: counted as lost", e->files[f].name, cause);
        uint64_t seq = e->seq;
        char *id KYMO_FREE = kymo_strdup(e->id);
        int r = id ? cut_out(c, "captures", id, why, false, err) : kymo_err_set(err, -ENOMEM, "out of memory");
        return r < 0 ? r : spool_lose(s, seq, SPOOL_UNREADABLE, err);
    }
    return 0;
}

int spool_repair(const char *dir, spool_say *say_fn, void *ctx, struct kymo_err *err)
{
    struct spool_limits limits = spool_limits_default;
    struct spool_check_result result = {0};
    struct check c = {.dir = dir, .say = say_fn, .ctx = ctx, .result = &result};
    if (is_in_use(dir))
        return kymo_err_set(err, -EBUSY, "%s: the spool is in use", dir);
    int r = cut_before_opening(&c, err);
    if (r < 0)
        return r;
    /* Repairing must not evict: whoever uses the spool has limits of its own. */
    limits.bytes_max = INT64_MAX / 2;
    limits.captures_max = SPOOL_CAPTURES_LIMIT;
    limits.reserve_bytes = 0;
    limits.loss_rows_max = SPOOL_ROWS_LIMIT;
    struct spool *s KYMO_CLEANUP(spool_closep) = NULL;
    r = spool_open(dir, &limits, &s, err);
    if (r < 0)
        return r;
    struct spool_status status;
    spool_get_status(s, &status);
    say(&c, "%s: opened: %llu captures pending, %llu taken in again, %llu bytes of journal left out", dir,
        (unsigned long long)status.pending.captures, (unsigned long long)status.recovered_captures,
        (unsigned long long)status.damaged_bytes);
    uint64_t seq = 0;
    for (const struct spool_entry *e; r == 0 && (e = spool_next(s, seq));) {
        seq = e->seq;
        r = repair_entry(&c, s, e, err);
    }
    return r;
}
