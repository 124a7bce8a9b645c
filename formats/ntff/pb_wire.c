#include "formats/ntff/pb_wire.h"

#include <errno.h>
#include <stdbool.h>

#include "base/le.h"

#define VARINT_BYTES_MAX 10
#define FIELD_NUMBER_MAX ((1u << 29) - 1)

static int read_varint(const struct pb_cursor *c, size_t *pos, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX && *pos + i < c->size; i++) {
        uint8_t byte = c->data[*pos + i];
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80)) {
            *pos += i + 1;
            *ret = v;
            return 0;
        }
    }
    return -EPROTO;
}

static int take_fixed(const struct pb_cursor *c, size_t *pos, size_t n, uint64_t *ret)
{
    if (c->size - *pos < n)
        return -EPROTO;
    *ret = n == 8 ? kymo_le64(c->data + *pos) : kymo_le32(c->data + *pos);
    *pos += n;
    return 0;
}

static int take_bytes(const struct pb_cursor *c, size_t *pos, struct pb_field *f, const char **cause)
{
    uint64_t len;
    if (read_varint(c, pos, &len) < 0) {
        *cause = "a length is cut off or too long";
        return -EPROTO;
    }
    if (len > c->size - *pos) {
        *cause = "a length runs past the end";
        return -EPROTO;
    }
    f->data = c->data + *pos;
    f->len = (size_t)len;
    *pos += f->len;
    return 0;
}

static int take_value(const struct pb_cursor *c, size_t *pos, unsigned wire, struct pb_field *f, const char **cause)
{
    *cause = "a value is cut off or too long";
    switch (wire) {
    case PB_VARINT:
        return read_varint(c, pos, &f->value);
    case PB_FIXED64:
        return take_fixed(c, pos, 8, &f->value);
    case PB_FIXED32:
        return take_fixed(c, pos, 4, &f->value);
    case PB_LEN:
        return take_bytes(c, pos, f, cause);
    default:
        *cause = "a group or an unassigned wire type";
        return -EPROTO;
    }
}

int pb_next(struct pb_cursor *c, struct pb_field *ret, const char **ret_cause)
{
    if (c->pos >= c->size)
        return 0;
    size_t pos = c->pos;
    uint64_t tag;
    if (read_varint(c, &pos, &tag) < 0) {
        *ret_cause = "a tag is cut off or too long";
        return -EPROTO;
    }
    if (tag >> 3 == 0 || tag >> 3 > FIELD_NUMBER_MAX) {
        *ret_cause = "a field number is out of range";
        return -EPROTO;
    }
    struct pb_field f = {.number = (uint32_t)(tag >> 3), .at = c->pos};
    const char *cause = NULL;
    if (take_value(c, &pos, (unsigned)(tag & 7), &f, &cause) < 0) {
        *ret_cause = cause;
        return -EPROTO;
    }
    f.wire = (enum pb_wire)(tag & 7);
    c->pos = pos;
    *ret = f;
    return 1;
}

int pb_value(uint32_t number, unsigned wire, const uint8_t *data, size_t n, struct pb_field *ret)
{
    const struct pb_cursor c = {.data = data, .size = n};
    struct pb_field f = {.number = number};
    size_t pos = 0;
    const char *cause;
    if (take_value(&c, &pos, wire, &f, &cause) < 0 || pos != n)
        return -EPROTO;
    f.wire = (enum pb_wire)wire;
    *ret = f;
    return 0;
}

const char *pb_wire_name(enum pb_wire wire)
{
    switch (wire) {
    case PB_VARINT:
        return "varint";
    case PB_FIXED64:
        return "fixed64";
    case PB_LEN:
        return "length-delimited";
    case PB_FIXED32:
        return "fixed32";
    }
    return "unassigned";
}

static bool wire_fits(const ProtobufCFieldDescriptor *fd, enum pb_wire wire)
{
    switch (fd->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return wire == PB_LEN;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return wire == PB_FIXED64 || (fd->label == PROTOBUF_C_LABEL_REPEATED && wire == PB_LEN);
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return wire == PB_FIXED32 || (fd->label == PROTOBUF_C_LABEL_REPEATED && wire == PB_LEN);
    default:
        return wire == PB_VARINT || (fd->label == PROTOBUF_C_LABEL_REPEATED && wire == PB_LEN);
    }
}

const char *pb_find_error(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t n, size_t *ret_at)
{
    struct pb_cursor c = {.data = data, .size = n};
    struct pb_field f;
    const char *cause = NULL;
    int r;
    while ((r = pb_next(&c, &f, &cause)) > 0) {
        const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field(d, f.number);
        if (!fd)
            continue;
        if (!wire_fits(fd, f.wire)) {
            *ret_at = f.at;
            return "a field has another wire type than the schema's";
        }
        if (fd->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        size_t inner = 0;
        cause = pb_find_error(fd->descriptor, f.data, f.len, &inner);
        if (cause) {
            *ret_at = (size_t)(f.data - data) + inner;
            return cause;
        }
    }
    *ret_at = c.pos;
    return r < 0 ? cause : NULL;
}
