/* Operand layouts of Trn2 (NCv3). MATMUL: row group, column group and no flags byte are C; that the flags are the high
 * half of the column group is G, as is the rest, in the order of v5. */
#include "arch/layout_data.h"

static const struct kymo_operand_form matmul = {
    "matmul",
    {KYMO_AT_T(SRC, 16, 3), KYMO_AT_U(IN_DTYPE, 32, 1), KYMO_AT_U(FP32_MODE, 33, 1), KYMO_AT_U(OUT_DTYPE, 34, 1),
     KYMO_AT_U(ROWS, 35, 1), KYMO_AT_U(COLS, 36, 1), KYMO_AT_BITS(MM_FLAGS, 38, 4, 4), KYMO_AT_U(PERF_MODE, 40, 1),
     KYMO_AT_T(DST, 48, 3)},
};

const struct kymo_operand_layouts kymo_layouts_trn2 = {
    .form = {KYMO_COMMON_FORMS, [KYMO_OP_MATMUL] = &matmul},
};
