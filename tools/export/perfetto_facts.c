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

const char *const perfetto_groups[] = {NOTES, CORE, DMA, QUEUES, HOST, CC, COUNTERS, MEMORY, SYSTEM, NULL};

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
     .args = "op_id algorithm dtype num_elements input_size output_size bus_bandwidth replica_group trigger_engine"},
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
     .args = "id trace_event_source thread_id nc_idx worker_gid extra_attributes_json"},
    {0},
};

/* The first ten are the viewer's tracks by their names. */
const struct perfetto_counter perfetto_counters[] = {
    {"FlopsUsage", "mfu_instant_percent", NULL, "Estimated Instant MFU", "%", COUNTERS},
    {"FlopsUsage", "mfu_cumulative_percent", NULL, "Estimated Cumulative MFU", "%", COUNTERS},
    {"FlopsUsage", "hfu_instant_percent", NULL, "Estimated Instant HFU", "%", COUNTERS},
    {"FlopsUsage", "hfu_cumulative_percent", NULL, "Estimated Cumulative HFU", "%", COUNTERS},
    {"DmaUsage", "current_throughput", NULL, "DMA Throughput", "B/s", COUNTERS},
    {"DmaUsage", "total_transfer_bytes", "timestamp", "Cumulative DMA Throughput", "B/s", COUNTERS},
    {"HbmUsage", "current_throughput", NULL, "HBM Throughput", "B/s", COUNTERS},
    {"HbmUsage", "total_transfer_bytes", "timestamp", "Cumulative HBM Throughput", "B/s", COUNTERS},
    {"HostDmaUsage", "current_throughput", NULL, "Host-Device DMA Throughput", "B/s", COUNTERS},
    {"HostDmaUsage", "total_transfer_bytes", "timestamp", "Cumulative Host-Device DMA Throughput", "B/s", COUNTERS},
    {"PendingDma", "value", NULL, "Pending DMA", "transfers", COUNTERS},
    {"SbufUsage", "avg_util_percent", NULL, "SBUF Usage", "%", MEMORY},
    {"PsumUsage", "avg_util_percent", NULL, "PSUM Usage", "%", MEMORY},
    {"CpuUsage", "util_percent", NULL, NULL, "%", SYSTEM},
    {"HostMemUsage", "used_bytes", NULL, NULL, "bytes", SYSTEM},
    {"SystemProfileHbmUsage", "total_bytes", NULL, NULL, "bytes", SYSTEM},
    {0},
};
