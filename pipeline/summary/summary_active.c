/* Merges the engines' busy spans by start: the table ActiveTime, and the union of all of them with the DMA engines. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/parquet/parquet_writer.h"
#include "pipeline/summary/summary_impl.h"

#define ENGINES (INPUT_CORES_MAX * KYMO_ENGINE_MAX)
#define SOURCES (ENGINES + 2) /* DMA engines and collectives count, but have no rows */

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

#define BATCH 16384

struct table {
    struct parquet_writer *writer;
    uint32_t engines[SOURCES], cores[SOURCES]; /* dictionary ids by source */
    size_t n;
    int64_t start[BATCH], end[BATCH], duration[BATCH];
    uint32_t source[BATCH];
};

static int open_table(struct table *t, const char *dir, const struct parquet_options *opt, struct kymo_err *err)
{
    int r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_ACTIVE_TIME), opt, &t->writer, err);
    for (unsigned i = 0; i < ENGINES && r == 0; i++) {
        const char *engine = kymo_engine_lower((enum kymo_engine)(i % KYMO_ENGINE_MAX));
        t->engines[i] = parquet_writer_string_id(t->writer, KYMO_ACTIVE_TIME_ENGINE, engine, strlen(engine), err);
        t->cores[i] = parquet_writer_int_id(t->writer, KYMO_ACTIVE_TIME_PCORE_IDX, i / KYMO_ENGINE_MAX, err);
        r = t->engines[i] == PARQUET_NULL || t->cores[i] == PARQUET_NULL ? -ENOMEM : 0;
    }
    return r;
}

static int flush(struct table *t, struct kymo_err *err)
{
    struct parquet_column c[KYMO_ACTIVE_TIME_MAX] = {0};
    c[KYMO_ACTIVE_TIME_START_TS].values = t->start;
    c[KYMO_ACTIVE_TIME_END_TS].values = t->end;
    c[KYMO_ACTIVE_TIME_DURATION_NS].values = t->duration;
    c[KYMO_ACTIVE_TIME_ENGINE] = (struct parquet_column){.index = t->source, .map = t->engines, .map_len = SOURCES};
    c[KYMO_ACTIVE_TIME_PCORE_IDX] = (struct parquet_column){.index = t->source, .map = t->cores, .map_len = SOURCES};
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

static int write_span(struct table *t, unsigned source, struct span one, struct kymo_err *err)
{
    size_t i = t->n++;
    t->start[i] = one.start;
    t->end[i] = one.end;
    t->duration[i] = one.end - one.start;
    t->source[i] = source;
    return t->n == BATCH ? flush(t, err) : 0;
}

static int merge(struct summary *s, struct source *sources, struct table *t, struct kymo_err *err)
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
        if (r == 0 && best < ENGINES)
            r = write_span(t, best, one, err);
        if (r == 0)
            r = advance(&sources[best], err);
    }
    s->total_active = spans_finish(&all);
    spans_done(&all);
    return r == 0 ? flush(t, err) : r;
}

int summary_active_write(struct summary *s, const char *dir, const struct parquet_options *opt, struct kymo_err *err)
{
    struct source sources[SOURCES] = {0};
    struct table *t KYMO_FREE = KYMO_NEW(struct table);
    if (!t)
        return kymo_err_set(err, -ENOMEM, "no memory for ActiveTime");
    int r = open_table(t, dir, opt, err);
    for (unsigned i = 0; i < ENGINES && r == 0; i++)
        r = open_source(&sources[i], s->active[i / KYMO_ENGINE_MAX][i % KYMO_ENGINE_MAX].spill, err);
    if (r == 0)
        r = open_source(&sources[ENGINES], s->dma_active.spill, err);
    if (r == 0)
        r = open_source(&sources[ENGINES + 1], s->cc_active.spill, err);
    if (r == 0)
        r = merge(s, sources, t, err);
    for (unsigned i = 0; i < SOURCES; i++)
        spill_reader_done(&sources[i].reader);
    if (r < 0) {
        parquet_writer_discard(t->writer);
        return r;
    }
    return parquet_writer_finish(t->writer, err);
}
