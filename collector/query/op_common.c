#include "collector/query/op_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
        *ret_table = table;
    return r;
}

struct found {
    const struct serve_dir *dir;
    enum serve_kind kind;
    const struct serve_track *track;
};

static int keep_track(void *ctx, const struct sql_cell *c, struct kymo_err *err)
{
    struct found *f = ctx;
    (void)err;
    for (size_t i = 0; !f->track && i < f->dir->n_tracks; i++) {
        const struct serve_track *t = &f->dir->tracks[i];
        if (t->kind == f->kind && strlen(t->label) == c[0].len && !memcmp(t->label, c[0].text, c[0].len))
            f->track = t;
    }
    return 0;
}

int op_track_find(const struct serve_request *q, enum serve_kind kind, int64_t id, const struct serve_track **ret,
                  struct kymo_err *err)
{
    struct found f = {.dir = serve_dir_of(q), .kind = kind};
    char text[128];
    (void)snprintf(text, sizeof text, "SELECT track FROM k.src_%s WHERE id = $1 LIMIT 1", serve_kinds[kind].name);
    int r = sql_run(serve_sql_of(q), text, (struct sql_bind[]){SQL_INT(id)}, 1, keep_track, &f, err);
    if (r == 0)
        *ret = f.track;
    return r;
}

json_t *op_first(json_t *rows)
{
    json_t *row = json_array_get(rows, 0);
    json_t *ret = row ? json_incref(row) : json_null();
    json_decref(rows);
    return ret;
}
