#include "pipeline/lod/lod_rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/spill/spill.h"

/* Bits of a packed row's numbers. */
enum {
    AFTER_BITS = 4, /* buckets after the row before */
    TRACK_BITS = 12,
    MORE_BITS = 10, /* events more than one */
    LABEL_BITS = 20,
    OFFSET_BITS = 18, /* of the first start in the bucket */
    REACH_BITS = 22,  /* from there to the greatest end */
    IDLE_BITS = 21,   /* of it, what is not busy */
    SHORT_BITS = 21,  /* by which the longest event is shorter */
    BYTES_BITS = 32,
    ID_BITS = 32, /* after the row before, zigzag */

    TRACK_AT = AFTER_BITS,
    MORE_AT = TRACK_AT + TRACK_BITS,
    LABEL_AT = MORE_AT + MORE_BITS,
    OFFSET_AT = LABEL_AT + LABEL_BITS,
    IDLE_AT = REACH_BITS,
    SHORT_AT = IDLE_AT + IDLE_BITS,
    ID_AT = BYTES_BITS
};
_Static_assert(OFFSET_AT + OFFSET_BITS == 64 && SHORT_AT + SHORT_BITS == 64 && ID_AT + ID_BITS == 64, "three words");

#define LOW(word, bits) ((word) & ((UINT64_C(1) << (bits)) - 1))
#define WIDE LOW(UINT64_MAX, REACH_BITS) /* as reach: the row lies in the other file */

struct packed {
    uint64_t place, times, sums;
};

struct lod_rows {
    char *dir;
    struct spill *packed, *wide; /* wide: NULL while there is none */
    uint64_t width;
    /* Of the row before: its bucket's number while rows come in, its start while they go out. */
    uint64_t bucket, start, id;
};

int lod_rows_open(const char *dir, int64_t width, struct lod_rows **ret, struct kymo_err *err)
{
    struct lod_rows *l = KYMO_NEW(struct lod_rows);
    if (l)
        l->dir = kymo_strdup(dir);
    int r = l && l->dir ? 0 : kymo_err_set(err, -ENOMEM, "no memory for rows of levels of detail");
    if (r == 0) {
        l->width = (uint64_t)width;
        r = spill_open(dir, sizeof(struct packed), &l->packed, err);
    }
    if (r < 0)
        l = lod_rows_free(l);
    *ret = l;
    return r;
}

struct lod_rows *lod_rows_free(struct lod_rows *l)
{
    if (!l)
        return NULL;
    spill_free(l->packed);
    spill_free(l->wide);
    kymo_free(l->dir);
    kymo_free(l);
    return NULL;
}

uint64_t lod_rows_count(const struct lod_rows *l)
{
    return spill_count(l->packed);
}

static uint64_t zigzag(uint64_t v)
{
    return v << 1 ^ -(v >> 63);
}

static uint64_t unzigzag(uint64_t v)
{
    return v >> 1 ^ -(v & 1);
}

/* Numbers wrap around where they are out of order, and do not fit then. */
static bool pack(const struct lod_rows *l, const struct lod_row *row, uint64_t bucket, struct packed *p)
{
    uint64_t after = bucket - l->bucket, more = row->count - 1, track = row->track, label = row->label;
    uint64_t offset = (uint64_t)row->first - (uint64_t)row->start, reach = (uint64_t)row->last - (uint64_t)row->first;
    uint64_t idle = reach - (uint64_t)row->busy, shorter = reach - (uint64_t)row->longest;
    uint64_t id = zigzag((uint64_t)row->longest_id - l->id);
    uint64_t beyond = after >> AFTER_BITS | track >> TRACK_BITS | more >> MORE_BITS | label >> LABEL_BITS |
                      offset >> OFFSET_BITS | reach >> REACH_BITS | idle >> IDLE_BITS | shorter >> SHORT_BITS |
                      row->bytes >> BYTES_BITS | id >> ID_BITS;
    p->place = after | track << TRACK_AT | more << MORE_AT | label << LABEL_AT | offset << OFFSET_AT;
    p->times = reach | idle << IDLE_AT | shorter << SHORT_AT;
    p->sums = row->bytes | id << ID_AT;
    return !beyond && reach != WIDE;
}

static void unpack(const struct lod_rows *l, const struct packed *p, struct lod_row *row)
{
    uint64_t start = l->start + LOW(p->place, AFTER_BITS) * l->width;
    uint64_t first = start + (p->place >> OFFSET_AT), reach = LOW(p->times, REACH_BITS);
    *row = (struct lod_row){
        .start = (int64_t)start,
        .first = (int64_t)first,
        .last = (int64_t)(first + reach),
        .busy = (int64_t)(reach - LOW(p->times >> IDLE_AT, IDLE_BITS)),
        .longest = (int64_t)(reach - (p->times >> SHORT_AT)),
        .longest_id = (int64_t)(l->id + unzigzag(p->sums >> ID_AT)),
        .count = LOW(p->place >> MORE_AT, MORE_BITS) + 1,
        .bytes = LOW(p->sums, BYTES_BITS),
        .track = (uint32_t)LOW(p->place >> TRACK_AT, TRACK_BITS),
        .label = (uint32_t)LOW(p->place >> LABEL_AT, LABEL_BITS),
    };
}

static int put_aside(struct lod_rows *l, const struct lod_row *row, struct kymo_err *err)
{
    int r = l->wide ? 0 : spill_open(l->dir, sizeof *row, &l->wide, err);
    return r < 0 ? r : spill_append(l->wide, row, err);
}

int lod_rows_add(struct lod_rows *l, const struct lod_row *row, int64_t bucket, struct kymo_err *err)
{
    void *room;
    int r = spill_extend(l->packed, &room, err);
    if (r < 0)
        return r;
    struct packed *p = room;
    if (!pack(l, row, (uint64_t)bucket, p)) {
        *p = (struct packed){.times = WIDE};
        r = put_aside(l, row, err);
    }
    l->bucket = (uint64_t)bucket;
    l->id = (uint64_t)row->longest_id;
    return r;
}

static int begin_reading(struct spill *s, struct spill_reader *reader, struct kymo_err *err)
{
    int r = spill_seal(s, err);
    return r < 0 ? r : spill_reader_init(reader, s, err);
}

/* 1: *row is the next, 0: there is none. */
static int next_row(struct lod_rows *l, struct spill_reader *packed, struct spill_reader *wide, struct lod_row *row,
                    struct kymo_err *err)
{
    const void *next;
    int r = spill_reader_next(packed, &next, err);
    if (r <= 0)
        return r;
    const struct packed *p = next;
    if (LOW(p->times, REACH_BITS) != WIDE) {
        unpack(l, p, row);
    } else {
        r = spill_reader_next(wide, &next, err);
        if (r <= 0)
            return r;
        memcpy(row, next, sizeof *row);
    }
    l->start = (uint64_t)row->start;
    l->id = (uint64_t)row->longest_id;
    return 1;
}

int lod_rows_hand_out(struct lod_rows *l, unsigned level, lod_sink sink, void *ctx, struct kymo_err *err)
{
    struct spill_reader packed = {0}, wide = {0};
    struct lod_row row;
    int r = begin_reading(l->packed, &packed, err);
    if (r == 0 && l->wide)
        r = begin_reading(l->wide, &wide, err);
    l->start = l->id = 0;
    while (r == 0 && (r = next_row(l, &packed, &wide, &row, err)) > 0)
        r = sink(ctx, level, &row, err);
    spill_reader_done(&packed);
    spill_reader_done(&wide);
    return r;
}
