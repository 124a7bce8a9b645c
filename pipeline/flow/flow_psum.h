/*
 * SAME_PSUM_BANK, by the three rules of the vendor's page, for one core. Called in the order in which instructions
 * begin to run. Two instructions are linked only when both used the same bank and no other did between them, at least
 * one of the two wrote it, and the later one does not continue an accumulation that the earlier one is part of. Plain
 * data.
 */
#ifndef KYMO_PIPELINE_FLOW_PSUM_H
#define KYMO_PIPELINE_FLOW_PSUM_H

#include <stdbool.h>
#include <stdint.h>

#define FLOW_PSUM_BANKS 8

struct flow_psum_use {
    int64_t id, end;     /* the instruction, and its end in ns */
    uint8_t read, write; /* bit b: bank b */
    uint32_t group;      /* accumulation that it is part of; 0: none */
    bool starts;         /* it is the first of its accumulation */
};

struct flow_psum_bank {
    int64_t id, end; /* the last that used it */
    uint32_t group;
    bool used, wrote;
};

struct flow_psum {
    struct flow_psum_bank banks[FLOW_PSUM_BANKS];
    uint32_t open[FLOW_PSUM_BANKS]; /* accumulation that a bank holds; 0: none */
    uint32_t groups;
};

struct flow_psum_edge {
    int64_t id, end; /* the earlier one */
    uint8_t banks;   /* for which it holds */
};

/* Nothing is known any more of who used the banks. Returns how many had been used. */
unsigned flow_psum_forget(struct flow_psum *p);
/* The accumulation of a matmul that writes these banks: a new one, or the one that its lowest bank holds. */
uint32_t flow_psum_group(struct flow_psum *p, uint8_t write, bool begins);
/* Another instruction than a matmul wrote these banks: what follows continues nothing. */
void flow_psum_overwrite(struct flow_psum *p, uint8_t write);
/* Edges into this one, one for each earlier instruction. */
unsigned flow_psum_take(struct flow_psum *p, const struct flow_psum_use *use,
                        struct flow_psum_edge edges[FLOW_PSUM_BANKS]);

#endif
