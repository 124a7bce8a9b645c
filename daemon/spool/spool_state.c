#include "daemon/spool/spool_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"

#define SNAPSHOT_SIZE 80
#define ENTRY_SIZE 16
#define FILE_SIZE 49 /* without the name */
#define ACKED_SIZE 24
#define DELIVERED_SIZE 8
#define LOST_SIZE 33
#define ROW_SIZE 64
#define REPORTED_SIZE 32
#define FLAG_OPEN 1u

_Static_assert(ENTRY_SIZE + SPOOL_NEFFS_MAX * 32 + SPOOL_FILES_MAX * (FILE_SIZE + SPOOL_NAME_MAX) + SPOOL_ID_MAX <=
                   JOURNAL_PAYLOAD_MAX,
               "the largest entry fits a record");

const char *spool_cause_name(uint32_t cause)
{
    switch (cause) {
#define X(number, symbol, name)                                                                                        \
    case SPOOL_##symbol:                                                                                               \
        return name;
        SPOOL_CAUSES(X)
#undef X
    default:
        return "?";
    }
}

const char *spool_cause_text(uint32_t cause, char ret[static SPOOL_CAUSE_NAME_SIZE])
{
    if (cause >= 1 && cause <= SPOOL_CAUSES_N)
        (void)snprintf(ret, SPOOL_CAUSE_NAME_SIZE, "%s", spool_cause_name(cause));
    else
        (void)snprintf(ret, SPOOL_CAUSE_NAME_SIZE, "cause-%u", cause);
    return ret;
}

uint32_t spool_cause_index(uint32_t cause)
{
    return cause <= SPOOL_CAUSES_N ? cause : 0;
}

bool spool_name_ok(const char *name, size_t len, size_t max)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (len == 0 || len > max || name[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!name[i] || !strchr(allowed, name[i]))
            return false;
    return true;
}

struct spool_entry *spool_entry_new(const char *id, size_t id_len, size_t nfiles, size_t nneffs)
{
    size_t head = sizeof(struct spool_entry) + nfiles * sizeof(struct spool_file);
    struct spool_entry *e = kymo_calloc(1, head + nneffs * KYMO_SHA256_SIZE);
    if (!e)
        return NULL;
    memcpy(e->id, id, id_len);
    e->nfiles = nfiles;
    e->nneffs = nneffs;
    e->neffs = (uint8_t(*)[KYMO_SHA256_SIZE])((uint8_t *)e + head);
    return e;
}

void spool_entry_free(struct spool_entry *e)
{
    kymo_free(e);
}

void spool_entry_freep(struct spool_entry **e)
{
    spool_entry_free(*e);
    *e = NULL;
}

uint64_t spool_entry_bytes(const struct spool_entry *e)
{
    uint64_t n = 0;
    for (size_t i = 0; i < e->nfiles; i++)
        n += e->files[i].size;
    return n;
}

void spool_state_init(struct spool_state *st)
{
    *st = (struct spool_state){.next_seq = 1, .next_row = 1};
}

void spool_state_done(struct spool_state *st)
{
    for (size_t i = 0; i < st->nentries; i++)
        spool_entry_free(st->entries[i]);
    kymo_free(st->entries);
    kymo_free(st->rows);
    spool_state_init(st);
}

/* Index of the first entry with a sequence of at least seq. */
static size_t lower(const struct spool_state *st, uint64_t seq)
{
    size_t a = 0, b = st->nentries;
    while (a < b) {
        size_t m = a + (b - a) / 2;
        if (st->entries[m]->seq < seq)
            a = m + 1;
        else
            b = m;
    }
    return a;
}

struct spool_entry *spool_state_find(const struct spool_state *st, uint64_t seq)
{
    size_t i = lower(st, seq);
    return i < st->nentries && st->entries[i]->seq == seq ? st->entries[i] : NULL;
}

struct spool_entry *spool_state_find_id(const struct spool_state *st, const char *id)
{
    for (size_t i = st->nentries; i-- > 0;)
        if (!strcmp(st->entries[i]->id, id))
            return st->entries[i];
    return NULL;
}

static struct spool_loss *find_row(const struct spool_state *st, uint64_t row)
{
    for (size_t i = st->nrows; i-- > 0;)
        if (st->rows[i].row == row)
            return &st->rows[i];
    return NULL;
}

uint64_t spool_state_row_for(const struct spool_state *st, uint64_t seq, uint32_t cause, uint32_t rows_max)
{
    for (size_t i = st->nrows; i-- > 0;) {
        const struct spool_loss *row = &st->rows[i];
        if (row->cause != cause)
            continue;
        if (row->last_seq + 1 == seq || st->nrows >= rows_max)
            return row->row;
        break;
    }
    return st->next_row;
}

bool spool_state_closes(const struct spool_state *st)
{
    return st->issued.captures == st->pending.captures + st->delivered.captures + st->lost.captures &&
           st->issued.bytes == st->pending.bytes + st->delivered.bytes + st->lost.bytes;
}

static void remove_at(struct spool_state *st, size_t i)
{
    st->removing_bytes -= spool_entry_bytes(st->entries[i]);
    spool_entry_free(st->entries[i]);
    st->nentries--;
    memmove(st->entries + i, st->entries + i + 1, (st->nentries - i) * sizeof *st->entries);
}

void spool_state_forget(struct spool_state *st, uint64_t seq)
{
    size_t i = lower(st, seq);
    if (i < st->nentries && st->entries[i]->seq == seq && st->entries[i]->state != SPOOL_PENDING)
        remove_at(st, i);
}

/* ---- decoding ---- */

static int bad(const char **cause, const char *text)
{
    *cause = text;
    return -EBADMSG;
}

static int decode_files(struct spool_entry *e, const uint8_t *p, const uint8_t *end, const char **cause)
{
    uint64_t total = 0;
    for (size_t i = 0; i < e->nfiles; i++) {
        struct spool_file *f = &e->files[i];
        if ((size_t)(end - p) < FILE_SIZE || (size_t)(end - p) - FILE_SIZE < p[48])
            return bad(cause, "a file of a capture is cut off");
        f->size = kymo_le64(p);
        f->acked = kymo_le64(p + 8);
        memcpy(f->sha256, p + 16, KYMO_SHA256_SIZE);
        size_t len = p[48];
        p += FILE_SIZE;
        if (!spool_name_ok((const char *)p, len, SPOOL_NAME_MAX))
            return bad(cause, "a file of a capture has a bad name");
        memcpy(f->name, p, len);
        p += len;
        if (f->acked > f->size || f->size > INT64_MAX || __builtin_add_overflow(total, f->size, &total) ||
            total > INT64_MAX)
            return bad(cause, "a file of a capture has an impossible size");
    }
    return p == end ? 0 : bad(cause, "a capture's record is too long");
}

static int decode_entry(const uint8_t *p, size_t len, struct spool_entry **ret, const char **cause)
{
    if (len < ENTRY_SIZE)
        return bad(cause, "a capture's record is cut off");
    size_t id_len = p[9], nfiles = kymo_le16(p + 10), nneffs = kymo_le16(p + 12);
    if (p[8] > SPOOL_REMOVE_STAGED || nfiles > SPOOL_FILES_MAX || nneffs > SPOOL_NEFFS_MAX || kymo_le16(p + 14) != 0)
        return bad(cause, "a capture's record has counts beyond the maxima");
    if (len - ENTRY_SIZE < id_len + nneffs * KYMO_SHA256_SIZE)
        return bad(cause, "a capture's record is cut off");
    if (!spool_name_ok((const char *)p + ENTRY_SIZE, id_len, SPOOL_ID_MAX))
        return bad(cause, "a capture's id is not one");
    struct spool_entry *e KYMO_CLEANUP(spool_entry_freep) =
        spool_entry_new((const char *)p + ENTRY_SIZE, id_len, nfiles, nneffs);
    if (!e)
        return -ENOMEM;
    e->seq = kymo_le64(p);
    e->state = p[8];
    if (e->seq == 0 || e->seq >= INT64_MAX)
        return bad(cause, "a capture's sequence number is impossible");
    memcpy(e->neffs, p + ENTRY_SIZE + id_len, nneffs * KYMO_SHA256_SIZE);
    int r = decode_files(e, p + ENTRY_SIZE + id_len + nneffs * KYMO_SHA256_SIZE, p + len, cause);
    if (r == 0)
        *ret = KYMO_TAKE(e);
    return r;
}

static int room_for_entry(struct spool_state *st)
{
    /* Twice the limit: captures being removed come on top of the pending ones. */
    return kymo_grow((void **)&st->entries, &st->entries_cap, st->nentries + 1, (size_t)2 * SPOOL_CAPTURES_LIMIT,
                     sizeof *st->entries);
}

static int room_for_row(struct spool_state *st)
{
    return kymo_grow((void **)&st->rows, &st->rows_cap, st->nrows + 1, (size_t)SPOOL_ROWS_LIMIT + SPOOL_CAUSE_MAX,
                     sizeof *st->rows);
}

static int sum_ok(uint64_t a, uint64_t b)
{
    return a <= INT64_MAX && b <= (uint64_t)INT64_MAX - a;
}

static int fits_published(struct spool_state *st, const struct spool_entry *e, const char **cause)
{
    const struct spool_entry *same = spool_state_find_id(st, e->id);
    if (e->state != SPOOL_PENDING || e->nfiles == 0)
        return bad(cause, "a published capture is not pending");
    if (e->seq < st->next_seq || (same && same->state == SPOOL_PENDING))
        return bad(cause, "a capture is published twice");
    if (!sum_ok(st->issued.bytes, spool_entry_bytes(e)))
        return bad(cause, "the account overflows");
    return room_for_entry(st);
}

static int fits_entry(struct spool_state *st, const struct spool_entry *e, const char **cause)
{
    if (st->entries_due == 0 || (st->nentries && st->entries[st->nentries - 1]->seq >= e->seq))
        return bad(cause, "a capture that the snapshot does not announce");
    if (spool_state_find_id(st, e->id) || e->seq >= st->next_seq)
        return bad(cause, "a capture of the snapshot is there twice");
    if (!sum_ok(st->pending.bytes + st->removing_bytes, spool_entry_bytes(e)))
        return bad(cause, "the account overflows");
    return room_for_entry(st);
}

static int decode_snapshot(struct spool_state *st, const uint8_t *p, size_t len, struct spool_change *c,
                           const char **cause)
{
    if (len != SNAPSHOT_SIZE)
        return bad(cause, "a snapshot has the wrong length");
    if (st->has_snapshot || st->nentries || st->nrows || st->next_seq != 1)
        return bad(cause, "a snapshot that is not the first record");
    for (size_t i = 0; i < 8; i++)
        if (kymo_le64(p + 8 * i) >= INT64_MAX)
            return bad(cause, "a snapshot has impossible counters");
    if (kymo_le64(p) == 0 || kymo_le64(p + 56) == 0 || kymo_le32(p + 64) > 2 * SPOOL_CAPTURES_LIMIT ||
        kymo_le32(p + 68) > SPOOL_ROWS_LIMIT + SPOOL_CAUSE_MAX || kymo_le32(p + 72) > FLAG_OPEN)
        return bad(cause, "a snapshot has impossible counts");
    c->snapshot = p;
    return 0;
}

static int decode_row(struct spool_state *st, const uint8_t *p, size_t len, struct spool_change *c, const char **cause)
{
    if (len != ROW_SIZE)
        return bad(cause, "a loss row has the wrong length");
    c->row = (struct spool_loss){kymo_le64(p),      kymo_le64(p + 8),  kymo_le64(p + 16), kymo_le64(p + 24),
                                 kymo_le64(p + 32), kymo_le64(p + 40), kymo_le64(p + 48), kymo_le32(p + 56)};
    if (st->rows_due == 0 || (st->nrows && st->rows[st->nrows - 1].row >= c->row.row) || c->row.row >= st->next_row)
        return bad(cause, "a loss row that the snapshot does not announce");
    if (c->row.cause < 1 || c->row.cause > SPOOL_CAUSE_MAX || c->row.captures > INT64_MAX || c->row.bytes > INT64_MAX)
        return bad(cause, "a loss row makes no sense");
    return room_for_row(st);
}

static int decode_acked(struct spool_state *st, const uint8_t *p, size_t len, struct spool_change *c,
                        const char **cause)
{
    if (len != ACKED_SIZE)
        return bad(cause, "an acknowledgement has the wrong length");
    c->seq = kymo_le64(p);
    c->offset = kymo_le64(p + 8);
    c->file = kymo_le32(p + 16);
    const struct spool_entry *e = spool_state_find(st, c->seq);
    if (!e || e->state != SPOOL_PENDING || c->file >= e->nfiles)
        return bad(cause, "an acknowledgement of an unknown file");
    if (c->offset < e->files[c->file].acked || c->offset > e->files[c->file].size)
        return bad(cause, "an acknowledgement goes back or beyond the file");
    return 0;
}

static int decode_lost(struct spool_state *st, const uint8_t *p, size_t len, struct spool_change *c, const char **cause)
{
    if (len < LOST_SIZE || len != LOST_SIZE + (size_t)p[32])
        return bad(cause, "a loss has the wrong length");
    c->seq = kymo_le64(p);
    c->bytes = kymo_le64(p + 8);
    c->row.row = kymo_le64(p + 16);
    c->cause = kymo_le32(p + 24);
    c->place = kymo_le32(p + 28);
    if (c->cause < 1 || c->cause > SPOOL_CAUSE_MAX || c->place > 1 || c->row.row == 0 || c->row.row >= INT64_MAX ||
        c->seq >= INT64_MAX)
        return bad(cause, "a loss makes no sense");
    const struct spool_loss *row = find_row(st, c->row.row);
    if (row ? row->cause != c->cause || !sum_ok(row->bytes, c->bytes) : c->row.row < st->next_row)
        return bad(cause, "a loss names a row of another cause");
    if (!row && room_for_row(st) < 0)
        return -ENOMEM;
    const struct spool_entry *e = spool_state_find(st, c->seq);
    if (e)
        return e->state == SPOOL_PENDING && c->bytes == spool_entry_bytes(e)
                   ? 0
                   : bad(cause, "a loss of a capture that is not pending");
    if (c->seq < st->next_seq || !sum_ok(st->issued.bytes, c->bytes))
        return bad(cause, "a loss of a capture that is gone");
    if (!spool_name_ok((const char *)p + LOST_SIZE, p[32], SPOOL_ID_MAX))
        return bad(cause, "a capture's id is not one");
    if (room_for_entry(st) < 0)
        return -ENOMEM;
    c->entry = spool_entry_new((const char *)p + LOST_SIZE, p[32], 0, 0);
    return c->entry ? 0 : -ENOMEM;
}

static int decode_reported(struct spool_state *st, const uint8_t *p, size_t len, struct spool_change *c,
                           const char **cause)
{
    if (len != REPORTED_SIZE)
        return bad(cause, "a report has the wrong length");
    c->row.row = kymo_le64(p);
    c->row.last_seq = kymo_le64(p + 8);
    c->amount = (struct spool_amount){kymo_le64(p + 16), kymo_le64(p + 24)};
    const struct spool_loss *row = find_row(st, c->row.row);
    if (!row || c->amount.captures > row->captures || c->amount.bytes > row->bytes)
        return bad(cause, "a report of more than was lost");
    return 0;
}

int spool_change_decode(struct spool_state *st, uint16_t type, const uint8_t *payload, size_t len, uint64_t time_ns,
                        struct spool_change *ret, const char **cause)
{
    struct spool_change c = {.type = (enum spool_record)type, .time_ns = time_ns};
    int r;
    *cause = "out of memory";
    switch (type) {
    case SPOOL_SNAPSHOT:
        r = decode_snapshot(st, payload, len, &c, cause);
        break;
    case SPOOL_ENTRY:
    case SPOOL_PUBLISHED:
        r = decode_entry(payload, len, &c.entry, cause);
        if (r == 0)
            r = type == SPOOL_ENTRY ? fits_entry(st, c.entry, cause) : fits_published(st, c.entry, cause);
        break;
    case SPOOL_ACKED:
        r = decode_acked(st, payload, len, &c, cause);
        break;
    case SPOOL_DELIVERED: {
        const struct spool_entry *e = len == DELIVERED_SIZE ? spool_state_find(st, kymo_le64(payload)) : NULL;
        c.seq = e ? e->seq : 0;
        r = e && e->state == SPOOL_PENDING ? 0 : bad(cause, "a delivery of a capture that is not pending");
        break;
    }
    case SPOOL_LOST:
        r = decode_lost(st, payload, len, &c, cause);
        break;
    case SPOOL_ROW:
        r = decode_row(st, payload, len, &c, cause);
        break;
    case SPOOL_REPORTED:
        r = decode_reported(st, payload, len, &c, cause);
        break;
    default:
        r = bad(cause, "a record of an unknown type");
    }
    if (r < 0)
        spool_change_free(&c);
    else
        *ret = c;
    return r;
}

void spool_change_free(struct spool_change *c)
{
    spool_entry_free(c->entry);
    c->entry = NULL;
}

/* ---- committing ---- */

static void commit_snapshot(struct spool_state *st, const uint8_t *p)
{
    st->next_seq = kymo_le64(p);
    st->issued = (struct spool_amount){kymo_le64(p + 8), kymo_le64(p + 16)};
    st->delivered = (struct spool_amount){kymo_le64(p + 24), kymo_le64(p + 32)};
    st->lost = (struct spool_amount){kymo_le64(p + 40), kymo_le64(p + 48)};
    st->next_row = kymo_le64(p + 56);
    st->entries_due = kymo_le32(p + 64);
    st->rows_due = kymo_le32(p + 68);
    st->account_open = kymo_le32(p + 72) & FLAG_OPEN;
    st->has_snapshot = true;
}

static void insert(struct spool_state *st, struct spool_entry *e)
{
    st->entries[st->nentries++] = e;
    if (e->state == SPOOL_PENDING) {
        st->pending.captures++;
        st->pending.bytes += spool_entry_bytes(e);
    } else {
        st->removing_bytes += spool_entry_bytes(e);
    }
}

static void commit_published(struct spool_state *st, struct spool_entry *e)
{
    /* The id was used before: whoever published it again had removed the old files. */
    const struct spool_entry *same = spool_state_find_id(st, e->id);
    if (same)
        spool_state_forget(st, same->seq);
    st->account_open |= e->seq != st->next_seq; /* a record between is gone */
    insert(st, e);
    st->next_seq = e->seq + 1;
    st->issued.captures++;
    st->issued.bytes += spool_entry_bytes(e);
}

static void no_longer_pending(struct spool_state *st, struct spool_entry *e)
{
    uint64_t bytes = spool_entry_bytes(e);
    e->state = SPOOL_REMOVE_CAPTURE;
    st->pending.captures--;
    st->pending.bytes -= bytes;
    st->removing_bytes += bytes;
}

static void widen_row(struct spool_state *st, const struct spool_change *c)
{
    struct spool_loss *row = find_row(st, c->row.row);
    if (!row) {
        row = &st->rows[st->nrows++];
        *row = (struct spool_loss){.row = c->row.row, .cause = c->cause, .first_seq = c->seq, .first_ns = c->time_ns};
        st->next_row = row->row + 1;
    }
    if (c->seq < row->first_seq)
        row->first_seq = c->seq;
    if (c->seq > row->last_seq)
        row->last_seq = c->seq;
    row->last_ns = c->time_ns;
    row->captures++;
    row->bytes += c->bytes;
}

static void commit_lost(struct spool_state *st, struct spool_change *c)
{
    struct spool_entry *e = spool_state_find(st, c->seq);
    if (e) {
        no_longer_pending(st, e);
    } else {
        const struct spool_entry *same = spool_state_find_id(st, c->entry->id);
        if (same)
            spool_state_forget(st, same->seq);
        st->account_open |= c->seq != st->next_seq;
        c->entry->seq = c->seq;
        c->entry->state = c->place ? SPOOL_REMOVE_CAPTURE : SPOOL_REMOVE_STAGED;
        insert(st, KYMO_TAKE(c->entry));
        st->next_seq = c->seq + 1;
        st->issued.captures++;
        st->issued.bytes += c->bytes;
    }
    st->lost.captures++;
    st->lost.bytes += c->bytes;
    struct spool_amount *by_cause = &st->lost_by_cause[spool_cause_index(c->cause)];
    by_cause->captures++;
    by_cause->bytes += c->bytes;
    widen_row(st, c);
}

static void commit_reported(struct spool_state *st, const struct spool_change *c)
{
    struct spool_loss *row = find_row(st, c->row.row);
    row->captures -= c->amount.captures;
    row->bytes -= c->amount.bytes;
    if (row->captures > 0) {
        row->first_seq = c->row.last_seq < row->last_seq ? c->row.last_seq + 1 : row->first_seq;
        return;
    }
    size_t i = (size_t)(row - st->rows);
    st->nrows--;
    memmove(row, row + 1, (st->nrows - i) * sizeof *row);
}

void spool_change_commit(struct spool_state *st, struct spool_change *c)
{
    switch (c->type) {
    case SPOOL_SNAPSHOT:
        commit_snapshot(st, c->snapshot);
        break;
    case SPOOL_ENTRY:
        insert(st, KYMO_TAKE(c->entry));
        st->entries_due--;
        break;
    case SPOOL_PUBLISHED:
        commit_published(st, KYMO_TAKE(c->entry));
        break;
    case SPOOL_ACKED:
        spool_state_find(st, c->seq)->files[c->file].acked = c->offset;
        break;
    case SPOOL_DELIVERED: {
        struct spool_entry *e = spool_state_find(st, c->seq);
        st->delivered.captures++;
        st->delivered.bytes += spool_entry_bytes(e);
        no_longer_pending(st, e);
        break;
    }
    case SPOOL_LOST:
        commit_lost(st, c);
        break;
    case SPOOL_ROW:
        st->rows[st->nrows++] = c->row;
        st->rows_due--;
        break;
    case SPOOL_REPORTED:
        commit_reported(st, c);
        break;
    }
    spool_change_free(c);
}

/* ---- encoding ---- */

size_t spool_encode_snapshot(const struct spool_state *st, uint8_t *out)
{
    const uint64_t counters[8] = {st->next_seq,        st->issued.captures, st->issued.bytes, st->delivered.captures,
                                  st->delivered.bytes, st->lost.captures,   st->lost.bytes,   st->next_row};
    memcpy(out, counters, sizeof counters);
    kymo_put_le32(out + 64, (uint32_t)st->nentries);
    kymo_put_le32(out + 68, (uint32_t)st->nrows);
    kymo_put_le32(out + 72, st->account_open ? FLAG_OPEN : 0);
    kymo_put_le32(out + 76, 0);
    return SNAPSHOT_SIZE;
}

size_t spool_encode_entry(const struct spool_entry *e, uint8_t *out)
{
    size_t id_len = strlen(e->id);
    uint8_t *p = out + ENTRY_SIZE;
    kymo_put_le64(out, e->seq);
    out[8] = e->state;
    out[9] = (uint8_t)id_len;
    kymo_put_le16(out + 10, (uint16_t)e->nfiles);
    kymo_put_le16(out + 12, (uint16_t)e->nneffs);
    kymo_put_le16(out + 14, 0);
    memcpy(p, e->id, id_len);
    p += id_len;
    memcpy(p, e->neffs, e->nneffs * KYMO_SHA256_SIZE);
    p += e->nneffs * KYMO_SHA256_SIZE;
    for (size_t i = 0; i < e->nfiles; i++) {
        const struct spool_file *f = &e->files[i];
        size_t len = strlen(f->name);
        kymo_put_le64(p, f->size);
        kymo_put_le64(p + 8, f->acked);
        memcpy(p + 16, f->sha256, KYMO_SHA256_SIZE);
        p[48] = (uint8_t)len;
        memcpy(p + FILE_SIZE, f->name, len);
        p += FILE_SIZE + len;
    }
    return (size_t)(p - out);
}

size_t spool_encode_acked(uint64_t seq, uint32_t file, uint64_t offset, uint8_t *out)
{
    kymo_put_le64(out, seq);
    kymo_put_le64(out + 8, offset);
    kymo_put_le32(out + 16, file);
    kymo_put_le32(out + 20, 0);
    return ACKED_SIZE;
}

size_t spool_encode_delivered(uint64_t seq, uint8_t *out)
{
    kymo_put_le64(out, seq);
    return DELIVERED_SIZE;
}

size_t spool_encode_lost(const struct spool_entry *e, uint64_t bytes, uint64_t row, uint32_t cause, uint32_t place,
                         uint8_t *out)
{
    size_t len = strlen(e->id);
    kymo_put_le64(out, e->seq);
    kymo_put_le64(out + 8, bytes);
    kymo_put_le64(out + 16, row);
    kymo_put_le32(out + 24, cause);
    kymo_put_le32(out + 28, place);
    out[32] = (uint8_t)len;
    memcpy(out + LOST_SIZE, e->id, len);
    return LOST_SIZE + len;
}

size_t spool_encode_row(const struct spool_loss *row, uint8_t *out)
{
    const uint64_t words[8] = {row->row,   row->first_seq, row->last_seq, row->captures,
                               row->bytes, row->first_ns,  row->last_ns,  row->cause};
    memcpy(out, words, sizeof words);
    return ROW_SIZE;
}

size_t spool_encode_reported(const struct spool_loss *row, uint8_t *out)
{
    const uint64_t words[4] = {row->row, row->last_seq, row->captures, row->bytes};
    memcpy(out, words, sizeof words);
    return REPORTED_SIZE;
}
