/* Trn3: NeuronCore v4. Letters are evidence classes; where a line has none, its whole group stands above it. */
#include "arch/arch_data.h"

const struct kymo_arch kymo_arch_trn3 = {
    .gen = KYMO_GEN_TRN3,
    .name = "Trn3", /* A, all names */
    .codename = "mariana",
    .nc_version = "NCv4",
    .device_name = "Trainium3",
    .nc_generation = 4, /* C */
    .lnc2 = true,       /* A */

    .pcores_per_device = 8, /* A: driver 2.25.4 */
    .devices_max = 16,      /* A: of a first generation server; a second generation one has 4 */
    .dma_engines = 16,      /* A */
    .dma_queues = 16,       /* A */
    .cc_cores = 16,         /* A: 16 usable; a guide says 20 */
    .semaphores = 256,      /* C */
    .events = 256,          /* C */
    .hardware_dge = 2,      /* A as Trn2; whether there are more is unknown */

    .sbuf_partitions = 128, /* A, all memory sizes */
    .sbuf_partition_bytes = KYMO_KIB(256),
    .psum_partition_bytes = KYMO_KIB(16),
    .psum_banks = 8,
    .psum_bank_bytes = KYMO_KIB(2),
    .hbm_bytes = KYMO_GIB(144),
    .hbm_stacks = 4,
    .hbm_stack_bandwidth = 4.9e12 / 4, /* A: 4.9 TB/s per device; a guide says 4.7 */
    .dma_bandwidth = 4.9e12 / 8,       /* A: 4.9 TB/s per device */

    .pe_rows = 128,                           /* A */
    .pe_cols = 128,                           /* A */
    .vector_channels = 128,                   /* A */
    .scalar_channels = 128,                   /* A */
    .gpsimd_channels = 128,                   /* G: 8 processors of 16 lanes */
    .clock_ghz = {[KYMO_ENGINE_TENSOR] = 2.4, /* A, all clocks; Sync at the core's clock is G */
                  [KYMO_ENGINE_SCALAR] = 1.2,
                  [KYMO_ENGINE_GPSIMD] = 1.2,
                  [KYMO_ENGINE_VECTOR] = 1.2,
                  [KYMO_ENGINE_SYNC] = 1.2},
    .core_clock_ghz = 1.2,
    .cost = {[KYMO_COST_BF16] = 1.0, /* A, all costs */
             [KYMO_COST_FP32] = 4.0,
             [KYMO_COST_FP8] = 0.5,
             [KYMO_COST_UINT8] = 0.5,
             [KYMO_COST_MX] = 0.25},
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

    .sbuf_base = 0x4000000000, /* G: Trn2's map, moved above 144 GiB of HBM */
    .sbuf_window = 0x2000000,
    .psum_base = 0x4802000000,
    .psum_window = 0x400000,
    .core_stride = 0x80000000,
    .hbm_base = 0,
    .sync_base = 0x2802700000, /* G */

    .layouts = &kymo_layouts_trn3,
};
