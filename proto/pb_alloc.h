/*
 * An allocator for protobuf-c over base/alloc.h with a cap on the bytes in use: a small hostile message can ask for
 * many times its size. One user at a time; must live as long as what was unpacked through it.
 */
#ifndef KYMO_PROTO_PB_ALLOC_H
#define KYMO_PROTO_PB_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct pb_alloc {
    ProtobufCAllocator pb; /* hand &a->pb to unpack and free_unpacked */
    uint64_t used, cap;
    bool exceeded; /* a request was refused because of the cap */
    bool failed;   /* a request found no memory */
};

void pb_alloc_init(struct pb_alloc *a, uint64_t cap);

#endif
