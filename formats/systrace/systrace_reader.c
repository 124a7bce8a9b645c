#include "formats/systrace/systrace_reader.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "formats/systrace/pb_stream.h"
#include "formats/systrace/trace_json.h"
#include "proto/pb_alloc.h"

/* Numbers of the repeated fields that are read one by one; the rest of a root message is its head. */
#define EVENTS 1000u
#define CPU 1000u
#define MEMORY 1001u

struct systrace_reader {
    enum systrace_kind kind;
    char *path;
    struct pb_stream *stream;
    struct pb_alloc alloc, head_alloc;
    ProtobufCMessage *item, *head;
    struct kymo_buf bytes; /* of the head */
    uint64_t items, unknown;
    bool skimmed; /* bytes are complete: a second walk adds none */
    bool ended;
};

const char *systrace_file_name(enum systrace_kind kind)
{
    static const char *const names[] = {"ntrace.pb", "trace_info.pb", "cpu_util.pb", "host_mem.pb"};
    return names[kind];
}

static bool ends_in(const char *path, const char *name, size_t *ret_len)
{
    size_t n = strlen(path), k = strlen(name);
    if (n < k || strcmp(path + n - k, name) != 0)
        return false;
    *ret_len = n - k;
    return n == k || path[n - k - 1] == '/' || path[n - k - 1] == '-';
}

int systrace_prefix(const char *path, size_t *ret_len, bool *ret_directory)
{
    struct stat st;
    *ret_len = strlen(path);
    *ret_directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    for (int k = 0; !*ret_directory && k <= SYSTRACE_KIND_MAX; k++)
        if (ends_in(path, k < SYSTRACE_KIND_MAX ? systrace_file_name((enum systrace_kind)k) : TRACE_JSON_FILE, ret_len))
            return 0;
    return *ret_directory ? 0 : -EINVAL;
}

static bool is_stats(const struct systrace_reader *r)
{
    return r->kind == SYSTRACE_KIND_CPU_UTIL || r->kind == SYSTRACE_KIND_HOST_MEM;
}

int systrace_open(const char *path, enum systrace_kind kind, struct systrace_reader **ret, struct kymo_err *err)
{
    struct systrace_reader *r KYMO_CLEANUP(systrace_freep) = KYMO_NEW(struct systrace_reader);
    if (!r)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to read it", path);
    r->kind = kind;
    pb_alloc_init(&r->alloc, SYSTRACE_UNPACKED_MAX);
    pb_alloc_init(&r->head_alloc, SYSTRACE_UNPACKED_MAX);
    kymo_buf_init(&r->bytes, SYSTRACE_HEAD_MAX);
    r->path = kymo_strdup(path);
    if (!r->path)
        return kymo_err_set(err, -ENOMEM, "%s: no memory to read it", path);
    int code = pb_stream_open(path, &r->stream, err);
    if (code == 0)
        *ret = KYMO_TAKE(r);
    return code;
}

static void drop(ProtobufCMessage **m, struct pb_alloc *a)
{
    if (*m)
        protobuf_c_message_free_unpacked(*m, &a->pb);
    *m = NULL;
}

struct systrace_reader *systrace_free(struct systrace_reader *r)
{
    if (!r)
        return NULL;
    drop(&r->item, &r->alloc);
    drop(&r->head, &r->head_alloc);
    kymo_buf_done(&r->bytes);
    r->stream = pb_stream_free(r->stream);
    kymo_free(r->path);
    kymo_free(r);
    return NULL;
}

void systrace_freep(struct systrace_reader **r)
{
    *r = systrace_free(*r);
}

void systrace_rewind(struct systrace_reader *r)
{
    drop(&r->item, &r->alloc);
    pb_stream_rewind(r->stream);
    if (!r->skimmed) {
        kymo_buf_reset(&r->bytes);
        r->unknown = 0;
    }
    r->items = 0;
    r->ended = false;
}

static int unpack(const struct systrace_reader *r, struct pb_alloc *a, const ProtobufCMessageDescriptor *d,
                  const uint8_t *data, size_t n, uint64_t offset, ProtobufCMessage **ret, struct kymo_err *err)
{
    size_t at = 0;
    a->exceeded = a->failed = false;
    *ret = protobuf_c_message_unpack(d, &a->pb, n, data);
    if (*ret)
        return 0;
    if (a->failed)
        return kymo_err_set(err, -ENOMEM, "%s: no memory for a message of %zu bytes", r->path, n);
    if (a->exceeded)
        return kymo_err_set(err, -EPROTO, "%s: offset %llu: a message of %zu bytes needs more than %llu in memory",
                            r->path, (unsigned long long)offset, n, (unsigned long long)SYSTRACE_UNPACKED_MAX);
    const char *cause = pb_find_error(d, data, n, &at);
    return kymo_err_set(err, -EPROTO, "%s: offset %llu: no %s: %s", r->path, (unsigned long long)(offset + at),
                        d->short_name, cause ? cause : "it does not parse");
}

static const ProtobufCMessageDescriptor *root_of(const struct systrace_reader *r)
{
    return is_stats(r) ? &ntff__host_stats__descriptor : &ntff__ntrace_info__descriptor;
}

/* The items' message; NULL: a part of the head. */
static const ProtobufCMessageDescriptor *item_of(const struct systrace_reader *r, const struct pb_field *f,
                                                 enum systrace_item_type *ret)
{
    if (f->wire != PB_LEN)
        return NULL;
    if (!is_stats(r) && f->number == EVENTS) {
        *ret = SYSTRACE_ITEM_EVENT;
        return &ntff__ntrace_event__descriptor;
    }
    if (is_stats(r) && f->number == CPU) {
        *ret = SYSTRACE_ITEM_CPU;
        return &ntff__cpu_util__descriptor;
    }
    if (is_stats(r) && f->number == MEMORY) {
        *ret = SYSTRACE_ITEM_MEMORY;
        return &ntff__host_mem_usage__descriptor;
    }
    return NULL;
}

static int add_to_head(struct systrace_reader *r, const struct pb_stream_field *f, struct kymo_err *err)
{
    if (r->skimmed)
        return 0;
    if (!protobuf_c_message_descriptor_get_field(root_of(r), f->field.number))
        r->unknown++;
    int code = kymo_buf_append(&r->bytes, f->bytes, f->len);
    if (code == -ENOBUFS)
        return kymo_err_set(err, -EPROTO, "%s: offset %llu: more than %u bytes beside events and samples", r->path,
                            (unsigned long long)f->offset, SYSTRACE_HEAD_MAX);
    return code < 0 ? kymo_err_set(err, code, "%s: no memory for its head", r->path) : 0;
}

static int end(struct systrace_reader *r, struct kymo_err *err)
{
    r->ended = true;
    if (r->head)
        return 0;
    r->skimmed = true;
    /* Offsets inside are those of the head's bytes, which need not lie together in the file. */
    return unpack(r, &r->head_alloc, root_of(r), r->bytes.data, r->bytes.len, 0, &r->head, err);
}

static void give(struct systrace_item *ret, const ProtobufCMessage *m)
{
    switch (ret->type) {
    case SYSTRACE_ITEM_EVENT:
        ret->event = (const Ntff__NtraceEvent *)(const void *)m;
        return;
    case SYSTRACE_ITEM_CPU:
        ret->cpu = (const Ntff__CpuUtil *)(const void *)m;
        return;
    case SYSTRACE_ITEM_MEMORY:
        ret->memory = (const Ntff__HostMemUsage *)(const void *)m;
        return;
    }
}

/* 1: a field that is an item; *d its message. */
static int next_item(struct systrace_reader *r, struct pb_stream_field *f, enum systrace_item_type *type,
                     const ProtobufCMessageDescriptor **d, struct kymo_err *err)
{
    for (;;) {
        int code = pb_stream_next(r->stream, f, err);
        if (code <= 0)
            return code;
        *d = item_of(r, &f->field, type);
        if (*d)
            return 1;
        code = add_to_head(r, f, err);
        if (code < 0)
            return code;
    }
}

int systrace_next(struct systrace_reader *r, struct systrace_item *ret, struct kymo_err *err)
{
    struct pb_stream_field f;
    const ProtobufCMessageDescriptor *d;
    enum systrace_item_type type = SYSTRACE_ITEM_EVENT;
    if (r->ended)
        return 0;
    drop(&r->item, &r->alloc);
    int code = next_item(r, &f, &type, &d, err);
    if (code == 0)
        return end(r, err);
    if (code > 0)
        code = unpack(r, &r->alloc, d, f.field.data, f.field.len, f.offset + (f.len - f.field.len), &r->item, err);
    if (code < 0) {
        r->ended = true;
        return code;
    }
    *ret = (struct systrace_item){.type = type, .offset = f.offset};
    give(ret, r->item);
    r->items++;
    return 1;
}

int systrace_read_head(struct systrace_reader *r, struct kymo_err *err)
{
    struct pb_stream_field f;
    const ProtobufCMessageDescriptor *d;
    enum systrace_item_type type;
    int code;
    systrace_rewind(r);
    do
        code = next_item(r, &f, &type, &d, err);
    while (code > 0);
    int last = end(r, code < 0 ? NULL : err);
    systrace_rewind(r);
    return code < 0 ? code : last;
}

const Ntff__NtraceInfo *systrace_info(const struct systrace_reader *r)
{
    return is_stats(r) ? NULL : (const Ntff__NtraceInfo *)(const void *)r->head;
}

const Ntff__HostStats *systrace_stats(const struct systrace_reader *r)
{
    return is_stats(r) ? (const Ntff__HostStats *)(const void *)r->head : NULL;
}

uint64_t systrace_unknown_fields(const struct systrace_reader *r)
{
    return r->unknown;
}

uint64_t systrace_item_count(const struct systrace_reader *r)
{
    return r->items;
}
