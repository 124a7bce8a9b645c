/* Trn2: NeuronCore v3. Letters are evidence classes; where a line has none, its whole group stands above it. */
#include "arch/arch_data.h"

const struct kymo_arch kymo_arch_trn2 = {
    .gen = KYMO_GEN_TRN2,
    .name = "Trn2", /* A, all names */
    .codename = "cayman",
    .nc_version = "NCv3",
    .device_name = "Trainium2",
    .nc_generation = 3, /* C */
    .lnc2 = true,       /* A */

    .pcores_per_device = 8, /* A: driver 2.24.7 */
    .devices_max = 16,      /* A: an UltraServer joins 4 such instances */
    .dma_engines = 16,      /* A */
    .dma_queues = 16,       /* A */
    .cc_cores = 16,         /* A: 16 usable; a guide says 20 */
    .semaphores = 256,      /* C */
    .events = 256,          /* C */
    .hardware_dge = 2,      /* A */

    .sbuf_partitions = 128, /* A, all memory sizes */
    .sbuf_partition_bytes = KYMO_KIB(224),
    .psum_partition_bytes = KYMO_KIB(16),
    .psum_banks = 8,
    .psum_bank_bytes = KYMO_KIB(2),
    .hbm_bytes = KYMO_GIB(96),
    .hbm_stacks = 4,
    .hbm_stack_bandwidth = 2.9e12 / 4, /* A: 2.9 TB/s per device */
    .dma_bandwidth = 3.5e12 / 8,       /* A: 3.5 TB/s per device */

    .pe_rows = 128,                           /* A */
    .pe_cols = 128,                           /* A */
    .vector_channels = 128,                   /* A */
    .scalar_channels = 128,                   /* A */
    .gpsimd_channels = 128,                   /* G: 8 processors of 16 lanes */
    .clock_ghz = {[KYMO_ENGINE_TENSOR] = 2.4, /* A, all clocks; Sync at the core's clock is G */
                  [KYMO_ENGINE_SCALAR] = 1.2,
                  [KYMO_ENGINE_GPSIMD] = 1.2,
                  [KYMO_ENGINE_VECTOR] = 0.96,
                  [KYMO_ENGINE_SYNC] = 1.2},
    .core_clock_ghz = 1.2,
    .cost = {[KYMO_COST_BF16] = 1.0, /* A, all costs; MX types do not exist before Trn3 */
             [KYMO_COST_FP32] = 4.0,
             [KYMO_COST_FP8] = 0.5,
             [KYMO_COST_UINT8] = 0.5},
    .ticks_per_ns = 1000, /* C */
    .rescale = false,     /* C states the correction for the second generation only */

    .h2d_first = 128, /* A: core / 2 serves, queue core % 2 */
    .h2d_engines = 4,
    .h2d_pcores_per_engine = 2, /* A: the seed page */
    .h2d_queue_stride = 1,      /* A for the driver's own queue, G for the others */
    .h2d_queues = kymo_arch_h2d_queues,
    .h2d_queue_count = 5,

    .dma_open = 1,           /* G */
    .dma_close = 5,          /* G */
    .pc_is_absolute = false, /* G */

    .sbuf_base = 0x2000000000, /* C for core 0; the stride and HBM at 0 are G */
    .sbuf_window = 0x2000000,
    .psum_base = 0x2802000000,
    .psum_window = 0x400000,
    .core_stride = 0x80000000,
    .hbm_base = 0,
    .sync_base = 0x2802700000, /* C */

    .layouts = &kymo_layouts_trn2,
};
