#include "collector/query/op_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/schema/schema.h"

int op_window_read(const struct serve_request *q, bool width, struct op_window *ret, struct kymo_err *err)
{
    struct op_window w = {.width = 1};
    int r = serve_question_int(serve_question_of(q), "from", -OP_TIME_MAX, OP_TIME_MAX, true, &w.from, err);
    if (r == 0)
        r = serve_question_int(serve_question_of(q), "to", -OP_TIME_MAX, OP_TIME_MAX, true, &w.to, err);
    if (r == 0 && width)
        r = serve_question_int(serve_question_of(q), "width", 1, OP_WIDTH_MAX, true, &w.width, err);
    if (r == 0 && w.from >= w.to)
        r = kymo_err_set(err, -EINVAL, "from is not before to");
    if (r == 0)
        *ret = w;
    return r;
}

static int keep_busy(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    return c[1].null || c[2].null || c[3].null ? 0 : busy_add(ctx, c[0].text, c[0].len, c[1].i, c[2].i, c[3].i, err);
}

int op_busy_read(const struct serve_request *q, const char *text, const struct sql_bind *binds, size_t n, bool ordered,
                 struct busy *ret, struct kymo_err *err)
{
    /* kymo's tables ascend by start; whoever else wrote some may have another order. */
    char *whole KYMO_FREE = kymo_asprintf("%s%s", text, ordered && serve_dir_of(q)->own_levels ? "" : " ORDER BY 2");
    if (!whole)
        return kymo_err_set(err, -ENOMEM, "no memory for a statement");
    return sql_run(serve_sql_of(q), whole, binds, n, keep_busy, ret, err);
}

bool op_has_table(const struct serve_request *q, const char *table)
{
    for (int t = 0; t < KYMO_T_MAX; t++)
        if (!strcmp(kymo_schema_table((enum kymo_table_id)t)->name, table))
            return serve_dir_of(q)->has_table[t];
    return false;
}

int op_check_table(const struct serve_request *q, const char *table, struct kymo_err *err)
{
    const char *why = query_bad_why(query_db_bad(serve_dir_of(q)->db), table, strlen(table));
    return why ? kymo_err_set(err, -ENOMSG, "%s", why) : 0;
}

int op_page_read(const struct serve_request *q, int64_t size, struct op_page *ret, struct kymo_err *err)
{
    struct op_page p = {.size = size};
    int r = serve_question_int(serve_question_of(q), "page", 0, OP_PAGE_MAX, false, &p.page, err);
    if (r == 0)
        r = serve_question_int(serve_question_of(q), "size", 1, OP_PAGE_SIZE_MAX, false, &p.size, err);
    if (r == 0)
        *ret = p;
    return r;
}

static const struct op_table tables[] = {
    {"Instruction", "instruction", SERVE_KIND_instruction},
    {"DmaPacket", NULL, SERVE_KIND_dma_engine},
    {"DmaPacketAggregated", "dma_block", SERVE_KIND_dma_transfer},
    {"HostDmaTransfer", NULL, SERVE_KIND_host_dma},
    {"CcOp", "cc_op", SERVE_KIND_collective},
    {"CcInstruction", NULL, SERVE_KIND_cc_instruction},
    {"CoreBarriers", NULL, SERVE_KIND_barrier},
};

int op_event_read(const struct serve_request *q, const struct op_table **ret_table, int64_t *ret_id,
                  struct kymo_err *err)
{
    const char *name = serve_question_text(serve_question_of(q), "table");
    const struct op_table *table = NULL;
    for (size_t i = 0; name && i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i].name, name))
            table = &tables[i];
    if (!table)
        return kymo_err_set(err, -ENOENT, "there is no table of events %.64s", name ? name : "");
    int r = serve_question_int(serve_question_of(q), "id", INT64_MIN, INT64_MAX, true, ret_id, err);
    if (r == 0)
        r = op_check_table(q, name, err);
    if (r == 0)
        *ret_table = table;
    return r;
}

const struct serve_track *op_track_labelled(const struct serve_dir *d, enum serve_kind kind, const char *label,
                                            size_t n)
{
    for (size_t i = 0; i < d->n_tracks; i++) {
        const struct serve_track *t = &d->tracks[i];
        if (t->kind == kind && strlen(t->label) == n && !memcmp(t->label, label, n))
            return t;
    }
    return NULL;
}

json_t *op_first(json_t *rows)
{
    json_t *row = json_array_get(rows, 0);
    json_t *ret = row ? json_incref(row) : json_null();
    json_decref(rows);
    return ret;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

char *op_row_unescaped(const char *text, size_t n)
{
    char *out = KYMO_NEW_ARRAY(char, n + 1), *at = out;
    for (size_t i = 0; out && i < n; i++) {
        int high = text[i] == '%' && n - i > 2 ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
        bool escaped = low >= 0 && high + low > 0;
        *at++ = (char)(escaped ? high << 4 | low : text[i] == OP_ROW_SEPARATOR ? '\t' : text[i]);
        i += escaped ? 2 : 0;
    }
    return out;
}

int op_marks_keep(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    static const struct packed_column columns[] = {{"start", PACKED_I64}, {"end", PACKED_I64}, {"count", PACKED_U32}};
    struct op_marks *m = ctx;
    (void)err;
    if (!m->track || strlen(m->track->label) != c[0].len || memcmp(m->track->label, c[0].text, c[0].len) != 0) {
        m->track = op_track_labelled(m->dir, m->kind, c[0].text, c[0].len);
        if (m->track)
            m->number = packed_track(m->packed, m->track->id, "marks", 0, columns, 3);
    }
    if (m->track) {
        packed_int(m->packed, m->number, 0, c[1].i);
        packed_int(m->packed, m->number, 1, c[2].i);
        packed_int(m->packed, m->number, 2, c[3].i);
    }
    return 0;
}
