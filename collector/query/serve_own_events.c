#include "collector/query/serve_own_events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "collector/query/serve_own_rows.h"
#include "collector/query/serve_waits.h"

#define NAMES 64 /* tracks' names that are kept, by what they are made of */
#define NAME_MAX 512

/* Columns of all tables of events begin alike; the rest have places of their own in each. */
enum { C_ID, C_START = SERVE_OWN_C_START, C_END = SERVE_OWN_C_END, C_PCORE, C_FIRST };
enum { I_TRACK = C_FIRST, I_ENGINE, I_OPCODE, I_OPERATOR, I_LAYER, I_HLO, I_WAIT, I_BY, I_MAX };
enum { D_BYTES = C_FIRST, D_VARIABLE, D_QUEUE, D_ENGINE, D_NUMBER, D_MAX };
enum { H_BYTES = C_FIRST, H_TRAFFIC, H_ENGINE, H_MAX };

/* Those behind I_MAX are for statements (serve_own_scan.h). */
static const char *const instruction_columns[] = {
    "id",
    "start_ts",
    "end_ts",
    "pcore_idx",
    "timeline_track",
    "engine",
    "opcode",
    "operator",
    "layer",
    "hlo_name",
    "evt_wait_time_ns",
    "executed_by",
    [I_MAX] = "raw_flops",
    "flops_transpose",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "spill_save_bytes",
    "spill_reload_bytes",
};
static const char *const packet_columns[D_MAX] = {"id",       "start_ts",   "end_ts",     "pcore_idx", "transfer_bytes",
                                                  "variable", "queue_name", "engine_idx", "queue_idx"};
static const char *const host_columns[H_MAX] = {"id",      "start_ts",  "end_ts", "pcore_idx", "transfer_bytes",
                                                "traffic", "engine_idx"};
static const char *const wait_columns[] = {"instruction_id", "start_ts", "end_ts", "dependency_type", "cost_ns"};
static const char *const active_columns[] = {"pcore_idx", "start_ts", "end_ts", "engine"};

#define SOURCE(table, columns)                                                                                         \
    {                                                                                                                  \
        table, columns, sizeof(columns) / sizeof *(columns)                                                            \
    }

const struct serve_own_source *serve_own_source_of(enum serve_own_table table)
{
    static const struct serve_own_source sources[SERVE_OWN_MAX] = {
        [SERVE_OWN_INSTRUCTIONS] = SOURCE("Instruction", instruction_columns),
        [SERVE_OWN_PACKETS] = SOURCE("DmaPacket", packet_columns),
        [SERVE_OWN_TRANSFERS] = SOURCE("DmaPacketAggregated", packet_columns),
        [SERVE_OWN_HOST] = SOURCE("HostDmaTransfer", host_columns),
        [SERVE_OWN_WAITS] = SOURCE("WaitCause", wait_columns),
        [SERVE_OWN_ACTIVE] = SOURCE("ActiveTime", active_columns),
    };
    return &sources[table];
}

bool serve_own_is_text(const struct serve_own_source *s, size_t column)
{
    const struct kymo_table *t = s->table ? kymo_schema_find(s->table) : NULL;
    int i = t && column < s->n ? kymo_schema_column(t, s->columns[column]) : -1;
    return i >= 0 && t->columns[i].type == KYMO_TYPE_STRING;
}

int serve_own_table_of(enum serve_kind kind)
{
    switch (kind) {
    case SERVE_KIND_instruction:
    case SERVE_KIND_instruction_split:
        return SERVE_OWN_INSTRUCTIONS;
    case SERVE_KIND_dma_engine:
    case SERVE_KIND_dma_queue:
        return SERVE_OWN_PACKETS;
    case SERVE_KIND_dma_transfer:
        return SERVE_OWN_TRANSFERS;
    case SERVE_KIND_host_dma:
        return SERVE_OWN_HOST;
    default:
        return -1;
    }
}

/* A name is made again and again of the same few parts. */
struct name {
    bool known, wanted;
    uint32_t places[2]; /* of texts in the group's dictionaries */
    int64_t numbers[3];
    size_t len;
    char text[NAME_MAX];
};

struct events {
    const struct serve_own_window *w;
    struct serve_own_rows rows;
    struct name *names;
};

static void add(struct name *n, const char *text, size_t len)
{
    size_t room = sizeof n->text - n->len;
    len = len < room ? len : room;
    memcpy(n->text + n->len, text, len);
    n->len += len;
}

static void add_number(struct name *n, int64_t v)
{
    char text[32];
    int len = v == TABLE_NULL ? snprintf(text, sizeof text, "?") : snprintf(text, sizeof text, "%" PRId64, v);
    add(n, text, (size_t)len);
}

static void add_core(const struct events *e, struct name *n, int64_t core)
{
    if (e->w->dir->cores <= 1)
        return;
    add(n, "(nc", 3);
    add_number(n, core);
    add(n, ")", 1);
}

static bool is_text(const struct table_text *t, const char *text)
{
    return t->at && t->n == strlen(text) && !memcmp(t->at, text, t->n);
}

/* As SERVE_ENGINE has it. */
static void add_engine(struct name *n, const struct table_text *engine)
{
    static const char *const engines[] = {"Tensor", "Vector", "Scalar", "GpSimd", "Sync"};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (engine->at && engine->n == strlen(engines[i]) && !strncasecmp(engine->at, engines[i], engine->n)) {
            add(n, engines[i], engine->n);
            return;
        }
    if (engine->at)
        add(n, engine->at, engine->n);
}

static void name_split(const struct events *e, struct name *n, size_t row)
{
    const struct table_text *engine = &e->rows.texts[I_ENGINE][row], *opcode = &e->rows.texts[I_OPCODE][row];
    bool matmul = engine->at && engine->n == 6 && !strncasecmp(engine->at, "tensor", 6) && opcode->at &&
                  opcode->n >= 6 && !strncasecmp(opcode->at, "MATMUL", 6);
    const char *part = matmul ? "Matrix" : is_text(&e->rows.texts[I_BY][row], "sequencer") ? " Sequencer" : " Compute";
    add_engine(n, engine);
    add(n, part, strlen(part));
    add_core(e, n, e->rows.numbers[C_PCORE][row]);
}

static void name_packet(const struct events *e, struct name *n, size_t row)
{
    const struct table_text *queue = &e->rows.texts[D_QUEUE][row];
    add(n, "DMA-E", 5);
    add_number(n, e->rows.numbers[D_ENGINE][row]);
    if (e->w->kind == SERVE_KIND_dma_queue) {
        bool named = queue->at && queue->n > 0;
        add(n, named ? " " : " queue ", named ? 1 : 7);
        if (named)
            add(n, queue->at, queue->n);
        else
            add_number(n, e->rows.numbers[D_NUMBER][row]);
    }
    add_core(e, n, e->rows.numbers[C_PCORE][row]);
}

static void name_transfer(const struct events *e, struct name *n, size_t row)
{
    const struct table_text *queue = &e->rows.texts[D_QUEUE][row];
    bool unknown = !queue->at || queue->n == 0 || is_text(queue, "unknown");
    add(n, unknown ? "unknown" : queue->at, unknown ? 7 : queue->n);
    if (!unknown)
        add_core(e, n, e->rows.numbers[C_PCORE][row]);
}

static void name_host(const struct events *e, struct name *n, size_t row)
{
    static const char begin[] = "Host-device DMA-E";
    add(n, begin, sizeof begin - 1);
    add_number(n, e->rows.numbers[H_ENGINE][row]);
}

static void make_name(const struct events *e, struct name *n, size_t row)
{
    n->len = 0;
    switch (e->w->kind) {
    case SERVE_KIND_instruction_split:
        name_split(e, n, row);
        break;
    case SERVE_KIND_dma_transfer:
        name_transfer(e, n, row);
        break;
    case SERVE_KIND_host_dma:
        name_host(e, n, row);
        break;
    default:
        name_packet(e, n, row);
    }
}

/* What the name of a row's track is made of. Parts that its kind does not use are 0; false: a text has no place. */
static bool parts_of(const struct events *e, size_t row, uint32_t places[2], int64_t numbers[3])
{
    const struct serve_own_rows *r = &e->rows;
    places[0] = places[1] = 0;
    numbers[0] = r->numbers[C_PCORE][row];
    numbers[1] = numbers[2] = 0;
    if (e->w->kind == SERVE_KIND_instruction_split) {
        const struct table_text *by = &r->texts[I_BY][row];
        places[0] = r->texts[I_ENGINE][row].place;
        places[1] = r->texts[I_OPCODE][row].place;
        numbers[1] = by->place;
        return places[0] != UINT32_MAX && places[1] != UINT32_MAX && by->place != UINT32_MAX;
    }
    if (e->w->kind == SERVE_KIND_host_dma) {
        numbers[1] = r->numbers[H_ENGINE][row];
        return true;
    }
    if (e->w->kind != SERVE_KIND_dma_transfer)
        numbers[1] = r->numbers[D_ENGINE][row];
    if (e->w->kind == SERVE_KIND_dma_queue)
        numbers[2] = r->numbers[D_NUMBER][row];
    places[0] = e->w->kind == SERVE_KIND_dma_engine ? 0 : r->texts[D_QUEUE][row].place;
    return places[0] != UINT32_MAX;
}

static bool is_wanted(const struct events *e, const struct sql_cell *track)
{
    return !e->w->wanted || e->w->wanted(e->w->ctx, track);
}

static struct sql_cell track_of(struct events *e, size_t row, bool *ret_wanted)
{
    if (e->w->kind == SERVE_KIND_instruction) {
        struct sql_cell c = serve_own_text(&e->rows.texts[I_TRACK][row]);
        c.null = false; /* the empty text */
        *ret_wanted = is_wanted(e, &c);
        return c;
    }
    uint32_t places[2];
    int64_t numbers[3];
    bool placed = parts_of(e, row, places, numbers);
    uint64_t h = (uint64_t)places[0] * 31 + places[1];
    for (int i = 0; i < 3; i++)
        h = h * 31 + (uint64_t)numbers[i];
    struct name *n = &e->names[(h ^ h >> 16) % NAMES];
    if (!placed || !n->known || memcmp(n->places, places, sizeof n->places) != 0 ||
        memcmp(n->numbers, numbers, sizeof n->numbers) != 0) {
        make_name(e, n, row);
        n->known = placed;
        n->wanted = is_wanted(e, &(struct sql_cell){.text = n->text, .len = n->len});
        memcpy(n->places, places, sizeof n->places);
        memcpy(n->numbers, numbers, sizeof n->numbers);
    }
    *ret_wanted = n->wanted;
    return (struct sql_cell){.text = n->text, .len = n->len};
}

/* Of a group; texts have other places in the next one. */
static void forget_names(struct events *e)
{
    for (size_t i = 0; i < NAMES; i++)
        e->names[i].known = false;
}

/* What the tracks of a kind are named by, and what else is given of its events. */
static const struct columns {
    size_t named[4], given[4]; /* 0: no more */
} columns[SERVE_KIND_MAX] = {
    [SERVE_KIND_instruction] = {{I_WAIT, I_TRACK}, {I_OPCODE, I_OPERATOR}},
    [SERVE_KIND_instruction_split] = {{I_WAIT, I_ENGINE, I_OPCODE, I_BY}, {I_OPERATOR}},
    [SERVE_KIND_dma_engine] = {{D_ENGINE}, {D_VARIABLE, D_QUEUE, D_BYTES}},
    [SERVE_KIND_dma_queue] = {{D_QUEUE, D_ENGINE, D_NUMBER}, {D_VARIABLE, D_BYTES}},
    [SERVE_KIND_dma_transfer] = {{D_QUEUE}, {D_VARIABLE, D_BYTES}},
    [SERVE_KIND_host_dma] = {{H_ENGINE}, {H_TRAFFIC, H_BYTES}},
};

static int read_some(struct events *e, const size_t list[4], struct kymo_err *err)
{
    const struct serve_own_source *s = serve_own_source_of((enum serve_own_table)serve_own_table_of(e->w->kind));
    int rc = 0;
    for (size_t i = 0; i < 4 && list[i] && rc == 0; i++)
        rc = serve_own_is_text(s, list[i]) ? serve_own_rows_texts(&e->rows, list[i], err)
                                           : serve_own_rows_numbers(&e->rows, list[i], err);
    return rc;
}

/* What operator_of looks at where there is no operator. */
static int read_operators(struct serve_own_rows *r, struct kymo_err *err)
{
    bool all = true;
    for (size_t i = 0; i < r->n && all; i++)
        all = r->texts[I_OPERATOR][i].at != NULL;
    int rc = all ? 0 : serve_own_rows_texts(r, I_LAYER, err);
    return rc == 0 && !all ? serve_own_rows_texts(r, I_HLO, err) : rc;
}

static const struct serve_waits *known_waits(const struct events *e)
{
    return serve_own_table_of(e->w->kind) == SERVE_OWN_INSTRUCTIONS ? e->w->dir->waits : NULL;
}

static int64_t wait_of(const struct events *e, const struct serve_waits *known, size_t row)
{
    const struct serve_own_rows *r = &e->rows;
    if (serve_own_table_of(e->w->kind) != SERVE_OWN_INSTRUCTIONS)
        return 0;
    int64_t counted = r->numbers[I_WAIT][row] == TABLE_NULL ? 0 : r->numbers[I_WAIT][row];
    return known ? serve_waits_of(known, r->numbers[C_ID][row], counted) : counted; /* without, ids may not be read */
}

static int read_columns(struct events *e, struct kymo_err *err)
{
    const struct columns *c = &columns[e->w->kind];
    bool whole = e->w->given == SERVE_OWN_WHOLE;
    /* The ids of rows that are given without them tell of waits. */
    bool keyed = e->w->given != SERVE_OWN_BARE || known_waits(e);
    int rc = keyed ? serve_own_rows_numbers(&e->rows, C_ID, err) : 0;
    for (size_t i = C_START; i < C_FIRST && rc == 0; i++)
        rc = serve_own_rows_numbers(&e->rows, i, err);
    if (rc == 0)
        rc = read_some(e, c->named, err);
    if (rc == 0 && whole)
        rc = read_some(e, c->given, err);
    bool operators = whole && serve_own_table_of(e->w->kind) == SERVE_OWN_INSTRUCTIONS;
    return rc == 0 && operators ? read_operators(&e->rows, err) : rc;
}

static bool is_empty(const struct table_text *t)
{
    return !t->at || t->n == 0;
}

static struct sql_cell or_empty(const struct table_text *t)
{
    return t->at ? serve_own_text(t) : (struct sql_cell){.text = ""};
}

/* As SERVE_OPERATOR has it. */
static struct sql_cell operator_of(const struct serve_own_rows *r, size_t i)
{
    if (r->texts[I_OPERATOR][i].at)
        return serve_own_text(&r->texts[I_OPERATOR][i]);
    return or_empty(is_empty(&r->texts[I_LAYER][i]) ? &r->texts[I_HLO][i] : &r->texts[I_LAYER][i]);
}

static void put_rest(const struct events *e, size_t i, struct sql_cell *c)
{
    const struct serve_own_rows *r = &e->rows;
    int table = serve_own_table_of(e->w->kind);
    c[SERVE_OWN_BYTES] = serve_own_number(0);
    if (table == SERVE_OWN_INSTRUCTIONS) {
        c[SERVE_OWN_LABEL] = or_empty(&r->texts[I_OPCODE][i]);
        c[SERVE_OWN_COLOR] = operator_of(r, i);
    } else if (table == SERVE_OWN_HOST) {
        const struct table_text *t = &r->texts[H_TRAFFIC][i];
        c[SERVE_OWN_BYTES] = serve_own_number(r->numbers[H_BYTES][i]);
        c[SERVE_OWN_LABEL] = t->at ? serve_own_text(t) : (struct sql_cell){.text = "unknown", .len = 7};
        c[SERVE_OWN_COLOR] = c[SERVE_OWN_LABEL];
    } else {
        const struct table_text *variable = &r->texts[D_VARIABLE][i], *queue = &r->texts[D_QUEUE][i];
        c[SERVE_OWN_BYTES] = serve_own_number(r->numbers[D_BYTES][i]);
        c[SERVE_OWN_LABEL] = or_empty(is_empty(variable) ? queue : variable);
        c[SERVE_OWN_COLOR] = or_empty(queue);
    }
}

static int give_rows(struct events *e, struct kymo_err *err)
{
    const struct serve_own_rows *r = &e->rows;
    const struct serve_waits *known = known_waits(e);
    struct sql_cell cells[SERVE_OWN_EVENT_CELLS] = {{0}};
    int rc = 0;
    forget_names(e);
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        bool wanted;
        cells[SERVE_OWN_TRACK] = track_of(e, i, &wanted);
        if (!wanted)
            continue;
        cells[SERVE_OWN_START] = serve_own_number(r->numbers[C_START][i]);
        cells[SERVE_OWN_END] = serve_own_number(r->numbers[C_END][i]);
        cells[SERVE_OWN_WAIT] = serve_own_number(wait_of(e, known, i));
        if (e->w->given != SERVE_OWN_BARE)
            cells[SERVE_OWN_ID] = serve_own_number(r->numbers[C_ID][i]);
        if (e->w->given == SERVE_OWN_WHOLE)
            put_rest(e, i, cells);
        rc = e->w->row(e->w->ctx, cells, err);
    }
    return rc;
}

static int read_group(struct events *e, size_t g, struct kymo_err *err)
{
    const struct serve_own_window *w = e->w;
    if (w->stop && *w->stop)
        return kymo_err_set(err, -ECANCELED, "nobody wants the answer any more");
    int rc = serve_own_rows_begin(&e->rows, g, err);
    if (rc == 0)
        rc = serve_own_rows_keep(&e->rows, C_START, INT64_MIN + 1, w->to, err);
    if (rc == 0)
        rc = serve_own_rows_keep(&e->rows, C_END, w->from, INT64_MAX, err);
    if (rc == 0 && e->rows.n)
        rc = read_columns(e, err);
    return rc == 0 && e->rows.n ? give_rows(e, err) : rc;
}

int serve_own_events(const struct serve_own_window *w, struct kymo_err *err)
{
    const struct table_file *f = w->dir->own->files[serve_own_table_of(w->kind)];
    struct events e = {.w = w, .names = KYMO_NEW_ARRAY(struct name, NAMES)};
    int rc = e.names ? serve_own_rows_open(&e.rows, f, err) : kymo_err_set(err, -ENOMEM, "no memory for names");
    for (size_t g = 0; g < f->n_groups && rc == 0; g++)
        if (table_file_may_have(f, g, C_START, INT64_MIN + 1, w->to) &&
            table_file_may_have(f, g, C_END, w->from, INT64_MAX))
            rc = read_group(&e, g, err);
    serve_own_rows_done(&e.rows);
    kymo_free(e.names);
    return rc;
}
