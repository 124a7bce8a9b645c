#include "tools/export/summary_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "formats/schema/schema.h"

#define VALUES_MAX (1u << 20)
#define CAUSES_MAX 4096 /* bytes; all inputs together take less */

struct part_facts {
    const char *key, *title, *table, *sql;
    bool single;
};

/* More than one row of Metadata or Summary would be another tool's; the first stands. */
static const struct part_facts facts[SUMMARY_PARTS] = {
    {"metadata", "Profile", "Metadata", "SELECT * FROM Metadata LIMIT 1", true},
    {"system_metadata", "System profile", "SystemProfileMetadata", "SELECT * FROM SystemProfileMetadata LIMIT 1", true},
    {"summary", "Summary", "Summary", "SELECT * FROM Summary LIMIT 1", true},
    {"system_events", "System events by time", "SystemProfileEvents",
     "SELECT trace_event_source, name, count(*)::BIGINT AS events, sum(duration_ns)::BIGINT AS duration_ns, "
     "max(duration_ns)::BIGINT AS longest_ns, sum(transfer_bytes)::BIGINT AS transfer_bytes FROM SystemProfileEvents "
     "GROUP BY trace_event_source, name ORDER BY sum(duration_ns) DESC, trace_event_source, name LIMIT 50",
     false},
    {"cpu", "Processors: all together, and the busiest", "CpuUsage",
     "SELECT cpu_id, count(*)::BIGINT AS samples, avg(util_percent) AS util_percent, max(util_percent) AS max_percent "
     "FROM CpuUsage GROUP BY cpu_id ORDER BY cpu_id <> 'average', avg(util_percent) DESC, cpu_id LIMIT 9",
     false},
    {"host_memory", "Host memory at its fullest", "HostMemUsage",
     "SELECT count(*)::BIGINT AS samples, max(used_bytes) AS used_bytes, max(used_percent) AS used_percent "
     "FROM HostMemUsage HAVING count(*) > 0",
     true},
    {"device_memory", "Device memory, each class at its fullest", "SystemProfileHbmUsage",
     "SELECT device_idx, hbm_idx, max(total_bytes) AS total_bytes, max(weights_bytes) AS weights_bytes, "
     "max(tensors_bytes) AS tensors_bytes, max(scratchpad_bytes) AS scratchpad_bytes, max(shared_scratchpad_bytes) AS "
     "shared_scratchpad_bytes, max(collectives_bytes) AS collectives_bytes, max(unknown_bytes) AS unknown_bytes "
     "FROM SystemProfileHbmUsage GROUP BY device_idx, hbm_idx ORDER BY device_idx, hbm_idx LIMIT 1000",
     false},
    {"device_profiles", "Device profiles of the session", "DeviceProfileList",
     "SELECT device_profile_name, nc_id, nc_idx, session_id, model_id FROM DeviceProfileList "
     "ORDER BY device_profile_name LIMIT 1000",
     false},
    {"executions", "Executions", "ExecutionInfo", "SELECT * FROM ExecutionInfo ORDER BY execution_index LIMIT 1000",
     false},
    {"opcodes", "Opcodes by active time", "OpcodeSummary",
     "SELECT * FROM OpcodeSummary ORDER BY active_time_ns DESC, engine, opcode LIMIT 20", false},
    {"throttling", "Throttling", "ThrottleSummary", "SELECT * FROM ThrottleSummary ORDER BY nc_idx, throttle_type",
     false},
    {"timeline_warnings", "Warnings on the timeline", "TimelineWarning",
     "SELECT kind, label, count(*)::BIGINT AS bands, sum(count)::BIGINT AS events, "
     "sum(end_ts - start_ts)::BIGINT AS duration_ns, any_value(details) AS details FROM TimelineWarning "
     "GROUP BY kind, label ORDER BY kind, label LIMIT 100",
     false},
    {"partial_events", "Events of which one side is known", "PartialEvent",
     "SELECT kind, engine, side, reason, count(*)::BIGINT AS events FROM PartialEvent GROUP BY kind, engine, side, "
     "reason "
     "ORDER BY count(*) DESC, kind, engine, side, reason LIMIT 100",
     false},
    {"warnings", "Warnings", "Warning", "SELECT category, message FROM Warning LIMIT 2000", false},
    {"losses", "Records lost", "LossLedger",
     "SELECT stage, ring, record_kind, cause, emitted_records, lost_records, lost_unknown FROM LossLedger "
     "WHERE lost_records > 0 OR lost_unknown ORDER BY stage, ring LIMIT 10000",
     false},
};

static int begin(void *ctx, size_t columns, const char *const *names, const enum query_type *types)
{
    struct summary_part *part = ctx;
    part->columns = KYMO_NEW_ARRAY(struct summary_column, columns);
    if (!part->columns)
        return -ENOMEM;
    part->column_count = columns;
    for (size_t i = 0; i < columns; i++) {
        part->columns[i].name = kymo_strdup(names[i]);
        part->columns[i].number = types[i] == QUERY_NUMBER;
        part->columns[i].unit = "";
        if (!part->columns[i].name)
            return -ENOMEM;
    }
    return 0;
}

static int keep(struct summary_value *to, const struct query_value *from)
{
    *to = (struct summary_value){.kind = from->kind, .integer = from->integer, .real = from->real};
    if (from->kind != QUERY_VALUE_TEXT && from->kind != QUERY_VALUE_LIST)
        return 0;
    to->text = kymo_strndup(from->text, from->len);
    return to->text ? 0 : -ENOMEM;
}

static int row(void *ctx, size_t columns, const struct query_value *values)
{
    struct summary_part *part = ctx;
    void *p = part->values;
    size_t used = part->row_count * columns;
    int r = kymo_grow(&p, &part->value_cap, used + columns, VALUES_MAX, sizeof *part->values);
    part->values = p;
    if (r < 0)
        return r;
    memset(part->values + used, 0, columns * sizeof *part->values);
    part->row_count++;
    for (size_t i = 0; i < columns && r == 0; i++)
        r = keep(&part->values[used + i], &values[i]);
    return r;
}

static void find_units(struct summary_part *part, const char *table_name)
{
    const struct kymo_table *table = kymo_schema_find(table_name);
    for (size_t i = 0; table && i < part->column_count; i++) {
        int column = kymo_schema_column(table, part->columns[i].name);
        if (column >= 0)
            part->columns[i].unit = table->columns[column].unit;
    }
}

static const char *text_at(const struct summary_part *part, size_t r, const char *column)
{
    for (size_t i = 0; i < part->column_count; i++)
        if (!strcmp(part->columns[i].name, column))
            return part->values[r * part->column_count + i].text;
    return NULL;
}

static struct summary_part *part_of(struct summary_parts *s, const char *key)
{
    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->parts[i].key, key))
            return &s->parts[i];
    return NULL;
}

const struct summary_part *summary_parts_find(const struct summary_parts *s, const char *key)
{
    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->parts[i].key, key))
            return &s->parts[i];
    return NULL;
}

/* What is incomplete by one column of a part's rows. */
static unsigned incomplete(const struct summary_part *part, const char *column, unsigned (*input_of)(const char *text))
{
    unsigned missing = 0;
    for (size_t r = 0; r < part->row_count; r++) {
        const char *text = text_at(part, r, column);
        missing |= text ? input_of(text) : 0;
    }
    return missing;
}

static unsigned find_missing(const struct summary_parts *s)
{
    unsigned missing = incomplete(summary_parts_find(s, "losses"), "ring", bounds_of_ring) |
                       incomplete(summary_parts_find(s, "partial_events"), "kind", bounds_of_partial) |
                       incomplete(summary_parts_find(s, "warnings"), "category", bounds_of_warning);
    /* Without notices of executions, total_time is the span of all records. */
    if (missing && !summary_parts_find(s, "executions")->row_count)
        missing |= BOUNDS_STATUS;
    return missing;
}

static int explain(struct summary_column *c, unsigned causes)
{
    struct kymo_buf why;
    int r = 0;
    kymo_buf_init(&why, CAUSES_MAX);
    for (unsigned i = 0; i < BOUNDS_INPUTS && r == 0; i++)
        if (causes >> i & 1)
            r = kymo_buf_printf(&why, "%s%s", why.len ? "; " : "", bounds_text((enum bounds_input)(1u << i)));
    if (r == 0) {
        c->doubt = kymo_strndup((const char *)why.data, why.len);
        r = c->doubt ? 0 : -ENOMEM;
    }
    kymo_buf_done(&why);
    return r;
}

static int mark(struct summary_parts *s)
{
    struct summary_part *summary = part_of(s, "summary");
    unsigned missing = find_missing(s);
    int r = 0;
    for (size_t i = 0; i < summary->column_count && r == 0; i++) {
        struct summary_column *c = &summary->columns[i];
        const struct bounds_column *b = bounds_find(c->name);
        c->mark = b ? bounds_mark(b, missing) : BOUNDS_EXACT;
        if (c->mark != BOUNDS_EXACT)
            r = explain(c, bounds_causes(b, missing));
    }
    return r;
}

int summary_parts_read(struct summary_parts *s, const struct export_profile *p, struct kymo_err *err)
{
    int r = 0;
    *s = (struct summary_parts){0};
    for (size_t i = 0; i < SUMMARY_PARTS && r == 0; i++) {
        struct summary_part *part = &s->parts[s->count++];
        const struct query_row_sink sink = {.begin = begin, .row = row, .ctx = part};
        *part = (struct summary_part){.key = facts[i].key, .title = facts[i].title, .single = facts[i].single};
        r = query_rows_run(p->db, facts[i].sql, &sink, err);
        find_units(part, facts[i].table);
    }
    if (r < 0)
        return r;
    if (!part_of(s, "summary")->row_count && !part_of(s, "system_metadata")->row_count)
        return kymo_err_set(err, -ENODATA, "%s: has neither Summary nor SystemProfileMetadata: no finished profile",
                            p->dir);
    r = mark(s);
    return r < 0 ? kymo_err_set(err, r, "no memory for the marks of a summary") : 0;
}

void summary_parts_done(struct summary_parts *s)
{
    for (size_t k = 0; k < s->count; k++) {
        struct summary_part *part = &s->parts[k];
        for (size_t i = 0; i < part->row_count * part->column_count; i++)
            kymo_free(part->values[i].text);
        for (size_t i = 0; i < part->column_count; i++) {
            kymo_free(part->columns[i].name);
            kymo_free(part->columns[i].doubt);
        }
        kymo_free(part->values);
        kymo_free(part->columns);
    }
    *s = (struct summary_parts){0};
}
