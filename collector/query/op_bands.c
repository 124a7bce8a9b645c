/* What is drawn over all tracks: warnings, losses, throttling, errors, NKI regions, collectives, executions. */
#include <errno.h>

#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"

#define BANDS_MAX 2000

static const struct {
    const char *name, *text; /* $1, $2: the window */
} lists[] = {
    {"warnings", "SELECT kind, label, start_ts, end_ts, count, details, pcore_idx FROM k.\"TimelineWarning\""
                 " WHERE end_ts >= $1 AND start_ts <= $2 ORDER BY end_ts - start_ts DESC, start_ts"},
    {"losses",
     "SELECT stage, ring, record_kind, cause, lost_records, lost_unknown, first_ts, last_ts FROM k.\"LossLedger\""
     " WHERE (lost_unknown OR lost_records > 0) AND coalesce(last_ts, $2) >= $1 AND coalesce(first_ts, $1) <= $2"
     " ORDER BY lost_records DESC NULLS FIRST, ring"},
    {"throttles",
     "SELECT type, timestamp AS start_ts, timestamp + duration AS end_ts, k, n, pcore_idx FROM k.\"Throttle\""
     " WHERE timestamp + duration >= $1 AND timestamp <= $2 ORDER BY duration DESC, timestamp"},
    {"errors", "SELECT timestamp, type, description, metadata, pcore_idx FROM k.\"Error\""
               " WHERE timestamp >= $1 AND timestamp <= $2 ORDER BY timestamp"},
    {"regions",
     "SELECT any_value(nki_region) AS name, nki_region_path AS path, min(start_ts) AS start_ts, max(end_ts) AS end_ts,"
     " pcore_idx, count(*) AS instructions FROM k.\"Instruction\" WHERE nki_region_path IS NOT NULL"
     " AND end_ts >= $1 AND start_ts <= $2 GROUP BY nki_region_path, pcore_idx ORDER BY max(end_ts) - min(start_ts)"
     " DESC, path"},
    {"collectives", "SELECT id, operation, start_ts, end_ts, stream_id, op_id, invocation FROM k.\"CcOp\""
                    " WHERE end_ts >= $1 AND start_ts <= $2 ORDER BY end_ts - start_ts DESC, start_ts"},
    {"executions",
     "SELECT execution_index AS index, neff_name AS name, execution_start_ts AS start_ts, execution_end_ts AS"
     " end_ts FROM k.\"ExecutionInfo\" WHERE coalesce(execution_end_ts, $2) >= $1"
     " AND coalesce(execution_start_ts, $1) <= $2 ORDER BY execution_index"},
};

int op_bands(struct serve_request *q, struct kymo_err *err)
{
    struct op_window w;
    json_t *o = json_object(), *truncated = json_array();
    int r = op_window_read(q, false, &w, err);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && r == 0; i++) {
        json_t *rows;
        bool more;
        r = sql_objects(serve_sql_of(q), lists[i].text, (struct sql_bind[]){SQL_INT(w.from), SQL_INT(w.to)}, 2,
                        BANDS_MAX, &rows, &more, err);
        if (r == 0 && json_object_set_new(o, lists[i].name, rows) < 0)
            r = kymo_err_set(err, -ENOMEM, "no memory for bands");
        if (r == 0 && more)
            (void)json_array_append_new(truncated, json_string(lists[i].name));
    }
    if (r < 0) {
        json_decref(truncated);
        json_decref(o);
        return r;
    }
    (void)json_object_set_new(o, "truncated", truncated);
    return serve_answer_json(q, o, err);
}
