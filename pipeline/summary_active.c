/* Merges the engines' busy spans by start: the table ActiveTime, and the union of all of them with the DMA engines. */
#include <errno.h>

#include "formats/parquet/parquet_writer.h"
#include "pipeline/summary_impl.h"

#define SOURCES (INPUT_CORES_MAX * KYMO_ENGINE_MAX + 1)

struct source {
    struct spill_reader reader;
    struct span at;
    bool live;
};

static int advance(struct source *s, struct kymo_err *err)
{
    const void *next = NULL;
    int r = spill_reader_next(&s->reader, &next, err);
    s->live = r > 0;
    if (s->live)
        s->at = *(const struct span *)next;
    return r < 0 ? r : 0;
}

static int open_source(struct source *s, struct spill *spill, struct kymo_err *err)
{
    int r = spill_seal(spill, err);
    if (r == 0)
        r = spill_reader_init(&s->reader, spill, err);
    return r == 0 ? advance(s, err) : r;
}

static int write_span(struct parquet_row *row, unsigned source, struct span one, struct kymo_err *err)
{
    enum kymo_engine engine = (enum kymo_engine)(source % KYMO_ENGINE_MAX);
    parquet_row_int(row, KYMO_ACTIVE_TIME_START_TS, one.start);
    parquet_row_int(row, KYMO_ACTIVE_TIME_END_TS, one.end);
    parquet_row_int(row, KYMO_ACTIVE_TIME_DURATION_NS, one.end - one.start);
    parquet_row_string(row, KYMO_ACTIVE_TIME_ENGINE, kymo_engine_lower(engine));
    parquet_row_int(row, KYMO_ACTIVE_TIME_PCORE_IDX, source / KYMO_ENGINE_MAX);
    return parquet_row_end(row, err);
}

static int merge(struct summary *s, struct source *sources, struct parquet_row *row, struct kymo_err *err)
{
    struct spans all;
    spans_init(&all, SUMMARY_OPEN_MAX, NULL, NULL);
    int r = 0;
    while (r == 0) {
        unsigned best = SOURCES;
        for (unsigned i = 0; i < SOURCES; i++)
            if (sources[i].live && (best == SOURCES || sources[i].at.start < sources[best].at.start))
                best = i;
        if (best == SOURCES)
            break;
        struct span one = sources[best].at;
        r = spans_add(&all, one.start, one.end);
        spans_advance(&all, one.start);
        if (r == 0 && best + 1 < SOURCES)
            r = write_span(row, best, one, err);
        if (r == 0)
            r = advance(&sources[best], err);
    }
    s->total_active = spans_finish(&all);
    spans_done(&all);
    return r;
}

int summary_active_write(struct summary *s, const char *dir, struct kymo_err *err)
{
    struct source sources[SOURCES] = {0};
    struct parquet_row *row;
    int r = parquet_row_open(dir, kymo_schema_table(KYMO_T_ACTIVE_TIME), NULL, &row, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i + 1 < SOURCES && r == 0; i++)
        r = open_source(&sources[i], s->active[i / KYMO_ENGINE_MAX][i % KYMO_ENGINE_MAX].spill, err);
    if (r == 0)
        r = open_source(&sources[SOURCES - 1], s->dma_active.spill, err);
    if (r == 0)
        r = merge(s, sources, row, err);
    for (unsigned i = 0; i < SOURCES; i++)
        spill_reader_done(&sources[i].reader);
    if (r < 0) {
        parquet_row_discard(row);
        return r;
    }
    return parquet_row_finish(row, err);
}
