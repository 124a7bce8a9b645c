/* SystemProfileEvents, from rows in order of start. Texts hardly repeat, so the writer forgets them with each row
 * group. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "pipeline/system/system_impl.h"

#define BATCH 4096u
#define GROUP_ROWS 131072u
#define FLOWS_MAX 8u

struct batch {
    int64_t id[BATCH], start[BATCH], end[BATCH], duration[BATCH], process[BATCH], thread[BATCH], nc[BATCH],
        pcore[BATCH], worker[BATCH], bytes[BATCH], records[BATCH];
    uint8_t has_nc[BATCH], has_pcore[BATCH], has_worker[BATCH], has_bytes[BATCH];
    uint32_t name[BATCH], source[BATCH], instance[BATCH], flows[BATCH], stream[BATCH], json[BATCH];
    size_t n, max;
};

struct writing {
    struct system_job *j;
    struct parquet_writer *w;
    struct batch *b;
    struct kymo_buf text;
    uint64_t rows;
};

/* Up to the next end of a row group or a file, so that the writer can forget there. */
static void size_batch(struct writing *g)
{
    uint64_t split = g->j->options->split_rows, in_part = split ? g->rows % split : g->rows;
    uint64_t left = GROUP_ROWS - in_part % GROUP_ROWS;
    if (split && split - in_part < left)
        left = split - in_part;
    g->b->max = left < BATCH ? (size_t)left : BATCH;
    g->b->n = 0;
}

static void forget(struct writing *g)
{
    static const unsigned columns[] = {KYMO_SYSTEM_PROFILE_EVENTS_NAME,
                                       KYMO_SYSTEM_PROFILE_EVENTS_TRACE_EVENT_SOURCE,
                                       KYMO_SYSTEM_PROFILE_EVENTS_INSTANCE_ID,
                                       KYMO_SYSTEM_PROFILE_EVENTS_FLOW_ID,
                                       KYMO_SYSTEM_PROFILE_EVENTS_FRAMEWORK_STREAM_ID,
                                       KYMO_SYSTEM_PROFILE_EVENTS_EXTRA_ATTRIBUTES_JSON};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        (void)parquet_writer_forget(g->w, columns[i]);
}

static int flush(struct writing *g, struct kymo_err *err)
{
    const struct batch *b = g->b;
    struct parquet_column c[KYMO_SYSTEM_PROFILE_EVENTS_MAX] = {
        [KYMO_SYSTEM_PROFILE_EVENTS_ID] = {.values = b->id},
        [KYMO_SYSTEM_PROFILE_EVENTS_NAME] = {.index = b->name},
        [KYMO_SYSTEM_PROFILE_EVENTS_START_TS] = {.values = b->start},
        [KYMO_SYSTEM_PROFILE_EVENTS_END_TS] = {.values = b->end},
        [KYMO_SYSTEM_PROFILE_EVENTS_DURATION_NS] = {.values = b->duration},
        [KYMO_SYSTEM_PROFILE_EVENTS_TRACE_EVENT_SOURCE] = {.index = b->source},
        [KYMO_SYSTEM_PROFILE_EVENTS_INSTANCE_ID] = {.index = b->instance},
        [KYMO_SYSTEM_PROFILE_EVENTS_PROCESS_ID] = {.values = b->process},
        [KYMO_SYSTEM_PROFILE_EVENTS_THREAD_ID] = {.values = b->thread},
        [KYMO_SYSTEM_PROFILE_EVENTS_NC_IDX] = {.values = b->nc, .valid = b->has_nc},
        [KYMO_SYSTEM_PROFILE_EVENTS_PCORE_IDX] = {.values = b->pcore, .valid = b->has_pcore},
        [KYMO_SYSTEM_PROFILE_EVENTS_WORKER_GID] = {.values = b->worker, .valid = b->has_worker},
        [KYMO_SYSTEM_PROFILE_EVENTS_FLOW_ID] = {.index = b->flows},
        [KYMO_SYSTEM_PROFILE_EVENTS_FRAMEWORK_STREAM_ID] = {.index = b->stream},
        [KYMO_SYSTEM_PROFILE_EVENTS_EXTRA_ATTRIBUTES_JSON] = {.index = b->json},
        [KYMO_SYSTEM_PROFILE_EVENTS_TRANSFER_BYTES] = {.values = b->bytes, .valid = b->has_bytes},
        [KYMO_SYSTEM_PROFILE_EVENTS_TRACE_RECORDS] = {.values = b->records},
    };
    int r = b->n ? parquet_writer_batch(g->w, c, b->n, err) : 0;
    if (r < 0)
        return r;
    g->rows += b->n;
    forget(g);
    size_batch(g);
    return system_report(g->j, PROCESS_SUMMARY, g->rows, sort_spill_count(g->j->rows), err);
}

/* False: err says why. */
static bool put_text(struct writing *g, unsigned column, const char *text, size_t n, uint32_t *ret,
                     struct kymo_err *err)
{
    *ret = parquet_writer_string_id(g->w, column, text, n < PARQUET_STRING_MAX ? n : PARQUET_STRING_MAX, err);
    return *ret != PARQUET_NULL;
}

static bool put_flows(struct writing *g, char *text, size_t n, uint32_t *ret, struct kymo_err *err)
{
    const char *flows[FLOWS_MAX];
    size_t count = 0;
    *ret = PARQUET_NULL;
    for (char *p = text, *end = text + n; p < end && count < FLOWS_MAX;) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop)
            break;
        *stop = '\0';
        flows[count++] = p;
        p = stop + 1;
    }
    if (!count)
        return true;
    *ret = parquet_writer_string_list_id(g->w, KYMO_SYSTEM_PROFILE_EVENTS_FLOW_ID, flows, count, err);
    return *ret != PARQUET_NULL;
}

static bool put_json(struct writing *g, const char *text, size_t n, uint32_t *ret, struct kymo_err *err)
{
    *ret = PARQUET_NULL;
    if (!n || n > PARQUET_STRING_MAX - 2)
        return true;
    kymo_buf_reset(&g->text);
    if (kymo_buf_append(&g->text, "{", 1) < 0 || kymo_buf_append(&g->text, text, n) < 0 ||
        kymo_buf_append(&g->text, "}", 1) < 0)
        return kymo_err_set(err, -ENOMEM, "no memory for an event's attributes") == 0;
    return put_text(g, KYMO_SYSTEM_PROFILE_EVENTS_EXTRA_ATTRIBUTES_JSON, (const char *)g->text.data, g->text.len, ret,
                    err);
}

/* The framework tells of which stream a request was; the runtime's events of it say the same. */
static bool put_stream(struct writing *g, const struct system_row *row, uint32_t *ret, struct kymo_err *err)
{
    const char *stream = row->has_sequence ? system_streams_find(g->j->streams, row->sequence) : NULL;
    *ret = PARQUET_NULL;
    return !stream || put_text(g, KYMO_SYSTEM_PROFILE_EVENTS_FRAMEWORK_STREAM_ID, stream, strlen(stream), ret, err);
}

static bool put_texts(struct writing *g, const struct system_row *row, char *text, size_t i, struct kymo_err *err)
{
    struct batch *b = g->b;
    const char *known = row->type < SYSTRACE_EVENT_MAX ? systrace_event_name(row->type) : "";
    const char *source = systrace_source_name((enum systrace_source)row->source);
    const char *name = row->name_len || row->type == SYSTEM_TYPE_FRAMEWORK ? text : known;
    size_t name_len = name == text ? row->name_len : strlen(name);
    char *flows = text + row->name_len, *json = flows + row->flows_len;
    return put_text(g, KYMO_SYSTEM_PROFILE_EVENTS_NAME, name, name_len, &b->name[i], err) &&
           put_text(g, KYMO_SYSTEM_PROFILE_EVENTS_TRACE_EVENT_SOURCE, source, strlen(source), &b->source[i], err) &&
           put_text(g, KYMO_SYSTEM_PROFILE_EVENTS_INSTANCE_ID, g->j->instance, strlen(g->j->instance), &b->instance[i],
                    err) &&
           put_flows(g, flows, row->flows_len, &b->flows[i], err) && put_stream(g, row, &b->stream[i], err) &&
           put_json(g, json, row->json_len, &b->json[i], err);
}

static int put_row(struct writing *g, const struct system_row *row, struct kymo_err *err)
{
    struct batch *b = g->b;
    size_t i = b->n, n = (size_t)row->name_len + row->flows_len + row->json_len;
    const char *text = "";
    int r = n ? text_store_get(g->j->texts, row->text, n, &text, err) : 0;
    if (r < 0)
        return r;
    struct kymo_buf copy; /* flows are taken apart in place */
    kymo_buf_init(&copy, n + 1);
    if (kymo_buf_append(&copy, text, n) < 0 || kymo_buf_append(&copy, "", 1) < 0) {
        kymo_buf_done(&copy);
        return kymo_err_set(err, -ENOMEM, "no memory for the texts of an event");
    }
    bool done = put_texts(g, row, (char *)copy.data, i, err);
    kymo_buf_done(&copy);
    if (!done)
        return -EIO;
    b->id[i] = (int64_t)(g->rows + i);
    b->start[i] = row->start;
    b->end[i] = row->end;
    b->duration[i] = row->end - row->start;
    b->process[i] = row->process;
    b->thread[i] = row->thread;
    b->nc[i] = row->nc;
    b->has_nc[i] = row->has_nc;
    b->pcore[i] = row->pcore;
    b->has_pcore[i] = row->has_nc && row->pcore >= 0;
    b->worker[i] = row->worker;
    b->has_worker[i] = row->has_worker;
    b->bytes[i] = row->bytes;
    b->has_bytes[i] = row->has_bytes;
    b->records[i] = row->records;
    b->n++;
    system_span(g->j, row->start);
    system_span(g->j, row->end);
    return b->n == b->max ? flush(g, err) : 0;
}

static int put_rows(struct writing *g, struct kymo_err *err)
{
    const void *row;
    int r = sort_spill_merge(g->j->rows, err), code;
    size_batch(g);
    while (r == 0 && (code = sort_spill_next(g->j->rows, &row, err)) != 0)
        r = code < 0 ? code : put_row(g, row, err);
    return r < 0 ? r : flush(g, err);
}

int system_write_events(struct system_job *j, struct kymo_err *err)
{
    struct parquet_options options = j->parquet;
    options.rows_per_group = GROUP_ROWS;
    struct writing g = {.j = j, .b = KYMO_NEW(struct batch)};
    if (!g.b)
        return kymo_err_set(err, -ENOMEM, "no memory for rows of events");
    kymo_buf_init(&g.text, SYSTEM_TEXT_MAX);
    int r = parquet_writer_open(j->dir, kymo_schema_table(KYMO_T_SYSTEM_PROFILE_EVENTS), &options, &g.w, err);
    if (r == 0) {
        r = put_rows(&g, err);
        if (r == 0)
            r = parquet_writer_finish(g.w, err);
        else
            parquet_writer_discard(g.w);
    }
    j->result.events = g.rows;
    kymo_buf_done(&g.text);
    kymo_free(g.b);
    return r;
}
