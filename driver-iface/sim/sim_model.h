/* The models that kymo-sim neff knows: each fills one physical core's program. */
#ifndef KYMO_DRIVER_IFACE_SIM_SIM_MODEL_H
#define KYMO_DRIVER_IFACE_SIM_SIM_MODEL_H

#include "driver-iface/sim/sim_program.h"

#define SIM_MODEL_RANKS_MAX 64

struct sim_model_options {
    unsigned layers; /* 1..64 */
    unsigned hidden; /* multiple of 128, 128..2048 */
    unsigned batch;  /* tokens: multiple of 128, 128..512 */
    uint32_t repeat; /* multiplies the trips of loops */
    unsigned lnc, core;
    bool nki;       /* attention: scores to context are an NKI kernel */
    unsigned ranks; /* allreduce: 2..SIM_MODEL_RANKS_MAX; others: 0 or 1 */
};

struct sim_model {
    const char *name;
    struct sim_model_options defaults;
    void (*build)(struct sim_program *p, const struct sim_model_options *o);
};
/* NULL when unknown: mlp, attention, allreduce. */
const struct sim_model *sim_model_find(const char *name);
/* -EINVAL with the reason. */
int sim_model_check(const struct sim_model_options *o, struct kymo_err *err) KYMO_MUST_CHECK;

/* Parts that models share (sim_model.c). */
struct sim_model_queues {
    unsigned in, out, weights, spill, vector_out; /* pre-computed descriptors */
    unsigned sync_dge, scalar_dge;                /* hardware DGE; before Trn2 the same as in and weights */
    unsigned software_dge;                        /* GpSimd */
};
struct sim_model_queues sim_model_add_queues(struct sim_program *p);
/* count elements at element offset of a buffer. */
struct sim_operand sim_model_at(struct sim_buf b, uint32_t first, uint16_t count, uint8_t dtype);
/* The next PSUM bank in turn, as count fp32. */
struct sim_operand sim_model_bank(struct sim_program *p, unsigned *turn, uint16_t count);
void sim_model_move(struct sim_program *p, unsigned queue, bool store, struct sim_buf var, uint32_t var_offset,
                    struct sim_operand chip);
/* Scope with layer number and step filled into the names. */
void sim_model_scope(struct sim_program *p, const char *model, unsigned layer, const char *step, const char *op,
                     int line);

extern const struct sim_model sim_model_mlp, sim_model_attention, sim_model_allreduce;

#endif
