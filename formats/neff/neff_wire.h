/*
 * Debug files can be gigabytes of one protobuf message. Its fields are walked here one by one, so that only one
 * instruction record at a time is unpacked, and that through an allocator with a cap.
 */
#ifndef KYMO_FORMATS_NEFF_NEFF_WIRE_H
#define KYMO_FORMATS_NEFF_NEFF_WIRE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct neff_wire {
    const uint8_t *data;
    size_t n, at;
};

enum { NEFF_WIRE_VARINT = 0, NEFF_WIRE_FIXED64 = 1, NEFF_WIRE_BYTES = 2, NEFF_WIRE_FIXED32 = 5 };

struct neff_wire_field {
    uint32_t number;
    unsigned type;
    uint64_t value;      /* VARINT */
    const uint8_t *data; /* BYTES */
    size_t n;
};

/* 1: a field; 0: the end; -EPROTO: damaged at w->at. */
int neff_wire_next(struct neff_wire *w, struct neff_wire_field *ret);

struct neff_cap {
    ProtobufCAllocator allocator; /* for unpacking; used only while the cap lives */
    size_t used, max;
    bool no_memory, over;
};
void neff_cap_init(struct neff_cap *c, size_t max);
void neff_cap_reset(struct neff_cap *c); /* before the next message */

#endif
