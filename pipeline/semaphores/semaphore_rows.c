#include "pipeline/semaphores/semaphore_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arch/layout.h"
#include "base/alloc.h"
#include "pipeline/job.h"

#define SOURCES (KYMO_ENGINE_MAX + 1) /* the engines, and AXI */
#define BATCH PARQUET_BATCH_MAX       /* one page, which the writer takes as it is */
#define NAMES 512                     /* 256 semaphores, 256 events */

struct table {
    struct parquet_writer *writer;
    uint32_t names[NAMES], operations[256], timings[256], sources[SOURCES]; /* dictionary ids by number, mode, source */
    size_t n;
    int64_t timestamp[BATCH];
    int32_t value[BATCH], mode[BATCH];
    uint32_t name_at[BATCH], mode_at[BATCH], source_at[BATCH];
    uint8_t twice[BATCH];
    int64_t pcore[BATCH];
};

static int open_table(struct table *t, const char *dir, const struct parquet_options *opt, struct kymo_err *err)
{
    int r = parquet_writer_open(dir, kymo_schema_table(KYMO_T_SEMAPHORE_UPDATE), opt, &t->writer, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < NAMES && r == 0; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "%c[%u]", i < 256 ? 'E' : 'S', i % 256);
        t->names[i] = parquet_writer_string_id(t->writer, KYMO_SEMAPHORE_UPDATE_ID, name, (size_t)n, err);
        r = t->names[i] == PARQUET_NULL ? -ENOMEM : 0;
    }
    for (unsigned i = 0; i < 256 && r == 0; i++) {
        const char *op = kymo_update_operation((uint8_t)i), *timing = kymo_update_timing((uint8_t)i);
        t->operations[i] =
            parquet_writer_string_id(t->writer, KYMO_SEMAPHORE_UPDATE_UPDATE_OPERATION_TYPE, op, strlen(op), err);
        t->timings[i] = PARQUET_NULL;
        if (timing)
            t->timings[i] = parquet_writer_string_id(t->writer, KYMO_SEMAPHORE_UPDATE_UPDATE_TRIGGER_TIMING, timing,
                                                     strlen(timing), err);
        r = t->operations[i] == PARQUET_NULL || (timing && t->timings[i] == PARQUET_NULL) ? -ENOMEM : 0;
    }
    for (unsigned i = 0; i < SOURCES && r == 0; i++) {
        const char *name = i == KYMO_ENGINE_MAX ? "AXI" : kymo_engine_name((enum kymo_engine)i);
        t->sources[i] =
            parquet_writer_string_id(t->writer, KYMO_SEMAPHORE_UPDATE_UPDATE_SOURCE, name, strlen(name), err);
        r = t->sources[i] == PARQUET_NULL ? -ENOMEM : 0;
    }
    return r;
}

static int flush(struct table *t, struct kymo_err *err)
{
    struct parquet_column c[KYMO_SEMAPHORE_UPDATE_MAX] = {0};
    c[KYMO_SEMAPHORE_UPDATE_TIMESTAMP].values = t->timestamp;
    c[KYMO_SEMAPHORE_UPDATE_ID] = (struct parquet_column){.index = t->name_at, .map = t->names, .map_len = NAMES};
    c[KYMO_SEMAPHORE_UPDATE_VALUE].values = t->value;
    c[KYMO_SEMAPHORE_UPDATE_UPDATE_SOURCE] =
        (struct parquet_column){.index = t->source_at, .map = t->sources, .map_len = SOURCES};
    c[KYMO_SEMAPHORE_UPDATE_DOUBLE_SET_OR_CLEAR].values = t->twice;
    c[KYMO_SEMAPHORE_UPDATE_UPDATE_MODE].values = t->mode;
    c[KYMO_SEMAPHORE_UPDATE_UPDATE_OPERATION_TYPE] =
        (struct parquet_column){.index = t->mode_at, .map = t->operations, .map_len = 256};
    c[KYMO_SEMAPHORE_UPDATE_UPDATE_TRIGGER_TIMING] =
        (struct parquet_column){.index = t->mode_at, .map = t->timings, .map_len = 256};
    c[KYMO_SEMAPHORE_UPDATE_PCORE_IDX].values = t->pcore;
    int r = t->n ? parquet_writer_batch(t->writer, c, t->n, err) : 0;
    t->n = 0;
    return r;
}

static int add(struct table *t, const struct consumer_semaphore *row, struct kymo_err *err)
{
    size_t i = t->n++;
    t->timestamp[i] = row->ts;
    t->value[i] = (int32_t)row->value;
    t->mode[i] = row->mode;
    t->mode_at[i] = row->mode;
    t->name_at[i] = (row->is_semaphore ? 256u : 0u) + row->index;
    t->source_at[i] = row->source;
    t->twice[i] = row->double_set_or_clear;
    t->pcore[i] = row->pcore;
    return t->n == BATCH ? flush(t, err) : 0;
}

static void free_rows(void *c)
{
    struct table *t = c;
    parquet_writer_discard(t->writer);
    kymo_free(t);
}

static int open_rows(const struct job *j, void **ret, struct kymo_err *err)
{
    struct table *t = KYMO_NEW(struct table);
    int r = t ? open_table(t, j->dir, &j->parquet, err) : kymo_err_set(err, -ENOMEM, "no memory for SemaphoreUpdate");
    if (r == 0)
        *ret = t;
    else if (t)
        free_rows(t);
    return r;
}

static int take(void *c, const struct consumer_semaphore *rows, size_t n, struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = add(c, &rows[i], err);
    return r;
}

/* The table ends with its stage: the stages after it need the memory. */
static int end_stage(void *c, enum consumer_stage stage, struct kymo_err *err)
{
    struct table *t = c;
    int r = stage == CONSUMER_SEMAPHORES ? flush(t, err) : 0;
    if (r < 0 || stage != CONSUMER_SEMAPHORES)
        return r;
    struct parquet_writer *writer = t->writer;
    t->writer = NULL;
    return parquet_writer_finish(writer, err);
}

static int finish(void *c, struct warnings *w, struct kymo_err *err)
{
    (void)c;
    (void)w;
    (void)err;
    return 0;
}

const struct consumer semaphore_rows_consumer = {
    .name = "SemaphoreUpdate",
    .open = open_rows,
    .semaphores = take,
    .end_stage = end_stage,
    .finish = finish,
    .free = free_rows,
};
