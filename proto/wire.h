/*
 * Messages in frames, as data: a protocol is a table of types (who may send it, which protobuf message) and a table of
 * bounds, one row per field. What is received and what is sent is held to both. Version negotiation is data too.
 * Pure functions; no I/O.
 */
#ifndef KYMO_PROTO_WIRE_H
#define KYMO_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/frame.h"
#include "proto/pb_alloc.h"
#include "proto/wire.pb-c.h"

enum wire_side {
    WIRE_CLIENT = 1, /* connects: daemon on the uplink, CLI on the control socket */
    WIRE_SERVER = 2,
    WIRE_BOTH = 3,
};

/* Types that every protocol has. */
enum { WIRE_HELLO = 1, WIRE_REFUSAL = 2, WIRE_PING = 3, WIRE_PONG = 4 };

#define WIRE_TEXT_MAX 512 /* of a refusal */
#define WIRE_NAME_MAX 255
#define WIRE_ID_MAX 64

struct wire_type {
    uint16_t type;
    enum wire_side from;
    bool raw; /* raw bytes follow */
    const ProtobufCMessageDescriptor *message;
    uint32_t since; /* the first version that has it */
};

/* Bounds of one field. Strings and bytes: their length; numbers: their value. count: of a repeated field. */
struct wire_bound {
    const ProtobufCMessageDescriptor *in;
    const char *field;
    bool required;
    uint64_t min, max;
    uint32_t count;
};

struct wire_protocol {
    const char *name;
    uint32_t message_max; /* once both have said hello */
    uint32_t raw_max;     /* from the client; the server never sends raw bytes */
    const struct wire_type *types;
    size_t n_types;
    const struct wire_bound *bounds;
    size_t n_bounds;
};

/* Rows for the messages of wire.proto, to stand in every protocol's tables. */
#define WIRE_COMMON_TYPES                                                                                              \
    {WIRE_HELLO, WIRE_BOTH, false, &kymo__wire__hello__descriptor, 1},                                                 \
        {WIRE_REFUSAL, WIRE_BOTH, false, &kymo__wire__refusal__descriptor, 1},                                         \
        {WIRE_PING, WIRE_BOTH, false, &kymo__wire__ping__descriptor, 1},                                               \
    {                                                                                                                  \
        WIRE_PONG, WIRE_BOTH, false, &kymo__wire__pong__descriptor, 1                                                  \
    }
#define WIRE_COMMON_BOUNDS                                                                                             \
    {&kymo__wire__hello__descriptor, "version_min", true, 1, UINT16_MAX, 0},                                           \
        {&kymo__wire__hello__descriptor, "version_max", true, 1, UINT16_MAX, 0},                                       \
        {&kymo__wire__hello__descriptor, "features", false, 0, UINT64_MAX, 0},                                         \
        {&kymo__wire__hello__descriptor, "writer", false, 0, WIRE_NAME_MAX, 0},                                        \
        {&kymo__wire__hello__descriptor, "host", false, 0, WIRE_NAME_MAX, 0},                                          \
        {&kymo__wire__hello__descriptor, "boot_id", false, 0, WIRE_ID_MAX, 0},                                         \
        {&kymo__wire__refusal__descriptor, "why", true, 0, 1000, 0},                                                   \
        {&kymo__wire__refusal__descriptor, "text", false, 0, WIRE_TEXT_MAX, 0},                                        \
        {&kymo__wire__refusal__descriptor, "ticket", false, 1, UINT32_MAX, 0},                                         \
        {&kymo__wire__refusal__descriptor, "request_id", false, 0, UINT64_MAX, 0},                                     \
        {&kymo__wire__ping__descriptor, "nonce", false, 0, UINT64_MAX, 0},                                             \
    {                                                                                                                  \
        &kymo__wire__pong__descriptor, "nonce", false, 0, UINT64_MAX, 0                                                \
    }

/* A received message. Lives where it was unpacked: it must not be moved. */
struct wire_message {
    uint16_t type;
    uint32_t since; /* as of its type */
    ProtobufCMessage *pb;
    struct pb_alloc alloc;
};

/* The first version that has a type; 0: no type of the protocol. */
uint32_t wire_since(const struct wire_protocol *p, uint16_t type);

/*
 * The message of a frame that `from` sent. 1: *ret holds it, wire_message_done frees it. 0: a type that may be skipped.
 * -EPROTO: an unknown type, or not from this side; -EBADMSG: no such message; -ERANGE: a bound exceeded, the text names
 * the field; -ENOMEM.
 */
int wire_unpack(const struct wire_protocol *p, enum wire_side from, const struct frame *f, struct wire_message *ret,
                struct kymo_err *err) KYMO_MUST_CHECK;
void wire_message_done(struct wire_message *m); /* zeroed and done ones are fine */

/* Holds a message to its bounds, with all that is in it. */
int wire_check(const struct wire_protocol *p, const ProtobufCMessage *m, struct kymo_err *err) KYMO_MUST_CHECK;

/*
 * Appends the frame of a message with room for raw_len raw bytes behind, which the caller fills in: *ret_raw (may be
 * NULL when there are none) points at them until out changes.
 */
int wire_append(const struct wire_protocol *p, struct kymo_buf *out, uint16_t type, const ProtobufCMessage *m,
                const struct frame *raw, uint8_t **ret_raw, struct kymo_err *err) KYMO_MUST_CHECK;

struct wire_range {
    uint32_t min, max;
};

/* The highest version in both ranges; -EPROTONOSUPPORT when there is none, with both named. */
int wire_negotiate(const struct wire_range *ours, const struct wire_range *theirs, uint32_t *ret,
                   struct kymo_err *err) KYMO_MUST_CHECK;

/* Capture ids: [A-Za-z0-9._-], 1 to 64, not beginning with a dot. */
bool wire_is_id(const char *s);

#endif
