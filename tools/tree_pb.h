/* Prints protobuf messages into a tree: with their schema, or without one. */
#ifndef KYMO_TOOLS_TREE_PB_H
#define KYMO_TOOLS_TREE_PB_H

#include <protobuf-c/protobuf-c.h>

#include "tools/tree.h"

/*
 * The fields of an unpacked message into the level that is open: every single value, set or not; lists and messages
 * where there are any; unknown fields last, read without a schema. Enumerations by name.
 */
void tree_pb_fields(struct tree *t, const ProtobufCMessage *msg);

/*
 * Bytes without a schema, as a list named key. Fields of the outermost message with numbers above top_number_max (0: no
 * limit) end it. base is added to the offsets shown. Returns how many bytes were used; *ret_cause says what ended them,
 * NULL: the end.
 */
size_t tree_pb_bytes(struct tree *t, const char *key, const uint8_t *data, size_t n, size_t base,
                     uint32_t top_number_max, const char **ret_cause);

#endif
