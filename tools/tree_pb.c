#include "tools/tree_pb.h"

#include <string.h>

#include "formats/ntff/pb_dump.h"

#define HEX_MAX 64
#define TEXT_SHOWN_MAX 512

static void show_text(struct tree *t, const struct pb_field *f)
{
    char text[TEXT_SHOWN_MAX + 1];
    size_t n = f->len < TEXT_SHOWN_MAX ? f->len : TEXT_SHOWN_MAX;
    /* A cut inside a character would be no text any more. */
    while (n < f->len && n > 0 && (f->data[n] & 0xc0) == 0x80)
        n--;
    memcpy(text, f->data, n);
    text[n] = '\0';
    tree_text(t, "text", text);
}

static void show_number(struct tree *t, const struct pb_field *f)
{
    tree_u64(t, "value", f->value);
    if (f->wire == PB_FIXED64) {
        double d;
        memcpy(&d, &f->value, sizeof d);
        tree_double(t, "as_double", d);
    } else if (f->wire == PB_FIXED32) {
        uint32_t bits = (uint32_t)f->value;
        float x;
        memcpy(&x, &bits, sizeof x);
        tree_double(t, "as_float", (double)x);
    }
}

struct printer {
    struct tree *t;
    size_t base;
};

static void on_field(void *ctx, const struct pb_field *f, enum pb_kind kind, size_t offset)
{
    const struct printer *p = ctx;
    struct tree *t = p->t;
    if (kind == PB_KIND_MESSAGE)
        tree_object(t, NULL);
    else
        tree_row(t, NULL);
    tree_u64(t, "field", f->number);
    tree_text(t, "wire", pb_wire_name(f->wire));
    tree_u64(t, "offset", p->base + offset);
    if (f->wire == PB_LEN)
        tree_u64(t, "length", f->len);
    switch (kind) {
    case PB_KIND_NUMBER:
        show_number(t, f);
        break;
    case PB_KIND_TEXT:
        show_text(t, f);
        break;
    case PB_KIND_BYTES:
        tree_hex(t, "bytes", f->data, f->len, HEX_MAX);
        break;
    case PB_KIND_MESSAGE:
        tree_list(t, "message");
        return; /* on_leave closes both */
    }
    tree_close(t);
}

static void on_leave(void *ctx)
{
    const struct printer *p = ctx;
    tree_close(p->t);
    tree_close(p->t);
}

static const struct pb_dump_ops dump_ops = {.field = on_field, .leave = on_leave};

size_t tree_pb_bytes(struct tree *t, const char *key, const uint8_t *data, size_t n, size_t base,
                     uint32_t top_number_max, const char **ret_cause)
{
    struct printer p = {t, base};
    struct pb_dump d = {.ops = &dump_ops, .ctx = &p, .top_number_max = top_number_max};
    tree_list(t, key);
    size_t used = pb_dump_message(&d, data, n, ret_cause);
    tree_close(t);
    return used;
}

static void show_unknown(struct tree *t, const ProtobufCMessage *msg)
{
    if (msg->n_unknown_fields == 0)
        return;
    struct printer p = {t, 0};
    struct pb_dump d = {.ops = &dump_ops, .ctx = &p};
    tree_list(t, "unknown_fields");
    for (unsigned i = 0; i < msg->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *u = &msg->unknown_fields[i];
        struct pb_field f;
        if (pb_value(u->tag, (unsigned)u->wire_type, u->data, u->len, &f) == 0)
            pb_dump_field(&d, &f);
    }
    tree_close(t);
}

/* A message whose fields are all single values fits one line. */
static bool is_flat(const ProtobufCMessage *msg)
{
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *fd = &msg->descriptor->fields[i];
        if (fd->label == PROTOBUF_C_LABEL_REPEATED || fd->type == PROTOBUF_C_TYPE_MESSAGE)
            return false;
    }
    return msg->n_unknown_fields == 0;
}

static void show_message(struct tree *t, const char *key, const ProtobufCMessage *msg)
{
    if (is_flat(msg))
        tree_row(t, key);
    else
        tree_object(t, key);
    tree_pb_fields(t, msg);
    tree_close(t);
}

static void show_enum(struct tree *t, const char *key, const ProtobufCEnumDescriptor *e, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(e, value);
    if (v)
        tree_text(t, key, v->name);
    else
        tree_i64(t, key, value);
}

static void show_value(struct tree *t, const char *key, const ProtobufCFieldDescriptor *fd, const void *p)
{
    switch (fd->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        tree_i64(t, key, *(const int32_t *)p);
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        tree_i64(t, key, *(const int64_t *)p);
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        tree_u64(t, key, *(const uint32_t *)p);
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        tree_u64(t, key, *(const uint64_t *)p);
        return;
    case PROTOBUF_C_TYPE_FLOAT:
        tree_double(t, key, (double)*(const float *)p);
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        tree_double(t, key, *(const double *)p);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        tree_bool(t, key, *(const protobuf_c_boolean *)p != 0);
        return;
    case PROTOBUF_C_TYPE_ENUM:
        show_enum(t, key, fd->descriptor, *(const int *)p);
        return;
    case PROTOBUF_C_TYPE_STRING:
        tree_text(t, key, *(const char *const *)p);
        return;
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *b = p;
        tree_hex(t, key, b->data, b->len, HEX_MAX);
        return;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        if (*(const ProtobufCMessage *const *)p)
            show_message(t, key, *(const ProtobufCMessage *const *)p);
        return;
    }
}

static size_t element_size(const ProtobufCFieldDescriptor *fd)
{
    switch (fd->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_BOOL:
        return 4;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 8;
    }
}

static void show_repeated(struct tree *t, const ProtobufCMessage *msg, const ProtobufCFieldDescriptor *fd)
{
    size_t n = *(const size_t *)((const char *)msg + fd->quantifier_offset);
    const char *items = *(const char *const *)((const char *)msg + fd->offset);
    if (n == 0)
        return;
    tree_list(t, fd->name);
    for (size_t i = 0; i < n; i++)
        show_value(t, NULL, fd, items + i * element_size(fd));
    tree_close(t);
}

void tree_pb_fields(struct tree *t, const ProtobufCMessage *msg)
{
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *fd = &msg->descriptor->fields[i];
        const char *base = (const char *)msg;
        if (fd->label == PROTOBUF_C_LABEL_REPEATED) {
            show_repeated(t, msg, fd);
            continue;
        }
        /* A member of a oneof that holds another one is not there. */
        if ((fd->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && *(const uint32_t *)(base + fd->quantifier_offset) != fd->id)
            continue;
        show_value(t, fd->name, fd, base + fd->offset);
    }
    show_unknown(t, msg);
}
