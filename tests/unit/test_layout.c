#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/opcode.h"

static const struct kymo_arch *gen(unsigned g)
{
    return kymo_arch_get((enum kymo_generation)g);
}

static unsigned field_bytes(const struct kymo_field_at *at)
{
    return at->kind == KYMO_FK_TENSOR ? 4u + 4u * at->width : at->width;
}

/* Fields lie behind the common bytes, inside the record, and share a byte only as packed bits. */
static void test_forms_do_not_overlap(void **state)
{
    (void)state;
    for (unsigned g = 0; g < KYMO_GEN_MAX; g++)
        for (unsigned op = 0; op < 256; op++) {
            const struct kymo_operand_form *form = gen(g)->layouts->form[op];
            uint64_t bits[KYMO_INSTR_SIZE] = {0};
            for (unsigned f = 0; form && f < KYMO_F_MAX; f++) {
                const struct kymo_field_at *at = &form->at[f];
                if (at->kind == KYMO_FK_NONE)
                    continue;
                assert_true(at->byte >= 12 && at->byte + field_bytes(at) <= KYMO_INSTR_SIZE);
                uint64_t mask = at->bits ? ((1u << at->bits) - 1) << at->shift : 0xFF;
                for (unsigned b = 0; b < field_bytes(at); b++) {
                    assert_int_equal(bits[at->byte + b] & mask, 0);
                    bits[at->byte + b] |= mask;
                }
            }
            if (form)
                assert_non_null(kymo_opcode_get((uint8_t)op));
        }
}

static void round_trip_uint(const struct kymo_arch *a, uint8_t *rec, enum kymo_field f, const struct kymo_field_at *at)
{
    unsigned bits = at->bits ? at->bits : 8u * at->width;
    uint64_t max = bits == 64 ? UINT64_MAX : (1ull << bits) - 1, v;
    int64_t i;
    if (at->kind == KYMO_FK_INT) {
        assert_int_equal(kymo_layout_set(a, rec, f, (uint64_t)-2), 0);
        assert_true(kymo_layout_get_int(a, rec, f, &i) && i == -2);
        if (bits < 64)
            assert_int_equal(kymo_layout_set(a, rec, f, max), -ERANGE);
        return;
    }
    const uint64_t values[] = {0, 1, max, max / 3};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        assert_int_equal(kymo_layout_set(a, rec, f, values[k]), 0);
        assert_true(kymo_layout_get(a, rec, f, &v) && v == values[k]);
    }
    if (bits < 64)
        assert_int_equal(kymo_layout_set(a, rec, f, max + 1), -ERANGE);
}

static void round_trip_tensor(const struct kymo_arch *a, uint8_t *rec, enum kymo_field f, unsigned dims)
{
    struct kymo_tensor t = {.addr = 0x02001234, .dims = (uint8_t)dims}, back;
    for (unsigned d = 0; d < dims; d++) {
        t.step[d] = (int16_t)(-300 - (int)d);
        t.count[d] = (uint16_t)(65000 + d);
    }
    assert_int_equal(kymo_layout_set_tensor(a, rec, f, &t), 0);
    assert_true(kymo_layout_get_tensor(a, rec, f, &back));
    assert_memory_equal(&t, &back, sizeof t);
    t.dims = (uint8_t)(dims + 1);
    assert_int_equal(kymo_layout_set_tensor(a, rec, f, &t), -ERANGE);
}

/* Every field of every form of every generation: what is set comes back, and the neighbours keep their bytes. */
static void test_round_trips(void **state)
{
    (void)state;
    unsigned fields = 0;
    for (unsigned g = 0; g < KYMO_GEN_MAX; g++)
        for (unsigned op = 0; op < 256; op++) {
            const struct kymo_operand_form *form = gen(g)->layouts->form[op];
            for (unsigned k = 0; k < KYMO_F_MAX; k++) {
                enum kymo_field f = (enum kymo_field)k;
                uint8_t rec[KYMO_INSTR_SIZE], before[KYMO_INSTR_SIZE];
                memset(before, 0xA5, sizeof before);
                before[0] = (uint8_t)op;
                memcpy(rec, before, sizeof rec);
                uint64_t v;
                if (!form || form->at[k].kind == KYMO_FK_NONE) {
                    assert_false(kymo_layout_get(gen(g), rec, f, &v));
                    assert_int_equal(kymo_layout_set(gen(g), rec, f, 0), -EINVAL);
                    assert_int_equal(kymo_layout_set_chars(gen(g), rec, f, "x"), -EINVAL);
                    continue;
                }
                const struct kymo_field_at *at = &form->at[k];
                char text[33];
                if (at->kind == KYMO_FK_TENSOR) {
                    round_trip_tensor(gen(g), rec, f, at->width);
                } else if (at->kind == KYMO_FK_CHARS) {
                    assert_int_equal(kymo_layout_set_chars(gen(g), rec, f, "qSyncIO0"), 0);
                    assert_true(kymo_layout_get_chars(gen(g), rec, f, text, sizeof text));
                    assert_string_equal(text, "qSyncIO0");
                } else {
                    round_trip_uint(gen(g), rec, f, at);
                }
                memset(rec + at->byte, 0xA5, field_bytes(at));
                assert_memory_equal(rec, before, sizeof rec);
                fields++;
            }
        }
    print_message("%u fields went round\n", fields);
    assert_true(fields > 800);
}

static void test_addresses(void **state)
{
    (void)state;
    struct kymo_addr a = kymo_addr_decode(0x02001000); /* worked in the facts */
    assert_true(a.psum && a.partition == 0 && a.bank == 2 && a.offset == 0x1000 && a.mark == 0);
    a = kymo_addr_decode(0x2120);
    assert_true(!a.psum && a.partition == 0 && a.offset == 0x2120);
    assert_int_equal(kymo_addr_psum(64, 6, 4), 0x02000000 | 2 << 23 | 0x3004);
    a = kymo_addr_decode(kymo_addr_psum(64, 6, 4));
    assert_true(a.psum && a.partition == 64 && a.bank == 6);
    assert_int_equal(kymo_addr_sbuf(96, 0x37FFF), 3 << 23 | 0x37FFF);
    assert_int_equal(kymo_addr_decode(0x80000005).mark, KYMO_ADDR_REGISTER);
}

static void set(const struct kymo_arch *a, uint8_t *rec, enum kymo_field f, uint64_t v)
{
    assert_int_equal(kymo_layout_set(a, rec, f, v), 0);
}

static void set_tensor(const struct kymo_arch *a, uint8_t *rec, enum kymo_field f, uint32_t addr, int16_t step,
                       uint16_t count)
{
    struct kymo_tensor t = {.addr = addr, .dims = 1, .step = {step}, .count = {count}};
    assert_int_equal(kymo_layout_set_tensor(a, rec, f, &t), 0);
}

static void make_matmul(const struct kymo_arch *a, uint8_t *rec)
{
    kymo_instr_init(rec, KYMO_OP_MATMUL);
    kymo_instr_set_wait(rec, KYMO_WAIT_GE, 15, 1);
    kymo_instr_set_update(rec, KYMO_UPD_INC | KYMO_UPD_COMPLETE, 15, 0);
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_sbuf(0, 0x2120), 1, 512);
    set_tensor(a, rec, KYMO_F_DST, kymo_addr_psum(0, 6, 0), 1, 512);
    set(a, rec, KYMO_F_IN_DTYPE, KYMO_DT_BF16);
    set(a, rec, KYMO_F_OUT_DTYPE, KYMO_DT_FP32);
    set(a, rec, KYMO_F_ROWS, 128);
    set(a, rec, KYMO_F_COLS, 64);
    set(a, rec, KYMO_F_MM_FLAGS, KYMO_MM_BEGIN | KYMO_MM_TRANSPOSE);
}

/* 512 columns of 128 rows of bf16 in; 512 x 64 fp32 out, exactly one bank of 2 KiB per partition. */
static void test_matmul(void **state)
{
    (void)state;
    for (unsigned g = 0; g < KYMO_GEN_MAX; g++) {
        uint8_t rec[KYMO_INSTR_SIZE];
        char text[256];
        make_matmul(gen(g), rec);
        kymo_instr_text(gen(g), rec, text, sizeof text);
        assert_string_equal(text, "$S[15]>=1 $S[15]++@complete src=0x2120 src_pattern=[1,512][0,1][0,1] dst=0x2003000 "
                                  "dst_pattern=[1,512][0,1][0,1] dtype=bf16 out_dtype=fp32 rows=128 cols=64 flags=0x3");
        kymo_instr_symbolic(gen(g), rec, text, sizeof text);
        assert_string_equal(text, "src=SBUF(partition=0,offset=0x2120) dst=PSUM(partition=0,bank=6,offset=0)");
        struct kymo_footprint fp = kymo_instr_footprint(gen(g), rec);
        assert_true(fp.matmul && fp.transpose && fp.acc_begin && !fp.acc_continue && !fp.half_pass);
        assert_true(fp.elements == 512 && fp.rows == 128 && fp.cols == 64 && fp.dtype == KYMO_DT_BF16);
        assert_true(fp.sbuf_read == 512 * 128 * 2 && fp.psum_write == 512 * 64 * 4);
        assert_true(fp.psum_write_banks == 1 << 6 && fp.psum_read_banks == 0 && fp.psum_read == 0);
        set(gen(g), rec, KYMO_F_MM_FLAGS, KYMO_MM_END);
        set(gen(g), rec, KYMO_F_FP32_MODE, 2);
        fp = kymo_instr_footprint(gen(g), rec);
        assert_true(fp.acc_continue && !fp.acc_begin && !fp.transpose && fp.half_pass);
        set(gen(g), rec, KYMO_F_FP32_MODE, 3);
        assert_false(kymo_instr_footprint(gen(g), rec).half_pass);
    }
}

static void test_footprint_vector(void **state)
{
    (void)state;
    const struct kymo_arch *a = kymo_arch_find("trn2");
    uint8_t rec[KYMO_INSTR_SIZE];
    kymo_instr_init(rec, KYMO_OP_TENSOR_TENSOR);
    /* 600 fp32 at offset 0x0C00 of bank 0's half: bytes 3072 to 5471, banks 1 and 2. */
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_psum(0, 1, 1024), 1, 600);
    set_tensor(a, rec, KYMO_F_SRC1, kymo_addr_sbuf(0, 64), 1, 600);
    set_tensor(a, rec, KYMO_F_DST, kymo_addr_sbuf(0, 8192), 1, 600);
    set(a, rec, KYMO_F_IN_DTYPE, KYMO_DT_FP32);
    set(a, rec, KYMO_F_IN1_DTYPE, KYMO_DT_BF16);
    set(a, rec, KYMO_F_OUT_DTYPE, KYMO_DT_BF16);
    set(a, rec, KYMO_F_CHANNELS, 32);
    struct kymo_footprint fp = kymo_instr_footprint(a, rec);
    assert_true(fp.psum_read_banks == 6 && fp.psum_write_banks == 0 && fp.elements == 600);
    assert_true(fp.psum_read == 600 * 32 * 4 && fp.sbuf_read == 600 * 32 * 2 && fp.sbuf_write == 600 * 32 * 2);
    assert_int_equal(fp.psum_read_sbuf_write, 600 * 32 * 2);
    /* A stride of 512 fp32 reaches one element in each bank; a negative one from the last bank touches them backwards.
     */
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_psum(0, 0, 0), 512, 8);
    assert_int_equal(kymo_instr_footprint(a, rec).psum_read_banks, 0xFF);
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_psum(0, 7, 0), -512, 2);
    assert_int_equal(kymo_instr_footprint(a, rec).psum_read_banks, 0xC0);
    /* The end is exclusive: 512 elements stay in their bank, and reaching past PSUM is cut. */
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_psum(0, 7, 0), 1, 512);
    assert_int_equal(kymo_instr_footprint(a, rec).psum_read_banks, 0x80);
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_psum(0, 7, 0), 1, 60000);
    assert_int_equal(kymo_instr_footprint(a, rec).psum_read_banks, 0x80);
    set_tensor(a, rec, KYMO_F_SRC, kymo_addr_psum(0, 7, 0), 1, 0);
    assert_int_equal(kymo_instr_footprint(a, rec).psum_read_banks, 0);
    set_tensor(a, rec, KYMO_F_SRC, 0x80000003, 1, 600);
    fp = kymo_instr_footprint(a, rec);
    assert_true(fp.psum_read == 0 && fp.psum_read_banks == 0);
}

static void check_text(const uint8_t *rec, const char *want)
{
    char text[512];
    kymo_instr_text(kymo_arch_find("trn2"), rec, text, sizeof text);
    assert_string_equal(text, want);
}

static void test_sync_text(void **state)
{
    (void)state;
    static const struct {
        uint8_t wait, update;
        const char *text;
    } want[] = {
        {KYMO_WAIT_EQ, 0, "$S[3]==9"},
        {KYMO_WAIT_LT, 0, "$S[3]<9"},
        {KYMO_WAIT_GE | KYMO_WAIT_REGISTER, 0, "$S[3]>=$R[9]"},
        {KYMO_WAIT_EVT_SET, 0, "$E[3]==1"},
        {KYMO_WAIT_EVT_SET_CLEAR, 0, "$E[3]==1&clear"},
        {KYMO_WAIT_EVT_CLEAR_SET, 0, "$E[3]==0&set"},
        {KYMO_WAIT_UNORDERED, 0, "unordered"},
        {0x33, 0, "wait=0x33,3,9"},
        {0, KYMO_UPD_EVT_SET, "$E[4]=1@read"},
        {0, KYMO_UPD_DEC | KYMO_UPD_COMPLETE, "$S[4]--@complete"},
        {0, KYMO_UPD_ADD, "$S[4]+=9@read"},
        {0, KYMO_UPD_SUB | KYMO_UPD_COMPLETE, "$S[4]-=9@complete"},
        {0, 0x99, "$S[4]=$R[9]@complete"},
        {0, 0x0F, "update=0xf,4,9"},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        uint8_t rec[KYMO_INSTR_SIZE];
        kymo_instr_init(rec, KYMO_OP_NOP);
        kymo_instr_set_wait(rec, want[i].wait, 3, 9);
        kymo_instr_set_update(rec, want[i].update, 4, 9);
        check_text(rec, want[i].text);
    }
}

static void test_event_semaphore(void **state)
{
    (void)state;
    uint8_t rec[KYMO_INSTR_SIZE];
    kymo_instr_init(rec, KYMO_OP_EVENT_SEMAPHORE);
    kymo_instr_set_wait(rec, KYMO_WAIT_GE, 7, 16);
    kymo_instr_set_update(rec, KYMO_UPD_INC, 8, 99); /* no operand: the wait's value stays */
    struct kymo_sync s = {.wait_mode = KYMO_WAIT_GE,
                          .wait_idx = 9,
                          .wait_value = 2,
                          .update_mode = KYMO_UPD_SUB | KYMO_UPD_COMPLETE,
                          .update_idx = 9,
                          .update_value = 2},
                     back;
    kymo_instr_set_sync2(rec, &s);
    check_text(rec, "$S[7]>=16 $S[8]++@read $S[9]>=2 $S[9]-=2@complete");
    assert_true(kymo_instr_sync2(rec, &back));
    assert_memory_equal(&s, &back, sizeof s);
    back = kymo_instr_sync(rec);
    assert_true(back.wait_value == 16 && back.update_mode == KYMO_UPD_INC && back.update_idx == 8);
    rec[0] = KYMO_OP_NOP;
    assert_false(kymo_instr_sync2(rec, &back));
}

static void test_other_text(void **state)
{
    (void)state;
    const struct kymo_arch *a = kymo_arch_find("trn2");
    uint8_t rec[KYMO_INSTR_SIZE];
    kymo_instr_init(rec, KYMO_OP_WRITE);
    set(a, rec, KYMO_F_ADDR, 0xffff026f038);
    set(a, rec, KYMO_F_VALUE, 0xd);
    check_text(rec, "data=0xd size=4 dst=0xffff026f038");
    kymo_instr_init(rec, KYMO_OP_PSEUDO_DMA_TRIGGER);
    assert_int_equal(kymo_layout_set_chars(a, rec, KYMO_F_QUEUE_NAME, "qSyncIO0"), 0);
    set(a, rec, KYMO_F_BLOCK_ID, 12);
    check_text(rec, "queue=qSyncIO0 id=12");
    assert_int_equal(kymo_layout_set_chars(a, rec, KYMO_F_QUEUE_NAME, "123456789012345678901234567890123"), -ERANGE);
    kymo_instr_init(rec, KYMO_OP_COMPARE_BRANCH);
    set(a, rec, KYMO_F_REG_A, 1);
    set(a, rec, KYMO_F_BRANCH_OP, KYMO_BR_LT);
    set(a, rec, KYMO_F_VALUE, 64);
    set(a, rec, KYMO_F_TARGET, (uint64_t)-12);
    check_text(rec, "src=$R[1] op=lt value=64 target=-12");
    kymo_instr_init(rec, 0x6A);
    rec[13] = 0xAB;
    check_text(rec, "data=0x00ab");
    kymo_instr_init(rec, KYMO_OP_ACTIVATE);
    set_tensor(a, rec, KYMO_F_SRC, 0xA0000005, 1, 8);
    set_tensor(a, rec, KYMO_F_DST, kymo_addr_sbuf(32, 256), 1, 8);
    set(a, rec, KYMO_F_ACT_FN, KYMO_ACT_GELU);
    check_text(
        rec,
        "src=*$R[5] src_pattern=[1,8][0,1][0,1] dst=0x800100 dst_pattern=[1,8][0,1][0,1] channels=0 fn=gelu imm0=0x0");
}

static void test_dma(void **state)
{
    (void)state;
    const struct kymo_arch *a = kymo_arch_find("trn2");
    uint8_t rec[KYMO_INSTR_SIZE];
    char text[512];
    kymo_instr_init(rec, KYMO_OP_DMA_DIRECT2D);
    set(a, rec, KYMO_F_SRC_ADDR64, 0x1000);
    set(a, rec, KYMO_F_DST_ADDR64, a->sbuf_base + a->core_stride + 64 * (a->sbuf_window / 128) + 0x40);
    set(a, rec, KYMO_F_SRC_STEP0, 2048);
    set(a, rec, KYMO_F_SRC_COUNT0, 64);
    set(a, rec, KYMO_F_SRC_ELEM, 512);
    set(a, rec, KYMO_F_DMA_SEM, 40);
    set(a, rec, KYMO_F_DMA_SEM_INC, 16);
    assert_int_equal(kymo_instr_dma_bytes(a, rec), 512 * 64);
    kymo_instr_symbolic(a, rec, text, sizeof text);
    assert_string_equal(text, "dst=SBUF(partition=64,offset=0x40)");
    check_text(rec, "src=0x1000 src_pattern=[2048,64][0,0] src_size=512 dst=0x2081000040 dst_pattern=[0,0][0,0] "
                    "dst_size=0 semaphore=40 inc=16");
    kymo_instr_init(rec, KYMO_OP_NOP);
    assert_int_equal(kymo_instr_dma_bytes(a, rec), 0);
}

static void test_dma_variables(void **state)
{
    (void)state;
    const struct kymo_arch *a = kymo_arch_find("trn2");
    struct kymo_var_ref ref = {7, 7};
    assert_false(kymo_addr64_variable(0x2080000000, &ref));       /* a device address */
    assert_false(kymo_addr64_variable(0x2000000500000040, &ref)); /* a table's entry */
    assert_false(kymo_addr64_variable(0x2800000500000003, &ref)); /* and an offset in a register */
    assert_false(kymo_addr64_variable(0x9000000500000003, &ref)); /* a register */
    assert_true(ref.var_id == 7 && ref.offset == 7);
    uint64_t addr = kymo_addr64_of_variable((struct kymo_var_ref){0x123456, 0x89ABCDEF});
    assert_true(addr == 0x1012345689ABCDEF);
    assert_true(kymo_addr64_variable(addr, &ref) && ref.var_id == 0x123456 && ref.offset == 0x89ABCDEF);
    assert_true(kymo_addr64_variable(addr | (uint64_t)KYMO_ADDR64_SHAPE_REGISTER << 56, &ref));
    uint8_t rec[KYMO_INSTR_SIZE];
    kymo_instr_init(rec, KYMO_OP_PSEUDO_DMA_DIRECT2D);
    set(a, rec, KYMO_F_SRC_ADDR64, kymo_addr64_of_variable((struct kymo_var_ref){3, 0x200}));
    set(a, rec, KYMO_F_DST_ADDR64, 0x2000000500000040);
    check_text(rec, "src_var_id=3 src_offset=0x200 src_pattern=[0,0][0,0] src_size=0 dst=0x2000000500000040 "
                    "dst_pattern=[0,0][0,0] dst_size=0 semaphore=0 inc=0");
}

/* Text is cut, never overrun, at every length. */
static void test_text_is_cut(void **state)
{
    (void)state;
    uint8_t rec[KYMO_INSTR_SIZE];
    char whole[512], part[512];
    make_matmul(gen(0), rec);
    kymo_instr_text(gen(0), rec, whole, sizeof whole);
    for (size_t n = 0; n <= strlen(whole) + 1; n++) {
        memset(part, '#', sizeof part);
        kymo_instr_text(gen(0), rec, part, n);
        assert_int_equal(part[n], '#');
        if (n)
            assert_true(strlen(part) == n - 1 && !strncmp(part, whole, n - 1));
    }
}

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(kymo_update_operation(0), "none");
    assert_null(kymo_update_timing(0));
    assert_string_equal(kymo_update_operation(0x13), "sem_inc");
    assert_string_equal(kymo_update_timing(0x13), "complete");
    assert_string_equal(kymo_update_operation(9), "sem_wr_imm");
    assert_string_equal(kymo_update_timing(9), "read");
    assert_string_equal(kymo_update_operation(0x99), "unknown");
    assert_string_equal(kymo_update_operation(0x10), "unknown");
    assert_null(kymo_update_timing(0x10));
    assert_int_equal(kymo_dtype_bits(KYMO_DT_BF16), 16);
    assert_int_equal(kymo_dtype_bits(0), 0);
    assert_null(kymo_dtype_name(200));
    assert_string_equal(kymo_dtype_name(KYMO_DT_FP8_E4), "fp8_e4");
    assert_int_equal(kymo_dtype_cost(KYMO_DT_FP32), KYMO_COST_FP32);
    assert_int_equal(kymo_dtype_cost(KYMO_DT_FP8_E5), KYMO_COST_FP8);
    assert_string_equal(kymo_act_fn_name(KYMO_ACT_EXP), "exp");
    assert_string_equal(kymo_act_fn_name(KYMO_ACT_RECIPROCAL), "reciprocal");
    assert_null(kymo_act_fn_name(1000));
    assert_string_equal(kymo_alu_op_name(0x20), "abs_max");
    assert_null(kymo_alu_op_name(0x1F));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_do_not_overlap),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_footprint_vector),
        cmocka_unit_test(test_sync_text),
        cmocka_unit_test(test_event_semaphore),
        cmocka_unit_test(test_other_text),
        cmocka_unit_test(test_dma),
        cmocka_unit_test(test_dma_variables),
        cmocka_unit_test(test_text_is_cut),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
