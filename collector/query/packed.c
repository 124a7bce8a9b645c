#include "collector/query/packed.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/le.h"
#include "base/utf8.h"
#include "collector/json_text.h"

struct column {
    const char *name; /* the track's copy */
    enum packed_type type;
    struct kymo_buf data;
};

struct track {
    char *id;
    const char *mode;
    int64_t bucket_ns;
    size_t n;
    struct column *columns;
};

struct packed {
    int64_t from, to, width;
    struct track *tracks;
    size_t n_tracks, cap_tracks;
    /* Texts one after another; ends[i] is where text i ends. slots: an open hash of numbers, 0 for none. */
    struct kymo_buf texts;
    size_t *ends;
    size_t n_texts, cap_texts;
    uint32_t *slots;
    size_t n_slots;
    size_t bytes;
    int error;
};

static const struct type {
    const char *name;
    size_t size;
} types[] = {[PACKED_I64] = {"i64", 8}, [PACKED_F64] = {"f64", 8}, [PACKED_U32] = {"u32", 4}, [PACKED_U8] = {"u8", 1}};

struct packed *packed_new(int64_t from, int64_t to, int64_t width)
{
    struct packed *p = KYMO_NEW(struct packed);
    if (!p)
        return NULL;
    p->from = from;
    p->to = to;
    p->width = width;
    kymo_buf_init(&p->texts, PACKED_BYTES_MAX);
    (void)packed_text(p, "", 0);
    return p;
}

static void free_track(struct track *t)
{
    for (size_t i = 0; t->columns && i < t->n; i++)
        kymo_buf_done(&t->columns[i].data);
    kymo_free(t->columns);
    kymo_free(t->id);
}

struct packed *packed_free(struct packed *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; i < p->n_tracks; i++)
        free_track(&p->tracks[i]);
    kymo_free(p->tracks);
    kymo_buf_done(&p->texts);
    kymo_free(p->ends);
    kymo_free(p->slots);
    kymo_free(p);
    return NULL;
}

void packed_freep(struct packed **p)
{
    *p = packed_free(*p);
}

static void fail(struct packed *p, int code)
{
    if (!p->error)
        p->error = code;
}

size_t packed_track(struct packed *p, const char *id, const char *mode, int64_t bucket_ns,
                    const struct packed_column *columns, size_t n)
{
    void *list = p->tracks;
    struct track t = {.id = kymo_strdup(id), .mode = mode, .bucket_ns = bucket_ns, .n = n};
    t.columns = KYMO_NEW_ARRAY(struct column, n);
    for (size_t i = 0; t.columns && i < n; i++) {
        t.columns[i].name = columns[i].name;
        t.columns[i].type = columns[i].type;
        kymo_buf_init(&t.columns[i].data, PACKED_BYTES_MAX);
    }
    int r = t.id && t.columns && n <= PACKED_COLUMNS_MAX
                ? kymo_grow(&list, &p->cap_tracks, p->n_tracks + 1, PACKED_TRACKS_MAX, sizeof t)
                : -ENOMEM;
    if (r < 0) {
        free_track(&t);
        fail(p, r);
        return 0;
    }
    p->tracks = list;
    p->tracks[p->n_tracks] = t;
    return p->n_tracks++;
}

static uint64_t hash(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static const char *text_at(const struct packed *p, uint32_t number, size_t *ret_n)
{
    size_t begin = number ? p->ends[number - 1] : 0;
    *ret_n = p->ends[number] - begin;
    return p->texts.data ? (const char *)p->texts.data + begin : "";
}

/* Numbers are kept plus one, so that 0 is an empty slot. */
static uint32_t *find_slot(const struct packed *p, const char *text, size_t n)
{
    size_t at = hash(text, n) & (p->n_slots - 1), len;
    for (;; at = (at + 1) & (p->n_slots - 1)) {
        if (p->slots[at] == 0)
            return &p->slots[at];
        const char *there = text_at(p, p->slots[at] - 1, &len);
        if (len == n && !memcmp(there, text, n))
            return &p->slots[at];
    }
}

static int grow_slots(struct packed *p)
{
    if (2 * (p->n_texts + 1) <= p->n_slots)
        return 0;
    size_t n = p->n_slots ? 2 * p->n_slots : 256, len;
    uint32_t *slots = KYMO_NEW_ARRAY(uint32_t, n);
    if (!slots)
        return -ENOMEM;
    kymo_free(p->slots);
    p->slots = slots;
    p->n_slots = n;
    for (uint32_t i = 0; i < p->n_texts; i++) {
        const char *text = text_at(p, i, &len);
        *find_slot(p, text, len) = i + 1;
    }
    return 0;
}

uint32_t packed_text(struct packed *p, const char *text, size_t n)
{
    void *ends = p->ends;
    int r = p->error ? p->error : grow_slots(p);
    if (r < 0) {
        fail(p, r);
        return 0;
    }
    uint32_t *slot = find_slot(p, text, n);
    if (*slot)
        return *slot - 1;
    r = kymo_grow(&ends, &p->cap_texts, p->n_texts + 1, UINT32_MAX - 1, sizeof *p->ends);
    if (r == 0) {
        p->ends = ends;
        r = n ? kymo_buf_append(&p->texts, text, n) : 0;
    }
    if (r < 0) {
        fail(p, r);
        return 0;
    }
    p->ends[p->n_texts] = p->texts.len;
    *slot = (uint32_t)++p->n_texts;
    return *slot - 1;
}

static void append(struct packed *p, struct column *c, const void *data)
{
    size_t n = types[c->type].size;
    p->bytes += n;
    int r = p->bytes > PACKED_BYTES_MAX ? -ENOBUFS : kymo_buf_append(&c->data, data, n);
    if (r < 0)
        fail(p, r);
}

void packed_int(struct packed *p, size_t track, size_t column, int64_t v)
{
    if (p->error)
        return;
    struct column *c = &p->tracks[track].columns[column];
    uint8_t bytes[8];
    if (c->type == PACKED_U8)
        bytes[0] = (uint8_t)(v < 0 ? 0 : v > UINT8_MAX ? UINT8_MAX : v);
    else if (c->type == PACKED_U32)
        kymo_put_le32(bytes, (uint32_t)(v < 0 ? 0 : v > UINT32_MAX ? UINT32_MAX : v));
    else
        kymo_put_le64(bytes, (uint64_t)v);
    append(p, c, bytes);
}

void packed_real(struct packed *p, size_t track, size_t column, double v)
{
    uint8_t bytes[8];
    if (p->error)
        return;
    memcpy(bytes, &v, sizeof bytes);
    append(p, &p->tracks[track].columns[column], bytes);
}

/* Bytes that are no UTF-8 become '?': a dictionary is text whatever the tables hold. */
static json_t *text_json(const char *text, size_t n)
{
    json_t *sound = json_stringn(text, n);
    if (sound)
        return sound;
    char *clean KYMO_FREE = kymo_malloc(n);
    if (!clean)
        return NULL;
    memcpy(clean, text, n); /* with its NULs, if it has any */
    kymo_utf8_mend(clean, n);
    return json_stringn(clean, n);
}

static size_t padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

static json_t *track_json(const struct track *t, size_t *offset, int *error)
{
    json_t *columns = json_array();
    size_t rows = t->n ? t->columns[0].data.len / types[t->columns[0].type].size : 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct column *c = &t->columns[i];
        if (c->data.len != rows * types[c->type].size)
            *error = -EINVAL;
        (void)json_array_append_new(columns, json_pack("{s:s, s:s, s:I}", "name", c->name, "type", types[c->type].name,
                                                       "offset", (json_int_t)*offset));
        *offset += padded(c->data.len);
    }
    return json_pack("{s:o, s:s, s:I, s:I, s:o}", "id", text_json(t->id, strlen(t->id)), "mode", t->mode, "n",
                     (json_int_t)rows, "bucket_ns", (json_int_t)t->bucket_ns, "columns", columns);
}

static int header(const struct packed *p, struct kymo_buf *ret)
{
    json_t *dict = json_array(), *tracks = json_array();
    size_t offset = 0, len;
    int error = 0;
    for (uint32_t i = 0; i < p->n_texts; i++) {
        const char *text = text_at(p, i, &len);
        (void)json_array_append_new(dict, text_json(text, len));
    }
    for (size_t i = 0; i < p->n_tracks; i++)
        (void)json_array_append_new(tracks, track_json(&p->tracks[i], &offset, &error));
    bool whole = json_array_size(dict) == p->n_texts && json_array_size(tracks) == p->n_tracks;
    json_t *root = json_pack("{s:i, s:I, s:I, s:I, s:o, s:o}", "version", 1, "from", (json_int_t)p->from, "to",
                             (json_int_t)p->to, "width", (json_int_t)p->width, "dict", dict, "tracks", tracks);
    if (!error)
        error = whole ? json_print(root, ret) : -ENOMEM;
    json_decref(root);
    return error;
}

typedef int (*writer)(void *ctx, const void *data, size_t n, struct kymo_err *err);

static int write_padded(const void *data, size_t n, size_t before, writer write, void *ctx, struct kymo_err *err)
{
    static const uint8_t zeros[8];
    size_t pad = padded(before + n) - before - n;
    int r = n ? write(ctx, data, n, err) : 0;
    return r == 0 && pad ? write(ctx, zeros, pad, err) : r;
}

int packed_write(struct packed *p, writer write, void *ctx, struct kymo_err *err)
{
    uint8_t head[8] = {'K', 'Y', 'B', '1'};
    struct kymo_buf text;
    kymo_buf_init(&text, PACKED_BYTES_MAX);
    int r = p->error ? p->error : header(p, &text);
    if (r < 0)
        r = kymo_err_set(err, r, r == -ENOBUFS ? "the answer is longer than %u bytes" : "no packed answer of %u bytes",
                         PACKED_BYTES_MAX);
    kymo_put_le32(head + 4, (uint32_t)text.len);
    if (r == 0)
        r = write(ctx, head, sizeof head, err);
    if (r == 0)
        r = write_padded(text.data, text.len, sizeof head, write, ctx, err);
    for (size_t i = 0; i < p->n_tracks && r == 0; i++)
        for (size_t k = 0; k < p->tracks[i].n && r == 0; k++)
            r = write_padded(p->tracks[i].columns[k].data.data, p->tracks[i].columns[k].data.len, 0, write, ctx, err);
    kymo_buf_done(&text);
    return r;
}
