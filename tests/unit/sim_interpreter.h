/*
 * Runs a subgraph's streams by what they say alone: waits, updates, registers, branches, transfers. Engines and
 * transfers take turns at random. Clocks carried by the semaphores tell which accesses to SBUF and PSUM are ordered:
 * two that touch the same 64 bytes, one of them writing, without an order are a race. It shares nothing with the
 * builder or the simulator.
 */
#ifndef KYMO_TESTS_UNIT_SIM_INTERPRETER_H
#define KYMO_TESTS_UNIT_SIM_INTERPRETER_H

#include "arch/arch.h"
#include "formats/neff/neff.h"

struct interpreter_result {
    uint64_t executed, transfers;
    unsigned races;
    bool deadlock;
    unsigned nonzero_semaphores; /* at the end */
    char text[256];              /* of the first trouble */
};

/* Executes the program `executions` times over, semaphores keeping their values. */
struct interpreter_result interpreter_run(const struct kymo_arch *arch, const struct neff_subgraph *sg,
                                          unsigned executions, uint64_t seed);

#endif
