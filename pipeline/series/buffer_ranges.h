/* Which parts of on-chip memory an instruction, or the transfer that it starts, reads and writes. */
#ifndef KYMO_PIPELINE_SERIES_BUFFER_RANGES_H
#define KYMO_PIPELINE_SERIES_BUFFER_RANGES_H

#include "pipeline/instructions/statics.h"
#include "pipeline/series/buffer_map.h"
#include "pipeline/series/buffer_use.h"

#define BUFFER_RANGES_MAX 4

struct buffer_touch {
    struct buffer_range range;
    uint8_t how;   /* enum buffer_access */
    uint8_t pcore; /* whose memory it is */
    bool transfer; /* while the transfer runs, not the instruction */
};

/* Reads first. Operands that lie in a register or a table are not known and add nothing; *ret_unknown counts them. */
size_t buffer_ranges_of(const struct kymo_arch *arch, const struct static_row *row, const struct static_facts *facts,
                        struct buffer_touch ret[BUFFER_RANGES_MAX], unsigned *ret_unknown);

#endif
