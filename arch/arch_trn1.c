/* Trn1: NeuronCore v2. Letters are evidence classes; where a line has none, its whole group stands above it. */
#include "arch/arch_data.h"

const struct kymo_arch kymo_arch_trn1 = {
    .gen = KYMO_GEN_TRN1,
    .name = "Trn1", /* A, all names */
    .codename = "sunda",
    .nc_version = "NCv2",
    .device_name = "Trainium1",
    .nc_generation = 2, /* C */
    .lnc2 = false,      /* A */

    .pcores_per_device = 2, /* A */
    .devices_max = 16,      /* A */
    .dma_engines = 16,      /* A */
    .dma_queues = 16,       /* A */
    .cc_cores = 6,          /* A */
    .semaphores = 256,      /* C */
    .events = 256,          /* C */
    .hardware_dge = 0,      /* A: none */

    .sbuf_partitions = 128, /* A, all memory sizes */
    .sbuf_partition_bytes = KYMO_KIB(192),
    .psum_partition_bytes = KYMO_KIB(16),
    .psum_banks = 8,
    .psum_bank_bytes = KYMO_KIB(2),
    .hbm_bytes = KYMO_GIB(32),
    .hbm_stacks = 2,
    .hbm_stack_bandwidth = 820e9 / 2, /* A: 820 GB/s per device */
    .dma_bandwidth = 1e12 / 2,        /* A: 1 TB/s per device */

    .pe_rows = 128,                           /* A */
    .pe_cols = 128,                           /* A */
    .vector_channels = 128,                   /* A */
    .scalar_channels = 128,                   /* A */
    .gpsimd_channels = 128,                   /* G: 8 processors of 16 lanes */
    .clock_ghz = {[KYMO_ENGINE_TENSOR] = 2.8, /* A, all clocks; Sync at the core's clock is G */
                  [KYMO_ENGINE_SCALAR] = 1.4,
                  [KYMO_ENGINE_GPSIMD] = 1.4,
                  [KYMO_ENGINE_VECTOR] = 1.12,
                  [KYMO_ENGINE_SYNC] = 1.4},
    .core_clock_ghz = 1.4,
    .cost = {[KYMO_COST_BF16] = 1.0, /* A, all costs; MX types do not exist before Trn3 */
             [KYMO_COST_FP32] = 4.0,
             [KYMO_COST_FP8] = 1.0,
             [KYMO_COST_UINT8] = 0.5},
    .ticks_per_ns = 1000, /* C */
    .rescale = true,      /* C M */

    .h2d_first = 32, /* A: ids 32 and 33; that 32 is core 0's is A M */
    .h2d_engines = 2,
    .h2d_pcores_per_engine = 1, /* A: the seed page */
    .h2d_queue_stride = 1,      /* G */
    .h2d_queues = kymo_arch_h2d_queues,
    .h2d_queue_count = 5,

    .dma_open = 1,           /* G */
    .dma_close = 5,          /* G */
    .pc_is_absolute = false, /* G */

    .sbuf_base = 0x2000000000, /* G: Trn2's map */
    .sbuf_window = 0x2000000,
    .psum_base = 0x2802000000,
    .psum_window = 0x400000,
    .core_stride = 0x80000000,
    .hbm_base = 0,
    .sync_base = 0x2802700000, /* G */

    .layouts = &kymo_layouts_trn1,
};
