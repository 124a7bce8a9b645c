#include "pipeline/lod/wait_sums.h"

#include <errno.h>

#include "base/alloc.h"
#include "pipeline/lod/time_sums.h"
#include "pipeline/lod/track_names.h"

/* Subjects: tracks with sequencer and compute side apart, by what met the wait. */
enum type { TYPE_UNKNOWN, TYPE_SEMAPHORE, TYPE_DMA, TYPES };
#define TRACKS (INPUT_CORES_MAX * KYMO_ENGINE_MAX * TRACK_PARTS)
#define SUBJECTS (TRACKS * TYPES)
_Static_assert(TRACKS < UINT8_MAX, "tracks are numbered by bytes");

struct names {
    char track[TRACK_NAME_MAX], split[TRACK_NAME_MAX];
};

struct wait_sums {
    const struct job *j;
    struct time_sums *sums;
    struct parquet_row *writer;
    uint32_t rows[SUBJECTS]; /* a static row of each */
    uint8_t *tracks;         /* by static row, plus 1; 0: not known yet */
    struct names *names;     /* by track, while rows are written */
};

int wait_sums_open(const struct job *j, struct wait_sums **ret, struct kymo_err *err)
{
    struct wait_sums *t = KYMO_NEW(struct wait_sums);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for the table WaitSums");
    t->j = j;
    t->tracks = KYMO_NEW_ARRAY(uint8_t, j->statics.count + 1);
    int64_t duration = (int64_t)(j->scan.last_ps / 1000) - (int64_t)(j->scan.first_ps / 1000);
    int r = t->tracks ? time_sums_open(duration, false, &t->sums, err)
                      : kymo_err_set(err, -ENOMEM, "no memory for the table WaitSums");
    if (r == 0)
        r = parquet_row_open(j->dir, kymo_schema_table(KYMO_T_WAIT_SUMS), &j->parquet, &t->writer, err);
    if (r < 0)
        wait_sums_free(t);
    else
        *ret = t;
    return r;
}

struct wait_sums *wait_sums_free(struct wait_sums *t)
{
    if (!t)
        return NULL;
    time_sums_free(t->sums);
    parquet_row_discard(t->writer);
    kymo_free(t->tracks);
    kymo_free(t->names);
    kymo_free(t);
    return NULL;
}

int wait_sums_add(struct wait_sums *t, const struct flow_wait *w, struct kymo_err *err)
{
    const struct static_row *row = &t->j->statics.rows[w->row];
    enum type type = w->doubt != FLOW_DOUBT_NONE    ? TYPE_UNKNOWN
                     : w->in_table == FLOW_TRANSFER ? TYPE_DMA
                                                    : TYPE_SEMAPHORE;
    uint8_t *track = &t->tracks[w->row];
    if (!*track)
        *track =
            (uint8_t)(((uint32_t)row->pcore * KYMO_ENGINE_MAX + row->engine) * TRACK_PARTS + track_part_of(row) + 1);
    uint32_t subject = (*track - 1u) * TYPES + (uint32_t)type;
    t->rows[subject] = w->row;
    return time_sums_event(
        t->sums, &subject, 1,
        &(struct time_sums_event){.start = w->start, .begin = w->start, .end = w->end, .cost = w->cost}, err);
}

static int write_row(void *ctx, const struct time_sums_row *row, const struct time_sums_work *work,
                     struct kymo_err *err)
{
    struct wait_sums *t = ctx;
    struct parquet_row *w = t->writer;
    const struct static_row *one = &t->j->statics.rows[t->rows[row->subject]];
    enum type type = (enum type)(row->subject % TYPES);
    struct names *names = &t->names[row->subject / TYPES];
    (void)work;
    if (!*names->split) {
        statics_track(&t->j->statics, one, names->track, sizeof names->track);
        track_name_part(t->j, one, names->split);
    }
    parquet_row_int(w, KYMO_WAIT_SUMS_BUCKET_NS, time_sums_width(t->sums));
    parquet_row_int(w, KYMO_WAIT_SUMS_START_TS, row->bucket * time_sums_width(t->sums));
    parquet_row_string(w, KYMO_WAIT_SUMS_TIMELINE_TRACK, names->track);
    parquet_row_string(w, KYMO_WAIT_SUMS_SPLIT_TRACK, names->split);
    parquet_row_int(w, KYMO_WAIT_SUMS_PCORE_IDX, one->pcore);
    if (type != TYPE_UNKNOWN)
        parquet_row_string(w, KYMO_WAIT_SUMS_DEPENDENCY_TYPE,
                           flow_type_name(flow_wait_type(type == TYPE_DMA ? FLOW_TRANSFER : FLOW_INSTRUCTION)));
    parquet_row_int(w, KYMO_WAIT_SUMS_EVENT_COUNT, (int64_t)row->count);
    parquet_row_int(w, KYMO_WAIT_SUMS_WAIT_NS, row->figures[TIME_SUMS_TIME]);
    parquet_row_int(w, KYMO_WAIT_SUMS_COST_NS, row->cost);
    return parquet_row_end(w, err);
}

int wait_sums_finish(struct wait_sums *t, struct kymo_err *err)
{
    uint8_t rank[SUBJECTS] = {0};
    t->names = KYMO_NEW_ARRAY(struct names, TRACKS);
    int r = t->names ? time_sums_rows(t->sums, rank, write_row, t, err)
                     : kymo_err_set(err, -ENOMEM, "no memory for the table WaitSums");
    if (r < 0)
        return r;
    struct parquet_row *writer = t->writer;
    t->writer = NULL;
    return parquet_row_finish(writer, err);
}
