/* NKI regions: each with its nested ones, as a whole or time after time, with the figures by which they are compared.
 */
#include <errno.h>

#include "base/alloc.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/serve_tracks.h"

#define ROWS_MAX 2000

/*
 * An instance begins where an engine comes back to the region's first instruction of its own; those of all engines with
 * the same number are one. So loops inside a region do not cut it, nor do instructions of others in between.
 */
#define INSTANCES                                                                                                      \
    ", n AS (SELECT *, sum((pc IS NOT DISTINCT FROM head)::INT) OVER (PARTITION BY path, pcore, engine ORDER BY"       \
    " start_ts, id ROWS UNBOUNDED PRECEDING)::BIGINT AS instance FROM (SELECT *, min(pc) OVER (PARTITION BY path,"     \
    " pcore, engine) AS head FROM a))"

#define SUM(name) "sum(" name ")::BIGINT AS " name
#define OF_ENGINE(name, column) "count(*) FILTER (engine = '" name "') AS " column
#define FIGURES                                                                                                                                                                                       \
    "count(*) AS instructions, sum(end_ts - begin_ts)::BIGINT AS time_ns, sum(begin_ts - start_ts)::BIGINT AS"                                                                                        \
    " wait_ns, TRY_CAST(round(sum(raw_flops)) AS BIGINT) AS hardware_flops, TRY_CAST(round(sum(flops_transpose)) AS"                                                                                  \
    " BIGINT) AS transpose_flops, " SUM("hbm_read_bytes") ", " SUM("hbm_write_bytes") ", " SUM(                                                                                                       \
        "sbuf_read_bytes") ", " SUM("sbuf_write_bytes") ", " SUM("psum_read_bytes") ", " SUM("psum_write_bytes") ","                                                                                  \
                                                                                                                 " " OF_ENGINE("Tensor", "tensor") ", " OF_ENGINE("Vector", "vector") ", " OF_ENGINE( \
                                                                                                                     "Scalar",                                                                        \
                                                                                                                     "scalar") ", " OF_ENGINE("GpSimd",                                               \
                                                                                                                                              "gpsimd") ", " OF_ENGINE("Sync",                        \
                                                                                                                                                                       "sync")

#define TOTALS                                                                                                                                                                     \
    SUM("instructions")                                                                                                                                                            \
    ", " SUM("time_ns") ", " SUM("wait_ns") ", " SUM("hardware_flops") ", " SUM("transpose_flops") ", " SUM(                                                                       \
        "hbm_"                                                                                                                                                                     \
        "read_"                                                                                                                                                                    \
        "bytes") ", " SUM("hbm_write_bytes") ", " SUM("sbuf_read_bytes") ", " SUM("sbuf_write_bytes") ", " SUM("psum_"                                                             \
                                                                                                               "read_"                                                             \
                                                                                                               "byte"                                                              \
                                                                                                               "s") ", " SUM("psum_write_bytes") ", " SUM("tensor") ", " SUM("vec" \
                                                                                                                                                                             "to"  \
                                                                                                                                                                             "r") ", " SUM("scalar") ", " SUM("gpsimd") ", " SUM("sync")

/* $1: a region's path, or null for all; $2: its core, or less than 0 for any. A region holds those nested in it. */
static const char of_regions[] =
    "WITH r AS (SELECT *, string_split(region, '/') AS parts FROM (SELECT id, pc, start_ts, end_ts, " OP_BEGIN
    " AS begin_ts, " SERVE_ENGINE " AS engine, pcore_idx AS pcore, nki_region_path AS region, raw_flops,"
    " flops_transpose, hbm_read_bytes, hbm_write_bytes, sbuf_read_bytes, sbuf_write_bytes, psum_read_bytes,"
    " psum_write_bytes FROM k.\"Instruction\" WHERE nki_region_path <> '' AND ($1::VARCHAR = '' OR nki_region_path = $1"
    " OR starts_with(nki_region_path, $1 || '/')) AND ($2::BIGINT < 0 OR pcore_idx = $2)))"
    ", a AS (SELECT *, array_to_string(parts[1:depth], '/') AS path FROM (SELECT *, unnest(range(1, len(parts) + 1))"
    " AS depth FROM r) WHERE $1 = '' OR array_to_string(parts[1:depth], '/') = $1)" INSTANCES
    ", i AS (SELECT path, pcore, instance, min(begin_ts) AS start_ts, max(end_ts) AS end_ts, max(end_ts) -"
    " min(begin_ts) AS duration_ns, " FIGURES " FROM n GROUP BY path, pcore, instance) ";

static const char regions_text[] =
    "SELECT path, pcore, NULL::BIGINT AS instance, count(*) AS instances, min(start_ts) AS start_ts, max(end_ts) AS"
    " end_ts, sum(duration_ns)::BIGINT AS duration_ns, " TOTALS " FROM i GROUP BY path, pcore ORDER BY path, pcore";
static const char instances_text[] = "SELECT path, pcore, row_number() OVER (ORDER BY start_ts) AS instance, 1 AS"
                                     " instances, * EXCLUDE (path, pcore, instance) FROM i ORDER BY start_ts";

static json_t *percent(double part, double whole)
{
    return whole > 0 ? json_real(100 * part / whole) : json_null();
}

static void put_use(json_t *row, double peak)
{
    double room = peak * (double)json_integer_value(json_object_get(row, "duration_ns")),
           hardware = (double)json_integer_value(json_object_get(row, "hardware_flops")),
           transpose = (double)json_integer_value(json_object_get(row, "transpose_flops"));
    bool known = json_is_integer(json_object_get(row, "hardware_flops"));
    (void)json_object_set_new(row, "mfu_percent", known ? percent(hardware - transpose, room) : json_null());
    (void)json_object_set_new(row, "hfu_percent", known ? percent(hardware, room) : json_null());
}

int op_regions(struct serve_request *q, struct kymo_err *err)
{
    const char *path = serve_question_text(serve_question_of(q), "path");
    int64_t core = -1;
    bool more = false;
    json_t *rows = NULL;
    int r = serve_question_int(serve_question_of(q), "pcore", 0, INT32_MAX, false, &core, err);
    char *text KYMO_FREE = kymo_asprintf("%s%s", of_regions, path ? instances_text : regions_text);
    const struct sql_bind binds[] = {SQL_TEXT(path ? path : ""), SQL_INT(core)};
    if (r == 0)
        r = text ? sql_objects(serve_sql_of(q), text, binds, 2, ROWS_MAX, &rows, &more, err)
                 : kymo_err_set(err, -ENOMEM, "no memory for a statement");
    if (r < 0)
        return r;
    for (size_t i = 0; i < json_array_size(rows); i++)
        put_use(json_array_get(rows, i), serve_dir_of(q)->peak);
    return serve_answer_json(q, json_pack("{s:o, s:b}", path ? "instances" : "regions", rows, "truncated", more), err);
}
