/*
 * What ran on one engine of one core for one NEFF: the device image from the NTFF, and for each of its slots the
 * compiler's record (facts: neff.md 2.6). The compiler's side is found by walking the list of rewrites ("way 2") and
 * checked against the image; when there is no such list or the check fails, both streams are aligned by their contents
 * ("way 3").
 */
#ifndef KYMO_PIPELINE_INSTRUCTIONS_PROGRAM_H
#define KYMO_PIPELINE_INSTRUCTIONS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/layout.h"
#include "pipeline/input.h"
#include "pipeline/rings/scan.h"

enum program_pc_mode {
    PROGRAM_PC_NONE, /* neither fits, or both do and differ: opcodes are not known */
    PROGRAM_PC_RELATIVE,
    PROGRAM_PC_ABSOLUTE,
};

enum program_map { PROGRAM_MAP_NONE, PROGRAM_MAP_PATCHES, PROGRAM_MAP_ALIGNED };

struct program {
    uint32_t node;
    unsigned pcore;
    enum kymo_engine engine;
    uint8_t *image; /* KYMO_INSTR_SIZE * slots */
    size_t slots;
    uint32_t base; /* start_address / 64 modulo 2^20 */
    enum program_pc_mode pc_mode;

    const struct neff_subgraph *subgraph; /* NULL: no NEFF */
    const struct neff_engine *compiled;
    enum program_map map;
    int32_t *compiler_pc; /* per slot, -1: none; NULL when map is NONE */
    size_t compared,
        equal; /* the self-check: unpatched slots, and those that equal the compiler's record byte for byte */
};

struct programs {
    struct program *list;
    size_t count;
    uint32_t *index; /* [node][pcore][engine] to list; UINT32_MAX: none */
    size_t nodes;
    enum program_pc_mode pc_mode;
};

/* Reads all images. */
int programs_open(struct programs *p, const struct input *in, struct kymo_err *err) KYMO_MUST_CHECK;
void programs_done(struct programs *p);
struct program *programs_find(const struct programs *p, uint32_t node, unsigned pcore, enum kymo_engine engine);
/* Tries both readings of the pc over the whole trace, sets pc_mode in all programs, and warns when it has to refuse. */
void programs_choose_pc(struct programs *p, const struct kymo_arch *arch, const struct scan *scan, struct warnings *w);
/* Finds the compiler's record of each slot. */
int programs_map_compiler(struct programs *p, const struct input *in, struct warnings *w,
                          struct kymo_err *err) KYMO_MUST_CHECK;

/* Slot of a trace pc, or -1 when it is outside the image. previous: the engine's last slot, which tells the high part
 * of bigger images. */
int64_t program_slot(const struct program *p, uint32_t pc, int64_t previous);
const uint8_t *program_record(const struct program *p, size_t slot);
/* NULL: runtime code, or no NEFF. */
const uint8_t *program_compiler_record(const struct program *p, size_t slot);

/* The two ways alone, for tests. patches and sections as in the NTFF. */
void program_walk(const Ntff__EngineInstructionInfo *info, Ntff__InstructionPatchInfo *const *patches, size_t n_patches,
                  size_t slots, int32_t *compiler_pc, uint8_t *patched);
int program_align(const uint8_t *image, size_t slots, const uint8_t *code, size_t count, int32_t *compiler_pc,
                  struct kymo_err *err) KYMO_MUST_CHECK;

#endif
