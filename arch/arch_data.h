/* The constant structs of the generations; arch.c alone includes this. */
#ifndef KYMO_ARCH_ARCH_DATA_H
#define KYMO_ARCH_ARCH_DATA_H

#include "arch/arch.h"

extern const struct kymo_arch kymo_arch_trn1;
extern const struct kymo_arch kymo_arch_inf2;
extern const struct kymo_arch kymo_arch_trn2;
extern const struct kymo_arch kymo_arch_trn3;

/* Host-device queues: the same five kinds of traffic everywhere (G), see arch_h2d.c. */
extern const struct kymo_h2d_queue kymo_arch_h2d_queues[];
extern const size_t kymo_arch_h2d_queue_count;

/* Operand layouts, layout_trn1.c to layout_trn3.c; Inf2 has the core of Trn1 and shares its table. */
extern const struct kymo_operand_layouts kymo_layouts_trn1;
extern const struct kymo_operand_layouts kymo_layouts_trn2;
extern const struct kymo_operand_layouts kymo_layouts_trn3;

#define KYMO_KIB(n) ((uint32_t)(n) << 10)
#define KYMO_GIB(n) ((uint64_t)(n) << 30)

#endif
