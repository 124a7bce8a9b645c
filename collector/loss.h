/* A loss that a processor counted: a row of LossLedger. */
#ifndef KYMO_COLLECTOR_LOSS_H
#define KYMO_COLLECTOR_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_MAX 4096 /* of one profile */

struct loss {
    char stage[32], ring[256], cause[65];
    bool has_records, has_emitted; /* false: nobody counted them */
    uint64_t records, emitted;
};

#endif
