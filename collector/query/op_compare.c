/* Two or more sides, each of one or more captures, against the first: what differs, and whether that is more than
 * noise. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collector/query/figures.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_tracks.h"
#include "collector/query/serve_waits.h"
#include "formats/schema/schema.h"

#define ROWS_MAX 5000
#define BUSY "sum(greatest(end_ts - start_ts - " SERVE_WAITED ", 0))::BIGINT"

/* Each: rows of a key and two numbers. */
static const struct part {
    const char *name, *time, *text;
} parts[] = {
    {"operators", "busy_ns",
     "SELECT " SERVE_OPERATOR " AS key, " BUSY ", count(*) FROM k.\"Instruction\" GROUP BY 1 HAVING key <> ''"},
    {"opcodes", "busy_ns",
     "SELECT " SERVE_ENGINE " || ' ' || coalesce(opcode, '?') AS key, " BUSY ", count(*) FROM k.\"Instruction\""
     " GROUP BY 1"},
    {"throttles", "time_ns",
     "SELECT coalesce(type, '?') AS key, sum(duration)::BIGINT, count(*) FROM k.\"Throttle\" GROUP BY 1"},
};
#define N_PARTS (sizeof parts / sizeof *parts)

struct compare {
    struct figures *summary, *parts[N_PARTS];
    size_t capture; /* that is being read */
    size_t part;
    const json_t *name; /* of the capture */
    json_t *left_out;
};

static int keep_part(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct compare *m = ctx;
    char *key KYMO_FREE = kymo_strndup(c[0].text, c[0].len);
    if (!key)
        return kymo_err_set(err, -ENOMEM, "no memory for a row");
    struct figures *f = m->parts[m->part];
    int r = figures_add(f, key, parts[m->part].time, "ns", m->capture, c[1].null ? 0 : (double)c[1].i, err);
    return r < 0 ? r : figures_add(f, key, "count", "count", m->capture, (double)c[2].i, err);
}

static const char *unit_of(const struct kymo_column *c)
{
    size_t n = strlen(c->name);
    if (!strcmp(c->unit, "seconds"))
        return "s";
    if (!strcmp(c->unit, "nanoseconds"))
        return "ns";
    if (n > 8 && !strcmp(c->name + n - 8, "_percent"))
        return "percent";
    if (strstr(c->name, "bytes") || strstr(c->name, "_size"))
        return "bytes";
    return strstr(c->name, "count") ? "count" : "number";
}

/* The columns of Summary that are numbers, of the profile's first row. */
static int read_summary(const struct serve_request *q, struct compare *m, struct kymo_err *err)
{
    const struct kymo_table *t = kymo_schema_find("Summary");
    json_t *list = NULL;
    int r = sql_objects(serve_sql_of(q), "SELECT * FROM k.\"Summary\" LIMIT 1", NULL, 0, 1, &list, NULL, err);
    const json_t *row = r == 0 ? json_array_get(list, 0) : NULL;
    for (size_t i = 0; row && i < t->column_count && r == 0; i++) {
        const struct kymo_column *c = &t->columns[i];
        const json_t *value = json_object_get(row, c->name);
        if (json_is_number(value))
            r = figures_add(m->summary, c->name, "value", unit_of(c), m->capture, json_number_value(value), err);
    }
    json_decref(list);
    return r;
}

/* The answer is about several, and has no header of one. */
static void tell_left_out(struct serve_request *q, struct compare *m)
{
    const char *tables = serve_dir_of(q)->left_out;
    if (tables && m->name)
        (void)json_array_append_new(m->left_out, json_pack("{s:O, s:s}", "profile", m->name, "tables", tables));
}

static int visit(struct serve_request *q, void *ctx, struct kymo_err *err)
{
    struct compare *m = ctx;
    int r = read_summary(q, m, err);
    for (m->part = 0; m->part < N_PARTS && r == 0; m->part++)
        r = sql_run(serve_sql_of(q), parts[m->part].text, NULL, 0, keep_part, m, err);
    tell_left_out(q, m);
    return r;
}

static int read_sides(const json_t *dirs, size_t *ret, size_t *ret_n, struct kymo_err *err)
{
    size_t all = 0;
    *ret_n = json_array_size(dirs);
    for (size_t i = 0; i < *ret_n && i < FIGURES_CAPTURES_MAX; i++) {
        ret[i] = json_array_size(json_array_get(dirs, i));
        all += ret[i] ? ret[i] : FIGURES_CAPTURES_MAX + 1;
    }
    if (*ret_n < 2 || *ret_n > FIGURES_CAPTURES_MAX || all > FIGURES_CAPTURES_MAX)
        return kymo_err_set(err, -EINVAL, "a base is compared with others, at most %d profiles in all",
                            FIGURES_CAPTURES_MAX);
    return 0;
}

static int read_all(struct serve_request *q, struct compare *m, const json_t *dirs, const json_t *names,
                    struct kymo_err *err)
{
    int r = 0;
    for (size_t i = 0; i < json_array_size(dirs) && r == 0; i++) {
        const json_t *side = json_array_get(dirs, i);
        for (size_t k = 0; k < json_array_size(side) && r == 0; k++, m->capture++) {
            const char *dir = json_string_value(json_array_get(side, k));
            m->name = json_array_get(json_array_get(names, i), k);
            r = dir && *dir == '/' ? serve_visit(q, dir, visit, m, err)
                                   : kymo_err_set(err, -EINVAL, "dirs has something that is no path");
        }
    }
    return r;
}

static json_t *told_sides(const json_t *names)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(names); i++)
        (void)json_array_append_new(list,
                                    json_pack("{s:b, s:O}", "base", i == 0, "profiles", json_array_get(names, i)));
    return list;
}

static json_t *answer_of(const struct compare *m, const json_t *names)
{
    bool more;
    json_t *o = json_pack("{s:o}", "sides", told_sides(names)), *truncated = json_array();
    (void)json_object_set_new(o, "summary", figures_rows(m->summary, NULL, false, ROWS_MAX, &more));
    for (size_t i = 0; i < N_PARTS; i++) {
        (void)json_object_set_new(o, parts[i].name, figures_rows(m->parts[i], parts[i].time, true, ROWS_MAX, &more));
        if (more)
            (void)json_array_append_new(truncated, json_string(parts[i].name));
    }
    (void)json_object_set_new(o, "truncated", truncated);
    (void)json_object_set(o, "left_out", m->left_out);
    return o;
}

static int run(struct serve_request *q, const json_t *dirs, const json_t *names, struct kymo_err *err)
{
    size_t sides[FIGURES_CAPTURES_MAX], n;
    struct compare m = {.left_out = NULL};
    int r = read_sides(dirs, sides, &n, err);
    if (r < 0)
        return r;
    bool whole = (m.summary = figures_new(sides, n)) != NULL && (m.left_out = json_array());
    for (size_t i = 0; i < N_PARTS; i++)
        whole = (m.parts[i] = figures_new(sides, n)) && whole;
    r = whole ? read_all(q, &m, dirs, names, err) : kymo_err_set(err, -ENOMEM, "no memory for a comparison");
    if (r == 0)
        r = serve_answer_json(q, answer_of(&m, names), err);
    figures_free(m.summary);
    for (size_t i = 0; i < N_PARTS; i++)
        figures_free(m.parts[i]);
    json_decref(m.left_out);
    return r;
}

int op_compare(struct serve_request *q, struct kymo_err *err)
{
    json_t *dirs = NULL, *names = NULL;
    int r = serve_question_json(serve_question_of(q), "dirs", &dirs, err);
    if (r == 0)
        r = serve_question_json(serve_question_of(q), "names", &names, err);
    if (r == 0)
        r = run(q, dirs, names, err);
    json_decref(dirs);
    json_decref(names);
    return r;
}
