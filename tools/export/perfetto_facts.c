#include "tools/export/perfetto_facts.h"

#include <stddef.h>

#define CORE "NeuronCore"
#define DMA "DMA"
#define QUEUES "DMA transfers by queue"
#define HOST "Host-device DMA"
#define CC "Collectives"
#define COUNTERS "Throughput and utilization"
#define MEMORY "On-chip memory"
#define NOTES "Warnings and notices"
#define SYSTEM "System"
#define SAMPLES "Processors and memory"

const char *const perfetto_groups[] = {NOTES, CORE, DMA, QUEUES, HOST, CC, COUNTERS, MEMORY, SYSTEM, SAMPLES, NULL};

const struct perfetto_events perfetto_events[] = {
    {.table = "ExecutionInfo",
     .group = NOTES,
     .name = "neff_name",
     .name_columns = "neff_name",
     .args = "execution_index num_subgraphs row_count"},
    {.table = "TimelineWarning",
     .group = NOTES,
     .name = "label",
     .name_columns = "label",
     .args = "kind count details"},
    {.table = "Throttle",
     .group = NOTES,
     .name = "type || ' ' || k || '/' || n",
     .name_columns = "type k n",
     .duration = "duration",
     .args = "k n type"},
    {.table = "Error",
     .group = NOTES,
     .name = "coalesce(nullif(description, ''), type)",
     .name_columns = "description type",
     .args = "type error_type_id metadata metadata_hex"},
    {.table = "Instruction",
     .group = CORE,
     .name = "coalesce(nullif(opcode, ''), 'pc ' || pc)",
     .name_columns = "opcode pc",
     .args = "id pc operands symbolic_operands compiler_opcode evt_wait_time_ns layer hlo_name bir_instruction_name "
             "nki_source_location operator nki_region tensor_instruction_type",
     .flow = "instruction"},
    {.table = "CoreBarriers",
     .group = CORE,
     .name = "'barrier ' || id",
     .name_columns = "id",
     .args = "engine_name semaphore compiler_opcode"},
    {.table = "DmaPacket",
     .group = DMA,
     .name = "coalesce(nullif(variable, ''), queue_name)",
     .name_columns = "variable queue_name",
     .args = "id packet_aggregation_id queue_name queue_type transfer_bytes"},
    {.table = "DmaPacketAggregated",
     .group = QUEUES,
     .name = "coalesce(nullif(variable, ''), nullif(op, ''), queue_name)",
     .name_columns = "variable op queue_name",
     .args = "id block_id queue_name queue_type op variable transfer_bytes source dest",
     .flow = "dma_block"},
    {.table = "HostDmaTransfer",
     .group = HOST,
     .name = "coalesce(traffic, direction, 'transfer')",
     .name_columns = "traffic direction",
     .args = "id queue_idx direction transfer_bytes"},
    {.table = "CcOp",
     .group = CC,
     .name = "operation",
     .name_columns = "operation",
     .args = "id op_id algorithm dtype num_elements input_size output_size bus_bandwidth replica_group trigger_engine",
     .flow = "cc_op"},
    {.table = "CcInstruction",
     .group = CC,
     .name = "coalesce(nullif(description, ''), 'instruction')",
     .name_columns = "description",
     .args = "id pc op_id stream_id trigger_engine"},
    {.table = "SemaphoreUpdate",
     .group = "Semaphores",
     .name = "update_operation_type || ' ' || value",
     .name_columns = "update_operation_type value",
     .args = "update_source value",
     .unusual = true},
    {.table = "SystemProfileEvents",
     .group = SYSTEM,
     .name = "name",
     .name_columns = "name",
     .args = "id trace_event_source instance_id process_id thread_id nc_idx pcore_idx worker_gid flow_id "
             "framework_stream_id transfer_bytes extra_attributes_json",
     .points = "flow_id"},
    {0},
};

#define HBM_CLASS(class)                                                                                               \
    {                                                                                                                  \
        "SystemProfileHbmUsage", class "_bytes", NULL, NULL, "bytes", SAMPLES, class                                   \
    }

/* The first ten are the viewer's tracks by their names. */
const struct perfetto_counter perfetto_counters[] = {
    {"FlopsUsage", "mfu_instant_percent", NULL, "Estimated Instant MFU", "%", COUNTERS, NULL},
    {"FlopsUsage", "mfu_cumulative_percent", NULL, "Estimated Cumulative MFU", "%", COUNTERS, NULL},
    {"FlopsUsage", "hfu_instant_percent", NULL, "Estimated Instant HFU", "%", COUNTERS, NULL},
    {"FlopsUsage", "hfu_cumulative_percent", NULL, "Estimated Cumulative HFU", "%", COUNTERS, NULL},
    {"DmaUsage", "current_throughput", NULL, "DMA Throughput", "B/s", COUNTERS, NULL},
    {"DmaUsage", "total_transfer_bytes", "timestamp", "Cumulative DMA Throughput", "B/s", COUNTERS, NULL},
    {"HbmUsage", "current_throughput", NULL, "HBM Throughput", "B/s", COUNTERS, NULL},
    {"HbmUsage", "total_transfer_bytes", "timestamp", "Cumulative HBM Throughput", "B/s", COUNTERS, NULL},
    {"HostDmaUsage", "current_throughput", NULL, "Host-Device DMA Throughput", "B/s", COUNTERS, NULL},
    {"HostDmaUsage", "total_transfer_bytes", "timestamp", "Cumulative Host-Device DMA Throughput", "B/s", COUNTERS,
     NULL},
    {"PendingDma", "value", NULL, "Pending DMA", "transfers", COUNTERS, NULL},
    {"SbufUsage", "avg_util_percent", NULL, "SBUF Usage", "%", MEMORY, NULL},
    {"PsumUsage", "avg_util_percent", NULL, "PSUM Usage", "%", MEMORY, NULL},
    {"CpuUsage", "util_percent", NULL, NULL, "%", SAMPLES, NULL},
    {"HostMemUsage", "used_bytes", NULL, NULL, "bytes", SAMPLES, NULL},
    {"SystemProfileHbmUsage", "total_bytes", NULL, NULL, "bytes", SAMPLES, NULL},
    HBM_CLASS("generic"),
    HBM_CLASS("tensor_instructions"),
    HBM_CLASS("scalar_instructions"),
    HBM_CLASS("gpsimd_instructions"),
    HBM_CLASS("io"),
    HBM_CLASS("dram_spill"),
    HBM_CLASS("weights"),
    HBM_CLASS("profiler_buffers"),
    HBM_CLASS("scalar_table"),
    HBM_CLASS("vector_instructions"),
    HBM_CLASS("sync_instructions"),
    HBM_CLASS("shared_scratchpad"),
    HBM_CLASS("tensors"),
    HBM_CLASS("ucode_lib"),
    HBM_CLASS("gpsimd_stdio"),
    HBM_CLASS("collectives"),
    HBM_CLASS("scratchpad"),
    HBM_CLASS("dma_rings_runtime"),
    HBM_CLASS("dma_rings_spill"),
    HBM_CLASS("dma_rings_io"),
    HBM_CLASS("dma_rings_collectives"),
    HBM_CLASS("unknown"),
    {0},
};
