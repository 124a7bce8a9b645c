#include "tools/export/export_perfetto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "formats/perfetto/perfetto_writer.h"
#include "tools/export/export_file.h"
#include "tools/export/perfetto_facts.h"
#include "tools/export/perfetto_flows.h"
#include "tools/export/perfetto_tracks.h"

#define SQL_MAX (1u << 20)
#define POINTS_MAX 64 /* flows that pass one event */

struct drawing {
    const struct export_profile *profile;
    const struct export_perfetto_options *options;
    struct export_file file;
    struct perfetto_writer *writer;
    struct perfetto_tracks *tracks;
    struct perfetto_flows *flows;
    bool draws_points;
    uint64_t points[POINTS_MAX];
    struct kymo_err *err;
    /* the table under way */
    const struct perfetto_events *events;
    const struct perfetto_counter *counter;
    char *names[PERFETTO_ARGS_MAX]; /* of the arguments */
    size_t name_count;
    int64_t last;
};

/* Columns of the result: track, name or value, start, end, id, flows that pass; then arguments. */
enum { TRACK, NAME, START, END, ID, POINTS, ARGS };

static int write_bytes(void *ctx, const void *bytes, size_t n)
{
    struct drawing *d = ctx;
    return export_file_write(&d->file, bytes, n, d->err);
}

static int stop_check(const struct drawing *d)
{
    if (!*d->options->stop)
        return 0;
    return kymo_err_set(d->err, -ECANCELED, "stopped on request; nothing was written to %s", d->options->output);
}

static size_t take_args(const struct drawing *d, const struct query_value *v, struct perfetto_arg *args)
{
    size_t n = 0;
    for (size_t i = 0; i < d->name_count; i++) {
        const struct query_value *from = &v[ARGS + i];
        if (from->kind == QUERY_VALUE_NULL || (from->kind == QUERY_VALUE_TEXT && !from->len))
            continue;
        struct perfetto_arg *to = &args[n++];
        *to = (struct perfetto_arg){
            .name = d->names[i], .integer = from->integer, .real = from->real, .text = from->text, .len = from->len};
        to->kind = from->kind == QUERY_VALUE_INT    ? PERFETTO_INT
                   : from->kind == QUERY_VALUE_BOOL ? PERFETTO_BOOL
                   : from->text                     ? PERFETTO_TEXT
                                                    : PERFETTO_DOUBLE;
    }
    return n;
}

/* Numbers in brackets, as the query gives them. A flow's begins lie in the order of time, which is how readers join
 * them. */
static void take_points(struct drawing *d, const struct query_value *v, struct perfetto_event *e)
{
    const char *at = v->kind == QUERY_VALUE_LIST ? v->text : NULL, *end = at ? at + v->len : NULL;
    while (at < end && e->begin_count < POINTS_MAX) {
        uint64_t number = 0;
        const char *digits = at;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            number = 10 * number + (uint64_t)(*at - '0');
        if (at > digits)
            d->points[e->begin_count++] = number;
        else
            at++;
    }
    e->begins = d->points;
}

static int draw_event(void *ctx, size_t columns, const struct query_value *v)
{
    struct drawing *d = ctx;
    struct perfetto_arg args[PERFETTO_ARGS_MAX];
    (void)columns;
    int r = stop_check(d);
    if (r < 0)
        return r;
    /* Tracks are shared out in the order of starts. */
    if (v[START].integer < d->last)
        return -EDOM;
    d->last = v[START].integer;
    bool lasts = v[END].kind == QUERY_VALUE_INT;
    struct perfetto_event e = {
        .start = v[START].integer,
        .end = lasts && v[END].integer > v[START].integer ? v[END].integer : v[START].integer,
        .name = v[NAME].text ? v[NAME].text : d->events->table,
        .name_len = v[NAME].text ? v[NAME].len : strlen(d->events->table),
        .category = d->events->table,
        .args = args,
        .arg_count = take_args(d, v, args),
    };
    if (e.start < 0)
        return kymo_err_set(d->err, -ERANGE, "%s has an event before the profile's zero", d->events->table);
    if (d->events->flow && v[ID].kind == QUERY_VALUE_INT) {
        e.begins = perfetto_flows_of(d->flows, d->events->flow, v[ID].integer, false, &e.begin_count);
        e.ends = perfetto_flows_of(d->flows, d->events->flow, v[ID].integer, true, &e.end_count);
    }
    if (d->draws_points && d->events->points)
        take_points(d, &v[POINTS], &e);
    r = perfetto_tracks_lane(d->tracks, d->events->group, v[TRACK].text ? v[TRACK].text : "", v[TRACK].len, e.start,
                             e.end, &e.track);
    if (r < 0)
        return r;
    return lasts ? perfetto_writer_slice(d->writer, &e) : perfetto_writer_instant(d->writer, &e);
}

static int draw_sample(void *ctx, size_t columns, const struct query_value *v)
{
    struct drawing *d = ctx;
    uint64_t track;
    (void)columns;
    int r = stop_check(d);
    if (r == 0)
        r = perfetto_tracks_counter(d->tracks, d->counter->group, v[TRACK].text ? v[TRACK].text : "", v[TRACK].len,
                                    d->counter->unit, &track);
    /* A value that is not known makes no point; the first point of a share of time has no time behind it. */
    if (r < 0 || v[NAME].kind == QUERY_VALUE_NULL || v[START].integer < 0)
        return r;
    return perfetto_writer_counter(d->writer, track, v[START].integer, v[NAME].real);
}

static bool wanted(const struct drawing *d, const char *table, bool unusual)
{
    const struct export_perfetto_options *o = d->options;
    for (size_t i = 0; i < o->table_count; i++)
        if (!strcmp(o->tables[i], table))
            return true;
    return !o->table_count && !unusual;
}

/* The next word of a list that blanks separate; false at its end. */
static bool next_word(const char **list, char word[static EXPORT_NAME_MAX])
{
    size_t n = strcspn(*list, " ");
    (void)snprintf(word, EXPORT_NAME_MAX, "%.*s", (int)n, *list);
    *list += n + strspn(*list + n, " ");
    return n > 0;
}

static bool has_all(const struct export_source *s, const char *list)
{
    char word[EXPORT_NAME_MAX];
    while (next_word(&list, word))
        if (!export_source_has(s, word))
            return false;
    return true;
}

static void forget_names(struct drawing *d)
{
    for (size_t i = 0; i < d->name_count; i++)
        kymo_free(d->names[i]);
    d->name_count = 0;
}

static int put_args(struct drawing *d, const struct export_source *s, struct kymo_buf *sql)
{
    char word[EXPORT_NAME_MAX];
    int r = 0;
    for (const char *list = d->events->args; next_word(&list, word) && r == 0;) {
        if (!export_source_has(s, word) || d->name_count == PERFETTO_ARGS_MAX)
            continue;
        d->names[d->name_count] = kymo_strdup(word);
        r = d->names[d->name_count] ? kymo_buf_printf(sql, ", \"%s\"", word) : -ENOMEM;
        d->name_count += d->names[d->name_count] != NULL;
    }
    return r;
}

static int put_events_sql(struct drawing *d, const struct export_source *s, bool sorted, struct kymo_buf *sql)
{
    const struct perfetto_events *e = d->events;
    bool spans = e->duration && export_source_has(s, e->duration);
    forget_names(d);
    kymo_buf_reset(sql);
    int r = kymo_buf_printf(sql, "SELECT %s, ", s->track);
    if (r == 0)
        r = has_all(s, e->name_columns) ? kymo_buf_printf(sql, "(%s)::VARCHAR", e->name)
                                        : kymo_buf_printf(sql, "NULL::VARCHAR");
    if (r == 0)
        r = kymo_buf_printf(sql, ", \"%s\"::BIGINT, ", s->start);
    if (r == 0 && spans)
        r = kymo_buf_printf(sql, "(\"%s\" + \"%s\")::BIGINT", s->start, e->duration);
    else if (r == 0)
        r = *s->end ? kymo_buf_printf(sql, "\"%s\"::BIGINT", s->end) : kymo_buf_printf(sql, "NULL::BIGINT");
    if (r == 0)
        r = kymo_buf_printf(sql, ", %s", export_source_has(s, "id") && e->flow ? "id::BIGINT" : "NULL::BIGINT");
    if (r == 0 && e->points && export_source_has(s, e->points))
        r = kymo_buf_printf(sql, ", [hash(f) FOR f IN \"%s\"]", e->points);
    else if (r == 0)
        r = kymo_buf_printf(sql, ", NULL::VARCHAR");
    if (r == 0)
        r = put_args(d, s, sql);
    if (r == 0)
        r = kymo_buf_printf(sql, " FROM \"%s\"%s", s->name, s->condition);
    if (r == 0 && sorted)
        r = kymo_buf_printf(sql, " ORDER BY \"%s\"", s->start);
    return r < 0 ? kymo_err_set(d->err, r, "out of memory") : 0;
}

static int draw_events(struct drawing *d, const struct perfetto_events *e)
{
    struct export_source s;
    struct kymo_buf sql;
    struct kymo_err why = {0};
    bool sorted = true;
    const struct query_row_sink sink = {.row = draw_event, .ctx = d};
    int r = export_source_open(&s, d->profile, e->table, &d->options->range, &why);
    d->events = e;
    d->last = INT64_MIN;
    kymo_buf_init(&sql, SQL_MAX);
    if (r < 0)
        (void)kymo_err_set(d->err, r, "%s", why.text);
    if (r == 0)
        r = export_source_sorted(&s, d->profile, &sorted, d->err);
    if (r == 0)
        r = put_events_sql(d, &s, !sorted, &sql);
    if (r == 0)
        r = query_rows_run(d->profile->db, (const char *)sql.data, &sink, d->err);
    forget_names(d);
    kymo_buf_done(&sql);
    export_source_done(&s);
    return r;
}

static char *counter_sql(const struct export_profile *p, const struct export_source *s,
                         const struct perfetto_counter *c)
{
    bool core = p->several_cores && export_source_has(s, "pcore_idx");
    char *track KYMO_FREE =
        c->track  ? kymo_asprintf("'%s'%s", c->track, core ? " || coalesce('(nc' || pcore_idx || ')', '')" : "")
        : c->part ? kymo_asprintf("%s || ' %s'", s->track, c->part)
                  : kymo_strdup(s->track);
    if (!track)
        return NULL;
    return kymo_asprintf("SELECT %s, %s\"%s\"::DOUBLE%s%s%s, \"%s\"::BIGINT FROM \"%s\"%s", track,
                         c->divisor ? "1e9 * " : "", c->value, c->divisor ? " / nullif(\"" : "",
                         c->divisor ? c->divisor : "", c->divisor ? "\", 0)" : "", s->start, s->name, s->condition);
}

/* A part that is 0 all the time would be a line that says nothing. */
static int is_drawn(const struct drawing *d, const struct export_source *s, const struct perfetto_counter *c, bool *ret)
{
    int64_t n = 1;
    *ret = export_source_has(s, c->value);
    if (!*ret || !c->part)
        return 0;
    char *sql KYMO_FREE = kymo_asprintf("SELECT count(*)::BIGINT FROM \"%s\" WHERE \"%s\" <> 0", s->name, c->value);
    int r =
        sql ? query_db_integers(d->profile->db, sql, &n, 1, d->err) : kymo_err_set(d->err, -ENOMEM, "out of memory");
    *ret = n > 0;
    return r;
}

static int draw_counter(struct drawing *d, const struct perfetto_counter *c)
{
    struct export_source s;
    bool drawn = false;
    const struct query_row_sink sink = {.row = draw_sample, .ctx = d};
    int r = export_source_open(&s, d->profile, c->table, &d->options->range, d->err);
    d->counter = c;
    if (r == 0)
        r = is_drawn(d, &s, c, &drawn);
    if (r == 0 && drawn) {
        char *sql KYMO_FREE = counter_sql(d->profile, &s, c);
        r = sql ? query_rows_run(d->profile->db, sql, &sink, d->err) : kymo_err_set(d->err, -ENOMEM, "out of memory");
    }
    export_source_done(&s);
    return r;
}

static int draw_all(struct drawing *d)
{
    int r = 0;
    size_t drawn = 0;
    for (const struct perfetto_events *e = perfetto_events; e->table && r == 0; e++)
        if (wanted(d, e->table, e->unusual) && export_profile_has(d->profile, e->table)) {
            r = draw_events(d, e);
            drawn++;
        }
    for (const struct perfetto_counter *c = perfetto_counters; c->table && r == 0; c++)
        if (wanted(d, c->table, false) && export_profile_has(d->profile, c->table)) {
            r = draw_counter(d, c);
            drawn++;
        }
    if (r == 0 && !drawn)
        r = kymo_err_set(d->err, -ENODATA, "%s: none of the tables that a trace shows is there", d->profile->dir);
    return r;
}

bool export_perfetto_shows(const char *table)
{
    bool shown = false;
    for (const struct perfetto_events *e = perfetto_events; e->table; e++)
        shown = shown || !strcmp(e->table, table);
    for (const struct perfetto_counter *c = perfetto_counters; c->table; c++)
        shown = shown || !strcmp(c->table, table);
    return shown;
}

/* A table that a trace does not show is a mistake of whoever asks for it. */
static int check_tables(const struct drawing *d)
{
    for (size_t i = 0; i < d->options->table_count; i++) {
        const char *name = d->options->tables[i];
        if (!export_profile_has(d->profile, name))
            return export_profile_lacks(d->profile, name, d->err);
        if (!export_perfetto_shows(name))
            return kymo_err_set(d->err, -EINVAL, "%s: a trace does not show this table", name);
    }
    return 0;
}

/* Flows that events name themselves take no memory, but are as many arrows for whoever reads the trace. */
static int count_points(struct drawing *d, uint64_t *ret)
{
    int r = 0;
    *ret = 0;
    for (const struct perfetto_events *e = perfetto_events; e->table && r == 0; e++) {
        struct export_source s;
        int64_t n = 0;
        if (!e->points || !wanted(d, e->table, e->unusual) || !export_profile_has(d->profile, e->table))
            continue;
        r = export_source_open(&s, d->profile, e->table, &d->options->range, d->err);
        char *sql KYMO_FREE = r < 0 || !export_source_has(&s, e->points)
                                  ? NULL
                                  : kymo_asprintf("SELECT coalesce(sum(len(\"%s\")), 0)::BIGINT FROM \"%s\"%s",
                                                  e->points, s.name, s.condition);
        if (sql)
            r = query_db_integers(d->profile->db, sql, &n, 1, d->err);
        export_source_done(&s);
        *ret += (uint64_t)n;
    }
    return r;
}

static int read_flows(struct drawing *d, uint64_t *ret_left_out)
{
    const struct perfetto_flows_scope scope = {
        .range = &d->options->range,
        .instructions = wanted(d, "Instruction", false),
        .transfers = wanted(d, "DmaPacketAggregated", false),
        .collectives = wanted(d, "CcOp", false),
    };
    uint64_t points = 0;
    int r = perfetto_flows_read(d->profile, &scope, d->options->flows, &d->flows, ret_left_out, d->err);
    if (r == 0)
        r = count_points(d, &points);
    d->draws_points = points <= d->options->flows;
    if (!d->draws_points)
        *ret_left_out += points;
    return r;
}

static int draw(struct drawing *d, const char *path, uint64_t *ret_left_out)
{
    int r = check_tables(d);
    if (r == 0)
        r = read_flows(d, ret_left_out);
    if (r == 0)
        r = export_file_open(&d->file, path, d->err);
    if (r == 0)
        r = perfetto_writer_new(write_bytes, d, &d->writer);
    if (r == 0)
        r = perfetto_tracks_new(d->writer, &d->tracks);
    if (r == 0)
        r = draw_all(d);
    if (r == 0)
        r = export_file_finish(&d->file, d->err);
    if (r < 0 && !d->err->code)
        r = kymo_err_set(d->err, r, "%s: %s", path, r == -E2BIG ? "too many tracks" : strerror(-r));
    d->tracks = perfetto_tracks_free(d->tracks);
    d->writer = perfetto_writer_free(d->writer);
    d->flows = perfetto_flows_free(d->flows);
    export_file_done(&d->file);
    return r;
}

int export_perfetto(const struct export_profile *p, const struct export_perfetto_options *o, uint64_t *ret_left_out,
                    struct kymo_err *err)
{
    struct drawing d = {.profile = p, .options = o, .err = err, .file = {.fd = -1}};
    char *work KYMO_FREE = kymo_asprintf("%s.tmp-%ld", o->output, (long)getpid());
    *ret_left_out = 0;
    if (!work)
        return kymo_err_set(err, -ENOMEM, "out of memory");
    int r = kymo_file_check_target(o->output, NULL, 0, err);
    if (r < 0)
        return r;
    r = draw(&d, work, ret_left_out);
    if (r == 0)
        r = kymo_file_rename(work, o->output, err);
    if (r < 0)
        (void)kymo_file_ops()->unlink(work);
    return r < 0 ? r : kymo_file_sync_parent(o->output, err);
}
