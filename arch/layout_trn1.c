/* Operand layouts of Trn1 and Inf2 (NCv2). MATMUL: input type at 32 and output type at 35 are C; the rest is G, in the
 * order of v5. */
#include "arch/layout_data.h"

static const struct kymo_operand_form matmul = {
    "matmul",
    {KYMO_AT_T(SRC, 16, 3), KYMO_AT_U(IN_DTYPE, 32, 1), KYMO_AT_U(FP32_MODE, 33, 1), KYMO_AT_U(OUT_DTYPE, 35, 1),
     KYMO_AT_U(ROWS, 36, 1), KYMO_AT_U(COLS, 37, 1), KYMO_AT_U(MM_FLAGS, 39, 1), KYMO_AT_T(DST, 48, 3)},
};

const struct kymo_operand_layouts kymo_layouts_trn1 = {
    .form = {KYMO_COMMON_FORMS, [KYMO_OP_MATMUL] = &matmul},
};
