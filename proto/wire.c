#include "proto/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

#define UNPACKED_FACTOR 32u
#define UNPACKED_BASE 4096u

static const struct wire_type *find_type(const struct wire_protocol *p, uint16_t type)
{
    for (size_t i = 0; i < p->n_types; i++)
        if (p->types[i].type == type)
            return &p->types[i];
    return NULL;
}

uint32_t wire_since(const struct wire_protocol *p, uint16_t type)
{
    const struct wire_type *t = find_type(p, type);
    return t ? t->since : 0;
}

static const struct wire_bound *find_bound(const struct wire_protocol *p, const ProtobufCMessageDescriptor *in,
                                           const char *field)
{
    for (size_t i = 0; i < p->n_bounds; i++)
        if (p->bounds[i].in == in && strcmp(p->bounds[i].field, field) == 0)
            return &p->bounds[i];
    return NULL;
}

static int out_of_bounds(const struct wire_bound *b, uint64_t value, const char *what, struct kymo_err *err)
{
    return kymo_err_set(err, -ERANGE, "%s.%s: %s %" PRIu64 ", allowed are %" PRIu64 " to %" PRIu64, b->in->name,
                        b->field, what, value, b->min, b->max);
}

static int check_number(const struct wire_bound *b, uint64_t value, struct kymo_err *err)
{
    return value < b->min || value > b->max ? out_of_bounds(b, value, "the value", err) : 0;
}

static int check_length(const struct wire_bound *b, size_t n, struct kymo_err *err)
{
    return n < b->min || n > b->max ? out_of_bounds(b, n, "a length of", err) : 0;
}

static bool is_utf8(const char *s, size_t n)
{
    for (size_t at = 0, step; at < n; at += step) {
        step = kymo_utf8_sequence(s + at, n - at);
        if (step == 0)
            return false;
    }
    return true;
}

static int check_string(const struct wire_bound *b, const char *s, struct kymo_err *err)
{
    size_t n = s ? strlen(s) : 0;
    int r = check_length(b, n, err);
    if (r == 0 && !is_utf8(s, n))
        r = kymo_err_set(err, -ERANGE, "%s.%s: not UTF-8", b->in->name, b->field);
    return r;
}

/* One value: a member of its own, or one element of a repeated field. */
static int check_value(const struct wire_protocol *p, const struct wire_bound *b, const ProtobufCFieldDescriptor *f,
                       const void *at, struct kymo_err *err)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM: {
        uint32_t v;
        memcpy(&v, at, sizeof v);
        return check_number(b, v, err);
    }
    case PROTOBUF_C_TYPE_UINT64: {
        uint64_t v;
        memcpy(&v, at, sizeof v);
        return check_number(b, v, err);
    }
    case PROTOBUF_C_TYPE_BOOL:
        return 0;
    case PROTOBUF_C_TYPE_STRING: {
        const char *s;
        memcpy(&s, at, sizeof s);
        return check_string(b, s, err);
    }
    case PROTOBUF_C_TYPE_BYTES: {
        ProtobufCBinaryData d;
        memcpy(&d, at, sizeof d);
        return check_length(b, d.len, err);
    }
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *m;
        memcpy(&m, at, sizeof m);
        return m ? wire_check(p, m, err) : 0;
    }
    default:
        return kymo_err_set(err, -ERANGE, "%s.%s: a type that has no bounds", b->in->name, b->field);
    }
}

static size_t element_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(void *);
    }
}

static int check_repeated(const struct wire_protocol *p, const struct wire_bound *b, const ProtobufCFieldDescriptor *f,
                          const ProtobufCMessage *m, struct kymo_err *err)
{
    size_t n;
    const uint8_t *elements;
    memcpy(&n, (const uint8_t *)m + f->quantifier_offset, sizeof n);
    memcpy(&elements, (const uint8_t *)m + f->offset, sizeof elements);
    if (n > b->count)
        return kymo_err_set(err, -ERANGE, "%s.%s: %zu of them, at most %u", b->in->name, b->field, n, b->count);
    for (size_t i = 0; i < n; i++) {
        int r = check_value(p, b, f, elements + i * element_size(f), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_present(const ProtobufCFieldDescriptor *f, const ProtobufCMessage *m)
{
    const uint8_t *base = (const uint8_t *)m;
    if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE) {
        const void *p;
        memcpy(&p, base + f->offset, sizeof p);
        return p && p != f->default_value;
    }
    protobuf_c_boolean has;
    memcpy(&has, base + f->quantifier_offset, sizeof has);
    return has;
}

static int check_field(const struct wire_protocol *p, const ProtobufCFieldDescriptor *f, const ProtobufCMessage *m,
                       struct kymo_err *err)
{
    const struct wire_bound *b = find_bound(p, m->descriptor, f->name);
    if (!b)
        return kymo_err_set(err, -ERANGE, "%s.%s: a field without bounds", m->descriptor->name, f->name);
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return check_repeated(p, b, f, m, err);
    if (is_present(f, m))
        return check_value(p, b, f, (const uint8_t *)m + f->offset, err);
    return b->required ? kymo_err_set(err, -ERANGE, "%s.%s: is missing", b->in->name, b->field) : 0;
}

int wire_check(const struct wire_protocol *p, const ProtobufCMessage *m, struct kymo_err *err)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        int r = check_field(p, &m->descriptor->fields[i], m, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int unpack_failed(const struct wire_message *m, const char *name, size_t n, struct kymo_err *err)
{
    if (m->alloc.failed)
        return kymo_err_set(err, -ENOMEM, "%s: out of memory", name);
    return kymo_err_set(err, -EBADMSG, "%s: %zu bytes that are %s", name, n,
                        m->alloc.exceeded ? "more than a message may unfold to" : "no such message");
}

int wire_unpack(const struct wire_protocol *p, enum wire_side from, const struct frame *f, struct wire_message *ret,
                struct kymo_err *err)
{
    const struct wire_type *t = find_type(p, f->type);
    if (!t && (f->type & FRAME_MAY_SKIP))
        return 0;
    if (!t)
        return kymo_err_set(err, -EPROTO, "%s: unknown type %u", p->name, f->type);
    const char *name = t->message->name;
    if (!(t->from & from))
        return kymo_err_set(err, -EPROTO, "%s: not for this side to send", name);
    if (t->raw != (f->raw_len > 0))
        return kymo_err_set(err, -EPROTO, "%s: %s raw bytes", name, t->raw ? "without" : "with");
    *ret = (struct wire_message){.type = f->type, .since = t->since};
    pb_alloc_init(&ret->alloc, (uint64_t)f->message_len * UNPACKED_FACTOR + UNPACKED_BASE);
    ret->pb = protobuf_c_message_unpack(t->message, &ret->alloc.pb, f->message_len, f->message);
    if (!ret->pb)
        return unpack_failed(ret, name, f->message_len, err);
    int r = wire_check(p, ret->pb, err);
    if (r < 0) {
        wire_message_done(ret);
        return r;
    }
    return 1;
}

void wire_message_done(struct wire_message *m)
{
    if (m->pb)
        protobuf_c_message_free_unpacked(m->pb, &m->alloc.pb);
    m->pb = NULL;
}

int wire_append(const struct wire_protocol *p, struct kymo_buf *out, uint16_t type, const ProtobufCMessage *m,
                const struct frame *raw, uint8_t **ret_raw, struct kymo_err *err)
{
    int r = wire_check(p, m, err);
    if (r < 0)
        return r;
    size_t n = protobuf_c_message_get_packed_size(m);
    if (n > p->message_max)
        return kymo_err_set(err, -EMSGSIZE, "%s: %zu bytes, more than %u", m->descriptor->name, n, p->message_max);
    struct frame f = raw ? *raw : (struct frame){0};
    f.type = type;
    f.message_len = (uint32_t)n;
    uint8_t header[FRAME_HEADER_SIZE];
    r = frame_header(&f, header, err);
    if (r < 0)
        return r;
    size_t size = sizeof header + n + f.raw_len;
    r = kymo_buf_reserve(out, size);
    if (r < 0)
        return kymo_err_set(err, r, "%s: no room for %zu bytes behind %zu that wait to be sent", m->descriptor->name,
                            size, out->len);
    uint8_t *at = out->data + out->len;
    memcpy(at, header, sizeof header);
    (void)protobuf_c_message_pack(m, at + sizeof header);
    if (ret_raw)
        *ret_raw = at + sizeof header + n;
    out->len += size;
    return 0;
}

int wire_negotiate(const struct wire_range *ours, const struct wire_range *theirs, uint32_t *ret, struct kymo_err *err)
{
    uint32_t low = ours->min > theirs->min ? ours->min : theirs->min;
    uint32_t high = ours->max < theirs->max ? ours->max : theirs->max;
    if (low > high)
        return kymo_err_set(err, -EPROTONOSUPPORT, "no common version: here %u to %u, there %u to %u", ours->min,
                            ours->max, theirs->min, theirs->max);
    *ret = high;
    return 0;
}

bool wire_is_id(const char *s)
{
    size_t n = strlen(s);
    return n >= 1 && n <= WIRE_ID_MAX && s[0] != '.' &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}
