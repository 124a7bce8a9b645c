/* Operand layouts of Trn3 (NCv4). MATMUL: row and column groups and flags at 42 are C; the performance mode behind them
 * and the rest, in the order of v5, are G. The MX forms follow their plain ones (G). */
#include "arch/layout_data.h"

static const struct kymo_operand_form matmul = {
    "matmul",
    {KYMO_AT_T(SRC, 16, 3), KYMO_AT_U(IN_DTYPE, 32, 1), KYMO_AT_U(FP32_MODE, 33, 1), KYMO_AT_U(OUT_DTYPE, 34, 1),
     KYMO_AT_U(ROWS, 35, 1), KYMO_AT_U(COLS, 36, 1), KYMO_AT_U(MM_FLAGS, 42, 1), KYMO_AT_U(PERF_MODE, 43, 1),
     KYMO_AT_T(DST, 48, 3)},
};

const struct kymo_operand_layouts kymo_layouts_trn3 = {
    .form = {KYMO_COMMON_FORMS, [KYMO_OP_MATMUL] = &matmul, [KYMO_OP_MATMUL_MX] = &matmul,
             [KYMO_OP_LDWEIGHTS_MX] = &kymo_form_weights},
};
