/* Source files that instructions come from: which there are, their texts, what each line costs, where it runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "collector/json_text.h"
#include "collector/query/op_common.h"
#include "collector/query/serve_ops.h"
#include "collector/query/source_text.h"

#define FILES_MAX 10000
#define LINES_MAX 100000
#define CHOSEN_MAX 10000 /* lines whose events are asked for */

/*
 * k.source_groups: instructions of the same place, counted once; k.source_places: the lines of each group, its own and
 * those of its stack. A frame's line counts, too, since it was called from there.
 */
static const char *const made[] = {
    "CREATE TABLE k.source_groups AS SELECT row_number() OVER () AS g, * FROM (SELECT nki_source_location AS nki,"
    " bir_debug_info_source_location AS bir, kernel_instruction_name AS kin, pcore_idx AS core, stack_frame_ids AS "
    "frames,"
    " count(*) AS n, sum(end_ts - start_ts)::BIGINT AS t, coalesce(sum(tensor_elements), 0)::BIGINT AS e,"
    " arg_min(id, start_ts) AS id, min(start_ts) AS s, arg_min(end_ts, start_ts) AS f FROM k.\"Instruction\" WHERE"
    " coalesce(nki_source_location, bir_debug_info_source_location, kernel_instruction_name, stack_frame_ids, '') <> ''"
    " GROUP BY ALL)",
    "CREATE TABLE k.source_places AS WITH RECURSIVE kernel AS (SELECT g.g, s.stack_frame_id AS frame,"
    " s.parent_stack_frame_id AS parent, s.pcore_idx AS core, s.file_path AS file, s.line_number AS line, 0 AS depth "
    "FROM"
    " k.source_groups g JOIN k.\"KernelInstructions\" i ON i.kernel_instruction_name = g.kin AND (i.pcore_idx IS NULL "
    "OR"
    " g.core IS NULL OR i.pcore_idx = g.core) JOIN k.\"KernelStackFrames\" s ON s.stack_frame_id = i.stack_frame_id AND"
    " s.pcore_idx IS NOT DISTINCT FROM i.pcore_idx UNION ALL SELECT f.g, s.stack_frame_id, s.parent_stack_frame_id,"
    " s.pcore_idx, s.file_path, s.line_number, depth + 1 FROM kernel f JOIN k.\"KernelStackFrames\" s ON "
    "s.stack_frame_id ="
    " f.parent AND s.pcore_idx IS NOT DISTINCT FROM f.core WHERE depth < 64),"
    " own AS (SELECT g, nki AS place, 0 AS kind FROM k.source_groups UNION ALL SELECT g, bir, 2 FROM k.source_groups),"
    " ids AS (SELECT g, trim(unnest(string_split(trim(frames, '[] '), ',')), ' \"''') AS id FROM k.source_groups WHERE"
    " frames <> '')"
    " SELECT DISTINCT g, file, line::BIGINT AS line, kind::BIGINT AS kind FROM (SELECT g, file, line, 0 AS kind FROM "
    "kernel"
    " UNION ALL SELECT g, regexp_replace(place, ':[0-9]+$', ''), TRY_CAST(nullif(regexp_extract(place, ':([0-9]+)$', "
    "1), '')"
    " AS BIGINT), kind FROM own UNION ALL SELECT g, n.name, l.line_number, 1 FROM ids JOIN k.\"StackFrame\" s ON s.id ="
    " ids.id JOIN k.\"StackFrameFileLocation\" l ON l.id = s.file_location_id::VARCHAR JOIN k.\"StackFrameFileName\" n "
    "ON"
    " n.id = l.file_name_id::VARCHAR) WHERE file <> ''",
};

static const char *const kinds[] = {"nki", "framework", "compiler"};

static int make_places(const struct serve_request *q, struct kymo_err *err)
{
    struct serve_dir *d = serve_dir_of(q);
    int r = 0;
    (void)pthread_mutex_lock(&d->lock);
    for (; !d->has_places && d->n_places < sizeof made / sizeof *made && r == 0; d->n_places += r == 0)
        r = sql_run(serve_sql_of(q), made[d->n_places], NULL, 0, NULL, NULL, err);
    d->has_places |= r == 0;
    (void)pthread_mutex_unlock(&d->lock);
    return r;
}

/* A file's kind; -ENOENT: no table names it. */
static int find_kind(const struct serve_request *q, const char *file, int64_t *ret, struct kymo_err *err)
{
    static const char text[] =
        "SELECT min(kind) FROM (SELECT kind FROM k.source_places WHERE file = $1 UNION ALL SELECT 1 FROM"
        " k.\"StackFrameFileName\" WHERE name = $1 UNION ALL SELECT 0 FROM k.\"KernelStackFrames\" WHERE file_path = "
        "$1)";
    int r = sql_numbers(serve_sql_of(q), text, (struct sql_bind[]){SQL_TEXT(file)}, 1, ret, 1, err);
    return r == 0 && *ret == INT64_MIN ? kymo_err_set(err, -ENOENT, "no table of this profile names such a file") : r;
}

/* The descriptor of a file's text, of the profile or below the root of its kind. */
static int open_text(const struct serve_request *q, const char *file, int64_t kind, struct kymo_err *err)
{
    const struct serve_question *w = serve_question_of(q);
    const char *root = serve_question_text(w, kind == 1 ? "framework_root" : "nki_root");
    const char *capture = serve_question_text(w, "capture_root");
    char *own KYMO_FREE = kymo_asprintf("%s/sources", serve_dir_of(q)->path);
    if (!own)
        return kymo_err_set(err, -ENOMEM, "no memory for a path");
    int fd = source_text_open(own, file, err);
    if (fd < 0 && capture)
        fd = source_text_open(capture, file, err);
    if (fd < 0 && root)
        fd = source_text_open(root, file, err);
    return fd < 0 && !root
               ? kymo_err_set(err, -ENOENT, "the profile came without this text, and the server was given no %s",
                              kind == 1 ? "--framework-source-root" : "--nki-source-root")
               : fd;
}

static int answer_text(struct serve_request *q, const char *file, struct kymo_err *err)
{
    int64_t kind;
    char *text KYMO_FREE = NULL;
    int r = find_kind(q, file, &kind, err);
    int fd KYMO_CLOSE = r < 0 ? -1 : open_text(q, file, kind, err);
    if (r == 0)
        r = fd < 0 ? fd : source_text_read(fd, "a source text", &text, err);
    if (r == -EFBIG || r == -EINVAL)
        r = kymo_err_set(err, -ENOENT, r == -EFBIG ? "the text is too long to be shown" : "the file is no text");
    if (r < 0)
        return r;
    return serve_answer_json(q, json_pack("{s:o, s:o}", "file", json_text(file), "text", json_text(text)), err);
}

/* Rows have a kind by number; a text that is there can be opened. */
static void complete(const struct serve_request *q, json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        json_int_t kind = json_integer_value(json_object_get(row, "kind"));
        struct kymo_err ignored = {0};
        int fd KYMO_CLOSE = open_text(q, json_string_value(json_object_get(row, "file")), kind, &ignored);
        (void)json_object_set_new(row, "kind", json_string(kinds[kind >= 0 && kind < 3 ? kind : 2]));
        (void)json_object_set_new(row, "available", json_boolean(fd >= 0));
    }
}

static int answer_files(struct serve_request *q, struct kymo_err *err)
{
    static const char text[] = "SELECT file, min(kind) AS kind, coalesce(sum(n), 0)::BIGINT AS instructions FROM "
                               "(SELECT p.file, min(p.kind) AS"
                               " kind, any_value(g.n) AS n FROM k.source_places p JOIN k.source_groups g USING (g) "
                               "GROUP BY p.file, p.g UNION ALL"
                               " SELECT name, 1, 0 FROM k.\"StackFrameFileName\" UNION ALL SELECT file_path, 0, 0 FROM "
                               "k.\"KernelStackFrames\")"
                               " WHERE file <> '' GROUP BY file ORDER BY instructions DESC, file";
    json_t *rows = NULL;
    int r = sql_objects(serve_sql_of(q), text, NULL, 0, FILES_MAX, &rows, NULL, err);
    if (r < 0)
        return r;
    complete(q, rows);
    return serve_answer_json(q, json_pack("{s:o}", "files", rows), err);
}

int op_source(struct serve_request *q, struct kymo_err *err)
{
    const char *file = serve_question_text(serve_question_of(q), "file");
    int r = make_places(q, err);
    if (r < 0)
        return r;
    return file ? answer_text(q, file, err) : answer_files(q, err);
}

static int read_file_name(const struct serve_request *q, const char **ret, struct kymo_err *err)
{
    int64_t kind;
    *ret = serve_question_text(serve_question_of(q), "file");
    if (!*ret)
        return kymo_err_set(err, -EINVAL, "the parameter file is missing");
    int r = make_places(q, err);
    return r < 0 ? r : find_kind(q, *ret, &kind, err);
}

int op_source_lines(struct serve_request *q, struct kymo_err *err)
{
    static const char text[] =
        "SELECT line, sum(n)::BIGINT AS instructions, sum(t)::BIGINT AS time_ns, sum(e)::BIGINT AS tensor_elements,"
        " {'table': 'Instruction', 'id': arg_min(id, s), 'start_ts': min(s), 'end_ts': arg_min(f, s)} AS first FROM "
        "(SELECT"
        " DISTINCT g, line FROM k.source_places WHERE file = $1 AND line IS NOT NULL) JOIN k.source_groups USING (g) "
        "GROUP"
        " BY line ORDER BY line";
    const char *file = NULL;
    json_t *rows = NULL;
    int r = read_file_name(q, &file, err);
    if (r == 0)
        r = sql_objects(serve_sql_of(q), text, (struct sql_bind[]){SQL_TEXT(file)}, 1, LINES_MAX, &rows, NULL, err);
    return r < 0 ? r : serve_answer_json(q, json_pack("{s:o, s:o}", "file", json_text(file), "lines", rows), err);
}

/* "3,5-7" as "3,5,6,7". */
static int read_lines(const char *text, struct kymo_buf *b, struct kymo_err *err)
{
    size_t n = 0;
    int r = text && *text ? 0 : -EINVAL;
    for (const char *at = text; r == 0 && *at;) {
        char *end;
        unsigned long first = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : (r = -EINVAL, 0UL), last = first;
        if (r == 0 && *end == '-')
            last = end[1] >= '0' && end[1] <= '9' ? strtoul(end + 1, &end, 10) : (r = -EINVAL, 0UL);
        if (r < 0 || last < first || last - first >= CHOSEN_MAX || (n += last - first + 1) > CHOSEN_MAX ||
            last > INT32_MAX)
            r = -EINVAL;
        for (unsigned long i = first; r == 0 && i <= last; i++)
            r = kymo_buf_printf(b, "%s%lu", b->len ? "," : "", i);
        if (r == 0 && *end && *end != ',')
            r = -EINVAL;
        at = r == 0 ? end + (*end == ',') : at;
    }
    return r < 0 ? kymo_err_set(err, -EINVAL, "lines is a list of at most %d lines, such as 3,5-7", CHOSEN_MAX) : 0;
}

static int read_marks(struct serve_request *q, struct op_marks *m, const char *file, const char *lines,
                      const struct op_window *w, struct kymo_err *err)
{
    int64_t pixel = (w->to - w->from) / w->width;
    const struct sql_bind binds[] = {SQL_TEXT(file), SQL_TEXT(lines), SQL_INT(w->from), SQL_INT(w->to),
                                     SQL_INT(pixel > 0 ? pixel : 1)};
    char *text KYMO_FREE = kymo_asprintf(
        "SELECT track, min(start_ts) AS s, max(end_ts), count(*) FROM k.row_%s r SEMI JOIN (SELECT * FROM "
        "k.source_groups WHERE "
        "g IN"
        " (SELECT g FROM k.source_places WHERE file = $1 AND line IN (SELECT unnest(string_split($2, ','))::BIGINT))) "
        "p ON"
        " r.nki_source_location IS NOT DISTINCT FROM p.nki AND r.bir_debug_info_source_location IS NOT DISTINCT FROM "
        "p.bir"
        " AND r.kernel_instruction_name IS NOT DISTINCT FROM p.kin AND r.pcore_idx IS NOT DISTINCT FROM p.core AND"
        " r.stack_frame_ids IS NOT DISTINCT FROM p.frames WHERE end_ts >= $3 AND start_ts <= $4 GROUP BY track,"
        " (start_ts - $3) // $5, CASE WHEN end_ts - start_ts >= $5 THEN r.id END ORDER BY track, s",
        serve_kinds[m->kind].name);
    m->track = NULL;
    return text ? sql_run(serve_sql_of(q), text, binds, 5, op_marks_keep, m, err)
                : kymo_err_set(err, -ENOMEM, "no memory for a statement");
}

int op_source_events(struct serve_request *q, struct kymo_err *err)
{
    static const enum serve_kind shown[] = {SERVE_KIND_instruction, SERVE_KIND_instruction_split};
    const char *file = NULL;
    struct op_window w;
    struct kymo_buf lines;
    struct packed *packed KYMO_CLEANUP(packed_freep) = NULL;
    struct op_marks m = {.dir = serve_dir_of(q)};
    kymo_buf_init(&lines, 16u * CHOSEN_MAX);
    int r = op_window_read(q, true, &w, err);
    if (r == 0)
        r = read_lines(serve_question_text(serve_question_of(q), "lines"), &lines, err);
    if (r == 0)
        r = read_file_name(q, &file, err);
    if (r == 0 && !(m.packed = packed = packed_new(w.from, w.to, w.width)))
        r = kymo_err_set(err, -ENOMEM, "no memory for an answer");
    for (size_t i = 0; i < (serve_dir_of(q)->has_split ? 2u : 1u) && r == 0; i++) {
        m.kind = shown[i];
        r = read_marks(q, &m, file, (const char *)lines.data, &w, err);
    }
    kymo_buf_done(&lines);
    return r < 0 ? r : serve_answer_packed(q, packed, err);
}
