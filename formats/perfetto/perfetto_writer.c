#include "formats/perfetto/perfetto_writer.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "formats/perfetto/perfetto_intern.h"
#include "proto/perfetto.pb-c.h"

#define SEQUENCE 1
#define PACKET_MAX (16u << 20)
#define NEW_MAX (2 * PERFETTO_ARGS_MAX + 1)

/* Texts that the packet under construction uses for the first time. */
struct news {
    Perfetto__InternedText texts[NEW_MAX];
    Perfetto__InternedText *lists[3][NEW_MAX];
    size_t used, counts[3];
};

enum { EVENT_NAME, ARG_NAME, ARG_TEXT };

struct perfetto_writer {
    perfetto_out out;
    void *ctx;
    struct perfetto_intern interns[3];
    struct kymo_buf packed;
    struct kymo_buf
        texts; /* of the packet under construction, each terminated; reserved before, so that they stay put */
    uint64_t tracks;
    bool begun;
};

int perfetto_writer_new(perfetto_out out, void *ctx, struct perfetto_writer **ret)
{
    struct perfetto_writer *w = KYMO_NEW(struct perfetto_writer);
    int r = w ? 0 : -ENOMEM;
    if (w)
        kymo_buf_init(&w->packed, PACKET_MAX);
    if (w)
        kymo_buf_init(&w->texts, (PERFETTO_ARGS_MAX * 2 + 2) * (PERFETTO_TEXT_MAX + 1));
    for (int i = 0; r == 0 && i < 3; i++)
        r = perfetto_intern_init(&w->interns[i]);
    if (r < 0) {
        (void)perfetto_writer_free(w);
        return r;
    }
    w->out = out;
    w->ctx = ctx;
    *ret = w;
    return 0;
}

struct perfetto_writer *perfetto_writer_free(struct perfetto_writer *w)
{
    for (int i = 0; w && i < 3; i++)
        perfetto_intern_done(&w->interns[i]);
    if (w) {
        kymo_buf_done(&w->packed);
        kymo_buf_done(&w->texts);
    }
    kymo_free(w);
    return NULL;
}

/* Field 1 of Trace: each packet with its length in front, so that a file of packets is one message. */
static int put_packet(struct perfetto_writer *w, Perfetto__TracePacket *p)
{
    p->has_trusted_packet_sequence_id = 1;
    p->trusted_packet_sequence_id = SEQUENCE;
    p->has_sequence_flags = 1;
    p->sequence_flags = w->begun ? PERFETTO__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE
                                 : PERFETTO__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
    p->has_first_packet_on_sequence = p->first_packet_on_sequence = !w->begun;
    size_t n = perfetto__trace_packet__get_packed_size(p);
    uint8_t head[8];
    size_t head_len = 0;
    head[head_len++] = 1 << 3 | 2;
    size_t rest = n;
    for (; rest >= 0x80; rest >>= 7)
        head[head_len++] = (uint8_t)(rest | 0x80);
    head[head_len++] = (uint8_t)rest;
    kymo_buf_reset(&w->packed);
    int r = kymo_buf_append(&w->packed, head, head_len);
    if (r == 0)
        r = kymo_buf_reserve(&w->packed, n);
    if (r < 0)
        return r;
    w->packed.len += perfetto__trace_packet__pack(p, w->packed.data + w->packed.len);
    r = w->out(w->ctx, w->packed.data, w->packed.len);
    w->begun = w->begun || r == 0;
    return r;
}

/* A terminated copy of valid UTF-8; memory was reserved. */
static char *keep_text(struct perfetto_writer *w, const char *text, size_t n)
{
    char *copy = (char *)w->texts.data + w->texts.len;
    size_t kept = 0, len;
    n = n < PERFETTO_TEXT_MAX ? n : PERFETTO_TEXT_MAX;
    for (size_t i = 0; i < n; i += len) {
        len = kymo_utf8_sequence(text + i, n - i);
        if (len > 0 && text[i]) {
            memcpy(copy + kept, text + i, len);
            kept += len;
        } else {
            len = 1;
            copy[kept++] = '?';
        }
    }
    copy[kept] = 0;
    w->texts.len += kept + 1;
    return copy;
}

int perfetto_writer_track(struct perfetto_writer *w, const struct perfetto_track *t, uint64_t *ret_id)
{
    Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
    Perfetto__CounterDescriptor c = PERFETTO__COUNTER_DESCRIPTOR__INIT;
    kymo_buf_reset(&w->texts);
    int r = kymo_buf_reserve(&w->texts, 3 * (PERFETTO_TEXT_MAX + 1));
    if (r < 0)
        return r;
    d.has_uuid = d.has_sibling_order_rank = 1;
    d.uuid = w->tracks + 1;
    d.has_parent_uuid = t->parent != 0;
    d.parent_uuid = t->parent;
    d.name = keep_text(w, t->name, strlen(t->name));
    d.sibling_order_rank = t->rank;
    d.has_child_ordering = t->ordered;
    d.child_ordering = PERFETTO__TRACK_DESCRIPTOR__CHILD_TRACKS_ORDERING__EXPLICIT;
    if (t->description)
        d.description = keep_text(w, t->description, strlen(t->description));
    if (t->unit) {
        c.unit_name = keep_text(w, t->unit, strlen(t->unit));
        d.counter = &c;
    }
    p.track_descriptor = &d;
    r = put_packet(w, &p);
    if (r < 0)
        return r;
    *ret_id = ++w->tracks;
    return 0;
}

/* The number of a text, told to readers with the packet that uses it first; 0: it stands in the packet itself. */
static int intern(struct perfetto_writer *w, int kind, char *text, struct news *news, uint64_t *ret_id)
{
    bool is_new;
    int r = perfetto_intern_find(&w->interns[kind], text, strlen(text), ret_id, &is_new);
    if (r < 0 || !is_new)
        return r;
    Perfetto__InternedText *t = &news->texts[news->used++];
    *t = (Perfetto__InternedText)PERFETTO__INTERNED_TEXT__INIT;
    t->has_iid = 1;
    t->iid = *ret_id;
    t->text = text;
    news->lists[kind][news->counts[kind]++] = t;
    return 0;
}

static int put_arg(struct perfetto_writer *w, const struct perfetto_arg *arg, Perfetto__DebugAnnotation *a,
                   struct news *news)
{
    *a = (Perfetto__DebugAnnotation)PERFETTO__DEBUG_ANNOTATION__INIT;
    a->name = keep_text(w, arg->name, strlen(arg->name));
    int r = intern(w, ARG_NAME, a->name, news, &a->name_iid);
    a->has_name_iid = a->name_iid != 0;
    a->name = a->name_iid ? NULL : a->name;
    if (r < 0)
        return r;
    a->has_int_value = arg->kind == PERFETTO_INT;
    a->int_value = arg->integer;
    a->has_bool_value = arg->kind == PERFETTO_BOOL;
    a->bool_value = arg->integer != 0;
    a->has_double_value = arg->kind == PERFETTO_DOUBLE;
    a->double_value = arg->real;
    if (arg->kind != PERFETTO_TEXT)
        return 0;
    a->string_value = keep_text(w, arg->text, arg->len);
    r = intern(w, ARG_TEXT, a->string_value, news, &a->string_value_iid);
    a->has_string_value_iid = a->string_value_iid != 0;
    a->string_value = a->string_value_iid ? NULL : a->string_value;
    return r;
}

static size_t text_room(const struct perfetto_event *e)
{
    size_t n = e->name_len + 1;
    for (size_t i = 0; i < e->arg_count; i++)
        n += strlen(e->args[i].name) + 1 + (e->args[i].kind == PERFETTO_TEXT ? e->args[i].len + 1 : 0);
    return n;
}

static void put_news(Perfetto__TracePacket *p, Perfetto__InternedData *d, struct news *news)
{
    if (!news->used)
        return;
    *d = (Perfetto__InternedData)PERFETTO__INTERNED_DATA__INIT;
    d->n_event_names = news->counts[EVENT_NAME];
    d->event_names = news->lists[EVENT_NAME];
    d->n_debug_annotation_names = news->counts[ARG_NAME];
    d->debug_annotation_names = news->lists[ARG_NAME];
    d->n_debug_annotation_string_values = news->counts[ARG_TEXT];
    d->debug_annotation_string_values = news->lists[ARG_TEXT];
    p->interned_data = d;
}

static void set_place(Perfetto__TracePacket *p, Perfetto__TrackEvent *t, Perfetto__TrackEvent__Type type, int64_t ts,
                      uint64_t track)
{
    p->has_timestamp = t->has_type = t->has_track_uuid = 1;
    p->timestamp = (uint64_t)ts;
    p->track_event = t;
    t->type = type;
    t->track_uuid = track;
}

/* The packet that says what the event is. */
static int put_begin(struct perfetto_writer *w, const struct perfetto_event *e, Perfetto__TrackEvent__Type type)
{
    Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackEvent t = PERFETTO__TRACK_EVENT__INIT;
    Perfetto__InternedData data;
    Perfetto__DebugAnnotation args[PERFETTO_ARGS_MAX], *list[PERFETTO_ARGS_MAX];
    struct news news;
    news.used = news.counts[0] = news.counts[1] = news.counts[2] = 0;
    if (e->arg_count > PERFETTO_ARGS_MAX)
        return -E2BIG;
    kymo_buf_reset(&w->texts);
    int r = kymo_buf_reserve(&w->texts, text_room(e));
    if (r < 0)
        return r;
    set_place(&p, &t, type, e->start, e->track);
    t.name = keep_text(w, e->name, e->name_len);
    r = intern(w, EVENT_NAME, t.name, &news, &t.name_iid);
    t.has_name_iid = t.name_iid != 0;
    t.name = t.name_iid ? NULL : t.name;
    for (size_t i = 0; i < e->arg_count && r == 0; i++) {
        r = put_arg(w, &e->args[i], &args[i], &news);
        list[i] = &args[i];
    }
    if (r < 0)
        return r;
    char *category = (char *)(size_t)e->category;
    t.categories = &category;
    t.n_categories = category != NULL;
    t.debug_annotations = list;
    t.n_debug_annotations = e->arg_count;
    t.flow_ids = (uint64_t *)(size_t)e->begins;
    t.n_flow_ids = e->begin_count;
    if (type == PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT) {
        t.terminating_flow_ids = (uint64_t *)(size_t)e->ends;
        t.n_terminating_flow_ids = e->end_count;
    }
    put_news(&p, &data, &news);
    return put_packet(w, &p);
}

int perfetto_writer_slice(struct perfetto_writer *w, const struct perfetto_event *e)
{
    Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackEvent t = PERFETTO__TRACK_EVENT__INIT;
    int r = put_begin(w, e, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN);
    if (r < 0)
        return r;
    set_place(&p, &t, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END, e->end, e->track);
    t.terminating_flow_ids = (uint64_t *)(size_t)e->ends;
    t.n_terminating_flow_ids = e->end_count;
    return put_packet(w, &p);
}

int perfetto_writer_instant(struct perfetto_writer *w, const struct perfetto_event *e)
{
    return put_begin(w, e, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT);
}

int perfetto_writer_counter(struct perfetto_writer *w, uint64_t track, int64_t ts, double value)
{
    Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackEvent t = PERFETTO__TRACK_EVENT__INIT;
    set_place(&p, &t, PERFETTO__TRACK_EVENT__TYPE__TYPE_COUNTER, ts, track);
    t.has_double_counter_value = 1;
    t.double_counter_value = value;
    return put_packet(w, &p);
}
