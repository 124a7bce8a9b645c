/*
 * The tables that say where instructions come from: StackFrame, StackFrameFileLocation, StackFrameFileName,
 * StackFrameFunctionName of the framework, and KernelInstructions, KernelStackFrames, KernelIterationVariables of NKI
 * kernels. They hold what the NEFFs of the profile say, whether it ran or not. Ids count from 1 over all NEFFs, in the
 * order of the trace's list of them; those of kernels over all subgraphs.
 */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_SOURCE_TABLES_H
#define KYMO_PIPELINE_INSTRUCTIONS_SOURCE_TABLES_H

#include <stdint.h>

#include "pipeline/input.h"

/* Frame k of a NEFF is StackFrame base + k. */
uint32_t source_tables_frame_base(const struct input *in, const struct neff *neff);
int source_tables_write(const struct input *in, const char *dir, struct kymo_err *err) KYMO_MUST_CHECK;

#endif
