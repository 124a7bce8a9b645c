#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(kymo_arch_find("trn2"), kymo_arch_get(KYMO_GEN_TRN2));
    assert_ptr_equal(kymo_arch_find("Cayman"), kymo_arch_get(KYMO_GEN_TRN2));
    assert_ptr_equal(kymo_arch_find("NCv4"), kymo_arch_get(KYMO_GEN_TRN3));
    assert_ptr_equal(kymo_arch_find("inf2.24xlarge"), kymo_arch_get(KYMO_GEN_INF2));
    assert_ptr_equal(kymo_arch_find("sunda"), kymo_arch_get(KYMO_GEN_TRN1));
    assert_null(kymo_arch_find("trn9"));
    assert_null(kymo_arch_find(NULL));
    assert_null(kymo_arch_get(KYMO_GEN_MAX));
}

static void test_instances(void **state)
{
    (void)state;
    size_t n;
    const struct kymo_instance *all = kymo_instance_all(&n);
    for (size_t i = 0; i < n; i++) {
        const struct kymo_arch *a = kymo_arch_get(all[i].gen);
        assert_true(all[i].devices >= 1 && all[i].devices <= a->devices_max);
        assert_int_equal(kymo_arch_check_lnc(a, all[i].default_lnc, NULL), 0);
        assert_ptr_equal(kymo_instance_find(all[i].type), &all[i]);
    }
    assert_int_equal(kymo_instance_find("inf2.48xlarge")->devices, 12);
    assert_null(kymo_instance_find("m5.large"));
}

static void test_lnc(void **state)
{
    (void)state;
    struct kymo_err err = {0};
    assert_int_equal(kymo_arch_check_lnc(kymo_arch_find("trn1"), 2, &err), -EINVAL);
    assert_non_null(strstr(err.text, "Trn2 and Trn3"));
    assert_int_equal(kymo_arch_check_lnc(kymo_arch_find("trn3"), 2, &err), 0);
    assert_int_equal(kymo_arch_check_lnc(kymo_arch_find("trn3"), 3, &err), -EINVAL);
    assert_int_equal(kymo_arch_check_lnc(kymo_arch_find("trn3"), 0, &err), -EINVAL);
}

static void test_engines(void **state)
{
    (void)state;
    for (int e = 0; e < KYMO_ENGINE_MAX; e++) {
        enum kymo_engine k = (enum kymo_engine)e;
        assert_int_equal(kymo_engine_find(kymo_engine_name(k)), k);
        assert_int_equal(kymo_engine_find(kymo_engine_lower(k)), k);
        assert_int_equal(kymo_engine_find(kymo_engine_neff(k)), k);
        assert_int_equal(kymo_engine_of_debug(kymo_engine_debug(k)), k);
    }
    assert_int_equal(kymo_engine_find("ACT"), KYMO_ENGINE_SCALAR);
    assert_int_equal(kymo_engine_find("Activation"), KYMO_ENGINE_SCALAR);
    assert_int_equal(kymo_engine_find("DMA"), KYMO_ENGINE_INVALID);
    assert_int_equal(kymo_engine_of_debug(4), KYMO_ENGINE_INVALID);
    assert_int_equal(kymo_engine_debug(KYMO_ENGINE_VECTOR), 5);
    assert_string_equal(kymo_engine_name(KYMO_ENGINE_INVALID), "unknown");
}

/* The vendor's peak per core: 2 * 128 * 128 * clock, 92 and 79 TFLOP/s; sizes as in its tables. */
static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double tflops;
        uint64_t sbuf_mib;
        double stack;
    } want[] = {{"trn1", 91.75, 24, 410e9},
                {"inf2", 91.75, 24, 410e9},
                {"trn2", 78.64, 28, 725e9},
                {"trn3", 78.64, 32, 1225e9}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct kymo_arch *a = kymo_arch_find(want[i].name);
        double peak = 2.0 * a->pe_rows * a->pe_cols * a->clock_ghz[KYMO_ENGINE_TENSOR] / 1e3;
        assert_true(peak > want[i].tflops - 0.01 && peak < want[i].tflops + 0.01);
        assert_int_equal((uint64_t)a->sbuf_partitions * a->sbuf_partition_bytes, want[i].sbuf_mib << 20);
        assert_int_equal(a->psum_banks * a->psum_bank_bytes, a->psum_partition_bytes);
        assert_true(a->hbm_stack_bandwidth > want[i].stack * 0.999 && a->hbm_stack_bandwidth < want[i].stack * 1.001);
        assert_int_equal(a->h2d_engines * a->h2d_pcores_per_engine, a->pcores_per_device);
        assert_int_equal(a->ticks_per_ns, 1000);
        assert_true(a->h2d_queue_count > 0);
        for (size_t q = 0; q < a->h2d_queue_count; q++)
            assert_true(a->h2d_queues[q].queue + a->h2d_queue_stride * (a->h2d_pcores_per_engine - 1) < a->dma_queues);
        assert_int_equal(a->rescale, a->nc_generation == 2);
    }
}

/* Windows of different cores and regions never overlap, and the HBM lies outside of them. */
static void test_regions(void **state)
{
    (void)state;
    for (int g = 0; g < KYMO_GEN_MAX; g++) {
        const struct kymo_arch *a = kymo_arch_get((enum kymo_generation)g);
        unsigned core;
        uint64_t offset;
        for (unsigned k = 0; k < a->pcores_per_device; k++) {
            assert_int_equal(kymo_arch_region(a, a->sbuf_base + k * a->core_stride + 5, &core, &offset),
                             KYMO_REGION_SBUF);
            assert_true(core == k && offset == 5);
            uint64_t last = a->psum_base + k * a->core_stride + a->psum_window - 1;
            assert_int_equal(kymo_arch_region(a, last, &core, &offset), KYMO_REGION_PSUM);
            assert_true(core == k && offset == a->psum_window - 1);
            assert_int_equal(kymo_arch_region(a, last + 1, &core, &offset), KYMO_REGION_OTHER);
        }
        assert_int_equal(kymo_arch_region(a, a->hbm_base + a->hbm_bytes - 1, &core, &offset), KYMO_REGION_HBM);
        assert_int_equal(kymo_arch_region(a, UINT64_MAX, &core, &offset), KYMO_REGION_OTHER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),    cmocka_unit_test(test_instances), cmocka_unit_test(test_lnc),
        cmocka_unit_test(test_engines), cmocka_unit_test(test_values),    cmocka_unit_test(test_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
