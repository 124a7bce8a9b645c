#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/opcode.h"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        uint8_t number;
        const char *name;
    } want[] = {
        {KYMO_OP_LDWEIGHTS, "LDWEIGHTS"},
        {KYMO_OP_MATMUL, "MATMUL"},
        {KYMO_OP_TENSOR_TENSOR, "TENSOR_TENSOR"},
        {KYMO_OP_TENSOR_REDUCE, "TENSOR_REDUCE_ARITH"},
        {KYMO_OP_WRITE, "WRITE"},
        {KYMO_OP_EVENT_SEMAPHORE, "EVENT_SEMAPHORE"},
        {KYMO_OP_DMA_DIRECT2D, "DMA_DIRECT2D"},
        {KYMO_OP_PSEUDO_DMA_TRIGGER, "PSEUDO_DMA_TRIGGER"},
        {KYMO_OP_PSEUDO_DMA_DIRECT2D, "PSEUDO_DMA_DIRECT2D"},
        {KYMO_OP_PSEUDO_BRANCH_LABEL, "PSEUDO_BRANCH_LABEL"},
        {0x8A, "TENSOR_TENSOR_ADD_BF16"},
        {0xFF, "INVALID"},
    };
    char buf[32];
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_string_equal(kymo_opcode_name(want[i].number, buf, sizeof buf), want[i].name);
    assert_null(kymo_opcode_get(0x04));
    assert_string_equal(kymo_opcode_name(0x04, buf, sizeof buf), "Operation(4)");
}

/* Names are unique, pseudo numbers are 0xC1 to 0xDF and say so, and only the schema's ten opcodes are set-up. */
static void test_table(void **state)
{
    (void)state;
    unsigned count = 0, setup = 0;
    for (unsigned n = 0; n < 256; n++) {
        const struct kymo_opcode *op = kymo_opcode_get((uint8_t)n);
        if (!op)
            continue;
        count++;
        setup += op->setup;
        assert_int_equal(op->number, n);
        assert_int_equal(op->op_class == KYMO_OPC_PSEUDO, n >= 0xC1 && n <= 0xDF);
        assert_int_equal(strncmp(op->name, "PSEUDO_", 7) == 0, op->op_class == KYMO_OPC_PSEUDO);
        assert_true(op->engines != 0 && op->first_nc_gen >= 2 && op->first_nc_gen <= op->last_nc_gen);
        for (unsigned m = n + 1; m < 256; m++)
            if (kymo_opcode_get((uint8_t)m))
                assert_string_not_equal(op->name, kymo_opcode_get((uint8_t)m)->name);
    }
    assert_int_equal(count, 169);
    assert_int_equal(setup, 10);
}

static void test_legal(void **state)
{
    (void)state;
    const struct kymo_arch *trn1 = kymo_arch_find("trn1"), *trn3 = kymo_arch_find("trn3");
    assert_true(kymo_opcode_legal(trn1, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL));
    assert_false(kymo_opcode_legal(trn1, KYMO_ENGINE_VECTOR, KYMO_OP_MATMUL));
    assert_true(kymo_opcode_legal(trn1, KYMO_ENGINE_GPSIMD, KYMO_OP_TENSOR_TENSOR));
    assert_false(kymo_opcode_legal(trn1, KYMO_ENGINE_SCALAR, KYMO_OP_TENSOR_TENSOR));
    assert_true(kymo_opcode_legal(trn1, KYMO_ENGINE_SYNC, KYMO_OP_EVENT_SEMAPHORE));
    assert_false(kymo_opcode_legal(trn1, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL_MX));
    assert_true(kymo_opcode_legal(trn3, KYMO_ENGINE_TENSOR, KYMO_OP_MATMUL_MX));
    assert_true(kymo_opcode_legal(trn1, KYMO_ENGINE_VECTOR, 0x8A));
    assert_false(kymo_opcode_legal(trn3, KYMO_ENGINE_VECTOR, 0x8A));
    assert_false(kymo_opcode_legal(trn3, KYMO_ENGINE_SCALAR, 0x26));
    assert_false(kymo_opcode_legal(trn3, KYMO_ENGINE_INVALID, KYMO_OP_NOP));
    assert_false(kymo_opcode_legal(trn3, KYMO_ENGINE_SYNC, 0x04));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
