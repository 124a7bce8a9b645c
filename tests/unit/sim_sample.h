/* Small hand-made programs for the simulator's tests: streams of records per engine, packed into a NEFF and opened
 * again. */
#ifndef KYMO_TESTS_UNIT_SIM_SAMPLE_H
#define KYMO_TESTS_UNIT_SIM_SAMPLE_H

#include <stdint.h>

#include "arch/layout.h"
#include "arch/opcode.h"
#include "formats/neff/neff.h"

#define SAMPLE_SLOTS_MAX 4096

struct sample {
    const struct kymo_arch *arch;
    uint8_t code[KYMO_ENGINE_MAX][SAMPLE_SLOTS_MAX][KYMO_INSTR_SIZE];
    unsigned count[KYMO_ENGINE_MAX];
    const char *queues; /* JSON of def.json's dma_queue; NULL: none */
    const char *blocks; /* JSON of Sync's dma[]; NULL: none */
};

struct sample *sample_new(const struct kymo_arch *arch);
void sample_free(struct sample *s);
/* Appends a record with this opcode. */
uint8_t *sample_op(struct sample *s, enum kymo_engine e, uint8_t opcode);
void sample_set(const struct sample *s, uint8_t *rec, enum kymo_field f, uint64_t value);
void sample_trigger(struct sample *s, enum kymo_engine e, const char *queue, uint32_t block);
/* The NEFF of cores copies of the program, as a file or read back. */
void sample_write(const struct sample *s, unsigned cores, const char *path);
struct neff *sample_neff(const struct sample *s, unsigned cores);

#endif
