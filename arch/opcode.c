#include "arch/opcode.h"

#include <stdio.h>

#define PE (1u << KYMO_ENGINE_TENSOR)
#define ACT (1u << KYMO_ENGINE_SCALAR)
#define VG ((1u << KYMO_ENGINE_VECTOR) | (1u << KYMO_ENGINE_GPSIMD))
#define ANY ((1u << KYMO_ENGINE_MAX) - 1)

static const struct kymo_opcode opcodes[256] = {
#define OP(num, nm, cls, eng, first, last, stp)                                                                        \
    [num] = {.number = (num),                                                                                          \
             .name = #nm,                                                                                              \
             .op_class = KYMO_OPC_##cls,                                                                               \
             .engines = (uint8_t)(eng),                                                                                \
             .first_nc_gen = (first),                                                                                  \
             .last_nc_gen = (last),                                                                                    \
             .setup = (stp)},
#include "arch/opcode.def"
#undef OP
};

const struct kymo_opcode *kymo_opcode_get(uint8_t number)
{
    return opcodes[number].name ? &opcodes[number] : NULL;
}

const char *kymo_opcode_name(uint8_t number, char *buf, size_t n)
{
    if (opcodes[number].name)
        return opcodes[number].name;
    (void)snprintf(buf, n, "Operation(%u)", number);
    return buf;
}

bool kymo_opcode_on_sequencer(const struct kymo_opcode *op)
{
    return op->op_class != KYMO_OPC_COMPUTE;
}

bool kymo_opcode_legal(const struct kymo_arch *arch, enum kymo_engine engine, uint8_t number)
{
    const struct kymo_opcode *op = &opcodes[number];
    if (!op->name || (unsigned)engine >= KYMO_ENGINE_MAX || !(op->engines >> engine & 1))
        return false;
    return arch->nc_generation >= op->first_nc_gen && arch->nc_generation <= op->last_nc_gen;
}
