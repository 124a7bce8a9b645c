/*
 * Prints protobuf bytes without a schema: each length-delimited value is taken for text when it is printable UTF-8,
 * else for a nested message when it parses as one, else for bytes. Output goes to the caller's functions. Depth and
 * number of fields are bounded; nothing is allocated.
 */
#ifndef KYMO_FORMATS_NTFF_PB_DUMP_H
#define KYMO_FORMATS_NTFF_PB_DUMP_H

#include <stddef.h>
#include <stdint.h>

#include "formats/ntff/pb_wire.h"

#define PB_DUMP_DEPTH_MAX 16
#define PB_DUMP_FIELDS_MAX (1u << 20)

enum pb_kind { PB_KIND_NUMBER, PB_KIND_TEXT, PB_KIND_MESSAGE, PB_KIND_BYTES };

struct pb_dump_ops {
    /* Each field; after PB_KIND_MESSAGE its own fields follow, then leave. offset counts from the outermost byte given.
     */
    void (*field)(void *ctx, const struct pb_field *f, enum pb_kind kind, size_t offset);
    void (*leave)(void *ctx);
};

struct pb_dump {
    const struct pb_dump_ops *ops;
    void *ctx;
    uint32_t top_number_max; /* fields of the outermost message with higher numbers end it; 0: no limit */
    size_t fields;           /* shown so far; starts at 0 and may run on over several calls */
};

/*
 * Dumps the longest run of fields that data begins with. Returns its length in bytes; *ret_cause says what ended it,
 * NULL when all n bytes were used.
 */
size_t pb_dump_message(struct pb_dump *d, const uint8_t *data, size_t n, const char **ret_cause);
/* One field whose number and wire type are known, such as an unknown field that protobuf-c kept. */
void pb_dump_field(struct pb_dump *d, const struct pb_field *f);

#endif
