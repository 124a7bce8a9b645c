/* Walks the protobuf wire format field by field, without a schema. Pure functions over bytes in memory; nothing is
 * copied. */
#ifndef KYMO_FORMATS_NTFF_PB_WIRE_H
#define KYMO_FORMATS_NTFF_PB_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* Numbers of the wire format; groups (3 and 4) are refused: no known schema uses them. */
enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_LEN = 2, PB_FIXED32 = 5 };

struct pb_cursor {
    const uint8_t *data;
    size_t size, pos;
};

struct pb_field {
    uint32_t number;
    enum pb_wire wire;
    size_t at;           /* of the tag, in the cursor's bytes */
    uint64_t value;      /* varint and fixed */
    const uint8_t *data; /* PB_LEN: into the cursor's bytes */
    size_t len;
};

/* 1: *ret is the next field. 0: the end. -EPROTO: not a field; *ret_cause says why, the position stays. */
int pb_next(struct pb_cursor *c, struct pb_field *ret, const char **ret_cause);

/* A value without its tag, as protobuf-c keeps unknown fields; length-delimited ones with their length in front. */
int pb_value(uint32_t number, unsigned wire, const uint8_t *data, size_t n, struct pb_field *ret);
const char *pb_wire_name(enum pb_wire wire); /* varint, fixed64, length-delimited, fixed32 */

/*
 * Where and why bytes that protobuf-c refused as a message of d break: the cause, with its offset in *ret_at; NULL when
 * nothing is found. Recursion follows d's message types, which must not contain themselves.
 */
const char *pb_find_error(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t n, size_t *ret_at);

#endif
